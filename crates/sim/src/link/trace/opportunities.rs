use super::{OPPORTUNITY_BYTES, Trace};
use manypath_engine::Instant;

const BYTES: usize = OPPORTUNITY_BYTES as usize;

/// A transmitter's place in its trace.
#[derive(Debug)]
pub(in crate::link) struct Opportunities {
    /// When the trace began.
    origin: Instant,
    /// Number of the next opportunity that nobody uses yet.
    next: u64,
    /// Bytes that the one before it can still carry.
    left: usize,
}

impl Opportunities {
    /// The trace begins at `origin`.
    pub(in crate::link) fn new(origin: Instant) -> Self {
        Self { origin, next: 0, left: 0 }
    }

    /// Nobody waited until `now`: the opportunities until then are lost, and what is left of the last.
    pub(in crate::link) fn skip_to(&mut self, trace: &Trace, now: Instant) {
        self.next = self.next.max(trace.count_until(now.since(self.origin)));
        self.left = 0;
    }

    /// Carries a packet of so many bytes; returns when its last byte leaves. `now` is when the packet
    /// before it left, or the time of [`Self::skip_to`].
    pub(in crate::link) fn carry(&mut self, trace: &Trace, now: Instant, bytes: usize) -> Instant {
        if bytes <= self.left {
            self.left -= bytes;
            return now;
        }
        let missing = bytes - self.left;
        let needed = missing.div_ceil(BYTES);
        self.next += needed as u64;
        self.left = needed * BYTES - missing;
        self.origin + trace.time_of(self.next - 1)
    }

    /// Bytes of the packet that is being carried, `bytes` long, that have not left by `now`.
    pub(in crate::link) fn unsent(&self, trace: &Trace, now: Instant, bytes: usize) -> usize {
        let passed = trace.count_until(now.since(self.origin));
        let to_come = usize::try_from(self.next.saturating_sub(passed)).unwrap_or(usize::MAX);
        to_come.saturating_mul(BYTES).saturating_sub(self.left).min(bytes)
    }
}
