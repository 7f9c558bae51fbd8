//! The server side: a peer's flow asks for a local service.
//!
//! The destination must be one of our addresses at which the peer has proved to reach us (`proven`), or what a NAT
//! makes of one (`translated`), and allowed. It is dialled exactly, never at loopback in its stead, so that a
//! service bound to 127.0.0.1 stays out of reach. The own end is bound to the same address: if it has moved to another host in the
//! meantime, the bind fails and nothing leaves this one.

use super::Services;
use crate::allow::{self, Denied};
use crate::base::{Base, FlowUse, proven};
use crate::ids::{DialId, RelayId};
use crate::log;
use crate::relays::{Carrier, Ends, Relay, Relays};
use crate::socket::{Socket, connect};
use crate::token::Source;
use manypath_engine::{AssociationId, Instant};
use manypath_flow::{FlowId, Refusal};
use manypath_rules::{Form, Options, Protocol, Query};
use mio::event::Event;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use tracing::debug;

/// A connection being made to a local service.
#[derive(Debug)]
pub(crate) struct Dial {
    association: AssociationId,
    flow: FlowId,
    destination: SocketAddr,
    /// Whom the service and the log are told of.
    client: SocketAddr,
    pub(crate) options: Options,
    socket: Socket,
}

impl Dial {
    /// Whom it stands for.
    pub(crate) const fn client(&self) -> SocketAddr {
        self.client
    }

    /// The flow that it is for.
    pub(crate) const fn flow(&self) -> (AssociationId, FlowId) {
        (self.association, self.flow)
    }
}

/// A flow that a peer asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    pub(crate) association: AssociationId,
    pub(crate) flow: FlowId,
    /// As the peer's side says, and then the service of this host that it means.
    pub(crate) destination: SocketAddr,
    /// The address of the peer's program, as its side says.
    pub(crate) source: SocketAddr,
    pub(crate) arrived: Instant,
}

impl Services {
    pub(crate) fn on_incoming(&mut self, base: &mut Base, relays: &mut Relays, incoming: Incoming) {
        let Incoming { association: id, flow, source, .. } = incoming;
        if !base.core.phase.serves_peers() {
            return base.refuse(id, flow, Refusal::Busy, "dial_denied_ending");
        }
        if !base.core.services().is_empty() {
            // One of the addresses is dialled, or refused.
            let _tried = self.dial_service(base, id, flow, source, None);
            return;
        }
        self.admit_incoming(base, relays, incoming);
    }

    /// Finds out what the peer means, and answers or lets it wait.
    pub(crate) fn admit_incoming(
        &mut self,
        base: &mut Base,
        relays: &mut Relays,
        mut incoming: Incoming,
    ) {
        let Incoming { association: id, destination, .. } = incoming;
        if let Some(at) = self.next_look_at_the_table(base, &incoming) {
            return self.wait_for_the_table(base, incoming, at);
        }
        match self.resolve_local_service(base, id, Protocol::Tcp, destination) {
            Ok(service) => {
                incoming.destination = service;
                if !self.look_first(base, incoming) {
                    self.answer_incoming(base, relays, incoming);
                }
            }
            Err(denied) => self.deny(base, incoming, denied),
        }
    }

    /// Everybody has said by now what listens.
    pub(crate) fn answer_incoming(
        &mut self,
        base: &mut Base,
        relays: &mut Relays,
        incoming: Incoming,
    ) {
        let Incoming { association: id, flow, destination, source, .. } = incoming;
        if self.listeners.concern(destination) {
            return self.on_incoming_to_listener(base, relays, incoming);
        }
        if destination.port() == crate::speed::PORT
            && !base.core.config.process.listeners_only
            && !base.is_direct(id)
        {
            return self.answer_speed(base, relays, incoming);
        }
        let who = proven::client_of(base, id);
        let query = Query::local(Protocol::Tcp, destination, Some(&who));
        let locals = base.core.reachable_locals(id, query);
        let loopback = base.core.config.loopback_paths;
        let admitted = allow::admit(query, &locals, &base.core.rules, loopback);
        // What a run's own stack serves is its program, whatever the rules open on this host.
        let admitted =
            if base.core.config.process.listeners_only { Err(Denied::NotListed) } else { admitted };
        let admitted = admitted.and_then(|(service, options)| {
            check_form(base, id, &options)?;
            self.check_limit(base, relays, id, &options)?;
            let client = base.core.verified_client(id, service, source);
            Ok((client.ok_or(Denied::NoClientAddress)?, options))
        });
        match admitted {
            Ok((client, options)) => {
                self.dial(base, relays, (id, flow), destination, client, options)
            }
            Err(Denied::NotListed) if self.may_listen_later(base, destination, &who) => {
                base.refuse(id, flow, Refusal::Busy, Denied::NotListed.counter());
            }
            Err(denied) => self.deny(base, incoming, denied),
        }
    }

    /// Refuses a flow, or lets it wait for what may change before long.
    pub(crate) fn deny(&mut self, base: &mut Base, incoming: Incoming, denied: Denied) {
        let Incoming { association: id, flow, destination, .. } = incoming;
        debug!(target: log::CONNECTION,
            "association {}: {destination} not dialled: {denied}", id.0);
        match denied {
            Denied::Unconfirmed | Denied::NoClientAddress => {
                self.wait_for_paths(base, incoming, denied)
            }
            Denied::TooMany => base.refuse(id, flow, Refusal::Busy, denied.counter()),
            Denied::OverQuota => base.refuse(id, flow, Refusal::OverQuota, denied.counter()),
            Denied::NotReachable
            | Denied::ForeignAddress
            | Denied::NotListed
            | Denied::NotCovered
            | Denied::NotEncrypted
            | Denied::Form => base.refuse(id, flow, Refusal::NotAllowed, denied.counter()),
        }
    }

    pub(crate) fn dial(
        &mut self,
        base: &mut Base,
        relays: &mut Relays,
        (association, flow): (AssociationId, FlowId),
        destination: SocketAddr,
        client: SocketAddr,
        options: Options,
    ) {
        let from = SocketAddr::new(destination.ip(), 0);
        let fd = match connect(Some(from), destination, false) {
            Ok(fd) => fd,
            Err(error) => return refuse_dial(base, association, flow, destination, &error),
        };
        base.core.driver.hurry();
        let id = DialId(base.core.next_id());
        let socket = Socket::unwatched(fd);
        let outcome = socket.is_connected();
        let mut dial = Dial { association, flow, destination, client, options, socket };
        let token = Source::Dial(id.0).token();
        match outcome {
            // A service of this host has mostly answered by now. The peer's program waits for the packet that says so
            // and for nothing else: the socket is watched when that has left.
            Ok(true) => {
                base.treat(association, flow, &options);
                relays.watch_later(RelayId(id.0));
                relay_dialled(self, base, relays, id, dial);
            }
            Ok(false) => match dial.socket.watch(&base.core.registry, token) {
                Ok(()) => keep_dial(self, base, id, dial),
                Err(error) => fail_dial(self, base, id, dial, &error),
            },
            Err(error) => fail_dial(self, base, id, dial, &error),
        }
    }

    /// Watches a connection that is being made to `destination` for `client`.
    pub(crate) fn start_dial(
        &mut self,
        base: &mut Base,
        id: DialId,
        (association, flow): (AssociationId, FlowId),
        (client, destination): (SocketAddr, SocketAddr),
        options: Options,
        fd: OwnedFd,
    ) {
        match Socket::towards(destination, fd, &base.core.registry, Source::Dial(id.0).token()) {
            Ok(socket) => {
                let dial = Dial { association, flow, destination, client, options, socket };
                keep_dial(self, base, id, dial);
            }
            Err(error) => {
                self.on_led_over(base, RelayId(id.0));
                self.onward.forget(id);
                refuse_dial(base, association, flow, destination, &error);
            }
        }
    }

    pub(crate) fn on_dial_event(
        &mut self,
        base: &mut Base,
        relays: &mut Relays,
        id: DialId,
        event: &Event,
    ) {
        if let Some(dial) = self.dials.get_mut(&id) {
            dial.socket.on_event(event);
            self.check_dial(base, relays, id);
        }
    }

    pub(super) fn check_dial(&mut self, base: &mut Base, relays: &mut Relays, id: DialId) {
        let Some(dial) = self.dials.get(&id) else { return };
        match dial.socket.is_connected() {
            Ok(false) => {}
            Ok(true) => self.on_dialled(base, relays, id),
            Err(error) => {
                let Some(dial) = self.dials.remove(&id) else { return };
                fail_dial(self, base, id, dial, &error);
            }
        }
    }

    /// The token of the socket changes with its use, and the poll reports afresh what is ready.
    fn on_dialled(&mut self, base: &mut Base, relays: &mut Relays, id: DialId) {
        let Some(mut dial) = self.dials.remove(&id) else { return };
        let relay = RelayId(id.0);
        if let Err(error) = dial.socket.rename(&base.core.registry, Source::Relay(relay.0).token())
        {
            dial.socket.reset(&base.core.registry);
            self.on_led_over(base, relay);
            self.onward.forget(id);
            return refuse_dial(base, dial.association, dial.flow, dial.destination, &error);
        }
        relay_dialled(self, base, relays, id, dial);
    }

    pub(crate) fn drop_dial(&mut self, base: &mut Base, id: DialId) {
        self.onward.forget(id);
        if let Some(dial) = self.dials.remove(&id) {
            base.core.count("dials_dropped");
            dial.socket.reset(&base.core.registry);
            self.on_led_over(base, RelayId(id.0));
        }
    }

    /// Gives up a connection that is being made to a listener that nobody vouches for any more.
    pub(crate) fn refuse_uncovered(&mut self, base: &mut Base, id: DialId) {
        let Some(dial) = self.dials.remove(&id) else { return };
        dial.socket.reset(&base.core.registry);
        self.on_led_over(base, RelayId(id.0));
        let why = Denied::NotCovered.counter();
        base.refuse(dial.association, dial.flow, Refusal::NotAllowed, why);
    }
}

fn keep_dial(services: &mut Services, base: &mut Base, id: DialId, dial: Dial) {
    let Dial { association, flow, options, .. } = dial;
    base.set_flow_use(association, flow, FlowUse::Dial(id));
    base.treat(association, flow, &options);
    services.dials.insert(id, dial);
}

fn fail_dial(services: &mut Services, base: &mut Base, id: DialId, dial: Dial, error: &io::Error) {
    let Dial { association, flow, destination, client, socket, .. } = dial;
    socket.reset(&base.core.registry);
    services.on_led_over(base, RelayId(id.0));
    if services.onward.has(id) {
        return services.onward.on_failed(id, error);
    }
    if !services.dial_service(base, association, flow, client, Some(destination)) {
        refuse_dial(base, association, flow, destination, error);
    }
}

/// Tells the peer that its flow leads to the service, and relays it.
fn relay_dialled(
    services: &Services,
    base: &mut Base,
    relays: &mut Relays,
    id: DialId,
    dial: Dial,
) {
    let relay = RelayId(id.0);
    if let Some(association) = base.get_mut(&dial.association) {
        // A service of this host is connected to from its own address.
        let local = services.onward.has(id).then(|| dial.socket.local_addr().ok()).flatten();
        association.mux.accept(dial.flow, local.unwrap_or(dial.destination));
        base.touch(dial.association);
    }
    debug!(target: log::CONNECTION,
        "association {}: flow to {} open",
        dial.association.0, dial.destination
    );
    let (client, association) = (dial.client, dial.association);
    let ends = Ends::From(client, dial.destination);
    let joined = Relay::new(dial.association, dial.flow, dial.socket).with(&dial.options);
    let joined = match dial.options.proxy {
        Some(true) => joined.greet(manypath_net::proxy_header(client, dial.destination).into()),
        Some(false) | None => joined,
    };
    relays.start(base, relay, joined);
    relays.begin_connection(base, relay, ends, Carrier::Sctp(association));
}

/// Whether the service is open to the form that the peer has chosen.
pub(crate) fn check_form(base: &Base, id: AssociationId, options: &Options) -> Result<(), Denied> {
    let used = if base.is_direct(id) { Form::Direct } else { Form::Mux };
    if options.form.is_none_or(|form| form == used) { Ok(()) } else { Err(Denied::Form) }
}

pub(crate) fn refuse_dial(
    base: &mut Base,
    id: AssociationId,
    flow: FlowId,
    destination: SocketAddr,
    error: &io::Error,
) {
    debug!(target: log::CONNECTION, "association {}: {destination}: {error}", id.0);
    match errno_of(error) {
        None => base.refuse(id, flow, Refusal::Busy, "dials_impossible"),
        // Its port may lead to another host behind the same NAT: TCP finds out.
        Some(_) if super::translated::is_translated(base, id, flow, destination) => {
            base.refuse(id, flow, Refusal::Busy, "dials_failed");
        }
        Some(errno) => base.refuse(id, flow, Refusal::Errno(errno), "dials_failed"),
    }
}

/// What the destination's side has answered. None for our own shortage, or an address that is ours no longer: plain TCP
/// may tell more.
pub(super) fn errno_of(error: &io::Error) -> Option<u16> {
    match error.raw_os_error()? {
        libc::EMFILE
        | libc::ENFILE
        | libc::ENOBUFS
        | libc::ENOMEM
        | libc::EADDRINUSE
        | libc::EADDRNOTAVAIL => None,
        errno => Some(u16::try_from(errno).unwrap_or(libc::ECONNREFUSED as u16)),
    }
}
