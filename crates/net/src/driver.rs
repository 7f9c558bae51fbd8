//! The driver: one endpoint, its sockets, and bounded turns of work between them.

use crate::bind::{self, LocalBinding, Opened, UdpPort};
use crate::counters::Counters;
use crate::path_io::UdpIo;
use crate::receive::{ReceiveBuffers, Received};
use crate::send::Packets;
use crate::socket::{PathSocket, SocketStatus};
use crate::socket_option;
use manypath_engine::{Endpoint, Instant, LocalAddress, PacketBatch, PathAddr, Transmit};
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use socket2::SockRef;
use std::io;
use std::os::fd::AsRawFd;

/// Most packets of one run: as many of 1472 bytes (Ethernet, IPv4) as one datagram holds, so that
/// a run is one call.
const PACKETS_PER_RUN: usize = crate::send::MAX_DATAGRAM / 1472;
/// Runs sent in one flush.
const RUNS_PER_FLUSH: usize = 64;
/// Receive calls per socket and turn.
const RECEIVES_PER_TURN: usize = 4;
/// Drives one [`Endpoint`] over UDP sockets, one per local address.
#[derive(Debug)]
pub struct Driver {
    endpoint: Endpoint,
    sockets: Vec<Bound>,
    batch: PacketBatch,
    buffers: ReceiveBuffers,
    /// Counts that belong to no socket, or to sockets that are gone.
    counters: Counters,
    /// The last flush stopped because it had done enough, not because there was nothing to do.
    unflushed: bool,
}

/// A socket in the user's poll.
#[derive(Debug)]
struct Bound {
    token: Token,
    registry: Registry,
    path: PathSocket<UdpIo>,
    device: Option<String>,
    device_error: Option<String>,
    /// Whether the poll reports that the socket has become writable.
    awaits_writable: bool,
    /// Whether a turn has left datagrams in the kernel that no new event will report.
    unread: bool,
}

impl Driver {
    /// Drives `endpoint`, which has no local addresses yet.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            sockets: Vec::new(),
            batch: PacketBatch::new(PACKETS_PER_RUN),
            buffers: ReceiveBuffers::default(),
            counters: Counters::default(),
            unflushed: false,
        }
    }

    /// Binds sockets to all of `bindings`, with one UDP port for all of them, registers them with
    /// their tokens and makes their addresses usable for associations to come; ports in `bindings`
    /// do not count. Nothing is bound if one of them fails; the error's text names the address and
    /// the port and says what to do.
    pub fn bind_all(
        &mut self,
        registry: &Registry,
        bindings: &[(Token, LocalBinding)],
        port: UdpPort,
    ) -> io::Result<Vec<LocalAddress>> {
        if bindings.iter().any(|(token, _)| self.index(*token).is_some()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the token is in use"));
        }
        let plain: Vec<_> = bindings.iter().map(|(_, binding)| binding).collect();
        let opened = bind::open_all(&plain, port)?;
        let tokens = bindings.iter().map(|(token, _)| *token);
        let mut bound = Vec::with_capacity(opened.len());
        for (token, opened) in tokens.zip(opened) {
            bound.push((opened.address, Bound::register(registry, token, opened)?));
        }
        let adopt = |(address, socket)| self.adopt(address, socket);
        Ok(bound.into_iter().map(adopt).collect())
    }

    /// Binds one socket, as [`bind_all`](Self::bind_all) does. Port 0 stands for the port of the
    /// sockets that there are already.
    pub fn bind(
        &mut self,
        registry: &Registry,
        token: Token,
        binding: LocalBinding,
    ) -> io::Result<LocalAddress> {
        let port = match (binding.addr.port(), self.sockets.first()) {
            (0, None) => UdpPort::Ephemeral,
            (0, Some(first)) => UdpPort::Fixed(first.path.local.port()),
            (port, _) => UdpPort::Fixed(port),
        };
        let mut addresses = self.bind_all(registry, &[(token, binding)], port)?;
        addresses.pop().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    fn adopt(&mut self, address: LocalAddress, socket: Bound) -> LocalAddress {
        self.endpoint.add_local_address(address);
        self.sockets.push(socket);
        address
    }

    /// Handles an event of the poll; `false` if its token is not one of the driver's.
    pub fn handle_event(&mut self, now: Instant, event: &Event) -> bool {
        let Some(index) = self.index(event.token()) else { return false };
        if event.is_error() {
            self.sockets[index].path.read_errors();
            self.pass_on_unreachable(now, index);
        }
        if event.is_writable() {
            self.resume(now, index);
        }
        if event.is_readable() {
            self.read(now, index);
        }
        true
    }

    /// Reads what has arrived on the socket of `token`, up to a bound.
    pub fn handle_readable(&mut self, now: Instant, token: Token) {
        if let Some(index) = self.index(token) {
            self.read(now, index);
        }
    }

    /// Sends what waited for the socket of `token` to become writable.
    pub fn handle_writable(&mut self, now: Instant, token: Token) {
        if let Some(index) = self.index(token) {
            self.resume(now, index);
        }
    }

    /// Runs the endpoint's timers that are due and goes on reading where an earlier call stopped.
    /// Call it in every turn of the loop.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
        }
        for index in 0..self.sockets.len() {
            if self.sockets[index].unread {
                self.read(now, index);
            }
        }
    }

    /// Sends the endpoint's packets, up to a bound. Call it after everything that may have made
    /// the endpoint want to send, at the latest before sleeping.
    pub fn flush(&mut self, now: Instant) {
        self.unflushed = false;
        for _ in 0..RUNS_PER_FLUSH {
            let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.batch) else { return };
            self.transmit(now, &transmit);
        }
        self.unflushed = true;
    }

    /// When the driver must be called next, if nothing happens before: the endpoint's next timer,
    /// or the origin (at once) if a bounded call has left work over.
    pub fn timeout(&self) -> Option<Instant> {
        if self.unflushed || self.sockets.iter().any(|socket| socket.unread) {
            return Some(Instant::ZERO);
        }
        self.endpoint.poll_timeout()
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The endpoint, for commands and for `poll_event`. Flush afterwards.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// The counts of all sockets, those that are gone included.
    pub fn counters(&self) -> Counters {
        let mut sum = self.counters.clone();
        self.sockets.iter().for_each(|socket| sum.add(&socket.path.counters));
        sum
    }

    /// Every socket as it stands.
    pub fn sockets(&self) -> Vec<SocketStatus> {
        self.sockets.iter().map(Bound::status).collect()
    }

    fn index(&self, token: Token) -> Option<usize> {
        self.sockets.iter().position(|socket| socket.token == token)
    }

    fn read(&mut self, now: Instant, index: usize) {
        let Self { endpoint, sockets, buffers, .. } = self;
        let socket = &mut sockets[index];
        let local = socket.path.local;
        socket.unread = true;
        for _ in 0..RECEIVES_PER_TURN {
            let received = socket.path.receive(buffers, |remote, packet| {
                endpoint.handle_packet(now, PathAddr { local, remote }, packet);
            });
            if received == Received::Drained {
                socket.unread = false;
                break;
            }
        }
        self.pass_on_unreachable(now, index);
    }

    fn resume(&mut self, now: Instant, index: usize) {
        self.sockets[index].path.resume(now);
        self.after_send(now, index);
    }

    fn transmit(&mut self, now: Instant, transmit: &Transmit) {
        let PathAddr { local, remote } = transmit.path;
        let packets =
            Packets { remote, segment_size: transmit.segment_size, bytes: self.batch.bytes() };
        let position = self.sockets.iter().position(|socket| socket.path.local == local);
        let Some(index) = position else {
            self.counters.dropped_no_socket += packets.count();
            return;
        };
        self.sockets[index].path.send(now, packets);
        self.after_send(now, index);
    }

    fn after_send(&mut self, now: Instant, index: usize) {
        self.sockets[index].await_writable_if_blocked();
        self.pass_on_unreachable(now, index);
    }

    fn pass_on_unreachable(&mut self, now: Instant, index: usize) {
        let path = &mut self.sockets[index].path;
        let local = path.local;
        for remote in path.unreachable.drain(..) {
            self.endpoint.handle_unreachable(now, PathAddr { local, remote });
        }
    }
}

impl Bound {
    fn register(registry: &Registry, token: Token, opened: Opened) -> io::Result<Self> {
        let Opened { io, address, device, device_error } = opened;
        let registry = registry.try_clone()?;
        let fd = io.socket().as_raw_fd();
        registry.register(&mut SourceFd(&fd), token, Interest::READABLE)?;
        let path = PathSocket::new(io, address.addr);
        Ok(Self {
            token,
            registry,
            path,
            device,
            device_error,
            awaits_writable: false,
            unread: false,
        })
    }

    /// Writability is asked for only while packets wait: else every packet that leaves the
    /// interface would wake the loop.
    fn await_writable_if_blocked(&mut self) {
        let blocked = self.path.is_blocked();
        if blocked == self.awaits_writable {
            return;
        }
        let readable = Interest::READABLE;
        let interest = if blocked { readable | Interest::WRITABLE } else { readable };
        let fd = self.path.io.socket().as_raw_fd();
        if self.registry.reregister(&mut SourceFd(&fd), self.token, interest).is_ok() {
            self.awaits_writable = blocked;
        }
    }

    fn status(&self) -> SocketStatus {
        let socket = self.path.io.socket();
        SocketStatus {
            local: self.path.local,
            device: self.device.clone(),
            device_error: self.device_error.clone(),
            receive_buffer: SockRef::from(socket).recv_buffer_size().unwrap_or(0),
            send_buffer: SockRef::from(socket).send_buffer_size().unwrap_or(0),
            receive_overflows: socket_option::receive_overflows(socket),
            offload: self.path.offload.is_trusted(),
            fragments: self.path.fragments,
            waiting: self.path.waiting.bytes(),
            counters: self.path.counters.clone(),
        }
    }
}
