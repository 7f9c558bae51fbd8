//! Max.Burst (RFC 9260 section 6.1 rule D): a bound on what one event may put on a path at once.
//!
//! The rule's formula limits the window to `flightsize + Max.Burst * PMDCS` (`flight`). Taken
//! literally after a SACK for many packets, it lets only Max.Burst of them be replaced. In
//! `acknowledged` the bound counts from the flight *before* the SACK: what was acknowledged may be
//! replaced and the window that it has opened be used, plus Max.Burst packets; otherwise slow start
//! would grow by Max.Burst for each SACK, however many packets that stands for. Acknowledgements
//! that were not replaced at once stay usable for a quarter of a round trip, because a driver may
//! hand over several SACKs before it lets us send; after that they expire, so that a user who comes
//! back after a pause does not release a whole window into a queue. `packets` counts what leaves at
//! one instant, whatever the flight, as the simulations of Dreibholz et al. do.

use crate::config::{BurstLimit, Config};
use crate::time::{Duration, Instant};

/// The bound of one path.
#[derive(Clone, Debug)]
pub(crate) struct Burst {
    rule: BurstLimit,
    /// Max.Burst.
    most: usize,
    /// Largest flight that may be reached before the next event.
    limit: usize,
    credit: usize,
    credit_until: Instant,
    /// Packets that left at one instant.
    packets: usize,
    instant: Instant,
}

impl Burst {
    /// Before anything was sent the initial window is the bound.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            rule: config.burst_limit,
            most: config.max_burst.max(1) as usize,
            limit: usize::MAX,
            credit: 0,
            credit_until: Instant::ZERO,
            packets: 0,
            instant: Instant::ZERO,
        }
    }

    /// A SACK left `flight` and gave leave for `acked` bytes: what it acknowledged on the path, and what the
    /// window has grown by. `chunk_limit` is the PMDCS.
    pub(crate) fn on_sack(
        &mut self,
        now: Instant,
        (flight, acked): (usize, usize),
        chunk_limit: usize,
        round_trip: Option<Duration>,
    ) {
        let more = self.most * chunk_limit;
        self.limit = match self.rule {
            BurstLimit::None | BurstLimit::Packets => usize::MAX,
            BurstLimit::Flight => flight + more,
            BurstLimit::Acknowledged => {
                self.earn(now, acked, round_trip.unwrap_or_default());
                flight + self.credit + more
            }
        };
    }

    fn earn(&mut self, now: Instant, acked: usize, round_trip: Duration) {
        if now > self.credit_until {
            self.credit = 0;
        }
        if acked > 0 {
            self.credit += acked;
            self.credit_until = now + round_trip / 4;
        }
    }

    /// A packet with `bytes` of DATA chunks was sent.
    pub(crate) fn on_packet(&mut self, now: Instant, bytes: usize) {
        self.credit = self.credit.saturating_sub(bytes);
        self.packets = if now == self.instant { self.packets + 1 } else { 1 };
        self.instant = now;
    }

    /// Whether another chunk may leave while `flight` bytes are in flight. Something always may
    /// while nothing is: there would be no later event.
    pub(crate) fn allows(&self, now: Instant, flight: usize) -> bool {
        match self.rule {
            BurstLimit::None => true,
            BurstLimit::Acknowledged | BurstLimit::Flight => flight < self.limit,
            BurstLimit::Packets => now != self.instant || self.packets < self.most || flight == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Burst;
    use crate::config::{BurstLimit, Config};
    use crate::time::{Duration, Instant};

    const RTT: Option<Duration> = Some(Duration::from_millis(40));
    const MOST: usize = 4;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn burst(burst_limit: BurstLimit) -> Burst {
        Burst::new(&Config { burst_limit, max_burst: MOST as u32, ..Config::default() })
    }

    /// The flight at which no more chunk may leave.
    fn limit(burst: &Burst, now: Instant) -> usize {
        (0..1000).find(|flight| !burst.allows(now, *flight)).unwrap()
    }

    #[test]
    fn acknowledged_packets_may_be_replaced() {
        let mut burst = burst(BurstLimit::Acknowledged);
        burst.on_sack(at(0), (36, 64), 1, RTT);
        assert_eq!(limit(&burst, at(0)), 100 + MOST);
    }

    #[test]
    fn sacks_in_one_batch_add_up() {
        let mut burst = burst(BurstLimit::Acknowledged);
        burst.on_sack(at(0), (98, 2), 1, RTT);
        burst.on_sack(at(1), (96, 2), 1, RTT);
        assert_eq!(limit(&burst, at(1)), 100 + MOST);
        burst.on_packet(at(1), 4);
        burst.on_sack(at(2), (98, 2), 1, RTT);
        assert_eq!(limit(&burst, at(2)), 100 + MOST);
    }

    #[test]
    fn old_acknowledgements_expire() {
        let mut burst = burst(BurstLimit::Acknowledged);
        burst.on_sack(at(0), (50, 50), 1, RTT);
        burst.on_sack(at(11), (48, 2), 1, RTT);
        assert_eq!(limit(&burst, at(11)), 50 + MOST);
        burst.on_sack(at(30), (0, 0), 1, RTT);
        assert_eq!(limit(&burst, at(30)), MOST);
    }

    #[test]
    fn the_literal_rule_counts_from_what_is_left_in_flight() {
        let mut burst = burst(BurstLimit::Flight);
        burst.on_sack(at(0), (36, 64), 1, RTT);
        assert_eq!(limit(&burst, at(0)), 36 + MOST);
    }

    #[test]
    fn packets_are_counted_per_instant() {
        let mut burst = burst(BurstLimit::Packets);
        for sent in 0..MOST {
            assert!(burst.allows(at(5), 10 + sent));
            burst.on_packet(at(5), 1);
        }
        assert!(!burst.allows(at(5), 20));
        assert!(burst.allows(at(5), 0), "nothing would wake us up");
        burst.on_sack(at(5), (2, 10), 1, RTT);
        assert!(!burst.allows(at(5), 2));
        assert!(burst.allows(at(6), 20));
    }

    #[test]
    fn without_a_rule_everything_may_leave() {
        let mut burst = burst(BurstLimit::None);
        burst.on_sack(at(0), (0, 1000), 1, RTT);
        assert!(burst.allows(at(0), 1 << 30));
    }
}
