//! Memory that many windows share, and each one's part of it.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Memory that many windows share. Clones are the same budget.
///
/// Two kinds of promises are made from it. The **least** of a window may take all of it, so that a channel
/// can begin as long as anything is left. **More** than that comes out of three quarters only, and no
/// window has more than
///
/// ```text
/// share = 2/3 x (3/4 x budget - what the other windows have)
/// ```
///
/// This is the dynamic threshold of shared switch buffers (Choudhury and Hahne, 1998: each queue may have twice what
/// is free) solved for the one who asks. It is fair without counting anybody's needs: windows that want
/// more than their share come to equal sizes, those that want less have what they want, one alone has
/// half of the budget, and something is always free for the next one. Windows that have more than
/// their share (because others came) fall back to it as they are consumed.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    limit: AtomicU64,
    promised: AtomicU64,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Pool { limit: AtomicU64::new(limit), promised: AtomicU64::new(0) }))
    }

    /// Bytes that there are.
    pub fn limit(&self) -> u64 {
        self.0.limit.load(Relaxed)
    }

    /// Changes what there is. If that is less than what is promised, windows shrink as they are
    /// consumed and nothing is promised before they have.
    pub fn set_limit(&self, limit: u64) {
        self.0.limit.store(limit, Relaxed);
    }

    /// Bytes promised to all windows together.
    pub fn promised(&self) -> u64 {
        self.0.promised.load(Relaxed)
    }

    /// Whether another window of `least` bytes can begin.
    pub fn has_room(&self, least: u64) -> bool {
        self.promised().saturating_add(least) <= self.limit()
    }

    /// Whether new windows have begun to use what is kept for them.
    pub fn is_tight(&self) -> bool {
        self.promised() > self.for_growth()
    }

    /// The largest size that a window can have now that has `own` bytes already.
    pub fn share(&self, own: u64) -> u64 {
        let others = self.promised().saturating_sub(own);
        self.for_growth().saturating_sub(others) / 3 * 2
    }

    fn for_growth(&self) -> u64 {
        self.limit() / 4 * 3
    }

    fn reserve(&self, bytes: u64, limit: u64) -> bool {
        let more = |promised: u64| promised.checked_add(bytes).filter(|sum| *sum <= limit);
        self.0.promised.fetch_update(Relaxed, Relaxed, more).is_ok()
    }
}

/// What one window has of a budget; given back when dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Budget,
    bytes: u64,
}

impl Charge {
    /// Nothing yet.
    pub(crate) fn new(budget: &Budget) -> Self {
        Self { budget: budget.clone(), bytes: 0 }
    }

    /// Bytes that it has.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The largest size that it can have now.
    pub(crate) fn share(&self) -> u64 {
        self.budget.share(self.bytes)
    }

    /// Takes what is missing to `bytes`, the least that a window begins with. False if there is
    /// not so much.
    pub(crate) fn begin(&mut self, bytes: u64) -> bool {
        self.raise(bytes, self.budget.limit())
    }

    /// Takes what is missing to `bytes` out of what is for growth. False if there is not so much.
    pub(crate) fn grow(&mut self, bytes: u64) -> bool {
        self.raise(bytes, self.budget.for_growth())
    }

    /// Gives back what it has beyond `bytes`.
    pub(crate) fn lower(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        self.bytes -= less;
        self.budget.0.promised.fetch_sub(less, Relaxed);
    }

    fn raise(&mut self, bytes: u64, limit: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let raised = more == 0 || self.budget.reserve(more, limit);
        if raised {
            self.bytes += more;
        }
        raised
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.lower(0);
    }
}
