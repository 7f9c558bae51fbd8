//! How large the receive buffer is: it doubles when half of it arrives within one round trip.
//!
//! A receiver cannot see what the paths could carry, only what they do; a sender in slow start doubles that each round trip, so its
//! window has to be ahead of it. Of its own round trips it knows those of what it has sent itself, heartbeats at least. As with the
//! right-sizing of TCP receivers (Fisk and Feng, 2001), nothing arrives faster than one window per round trip: when the
//! window is the limit, half of it has come well before a round trip is over.

use crate::time::{Duration, Instant};

/// The growth of one buffer.
#[derive(Debug, Default)]
pub(super) struct BufferGrowth {
    most: usize,
    since: Option<Instant>,
    arrived: usize,
}

impl BufferGrowth {
    /// Up to `most` bytes.
    pub(super) fn new(most: u32) -> Self {
        Self { most: most as usize, since: None, arrived: 0 }
    }

    /// `bytes` have arrived.
    pub(super) fn arrive(&mut self, bytes: usize) {
        self.arrived = self.arrived.saturating_add(bytes);
    }

    /// Whether a buffer of `size` bytes may be too small: half of it has arrived since that was asked last.
    pub(super) fn is_due(&self, size: usize) -> bool {
        size < self.most && self.arrived >= size / 2
    }

    /// The new size, if that was within a round trip. The first half only begins the measurement.
    pub(super) fn grown(
        &mut self,
        now: Instant,
        round_trip: Duration,
        size: usize,
    ) -> Option<usize> {
        let since = self.since.replace(now);
        self.arrived = 0;
        let fast = since.is_some_and(|since| now.since(since) <= round_trip);
        fast.then(|| size.saturating_mul(2).min(self.most))
    }
}
