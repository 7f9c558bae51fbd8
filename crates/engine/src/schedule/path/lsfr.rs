//! The path order of load sharing with LSFR: the primary path first, others only when its window is
//! used up, and only those that are free of errors; of these the one with the largest congestion
//! window, among equals the one with the smallest round-trip time.

use super::PathOrder;
use crate::path::{Path, PathSet, Paths};
use crate::time::Duration;
use core::cmp::Reverse;

/// The paths of `usable` in that order.
pub(crate) fn by_lsfr(paths: &Paths, usable: PathSet) -> PathOrder {
    let primary = paths.primary();
    PathOrder::by(paths, usable, |path| {
        let srtt = path.rtt().smoothed().unwrap_or(Duration::MAX);
        (path.id() != primary, Reverse(path.congestion().window()), srtt)
    })
}

/// Of `usable` the primary path and those without errors; all, if that leaves none.
pub(crate) fn without_errors(paths: &Paths, usable: PathSet) -> PathSet {
    let good = |path: &&Path| path.id() == paths.primary() || path.health().errors() == 0;
    let mut set = PathSet::default();
    paths.among(usable).filter(good).for_each(|path| set.insert(path.id()));
    if set.is_empty() { usable } else { set }
}

#[cfg(test)]
mod tests {
    use super::{by_lsfr, without_errors};
    use crate::path::PathId;
    use crate::path::congestion::Group;
    use crate::path::testing::paths;
    use crate::time::{Duration, Instant};
    use alloc::vec::Vec;

    #[test]
    fn the_primary_then_the_largest_window_then_the_smallest_round_trip() {
        let (mut paths, all) = paths(4);
        for (path, srtt) in paths.iter_mut().zip([10, 50, 40, 5]) {
            path.rtt_mut().on_sample(Instant::ZERO, Duration::from_millis(srtt));
        }
        paths.set_primary(PathId(1));
        paths.get_mut(PathId(3)).unwrap().congestion_mut().on_timeout(4000, &Group::default());
        let windows = paths.iter().map(|path| path.congestion().window()).collect::<Vec<_>>();
        assert!(windows[3] < windows[0] && windows[0] == windows[2], "{windows:?}");
        let order: Vec<u8> = by_lsfr(&paths, all).map(|id| id.0).collect();
        assert_eq!(order, [1, 0, 2, 3]);
    }

    #[test]
    fn paths_with_errors_are_left_out_except_the_primary() {
        let (mut paths, all) = paths(3);
        paths.get_mut(PathId(0)).unwrap().set_errors(1);
        paths.get_mut(PathId(2)).unwrap().set_errors(1);
        let left: Vec<u8> = without_errors(&paths, all).iter().map(|id| id.0).collect();
        assert_eq!(left, [0, 1]);
        let mut only = crate::path::PathSet::default();
        only.insert(PathId(2));
        assert_eq!(without_errors(&paths, only), only);
    }
}
