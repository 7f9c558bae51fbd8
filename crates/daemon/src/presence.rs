//! Whether a peer is still there, when its host says that nobody listens at its port.
//!
//! A process that is killed says no goodbye. Its host answers for it, by ICMP port unreachable.
//! Such a message quotes our tag, but may still come from a router or a firewall that has changed
//! its mind, so it only raises a doubt: the engine probes the path at once, and an association from
//! which nothing has come for a second, on no path, while the doubt lasted, is given up. Programs
//! then see a reset soon, as they would with TCP, instead of after many retransmissions.

use crate::association::Setup;
use crate::log;
use crate::stack::Stack;
use crate::timers::Timer;
use manypath_engine::{AssociationId, Duration, PathState};
use tracing::info;

/// How long a peer in doubt may be silent, beyond two of its round trips.
const GRACE: Duration = Duration::from_secs(1);

impl Stack {
    pub(crate) fn notice_closed_ports(&mut self) {
        let closed = self.driver.take_closed_ports();
        if closed.is_empty() {
            return;
        }
        let ids: Vec<AssociationId> = self.associations.keys().copied().collect();
        for id in ids {
            let status = self.driver.endpoint().status(self.now, id);
            let mut paths = status.into_iter().flat_map(|status| status.paths);
            if paths.any(|path| closed.contains(&path.addr)) {
                self.doubt(id);
            }
        }
    }

    fn doubt(&mut self, id: AssociationId) {
        let received = self.packets_received(id);
        let patience = GRACE + self.longest_round_trip(id) * 2;
        let Some(association) = self.associations.get_mut(&id) else { return };
        // During setup the engine itself takes the message at its word.
        if association.setup == Setup::Connecting || association.doubted.is_some() {
            return;
        }
        association.doubted = Some(received);
        self.timers.set(self.now + patience, Timer::Presence(id));
    }

    fn longest_round_trip(&self, id: AssociationId) -> Duration {
        let status = self.driver.endpoint().status(self.now, id);
        let paths = status.into_iter().flat_map(|status| status.paths);
        paths.filter_map(|path| path.srtt).max().unwrap_or_default()
    }

    pub(crate) fn on_presence_timer(&mut self, id: AssociationId) {
        let received = self.packets_received(id);
        let Some(association) = self.associations.get_mut(&id) else { return };
        if association.doubted.take() != Some(received) || self.has_active_path(id) {
            return;
        }
        self.counters.count("peers_gone");
        info!(target: log::ASSOCIATION, "association {}: nobody listens there any more", id.0);
        self.driver.endpoint_mut().abort(self.now, id, b"nobody listens");
    }

    fn has_active_path(&self, id: AssociationId) -> bool {
        let status = self.driver.endpoint().status(self.now, id);
        let mut paths = status.into_iter().flat_map(|status| status.paths);
        paths.any(|path| path.state == PathState::Active)
    }
}
