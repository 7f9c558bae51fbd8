//! Which path repeats a lost chunk.
//!
//! A fast retransmission stays on the path of the original (RFC 9260 section 6.4), unless that path
//! is not usable any more. What timed out goes to another path (same section). Of the published
//! policies (Iyengar: SAME, ASAP, CWND, SSTHRESH, LOSSRATE) this is ASAP with the order of the path
//! scheduler: no path is chosen when the loss is found, the chunk waits with the path that lost it,
//! and the first path with a window takes it. So it never waits for a path without window, a failed
//! path's data spreads over all others, and nothing has to be moved when a path fails.

use crate::path::{PathId, PathSet, Paths};
use crate::tsn::Tsn64;
use alloc::collections::BTreeSet;

/// Chunks that were sent last on one path and are to be sent again.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// Found by missing reports.
    pub(crate) reported: BTreeSet<Tsn64>,
    /// T3-rtx expired, or the path was given up.
    pub(crate) timed_out: BTreeSet<Tsn64>,
}

impl Lost {
    /// Forgets `tsn`; it was acknowledged or is on its way again.
    pub(crate) fn remove(&mut self, tsn: Tsn64) {
        if !self.reported.remove(&tsn) {
            self.timed_out.remove(&tsn);
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.reported.is_empty() && self.timed_out.is_empty()
    }
}

/// The lowest TSN that path `taker` may repeat, where `usable` are the paths that may carry data.
pub(crate) fn next_lost(paths: &Paths, usable: PathSet, taker: PathId) -> Option<Tsn64> {
    let alone = usable.is_only(taker);
    let candidates = paths.iter().filter(|path| !path.cmt.lost.is_empty()).flat_map(|path| {
        let lost = &path.cmt.lost;
        let (own, given_up) = (path.id == taker, !usable.contains(path.id));
        let reported = lost.reported.first().filter(|_| own || given_up);
        let timed_out = lost.timed_out.first().filter(|_| !own || alone);
        reported.into_iter().chain(timed_out)
    });
    candidates.min().copied()
}

#[cfg(test)]
mod tests {
    use super::next_lost;
    use crate::config::Config;
    use crate::path::{PathAddr, PathId, PathSet, PathState, Paths};
    use crate::tsn::Tsn64;
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

    fn set(ids: &[u8]) -> PathSet {
        let mut set = PathSet::default();
        ids.iter().for_each(|id| set.insert(PathId(*id)));
        set
    }

    #[test]
    fn reported_chunks_stay_unless_their_path_is_gone() {
        let mut paths = three();
        paths.get_mut(PathId(0)).unwrap().cmt.lost.reported.insert(tsn(5));
        let all = set(&[0, 1, 2]);
        assert_eq!(next_lost(&paths, all, PathId(0)), Some(tsn(5)));
        assert_eq!(next_lost(&paths, all, PathId(1)), None);
        assert_eq!(next_lost(&paths, set(&[1, 2]), PathId(1)), Some(tsn(5)));
    }

    #[test]
    fn timed_out_chunks_go_elsewhere_unless_there_is_no_other_path() {
        let mut paths = three();
        let lost = &mut paths.get_mut(PathId(0)).unwrap().cmt.lost;
        lost.timed_out.extend([tsn(5), tsn(6)]);
        paths.get_mut(PathId(2)).unwrap().cmt.lost.timed_out.insert(tsn(4));
        let all = set(&[0, 1, 2]);
        assert_eq!(next_lost(&paths, all, PathId(0)), Some(tsn(4)));
        assert_eq!(next_lost(&paths, all, PathId(1)), Some(tsn(4)));
        assert_eq!(next_lost(&paths, all, PathId(2)), Some(tsn(5)));
        assert_eq!(next_lost(&paths, set(&[0]), PathId(0)), Some(tsn(4)));
        paths.get_mut(PathId(2)).unwrap().cmt.lost.remove(tsn(4));
        assert_eq!(next_lost(&paths, set(&[0]), PathId(0)), Some(tsn(5)));
    }
}
