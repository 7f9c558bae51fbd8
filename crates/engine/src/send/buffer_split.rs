//! Buffer splitting (Dreibholz et al. 2010; in draft-tuexen-tsvwg-sctp-multipath only a heading): no
//! path may occupy more than its share of the send buffer, or of the peer's receive window, so that
//! what waits behind a slow path leaves room for the fast ones.
//!
//! ```text
//! sender side:    B(p) + MTU <= share(p) of the send buffer
//! receiver side:  B(p)       <= share(p) of (peer's window + in flight)
//! ```
//!
//! Only new data is held back, never retransmissions. A path on which nothing is booked may always
//! take one chunk: with tiny buffers nothing would be sent at all otherwise.

use crate::names::UnknownName;
use crate::path::{Path, PathSet, Paths};
use core::fmt;
use core::str::FromStr;

/// Which buffers are split, by what and into what. Named `none`, or by its three parts:
/// `both-queued-equal`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferSplit {
    /// Whose buffers.
    pub sides: SplitSides,
    /// What of a path counts against its share.
    pub measure: SplitMeasure,
    /// How large the shares are.
    pub shares: SplitShares,
}

crate::names::named! {
    /// Whose buffers are split between the paths.
    pub enum SplitSides as "split buffer" {
        /// Nobody's.
        None = "none",
        /// The send buffer.
        Sender = "sender",
        /// The peer's receive window.
        Receiver = "receiver",
        /// Both.
        Both = "both",
    }
}

crate::names::named! {
    /// What of a path counts against its share.
    pub enum SplitMeasure as "measure of buffer splitting" {
        /// What is in flight on it.
        Outstanding = "outstanding",
        /// What was sent on it last and is not acknowledged for good (the paper's).
        Queued = "queued",
    }
}

crate::names::named! {
    /// How large the shares are.
    pub enum SplitShares as "share of buffer splitting" {
        /// One part of n of the paths that carry data.
        Equal = "equal",
        /// In proportion to the congestion windows: a path needs in the buffer what it has under
        /// way in a round trip. Never less than two packets.
        Proportional = "proportional",
    }
}

/// The buffers that are shared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffers {
    /// The send buffer.
    pub(super) send: usize,
    /// The peer's window as far as it is not used, and what is in flight.
    pub(super) receive: usize,
}

impl BufferSplit {
    /// No splitting.
    pub const NONE: Self =
        Self { sides: SplitSides::None, measure: SplitMeasure::Queued, shares: SplitShares::Equal };

    /// What can be written.
    pub const NAMES: &'static [&'static str] = &[
        "none",
        "sender-outstanding-equal",
        "sender-outstanding-proportional",
        "sender-queued-equal",
        "sender-queued-proportional",
        "receiver-outstanding-equal",
        "receiver-outstanding-proportional",
        "receiver-queued-equal",
        "receiver-queued-proportional",
        "both-outstanding-equal",
        "both-outstanding-proportional",
        "both-queued-equal",
        "both-queued-proportional",
    ];

    /// Whether `path` may take one more chunk of new data.
    pub(super) fn allows(
        self,
        path: &Path,
        paths: &Paths,
        usable: PathSet,
        buffers: Buffers,
    ) -> bool {
        let (sender, receiver) = match self.sides {
            SplitSides::None => return true,
            SplitSides::Sender => (true, false),
            SplitSides::Receiver => (false, true),
            SplitSides::Both => (true, true),
        };
        let used = match self.measure {
            SplitMeasure::Outstanding => path.flight(),
            SplitMeasure::Queued => path.booked(),
        };
        let share = |of| self.share(path, paths, usable, of);
        let mtu = usize::from(path.mtu());
        let fits = || {
            (!sender || used + mtu <= share(buffers.send))
                && (!receiver || used <= share(buffers.receive))
        };
        used == 0 || fits()
    }

    fn share(self, path: &Path, paths: &Paths, usable: PathSet, of: usize) -> usize {
        match self.shares {
            SplitShares::Equal => of / usable.len().max(1),
            SplitShares::Proportional => {
                let carrying = paths.iter().filter(|path| usable.contains(path.id()));
                let sum: usize = carrying.map(|path| path.congestion().window()).sum();
                let share = of as u128 * path.congestion().window() as u128 / sum.max(1) as u128;
                usize::try_from(share).unwrap_or(of).max(2 * usize::from(path.mtu()))
            }
        }
    }
}

impl fmt::Display for BufferSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sides, measure, shares } = self;
        match sides {
            SplitSides::None => write!(f, "{sides}"),
            SplitSides::Sender | SplitSides::Receiver | SplitSides::Both => {
                write!(f, "{sides}-{measure}-{shares}")
            }
        }
    }
}

impl FromStr for BufferSplit {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let parts = |name: &str| -> Option<Self> {
            let mut parts = name.split('-');
            let (sides, measure, shares) = (parts.next()?, parts.next()?, parts.next()?);
            let sides = sides.parse().ok().filter(|sides| *sides != SplitSides::None)?;
            let split =
                Self { sides, measure: measure.parse().ok()?, shares: shares.parse().ok()? };
            parts.next().is_none().then_some(split)
        };
        let found = if name == "none" { Some(Self::NONE) } else { parts(name) };
        found.ok_or_else(|| UnknownName {
            choice: "buffer split",
            name: name.into(),
            allowed: Self::NAMES,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::BufferSplit;
    use alloc::string::ToString;

    #[test]
    fn names_there_and_back() {
        for name in BufferSplit::NAMES {
            assert_eq!(name.parse::<BufferSplit>().unwrap().to_string(), *name);
        }
        for wrong in ["", "both", "none-queued-equal", "both-queued-equal-x", "Both-queued-equal"] {
            assert!(wrong.parse::<BufferSplit>().is_err(), "{wrong}");
        }
    }
}
