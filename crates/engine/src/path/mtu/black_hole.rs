//! Black holes: large packets vanish and small ones pass (RFC 8899 section 4.3, third indicator).
//!
//! Congestion takes large and small packets alike, and a dead path takes all. So large packets must
//! be lost several times, a round trip apart at least, with none of them arriving in between, while
//! something small gets through.

use crate::time::{Duration, Instant};

/// What has become of packets on a path since it was looked at last, and the suspicion that has grown
/// of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct BlackHole {
    lost_large: bool,
    passed_large: bool,
    passed_small: bool,
    /// Times that large packets were lost, with none arriving.
    losses: u32,
    last_loss: Option<Instant>,
    /// Whether something small has arrived since the first of them.
    small_passes: bool,
}

impl BlackHole {
    /// A packet was lost that was larger than every path should take.
    pub(super) fn on_large_lost(&mut self) {
        self.lost_large = true;
    }

    /// A packet has arrived.
    pub(super) fn on_passed(&mut self, large: bool) {
        self.passed_large |= large;
        self.passed_small |= !large;
    }

    /// Whether it is one, after `enough` losses a `round_trip` apart.
    pub(super) fn judge(&mut self, now: Instant, round_trip: Duration, enough: u32) -> bool {
        let lost = core::mem::take(&mut self.lost_large);
        let small = core::mem::take(&mut self.passed_small);
        if core::mem::take(&mut self.passed_large) {
            *self = Self::default();
            return false;
        }
        if lost && self.last_loss.is_none_or(|last| now.since(last) >= round_trip) {
            self.losses += 1;
            self.last_loss = Some(now);
        }
        self.small_passes |= small && self.losses > 0;
        let found = self.losses >= enough && self.small_passes;
        if found {
            *self = Self::default();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::BlackHole;
    use crate::time::{Duration, Instant};

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    fn judge(hole: &mut BlackHole, millis: u64) -> bool {
        hole.judge(Instant::ZERO + Duration::from_millis(millis), ROUND_TRIP, 3)
    }

    #[test]
    fn large_packets_lost_again_and_again_while_small_ones_pass_make_a_black_hole() {
        let mut hole = BlackHole::default();
        for millis in [0, 100] {
            hole.on_large_lost();
            assert!(!judge(&mut hole, millis));
        }
        hole.on_large_lost();
        assert!(!judge(&mut hole, 200), "everything may be lost");
        hole.on_passed(false);
        assert!(judge(&mut hole, 250));
        assert!(!judge(&mut hole, 260), "concluded once");
    }

    #[test]
    fn what_is_lost_together_counts_once() {
        let mut hole = BlackHole::default();
        for millis in [0, 10, 20, 30, 99] {
            hole.on_large_lost();
            hole.on_passed(false);
            assert!(!judge(&mut hole, millis));
        }
    }

    #[test]
    fn one_large_packet_that_arrives_ends_the_suspicion() {
        let mut hole = BlackHole::default();
        for millis in [0, 100, 200, 300, 400] {
            hole.on_large_lost();
            hole.on_passed(false);
            if millis == 200 {
                hole.on_passed(true);
            }
            assert!(!judge(&mut hole, millis));
        }
    }
}
