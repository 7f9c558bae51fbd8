//! The receive memory of one association and how much of it is promised.

use crate::INITIAL_CREDIT;

/// How much receive memory is promised, against how much there is.
#[derive(Debug)]
pub(super) struct Budget {
    limit: u64,
    promised: u64,
}

impl Budget {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, promised: 0 }
    }

    pub(super) fn promised(&self) -> u64 {
        self.promised
    }

    /// A promise of `before` bytes has become one of `after` bytes.
    pub(super) fn replace(&mut self, before: u64, after: u64) {
        self.promised = self.promised - before + after;
    }

    /// What windows may grow into; the rest is kept for flows to come.
    fn for_growth(&self) -> u64 {
        self.limit / 4 * 3
    }

    /// Whether a window may grow by `more`.
    pub(super) fn may_grow(&self, more: u32) -> bool {
        self.promised + u64::from(more) <= self.for_growth()
    }

    /// Whether new flows have begun to use what is kept for them.
    pub(super) fn is_tight(&self) -> bool {
        self.promised > self.for_growth()
    }

    /// Whether a new flow can be promised the least there is.
    pub(super) fn may_begin(&self) -> bool {
        self.promised + u64::from(INITIAL_CREDIT) <= self.limit
    }
}
