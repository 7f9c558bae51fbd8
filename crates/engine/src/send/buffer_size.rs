//! How large the send buffer is: it follows the congestion windows.
//!
//! What is in flight waits in the buffer for its acknowledgement, and beside it what was acknowledged beyond a
//! gap, for another round trip until the gap is filled. So twice the sum of the congestion windows lets every path be full also
//! during a recovery; more would only be a queue.

use super::sender::Sender;
use crate::config::Config;
use crate::path::Paths;

/// The bounds of the send buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct BufferSize {
    least: usize,
    most: usize,
}

impl BufferSize {
    pub(super) fn new(config: &Config) -> Self {
        let least = config.send_buffer as usize;
        Self { least, most: least.max(config.send_buffer_max as usize) }
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
            let windows = paths.iter().map(|path| path.congestion.window()).sum();
            self.limit = self.size.fitting(windows);
        }
    }
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
