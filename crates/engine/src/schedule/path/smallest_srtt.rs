//! The order in which paths are served: the smallest smoothed round-trip time first, so that the
//! fast paths take what they can before the slow ones get anything. A path that was never measured
//! comes last.

use crate::path::{PathId, PathSet, Paths};
use crate::time::Duration;

/// Room for every path that an association can have.
const MAX: usize = 32;

/// Paths in the order in which they are served.
#[derive(Clone, Debug)]
pub(crate) struct PathOrder {
    entries: [(Duration, PathId); MAX],
    len: usize,
    next: usize,
}

/// The paths of `usable`, smallest srtt first, lower number first among equals.
pub(crate) fn by_smallest_srtt(paths: &Paths, usable: PathSet) -> PathOrder {
    let mut order = PathOrder { entries: [(Duration::MAX, PathId(0)); MAX], len: 0, next: 0 };
    for path in paths.iter().filter(|path| usable.contains(path.id)).take(MAX) {
        order.entries[order.len] = (path.rtt.smoothed().unwrap_or(Duration::MAX), path.id);
        order.len += 1;
    }
    order.entries[..order.len].sort_unstable();
    order
}

impl Iterator for PathOrder {
    type Item = PathId;

    fn next(&mut self) -> Option<PathId> {
        let (_, id) = *self.entries[..self.len].get(self.next)?;
        self.next += 1;
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::by_smallest_srtt;
    use crate::config::Config;
    use crate::path::{PathAddr, PathId, PathSet, PathState, Paths};
    use crate::time::{Duration, Instant};
    use alloc::vec::Vec;
    use core::net::SocketAddr;

    #[test]
    fn fast_paths_first_unknown_last() {
        let (mut paths, mut all) = (Paths::new(), PathSet::default());
        for (port, srtt) in [(1, Some(50)), (2, None), (3, Some(10)), (4, Some(10))] {
            let remote = SocketAddr::from(([10, 0, 0, 1], port));
            let addr = PathAddr { local: remote, remote };
            let id = paths.add(addr, 1500, PathState::Active, &Config::default()).unwrap();
            let path = paths.get_mut(id).unwrap();
            if let Some(srtt) = srtt {
                path.rtt.on_sample(Instant::ZERO, Duration::from_millis(srtt));
            }
            all.insert(id);
        }
        let order: Vec<_> = by_smallest_srtt(&paths, all).collect();
        assert_eq!(order, [PathId(2), PathId(3), PathId(0), PathId(1)]);
    }
}
