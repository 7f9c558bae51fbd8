//! Finding losses by the time of transmission: RACK (RFC 8985 section 6), for the chunks of one path.
//!
//! A chunk is lost if a transmission that left later on its path has arrived and the chunk has had time
//! enough to arrive too:
//!
//! ```text
//! lost:  sent before the newest transmission that has arrived,  and
//!        now >= when it was sent + round trip + reordering window
//! ```
//!
//! Neither the number of SACKs that come after it counts, so two packets are enough and lost SACKs do no
//! harm, nor how often it was sent before, so a lost retransmission is found like any other loss. What
//! has not had its time yet is looked at again by a timer.
//!
//! The reordering window is a quarter of the least round trip. It is zero during a recovery as long as
//! the path was never seen to reorder; and before that a chunk is lost as well when three that were sent
//! after it have arrived (section 7.2.4 of RFC 9260, counted in chunks). For each round in which the peer
//! reports a TSN as a duplicate that was sent again by mistake (or acknowledges it too early) the window grows by another quarter, up
//! to the smoothed round trip; after 16 recoveries without such a report it starts anew.
//!
//! What is counted are transmissions of the path (see `order`), so paths do not mistake each other's
//! delays for reordering. SACKs come back over several paths, so the round trip is the larger one of
//! the last and the smoothed one.

use crate::path::Rtt;
use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;

/// Clocks and timers are not finer.
const LEAST_WINDOW: Duration = Duration::from_millis(1);
/// So many recoveries without a duplicate let the window start anew.
const PERSISTENCE: u8 = 16;

/// What is known about the arrivals of one path.
#[derive(Clone, Debug)]
pub(crate) struct Rack {
    /// Number and time of the newest transmission that has arrived.
    newest: Option<(u64, Instant)>,
    /// Round-trip time of the newest transmission that the last SACK has acknowledged.
    rtt: Duration,
    /// Highest TSN of those sent once that have arrived.
    furthest: Option<Tsn64>,
    reorders: bool,
    /// The window in quarters of the least round trip.
    quarters: u32,
    persistence: u8,
    /// The window grows again when a later transmission than this has arrived.
    round: Option<u64>,
    /// When a chunk will have had its time.
    timer: Option<Instant>,
}

/// What becomes of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It is lost.
    Lost,
    /// It will be lost if nothing is heard of it until then.
    At(Instant),
    /// Nothing that left later has arrived.
    Open,
}

/// A transmission that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) number: u64,
    pub(crate) tsn: Tsn64,
    pub(crate) sent: Instant,
    /// The chunk was sent once.
    pub(crate) once: bool,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            newest: None,
            rtt: Duration::ZERO,
            furthest: None,
            reorders: false,
            quarters: 1,
            persistence: 0,
            round: None,
            timer: None,
        }
    }
}

impl Rack {
    /// A transmission has arrived, for sure. Those of one SACK come in the order of their TSNs.
    pub(crate) fn on_arrival(&mut self, now: Instant, arrival: Arrival) {
        let Arrival { number, tsn, sent, once } = arrival;
        if self.newest.is_none_or(|(newest, _)| newest < number) {
            self.newest = Some((number, sent));
            self.rtt = now.since(sent);
        }
        if once {
            self.reorders |= self.furthest.is_some_and(|furthest| tsn < furthest);
            self.furthest = self.furthest.max(Some(tsn));
        }
    }

    /// The peer reports a duplicate of what was sent again for having been lost. `sent`: transmissions
    /// made so far.
    pub(crate) fn on_duplicate(&mut self, sent: u64) {
        let newest = self.newest.map_or(0, |(number, _)| number);
        if self.round.is_none_or(|round| newest > round) {
            self.round = Some(sent);
            self.quarters = self.quarters.saturating_add(1);
            self.persistence = PERSISTENCE;
        }
    }

    /// A recovery is over.
    pub(crate) fn on_recovered(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.quarters = 1;
        }
    }

    /// The number of the newest transmission that has arrived.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.newest.map(|(number, _)| number)
    }

    /// Whether the path was seen to reorder.
    pub(crate) fn reorders(&self) -> bool {
        self.reorders
    }

    /// For how long a chunk may be late.
    pub(crate) fn window(&self, rtt: &Rtt, recovering: bool) -> Duration {
        if recovering && !self.reorders {
            return Duration::ZERO;
        }
        let quarter = rtt.least().unwrap_or_default() / 4;
        (quarter * self.quarters).min(rtt.smoothed().unwrap_or_default()).max(LEAST_WINDOW)
    }

    /// What becomes of a transmission that left at `sent`, if it may be late for `window`.
    pub(crate) fn judge(
        &self,
        now: Instant,
        (number, sent): (u64, Instant),
        rtt: &Rtt,
        window: Duration,
    ) -> Verdict {
        if self.newest.is_none_or(|(newest, _)| newest <= number) {
            return Verdict::Open;
        }
        if window.is_zero() {
            return Verdict::Lost;
        }
        let at = sent + self.reorder_timeout(rtt, window);
        if at <= now { Verdict::Lost } else { Verdict::At(at) }
    }

    /// How long an answer may take that is late for no more than `window`.
    pub(crate) fn reorder_timeout(&self, rtt: &Rtt, window: Duration) -> Duration {
        self.rtt.max(rtt.smoothed().unwrap_or_default()) + window
    }

    /// When losses must be looked for again.
    pub(crate) fn timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Sets that time.
    pub(crate) fn set_timer(&mut self, at: Option<Instant>) {
        self.timer = at;
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrival, Rack, Verdict};
    use crate::config::Config;
    use crate::path::Rtt;
    use crate::time::{Duration, Instant};
    use crate::tsn::Tsn64;
    use manypath_wire::Tsn;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + ms(millis)
    }

    /// Round trips of 80 ms.
    fn rtt() -> Rtt {
        let mut rtt = Rtt::new(&Config::default());
        rtt.on_sample(at(0), ms(80));
        rtt
    }

    /// Transmission `number` of the chunk with the same TSN left at `number` ms.
    fn arrive(rack: &mut Rack, number: u64, now: u64) {
        let tsn = Tsn64::initial(Tsn(0)).plus(number);
        rack.on_arrival(at(now), Arrival { number, tsn, sent: at(number), once: true });
    }

    #[test]
    fn what_left_before_the_newest_arrival_is_lost_after_its_time() {
        let mut rack = Rack::default();
        let window = rack.window(&rtt(), false);
        assert_eq!(window, ms(20));
        let judge =
            |rack: &Rack, now, number| rack.judge(at(now), (number, at(number)), &rtt(), window);
        assert_eq!(judge(&rack, 1000, 3), Verdict::Open);
        arrive(&mut rack, 5, 85);
        assert_eq!(judge(&rack, 1000, 6), Verdict::Open);
        assert_eq!(judge(&rack, 85, 3), Verdict::At(at(103)));
        assert_eq!(judge(&rack, 103, 3), Verdict::Lost);
        // A longer round trip than before counts.
        arrive(&mut rack, 9, 139);
        assert_eq!(judge(&rack, 139, 8), Verdict::At(at(158)));
    }

    #[test]
    fn a_recovery_waits_only_if_the_path_reorders() {
        let mut rack = Rack::default();
        arrive(&mut rack, 2, 82);
        arrive(&mut rack, 5, 85);
        assert!(!rack.reorders());
        assert_eq!(rack.window(&rtt(), true), ms(0));
        assert_eq!(rack.judge(at(85), (4, at(4)), &rtt(), ms(0)), Verdict::Lost);
        arrive(&mut rack, 3, 86);
        assert!(rack.reorders());
        assert_eq!(rack.window(&rtt(), true), ms(20));
    }

    #[test]
    fn duplicates_widen_the_window_once_per_round_up_to_a_round_trip() {
        let mut rack = Rack::default();
        rack.on_duplicate(10);
        rack.on_duplicate(12);
        assert_eq!(rack.window(&rtt(), false), ms(40));
        arrive(&mut rack, 11, 91);
        for round in 0..9 {
            rack.on_duplicate(20 + round);
            arrive(&mut rack, 21 + round, 200);
        }
        assert_eq!(rack.window(&rtt(), false), ms(80));
    }

    #[test]
    fn after_sixteen_recoveries_without_duplicates_the_window_starts_anew() {
        let mut rack = Rack::default();
        rack.on_duplicate(10);
        (0..15).for_each(|_| rack.on_recovered());
        assert_eq!(rack.window(&rtt(), false), ms(40));
        rack.on_recovered();
        assert_eq!(rack.window(&rtt(), false), ms(20));
    }
}
