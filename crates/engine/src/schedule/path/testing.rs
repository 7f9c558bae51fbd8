//! Paths to test orders with.

use crate::config::Config;
use crate::path::{PathAddr, PathSet, PathState, Paths};
use core::net::SocketAddr;

/// `count` active paths.
pub(crate) fn paths(count: u16) -> (Paths, PathSet) {
    let (mut paths, mut all) = (Paths::new(), PathSet::default());
    for port in 1..=count {
        let remote = SocketAddr::from(([10, 0, 0, 1], port));
        let addr = PathAddr { local: remote, remote };
        all.insert(paths.add(addr, 1500, PathState::Active, &Config::default()).unwrap());
    }
    (paths, all)
}
