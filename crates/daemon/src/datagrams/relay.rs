//! Datagrams between a local socket and a flow.

use super::DatagramId;
use crate::attempt::Client;
use crate::base::Base;
use crate::parameters;
use crate::stack::Stack;
use crate::timers::Timer;
use crate::token::Source;
use manypath_control::Reply;
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, Duration, Instant};
use manypath_flow::{DatagramError, DatagramEvent, DatagramFlow, Datagrams, Refusal};
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
    Program { client: Client, program: Program },
    Service,
}

#[derive(Debug)]
pub(super) struct Relay {
    pub(super) socket: UdpSocket,
    pub(super) side: Side,
    pub(super) destination: SocketAddr,
    pub(super) source: SocketAddr,
    pub(super) options: Options,
    pub(super) carrier: Option<(AssociationId, DatagramFlow)>,
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

impl Stack {
    pub(super) fn start_datagrams(&mut self, id: DatagramId, mut relay: Relay) {
        relay.last = self.base.core.now;
        if let Some((association, flow)) = relay.carrier {
            crate::datagrams::open::use_datagrams(&mut self.base, association, flow, id);
        }
        self.datagrams.relays.insert(id, relay);
        self.datagrams.ready.insert(id);
        self.base.core.count("datagram_relays_started");
        if !std::mem::replace(&mut self.datagrams.watching, true) {
            self.base.core.after(super::end::INTERVAL, Timer::Datagrams);
        }
    }

    pub(crate) fn on_datagram_socket(&mut self, id: DatagramId) {
        self.datagrams.ready.insert(id);
    }

    /// Takes what local sockets have.
    pub(crate) fn service_datagrams(&mut self) {
        let mut room = std::mem::take(&mut self.scratch);
        self.service_lines(&mut room);
        for id in std::mem::take(&mut self.datagrams.ready) {
            self.service_datagram_relay(id, &mut room);
        }
        self.scratch = room;
    }

    fn service_datagram_relay(&mut self, id: DatagramId, room: &mut [u8]) {
        for _ in 0..TURN {
            let Some(relay) = self.datagrams.relays.get_mut(&id) else { return };
            match relay.receive(room) {
                Ok(len) => {
                    relay.last = self.base.core.now;
                    self.forward_datagram(id, room.get(..len).unwrap_or_default());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => self.on_datagram_error(id, &error),
            }
        }
        self.datagrams.ready.insert(id);
    }

    pub(super) fn forward_datagram(&mut self, id: DatagramId, payload: &[u8]) {
        let Some((association, flow)) = self.carrier_of(id) else {
            self.base.core.count("datagrams_without_carrier");
            return self.give_up_datagrams(id, FallbackReason::AssociationLost);
        };
        let now = Duration::from_nanos(self.base.core.now.as_nanos());
        let sent =
            self.base.with_datagrams(association, |datagrams| datagrams.send(now, flow, payload));
        if let Some(relay) = self.datagrams.relays.get_mut(&id)
            && sent == Some(Err(DatagramError::TooLong))
        {
            relay.too_long += 1;
        }
    }

    /// The flow of a relay; opened anew if it was idle.
    fn carrier_of(&mut self, id: DatagramId) -> Option<(AssociationId, DatagramFlow)> {
        let relay = self.datagrams.relays.get(&id)?;
        if relay.carrier.is_some() || matches!(relay.side, Side::Service) {
            return relay.carrier;
        }
        let (destination, source, options) = (relay.destination, relay.source, relay.options);
        let profile = parameters::profile(&self.base.core.config, &options);
        let acceptor = self.base.core.acceptor_for(destination, &options);
        let from = Some(source.ip());
        let association = self.base.association_for(destination, from, profile, acceptor).ok()?;
        let flow = crate::datagrams::open::open_datagrams(
            &mut self.base,
            association,
            destination,
            source,
            &options,
        )
        .ok()?;
        crate::datagrams::open::use_datagrams(&mut self.base, association, flow, id);
        let relay = self.datagrams.relays.get_mut(&id)?;
        relay.carrier = Some((association, flow));
        relay.carrier
    }

    pub(crate) fn drain_datagram_events(&mut self, id: AssociationId) {
        loop {
            let association = self.base.get_mut(&id);
            let datagrams = association.and_then(|one| one.mux.datagrams_mut());
            let Some(event) = datagrams.and_then(Datagrams::poll_event) else { return };
            self.on_datagram_event(id, event);
        }
    }

    fn on_datagram_event(&mut self, id: AssociationId, event: DatagramEvent) {
        match event {
            DatagramEvent::Incoming { flow, destination, source } => {
                self.on_incoming_datagrams(id, flow, destination, source);
            }
            DatagramEvent::Accepted(flow) => {
                if let Some(user) = datagram_user(&self.base, id, flow) {
                    self.promise_datagrams(user, Some(flow));
                }
            }
            DatagramEvent::Received(flow, payload) => {
                if let Some(user) = datagram_user(&self.base, id, flow) {
                    self.deliver_datagram(user, &payload);
                }
            }
            DatagramEvent::Unreachable(flow, _) => {
                if let Some(user) = datagram_user(&self.base, id, flow) {
                    self.tell_unreachable(user);
                }
            }
            DatagramEvent::Closed(flow, why) => self.on_datagrams_closed(id, flow, why),
        }
    }

    fn on_datagrams_closed(&mut self, id: AssociationId, flow: DatagramFlow, why: Option<Refusal>) {
        let Some(user) = crate::datagrams::end::forget_datagrams(&mut self.base, id, flow) else {
            return;
        };
        let relay = self.datagrams.relays.get_mut(&user);
        match relay {
            Some(Relay { side: Side::Service, .. }) => self.drop_datagrams(user),
            // It was idle; the next datagram opens another one.
            Some(relay) if why.is_none() => relay.carrier = None,
            Some(_) | None => self.on_datagrams_refused(user, why),
        }
    }

    fn deliver_datagram(&mut self, id: DatagramId, payload: &[u8]) {
        let Some(relay) = self.datagrams.relays.get_mut(&id) else { return };
        relay.last = self.base.core.now;
        match relay.socket.send(payload) {
            Ok(_) => relay.delivered += 1,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // That was about one before; whoever is there now may take this one.
                let delivered = relay.socket.send(payload).is_ok();
                relay.delivered += u64::from(delivered);
                relay.undelivered += u64::from(!delivered);
                self.on_datagram_error(id, &error);
            }
            Err(_) => relay.undelivered += 1,
        }
    }

    /// A datagram that we sent to the local socket was answered by an ICMP error.
    fn on_datagram_error(&mut self, id: DatagramId, error: &io::Error) {
        let Some(relay) = self.datagrams.relays.get(&id) else { return };
        let errno = error.raw_os_error().and_then(|errno| u16::try_from(errno).ok());
        match (relay.side, relay.carrier, errno) {
            (Side::Service, Some((association, flow)), Some(errno)) => {
                self.base
                    .with_datagrams(association, |datagrams| datagrams.unreachable(flow, errno));
            }
            // Our own doing.
            (Side::Program { .. }, ..) if relay.telling => {}
            // Nobody has the program's socket any more.
            (Side::Program { .. }, _, Some(errno)) if i32::from(errno) == libc::ECONNREFUSED => {
                self.drop_datagrams(id);
            }
            _ => self.base.core.count("datagram_socket_errors"),
        }
    }

    fn tell_unreachable(&mut self, id: DatagramId) {
        let Some(relay) = self.datagrams.relays.get_mut(&id) else { return };
        let Side::Program { client, program } = relay.side else { return };
        if program.connected && !relay.telling {
            relay.refuse(true);
            self.base.core.count("datagrams_unreachable");
            self.base.core.reply(client.control, Reply::Unreachable { id: client.id });
        }
    }

    /// The program knows.
    pub(crate) fn on_told(&mut self, client: Client) {
        let id = self.datagrams.clients.get(&client);
        if let Some(relay) = id.and_then(|id| self.datagrams.relays.get_mut(id)) {
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

/// Whether the address is of no host in particular.
pub(super) fn any_like(addr: SocketAddr) -> SocketAddr {
    match addr {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0_u16; 8], 0)),
    }
}
