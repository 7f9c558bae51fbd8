//! Round-trip time and retransmission timeout of a path (RFC 9260 section 6.3.1).

use crate::config::Config;
use crate::time::{Duration, Instant};

/// Allowance for scheduling delay.
const LEAST_SLACK: Duration = Duration::from_millis(20);
/// With each sample the hold-up becomes shorter by one part of so many: half of it is left after 22. The first sample
/// after so many round trips without one leaves nothing of it.
const HOLD_UP_DECAY: u32 = 32;

/// RTT estimator of one path.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    smoothed: Option<Duration>,
    variation: Duration,
    least: Option<Duration>,
    latest: Option<Duration>,
    rto: Duration,
    /// The longest that it was since somebody has asked.
    longest_rto: Duration,
    bounds: (Duration, Duration),
    next_sample: Instant,
    /// See [`Self::hold_up`].
    hold_up: Option<Duration>,
}

impl Rtt {
    /// No measurement yet: the RTO is RTO.Initial (rule C1).
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            smoothed: None,
            variation: Duration::ZERO,
            least: None,
            latest: None,
            rto: config.rto_initial,
            longest_rto: Duration::ZERO,
            bounds: (config.rto_min, config.rto_max),
            next_sample: Instant::ZERO,
            hold_up: None,
        }
    }

    /// A round trip took `rtt`, measured by a packet that was sent once (rule C5, Karn).
    pub(crate) fn on_sample(&mut self, now: Instant, rtt: Duration) {
        let supposed = self.least.is_none();
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        let smoothed = match self.smoothed.filter(|_| !supposed) {
            None => {
                self.variation = rtt / 2;
                rtt
            }
            Some(old) => {
                self.variation = (self.variation * 3 + old.abs_diff(rtt)) / 4;
                (old * 7 + rtt) / 8
            }
        };
        self.age_hold_up(now, smoothed);
        self.note_hold_up(rtt);
        self.smoothed = Some(smoothed);
        self.next_sample = now + smoothed;
        let (min, max) = self.bounds;
        self.rto = (smoothed + self.variation * 4).clamp(min, max.max(min));
        self.longest_rto = self.longest_rto.max(self.rto);
    }

    /// Like [`Self::on_sample`] for acknowledged DATA, of which at most one sample per round trip
    /// is taken (rule C4).
    pub(crate) fn on_data_sample(&mut self, now: Instant, rtt: Duration) {
        self.latest = Some(rtt);
        if now >= self.next_sample {
            self.on_sample(now, rtt);
        } else {
            self.least = self.least.map(|least| least.min(rtt));
            self.note_hold_up(rtt);
        }
    }

    /// Whether packets that arrive have been delivered in order by what is below.
    pub(crate) fn note_order(&mut self, in_order: bool) {
        self.hold_up = in_order.then(|| self.hold_up.unwrap_or_default());
    }

    fn age_hold_up(&mut self, now: Instant, smoothed: Duration) {
        let is_old = now >= self.next_sample + smoothed * HOLD_UP_DECAY;
        let left = |longest: Duration| longest - longest / if is_old { 1 } else { HOLD_UP_DECAY };
        self.hold_up = self.hold_up.map(left);
    }

    fn note_hold_up(&mut self, rtt: Duration) {
        let longer = rtt.saturating_sub(self.least.unwrap_or(rtt));
        self.hold_up = self.hold_up.map(|longest| longest.max(longer));
    }

    /// RTO.Initial, RTO.Min and RTO.Max are these from now on.
    pub(crate) fn set_bounds(&mut self, initial: Duration, (min, max): (Duration, Duration)) {
        let max = max.max(min);
        self.bounds = (min, max);
        let rto = if self.smoothed.is_some() { self.rto } else { initial };
        self.rto = rto.clamp(min, max);
    }

    /// Doubles the RTO (rule E2). The next sample brings it down again.
    pub(crate) fn back_off(&mut self) {
        self.rto = (self.rto * 2).min(self.bounds.1);
        self.longest_rto = self.longest_rto.max(self.rto);
    }

    /// Forgets how often the RTO was doubled: what caused that is known and over.
    pub(crate) fn end_back_off(&mut self, initial: Duration) {
        self.rto = self.first_rto().unwrap_or(initial.clamp(self.bounds.0, self.bounds.1));
    }

    /// The retransmission timeout as measured, however often it was doubled since.
    pub(crate) fn first_rto(&self) -> Option<Duration> {
        let (min, max) = self.bounds;
        self.smoothed.map(|smoothed| (smoothed + self.variation * 4).clamp(min, max.max(min)))
    }

    /// How long an answer may take, once measured: two round trips, and more where they vary or are short.
    pub(crate) fn probe_timeout(&self) -> Option<Duration> {
        let srtt = self.smoothed?;
        Some(srtt + srtt.max(self.variation * 4).max(LEAST_SLACK))
    }

    /// The retransmission timeout.
    pub(crate) fn rto(&self) -> Duration {
        self.rto
    }

    /// The largest retransmission timeout that is ever used.
    pub(crate) fn rto_max(&self) -> Duration {
        self.bounds.1
    }

    /// The smoothed round-trip time, once measured.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// The mean deviation of the round-trip time (RTTVAR).
    pub(crate) fn variation(&self) -> Duration {
        self.variation
    }

    /// What the last DATA took from sending to its acknowledgement, over whatever path that came.
    pub(crate) fn latest(&self) -> Option<Duration> {
        self.latest
    }

    /// What a round trip of data takes now: as the smoothed time, but at once when it gets shorter.
    pub(crate) fn current(&self) -> Option<Duration> {
        let smoothed = self.smoothed?;
        Some(self.latest.map_or(smoothed, |latest| latest.min(smoothed)))
    }

    /// The smallest round-trip time ever measured.
    pub(crate) fn least(&self) -> Option<Duration> {
        self.least
    }

    /// The longest that packets have lately waited for those before them, where what is below delivers in order:
    /// by how much a round trip exceeded the least one. None where each packet arrives by itself.
    pub(crate) fn hold_up(&self) -> Option<Duration> {
        self.hold_up
    }

    /// How long a packet takes to the peer. What a round trip takes beyond the least is time in the
    /// queue on the way there. Zero before the first measurement.
    pub(crate) fn forward_delay(&self) -> Duration {
        let least = self.least.unwrap_or_default();
        self.smoothed.unwrap_or_default().saturating_sub(least / 2)
    }

    /// How long a packet may take to the peer: [`Self::forward_delay`], or as long as others were held up lately.
    pub(crate) fn arrival_delay(&self) -> Duration {
        let held_up = |hold_up| self.least.unwrap_or_default() / 2 + hold_up;
        self.hold_up.map_or(Duration::ZERO, held_up).max(self.forward_delay())
    }

    /// A round trip takes between `shortest` and `longest`, and is not measured. It counts as half of the longest at least: of
    /// several copies the first may have been answered just behind the last. The RTO is not less than a half more than the
    /// longest: a shorter one would expire for all data of the first round trip over a path that is just slow. The first
    /// sample counts as if there was none before.
    pub(crate) fn suppose(&mut self, shortest: Duration, longest: Duration) {
        if self.least.is_none() {
            let likely = shortest.max(longest / 2);
            self.variation = (longest * 3 / 2).saturating_sub(likely) / 4;
            self.smoothed = Some(likely);
            let (min, max) = self.bounds;
            self.rto = (longest * 3 / 2).clamp(min, max.max(min));
        }
    }

    /// The longest RTO since the last call.
    pub(crate) fn take_longest_rto(&mut self) -> Duration {
        core::mem::take(&mut self.longest_rto).max(self.rto)
    }
}

#[cfg(test)]
mod tests {
    use super::Rtt;
    use crate::config::Config;
    use crate::time::{Duration, Instant};

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + ms(millis)
    }

    #[test]
    fn the_first_sample_sets_everything() {
        let mut rtt = Rtt::new(&Config::default());
        assert_eq!(rtt.rto(), ms(1000));
        rtt.on_sample(at(0), ms(100));
        assert_eq!(rtt.smoothed(), Some(ms(100)));
        assert_eq!(rtt.rto(), ms(300));
    }

    #[test]
    fn an_unmeasured_round_trip_that_took_long_makes_the_first_timeout_longer() {
        let config = Config { rto_initial: ms(120), ..Config::default() };
        let mut rtt = Rtt::new(&config);
        rtt.suppose(ms(9), ms(60));
        assert_eq!((rtt.rto(), rtt.smoothed()), (ms(200), Some(ms(30))));
        rtt.suppose(ms(180), ms(300));
        assert_eq!((rtt.rto(), rtt.smoothed()), (ms(450), Some(ms(180))));
        assert_eq!((rtt.first_rto(), rtt.least()), (Some(ms(450)), None));
        rtt.on_sample(at(0), ms(100));
        assert_eq!((rtt.rto(), rtt.smoothed()), (ms(300), Some(ms(100))));
        rtt.suppose(ms(500), ms(1000));
        assert_eq!((rtt.rto(), rtt.smoothed()), (ms(300), Some(ms(100))));
    }

    #[test]
    fn later_samples_move_by_an_eighth_and_a_quarter() {
        let mut rtt = Rtt::new(&Config::default());
        rtt.on_sample(at(0), ms(400));
        rtt.on_sample(at(400), ms(800));
        // SRTT = 7/8 * 400 + 1/8 * 800, RTTVAR = 3/4 * 200 + 1/4 * 400.
        assert_eq!(rtt.smoothed(), Some(ms(450)));
        assert_eq!(rtt.rto(), ms(450 + 4 * 250));
    }

    #[test]
    fn the_rto_stays_inside_its_bounds() {
        let mut rtt = Rtt::new(&Config::default());
        rtt.on_sample(at(0), ms(1));
        assert_eq!(rtt.rto(), ms(200));
        for _ in 0..20 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), ms(60_000));
        rtt.on_sample(at(1), ms(1));
        assert_eq!(rtt.rto(), ms(200));
    }

    #[test]
    fn new_bounds_hold_at_once_and_a_new_initial_value_until_something_was_measured() {
        let mut rtt = Rtt::new(&Config::default());
        rtt.set_bounds(ms(500), (ms(50), ms(2000)));
        assert_eq!(rtt.rto(), ms(500));
        rtt.on_sample(at(0), ms(100));
        rtt.set_bounds(ms(900), (ms(50), ms(250)));
        assert_eq!(rtt.rto(), ms(250));
        rtt.back_off();
        assert_eq!((rtt.rto(), rtt.rto_max()), (ms(250), ms(250)));
        rtt.set_bounds(ms(900), (ms(1000), ms(100)));
        assert_eq!(rtt.rto(), ms(1000), "the least one counts");
    }

    #[test]
    fn data_is_sampled_once_per_round_trip() {
        let mut rtt = Rtt::new(&Config::default());
        rtt.on_data_sample(at(0), ms(100));
        rtt.on_data_sample(at(50), ms(900));
        assert_eq!(rtt.smoothed(), Some(ms(100)));
        rtt.on_data_sample(at(60), ms(80));
        assert_eq!((rtt.smoothed(), rtt.least()), (Some(ms(100)), Some(ms(80))));
        assert_eq!(rtt.current(), Some(ms(80)));
        rtt.on_data_sample(at(100), ms(180));
        assert_eq!((rtt.smoothed(), rtt.current()), (Some(ms(110)), Some(ms(110))));
    }

    #[test]
    fn a_hold_up_is_remembered_for_some_round_trips_where_packets_are_delivered_in_order() {
        let mut rtt = Rtt::new(&Config::default());
        let round = |rtt: &mut Rtt, at_ms, millis| rtt.on_data_sample(at(at_ms), ms(millis));
        round(&mut rtt, 0, 20);
        round(&mut rtt, 1, 84);
        assert_eq!((rtt.hold_up(), rtt.arrival_delay()), (None, ms(10)));
        rtt.note_order(true);
        // Each sample counts, those within a round trip too.
        round(&mut rtt, 2, 84);
        assert_eq!((rtt.hold_up(), rtt.arrival_delay()), (Some(ms(64)), ms(74)));
        assert_eq!(rtt.forward_delay(), ms(10));
        rtt.note_order(true);
        round(&mut rtt, 20, 20);
        assert_eq!(rtt.hold_up(), Some(ms(62)));
        (2..=22).for_each(|number| round(&mut rtt, number * 20, 20));
        assert!(rtt.hold_up().is_some_and(|left| (ms(31)..ms(33)).contains(&left)), "{rtt:?}");
        // Nothing was sent for a while.
        round(&mut rtt, 2000, 21);
        assert_eq!(rtt.hold_up(), Some(ms(1)));
        rtt.note_order(false);
        assert_eq!((rtt.hold_up(), rtt.arrival_delay()), (None, rtt.forward_delay()));
    }
}
