//! How long a round trip takes, by samples that may contain waiting.

use core::time::Duration;

/// The least sample of the last 2 to 4 seconds of sampling.
///
/// The minimum, because every sample may contain time for which the peer's application was busy or a
/// lost packet was awaited. It ages, because the path may change, or a slower one may carry
/// data too since then. A sample stands as long as there is no newer one, however old it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RoundTrip {
    /// When the present period began.
    since: Duration,
    present: Option<Duration>,
    former: Option<Duration>,
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
        self.present = Some(self.present.map_or(sample, |least| least.min(sample)));
    }

    /// What a round trip takes, if there was any sample.
    pub fn least(&self) -> Option<Duration> {
        match (self.present, self.former) {
            (Some(present), Some(former)) => Some(present.min(former)),
            (present, former) => present.or(former),
        }
    }
}
