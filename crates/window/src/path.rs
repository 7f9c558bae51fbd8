//! How much a path carries in a round trip.

use core::time::Duration;

/// Rounds over which the highest rate counts: a reader or a disk may have paused since.
const ROUNDS: usize = 10;
/// A round is not shorter than this: below, a rate would be that of one read of a socket.
const SHORTEST: Duration = Duration::from_millis(20);

/// The rate at which a reader takes bytes, per round trip.
///
/// What comes at once after a pause (a lost packet was awaited, the machine was busy) comes faster than the path
/// carries it. So the rate is that of two rounds together, of which the pause is in one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Path {
    begun: Option<Duration>,
    /// Bytes of this round, and bytes and time of the last one.
    bytes: u64,
    last: (u64, Duration),
    /// Bytes per second, newest first.
    rates: [u64; ROUNDS],
    rounds: usize,
}

impl Path {
    /// The reader took `bytes`. True if a round is over with that.
    pub(crate) fn take(&mut self, now: Duration, bytes: u64, round_trip: Option<Duration>) -> bool {
        let begun = *self.begun.get_or_insert(now);
        self.bytes = self.bytes.saturating_add(bytes);
        let time = now.saturating_sub(begun);
        let over = round_trip.is_some_and(|least| time >= least.max(SHORTEST));
        if over {
            self.end_round(time);
            self.begun = Some(now);
        }
        over
    }

    /// Whether the rate has risen by a quarter within the last three rounds: what may be under way, and not the path, is
    /// the limit, or the transport is in its slow start.
    pub(crate) fn is_rising(&self) -> bool {
        let (recent, former) = self.rates.split_at(3);
        let before = highest(former);
        self.rounds < 3 || highest(recent) > before.saturating_add(before / 4)
    }

    /// Bytes in a round trip at the highest rate of the last rounds: the bandwidth-delay product.
    pub(crate) fn product(&self, round_trip: Option<Duration>) -> u64 {
        let round_trip = round_trip.unwrap_or_default().as_nanos();
        let product = u128::from(highest(&self.rates)) * round_trip / 1_000_000_000;
        u64::try_from(product).unwrap_or(u64::MAX)
    }

    /// Bytes in this round or the last, whichever are more.
    pub(crate) fn latest(&self) -> u64 {
        self.bytes.max(self.last.0)
    }

    fn end_round(&mut self, time: Duration) {
        let (bytes, both) = (self.bytes.saturating_add(self.last.0), time + self.last.1);
        let rate = u128::from(bytes) * 1_000_000_000 / both.as_nanos().max(1);
        self.rates.rotate_right(1);
        self.rates[0] = u64::try_from(rate).unwrap_or(u64::MAX);
        self.rounds = (self.rounds + 1).min(ROUNDS);
        self.last = (self.bytes, time);
        self.bytes = 0;
    }
}

fn highest(rates: &[u64]) -> u64 {
    rates.iter().copied().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const ROUND_TRIP: Option<Duration> = Some(Duration::from_millis(100));

    fn after(rounds: &[u64]) -> Path {
        let mut path = Path::default();
        path.take(Duration::ZERO, 0, ROUND_TRIP);
        for (round, bytes) in rounds.iter().enumerate() {
            assert!(path.take(100 * MS * (round as u32 + 1), *bytes, ROUND_TRIP));
        }
        path
    }

    #[test]
    fn the_product_is_the_highest_rate_of_two_rounds_times_the_round_trip() {
        let path = after(&[100_000, 500_000, 500_000, 200_000]);
        assert_eq!(path.product(ROUND_TRIP), 500_000);
    }

    #[test]
    fn what_comes_at_once_after_a_pause_is_not_the_rate_of_the_path() {
        let path = after(&[500_000, 500_000, 500_000, 500_000, 0, 1_000_000, 500_000]);
        assert!(path.product(ROUND_TRIP) <= 750_000, "{}", path.product(ROUND_TRIP));
        assert_eq!(after(&[500_000, 0, 1_000_000]).product(ROUND_TRIP), 500_000);
    }

    #[test]
    fn a_rate_that_doubles_is_rising_and_one_that_stays_is_not() {
        assert!(after(&[1, 2, 4, 8].map(|n| n * 100_000)).is_rising());
        assert!(!after(&[8, 8, 8, 9, 8, 8].map(|n| n * 100_000)).is_rising());
    }

    #[test]
    fn nothing_is_measured_without_a_round_trip() {
        let mut path = Path::default();
        assert!(!path.take(Duration::ZERO, 1_000, None) && !path.take(1000 * MS, 1_000, None));
        assert_eq!(path.product(None), 0);
    }
}
