//! What every room of the stack works with: the engine, the time, the poll, deadlines, counts and settings.

mod paths;

use crate::budgets::{Budgets, Quotas};
use crate::config::{Encapsulation, FIRST_FREE_PORT, Gateway, StackConfig};
use crate::control_server::{ControlServer, DoorNews};
use crate::counters::Counters;
use crate::ids::{AttemptId, Control};
use crate::locals::Locals;
use crate::log;
use crate::names::Names;
use crate::path_policies::PathPolicies;
use crate::phase::Phase;
use crate::privileged::Acceptor;
use crate::rules::Rules;
use crate::scopes::LocalScopes;
use crate::timers::{Timer, Timers};
use manypath_control::Reply;
use manypath_engine::{
    AssociationId, AssociationStatus, Duration, InitRepetition, Instant, PathStatus,
};
use manypath_flow::{FlowError, Framing};
use manypath_net::Driver;
use manypath_rules::{Encrypt, Options};
use manypath_trust::is_key_address;
use mio::Registry;
use std::collections::VecDeque;
use std::net::SocketAddr;
use tracing::warn;

/// After what pause control callers are looked for again for whom there was no descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The state that the rooms share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: StackConfig,
    /// The time of this turn.
    pub(crate) now: Instant,
    pub(crate) registry: Registry,
    pub(crate) control: ControlServer,
    pub(crate) driver: Driver,
    pub(crate) timers: Timers,
    pub(crate) counters: Counters,
    pub(crate) locals: Locals,
    /// For which peers the local addresses are there.
    pub(crate) scopes: LocalScopes,
    pub(crate) rules: Rules,
    pub(crate) path_policies: PathPolicies,
    pub(crate) budgets: Budgets,
    pub(crate) quotas: Quotas,
    pub(crate) phase: Phase,
    pub(crate) last_id: u64,
    pub(crate) names: Names,
    /// What is said to the room of onward connections, as to a launcher.
    pub(crate) to_onward: VecDeque<Reply>,
}

impl Core {
    pub(crate) fn count(&mut self, name: &'static str) {
        self.counters.count(name);
    }

    /// Sets a timer that is due in a while.
    pub(crate) fn after(&mut self, pause: Duration, timer: Timer) {
        self.timers.set(self.now + pause, timer);
    }

    /// Sets a timer for the next turn: one that is due now comes in this one.
    pub(crate) fn in_next_turn(&mut self, timer: Timer) {
        self.after(Duration::from_nanos(1), timer);
    }

    /// Whether a connection with these options is encrypted.
    pub(crate) fn encrypt_for(&self, options: &Options) -> Encrypt {
        options.encrypt.unwrap_or(self.config.encrypt)
    }

    /// How associations of peers are encrypted: rules that name their keys need them.
    pub(crate) fn encrypt_of_peers(&self) -> Encrypt {
        let needed = if self.rules.names_keys() { Encrypt::Opportunistic } else { Encrypt::Off };
        self.config.encrypt.max(needed)
    }

    pub(crate) fn status_of(&self, id: AssociationId) -> Option<AssociationStatus> {
        self.driver.endpoint().status(self.now, id)
    }

    pub(crate) fn abort(&mut self, id: AssociationId, reason: &[u8]) {
        self.driver.endpoint_mut().abort(self.now, id, reason);
    }

    /// Somebody waits for the answer of a peer, for which perhaps nobody has waited for a while.
    pub(crate) fn hurry_init(&mut self, id: AssociationId) {
        self.repeat_init(id, InitRepetition::Anew);
    }

    /// Changes when the INIT of an association is sent again. Whether that changes anything.
    pub(crate) fn repeat_init(&mut self, id: AssociationId, how: InitRepetition) -> bool {
        self.driver.endpoint_mut().repeat_init(self.now, id, how)
    }

    pub(crate) fn paths_of(&self, id: AssociationId) -> Vec<PathStatus> {
        self.status_of(id).map(|status| status.paths).unwrap_or_default()
    }

    /// Packets received from the peer so far.
    pub(crate) fn packets_received(&self, id: AssociationId) -> u64 {
        let paths = self.paths_of(id).into_iter();
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
    pub(crate) fn idle_timeout(&self, ours: bool) -> Duration {
        if ours { self.config.limits.idle_timeout } else { self.config.limits.peer_idle_timeout }
    }

    /// When the association began.
    pub(crate) fn age(&self, begun: Instant) -> u64 {
        u64::try_from(self.now.since(begun).as_millis()).unwrap_or(u64::MAX)
    }

    /// Who has to answer for a connection to `destination`.
    pub(crate) fn acceptor_for(&self, destination: SocketAddr, options: &Options) -> Acceptor {
        let native = self.config.encapsulation == Encapsulation::Native;
        let trusted = options.unproven.unwrap_or(self.config.carrying.unproven);
        // The key proves more than the port.
        let trusted = trusted || is_key_address(destination.ip());
        match destination.port() < FIRST_FREE_PORT && !native && !trusted {
            true => Acceptor::Privileged,
            false => Acceptor::Anyone,
        }
    }

    /// What the bytes of connections are.
    pub(crate) fn framing(&self) -> Framing {
        self.config.gateway.as_ref().map_or(Framing::Pieces, |gateway| gateway.framing)
    }

    /// The TCP service to which SCTP clients are led, whatever address of ours they use; none without a gateway to it.
    pub(crate) fn services(&self) -> &[SocketAddr] {
        self.config.gateway.as_ref().map_or(&[], Gateway::service)
    }

    /// The services that are open whoever serves them, for people.
    pub(crate) fn open_services(&self) -> Vec<String> {
        match &self.config.gateway {
            Some(gateway) => vec![gateway.to_string()],
            None if self.config.process.listeners_only => Vec::new(),
            None => self.rules.services(),
        }
    }

    /// Takes control callers in.
    pub(crate) fn accept_control(&mut self) {
        if !self.control.accept(&self.registry, &mut self.counters) {
            self.after(ACCEPT_PAUSE, Timer::AcceptControl);
        }
    }

    pub(crate) fn reply(&mut self, to: impl Into<Control>, reply: Reply) {
        match to.into() {
            Control::Line(control) => self.control.reply(control, reply, None),
            Control::Doors => self.control.tell_doors(DoorNews::Reply(reply)),
            Control::Onward => self.to_onward.push_back(reply),
        }
    }

    /// Tells who has asked for a connection that it is over.
    pub(crate) fn tell_closed(&mut self, id: AttemptId) {
        if let Some(client) = self.control.client_of(id) {
            self.control.forget(client);
            self.reply(client.control, Reply::Closed { id: client.id });
        }
    }

    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}
