//! What a path carries, measured while it carries all it may.

use crate::path::Path;
use crate::time::{Duration, Instant};

/// Samples that are remembered: the rate is the largest of them.
const SAMPLES: usize = 6;
/// Least time of a sample.
const SPAN: Duration = Duration::from_millis(100);

/// The rate of one path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauge {
    samples: [u64; SAMPLES],
    next: usize,
    /// When the sample began, and what had been acknowledged by then.
    since: Instant,
    acked: u64,
}

impl Gauge {
    pub(crate) fn new(now: Instant, path: &Path) -> Self {
        Self { samples: [0; SAMPLES], next: 0, since: now, acked: path.stats.bytes_acked }
    }

    /// Bytes per second; `None` before the first sample.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.samples.iter().copied().max().filter(|rate| *rate > 0)
    }

    /// Whether a sample is complete.
    pub(crate) fn is_due(&self, now: Instant, path: &Path) -> bool {
        let round_trip = path.rtt.smoothed().unwrap_or(SPAN);
        now.since(self.since) >= SPAN.max(round_trip * 3)
    }

    /// Completes the sample. If the path was not used in full, it only counts if it is larger
    /// than what is known.
    pub(crate) fn sample(&mut self, now: Instant, path: &Path) {
        let nanos = now.since(self.since).as_nanos().max(1);
        let acked = path.stats.bytes_acked - self.acked;
        let rate = u128::from(acked) * 1_000_000_000 / nanos;
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let limited = path.share_filled.is_some_and(|filled| filled >= self.since);
        if (limited && rate > 0) || self.rate().is_none_or(|known| rate > known) {
            self.samples[self.next] = rate;
            self.next = (self.next + 1) % SAMPLES;
        }
        (self.since, self.acked) = (now, path.stats.bytes_acked);
    }
}

#[cfg(test)]
mod tests {
    use super::{Gauge, SAMPLES};
    use crate::schedule::path::testing::measured;
    use crate::time::{Duration, Instant};
    use alloc::vec::Vec;

    /// A path of 20 ms carries so many bytes in each 100 ms, `limited` or not.
    fn rates(of: &[(u64, bool)]) -> Vec<Option<u64>> {
        let (mut paths, _) = measured(&[20]);
        let path = paths.iter_mut().next().unwrap();
        let mut now = Instant::ZERO;
        let mut gauge = Gauge::new(now, path);
        let sample = |(bytes, limited): &(u64, bool)| {
            now = now + Duration::from_millis(100);
            assert!(gauge.is_due(now, path));
            path.stats.bytes_acked += bytes;
            path.share_filled = limited.then_some(now).or(path.share_filled);
            gauge.sample(now, path);
            gauge.rate()
        };
        of.iter().map(sample).collect()
    }

    #[test]
    fn the_rate_is_the_largest_of_the_latest_samples() {
        let mut samples = alloc::vec![(0, true), (1000, true)];
        samples.extend([(500, true); SAMPLES]);
        let rates = rates(&samples);
        assert_eq!(rates[0], None);
        assert_eq!(rates[1..=SAMPLES], [Some(10_000); SAMPLES]);
        assert_eq!(rates[SAMPLES + 1], Some(5000));
    }

    #[test]
    fn a_path_that_was_not_used_in_full_is_not_known_to_carry_less() {
        let mut samples = alloc::vec![(1000, true)];
        samples.extend([(100, false); 2 * SAMPLES]);
        samples.push((1200, false));
        let rates = rates(&samples);
        assert!(rates[..=2 * SAMPLES].iter().all(|rate| *rate == Some(10_000)));
        assert_eq!(rates.last(), Some(&Some(12_000)));
    }
}
