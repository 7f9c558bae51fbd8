//! Earliest completion at the end of a transfer (after Lim et al., "ECF: An MPTCP path scheduler to
//! manage heterogeneous paths", CoNEXT 2017).
//!
//! While there is much to send every path helps. When little is left, a chunk on a slow path can be
//! the last to arrive, although the fast paths would have carried everything sooner. So a path is
//! left out when the faster ones, at the pace of one window per round trip, will have delivered all
//! that is left before a chunk sent now on the slow path arrives:
//!
//! ```text
//! left  <  sum(cwnd_f * T / srtt_f),    T = forward_s - min(forward_f),    forward = srtt - least rtt / 2
//! ```
//!
//! where `T` is the time that the slow path gives the fast ones. A path in slow start doubles what it carries with each
//! round trip: it delivers `cwnd_f * (2^(T / srtt_f) - 1)`. Without that half of a first small window of credit would go to
//! the slow path, and the fast one stand still until it has come.
//!
//! Where packets are delivered in order by what is below (TCP), one that is lost holds up all behind it. Of such a fast
//! path `forward` is as long as packets were held up lately (`Rtt::arrival_delay`), and while another path delivers
//! sooner, sparse streams use that one (`is_late`). Bulk data uses both.
//!
//! What a round trip takes beyond the least is time in the queue on the way to the peer. What is
//! left is what can be sent before the peer must open its window: with small windows the rule is
//! always at work (12 MB over 100 Mbit/s 5 ms and 10 Mbit/s 50 ms, receive buffer of 256 KiB,
//! simulated: 88 Mbit/s with it, 17 without).

use crate::path::{Path, PathId, PathSet, Paths};
use crate::time::Duration;

/// More than these no path doubles: a first window of 4 KiB becomes 256 MiB.
const MOST_DOUBLINGS: u64 = 16;

/// Whether `id` should carry something of the `left` bytes that wait to be sent. True for the first
/// in the order of `smallest_srtt`, so that something is always sent.
pub(crate) fn is_worth_using(paths: &Paths, usable: PathSet, id: PathId, left: usize) -> bool {
    let Some(slow) = paths.get(id).filter(|path| path.rtt().smoothed().is_some()) else {
        return true;
    };
    let is_faster =
        |path: &&Path| path.rtt().smoothed().is_some_and(|srtt| Some(srtt) < slow.rtt().smoothed());
    let faster = || paths.among(usable).filter(is_faster);
    let arrival = |path: &Path| path.rtt().arrival_delay();
    let Some(fastest) = faster().map(arrival).min() else { return true };
    // Without the hold-up of the slow path: one that carries nothing would never be measured again.
    let time = slow.rtt().forward_delay().saturating_sub(fastest);
    let delivered = faster().map(|path| delivered(path, time)).fold(0, u64::saturating_add);
    left as u64 >= delivered
}

/// Whether packets on `id` may be held up for so long by what is below that another path delivers sooner, even if all of
/// `waiting` packets have their turns there first. Never true for the path with the least delay, and [`is_worth_using`]
/// is true for that one: something is always sent. A path whose socket is full does not make another one late,
/// because nothing is handed to it until what waits there has left. It may still be waited for if its round trip is
/// shorter: [`is_worth_using`] counts it.
pub(crate) fn is_late(paths: &Paths, usable: PathSet, id: PathId, waiting: usize) -> bool {
    let path = paths.get(id).filter(|path| path.rtt().hold_up().is_some());
    let Some(delay) = path.map(|path| path.rtt().arrival_delay()) else { return false };
    let others = paths.among(usable).filter(|path| path.id() != id && paths.is_open(path.id()));
    others.filter_map(|path| last_arrival(path, waiting)).any(|other| other < delay)
}

/// How long the last of `waiting` packets may take over `path`, which leave as soon as the window lets them. None before
/// the first measurement.
fn last_arrival(path: &Path, waiting: usize) -> Option<Duration> {
    let rate = path.subflow().window_rate().filter(|_| path.rtt().smoothed().is_some())?.max(1);
    let packet = path.congestion().chunk_limit().max(1);
    let free = path.congestion().window().saturating_sub(path.in_flight()).div_ceil(packet);
    let behind = waiting.max(1).saturating_sub(free) as u64;
    let turn = (1_000_000_000 * packet as u64).saturating_mul(behind) / rate;
    Some(path.rtt().arrival_delay() + Duration::from_nanos(turn))
}

/// Bytes that `path` delivers in `time`.
fn delivered(path: &Path, time: Duration) -> u64 {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let round = nanos(path.rtt().smoothed().unwrap_or_default()).max(1);
    let (rounds, rest) = (nanos(time) / round, nanos(time) % round);
    let window = path.congestion().window() as u64;
    let part = |bytes: u64| u64::try_from(u128::from(bytes) * u128::from(rest) / u128::from(round));
    if !path.congestion().is_doubling() {
        return window.saturating_mul(rounds).saturating_add(part(window).unwrap_or(u64::MAX));
    }
    let last = window.saturating_mul(1 << rounds.min(MOST_DOUBLINGS));
    (last - window).saturating_add(part(last).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::{is_late, is_worth_using};
    use crate::config::{Config, CongestionControl};
    use crate::path::congestion::Group;
    use crate::path::{PathAddr, PathId, PathSet, PathState, Paths};
    use crate::time::{Duration, Instant};
    use core::net::SocketAddr;

    const FAST: PathId = PathId(0);
    const SLOW: PathId = PathId(1);

    fn two(srtts: [Option<u64>; 2]) -> (Paths, PathSet) {
        with(&Config::default(), srtts)
    }

    fn with(config: &Config, srtts: [Option<u64>; 2]) -> (Paths, PathSet) {
        let (mut paths, mut all) = (Paths::new(), PathSet::default());
        for (port, srtt) in (1..).zip(srtts) {
            let remote = SocketAddr::from(([10, 0, 0, 1], port));
            let addr = PathAddr { local: remote, remote };
            let id = paths.add(addr, 1500, PathState::Active, config).unwrap();
            let path = paths.get_mut(id).unwrap();
            if let Some(srtt) = srtt {
                path.rtt_mut().on_sample(Instant::ZERO, Duration::from_millis(srtt));
            }
            all.insert(id);
        }
        (paths, all)
    }

    #[test]
    fn the_slow_path_helps_only_while_there_is_much_to_send() {
        let (paths, all) = two([Some(10), Some(110)]);
        // Until a chunk arrives over the slow path the fast one has five round trips, in each of which it doubles.
        let window = paths.get(FAST).unwrap().congestion().window();
        assert!(!is_worth_using(&paths, all, SLOW, 31 * window - 100));
        assert!(is_worth_using(&paths, all, SLOW, 31 * window + 100));
        assert!(is_worth_using(&paths, all, FAST, 1));
    }

    #[test]
    fn a_path_that_has_found_its_rate_delivers_a_window_in_each_round_trip() {
        let congestion = CongestionControl::Rfc9260;
        let (mut paths, all) =
            with(&Config { congestion, ..Config::default() }, [Some(10), Some(110)]);
        let fast = paths.get_mut(FAST).unwrap().congestion_mut();
        fast.on_loss(&Group::default());
        let window = fast.window();
        assert!(!fast.is_doubling());
        assert!(!is_worth_using(&paths, all, SLOW, 5 * window - 100));
        assert!(is_worth_using(&paths, all, SLOW, 5 * window + 100));
    }

    fn hold_up(paths: &mut Paths, id: PathId, until: u64) {
        let rtt = paths.get_mut(id).unwrap().rtt_mut();
        rtt.note_order(true);
        rtt.on_data_sample(Instant::ZERO, Duration::from_millis(until));
    }

    #[test]
    fn a_path_that_holds_packets_up_is_late_while_another_one_delivers_sooner() {
        let (mut paths, all) = two([Some(20), Some(60)]);
        assert!(!is_late(&paths, all, FAST, 1), "nothing is below");
        hold_up(&mut paths, FAST, 20);
        assert!(!is_late(&paths, all, FAST, 1), "nothing was held up");
        hold_up(&mut paths, FAST, 100);
        // 10 ms to the peer and 80 ms in wait, beside 30 ms.
        assert!(is_late(&paths, all, FAST, 1));
        assert!(
            !is_late(&paths, all, FAST, 1000),
            "the last of so many would wait for longer there"
        );
        assert!(!is_late(&paths, all, SLOW, 1));
        let mut only = PathSet::default();
        only.insert(FAST);
        assert!(!is_late(&paths, only, FAST, 1), "alone");
        hold_up(&mut paths, SLOW, 200);
        assert!(!is_late(&paths, all, FAST, 1), "the other one is held up for longer");
        assert!(is_late(&paths, all, SLOW, 1));
    }

    #[test]
    fn a_path_that_holds_packets_up_is_not_late_beside_one_whose_socket_takes_nothing() {
        let (mut paths, all) = two([Some(20), Some(60)]);
        hold_up(&mut paths, FAST, 100);
        let other = paths.get(SLOW).unwrap().addr().local;
        paths.set_blocked(&[other]);
        assert!(!is_late(&paths, all, FAST, 1));
        paths.set_blocked(&[]);
        assert!(is_late(&paths, all, FAST, 1));
    }

    #[test]
    fn the_path_with_the_least_delay_is_used_although_another_one_has_shorter_round_trips() {
        let (mut paths, all) = two([Some(20), Some(60)]);
        assert!(!is_worth_using(&paths, all, SLOW, 100));
        hold_up(&mut paths, FAST, 100);
        assert!(is_late(&paths, all, FAST, 1) && is_worth_using(&paths, all, SLOW, 100));
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
