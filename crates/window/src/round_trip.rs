//! How long a round trip takes, by samples that may contain waiting.

use core::time::Duration;

/// Shorter round trips count as this: a loop that wakes up now and then takes that long anyway.
pub(crate) const SHORTEST: Duration = Duration::from_millis(2);

/// The shortest and the longest sample of the last 2 to 4 seconds of sampling.
///
/// The shortest, because every sample may contain time for which the peer's application was busy or a
/// lost packet was awaited: it is the time in which a change can be answered. The longest, because data that takes
/// different ways is read in order, so that all of it waits for what takes the longest. Both age, because the
/// path may change. A sample stands as long as there is no newer one, however old it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RoundTrip {
    /// When the present period began.
    since: Duration,
    present: Option<Range>,
    former: Option<Range>,
    /// Round trip of the slowest way that data may take, as far as the transport knows.
    slowest: Duration,
}

/// The samples of a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    min: Duration,
    max: Duration,
}

impl Range {
    fn join(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

impl RoundTrip {
    /// The time for which samples are gathered before the gathering begins anew.
    pub const PERIOD: Duration = Duration::from_secs(2);

    /// Takes a sample.
    pub fn sample(&mut self, now: Duration, sample: Duration) {
        let sample = sample.max(Duration::from_nanos(1));
        if self.present.is_none() || now.saturating_sub(self.since) >= Self::PERIOD {
            (self.since, self.former, self.present) = (now, self.present, None);
        }
        let sample = Range { min: sample, max: sample };
        self.present = Some(self.present.map_or(sample, |range| range.join(sample)));
    }

    /// The slowest of the transport's paths takes `round_trip`; zero if there is one only.
    pub fn set_slowest(&mut self, round_trip: Duration) {
        self.slowest = round_trip;
    }

    /// Whether data takes several ways.
    pub(crate) fn has_several_ways(&self) -> bool {
        !self.slowest.is_zero()
    }

    /// The shortest round trip, if there was any sample.
    pub fn min(&self) -> Option<Duration> {
        self.range().map(|range| range.min)
    }

    /// The longest round trip, if there was any sample: measured, or that of the slowest path.
    pub fn max(&self) -> Option<Duration> {
        self.range().map(|range| range.max.max(self.slowest))
    }

    /// `bytes` per shortest round trip, as bytes per longest one.
    pub(crate) fn stretch(&self, bytes: u64) -> u64 {
        let (Some(min), Some(max)) = (self.min(), self.max()) else { return bytes };
        let (min, max) = (min.max(SHORTEST).as_nanos(), max.max(SHORTEST).as_nanos());
        u64::try_from(u128::from(bytes) * max / min).unwrap_or(u64::MAX)
    }

    fn range(&self) -> Option<Range> {
        match (self.present, self.former) {
            (Some(present), Some(former)) => Some(present.join(former)),
            (present, former) => present.or(former),
        }
    }
}
