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

use crate::config::{BufferSplit, SplitMeasure, SplitShares, SplitSides};
use crate::path::{Path, PathSet, Paths};

/// The buffers that are shared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffers {
    /// The send buffer.
    pub(super) send: usize,
    /// The peer's window as far as it is not used, and what is in flight.
    pub(super) receive: usize,
}

impl BufferSplit {
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
            SplitMeasure::Outstanding => path.in_flight(),
            SplitMeasure::Queued => path.flight().booked(),
        };
        let share = |of| self.share(path, paths, usable, of);
        let mtu = usize::from(path.search().mtu());
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
                let sum: usize = paths.among(usable).map(|path| path.congestion().window()).sum();
                let share = of as u128 * path.congestion().window() as u128 / sum.max(1) as u128;
                usize::try_from(share).unwrap_or(of).max(2 * usize::from(path.search().mtu()))
            }
        }
    }
}
