//! What a path has lost and nobody has repeated yet.

use crate::tsn::Tsn64;
use alloc::collections::BTreeSet;

/// How a chunk was found to be lost; decides which path repeats it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// By what arrived after it.
    Reported,
    /// By T3-rtx, or with its path.
    TimedOut,
}

/// Chunks that were sent last on one path and are to be sent again.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    reported: BTreeSet<Tsn64>,
    timed_out: BTreeSet<Tsn64>,
}

impl Lost {
    /// Chunk `tsn` is to be sent again.
    pub(super) fn insert(&mut self, tsn: Tsn64, loss: Loss) {
        match loss {
            Loss::Reported => self.reported.insert(tsn),
            Loss::TimedOut => self.timed_out.insert(tsn),
        };
    }

    /// Forgets `tsn`; it was acknowledged or is on its way again. Returns whether it was
    /// [`Loss::Reported`].
    pub(super) fn remove(&mut self, tsn: Tsn64) -> bool {
        let reported = self.reported.remove(&tsn);
        if !reported {
            self.timed_out.remove(&tsn);
        }
        reported
    }

    /// Takes over what another path has lost: it goes on at once.
    pub(super) fn extend(&mut self, other: Self) {
        self.reported.extend(other.reported.into_iter().chain(other.timed_out));
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.reported.is_empty() && self.timed_out.is_empty()
    }

    /// Whether T3-rtx has shown that `tsn` is lost, or the end of its path.
    pub(crate) fn has_timed_out(&self, tsn: Tsn64) -> bool {
        self.timed_out.contains(&tsn)
    }

    /// The lowest TSN that was lost in this way.
    pub(crate) fn first(&self, loss: Loss) -> Option<Tsn64> {
        let set = match loss {
            Loss::Reported => &self.reported,
            Loss::TimedOut => &self.timed_out,
        };
        set.first().copied()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Tsn64> {
        self.reported.iter().chain(&self.timed_out).copied()
    }
}
