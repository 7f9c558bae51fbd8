//! The driver: what its user calls.

use crate::arrivals::Arrivals;
use crate::bind::{self, LocalBinding, Opened, UdpPort};
use crate::bound::Bound;
use crate::carriers::{Behind, Carrier, Carriers, Proxy, StreamsConfig, Ways, Wrapper};
use crate::counters::Counters;
use crate::exchange::Exchange;
use crate::inherited::Inherited;
use crate::loops::Seat;
use crate::parcels::Parcel;
use crate::socket::SocketStatus;
use manypath_engine::{Duration, Ecn, Endpoint, Instant, LocalAddress, PathAddr};
use mio::event::Event;
use mio::{Registry, Token};
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Drives one [`Endpoint`] over UDP sockets, one per local address.
#[derive(Debug)]
pub struct Driver {
    pub(crate) exchange: Exchange,
    arrivals: Arrivals,
    inherited: Inherited,
}

impl Driver {
    /// Drives `endpoint`, which has no local addresses yet.
    pub fn new(endpoint: Endpoint) -> Self {
        let (arrivals, inherited) = Default::default();
        Self { exchange: Exchange::new(endpoint), arrivals, inherited }
    }

    /// Packets come when they are read, whatever the kernel says: for a clock that is not the system's.
    pub fn ignore_arrival_times(&mut self) {
        self.arrivals.is_unstamped = true;
    }

    /// Lets sockets that are open already be used wherever their address is bound.
    pub fn inherit(&mut self, sockets: Inherited) {
        let seat = self.inherited.seat.take();
        self.inherited = Inherited { seat, ..sockets };
    }

    /// Makes this the loop of `seat`: sockets to come are shared with the others, and so are verification tags. Before any
    /// socket is bound.
    pub fn take_seat(&mut self, seat: &Seat) {
        let (index, of) = (seat.index() as u32, seat.count().max(1) as u32);
        self.exchange.endpoint.share_tags(index, of);
        self.exchange.seat = Some(seat.clone());
        self.inherited.seat = Some(seat.clone());
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
        let opened = bind::open_all(&plain, port, &mut self.inherited)?;
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
        let port = match (binding.addr.port(), self.exchange.sockets.first()) {
            (0, None) => UdpPort::Ephemeral,
            (0, Some(first)) => UdpPort::Fixed(first.path.local.port()),
            (port, _) => UdpPort::Fixed(port),
        };
        let mut addresses = self.bind_all(registry, &[(token, binding)], port)?;
        addresses.pop().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Binds one socket, as [`bind`](Self::bind) does, at any port that is free.
    pub fn bind_anywhere(
        &mut self,
        registry: &Registry,
        token: Token,
        binding: &LocalBinding,
    ) -> io::Result<LocalAddress> {
        let binding = (token, binding.clone());
        let mut addresses = self.bind_all(registry, &[binding], UdpPort::Ephemeral)?;
        addresses.pop().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Opens a raw socket for SCTP without encapsulation at the address of `binding` (port 0 there and
    /// in peers' addresses stands for that), beside the UDP socket that there may be. Needs CAP_NET_RAW.
    /// Peers are reached so by [`Endpoint::connect`] with port 0, and are answered as they come (RFC
    /// 6951 section 5.4).
    pub fn bind_native(
        &mut self,
        registry: &Registry,
        token: Token,
        binding: &LocalBinding,
    ) -> io::Result<LocalAddress> {
        if self.index(token).is_some() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the token is in use"));
        }
        let opened = bind::open_native(binding)?;
        let address = opened.address;
        let ip = address.addr.ip();
        let known = self.exchange.sockets.iter().any(|other| other.path.local.ip() == ip);
        self.keep_beside(registry, token, opened)?;
        if !known {
            self.exchange.endpoint.add_local_address(address);
        }
        Ok(address)
    }

    /// Binds a second UDP socket, at the address and port of `binding`, beside the one that has made the address
    /// usable. Peers are answered from there as they come; an association that they begin at a port below 1024
    /// keeps to that port at all of its addresses.
    pub fn bind_beside(
        &mut self,
        registry: &Registry,
        token: Token,
        binding: &LocalBinding,
    ) -> io::Result<()> {
        let port = UdpPort::Fixed(binding.addr.port());
        for opened in bind::open_all(&[binding], port, &mut self.inherited)? {
            self.keep_beside(registry, token, opened)?;
        }
        Ok(())
    }

    fn keep_beside(&mut self, registry: &Registry, token: Token, opened: Opened) -> io::Result<()> {
        let mut socket = Bound::register(registry, token, opened)?;
        socket.path.searches = self.exchange.endpoint.searches_path_mtu();
        self.exchange.sockets.push(socket);
        Ok(())
    }

    /// Gets packets to peers at one of the `usual` UDP ports by other `carriers` where those are silent, some of them
    /// by an HTTP proxy, of which `proxies` has an address of each family. `tokens` names connections in the poll.
    /// Without a `wrapper` carriers inside of TLS are left out.
    ///
    /// # Errors
    /// When the poll cannot be used.
    pub fn carry_by(
        &mut self,
        registry: &Registry,
        tokens: fn(u64) -> Token,
        usual: Vec<u16>,
        (carriers, proxies): (Carriers, Vec<Proxy>),
        wrapper: Option<Arc<dyn Wrapper>>,
    ) -> io::Result<()> {
        let usable = if proxies.is_empty() { carriers.without_proxy() } else { carriers };
        let usable = if wrapper.is_none() { usable.without_tls() } else { usable };
        self.exchange.carriage.ways = Ways::new(usable, usual);
        let config = StreamsConfig { carriers, proxies, wrapper };
        self.exchange.carriage.streams.watch_in(registry, tokens, config)
    }

    /// Accepts connections that carry packets at the port of a TCP or TLS carrier, of all addresses with sockets, those to
    /// come too. Paths over them have [`STREAM_PORT`](crate::STREAM_PORT) at their local end. After
    /// [`carry_by`](Self::carry_by).
    ///
    /// # Errors
    /// When the port is taken or not permitted; the text says what to do.
    pub fn listen(&mut self, at: Carrier) -> io::Result<()> {
        let shared = self.exchange.seat.as_ref().map(Seat::listeners);
        self.exchange.carriage.streams.listen(at, shared)
    }

    /// Passes connections to TLS ports that do not name our protocol on to one other server, as they are. Without it they
    /// are closed.
    pub const fn pass_to(&mut self, behind: Option<Behind>) {
        self.exchange.carriage.streams.pass_to(behind);
    }

    /// Accepts no more connections that carry packets: another process does.
    pub fn stop_listening(&mut self) {
        self.exchange.carriage.streams.stop_listening();
        self.exchange.seat.iter().for_each(|seat| seat.listeners().stop());
    }

    /// What carries a path, if that is not the usual UDP port of the peer.
    pub fn carrier_of(&self, path: &PathAddr) -> Option<Carrier> {
        let usual = Carrier::Udp(path.remote.port());
        let chosen = self.exchange.carriage.ways.choice(path).filter(|choice| *choice != usual);
        chosen.or_else(|| self.exchange.carriage.streams.accepted_at(path))
    }

    /// Closes the socket of `token`, whose address has gone or is not to be used any more. What waits there
    /// is dropped. The endpoint has to be told: [`Endpoint::remove_local_address`].
    pub fn unbind(&mut self, now: Instant, token: Token) {
        let Some(index) = self.index(token) else { return };
        let socket = self.exchange.sockets.remove(index);
        self.exchange.endpoint.handle_backpressure(now, socket.path.local, false);
        self.exchange.counters.add(&socket.path.counters);
        let local = socket.path.local;
        self.exchange.forget_local(now, local);
        socket.deregister();
        if let Some(seat) = &self.exchange.seat {
            seat.close(local);
        }
    }

    /// Copies of the UDP sockets with the addresses to which they are bound, for a process that is to read them.
    pub fn copies(&self) -> io::Result<Vec<(SocketAddr, OwnedFd)>> {
        let sockets = self.exchange.sockets.iter().filter(|socket| socket.path.local.port() != 0);
        let copy =
            |socket: &Bound| Ok((socket.path.local, socket.path.io.socket().try_clone()?.into()));
        sockets.map(copy).collect()
    }

    /// Lets another process read the socket at `local`: what it passes on comes over `line` (see `lent.rs`). When it
    /// ends, the socket is read here again. False if there is no such socket.
    pub fn lend(&mut self, local: SocketAddr, line: OwnedFd) -> io::Result<bool> {
        let mut sockets = self.exchange.sockets.iter_mut();
        match sockets.find(|socket| socket.path.local == local && !socket.is_lent()) {
            Some(socket) => socket.lend(line).map(|()| true),
            None => Ok(false),
        }
    }

    /// Whether another process reads sockets of this one.
    pub fn has_lent(&self) -> bool {
        self.exchange.sockets.iter().any(Bound::is_lent)
    }

    /// From now on what comes to the sockets at `addrs` and concerns no association here is passed on, to the process
    /// that gets the other ends of the lines, one for each socket that is open here.
    pub fn pass_strays_on(
        &mut self,
        addrs: &[SocketAddr],
    ) -> io::Result<Vec<(SocketAddr, OwnedFd)>> {
        let sockets = self.exchange.sockets.iter_mut();
        let wanted = sockets.filter(|socket| addrs.contains(&socket.path.local));
        let lines: io::Result<Vec<_>> =
            wanted.map(|socket| Ok((socket.path.local, socket.pass_strays_on()?))).collect();
        let lines = lines?;
        self.exchange.endpoint.leave_strays(self.exchange.passes_on());
        Ok(lines)
    }

    /// Whether strays are passed on to an earlier process that is still there, as far as was noticed.
    pub fn passes_strays_on(&self) -> bool {
        self.exchange.passes_on()
    }

    fn adopt(&mut self, address: LocalAddress, mut socket: Bound) -> LocalAddress {
        socket.path.searches = self.exchange.endpoint.searches_path_mtu();
        self.exchange.endpoint.add_local_address(address);
        self.exchange.sockets.push(socket);
        address
    }

    /// Handles an event of the poll; `false` if its token is not one of the driver's. What has arrived is read by
    /// [`handle_timeout`](Self::handle_timeout), from all sockets together.
    pub fn handle_event(&mut self, now: Instant, event: &Event) -> bool {
        let Some(index) = self.index(event.token()) else {
            return self.exchange.handle_stream_event(now, event);
        };
        if event.is_error() {
            self.exchange.read_errors(now, index);
        }
        if event.is_writable() {
            self.exchange.resume(now, index);
        }
        self.exchange.sockets[index].unread |= event.is_readable();
        true
    }

    /// Reads what has arrived on all sockets, up to a bound for each, without an event of the poll. Returns
    /// whether there was something.
    pub fn handle_arrivals(&mut self, now: Instant) -> bool {
        self.exchange.sockets.iter_mut().for_each(|socket| socket.unread = true);
        self.exchange.read(now, &mut self.arrivals)
    }

    /// Reads what events have told of, or an earlier call has left over, up to a bound: from all sockets in the order
    /// in which it came to the host, and as of the time at which it came. Then runs the endpoint's timers that are due.
    /// Call it in every turn of the loop, before what users ask of the endpoint at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        // First what has arrived: after a pause of the process a timer may be due whose
        // acknowledgement is here already.
        self.exchange.count_reports_anew(now);
        self.exchange.read(now, &mut self.arrivals);
        self.exchange.tend_carriers(now);
        self.exchange.handle_timeout(now);
    }

    /// Sends the endpoint's packets, up to a bound. Call it after everything that may have made
    /// the endpoint want to send, at the latest before sleeping.
    pub fn flush(&mut self, now: Instant) {
        self.exchange.flush(now);
    }

    /// When the driver must be called next, if nothing happens before: the endpoint's next timer,
    /// or the origin (at once) if a bounded call has left work over.
    pub fn timeout(&self) -> Option<Instant> {
        if self.exchange.unflushed || self.exchange.sockets.iter().any(|socket| socket.unread) {
            return Some(Instant::ZERO);
        }
        let carriers = self.exchange.carriers_due();
        [carriers, self.exchange.endpoint.poll_timeout()].into_iter().flatten().min()
    }

    /// How long the loop should sleep before it polls again, although packets come meanwhile, so that one turn reads many: while
    /// strangers flood the sockets, or bulk data comes over paths that are long beside the pause. `due` is when
    /// the loop has something to do. `None` when neither is so, and while there is work.
    pub fn pause(&mut self, now: Instant, due: Option<Instant>) -> Option<Duration> {
        let due = due.map(|due| due.since(now));
        if due.is_some_and(|due| due.is_zero()) {
            return None;
        }
        let flood = self.exchange.flood.pause();
        if let Some(pause) = flood.filter(|pause| due.is_none_or(|due| due >= *pause)) {
            self.exchange.counters.flood_pauses += 1;
            return Some(pause);
        }
        let pause = self.exchange.moderation.pause(due)?;
        self.exchange.counters.moderation_pauses += 1;
        Some(pause)
    }

    /// The user has read so many messages of ICMP that concern nobody: they count as a flood does.
    pub fn note_unrelated(&mut self, messages: u64) {
        self.exchange.counters.unrelated_icmp += messages;
    }

    /// The loop has handled something for which others wait: it does not sleep before it polls again until bulk data has flowed
    /// alone for some time.
    pub fn hurry(&mut self) {
        self.exchange.moderation.interrupt();
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.exchange.endpoint
    }

    /// The endpoint, for commands and for `poll_event`. Flush afterwards.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint {
        &mut self.exchange.endpoint
    }

    /// The paths whose far host has said, since the last call, that nobody listens at the peer's UDP
    /// port (ICMP port unreachable). The endpoint knows them as unreachable already; after the
    /// handshake they also mean that the peer's process has ended. Messages that do not quote the tag
    /// of an association do not count.
    pub fn take_closed_ports(&mut self) -> BTreeSet<PathAddr> {
        std::mem::take(&mut self.exchange.closed_ports)
    }

    /// The counts of all sockets together.
    pub fn counters(&self) -> Counters {
        let mut sum = self.exchange.counters.clone();
        self.exchange.carriage.count(&mut sum);
        self.exchange.sockets.iter().for_each(|socket| sum.add(&socket.path.counters));
        sum
    }

    /// Every socket as it stands.
    pub fn sockets(&self) -> Vec<SocketStatus> {
        self.exchange.sockets.iter().map(Bound::status).collect()
    }

    /// Makes `address` usable, whose packets the user carries in place of a socket.
    pub fn carry_parcels(&mut self, address: LocalAddress) {
        self.exchange.parcels.local = Some(address.addr);
        self.endpoint_mut().add_local_address(address);
    }

    /// The next packet to be carried.
    pub fn take_parcel(&mut self) -> Option<Parcel> {
        self.exchange.parcels.pop()
    }

    /// Whether packets wait to be carried.
    pub fn has_parcels(&self) -> bool {
        !self.exchange.parcels.is_empty()
    }

    /// A packet has come that was carried.
    pub fn deliver_parcel(&mut self, now: Instant, mut parcel: Parcel) {
        let Parcel { path, bytes } = &mut parcel;
        self.exchange.told = self.exchange.told.max(now);
        let told = self.exchange.told;
        self.endpoint_mut().handle_marked_packet(told, *path, bytes, Ecn::NotEct);
    }

    /// What is sent over a path cannot be carried.
    pub fn refuse_parcels(&mut self, now: Instant, path: PathAddr) {
        self.endpoint_mut().handle_unreachable(now, path);
    }

    fn index(&self, token: Token) -> Option<usize> {
        self.exchange.sockets.iter().position(|socket| socket.token == token)
    }
}
