//! Congestion control of one path. What decides *that* data was acknowledged or lost lives in
//! `send` and `path::flight`; here these facts become a window. One algorithm per file.
//!
//! ```text
//!   facts (Acked, losses) ──> Congestion ──> Controller: how far to widen, how deep to cut
//!                                 └────────> Window: cwnd, ssthresh, slow start (shared by all)
//! ```
//!
//! * `rfc9260` - each path by itself, as RFC 9260 section 7.2 says.
//! * `rfc2960` - the same with the lower floor of RFC 2960, for comparisons.
//! * `cubic` - CUBIC (RFC 9438) on each path by itself.
//! * `bbr` - BBRv3, a model of the path instead of a window that losses cut.
//! * `rpv1`, `rpv2` - resource pooling: coupled slow start, avoidance and cut.
//! * `lia`, `olia` - linked increases: coupled avoidance.
//! * `custom` - a control that is not the engine's own.
//! * `group` - what the coupled ones know of the other paths.
//! * `hystart` - the end of the first slow start (RFC 9406), for all of them.
//! * `backlog` - the bound on what waits in the queue of the path, for all of them.
//! * `deference` - a path that gives way to another one behind the same bottleneck, for all of them.
//! * `overshoot` - how far slow start may go ahead, where that bound holds.

mod backlog;
mod bbr;
#[allow(clippy::module_inception, reason = "the type that the module is about")]
mod congestion;
mod cubic;
mod custom;
mod deference;
mod group;
mod hystart;
#[cfg(test)]
mod identities;
mod lia;
mod name;
mod olia;
mod overshoot;
mod rfc2960;
mod rfc9260;
mod rpv1;
mod rpv2;
#[cfg(test)]
mod testing;
mod window;

pub(crate) use congestion::Congestion;
pub(crate) use group::Group;
pub(crate) use window::Window;

use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use bbr::Bbr;
use group::{Share, Standing};

/// Data of this path that one SACK acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Acked {
    /// When.
    pub now: Instant,
    /// Bytes newly acknowledged: chunk headers and padding included.
    pub bytes: usize,
    /// Whether the path's (pseudo-)cumulative acknowledgement moved (CUC, `flight::cuc`).
    pub advanced: bool,
    /// Whether the window was used up when the acknowledged data was under way.
    pub window_used: bool,
    /// Whether the path is in fast recovery.
    pub recovering: bool,
    /// Bytes in flight now.
    pub in_flight: usize,
    /// Largest transmission number newly acknowledged, if it is not ambiguous.
    pub newest: Option<u64>,
    /// Transmissions made so far.
    pub sent: u64,
    /// The round-trip time, if it was measured.
    pub rtt: Option<Duration>,
    /// The smoothed round-trip time, once measured.
    pub srtt: Option<Duration>,
    /// The shortest round-trip time ever measured.
    pub least_rtt: Option<Duration>,
}

/// A DATA chunk leaves on the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Departure {
    /// When.
    pub now: Instant,
    /// Its number among all transmissions of the path.
    pub number: u64,
    /// Bytes with header and padding.
    pub bytes: usize,
    /// Bytes in flight without it.
    pub in_flight: usize,
}

/// What sets the window.
#[derive(Debug)]
pub(crate) enum Algorithm {
    /// It grows until something is lost.
    Window(Box<dyn Controller>),
    /// It follows from a model of the path.
    Model(Box<Bbr>),
}

/// An algorithm: how the window of a path grows beyond the slow start threshold, and what is left
/// of it after a loss.
pub(crate) trait Controller: core::fmt::Debug + Send + Sync {
    /// The path's part of what a slow start alone would add.
    fn share(&self, _standing: &Standing<'_>) -> Share {
        Share::ALL
    }

    /// A SACK acknowledged data while the window was above the slow start threshold: a chunk per window
    /// (RFC 9260 section 7.2.2), or the path's part of one.
    fn avoid_congestion(&mut self, window: &mut Window, acked: &Acked, standing: &Standing<'_>) {
        if window.completes(acked) {
            window.cwnd += self.share(standing).of(window.chunk_limit);
        }
    }

    /// The new slow start threshold after a loss: half of the window (RFC 9260 section 7.2.3). There is
    /// one loss per window, or T3-rtx has expired.
    fn on_loss(&mut self, window: &Window, _standing: &Standing<'_>) -> usize {
        window.halved()
    }

    /// T3-rtx has expired: the window begins anew in slow start, up to what [`Self::on_loss`] has said.
    fn on_timeout(&mut self) {}

    /// The path was idle, its window has decayed.
    fn on_idle(&mut self) {}

    /// The window has become another one because of what waits in the queue, which is no loss.
    fn on_reset(&mut self, _window: &Window) {}
}
