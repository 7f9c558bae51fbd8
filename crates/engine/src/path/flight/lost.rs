//! What a path has lost and nobody has repeated yet.

use crate::tsn::Tsn64;
use alloc::collections::BTreeSet;

/// Chunks that were sent last on one path and are to be sent again.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// Found by missing reports.
    pub(crate) reported: BTreeSet<Tsn64>,
    /// T3-rtx expired, or the path was given up.
    pub(crate) timed_out: BTreeSet<Tsn64>,
}

impl Lost {
    /// Forgets `tsn`; it was acknowledged or is on its way again.
    pub(crate) fn remove(&mut self, tsn: Tsn64) {
        if !self.reported.remove(&tsn) {
            self.timed_out.remove(&tsn);
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.reported.is_empty() && self.timed_out.is_empty()
    }
}
