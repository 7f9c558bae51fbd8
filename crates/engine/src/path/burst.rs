//! Max.Burst (RFC 9260 section 6.1 rule D): a bound on what one event may put on a path at once.
//!
//! The rule's formula limits the window to `flightsize + Max.Burst * PMDCS`. Taken literally after
//! a SACK for many packets, it would let only Max.Burst of them be replaced. Here the bound counts
//! from the flight *before* the SACK: what was acknowledged may be replaced, plus Max.Burst packets.
//! Acknowledgements that were not replaced at once stay usable for a quarter of a round trip,
//! because a driver may hand over several SACKs before it lets us send; after that they expire, so
//! that a user who comes back after a pause does not release a whole window into a queue.

use crate::time::{Duration, Instant};

/// The bound of one path.
#[derive(Clone, Debug)]
pub(crate) struct Burst {
    /// Largest flight that may be reached before the next event.
    limit: usize,
    credit: usize,
    credit_until: Instant,
}

impl Burst {
    /// Before anything was sent the initial window is the bound.
    pub(crate) fn new() -> Self {
        Self { limit: usize::MAX, credit: 0, credit_until: Instant::ZERO }
    }

    /// A SACK acknowledged `acked` bytes of the path and left `flight`; `extra` is
    /// Max.Burst * PMDCS.
    pub(crate) fn on_sack(
        &mut self,
        now: Instant,
        (flight, acked): (usize, usize),
        extra: usize,
        round_trip: Option<Duration>,
    ) {
        if now > self.credit_until {
            self.credit = 0;
        }
        if acked > 0 {
            self.credit += acked;
            self.credit_until = now + round_trip.unwrap_or_default() / 4;
        }
        self.limit = flight + self.credit + extra;
    }

    /// `bytes` were sent: they use up what acknowledgements have allowed.
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.credit = self.credit.saturating_sub(bytes);
    }

    /// Largest flight allowed now.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::Burst;
    use crate::time::{Duration, Instant};

    const RTT: Option<Duration> = Some(Duration::from_millis(40));
    const EXTRA: usize = 4;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn acknowledged_packets_may_be_replaced() {
        let mut burst = Burst::new();
        burst.on_sack(at(0), (36, 64), EXTRA, RTT);
        assert_eq!(burst.limit(), 100 + EXTRA);
    }

    #[test]
    fn sacks_in_one_batch_add_up() {
        let mut burst = Burst::new();
        burst.on_sack(at(0), (98, 2), EXTRA, RTT);
        burst.on_sack(at(1), (96, 2), EXTRA, RTT);
        assert_eq!(burst.limit(), 100 + EXTRA);
        burst.on_sent(4);
        burst.on_sack(at(2), (98, 2), EXTRA, RTT);
        assert_eq!(burst.limit(), 100 + EXTRA);
    }

    #[test]
    fn old_acknowledgements_expire() {
        let mut burst = Burst::new();
        burst.on_sack(at(0), (50, 50), EXTRA, RTT);
        burst.on_sack(at(11), (48, 2), EXTRA, RTT);
        assert_eq!(burst.limit(), 50 + EXTRA);
        burst.on_sack(at(30), (0, 0), EXTRA, RTT);
        assert_eq!(burst.limit(), EXTRA);
    }
}
