//! A path that gives way to another one behind the same bottleneck: while more waits in the queue than should, it
//! halves what it may have in flight once in a round trip, down to two packets; while less waits, it
//! doubles that again. So it fills what the other path leaves free, and where others compete, all paths
//! together take the part of one flow. Its two packets show when the queue is gone.

use super::Acked;
use crate::time::{Duration, Instant};

/// Packets that may always be in flight.
const MIN_PACKETS: usize = 2;
/// The part of the least round trip that may wait, if that is more than the bound.
const PART: u32 = 8;

/// The bound on what is in flight.
#[derive(Debug)]
pub(super) struct Deference {
    /// For how long data may wait in the queue.
    bound: Duration,
    most: usize,
    round_end: Instant,
    /// The shortest round trip of this round: jitter is no queue.
    low: Option<Duration>,
}

impl Deference {
    /// A path with a window of `cwnd` bytes begins to give way.
    pub(super) fn new(cwnd: usize, bound: Duration) -> Self {
        Self { bound, most: cwnd, round_end: Instant::ZERO, low: None }
    }

    /// Bytes that may be in flight.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// A SACK acknowledged data of the path, whose own window is `cwnd`.
    pub(super) fn on_acked(&mut self, acked: &Acked, (cwnd, packet): (usize, usize)) {
        if let Some(rtt) = acked.rtt {
            self.low = Some(self.low.map_or(rtt, |low| low.min(rtt)));
        }
        let (Some(low), Some(least)) = (self.low, acked.least_rtt) else { return };
        if acked.now < self.round_end {
            return;
        }
        let waits = low > least + self.bound.max(least / PART);
        self.most = if waits { self.most / 2 } else { self.most.saturating_mul(2) };
        self.most = self.most.clamp(MIN_PACKETS * packet, cwnd.max(MIN_PACKETS * packet));
        (self.low, self.round_end) = (None, acked.now + acked.srtt.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{P, acked, avoiding};
    use super::{Acked, Deference};
    use crate::config::{Config, CongestionControl};
    use crate::time::{Duration, Instant};

    /// Acknowledges once in each of `rounds` round trips of `millis`, of which the shortest was 50 ms.
    fn after(deference: &mut Deference, start: u64, rounds: u64, millis: u64) -> usize {
        for round in 0..rounds {
            let now = Instant::ZERO + Duration::from_millis(start + round * 200);
            let rtt = Some(Duration::from_millis(millis));
            let least_rtt = Some(Duration::from_millis(50));
            deference.on_acked(&Acked { now, rtt, least_rtt, ..acked(P) }, (64 * P, P));
        }
        deference.most()
    }

    #[test]
    fn a_path_halves_its_window_while_a_queue_stands_and_doubles_it_when_it_is_gone() {
        let mut deference = Deference::new(64 * P, Duration::from_millis(10));
        assert_eq!(after(&mut deference, 0, 1, 65), 32 * P);
        assert_eq!(after(&mut deference, 200, 9, 65), 2 * P, "two packets show when it is gone");
        assert_eq!(after(&mut deference, 2000, 2, 59), 8 * P);
        assert_eq!(after(&mut deference, 2400, 9, 59), 64 * P, "no more than its own window");
    }

    #[test]
    fn jitter_is_no_queue_and_a_round_trip_counts_once() {
        let mut deference = Deference::new(64 * P, Duration::from_millis(10));
        let now = Instant::ZERO + Duration::from_secs(1);
        let least_rtt = Some(Duration::from_millis(50));
        for millis in [90, 52, 95] {
            let rtt = Some(Duration::from_millis(millis));
            deference.on_acked(&Acked { now, rtt, least_rtt, ..acked(P) }, (64 * P, P));
        }
        assert_eq!(
            deference.most(),
            32 * P,
            "the first SACK ends a round, the others are of the next one"
        );
        assert_eq!(after(&mut deference, 1200, 1, 95), 64 * P, "52 ms was among them");
    }

    #[test]
    fn a_path_that_gives_way_does_so_under_another_algorithm_too() {
        let mut control = avoiding(CongestionControl::Rfc9260, 64 * P);
        control.give_way(Some(Duration::from_millis(10)));
        control.window.cwnd = 128 * P;
        let config = Config { congestion: CongestionControl::Cubic, ..Config::default() };
        control.follow(&config, (1500, false));
        assert_eq!(control.window(), 64 * P);
        control.give_way(None);
        assert_eq!(control.window(), 128 * P);
    }
}
