//! The send buffer: how large it is, and how much user data it holds until the peer has it for good. Whoever accepts
//! data takes room and whoever lets data go gives it back; nothing else is known of messages here.
//!
//! Its size follows the congestion windows and the slowest path. What is in flight waits in the buffer for its
//! acknowledgement, and what was acknowledged beyond a gap until the gap is filled. A chunk on the slowest path is such
//! a gap for a round trip of that path, in which the others go on:
//!
//! ```text
//! buffer = 2 x sum over the paths of (cwnd x round trip of the slowest path / round trip)
//! ```
//!
//! Twice, so that every path can be full also during a recovery; more would only be a queue.

use crate::config::Config;
use crate::path::{Path, Paths};
use crate::time::Duration;

/// Every message or chunk that is held counts for at least so many bytes of the send buffer, so
/// that tiny messages cannot fill many times the buffer with bookkeeping.
const LEAST_CHARGE: usize = 64;

/// The send buffer. Sizes are bytes of user data.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    least: usize,
    most: usize,
    /// As large as it is now.
    limit: usize,
    /// Accepted and not acknowledged for good.
    used: usize,
}

impl SendBuffer {
    /// Nothing is held.
    pub(super) fn new(config: &Config) -> Self {
        let least = config.send_buffer as usize;
        Self { least, most: least.max(config.send_buffer_max as usize), limit: least, used: 0 }
    }

    /// As large as it is now.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// As large as it may get.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// What is held.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Whether all that was accepted has been acknowledged for good or given up.
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Accepts `bytes`.
    pub(super) fn take(&mut self, bytes: usize) {
        self.used += bytes;
    }

    /// Lets `bytes` go.
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Size of the largest message that it has room for while `held` messages and chunks are held.
    pub(super) fn space(&self, held: usize) -> usize {
        if self.has_slot(held) { self.limit.saturating_sub(self.used) } else { 0 }
    }

    /// Whether the bookkeeping of one more message or chunk has room besides that of `held`.
    pub(super) fn has_slot(&self, held: usize) -> bool {
        held * LEAST_CHARGE < self.limit
    }

    /// How much must be let go so that it has room for `len` bytes more.
    pub(super) fn lack(&self, len: usize) -> usize {
        (self.used + len).saturating_sub(self.limit)
    }

    /// Fits its size to the congestion windows, which have changed.
    pub(super) fn fit(&mut self, paths: &Paths) {
        if self.least < self.most {
            let slowest = paths.iter().filter_map(|path| path.rtt().smoothed()).max();
            let windows = paths.iter().map(|path| stretched(path, slowest.unwrap_or_default()));
            self.limit = self.fitting(windows.fold(0, usize::saturating_add));
        }
    }

    /// What suits congestion windows of `windows` bytes together.
    fn fitting(&self, windows: usize) -> usize {
        windows.saturating_mul(2).clamp(self.least, self.most)
    }

    #[cfg(test)]
    pub(super) fn resize(&mut self, limit: usize) {
        self.limit = limit;
    }
}

/// What the path sends in a round trip of the slowest one.
fn stretched(path: &Path, slowest: Duration) -> usize {
    let window = path.congestion().window() as u128;
    let round_trip = path.rtt().smoothed().unwrap_or(slowest).as_nanos().max(1);
    usize::try_from(window * slowest.as_nanos().max(round_trip) / round_trip).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::SendBuffer;
    use crate::config::Config;

    #[test]
    fn the_buffer_is_twice_the_congestion_windows_within_its_bounds() {
        let config =
            |send_buffer_max| Config { send_buffer: 10_000, send_buffer_max, ..Config::default() };
        let buffer = SendBuffer::new(&config(50_000));
        let sizes = [0, 5_000, 8_000, 25_000, 1 << 30].map(|windows| buffer.fitting(windows));
        assert_eq!(sizes, [10_000, 10_000, 16_000, 50_000, 50_000]);
        assert_eq!(SendBuffer::new(&config(0)).fitting(1 << 30), 10_000);
    }
}
