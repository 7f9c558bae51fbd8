//! How far slow start may go ahead of what the path has shown to carry.
//!
//! Slow start learns from round trips that a queue grows, and hears of it a round trip too late: what
//! left at the end of the last round that the path could carry has made a queue of a product, and until
//! the first of that is acknowledged, another one is sent. So the window would come to four times the
//! bandwidth-delay product, and much of it would be lost.
//!
//! The rate of acknowledgements says it earlier. Slow start sends twice as fast as it hears; what leaves
//! faster than the path carries it comes back at the rate of the path.
//!
//! ```text
//!   cwnd <= 3 x the most that was acknowledged within half a round trip       in slow start
//! ```
//!
//! A window that leaves in a burst comes back within half a round trip, and may become three times as
//! large; one that comes back over a whole round trip, half as large again. If the path is full, that is
//! one and a half products. Acknowledgements that come in batches only make the bound looser.

use crate::time::{Duration, Instant};

/// Parts of half a round trip that are counted apart.
const PARTS: usize = 8;
/// How often what was acknowledged in half a round trip fits into the window.
const TIMES: usize = 3;

/// What was acknowledged lately on one path.
#[derive(Clone, Debug, Default)]
pub(super) struct Overshoot {
    parts: [usize; PARTS],
    /// Which of them is filled now, and until when.
    current: usize,
    until: Option<Instant>,
    /// All parts together.
    sum: usize,
    most: usize,
}

impl Overshoot {
    /// `bytes` were acknowledged on a path whose round trips take `round_trip`.
    pub(super) fn on_acked(&mut self, now: Instant, bytes: usize, round_trip: Duration) {
        if self.until.is_none_or(|until| now >= until) {
            self.turn(now, round_trip);
        }
        self.parts[self.current] += bytes;
        self.sum += bytes;
        self.most = self.most.max(self.sum);
    }

    /// Begins the part that `now` belongs to; parts that have become too old are forgotten.
    fn turn(&mut self, now: Instant, round_trip: Duration) {
        let part = (round_trip / (2 * PARTS as u32)).max(Duration::from_micros(1));
        let mut until = self.until.unwrap_or(now);
        if now.since(until) >= round_trip {
            (self.parts, self.sum, until) = ([0; PARTS], 0, now);
        }
        while until <= now {
            self.current = (self.current + 1) % PARTS;
            self.sum -= self.parts[self.current];
            self.parts[self.current] = 0;
            until = until + part;
        }
        self.until = Some(until);
    }

    /// The largest window that slow start may come to.
    pub(super) fn most(&self) -> usize {
        self.most.saturating_mul(TIMES)
    }
}

#[cfg(test)]
mod tests {
    use super::Overshoot;
    use crate::time::{Duration, Instant};

    const RTT: Duration = Duration::from_millis(80);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// One acknowledgement of `bytes` each millisecond of a time.
    fn acked(overshoot: &mut Overshoot, times: core::ops::Range<u64>, bytes: usize) {
        times.for_each(|millis| overshoot.on_acked(at(millis), bytes, RTT));
    }

    #[test]
    fn a_window_that_comes_back_at_once_may_double() {
        let mut overshoot = Overshoot::default();
        acked(&mut overshoot, 80..100, 500);
        assert_eq!(overshoot.most(), 3 * 10_000);
        // The next one, twice as large, takes as long: it may double while it comes.
        acked(&mut overshoot, 160..180, 1000);
        assert_eq!(overshoot.most(), 3 * 20_000);
    }

    #[test]
    fn the_rate_of_the_path_bounds_it_to_one_and_a_half_products() {
        let mut overshoot = Overshoot::default();
        acked(&mut overshoot, 80..800, 1000);
        let product = 80 * 1000;
        assert!(
            (product * 13 / 10..=product * 3 / 2).contains(&overshoot.most()),
            "{}",
            overshoot.most()
        );
    }

    #[test]
    fn what_came_longer_ago_than_half_a_round_trip_does_not_count() {
        let mut overshoot = Overshoot::default();
        overshoot.on_acked(at(0), 1000, RTT);
        overshoot.on_acked(at(39), 100, RTT);
        assert_eq!(overshoot.most(), 3 * 1100);
        overshoot.on_acked(at(41), 1000, RTT);
        assert_eq!(overshoot.most(), 3 * 1100);
        overshoot.on_acked(at(500), 1001, RTT);
        assert_eq!(overshoot.most(), 3 * 1100);
    }
}
