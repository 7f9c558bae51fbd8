//! Where a stack stands between its begin and its end.
//!
//! ```text
//! Running ──▶ Draining (nothing new, flows run on) ──▶ Closing (associations shut down) ──▶ over
//!                      └── no progress, or told twice ──▶ everything is reset
//! ```

use manypath_engine::{Duration, Instant};

/// Where the stack stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Running,
    /// Nothing new is taken; flows run on.
    Draining(Drain),
    /// No flow is left; associations are being shut down until then.
    Closing(Instant),
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Drain {
    /// How long nothing may move.
    patience: Duration,
    pub(crate) cause: Cause,
    last_progress: Instant,
    mark: u64,
}

/// Why the stack drains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// Whom it serves has gone. Bytes that move prolong it.
    Deserted,
    /// A signal asked it to stop.
    Told,
    /// Another process has taken over; peers may still open connections on the associations that there are.
    Succeeded,
}

impl Drain {
    /// `mark` changes whenever a byte has moved.
    pub(crate) const fn begin(now: Instant, patience: Duration, cause: Cause, mark: u64) -> Self {
        Self { patience, cause, last_progress: now, mark }
    }

    /// Whether nothing may be waited for any more.
    pub(crate) fn is_over(&mut self, now: Instant, mark: u64) -> bool {
        if mark != self.mark && self.cause == Cause::Deserted {
            (self.mark, self.last_progress) = (mark, now);
        }
        now.since(self.last_progress) >= self.patience
    }

    /// Nobody has told the stack to end; it only has nothing to do.
    pub(crate) const fn is_idle(self) -> bool {
        matches!(self.cause, Cause::Deserted)
    }
}

impl Phase {
    pub(crate) const fn takes_work(self) -> bool {
        matches!(self, Self::Running)
    }

    /// Whether another process has taken over.
    pub(crate) const fn is_succeeded(&self) -> bool {
        matches!(self, Self::Draining(Drain { cause: Cause::Succeeded, .. }))
    }

    /// Whether what peers ask for on their associations is done.
    pub(crate) const fn serves_peers(&self) -> bool {
        matches!(self, Self::Running) || self.is_succeeded()
    }

    pub(crate) const fn is_over(&self) -> bool {
        matches!(self, Self::Over)
    }
}
