//! What a path carries and loses, measured while it carries all it may, and what a round trip takes
//! without queues. The least round trip ever seen says nothing any more when the route has changed; but
//! what has become longer because of a queue of our own has not.

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

/// How long it is believed that a path carries no more than measured, and that its round trip without
/// queues has not changed.
const BELIEVED: Duration = Duration::from_secs(10);
/// The rate, the loss and the round trip of one path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauge {
    samples: [u64; SAMPLES],
    taken: usize,
    /// Those of them that were taken while the path was used in full.
    in_full_use: usize,
    /// It was its share that limited the last of these, not its window.
    by_share: bool,
    /// Until when it is believed that the path carries no more: it had a queue.
    full_until: Instant,
    /// Thousandths of its packets that were lost, in thousandths.
    loss: u64,
    trip: Trip,
    /// When the sample began, and what had happened by then.
    since: Instant,
    before: Counts,
}

/// The round trip of data without queues.
#[derive(Clone, Copy, Debug, Default)]
struct Trip {
    base: Option<Duration>,
    /// Since when all have been longer, and the least of them.
    longer: Option<(Instant, Duration)>,
}

#[derive(Clone, Copy, Debug)]
struct Counts {
    acked: u64,
    sent: u64,
    lost: u64,
}

impl Counts {
    fn of(path: &Path) -> Self {
        let stats = path.stats();
        let lost = stats.fast_retransmits + stats.timeout_retransmits;
        Self { acked: stats.bytes_acked, sent: stats.packets_sent, lost }
    }
}

impl Gauge {
    pub(crate) fn new(now: Instant, path: &Path) -> Self {
        Self {
            samples: [0; SAMPLES],
            taken: 0,
            in_full_use: 0,
            by_share: false,
            full_until: Instant::ZERO,
            loss: 0,
            trip: Trip::default(),
            since: now,
            before: Counts::of(path),
        }
    }

    /// Bytes per second; `None` before the first sample.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.samples.iter().copied().max().filter(|rate| *rate > 0)
    }

    /// Whether it is known that the path carries no more than the rate.
    pub(crate) fn is_sure(&self) -> bool {
        self.in_full_use >= LEAST
    }

    /// Whether the path may carry more than the rate: its share is all in flight and no queue grows. What
    /// a share allows must not be taken for what the path carries.
    pub(crate) fn may_carry_more(&self, now: Instant) -> bool {
        self.by_share && now >= self.full_until
    }

    /// How many of a million of its packets are lost.
    pub(crate) fn loss(&self) -> u64 {
        self.loss
    }

    /// What a round trip of data takes without queues.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.trip.base
    }

    /// Takes note of what round trips take.
    pub(crate) fn follow(&mut self, now: Instant, path: &Path) {
        let Some(latest) = path.rtt().latest() else { return };
        let base = self.round_trip().unwrap_or(latest);
        let carried = u128::from(self.rate().unwrap_or(0)) * base.as_nanos() / 1_000_000_000;
        // With so little in flight there is hardly a queue.
        let most = carried * 5 / 4 + 4 * u128::from(path.search().mtu());
        self.trip.follow(now, latest, path.in_flight() as u128 <= most);
    }

    /// Whether a sample is complete.
    pub(crate) fn is_due(&self, now: Instant, path: &Path) -> bool {
        // Queues make round trips longer, but not what comes out of them.
        let round_trip = self.round_trip().or(path.rtt().least()).unwrap_or(SPAN);
        now.since(self.since) >= SPAN.max(round_trip * 3)
    }

    /// Completes the sample. If the path was not used in full, it only counts if it is larger
    /// than what is known. `most` is the path's share.
    pub(crate) fn sample(&mut self, now: Instant, path: &Path, most: usize) {
        let nanos = now.since(self.since).as_nanos().max(1);
        let counts = Counts::of(path);
        let acked = counts.acked - self.before.acked;
        let rate = u128::from(acked) * 1_000_000_000 / nanos;
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let limited = path.flight().share_filled().is_some_and(|filled| filled >= self.since);
        let limited = limited && rate > 0;
        if limited || self.rate().is_none_or(|known| rate > known) {
            self.samples[self.taken % SAMPLES] = rate;
            self.taken += usize::from(rate > 0);
            self.in_full_use += usize::from(limited);
        }
        let queues = self.queues(path);
        if limited {
            self.by_share = most < path.congestion().window();
            if queues {
                self.full_until = now + BELIEVED;
            }
        }
        self.count_losses(counts, queues);
        (self.since, self.before) = (now, counts);
    }

    /// What a queue drops is no loss of the path. What is known of a path that is not used is forgotten
    /// slowly.
    fn count_losses(&mut self, now: Counts, queues: bool) {
        let sent = now.sent - self.before.sent;
        let lost = (now.lost - self.before.lost) * 1000;
        self.loss = match lost.checked_div(sent) {
            None => self.loss - self.loss / 64,
            Some(_) if queues => self.loss,
            Some(lost) => (self.loss * 7 + lost.min(MOST_LOSS) * 1000) / 8,
        };
    }

    /// Whether packets have to wait on the path: more than one, and noticeably.
    fn queues(&self, path: &Path) -> bool {
        let (Some(smoothed), Some(base)) = (path.rtt().smoothed(), self.round_trip()) else {
            return false;
        };
        let packet =
            u64::from(path.search().mtu()) * 1_000_000_000 / self.rate().unwrap_or(1).max(1);
        smoothed > base + base / 16 + Duration::from_nanos(packet)
    }
}

impl Trip {
    /// The last round trip took `latest`; `alone`: no queue of our own can have made it longer.
    fn follow(&mut self, now: Instant, latest: Duration, alone: bool) {
        let base = *self.base.get_or_insert(latest);
        self.base = Some(base.min(latest));
        if !alone || latest <= base + base / 8 + Duration::from_millis(1) {
            self.longer = None;
            return;
        }
        let (since, least) = self.longer.unwrap_or((now, latest));
        let least = least.min(latest);
        self.longer = Some((since, least));
        if now.since(since) >= BELIEVED {
            (self.base, self.longer) = (Some(least), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Gauge, SAMPLES};
    use crate::path::Path;
    use crate::path::testing::measured;
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
            path.stats_mut().bytes_acked += bytes;
            path.set_share_filled(limited.then_some(now).or(path.flight().share_filled()));
            gauge.sample(now, path, usize::MAX);
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
            path.stats_mut().bytes_acked += 1000;
            path.set_share_filled(limited.then_some(Instant::ZERO));
            gauge.sample(Instant::ZERO, path, usize::MAX);
            gauge.is_sure()
        };
        assert_eq!([false, false, false, true, true].map(&mut sample), [false; 5]);
        assert_eq!([true, false].map(&mut sample), [true; 2]);
    }

    #[test]
    fn loss_is_what_happens_again_and_again_without_a_queue() {
        let (mut paths, _) = measured(&[20]);
        let path = paths.iter_mut().next().unwrap();
        let mut gauge = Gauge::new(Instant::ZERO, path);
        let mut sample = |path: &mut Path, sent: u64, lost: u64| {
            path.stats_mut().packets_sent += sent;
            path.stats_mut().bytes_acked += sent * 1000;
            path.stats_mut().fast_retransmits += lost;
            gauge.follow(Instant::ZERO, path);
            gauge.sample(Instant::ZERO, path, usize::MAX);
            gauge.loss()
        };
        path.rtt_mut().on_data_sample(Instant::ZERO, Duration::from_millis(20));
        let steady = [2; 24].map(|lost| sample(path, 100, lost));
        assert!((19_000..=20_000).contains(&steady[23]), "{steady:?}");
        // Unused it is forgotten, slowly.
        assert!((18_500..steady[23]).contains(&sample(path, 0, 0)));
        let before = [0; 50].map(|_| sample(path, 0, 0))[49];
        assert!((8000..10_000).contains(&before));
        for at in 1..20 {
            path.rtt_mut()
                .on_data_sample(Instant::ZERO + Duration::from_secs(at), Duration::from_millis(90));
        }
        assert_eq!([60, 0].map(|lost| sample(path, 100, lost)), [before; 2], "its own queue");
    }

    #[test]
    fn what_a_share_allows_is_not_what_the_path_carries() {
        let (mut paths, _) = measured(&[20]);
        let path = paths.iter_mut().next().unwrap();
        let mut now = Instant::ZERO;
        let mut gauge = Gauge::new(now, path);
        let mut second = |path: &mut Path, rtt: u64, most: usize| {
            now = now + Duration::from_secs(1);
            path.stats_mut().bytes_acked += 1_000_000;
            path.set_share_filled(Some(now));
            path.rtt_mut().on_data_sample(now, Duration::from_millis(rtt));
            gauge.follow(now, path);
            gauge.sample(now, path, most);
            gauge.may_carry_more(now)
        };
        let window = path.congestion().window();
        assert!(second(path, 20, window - 1));
        assert!(!second(path, 20, window), "the window is the limit");
        assert!(second(path, 20, window - 1));
        let queue = [60, 60, 60, 20, 20, 20, 20, 20].map(|rtt| second(path, rtt, window - 1));
        assert_eq!(queue, [false; 8]);
        assert!([20; 60].map(|rtt| second(path, rtt, window - 1))[59]);
    }

    /// What the gauge takes for the round trip without queues after these round trips, one each 100 ms,
    /// with so much in flight on a path of 1 MB/s.
    fn followed(flight: usize, trips: impl Iterator<Item = u64>) -> Option<Duration> {
        let (mut paths, _) = measured(&[500]);
        let path = paths.iter_mut().next().unwrap();
        path.set_flight(flight);
        let mut now = Instant::ZERO;
        let mut gauge = Gauge::new(now, path);
        for trip in trips {
            now = now + Duration::from_millis(100);
            path.stats_mut().bytes_acked += 100_000;
            path.rtt_mut().on_data_sample(now, Duration::from_millis(trip));
            gauge.follow(now, path);
            gauge.sample(now, path, usize::MAX);
        }
        gauge.round_trip()
    }

    #[test]
    fn a_round_trip_that_has_become_longer_is_believed_after_ten_seconds() {
        let trips = |after| core::iter::repeat_n(20, 10).chain(core::iter::repeat_n(80, after));
        let ms = |millis| Some(Duration::from_millis(millis));
        assert_eq!(followed(20_000, trips(100)), ms(20));
        assert_eq!(followed(20_000, trips(101)), ms(80));
        assert_eq!(followed(20_000, trips(101).chain([30])), ms(30), "a shorter one at once");
        assert_eq!(followed(20_000, trips(50).chain([20]).chain([80; 60])), ms(20));
    }

    #[test]
    fn a_queue_of_ones_own_is_not_taken_for_a_longer_round_trip() {
        let trips = core::iter::once(20).chain(core::iter::repeat_n(80, 600));
        assert_eq!(followed(80_000, trips), Some(Duration::from_millis(20)));
    }
}
