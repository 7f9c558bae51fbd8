//! What limits a transfer, by what both ends say of it.

use manypath_control::path::IdleReason;
use serde::Serialize;

/// A stack that works for this part of the time can do no more: it has one thread for everything.
const BUSY: f64 = 0.85;
/// Losses of this part of the packets are more than full queues cause.
const LOSSY: f64 = 0.02;

/// What limits it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Limit {
    /// The processor of this host.
    Processor,
    /// The processor of the peer.
    PeerProcessor,
    /// Packets are lost.
    Loss,
    /// The window of the receiver, or the share of it that slow paths leave.
    Window,
    /// The sender had nothing to send.
    Sender,
    /// The paths carry no more.
    PathRate,
}

impl Limit {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Processor => "this processor",
            Self::PeerProcessor => "peer's processor",
            Self::Loss => "loss",
            Self::Window => "window",
            Self::Sender => "sender",
            Self::PathRate => "path rate",
        }
    }
}

/// What is known of a transfer.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// The part of the time for which the stack of this host has worked.
    pub(super) busy: f64,
    /// The same of the peer's, where that has one loop.
    pub(super) peer_busy: Option<f64>,
    /// The part of the sender's packets that were sent again.
    pub(super) lost: Option<f64>,
    /// Why paths of the sender were idle whenever one looked.
    pub(super) idle: Vec<IdleReason>,
}

impl Facts {
    pub(super) fn limit(&self) -> Limit {
        use IdleReason as R;
        let more_than_half = |reasons: &[R]| {
            let count = self.idle.iter().filter(|it| reasons.contains(it)).count();
            count * 2 > self.idle.len()
        };
        match () {
            () if self.busy >= BUSY => Limit::Processor,
            () if self.peer_busy.is_some_and(|busy| busy >= BUSY) => Limit::PeerProcessor,
            () if self.lost.is_some_and(|lost| lost >= LOSSY) => Limit::Loss,
            () if more_than_half(&[R::ReceiveWindow, R::BufferShare]) => Limit::Window,
            () if more_than_half(&[R::NoData]) => Limit::Sender,
            () => Limit::PathRate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_limit_is_named() {
        use IdleReason as R;
        let idle = |reasons: &[R]| Facts { idle: reasons.to_vec(), ..Facts::default() };
        let full = idle(&[R::CongestionWindow, R::NoData, R::CongestionWindow]);
        assert_eq!(full.limit(), Limit::PathRate);
        assert_eq!(idle(&[]).limit(), Limit::PathRate);
        let window = idle(&[R::ReceiveWindow, R::BufferShare, R::NoData]);
        assert_eq!(window.limit(), Limit::Window);
        assert_eq!(idle(&[R::NoData, R::NoData, R::Burst]).limit(), Limit::Sender);
        let lossy = Facts { lost: Some(0.03), ..window };
        assert_eq!(lossy.limit(), Limit::Loss);
        assert_eq!(Facts { peer_busy: Some(0.9), ..lossy.clone() }.limit(), Limit::PeerProcessor);
        assert_eq!(Facts { busy: 0.99, ..lossy }.limit(), Limit::Processor);
    }
}
