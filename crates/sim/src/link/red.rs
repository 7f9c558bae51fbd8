//! Random early detection (Floyd, Jacobson: "Random Early Detection Gateways for Congestion Avoidance",
//! IEEE/ACM Transactions on Networking 1(4), 1993): a queue that tells of congestion before it is full, by
//! dropping packets, or by marking those that are ECN-capable (RFC 3168 section 7).

use crate::rng::Rng;
use manypath_engine::{Duration, Instant};

/// Parts of one packet in which averages are counted, and of one in which probabilities are.
const MILLION: u64 = 1_000_000;
/// Packets that may be sent in a pause are counted up to here: by then every average is zero.
const LONGEST_PAUSE: u32 = 100_000;

/// Parameters of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedConfig {
    /// Below this average length in packets nothing happens.
    pub least: usize,
    /// From this average length on every packet is hit.
    pub most: usize,
    /// Packets hit when the average comes near that, per million.
    pub probability_ppm: u32,
    /// Weight of the length that one packet finds, per million. The paper's is 0.002.
    pub weight_ppm: u32,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub marks: bool,
}

/// State of a queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Red {
    /// Average length in millionths of a packet.
    average: u64,
    /// Packets since the last that was hit.
    passed: u64,
    last: Instant,
}

impl Red {
    /// A packet finds `waiting` others; none if the transmitter is `idle`. Meanwhile another packet may be
    /// sent every `each`. Returns whether it is hit.
    pub(super) fn hits(
        &mut self,
        now: Instant,
        config: &RedConfig,
        (waiting, idle, each): (usize, bool, Duration),
        rng: &mut Rng,
    ) -> bool {
        let pause = now.since(core::mem::replace(&mut self.last, now));
        if idle {
            self.rest(pause, each, config.weight_ppm.into());
        }
        let (weight, now_waiting) = (u64::from(config.weight_ppm), waiting as u64 * MILLION);
        self.average = (self.average * (MILLION - weight) + now_waiting * weight) / MILLION;
        let hit = self.average >= config.most as u64 * MILLION
            || rng.ppm(u32::try_from(self.probability(config)).unwrap_or(u32::MAX));
        self.passed = if hit { 0 } else { self.passed + 1 };
        hit
    }

    /// The queue was empty for a while, in which small packets would have found it so.
    fn rest(&mut self, pause: Duration, each: Duration, weight: u64) {
        let sent = pause.as_nanos() / each.as_nanos().max(1);
        for _ in 0..u32::try_from(sent).unwrap_or(u32::MAX).min(LONGEST_PAUSE) {
            if self.average == 0 {
                return;
            }
            self.average = self.average * (MILLION - weight) / MILLION;
        }
    }

    /// Grows with the average, and with each packet that passes, so that hits are spread.
    fn probability(&self, config: &RedConfig) -> u64 {
        let above = self.average.saturating_sub(config.least as u64 * MILLION);
        let span = (config.most.saturating_sub(config.least) as u64 * MILLION).max(1);
        let base = u64::from(config.probability_ppm) * above / span;
        let left = MILLION.saturating_sub(self.passed.saturating_mul(base));
        if base == 0 { 0 } else { (base * MILLION).checked_div(left).unwrap_or(MILLION) }
    }
}

#[cfg(test)]
mod tests {
    use super::{MILLION, Red, RedConfig};
    use crate::rng::Rng;
    use manypath_engine::{Duration, Instant};

    const CONFIG: RedConfig =
        RedConfig { least: 5, most: 15, probability_ppm: 100_000, weight_ppm: 2000, marks: true };

    /// Hits among 10,000 packets that each find `waiting`.
    fn hits(waiting: usize) -> usize {
        let (mut red, mut rng) = (Red::default(), Rng::new(1));
        red.average = waiting as u64 * MILLION;
        let each = Duration::from_millis(1);
        let mut hit = || red.hits(Instant::ZERO, &CONFIG, (waiting, false, each), &mut rng);
        (0..10_000).filter(|_| hit()).count()
    }

    #[test]
    fn nothing_below_everything_above_and_a_share_in_between() {
        assert_eq!((hits(0), hits(5)), (0, 0));
        assert_eq!(hits(15), 10_000);
        // Spread evenly, 5 % of packets become one in every 1 to 20.
        assert!((800..1100).contains(&hits(10)), "{}", hits(10));
    }

    #[test]
    fn the_average_follows_slowly_and_falls_in_a_pause() {
        let (mut red, mut rng) = (Red::default(), Rng::new(1));
        let each = Duration::from_millis(1);
        red.hits(Instant::ZERO, &CONFIG, (100, false, each), &mut rng);
        assert_eq!(red.average, MILLION / 5);
        let later = Instant::ZERO + Duration::from_millis(346);
        red.hits(later, &CONFIG, (0, true, each), &mut rng);
        assert!((95_000..105_000).contains(&red.average), "{}", red.average);
        red.hits(later + Duration::from_secs(100), &CONFIG, (0, true, each), &mut rng);
        assert_eq!(red.average, 0);
    }
}
