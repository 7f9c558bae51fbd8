//! The smallest smoothed round-trip time first, so that the fast paths take what they can before
//! the slow ones get anything. A path that was never measured comes last.

use super::PathOrder;
use crate::path::{PathSet, Paths};
use crate::time::Duration;

/// The paths of `usable`, smallest srtt first, lower number first among equals.
pub(crate) fn by_smallest_srtt(paths: &Paths, usable: PathSet) -> PathOrder {
    PathOrder::by(paths, usable, |path| path.rtt().smoothed().unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use super::by_smallest_srtt;
    use crate::path::PathId;
    use crate::path::testing::paths;
    use crate::time::{Duration, Instant};
    use alloc::vec::Vec;

    #[test]
    fn fast_paths_first_unknown_last() {
        let (mut paths, all) = paths(4);
        for (path, srtt) in paths.iter_mut().zip([Some(50), None, Some(10), Some(10)]) {
            if let Some(srtt) = srtt {
                path.rtt_mut().on_sample(Instant::ZERO, Duration::from_millis(srtt));
            }
        }
        let order: Vec<_> = by_smallest_srtt(&paths, all).collect();
        assert_eq!(order, [PathId(2), PathId(3), PathId(0), PathId(1)]);
    }
}
