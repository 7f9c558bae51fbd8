//! The path over which the last SACK came first, then the path that sent DATA the longest time ago
//! (the order of the paper's simulation model, INET's `smallest last transmission`).

use super::PathOrder;
use crate::path::{PathId, PathSet, Paths};

/// The paths of `usable`, `first` before all others, then by the time of their last DATA.
pub(crate) fn by_least_recently_used(
    paths: &Paths,
    usable: PathSet,
    first: Option<PathId>,
) -> PathOrder {
    PathOrder::by(paths, usable, |path| (Some(path.id()) != first, path.flight().last_data()))
}

#[cfg(test)]
mod tests {
    use super::by_least_recently_used;
    use crate::path::PathId;
    use crate::path::testing::paths;
    use crate::time::{Duration, Instant};
    use alloc::vec::Vec;

    #[test]
    fn who_waited_longest_goes_first_unless_a_sack_has_just_come() {
        let (mut paths, all) = paths(4);
        for (path, at) in paths.iter_mut().zip([Some(9), Some(3), None, Some(3)]) {
            path.set_last_data(at.map(|at| Instant::ZERO + Duration::from_millis(at)));
        }
        let order = |first| -> Vec<u8> {
            by_least_recently_used(&paths, all, first).map(|id| id.0).collect()
        };
        assert_eq!(order(None), [2, 1, 3, 0]);
        assert_eq!(order(Some(PathId(0))), [0, 2, 1, 3]);
    }
}
