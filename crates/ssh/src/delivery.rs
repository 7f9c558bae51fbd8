//! How much a path carries in a round trip.

use core::time::Duration;
use manypath_window::RoundTrip;

/// Rounds over which the highest rate counts.
const ROUNDS: usize = 10;
/// A round is not shorter than this: below, a rate would be that of one read of a socket.
const LEAST_ROUND: Duration = Duration::from_millis(20);

/// The rate at which bytes arrive and the round trip without queues; their product is what must be
/// under way so that the path is never idle.
///
/// The largest rate of the last rounds, because a reader or a disk may have paused since; the least
/// round trip, because the others contain the queues that too many bytes under way make.
#[derive(Debug, Default)]
pub struct Delivery {
    round_trip: RoundTrip,
    round_begun: Option<Duration>,
    round_bytes: u64,
    /// Bytes per second of the last rounds, newest last.
    rates: Vec<u64>,
}

impl Delivery {
    /// Bytes arrived.
    pub fn on_bytes(&mut self, now: Duration, bytes: u64) {
        let begun = *self.round_begun.get_or_insert(now);
        self.round_bytes += bytes;
        let time = now.saturating_sub(begun);
        if time >= self.round_trip.least().unwrap_or_default().max(LEAST_ROUND) {
            self.end_round(time);
            self.round_begun = Some(now);
        }
    }

    /// A round trip took `sample`.
    pub fn on_round_trip(&mut self, now: Duration, sample: Duration) {
        self.round_trip.sample(now, sample);
    }

    /// The least round trip of the last seconds.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip.least()
    }

    /// The highest rate of the last rounds, in bytes per second.
    pub fn rate(&self) -> u64 {
        self.rates.iter().copied().max().unwrap_or(0)
    }

    /// Bytes that must be under way: the bandwidth-delay product.
    pub fn product(&self) -> u64 {
        let round_trip = self.round_trip.least().unwrap_or_default().as_nanos();
        let product = u128::from(self.rate()) * round_trip / 1_000_000_000;
        u64::try_from(product).unwrap_or(u64::MAX)
    }

    /// Whether the rate has still risen by a quarter within the last three rounds: what is under way, and not
    /// the path, is the limit.
    pub fn is_rising(&self) -> bool {
        let recent = self.rates.len().saturating_sub(3);
        let (former, last) = self.rates.split_at(recent);
        let before = former.iter().copied().max().unwrap_or(0);
        last.iter().any(|rate| *rate > before.saturating_add(before / 4)) || last.len() < 3
    }

    /// Bytes that may be under way: `least`, and what the path carries with a quarter more; twice as much
    /// while that rises. Not more: a stock sender queues what does not go, and copies the queue for every packet.
    pub fn target(&self, least: u64) -> u64 {
        let product = self.product();
        let more = if self.is_rising() { product } else { product / 4 };
        product.saturating_add(more).saturating_add(least)
    }

    fn end_round(&mut self, time: Duration) {
        let rate = u128::from(self.round_bytes) * 1_000_000_000 / time.as_nanos().max(1);
        if self.rates.len() == ROUNDS {
            self.rates.remove(0);
        }
        self.rates.push(u64::try_from(rate).unwrap_or(u64::MAX));
        self.round_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn after(rates: &[u64]) -> Delivery {
        let mut delivery = Delivery::default();
        delivery.on_round_trip(Duration::ZERO, 100 * MS);
        delivery.on_bytes(Duration::ZERO, 0);
        for (round, rate) in rates.iter().enumerate() {
            delivery.on_bytes(100 * MS * (round as u32 + 1), rate / 10);
        }
        delivery
    }

    #[test]
    fn the_product_is_the_highest_rate_times_the_least_round_trip() {
        let mut delivery = after(&[1_000_000, 5_000_000, 2_000_000]);
        delivery.on_round_trip(500 * MS, 300 * MS);
        assert_eq!(delivery.product(), 500_000);
    }

    #[test]
    fn a_rate_that_doubles_is_rising_and_one_that_stays_is_not() {
        assert!(after(&[1_000_000, 2_000_000, 4_000_000, 8_000_000]).is_rising());
        assert!(!after(&[8_000_000, 8_000_000, 9_000_000, 8_000_000, 8_500_000]).is_rising());
    }

    #[test]
    fn what_may_be_under_way_comes_to_rest_a_quarter_above_the_product() {
        let rates = [8_000_000; 6];
        assert_eq!(after(&rates).target(100), 800_000 + 200_000 + 100);
    }
}
