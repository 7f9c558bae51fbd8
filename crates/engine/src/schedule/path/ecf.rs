//! ECF as published (Lim et al., "ECF: An MPTCP path scheduler to manage heterogeneous paths",
//! CoNEXT 2017, algorithm 1). For comparison; see `earliest_completion` for our own rule.
//!
//! The fastest path has no window left and a slower one has. With k bytes to send, waiting for the
//! fast path is better if
//!
//! ```text
//! (1 + k / cwnd_f) rtt_f  <  (1 + waiting * beta) (rtt_s + delta)      delta = max(sigma_f, sigma_s)
//! k / cwnd_s * rtt_s      >= 2 rtt_f + delta                           beta = 1/4
//! ```

use crate::path::Path;
use core::time::Duration;

/// What to do with the slower path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Wait for the fast path.
    Wait,
    /// Use the slow one now; what was decided before still counts.
    Use,
    /// Use the slow one, waiting is over.
    UseAndForget,
}

/// Decides about `slow` when `left` bytes wait. `waiting`: the last decision was to wait.
pub(crate) fn decide(fast: &Path, slow: &Path, left: usize, waiting: bool) -> Verdict {
    let (Some(rtt_f), Some(rtt_s)) = (nanos(fast.rtt().smoothed()), nanos(slow.rtt().smoothed()))
    else {
        return Verdict::UseAndForget;
    };
    let delta = fast.rtt().variation().max(slow.rtt().variation()).as_nanos();
    let cwnd = |path: &Path| path.congestion().window().max(1) as u128;
    // At least one round trip over either path is needed, however little is left.
    let rounds = |path: &Path, rtt: u128| (left as u128).max(cwnd(path)) * rtt / cwnd(path);
    let over_fast = rtt_f + rounds(fast, rtt_f);
    let over_slow = rtt_s + delta;
    let margin = if waiting { over_slow / 4 } else { 0 };
    if over_fast >= over_slow + margin {
        Verdict::UseAndForget
    } else if rounds(slow, rtt_s) >= 2 * rtt_f + delta {
        Verdict::Wait
    } else {
        Verdict::Use
    }
}

fn nanos(time: Option<Duration>) -> Option<u128> {
    time.map(|time| time.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::{Verdict, decide};
    use crate::path::PathId;
    use crate::path::testing::measured;

    #[test]
    fn waits_when_the_fast_path_will_be_done_before_the_slow_one() {
        // The variation after one sample is half of it: delta is 50 ms.
        let (paths, _) = measured(&[10, 100]);
        let (fast, slow) = (paths.get(PathId(0)).unwrap(), paths.get(PathId(1)).unwrap());
        let cwnd = fast.congestion().window();
        // rtt_s + delta is 150 ms: 15 round trips over the fast path, one of them for nothing.
        assert_eq!(decide(fast, slow, 13 * cwnd, false), Verdict::Wait);
        assert_eq!(decide(fast, slow, 14 * cwnd, false), Verdict::UseAndForget);
        // Who waits already goes on waiting a quarter longer.
        assert_eq!(decide(fast, slow, 14 * cwnd, true), Verdict::Wait);
        assert_eq!(decide(fast, slow, 18 * cwnd, true), Verdict::UseAndForget);
    }

    #[test]
    fn a_path_that_is_hardly_slower_is_used() {
        let (paths, _) = measured(&[10, 15]);
        let (fast, slow) = (paths.get(PathId(0)).unwrap(), paths.get(PathId(1)).unwrap());
        assert_eq!(decide(fast, slow, 1, false), Verdict::Use);
    }
}
