//! Paths to test orders with.

use crate::config::Config;
use crate::path::congestion::Congestion;
use crate::path::{Path, PathAddr, PathId, PathPolicy, PathSet, PathState, Paths};
use crate::time::{Duration, Instant};
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

/// Active paths with these round-trip times in milliseconds, measured once.
pub(crate) fn measured(srtts: &[u64]) -> (Paths, PathSet) {
    let (mut paths, all) = paths(srtts.len() as u16);
    for (path, srtt) in paths.iter_mut().zip(srtts) {
        path.rtt_mut().on_sample(Instant::ZERO, Duration::from_millis(*srtt));
    }
    (paths, all)
}

impl Path {
    pub(crate) fn set_state(&mut self, state: PathState) {
        let errors = self.health.errors();
        self.health.set(state, errors);
    }

    pub(crate) fn set_errors(&mut self, errors: u32) {
        let state = self.health.state();
        self.health.set(state, errors);
    }

    pub(crate) fn congestion_mut(&mut self) -> &mut Congestion {
        &mut self.subflow.congestion
    }
}

impl Paths {
    pub(crate) fn regulate(&mut self, id: PathId, policy: PathPolicy) {
        if let Some(path) = self.get_mut(id) {
            path.regime.set_policy(policy);
        }
        self.note_regulation();
    }
}
