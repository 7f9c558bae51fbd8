//! How large the send buffer is: it follows the congestion windows and the slowest path.
//!
//! What is in flight waits in the buffer for its acknowledgement, and what was acknowledged beyond a gap until the gap is
//! filled. A chunk on the slowest path is such a gap for a round trip of that path, in which the others go on:
//!
//! ```text
//! buffer = 2 x sum over the paths of (cwnd x round trip of the slowest path / round trip)
//! ```
//!
//! Twice, so that every path can be full also during a recovery; more would only be a queue.

use super::sender::Sender;
use crate::config::Config;
use crate::path::{Path, Paths};
use crate::time::Duration;

/// The size of the send buffer, and its bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct BufferSize {
    least: usize,
    most: usize,
    /// As large as it is now.
    pub(super) limit: usize,
}

impl BufferSize {
    pub(super) fn new(config: &Config) -> Self {
        let least = config.send_buffer as usize;
        Self { least, most: least.max(config.send_buffer_max as usize), limit: least }
    }

    /// As large as it may get.
    pub(super) fn most(self) -> usize {
        self.most
    }

    /// What suits congestion windows of `windows` bytes together.
    fn fitting(self, windows: usize) -> usize {
        windows.saturating_mul(2).clamp(self.least, self.most)
    }
}

impl Sender {
    /// Fits the buffer to the congestion windows, which have changed.
    pub(super) fn fit_buffer(&mut self, paths: &Paths) {
        if self.size.least < self.size.most {
            let slowest = paths.iter().filter_map(|path| path.rtt().smoothed()).max();
            let windows = paths.iter().map(|path| stretched(path, slowest.unwrap_or_default()));
            self.size.limit = self.size.fitting(windows.fold(0, usize::saturating_add));
        }
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
    use super::BufferSize;
    use crate::config::Config;

    #[test]
    fn the_buffer_is_twice_the_congestion_windows_within_its_bounds() {
        let config =
            |send_buffer_max| Config { send_buffer: 10_000, send_buffer_max, ..Config::default() };
        let size = BufferSize::new(&config(50_000));
        let sizes = [0, 5_000, 8_000, 25_000, 1 << 30].map(|windows| size.fitting(windows));
        assert_eq!(sizes, [10_000, 10_000, 16_000, 50_000, 50_000]);
        assert_eq!(BufferSize::new(&config(0)).fitting(1 << 30), 10_000);
    }
}
