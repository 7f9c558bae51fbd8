//! The paths that may carry user data.

use crate::path::policy;
use crate::path::{Path, PathId, PathSet, PathState, Paths};

/// All active paths with concurrent multipath transfer, otherwise the primary one or, if it is not
/// active, the first that is (RFC 9260 section 6.4.1). If none is active, the least failed one: data
/// must not wait for a heartbeat (RFC 7829 section 3.2, CMT-PF). Where paths have policies,
/// `policy::regulated` says which of the active ones count.
pub(crate) fn usable(paths: &Paths, multipath: bool) -> PathSet {
    let mut set = PathSet::default();
    let allowed = paths.is_regulated().then(|| policy::usable(paths));
    let is_allowed = |path: &&Path| match allowed {
        Some(allowed) => allowed.contains(path.id()),
        None => path.health().is_active(),
    };
    let active = paths.iter().filter(is_allowed).map(|path| path.id());
    if multipath {
        active.for_each(|id| set.insert(id));
    } else if let Some(id) = active.min_by_key(|id| *id != paths.primary()) {
        set.insert(id);
    }
    if set.is_empty() {
        least_failed(paths).into_iter().for_each(|id| set.insert(id));
    }
    set
}

fn least_failed(paths: &Paths) -> Option<PathId> {
    let rank = |path: &Path| match path.health().state() {
        _ if path.regime().rank().is_none() => None,
        PathState::Inactive if path.health().is_suspended() => Some(3),
        PathState::Active => Some(0),
        PathState::PotentiallyFailed => Some(1),
        PathState::Inactive => Some(2),
        PathState::Unconfirmed => None,
    };
    let ranked = paths.iter().filter_map(|path| {
        let latest = core::cmp::Reverse(path.flight().last_data());
        Some((rank(path)?, path.health().errors(), latest, path.id()))
    });
    ranked.min().map(|(.., id)| id)
}

#[cfg(test)]
mod tests {
    use super::usable;
    use crate::config::Config;
    use crate::path::PathState::{Active, Inactive, PotentiallyFailed, Unconfirmed};
    use crate::path::{PathAddr, PathId, PathState, Paths};
    use alloc::vec::Vec;
    use core::net::SocketAddr;

    fn paths(states: &[PathState]) -> Paths {
        let mut paths = Paths::new();
        for (port, state) in (1..).zip(states) {
            let remote = SocketAddr::from(([10, 0, 0, 1], port));
            let addr = PathAddr { local: remote, remote };
            paths.add(addr, 1500, *state, &Config::default()).unwrap();
        }
        paths
    }

    fn chosen(paths: &Paths, multipath: bool) -> Vec<u8> {
        usable(paths, multipath).iter().map(|id| id.0).collect()
    }

    #[test]
    fn all_active_paths_or_the_primary() {
        let mut paths = paths(&[Active, PotentiallyFailed, Active, Unconfirmed, Active]);
        assert_eq!(chosen(&paths, true), [0, 2, 4]);
        paths.set_primary(PathId(2));
        assert_eq!(chosen(&paths, false), [2]);
        paths.set_primary(PathId(1));
        assert_eq!(chosen(&paths, false), [0]);
    }

    #[test]
    fn the_least_failed_path_if_none_is_active() {
        let mut paths = paths(&[Unconfirmed, Inactive, PotentiallyFailed, PotentiallyFailed]);
        paths.get_mut(PathId(2)).unwrap().set_errors(2);
        paths.get_mut(PathId(3)).unwrap().set_errors(1);
        assert_eq!(chosen(&paths, true), [3]);
        assert_eq!(chosen(&paths, false), [3]);
        assert!(chosen(&self::paths(&[Unconfirmed]), true).is_empty());
    }
}
