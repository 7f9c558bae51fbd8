//! TCP clients, until their association is there.

use super::printer::Printer;
use super::status_line;
use crate::accept::{accept, refuse};
use crate::base::{Base, FlowUse};
use crate::config::Way;
use crate::core::Core;
use crate::ids::RelayId;
use crate::log;
use crate::privileged::Acceptor;
use crate::relays::{Carrier, Ends, Relay, Relays};
use crate::socket::Socket;
use crate::timers::Timer;
use crate::token::Source;
use manypath_control::status::FallbackReason;
use manypath_engine::AssociationId;
use manypath_flow::FlowId;
use mio::event::Event;
use mio::net::TcpListener;
use mio::{Interest, Registry};
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use tracing::{debug, info, warn};

/// Who waits for an association.
#[derive(Debug)]
pub(crate) struct Caller {
    client: SocketAddr,
    socket: Socket,
    /// Addresses of the server that were tried.
    tried: usize,
    /// What is being tried now.
    trying: Option<(AssociationId, FlowId)>,
}

/// The listening sockets, and the clients that wait.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    listeners: Vec<TcpListener>,
    waiting: BTreeMap<RelayId, Caller>,
    /// Writes lines about the state of the gateway, once there was one.
    pub(super) printer: Option<Printer>,
    /// The address of the server that has answered last.
    preferred: usize,
}

impl Callers {
    /// Begins what a gateway does besides accepting associations, if the settings have one.
    pub(crate) fn begin(core: &mut Core) -> io::Result<Self> {
        let Some(gateway) = &core.config.gateway else { return Ok(Self::default()) };
        let mut callers = Self::default();
        if let Way::ToSctp { listen, .. } = &gateway.way {
            callers = Self::listen(listen, &core.registry)?;
            info!(target: log::STACK, "{gateway}");
        }
        status_line::plan(core);
        Ok(callers)
    }

    /// Listens at these addresses.
    fn listen(addresses: &[SocketAddr], registry: &Registry) -> io::Result<Self> {
        let mut listeners = Vec::new();
        for (address, index) in addresses.iter().zip(0..) {
            let mut listener = bind(*address).map_err(|error| {
                let text = format!("cannot take TCP clients at {address}: {error}");
                io::Error::new(error.kind(), text)
            })?;
            let token = Source::Clients(index).token();
            registry.register(&mut listener, token, Interest::READABLE)?;
            listeners.push(listener);
        }
        Ok(Self { listeners, ..Self::default() })
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// A host without IPv6 has no [::].
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let without_ipv6 = |error: &io::Error| {
        matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
    };
    match TcpListener::bind(address) {
        Err(error)
            if without_ipv6(&error) && address.is_ipv6() && address.ip().is_unspecified() =>
        {
            TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
        }
        result => result,
    }
}

impl Callers {
    /// Takes in TCP clients, so many in one turn.
    pub(crate) fn accept_callers(&mut self, base: &mut Base, relays: &Relays) {
        let listeners = self.listeners.iter().map(|one| (one, ()));
        let clients = accept(&mut base.core, listeners, Timer::Callers, "clients_not_taken_in");
        for (fd, client, ()) in clients {
            self.on_caller(base, relays, fd, client);
        }
    }

    fn on_caller(&mut self, base: &mut Base, relays: &Relays, fd: OwnedFd, client: SocketAddr) {
        let limit = base.core.config.gateway.as_ref().map_or(0, |gateway| gateway.max_clients);
        let refused = if !base.core.phase.takes_work() {
            Some("clients_refused_ending")
        } else if relays.values().count() + self.len() >= limit {
            Some("clients_refused_too_many")
        } else {
            None
        };
        if let Some(reason) = refused {
            return refuse(&mut base.core, &fd, client, reason);
        }
        let id = RelayId(base.core.next_id());
        match Socket::towards(client, fd, &base.core.registry, Source::Caller(id.0).token()) {
            Ok(socket) => {
                let caller = Caller { client, socket, tried: 0, trying: None };
                self.waiting.insert(id, caller);
                base.core.count("clients_taken_in");
                self.call(base, id);
            }
            Err(error) => {
                base.core.count("clients_not_taken_in");
                warn!(target: log::CONNECTION, "TCP client {client}: {error}");
            }
        }
    }

    /// Begins an association for a client, with the next address of the server; none is left: the
    /// client is reset.
    fn call(&mut self, base: &mut Base, id: RelayId) {
        let Some(gateway) = &base.core.config.gateway else { return };
        let Way::ToSctp { peers, port, .. } = &gateway.way else { return };
        let (peers, port, profile) = (peers.clone(), *port, base.core.config.profile);
        loop {
            let Some(caller) = self.waiting.get_mut(&id) else { return };
            if caller.tried == peers.len() || !base.core.phase.takes_work() {
                return self.give_up_call(base, id);
            }
            let peer = peers[(self.preferred + caller.tried) % peers.len()];
            caller.tried += 1;
            let destination = SocketAddr::new(peer, port);
            match base.begin_direct(destination, caller.client, profile, Acceptor::Anyone) {
                Ok((association, flow)) => {
                    base.set_flow_use(association, flow, FlowUse::Caller(id));
                    if let Some(caller) = self.waiting.get_mut(&id) {
                        caller.trying = Some((association, flow));
                    }
                    return;
                }
                Err(reason) => {
                    warn!(target: log::CONNECTION, "{destination}: no association: {reason}");
                }
            }
        }
    }

    fn give_up_call(&mut self, base: &mut Base, id: RelayId) {
        let Some(caller) = self.waiting.remove(&id) else { return };
        base.core.count("clients_reset_without_server");
        warn!(target: log::CONNECTION, "TCP client {}: reset: no SCTP server", caller.client);
        caller.socket.reset(&base.core.registry);
    }

    /// The association that a client waits for could not be.
    pub(crate) fn on_call_lost(&mut self, base: &mut Base, id: RelayId, reason: FallbackReason) {
        debug!(target: log::CONNECTION, "association for a TCP client: {reason}");
        base.core.count("calls_failed");
        if let Some(caller) = self.waiting.get_mut(&id) {
            caller.trying = None;
        }
        self.call(base, id);
    }

    /// The association that a client waits for is there.
    pub(crate) fn on_call_answered(
        &mut self,
        base: &mut Base,
        relays: &mut Relays,
        id: RelayId,
        association: AssociationId,
        flow: FlowId,
    ) {
        let Some(mut caller) = self.waiting.remove(&id) else { return };
        if let Err(error) = caller.socket.rename(&base.core.registry, Source::Relay(id.0).token()) {
            warn!(target: log::CONNECTION, "TCP client {}: {error}", caller.client);
            base.core.count("clients_not_taken_in");
            caller.socket.reset(&base.core.registry);
            return base.reset_flow(association, flow);
        }
        let Some(Way::ToSctp { peers, port, .. }) =
            base.core.config.gateway.as_ref().map(|gateway| &gateway.way)
        else {
            return;
        };
        let answered = (self.preferred + caller.tried - 1) % peers.len();
        let ends = Ends::From(caller.client, SocketAddr::new(peers[answered], *port));
        self.preferred = answered;
        relays.start(base, id, Relay::new(association, flow, caller.socket));
        relays.begin_connection(base, id, ends, Carrier::Sctp(association));
    }

    pub(crate) fn on_caller_event(&mut self, base: &mut Base, id: RelayId, event: &Event) {
        let Some(caller) = self.waiting.get_mut(&id) else { return };
        caller.socket.on_event(event);
        if !caller.socket.is_broken() {
            return;
        }
        let Some(caller) = self.waiting.remove(&id) else { return };
        base.core.count("clients_gone_before_the_server_answered");
        caller.socket.reset(&base.core.registry);
        if let Some((association, flow)) = caller.trying {
            base.reset_flow(association, flow);
        }
    }

    /// Resets clients that still wait.
    pub(crate) fn end_callers(&mut self, base: &mut Base) {
        for caller in std::mem::take(&mut self.waiting).into_values() {
            base.core.count("clients_refused_ending");
            caller.socket.reset(&base.core.registry);
        }
    }
}
