//! Which path a packet takes that may take any: control chunks, and what ends an association.

use super::{Path, PathId, Paths};
use crate::time::Duration;

impl Paths {
    /// The path for packets that may take any: the primary while it is Active, else the one that
    /// has failed least. Where none is confirmed, the way that the peer's SHUTDOWN took: the peer
    /// answers no HEARTBEATs any more that could confirm one.
    pub(crate) fn control_path(&self) -> PathId {
        let primary = self.primary();
        let source = |path: &Path| Some(path.id()) == self.shutdown_source;
        let best = self.iter().min_by_key(|path| {
            let reluctance = path.health().reluctance();
            let wanted = path.regime.rank().map_or((1, None), |rank| (0, Some(rank)));
            let state = (path.health.is_suspended(), reluctance.0);
            let unproven = !path.health().is_confirmed() && !source(path);
            (state, wanted, unproven, reluctance.1, path.id() != primary, path.id())
        });
        best.map_or(primary, |path| path.id())
    }

    /// The RTO of the path for packets that may take any.
    pub(crate) fn control_rto(&self) -> Duration {
        self.get(self.control_path()).map_or(Duration::ZERO, |path| path.rtt().rto())
    }

    /// The path for SHUTDOWN and SHUTDOWN ACK. The latter goes to where the SHUTDOWN came from (RFC 9260 section
    /// 6.4); repeated because T2-shutdown has expired, it takes the best path.
    pub(crate) fn shutdown_path(&self) -> PathId {
        let source = self.shutdown_source.filter(|id| self.get(*id).is_some());
        source.unwrap_or_else(|| self.control_path())
    }

    /// The peer's SHUTDOWN came over `via`.
    pub(crate) fn note_shutdown(&mut self, via: PathId) {
        self.shutdown_source = Some(via);
    }

    /// T2-shutdown has expired: nothing was heard of what took the way of the peer's SHUTDOWN.
    pub(crate) fn leave_shutdown_path(&mut self) {
        self.shutdown_source = None;
    }
}
