//! Connections in the direct form: one association each, to the SCTP port that is the service's TCP
//! port. It is how programs without manypath are reached, and how they reach services here.
//!
//! ```text
//! connect ─▶ INIT to port 29899 ─▶ INIT ACK of manypath ──────────▶ flow of a shared association
//!                     └─▶ ABORT, or INIT ACK without manypath
//!                             └─▶ INIT to the service's port ─▶ INIT ACK ─▶ direct
//!                                             └─▶ ABORT ─▶ plain TCP
//! ```

use super::route::{check_route, udp_address};
use super::{Association, Base, Setup, Up, unconnected};
use crate::log;
use crate::parameters::{self, Manner};
use crate::privileged::Acceptor;
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, Profile};
use manypath_flow::{
    ADAPTATION, DIRECT_ADAPTATION, DirectEnd, DirectFlow, DirectPeer, FlowId, Framing,
};
use manypath_rules::{Encrypt, PathLimits};
use std::net::SocketAddr;
use tracing::{debug, info, warn};

impl Base {
    /// Begins the association of a connection of the program at `source`.
    pub(crate) fn begin_direct(
        &mut self,
        destination: SocketAddr,
        source: SocketAddr,
        profile: Profile,
        acceptor: Acceptor,
    ) -> Result<(AssociationId, FlowId), FallbackReason> {
        let remote = udp_address(&self.core, destination.ip(), acceptor)?;
        check_route(&self.core, remote.ip())?;
        let realm = self.core.scopes.realm_towards(destination.ip(), Some(source.ip()));
        let own =
            self.core.scopes.within(realm, parameters::of_direct(&self.core.config, profile))?;
        let now = self.core.now;
        let endpoint = self.core.driver.endpoint_mut();
        let id = endpoint
            .connect_with(now, remote, destination.port(), own, None)
            .map_err(unconnected)?;
        let (flow, name) = DirectFlow::opening(destination, source);
        let flow = flow.framed(self.core.framing());
        let association = Association::direct(
            Some(Manner {
                profile,
                limits: PathLimits::default(),
                announce: self.core.config.carrying.announce,
            }),
            Setup::Connecting,
            now,
            flow,
        );
        self.all.insert(id, association.asked(acceptor, Encrypt::Off));
        self.core.count("direct_associations_begun");
        debug!(target: log::ASSOCIATION, "association {} to {destination}: trying directly", id.0);
        Ok((id, name))
    }

    /// Whether it is such an association. One that a peer has begun shows it by our port.
    pub(crate) fn is_direct(&self, id: AssociationId) -> bool {
        match self.all.get(&id) {
            Some(association) => association.mux.is_direct(),
            None => {
                let ports = self.core.driver.endpoint().ports(id);
                ports.is_some_and(|(own, _)| own != manypath_flow::SCTP_PORT)
            }
        }
    }

    pub(crate) fn on_direct_connected(&mut self, id: AssociationId, up: &Up) {
        let peer = match up.adaptation.filter(|_| self.core.framing() == Framing::Pieces) {
            Some(DIRECT_ADAPTATION) => DirectPeer::Manypath,
            // It would take bytes for messages of flows.
            Some(ADAPTATION) => {
                self.core.count("associations_of_another_form_aborted");
                self.core.abort(id, b"another form");
                return;
            }
            // Whatever else a program has announced is its own affair.
            Some(_) | None => DirectPeer::Native,
        };
        if !up.initiated && !self.take_in_direct(id, peer, up.outbound_streams) {
            return;
        }
        let Some(association) = self.all.get_mut(&id) else { return };
        association.setup = Setup::Established;
        if let Some(flow) = association.mux.direct() {
            flow.set_streams(up.outbound_streams);
            flow.established(peer);
        }
        self.touch(id);
        let name = self.core.peer_name(id);
        info!(target: log::ASSOCIATION, "association {} with {name}: direct, {peer:?}", id.0);
    }

    /// A peer wants to reach the service at our port, at the address that it has used.
    fn take_in_direct(&mut self, id: AssociationId, peer: DirectPeer, streams: u16) -> bool {
        let paths = self.core.paths_of(id);
        let primary = paths.iter().find(|path| path.primary);
        let (Some(path), Some((own, theirs))) = (primary, self.core.driver.endpoint().ports(id))
        else {
            return false;
        };
        let destination = SocketAddr::new(path.addr.local.ip(), own);
        let source = SocketAddr::new(path.addr.remote.ip(), theirs);
        let mut flow = DirectFlow::incoming(destination, source, peer).framed(self.core.framing());
        flow.set_streams(streams);
        let association = Association::direct(None, Setup::Established, self.core.now, flow);
        self.all.insert(id, association);
        self.core.count("direct_associations_accepted");
        true
    }

    /// The peer's program has been started anew and uses its old ports: its connection is a new one.
    /// Nobody can be served whom we have called.
    pub(crate) fn on_direct_restarted(
        &mut self,
        id: AssociationId,
        peer: DirectPeer,
        streams: u16,
    ) {
        info!(target: log::ASSOCIATION, "association {}: the peer has restarted", id.0);
        let ours = self.all.get(&id).is_some_and(Association::is_ours);
        if ours {
            self.core.abort(id, b"the connection is lost");
        } else if self.take_in_direct(id, peer, streams) {
            self.touch(id);
        }
    }

    /// Takes what has arrived, as much as its reader keeps up with.
    pub(crate) fn read_direct(&mut self, id: AssociationId) {
        let Some(association) = self.all.get_mut(&id) else { return };
        let input_over = association.input_over;
        let Some(flow) = association.mux.direct() else { return };
        let mut news = false;
        while flow.wants_messages() {
            match self.core.driver.endpoint_mut().read(id) {
                Some(message) => {
                    news = true;
                    if let Err(error) = flow.handle_message(message) {
                        return self.core.abort_for(id, error);
                    }
                }
                None => {
                    if input_over && !flow.has_input_end() {
                        flow.end_of_input();
                        news = true;
                    }
                    break;
                }
            }
        }
        if news {
            self.touch(id);
        }
    }

    /// The peer sends no more than what has arrived, and takes nothing more.
    pub(crate) fn on_direct_peer_end(&mut self, id: AssociationId) {
        let Some(association) = self.all.get_mut(&id) else { return };
        let Some(flow) = association.mux.direct() else { return };
        flow.end_of_output();
        association.input_over = true;
        self.read_direct(id);
        self.touch(id);
    }

    /// Ends the association when its flow has ended.
    pub(crate) fn end_direct(&mut self, id: AssociationId) {
        let Some(flow) = self.all.get_mut(&id).and_then(|one| one.mux.direct()) else {
            return;
        };
        // An ABORT would overtake what was said before.
        if flow.fault().is_some() && !self.core.driver.endpoint().is_dry(id) {
            return self.core.driver.endpoint_mut().tell_when_dry(self.core.now, id);
        }
        let end = flow.poll_end();
        let Some(association) = self.all.get_mut(&id) else { return };
        match end {
            Some(DirectEnd::Shutdown) => {
                if association.setup == Setup::Established {
                    association.setup = Setup::Ending;
                }
                self.core.driver.endpoint_mut().shutdown(self.core.now, id);
            }
            Some(DirectEnd::Abort) => self.core.abort(id, b"reset"),
            Some(DirectEnd::Malformed(why)) => {
                self.core.count("connections_aborted_malformed");
                warn!(target: log::CONNECTION, "association {}: aborted: {why}", id.0);
                self.core.abort(id, why.as_bytes());
            }
            None => {}
        }
    }
}
