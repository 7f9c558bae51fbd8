//! Chunks with user data that were sent.

use super::Sender;
use super::queue::Fragment;

/// How many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DataCounts {
    /// For the first time, of ordered messages.
    pub(crate) ordered: u64,
    /// For the first time, of unordered messages.
    pub(crate) unordered: u64,
    /// Again, or on a second path.
    pub(crate) repeated: u64,
}

impl DataCounts {
    pub(crate) fn all(self) -> u64 {
        self.ordered + self.unordered + self.repeated
    }

    pub(super) fn on_new(&mut self, fragment: &Fragment) {
        let count = if fragment.unordered { &mut self.unordered } else { &mut self.ordered };
        *count += 1;
    }
}

impl Sender {
    /// What was sent.
    pub(crate) fn counts(&self) -> DataCounts {
        self.counts
    }
}
