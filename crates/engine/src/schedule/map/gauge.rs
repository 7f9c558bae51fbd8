//! What a path carries and loses, measured while it carries all it may.

use crate::path::Path;
use crate::time::{Duration, Instant};

/// Samples that are remembered: the rate is the largest of them.
const SAMPLES: usize = 6;
/// Samples in full use before the path is known to carry no more: one that begins is slow at first.
const LEAST: usize = 3;
/// Least time of a sample.
const SPAN: Duration = Duration::from_millis(100);
/// What a sample counts for as loss at most, in thousandths: a queue that overflows is no lossy path.
const MOST_LOSS: u64 = 50;

/// The rate and the loss of one path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauge {
    samples: [u64; SAMPLES],
    taken: usize,
    /// Those of them that were taken while the path was used in full.
    in_full_use: usize,
    /// Thousandths of its packets that were lost, in thousandths.
    loss: u64,
    /// When the sample began, and what had happened by then.
    since: Instant,
    before: Counts,
}

#[derive(Clone, Copy, Debug)]
struct Counts {
    acked: u64,
    sent: u64,
    lost: u64,
}

impl Counts {
    fn of(path: &Path) -> Self {
        let lost = path.stats.fast_retransmits + path.stats.timeout_retransmits;
        Self { acked: path.stats.bytes_acked, sent: path.stats.packets_sent, lost }
    }
}

impl Gauge {
    pub(crate) fn new(now: Instant, path: &Path) -> Self {
        let before = Counts::of(path);
        Self { samples: [0; SAMPLES], taken: 0, in_full_use: 0, loss: 0, since: now, before }
    }

    /// Bytes per second; `None` before the first sample.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.samples.iter().copied().max().filter(|rate| *rate > 0)
    }

    /// Whether it is known that the path carries no more than the rate.
    pub(crate) fn is_sure(&self) -> bool {
        self.in_full_use >= LEAST
    }

    /// Percent of its packets that are lost.
    pub(crate) fn loss_percent(&self) -> u32 {
        (self.loss / 10_000) as u32
    }

    /// Whether a sample is complete.
    pub(crate) fn is_due(&self, now: Instant, path: &Path) -> bool {
        // Queues make round trips longer, but not what comes out of them.
        let round_trip = path.rtt.least_of_data().or(path.rtt.least()).unwrap_or(SPAN);
        now.since(self.since) >= SPAN.max(round_trip * 3)
    }

    /// Completes the sample. If the path was not used in full, it only counts if it is larger
    /// than what is known.
    pub(crate) fn sample(&mut self, now: Instant, path: &Path) {
        let nanos = now.since(self.since).as_nanos().max(1);
        let counts = Counts::of(path);
        let acked = counts.acked - self.before.acked;
        let rate = u128::from(acked) * 1_000_000_000 / nanos;
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let limited = path.share_filled.is_some_and(|filled| filled >= self.since);
        let limited = limited && rate > 0;
        if limited || self.rate().is_none_or(|known| rate > known) {
            self.samples[self.taken % SAMPLES] = rate;
            self.taken += usize::from(rate > 0);
            self.in_full_use += usize::from(limited);
        }
        if counts.sent > self.before.sent {
            let lost = (counts.lost - self.before.lost) * 1000 / (counts.sent - self.before.sent);
            self.loss = (self.loss * 7 + lost.min(MOST_LOSS) * 1000) / 8;
        }
        (self.since, self.before) = (now, counts);
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

    #[test]
    fn what_a_path_carries_at_most_is_known_when_it_was_used_in_full_for_a_while() {
        let (mut paths, _) = measured(&[20]);
        let path = paths.iter_mut().next().unwrap();
        let mut gauge = Gauge::new(Instant::ZERO, path);
        let mut sample = |limited: bool| {
            path.stats.bytes_acked += 1000;
            path.share_filled = limited.then_some(Instant::ZERO);
            gauge.sample(Instant::ZERO, path);
            gauge.is_sure()
        };
        assert_eq!([false, false, false, true, true].map(&mut sample), [false; 5]);
        assert_eq!([true, false].map(&mut sample), [true; 2]);
    }

    #[test]
    fn loss_is_what_happens_again_and_again() {
        let (mut paths, _) = measured(&[20]);
        let path = paths.iter_mut().next().unwrap();
        let mut gauge = Gauge::new(Instant::ZERO, path);
        let mut sample = |lost: u64| {
            path.stats.packets_sent += 100;
            path.stats.fast_retransmits += lost;
            gauge.sample(Instant::ZERO, path);
            gauge.loss_percent()
        };
        assert_eq!([60, 0, 0].map(&mut sample), [0, 0, 0]);
        let steady = [2; 24].map(&mut sample);
        assert_eq!(steady[4..12].iter().max(), Some(&1));
        assert_eq!(steady[23], 1);
        assert_eq!([3; 24].map(&mut sample)[23], 2);
    }
}
