//! Earliest completion at the end of a transfer (after Lim et al., "ECF: An MPTCP path scheduler to
//! manage heterogeneous paths", CoNEXT 2017).
//!
//! While there is much to send every path helps. When little is left, a chunk on a slow path can be
//! the last to arrive, although the fast paths would have carried everything sooner. So a path is
//! left out when the faster ones, at the pace of one window per round trip, will have delivered all
//! that is left before a chunk sent now on the slow path arrives:
//!
//! ```text
//! left / sum(cwnd_f / srtt_f) + min(forward_f)  <  forward_s,    forward = srtt - least rtt / 2
//! ```
//!
//! What a round trip takes beyond the least is time in the queue on the way to the peer. What is
//! left is what can be sent before the peer must open its window: with small windows the rule is
//! always at work (12 MB over 100 Mbit/s 5 ms and 10 Mbit/s 50 ms, receive buffer of 256 KiB,
//! simulated: 88 Mbit/s with it, 17 without).

use crate::path::{Path, PathId, PathSet, Paths};
use crate::time::Duration;

/// Whether `id` should carry something of the `left` bytes that wait to be sent. True for the first
/// in the order of `smallest_srtt`, so that something is always sent.
pub(crate) fn is_worth_using(paths: &Paths, usable: PathSet, id: PathId, left: usize) -> bool {
    let Some(slow) = paths.get(id).filter(|path| path.rtt.smoothed().is_some()) else {
        return true;
    };
    let is_faster = |path: &&Path| {
        usable.contains(path.id)
            && path.rtt.smoothed().is_some_and(|srtt| Some(srtt) < slow.rtt.smoothed())
    };
    let (mut rate, mut fastest) = (0, Duration::MAX);
    for path in paths.iter().filter(is_faster) {
        rate += bytes_per_second(path);
        fastest = fastest.min(path.forward_delay());
    }
    if rate == 0 {
        return true;
    }
    let drain = Duration::from_nanos((left as u64).saturating_mul(1_000_000_000) / rate);
    drain + fastest >= slow.forward_delay()
}

fn bytes_per_second(path: &Path) -> u64 {
    let srtt = path.rtt.smoothed().unwrap_or_default();
    let nanos = u64::try_from(srtt.as_nanos()).unwrap_or(u64::MAX).max(1);
    (path.congestion.window() as u64).saturating_mul(1_000_000_000) / nanos
}

#[cfg(test)]
mod tests {
    use super::is_worth_using;
    use crate::config::Config;
    use crate::path::{PathAddr, PathId, PathSet, PathState, Paths};
    use crate::time::{Duration, Instant};
    use core::net::SocketAddr;

    const FAST: PathId = PathId(0);
    const SLOW: PathId = PathId(1);

    fn two(srtts: [Option<u64>; 2]) -> (Paths, PathSet) {
        let (mut paths, mut all) = (Paths::new(), PathSet::default());
        for (port, srtt) in (1..).zip(srtts) {
            let remote = SocketAddr::from(([10, 0, 0, 1], port));
            let addr = PathAddr { local: remote, remote };
            let id = paths.add(addr, 1500, PathState::Active, &Config::default()).unwrap();
            let path = paths.get_mut(id).unwrap();
            if let Some(srtt) = srtt {
                path.rtt.on_sample(Instant::ZERO, Duration::from_millis(srtt));
            }
            all.insert(id);
        }
        (paths, all)
    }

    #[test]
    fn the_slow_path_helps_only_while_there_is_much_to_send() {
        let (paths, all) = two([Some(10), Some(110)]);
        // Until a chunk arrives over the slow path the fast one has delivered five windows.
        let window = paths.get(FAST).unwrap().congestion.window();
        assert!(!is_worth_using(&paths, all, SLOW, 5 * window - 100));
        assert!(is_worth_using(&paths, all, SLOW, 5 * window + 100));
        assert!(is_worth_using(&paths, all, FAST, 1));
    }

    #[test]
    fn a_path_alone_or_not_measured_is_used() {
        let (paths, all) = two([None, Some(100)]);
        assert!(is_worth_using(&paths, all, SLOW, 1));
        assert!(is_worth_using(&paths, all, FAST, 1));
        let (paths, _) = two([Some(10), Some(110)]);
        let mut only = PathSet::default();
        only.insert(SLOW);
        assert!(is_worth_using(&paths, only, SLOW, 1));
    }
}
