//! Datagrams between a local socket and a flow.

use super::Datagrams;
use crate::attempt::RelayAt;
use crate::base::Base;
use crate::budgets::Counter;
use crate::ids::{Client, DatagramId};
use crate::services::Services;
use crate::timers::Timer;
use crate::token::Source;
use manypath_control::Reply;
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, Duration, Instant};
use manypath_flow::{DatagramError, DatagramEvent, DatagramFlow, Datagrams as Flows, Refusal};
use manypath_keys::PublicKey;
use manypath_rules::Options;
use mio::net::UdpSocket;
use mio::{Interest, Registry};
use socket2::SockRef;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// Datagrams that a socket gives in one turn.
pub(super) const TURN: usize = 64;
/// Bytes that the kernel keeps for each direction of a local socket, as far as the host's limits let.
const KERNEL_BUFFER: usize = 1 << 20;

/// The socket of a program, as the launcher describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// Its address as our socket sees it.
    pub(crate) addr: SocketAddr,
    /// Absent where a redirector speaks for it.
    pub(crate) inode: Option<u64>,
    /// Whether it is connected: others do not hear of errors.
    pub(crate) connected: bool,
}

/// Whose socket ours talks to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    Program {
        client: Client,
        program: Program,
    },
    Service,
    /// A host beyond this one, for this peer.
    Beyond(PublicKey),
}

#[derive(Debug)]
pub(super) struct Relay {
    pub(super) socket: UdpSocket,
    pub(super) side: Side,
    pub(super) destination: SocketAddr,
    pub(super) source: SocketAddr,
    pub(super) options: Options,
    pub(super) carrier: Option<(AssociationId, DatagramFlow)>,
    /// The relay by which they go.
    pub(super) by: Option<RelayAt>,
    /// Bytes from the socket and to it, and where they count, if its peer has a quota.
    pub(super) moved: (u64, u64),
    pub(super) quota: Option<Counter>,
    /// When something came or went last.
    pub(super) last: Instant,
    /// Its program has gone: what it has sent is still delivered until then.
    pub(super) ends: Option<Instant>,
    /// The program is being told that its destination is unreachable.
    pub(super) telling: bool,
    pub(super) delivered: u64,
    pub(super) undelivered: u64,
    pub(super) too_long: u64,
    pub(super) dropped_by_kernel: u64,
}

impl Relay {
    /// Takes over a connected socket and watches it.
    pub(super) fn new(
        fd: OwnedFd,
        (registry, id): (&Registry, DatagramId),
        side: Side,
        destination: SocketAddr,
        source: SocketAddr,
    ) -> io::Result<Self> {
        let socket = std::net::UdpSocket::from(fd);
        socket.set_nonblocking(true)?;
        // Each only improves matters.
        let _ = SockRef::from(&socket).set_recv_buffer_size(KERNEL_BUFFER);
        let _ = SockRef::from(&socket).set_send_buffer_size(KERNEL_BUFFER);
        let mut socket = UdpSocket::from_std(socket);
        registry.register(&mut socket, Source::Datagrams(id.0).token(), Interest::READABLE)?;
        Ok(Self {
            socket,
            side,
            destination,
            source,
            options: Options::default(),
            carrier: None,
            by: None,
            moved: (0, 0),
            quota: None,
            last: Instant::ZERO,
            ends: None,
            telling: false,
            delivered: 0,
            undelivered: 0,
            too_long: 0,
            dropped_by_kernel: 0,
        })
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Lets the kernel refuse what the program sends, by listening to ourselves alone; or no more.
    pub(super) fn refuse(&mut self, on: bool) {
        let Side::Program { program, .. } = self.side else { return };
        if program.inode.is_none() {
            return;
        }
        let to = if on { self.socket.local_addr() } else { Ok(program.addr) };
        if to.and_then(|to| self.socket.connect(to)).is_ok() {
            self.telling = on;
        }
    }

    /// Closes the way to a program for which a redirector speaks: nothing that comes is anybody's any more, and
    /// nothing is to be read there.
    pub(super) fn leave(&mut self) {
        if matches!(self.side, Side::Program { program, .. } if program.inode.is_none())
            && let Ok(nowhere) = UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        {
            self.socket = nowhere;
        }
    }

    /// What the socket has: a datagram, nothing, or an error of what was sent before.
    fn receive(&self, room: &mut [u8]) -> io::Result<usize> {
        self.socket.recv(room)
    }
}

impl Datagrams {
    pub(super) fn start(&mut self, base: &mut Base, id: DatagramId, mut relay: Relay) {
        relay.last = base.core.now;
        if let Some((association, flow)) = relay.carrier {
            super::open::use_datagrams(base, association, flow, id);
        }
        self.relays.insert(id, relay);
        self.ready.insert(id);
        base.core.count("datagram_relays_started");
        if !std::mem::replace(&mut self.watching, true) {
            base.core.after(super::end::INTERVAL, Timer::Datagrams);
        }
    }

    pub(crate) fn on_socket(&mut self, id: DatagramId) {
        self.ready.insert(id);
    }

    /// Takes what local sockets have.
    pub(crate) fn service(&mut self, base: &mut Base, scratch: &mut [u8]) {
        self.service_lines(base, scratch);
        for id in std::mem::take(&mut self.ready) {
            self.service_relay(base, id, scratch);
        }
    }

    fn service_relay(&mut self, base: &mut Base, id: DatagramId, room: &mut [u8]) {
        for _ in 0..TURN {
            let Some(relay) = self.relays.get_mut(&id) else { return };
            match relay.receive(room) {
                Ok(len) => {
                    relay.last = base.core.now;
                    self.forward(base, id, room.get(..len).unwrap_or_default());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => self.on_error(base, id, &error),
            }
        }
        self.ready.insert(id);
    }

    pub(super) fn forward(&mut self, base: &mut Base, id: DatagramId, payload: &[u8]) {
        let Some((association, flow)) = self.carrier_of(base, id) else {
            base.core.count("datagrams_without_carrier");
            return self.give_up(base, id, FallbackReason::AssociationLost);
        };
        let now = Duration::from_nanos(base.core.now.as_nanos());
        let sent = base.with_datagrams(association, |datagrams| datagrams.send(now, flow, payload));
        if let Some(relay) = self.relays.get_mut(&id) {
            relay.moved.0 += payload.len() as u64;
            relay.quota.iter().for_each(|quota| quota.add(payload.len() as u64));
            relay.too_long += u64::from(sent == Some(Err(DatagramError::TooLong)));
        }
    }

    /// The flow of a relay; opened anew if it was idle.
    fn carrier_of(
        &mut self,
        base: &mut Base,
        id: DatagramId,
    ) -> Option<(AssociationId, DatagramFlow)> {
        let relay = self.relays.get(&id)?;
        if relay.carrier.is_some() || !matches!(relay.side, Side::Program { .. }) {
            return relay.carrier;
        }
        let (destination, source, options) = (relay.destination, relay.source, relay.options);
        let by = relay.by;
        let association = match by {
            Some(relay) => super::onward::association_with(base, relay, source.ip(), &options),
            None => super::open::association_to(base, destination, source, &options),
        };
        let ends = (destination, source);
        let flow = super::open::open_datagrams(base, association.ok()?, ends, by, &options).ok()?;
        let association = association.ok()?;
        super::open::use_datagrams(base, association, flow, id);
        let relay = self.relays.get_mut(&id)?;
        relay.carrier = Some((association, flow));
        relay.carrier
    }

    pub(crate) fn drain_events(
        &mut self,
        base: &mut Base,
        services: &mut Services,
        id: AssociationId,
    ) {
        self.follow_answer(base, id);
        self.rendezvous.follow_guest(base, id);
        self.rendezvous.follow_candidates(base, id);
        loop {
            let association = base.get_mut(&id);
            let datagrams = association.and_then(|one| one.mux.datagrams_mut());
            let Some(event) = datagrams.and_then(Flows::poll_event) else { return };
            self.on_event(base, services, id, event);
        }
    }

    fn on_event(
        &mut self,
        base: &mut Base,
        services: &mut Services,
        id: AssociationId,
        event: DatagramEvent,
    ) {
        match event {
            DatagramEvent::Incoming { flow, destination, source } => {
                self.on_incoming(base, services, id, flow, destination, source);
            }
            DatagramEvent::IncomingBeyond { flow, destination } => {
                self.on_incoming_beyond(base, services, id, flow, destination);
            }
            DatagramEvent::Accepted(flow) => {
                if let Some(user) = datagram_user(base, id, flow)
                    && !self.rendezvous.on_far_accepted(base, user)
                {
                    self.promise(base, user, Some(flow));
                }
            }
            DatagramEvent::Received(flow, payload) => {
                if let Some(user) = datagram_user(base, id, flow)
                    && !self.rendezvous.on_parcel(base, user, &payload)
                {
                    self.deliver(base, user, &payload);
                }
            }
            DatagramEvent::Unreachable(flow, _) => {
                if let Some(user) = datagram_user(base, id, flow) {
                    self.tell_unreachable(base, user);
                }
            }
            DatagramEvent::SeenAt(flow, seen) => {
                if let Some(user) = datagram_user(base, id, flow) {
                    self.rendezvous.on_seen(base, user, seen);
                }
            }
            DatagramEvent::Closed(flow, why) => self.on_closed(base, id, flow, why),
        }
    }

    fn on_closed(
        &mut self,
        base: &mut Base,
        id: AssociationId,
        flow: DatagramFlow,
        why: Option<Refusal>,
    ) {
        let Some(user) = super::end::forget_datagrams(base, id, flow) else {
            return;
        };
        if self.rendezvous.on_way_closed(base, user, why) {
            return;
        }
        let relay = self.relays.get_mut(&user);
        match relay {
            Some(Relay { side: Side::Service | Side::Beyond(_), .. }) => {
                self.drop_relay(base, user)
            }
            // It was idle; the next datagram opens another one.
            Some(relay) if why.is_none() => relay.carrier = None,
            Some(_) | None => self.on_refused(base, user, why),
        }
    }

    fn deliver(&mut self, base: &mut Base, id: DatagramId, payload: &[u8]) {
        let Some(relay) = self.relays.get_mut(&id) else { return };
        relay.last = base.core.now;
        relay.moved.1 += payload.len() as u64;
        relay.quota.iter().for_each(|quota| quota.add(payload.len() as u64));
        match relay.socket.send(payload) {
            Ok(_) => relay.delivered += 1,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // That was about one before; whoever is there now may take this one.
                let delivered = relay.socket.send(payload).is_ok();
                relay.delivered += u64::from(delivered);
                relay.undelivered += u64::from(!delivered);
                self.on_error(base, id, &error);
            }
            Err(_) => relay.undelivered += 1,
        }
    }

    /// A datagram that we sent to the local socket was answered by an ICMP error.
    fn on_error(&mut self, base: &mut Base, id: DatagramId, error: &io::Error) {
        let Some(relay) = self.relays.get(&id) else { return };
        let errno = error.raw_os_error().and_then(|errno| u16::try_from(errno).ok());
        match (relay.side, relay.carrier, errno) {
            (Side::Service | Side::Beyond(_), Some((association, flow)), Some(errno)) => {
                base.with_datagrams(association, |datagrams| datagrams.unreachable(flow, errno));
            }
            // Our own doing.
            (Side::Program { .. }, ..) if relay.telling => {}
            // Nobody has the program's socket any more.
            (Side::Program { .. }, _, Some(errno)) if i32::from(errno) == libc::ECONNREFUSED => {
                self.drop_relay(base, id);
            }
            _ => base.core.count("datagram_socket_errors"),
        }
    }

    fn tell_unreachable(&mut self, base: &mut Base, id: DatagramId) {
        let Some(relay) = self.relays.get_mut(&id) else { return };
        let Side::Program { client, program } = relay.side else { return };
        if program.connected && !relay.telling {
            relay.refuse(true);
            base.core.count("datagrams_unreachable");
            base.core.reply(client.control, Reply::Unreachable { id: client.id });
        }
    }

    /// The program knows.
    pub(crate) fn on_told(&mut self, client: Client) {
        let id = self.clients.get(&client);
        if let Some(relay) = id.and_then(|id| self.relays.get_mut(id)) {
            relay.refuse(false);
        }
    }
}

fn datagram_user(base: &Base, id: AssociationId, flow: DatagramFlow) -> Option<DatagramId> {
    base.get(&id)?.datagrams.get(&flow).copied()
}

/// Whether `port` is one that programs are given, not one that services have.
pub(super) const fn is_ephemeral(port: u16) -> bool {
    port >= 32_768
}
