//! Which path repeats a lost chunk.
//!
//! A fast retransmission stays on the path of the original (RFC 9260 section 6.4), unless that path
//! is not usable any more. What timed out goes to another path if there is one (same section). Which
//! one is what the published policies differ in (Iyengar: SAME, ASAP, CWND, SSTHRESH, LOSSRATE).
//!
//! No path is chosen when the loss is found. The chunk waits with the path that lost it, and a path
//! that has a window asks whether it may take it. With ASAP the first one may, in the order of the
//! path scheduler: the chunk never waits for a path without window, and a failed path's data spreads
//! over all others. The other policies name one path, anew each time. If that path has no window,
//! what is in flight on it will be acknowledged or will time out within its RTO.

use crate::config::{Experiment, RetransmissionPolicy};
use crate::path::{Loss, Path, PathId, PathSet, Paths};
use crate::tsn::Tsn64;
use core::cmp::Reverse;

impl RetransmissionPolicy {
    /// Whether `taker` may repeat what was lost on `path`. `leave`: not on that path if there is
    /// another.
    fn lets(
        self,
        taker: PathId,
        path: &Path,
        leave: bool,
        (paths, usable): (&Paths, PathSet),
    ) -> bool {
        let mut candidates = usable;
        if leave && !usable.is_only(path.id()) {
            candidates.remove(path.id());
        }
        let best = |key: &dyn Fn(&Path) -> (u64, u64)| {
            let key = |path: &&Path| (key(path), Reverse(path.id()));
            paths.among(candidates).max_by_key(key).map(|path| path.id())
        };
        let window = |path: &Path| path.congestion().window() as u64;
        match self {
            Self::Same => taker == path.id() || !usable.contains(path.id()),
            Self::Asap => candidates.contains(taker) && paths.lets_repeat(taker, candidates),
            Self::Cwnd => best(&|path| (window(path), 0)) == Some(taker),
            Self::Ssthresh => {
                best(&|path| (path.congestion().ssthresh() as u64, window(path))) == Some(taker)
            }
            Self::LossRate => {
                let kept = |path: &Path| u64::MAX - path.flight().loss_level();
                best(&|path| (kept(path), window(path))) == Some(taker)
            }
            Self::Next => {
                let after = candidates.iter().find(|id| *id > path.id());
                after.or(candidates.iter().next()) == Some(taker)
            }
        }
    }
}

/// The lowest TSN that path `taker` may repeat, where `usable` are the paths that may carry data.
pub(super) fn next_lost(
    experiment: &Experiment,
    paths: &Paths,
    usable: PathSet,
    taker: PathId,
) -> Option<Tsn64> {
    let candidates =
        paths.iter().filter(|path| !path.flight().lost().is_empty()).flat_map(|path| {
            let (lost, all) = (path.flight().lost(), (paths, usable));
            let reported = lost.first(Loss::Reported);
            let reported = reported
                .filter(|_| experiment.fast_retransmission_policy.lets(taker, path, false, all));
            let timed_out = lost.first(Loss::TimedOut);
            let timed_out = timed_out
                .filter(|_| experiment.timeout_retransmission_policy.lets(taker, path, true, all));
            reported.into_iter().chain(timed_out)
        });
    candidates.min()
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Experiment, RetransmissionPolicy};
    use crate::path::{Loss, PathAddr, PathId, PathSet, PathState, Paths};
    use crate::tsn::Tsn64;
    use alloc::vec::Vec;
    use core::net::SocketAddr;
    use manypath_wire::Tsn;

    fn tsn(number: u64) -> Tsn64 {
        Tsn64::initial(Tsn(0)).plus(number)
    }

    fn three() -> Paths {
        let mut paths = Paths::new();
        for port in 1..=3 {
            let remote = SocketAddr::from(([10, 0, 0, 1], port));
            let addr = PathAddr { local: remote, remote };
            paths.add(addr, 1500, PathState::Active, &Config::default()).unwrap();
        }
        paths
    }

    fn lose(paths: &mut Paths, path: u8, number: u64, loss: Loss) {
        paths.get_mut(PathId(path)).unwrap().have_lost(tsn(number), loss);
    }

    fn set(ids: &[u8]) -> PathSet {
        let mut set = PathSet::default();
        ids.iter().for_each(|id| set.insert(PathId(*id)));
        set
    }

    fn next_lost(paths: &Paths, usable: PathSet, taker: PathId) -> Option<Tsn64> {
        super::next_lost(&Experiment::default(), paths, usable, taker)
    }

    /// The paths of four that may repeat what was reported missing, or timed out, on path 1.
    fn takers(policy: RetransmissionPolicy, timed_out: bool) -> Vec<u8> {
        let mut paths = three();
        let remote = SocketAddr::from(([10, 0, 0, 1], 4));
        let addr = PathAddr { local: remote, remote };
        paths.add(addr, 1500, PathState::Active, &Config::default()).unwrap();
        for (path, (chunks, losses)) in paths.iter_mut().zip([(9, 3), (50, 0), (20, 9), (30, 2)]) {
            let config = Config { initial_packets: Some(chunks), ..Config::default() };
            path.congestion_mut().set_start(&config, 1500);
            (0..losses).for_each(|_| path.raise_loss_level());
        }
        let loss = if timed_out { Loss::TimedOut } else { Loss::Reported };
        lose(&mut paths, 1, 5, loss);
        let experiment = Experiment {
            fast_retransmission_policy: policy,
            timeout_retransmission_policy: policy,
            ..Experiment::default()
        };
        let takes = |id: &u8| {
            super::next_lost(&experiment, &paths, set(&[0, 1, 2, 3]), PathId(*id)).is_some()
        };
        (0..4).filter(takes).collect()
    }

    #[test]
    fn each_policy_names_its_path() {
        use RetransmissionPolicy::{Asap, Cwnd, LossRate, Next, Same, Ssthresh};
        for (policy, fast, timeout) in [
            (Same, [1].as_slice(), [1].as_slice()),
            (Asap, &[0, 1, 2, 3], &[0, 2, 3]),
            (Cwnd, &[1], &[3]),
            (Ssthresh, &[1], &[3]),
            (LossRate, &[1], &[3]),
            (Next, &[2], &[2]),
        ] {
            assert_eq!(
                (&*takers(policy, false), &*takers(policy, true)),
                (fast, timeout),
                "{policy}"
            );
        }
    }

    #[test]
    fn reported_chunks_stay_unless_their_path_is_gone() {
        let mut paths = three();
        lose(&mut paths, 0, 5, Loss::Reported);
        let all = set(&[0, 1, 2]);
        assert_eq!(next_lost(&paths, all, PathId(0)), Some(tsn(5)));
        assert_eq!(next_lost(&paths, all, PathId(1)), None);
        assert_eq!(next_lost(&paths, set(&[1, 2]), PathId(1)), Some(tsn(5)));
    }

    #[test]
    fn timed_out_chunks_go_elsewhere_unless_there_is_no_other_path() {
        let mut paths = three();
        for (path, number) in [(0, 5), (0, 6), (2, 4)] {
            lose(&mut paths, path, number, Loss::TimedOut);
        }
        let all = set(&[0, 1, 2]);
        assert_eq!(next_lost(&paths, all, PathId(0)), Some(tsn(4)));
        assert_eq!(next_lost(&paths, all, PathId(1)), Some(tsn(4)));
        assert_eq!(next_lost(&paths, all, PathId(2)), Some(tsn(5)));
        assert_eq!(next_lost(&paths, set(&[0]), PathId(0)), Some(tsn(4)));
        paths.get_mut(PathId(2)).unwrap().subflow_mut().on_repeated(tsn(4), 0, PathId(2));
        assert_eq!(next_lost(&paths, set(&[0]), PathId(0)), Some(tsn(5)));
    }
}
