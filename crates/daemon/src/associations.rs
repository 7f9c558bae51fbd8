//! What the engine reports about associations, and the way of messages between it and the flows.

use crate::association::{Association, FlowUse, Setup};
use crate::connection::RelayEnd;
use crate::core::Core;
use crate::datagrams::pump_datagrams;
use crate::log;
use crate::parameters::{self, STREAMS};
use crate::peers::Peers;
use crate::privileged::{Acceptor, PeerKey};
use crate::stack::Stack;
use crate::status::path_state_name;
use crate::timers::Timer;
use manypath_control::status::FallbackReason;
use manypath_engine::{
    AssociationId, CloseReason, ConnectError, Duration, Event, Instant, PathId, PathState, Profile,
    SendError,
};
use manypath_flow::{Fed, FlowError, feed, unsent_limit};
use manypath_window::Budget;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use tracing::{info, warn};

/// What there is to know about an association that came up.
pub(crate) struct Up {
    pub(crate) initiated: bool,
    pub(crate) adaptation: Option<u32>,
    /// Usable in both directions.
    streams: u16,
    /// Usable towards the peer.
    pub(crate) outbound_streams: u16,
}

/// The associations, and what is to be done for them.
#[derive(Debug)]
pub(crate) struct Associations {
    all: BTreeMap<AssociationId, Association>,
    /// Which association to use for a peer's address, among those that this side began.
    by_peer: BTreeMap<PeerKey, AssociationId>,
    /// Those whose flows may have events or messages.
    dirty: BTreeSet<AssociationId>,
    /// Those with messages that wait for room in the engine.
    waiting: BTreeSet<AssociationId>,
    /// Those whose messages wait for the answer to the INIT: it may show that plain TCP is better.
    unanswered: BTreeSet<AssociationId>,
    /// What the windows of all flows take their memory from.
    memory: Budget,
}

impl Associations {
    pub(crate) fn new(memory: u64) -> Self {
        let (all, by_peer, dirty, waiting, unanswered) = Default::default();
        Self { all, by_peer, dirty, waiting, unanswered, memory: Budget::new(memory) }
    }

    pub(crate) fn get(&self, id: &AssociationId) -> Option<&Association> {
        self.all.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &AssociationId) -> Option<&mut Association> {
        self.all.get_mut(id)
    }

    pub(crate) fn insert(&mut self, id: AssociationId, association: Association) {
        self.all.insert(id, association);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&AssociationId, &Association)> {
        self.all.iter()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Association> {
        self.all.values()
    }

    pub(crate) fn ids(&self) -> Vec<AssociationId> {
        self.all.keys().copied().collect()
    }

    /// Its flows may have events or messages.
    pub(crate) fn touch(&mut self, id: AssociationId) {
        self.dirty.insert(id);
    }

    /// Whether this side began it.
    pub(crate) fn is_ours(&self, id: AssociationId) -> bool {
        self.all.get(&id).is_some_and(Association::is_ours)
    }

    pub(crate) fn touched(&self) -> Vec<AssociationId> {
        self.dirty.iter().copied().collect()
    }

    /// The association to use for these connections.
    pub(crate) fn association_with(&self, key: &PeerKey) -> Option<AssociationId> {
        let find = |acceptor| self.by_peer.get(&PeerKey { acceptor, ..*key }).copied();
        let proven = find(Acceptor::Privileged);
        match key.acceptor {
            Acceptor::Privileged => proven,
            Acceptor::Anyone => {
                proven.filter(|id| self.is_established(*id)).or_else(|| find(Acceptor::Anyone))
            }
        }
    }

    /// Connections to one of its addresses are not its own any more.
    pub(crate) fn disown(&mut self, id: AssociationId, addr: IpAddr) {
        self.by_peer.retain(|key, used| *used != id || key.addr != addr);
    }

    /// Connections to come do not use it.
    pub(crate) fn retire(&mut self, id: AssociationId) {
        self.by_peer.retain(|_, used| *used != id);
    }

    pub(crate) const fn memory(&self) -> &Budget {
        &self.memory
    }

    /// Whether nothing is left to be done for any of them at once.
    pub(crate) fn is_settled(&self, core: &Core) -> bool {
        self.dirty.is_empty() && !self.can_pump(core)
    }

    /// Whether messages wait for room in the engine.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Lets its messages wait for the answer to the INIT.
    pub(crate) fn hold(&mut self, id: AssociationId) {
        self.unanswered.insert(id);
    }

    /// Its messages wait no longer.
    pub(crate) fn let_go(&mut self, id: AssociationId) {
        self.unanswered.remove(&id);
    }

    /// Those whose messages wait for the answer to the INIT.
    pub(crate) const fn unanswered(&self) -> &BTreeSet<AssociationId> {
        &self.unanswered
    }
}

impl Associations {
    /// The association to use for `destination`, begun now if there is none, for a program that has bound the address
    /// `source` if there is one.
    pub(crate) fn association_for(
        &mut self,
        core: &mut Core,
        destination: SocketAddr,
        source: Option<IpAddr>,
        profile: Profile,
        acceptor: Acceptor,
    ) -> Result<AssociationId, FallbackReason> {
        let realm = core.scopes.realm_towards(destination.ip(), source);
        let key = PeerKey { addr: destination.ip(), profile, acceptor, realm };
        if let Some(id) = self.association_with(&key) {
            return Ok(id);
        }
        let remote = core.udp_address(destination.ip(), acceptor)?;
        core.check_route(remote.ip())?;
        let (now, port) = (core.now, manypath_flow::SCTP_PORT);
        let own = core.within(realm, parameters::with_profile(&core.config, profile))?;
        let endpoint = core.driver.endpoint_mut();
        let connected = match profile == core.config.profile && realm.is_none() {
            true => endpoint.connect_from_free_port(now, remote, port),
            false => endpoint.connect_with(now, remote, port, own),
        };
        let id = connected.map_err(unconnected)?;
        let association =
            Association::new(Some(profile), Setup::Connecting, core.now, STREAMS, &self.memory);
        self.all.insert(id, association.asked(acceptor));
        self.by_peer.insert(key, id);
        info!(target: log::ASSOCIATION, "association {} to {remote}: trying", id.0);
        Ok(id)
    }

    /// Whether the association is established and takes flows.
    pub(crate) fn is_established(&self, id: AssociationId) -> bool {
        let association = self.all.get(&id);
        association.is_some_and(|association| association.setup == Setup::Established)
    }

    /// Lets connections to every address where the peer has proved to be use the association, and
    /// clears their entries in the negative cache.
    fn adopt_peer_addresses(&mut self, core: &mut Core, peers: &mut Peers, id: AssociationId) {
        let Some(association) = self.all.get(&id) else { return };
        // A native program at an address says nothing of a manypath there.
        let Some(profile) = association.begun_with.filter(|_| !association.mux.is_direct()) else {
            return;
        };
        let near = core.gains_nothing(id);
        let realm = core.driver.endpoint().realm(id);
        for (addr, acceptor) in self.living_acceptors(core, id) {
            peers.forget_peer(core.now, addr, acceptor);
            if !near {
                crate::attempt::forget_near(core, peers, Some(addr));
            }
            self.by_peer.entry(PeerKey { addr, profile, acceptor, realm }).or_insert(id);
        }
    }

    /// New connections to an address that has failed are not the peer's any more: another host may have it by now. One
    /// that answers again is adopted again; until then plain TCP, or an association of its own, finds who is there.
    fn disown_failed_addresses(&mut self, core: &Core, id: AssociationId) {
        if !self.is_established(id) {
            return;
        }
        let living = self.living_acceptors(core, id);
        self.by_peer.retain(|key, used| *used != id || living.contains(&(key.addr, key.acceptor)));
    }

    fn on_peer_shutdown(&mut self, core: &mut Core, id: AssociationId) {
        if let Some(association) = self.all.get_mut(&id) {
            association.setup = Setup::Ending;
        }
        self.retire(id);
        self.on_direct_peer_end(core, id);
    }

    pub(crate) fn remove(&mut self, core: &mut Core, id: AssociationId) {
        if let Some(gone) = self.all.remove(&id) {
            core.counters.add_flows(gone.mux.counters().entries());
            let datagrams = gone.mux.datagrams().map(|datagrams| datagrams.counters().entries());
            core.counters.add_datagrams(datagrams.unwrap_or_default());
            self.limit_added_streams(core);
        }
        self.retire(id);
        self.dirty.remove(&id);
        self.waiting.remove(&id);
        self.unanswered.remove(&id);
    }

    /// `native`: it speaks SCTP, if not with manypath's port and form.
    fn remember_failed_connect(
        &self,
        core: &Core,
        peers: &mut Peers,
        id: AssociationId,
        reason: FallbackReason,
        native: bool,
    ) {
        let keys = self.by_peer.iter().filter(|(_, used)| **used == id);
        let keys: Vec<_> = keys.map(|(key, _)| (key.addr, key.acceptor)).collect();
        for (peer, acceptor) in keys {
            match native {
                true => peers.remember_native(core.now, peer, acceptor),
                false => peers.remember_peer(core.now, peer, acceptor, reason),
            }
        }
    }

    fn read_messages(&mut self, core: &mut Core, id: AssociationId) {
        if self.is_direct(core, id) {
            return self.read_direct(core, id);
        }
        let Some(association) = self.all.get_mut(&id) else { return };
        association.mux.advance_time(core.now);
        while let Some(message) = core.driver.endpoint_mut().read(id) {
            if let Err(error) = association.mux.handle_message(message) {
                return core.abort_for(id, error);
            }
        }
        self.touch(id);
    }

    /// Hands messages of the flows to the engine, as many as it should hold.
    pub(crate) fn pump_messages(&mut self, core: &mut Core) {
        let mut ids = std::mem::take(&mut self.dirty);
        ids.append(&mut self.waiting);
        for id in ids {
            self.pump(core, id);
        }
    }

    /// Whether the engine has sent so much that it can be given more.
    pub(crate) fn can_pump(&self, core: &Core) -> bool {
        let endpoint = core.driver.endpoint();
        self.waiting.iter().any(|id| endpoint.unsent(*id) < unsent_limit(endpoint, *id))
    }

    fn pump(&mut self, core: &mut Core, id: AssociationId) {
        if self.unanswered.contains(&id) {
            return;
        }
        self.note_activity(core, id);
        self.read_direct(core, id);
        let Some(association) = self.all.get_mut(&id) else { return };
        association.spoken = true;
        let endpoint = core.driver.endpoint_mut();
        association.mux.advance_time(core.now);
        if let Some(datagrams) = association.mux.datagrams_mut() {
            let limit = unsent_limit(endpoint, id);
            if !pump_datagrams(core.now, endpoint, id, datagrams, limit) {
                self.waiting.insert(id);
            }
        }
        let (fed, taken) =
            feed(core.now, endpoint, id, &mut association.mux, &mut association.held);
        // Flows whose messages were taken may have room now, and some may be about to write for their turn.
        if taken > 0 || association.mux.has_events() {
            self.touch(id);
        }
        match fed {
            Fed::Enough => drop(self.waiting.insert(id)),
            Fed::Drained => self.end_direct(core, id),
            // `Event::Writable` brings us back; an association that ends says so itself.
            Fed::Full | Fed::Refused(SendError::UnknownAssociation | SendError::ShuttingDown) => {}
            // The peer may use a stream before it has told us that we may, too.
            Fed::Refused(SendError::InvalidStream) if self.has_added_streams(id) => {}
            Fed::Refused(_) => {
                core.count("messages_rejected_by_engine");
                core.abort(id, b"stream out of range");
            }
        }
    }

    /// Looks after the association when it has been without flows for some time.
    pub(crate) fn watch_idle(&mut self, core: &mut Core, id: AssociationId) {
        let now = core.now;
        let Some(association) = self.all.get_mut(&id) else { return };
        association.idle_since = now;
        let timeout = core.idle_timeout(self.is_ours(id));
        core.timers.set(now + timeout, Timer::Idle(id));
    }

    pub(crate) fn on_idle_timer(&mut self, core: &mut Core, id: AssociationId) {
        let timeout = core.idle_timeout(self.is_ours(id));
        let Some(association) = self.all.get_mut(&id) else { return };
        let rested = core.now.since(association.idle_since) >= timeout;
        if !rested || !association.is_unused() || association.setup != Setup::Established {
            return;
        }
        association.setup = Setup::Ending;
        if !association.is_ours() {
            core.count("idle_peer_associations_ended");
        }
        self.retire(id);
        core.driver.endpoint_mut().shutdown(core.now, id);
    }
}

impl Stack {
    /// Handles what the engine has to tell; whether that was anything.
    pub(crate) fn drain_endpoint(&mut self) -> bool {
        let mut any = false;
        while let Some((id, event)) = self.core.driver.endpoint_mut().poll_event() {
            self.on_association_event(id, event);
            any = true;
        }
        any
    }

    fn on_association_event(&mut self, id: AssociationId, event: Event) {
        match event {
            Event::Connected { initiated, adaptation, outbound_streams, inbound_streams } => {
                let streams = outbound_streams.min(inbound_streams);
                self.on_connected(id, &Up { initiated, adaptation, streams, outbound_streams });
            }
            Event::Readable => self.associations.read_messages(&mut self.core, id),
            Event::Writable => {
                self.associations.touch(id);
            }
            Event::SenderDry => self.associations.touch(id),
            Event::SendFailed { message, .. } => {
                crate::datagrams::on_given_up(&mut self.core, &mut self.associations, id, &message)
            }
            Event::StreamsAdded { outcome, outbound_streams, inbound_streams } => {
                self.associations.on_streams_added(
                    &mut self.core,
                    id,
                    outcome,
                    (outbound_streams, inbound_streams),
                );
            }
            // Only datagrams are unreliable, and nobody resets streams.
            Event::PartialDeliveryAborted(_)
            | Event::Undelivered { .. }
            | Event::PeerError { .. }
            | Event::StreamsReset { .. }
            | Event::AssociationReset { .. }
            | Event::Authentication { .. }
            | Event::PathPolicy { .. } => {}
            Event::LocalAddress { address, change, outcome } => {
                crate::uplinks::on_address_answer(&mut self.core, id, address, (change, outcome));
            }
            Event::PeerAddress { address, change } => self.associations.on_peer_address(
                &mut self.core,
                &mut self.peers,
                id,
                address,
                change,
            ),
            Event::PathChanged { path, state } => self.on_path_changed(id, path, state),
            Event::Restarted => self.on_restarted(id),
            Event::PeerShutdown => self.associations.on_peer_shutdown(&mut self.core, id),
            Event::Closed(reason) => self.on_closed(id, &reason),
        }
    }

    fn on_connected(&mut self, id: AssociationId, up: &Up) {
        if self.associations.is_direct(&self.core, id) {
            return self.associations.on_direct_connected(&mut self.core, id, up);
        }
        if up.adaptation != Some(manypath_flow::ADAPTATION) {
            self.core.count("associations_without_flows_aborted");
            self.core.abort(id, b"no flows here");
            return;
        }
        if !up.initiated {
            let association = Association::new(
                None,
                Setup::Established,
                self.core.now,
                up.streams,
                &self.associations.memory,
            );
            self.associations.insert(id, association);
        }
        let Some(association) = self.associations.get_mut(&id) else { return };
        association.setup = Setup::Established;
        association.streams = up.streams;
        association.mux.limit_streams(up.streams);
        if up.initiated {
            self.grace.note_answer();
        }
        self.associations.touch(id);
        self.agree_on_datagrams(id);
        self.associations.extend_streams(&mut self.core, id);
        self.associations.adopt_peer_addresses(&mut self.core, &mut self.peers, id);
        self.associations.watch_idle(&mut self.core, id);
        let word = if up.initiated { "established" } else { "accepted" };
        let peer = self.core.peer_name(id);
        info!(target: log::ASSOCIATION, "association {} with {peer}: {word}", id.0);
    }

    fn on_path_changed(&mut self, id: AssociationId, path: PathId, state: PathState) {
        match state {
            PathState::Active => {
                self.associations.adopt_peer_addresses(&mut self.core, &mut self.peers, id)
            }
            PathState::Inactive => self.associations.disown_failed_addresses(&self.core, id),
            PathState::Unconfirmed | PathState::PotentiallyFailed => {}
        }
        self.answer_waiting_of(id);
        self.tell_watchers();
        let status = self.core.status_of(id);
        let mut paths = status.into_iter().flat_map(|status| status.paths);
        if let Some(path) = paths.find(|one| one.id == path) {
            let (local, remote) = (path.addr.local.ip(), path.addr.remote);
            let interface = self.core.locals.interface(local);
            let state = path_state_name(state);
            info!(target: log::PATH,
                "association {}: path {local} ({interface}) to {remote} is {state}",
                id.0
            );
        }
    }

    /// Everything in flight is lost, and with it every flow; the association itself goes on.
    fn on_restarted(&mut self, id: AssociationId) {
        self.core.count("associations_restarted");
        self.end_flows(id, FallbackReason::AssociationLost);
        let memory = self.associations.memory.clone();
        let Some(association) = self.associations.get_mut(&id) else { return };
        if let Some(flow) = association.mux.direct() {
            let (peer, streams) = (flow.peer(), flow.streams());
            return self.associations.on_direct_restarted(&mut self.core, id, peer, streams);
        }
        let Association { begun_with, acceptor, streams, .. } = *association;
        let fresh =
            Association::new(begun_with, Setup::Established, self.core.now, streams, &memory);
        *association = fresh.asked(acceptor);
        self.agree_on_datagrams(id);
        info!(target: log::ASSOCIATION, "association {}: the peer has restarted", id.0);
    }

    fn on_closed(&mut self, id: AssociationId, reason: &CloseReason) {
        let Some(association) = self.associations.get(&id) else { return };
        let connecting = association.setup == Setup::Connecting;
        let fallback = association.acceptor.reason(fallback_reason(reason, connecting));
        if connecting {
            self.associations.remember_failed_connect(
                &self.core,
                &mut self.peers,
                id,
                fallback,
                speaks_sctp(reason),
            );
        }
        if *reason == CloseReason::Graceful {
            self.associations.on_direct_peer_end(&mut self.core, id);
        }
        if !self.associations.stays_to_be_read(id, reason) {
            self.end_flows(id, fallback);
            self.associations.remove(&mut self.core, id);
        }
        self.core.count(close_counter(reason));
        info!(target: log::ASSOCIATION, "association {}: closed ({reason:?})", id.0);
    }

    /// Ends everything that uses a flow of the association.
    fn end_flows(&mut self, id: AssociationId, reason: FallbackReason) {
        self.end_datagrams(id, reason);
        let Some(association) = self.associations.get_mut(&id) else { return };
        for used in std::mem::take(&mut association.flows).into_values() {
            match used {
                FlowUse::Attempt(attempt) => self.on_attempt_flow_lost(attempt, reason),
                FlowUse::Caller(id) => self.on_call_lost(id, reason),
                FlowUse::Dial(dial) => self.drop_dial(dial),
                FlowUse::Relay(relay) => self.reset_relay(relay, RelayEnd::AssociationLost),
                FlowUse::Closing => {}
            }
        }
    }
}

impl Core {
    /// Sockets that are bound to an interface take everything to be on its link, and would ask in vain for a peer
    /// to which the kernel knows no way from any of our addresses. Plain TCP fails at once there.
    pub(crate) fn check_route(&self, remote: IpAddr) -> Result<(), FallbackReason> {
        let locals = self.locals.open.iter().map(|local| local.address.addr.ip());
        let sources = locals.filter(|local| local.is_ipv4() == remote.is_ipv4()).map(Some);
        let is_unreachable = |source| {
            let route = manypath_net::route_to(remote, source, None);
            route.is_err_and(|error| error.raw_os_error() == Some(libc::ENETUNREACH))
        };
        match std::iter::once(None).chain(sources).all(is_unreachable) {
            true => Err(FallbackReason::NoLocalAddress),
            false => Ok(()),
        }
    }

    /// Packets received from the peer so far.
    pub(crate) fn packets_received(&self, id: AssociationId) -> u64 {
        let status = self.status_of(id);
        let paths = status.into_iter().flat_map(|status| status.paths);
        paths.map(|path| path.packets_received).sum()
    }

    pub(crate) fn peer_name(&self, id: AssociationId) -> String {
        let status = self.status_of(id);
        let path = status.and_then(|status| status.paths.into_iter().find(|path| path.primary));
        path.map_or_else(|| "a peer".to_owned(), |path| path.addr.remote.to_string())
    }

    /// The peer has broken the protocol of flows.
    pub(crate) fn abort_for(&mut self, id: AssociationId, error: FlowError) {
        self.count("flow_protocol_errors");
        warn!(target: log::ASSOCIATION, "association {}: {error}: aborted", id.0);
        let reason = error.to_string();
        self.abort(id, reason.as_bytes());
    }

    /// The side that began an association ends it for want of flows; the other one waits longer.
    fn idle_timeout(&self, ours: bool) -> Duration {
        if ours { self.config.idle_timeout } else { self.config.peer_idle_timeout }
    }

    /// When the association began.
    pub(crate) fn age(&self, begun: Instant) -> u64 {
        u64::try_from(self.now.since(begun).as_millis()).unwrap_or(u64::MAX)
    }
}

/// Why no association was begun.
pub(crate) const fn unconnected(error: ConnectError) -> FallbackReason {
    match error {
        ConnectError::NoLocalAddress | ConnectError::InvalidPort => FallbackReason::NoLocalAddress,
        ConnectError::TooMany | ConnectError::AlreadyConnected => FallbackReason::Busy,
    }
}

/// What the end of an association means for connections that were being opened.
const fn fallback_reason(reason: &CloseReason, connecting: bool) -> FallbackReason {
    match reason {
        CloseReason::NoAdaptation | CloseReason::NoAuthentication => FallbackReason::NotManypath,
        CloseReason::NoAnswer if connecting => FallbackReason::Silent,
        CloseReason::Unreachable | CloseReason::PeerAborted(_) if connecting => {
            FallbackReason::Refused
        }
        CloseReason::Graceful
        | CloseReason::NoAnswer
        | CloseReason::Unreachable
        | CloseReason::PeerAborted(_)
        | CloseReason::LocalAbort
        | CloseReason::TooManyFailures
        | CloseReason::ProtocolViolation(_) => FallbackReason::AssociationLost,
    }
}

/// Whether an answer to an INIT shows that its sender speaks SCTP, and may do so with us in another
/// form. Who has no room for another association has none for that one either.
const fn speaks_sctp(reason: &CloseReason) -> bool {
    const OUT_OF_RESOURCE: u16 = 4;
    match reason {
        CloseReason::NoAdaptation => true,
        CloseReason::PeerAborted(cause) => !matches!(cause, Some(OUT_OF_RESOURCE)),
        CloseReason::Graceful
        | CloseReason::NoAnswer
        | CloseReason::Unreachable
        | CloseReason::NoAuthentication
        | CloseReason::LocalAbort
        | CloseReason::TooManyFailures
        | CloseReason::ProtocolViolation(_) => false,
    }
}

const fn close_counter(reason: &CloseReason) -> &'static str {
    match reason {
        CloseReason::Graceful => "associations_closed_gracefully",
        CloseReason::NoAnswer => "associations_without_answer",
        CloseReason::Unreachable => "associations_unreachable",
        CloseReason::PeerAborted(_) => "associations_aborted_by_peer",
        CloseReason::LocalAbort => "associations_aborted_here",
        CloseReason::TooManyFailures => "associations_lost",
        CloseReason::ProtocolViolation(_) => "associations_with_protocol_violation",
        CloseReason::NoAdaptation => "associations_refused_not_manypath",
        CloseReason::NoAuthentication => "associations_refused_without_authentication",
    }
}
