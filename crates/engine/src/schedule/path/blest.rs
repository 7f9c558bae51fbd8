//! BLEST (Ferlin et al., "BLEST: Blocking estimation-based MPTCP scheduler for heterogeneous
//! networks", IFIP Networking 2016). For comparison.
//!
//! What is sent on a slow path occupies the send window for one of its round trips. In that time
//! the fast path could send X bytes. The slow path is left out if these would not find room:
//!
//! ```text
//! X = rtts (cwnd_f + (rtts - 1) / 2 * MSS),   rtts = srtt_s / srtt_f rounded up
//! lambda X  >  window - (flight_s + MSS)
//! ```
//!
//! lambda corrects the estimate: it grows while the fast path is held up by the window, and falls
//! otherwise, between 1.0 and 1.3, once per round trip of the slow path (steps of 4 % and 1 %, as in
//! the authors' implementation).

use crate::path::Path;
use crate::time::{Duration, Instant};

/// The correction factor, in thousandths, and its bounds.
const INITIAL: usize = 1200;
const BOUNDS: (usize, usize) = (1000, 1300);
const WORSE: usize = 40;
const BETTER: usize = 10;
/// Round trips of the fast path that are looked ahead at most.
const MOST_ROUNDS: u128 = 64;

/// The estimator's state.
#[derive(Clone, Debug)]
pub(crate) struct Blest {
    lambda: usize,
    blocked: bool,
    next_update: Instant,
}

impl Blest {
    pub(crate) fn new() -> Self {
        Self { lambda: INITIAL, blocked: false, next_update: Instant::ZERO }
    }

    /// Looks whether the fast path is `blocked` by the send window while it has a congestion window.
    pub(crate) fn observe(&mut self, now: Instant, slow_srtt: Duration, blocked: bool) {
        self.blocked |= blocked;
        if now < self.next_update {
            return;
        }
        let blocked = core::mem::take(&mut self.blocked);
        let lambda = if blocked { self.lambda + WORSE } else { self.lambda - BETTER };
        self.lambda = lambda.clamp(BOUNDS.0, BOUNDS.1);
        self.next_update = now + slow_srtt;
    }

    /// Whether `slow` may be used beside `fast`, where `window` bytes may be outstanding in all.
    pub(crate) fn allows(&self, fast: &Path, slow: &Path, window: usize) -> bool {
        let (Some(srtt_f), Some(srtt_s)) = (fast.rtt().smoothed(), slow.rtt().smoothed()) else {
            return true;
        };
        let rounds = srtt_s.as_nanos().div_ceil(srtt_f.as_nanos().max(1)).clamp(1, MOST_ROUNDS);
        let rounds = usize::try_from(rounds).unwrap_or(1);
        let packet = fast.congestion().chunk_limit();
        let by_fast = rounds * (fast.congestion().window() + (rounds - 1) * packet / 2);
        let by_slow = slow.in_flight() + slow.congestion().chunk_limit();
        by_fast.saturating_mul(self.lambda) / 1000 <= window.saturating_sub(by_slow)
    }
}

#[cfg(test)]
mod tests {
    use super::{BOUNDS, Blest, INITIAL};
    use crate::path::PathId;
    use crate::path::testing::measured;
    use crate::time::{Duration, Instant};

    #[test]
    fn the_slow_path_is_used_if_the_window_leaves_room_for_the_fast_one() {
        let (paths, _) = measured(&[10, 40]);
        let (fast, slow) = (paths.get(PathId(0)).unwrap(), paths.get(PathId(1)).unwrap());
        let (cwnd, packet) = (fast.congestion().window(), fast.congestion().chunk_limit());
        let needed = 4 * (cwnd + 3 * packet / 2) * INITIAL / 1000 + packet;
        let blest = Blest::new();
        assert!(blest.allows(fast, slow, needed));
        assert!(!blest.allows(fast, slow, needed - 1));
    }

    #[test]
    fn the_estimate_is_corrected_once_per_round_trip() {
        let mut blest = Blest::new();
        let srtt = Duration::from_millis(100);
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        blest.observe(at(0), srtt, true);
        assert_eq!(blest.lambda, INITIAL + 40);
        blest.observe(at(50), srtt, true);
        assert_eq!(blest.lambda, INITIAL + 40);
        blest.observe(at(100), srtt, false);
        assert_eq!(blest.lambda, INITIAL + 80);
        blest.observe(at(200), srtt, false);
        assert_eq!(blest.lambda, INITIAL + 70);
        (3..100).for_each(|n| blest.observe(at(100 * n), srtt, false));
        assert_eq!(blest.lambda, BOUNDS.0);
    }
}
