//! The TCP connections that carry packets, some of them wrapped: made, accepted, bounded and ended.
//!
//! One that is no path of an association is worth nothing: it costs a descriptor and less than 10 KiB, there
//! are few of them, and none for long. What it says of addresses is proved as for paths over UDP: the endpoint takes its two
//! ends for a path.

mod admission;

use super::behind::{Behind, Passed};
use super::proxy::Proxy;
use super::stream::{Inbox, Over, Stream};
use super::watch::{Tokens, Watch};
use super::wrap::Wrapper;
use super::{Carrier, Carriers};
use crate::counters::Counters;
use crate::listeners::Listeners;
use crate::socket_option;
pub(super) use admission::host_of;
use admission::{Handshakes, MAX_STREAMS};
use manypath_engine::{Duration, Instant, PathAddr};
use mio::event::Event;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Bound;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// How long a connection may be no path of an association, and later without a packet of one. HEARTBEATs come every 30 s, or
/// every 90 s over metered paths.
const UNPROVEN_LIFE: Duration = Duration::from_secs(10);
const IDLE_LIFE: Duration = Duration::from_secs(240);
/// Packets that may come before the first one of an association.
const MAX_UNPROVEN_PACKETS: u32 = 64;
/// How often the ages of connections are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// Connections accepted in one turn, and the pause after so many.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
const ACCEPTS_PER_TURN: usize = 64;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 256;
/// The pause after a connection that led to nothing, doubled each time.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Most destinations of which it is kept that connections lead to nothing.
const MAX_FAILED: usize = 256;

/// How long the ClientHello of a connection to a TLS port may take.
const HELLO_LIFE: Duration = Duration::from_secs(5);

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    watch: Watch,
    all: BTreeMap<Token, Link>,
    by_ends: BTreeMap<(PathAddr, Option<Carrier>), Token>,
    listeners: BTreeMap<Token, (Socket, Carrier)>,
    /// New associations are those of another process.
    leaves: bool,
    /// Connections with bytes to be read, and the one that was read last.
    unread: BTreeSet<Token>,
    read: Option<Token>,
    /// Listeners with connections that no new event will report.
    waiting: BTreeSet<Token>,
    failed: BTreeMap<(PathAddr, Carrier), (Instant, Duration)>,
    config: StreamsConfig,
    /// Connections to TLS ports that are for the server behind them.
    passed: Passed,
    handshakes: Handshakes,
    look: Option<Instant>,
    /// Connections that are over, until the endpoint has been told.
    over: Vec<Ended>,
    pub(crate) inbox: Inbox,
    pub(crate) counters: Counters,
}

/// How connections are made and accepted.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamsConfig {
    pub(crate) carriers: Carriers,
    /// Where the HTTP proxy is that makes connections, by each family of addresses.
    pub(crate) proxies: Vec<Proxy>,
    /// What makes TLS of a connection.
    pub(crate) wrapper: Option<Arc<dyn Wrapper>>,
}

/// A connection and its ends.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Stream,
    pub(crate) ends: PathAddr,
    /// What it is to paths, if it was made here.
    by: Option<Carrier>,
    /// Where it was accepted.
    at: Option<Carrier>,
    /// It was accepted, and may be for the server behind the port.
    is_unknown: bool,
    /// It was accepted, and the other end says nothing more.
    has_ended: bool,
}

/// A connection that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) ends: PathAddr,
    /// What it was to paths, if it was made here.
    pub(crate) by: Option<Carrier>,
    /// It was never a path of an association.
    pub(crate) failed: bool,
}

impl Streams {
    /// Watches its connections in a poll, by these names.
    pub(crate) fn watch_in(
        &mut self,
        registry: &Registry,
        tokens: Tokens,
        config: StreamsConfig,
    ) -> io::Result<()> {
        self.config = config;
        self.watch.begin(registry, tokens)
    }

    /// Passes what is for somebody else at TLS ports on to this server, and to no other.
    pub(crate) const fn pass_to(&mut self, behind: Option<Behind>) {
        self.passed.behind = behind;
    }

    /// Accepts connections at a port of all addresses of this host.
    pub(crate) fn listen(&mut self, at: Carrier, shared: Option<&Listeners>) -> io::Result<()> {
        let port = at.port();
        self.leaves = false;
        let listener = |addr| match shared {
            Some(shared) => shared.get(addr, listener),
            None => listener(addr),
        };
        let v4 = SocketAddr::from(([0; 4], port));
        let v6 = SocketAddr::from(([0_u16; 8], port));
        let (v4, at_v4) = (listener(v4)?, v4);
        let v6 = match listener(v6) {
            // A host without IPv6.
            Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => None,
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => None,
            Err(error) => {
                // A socket that is kept for all loops would leave clients waiting.
                shared.into_iter().for_each(|shared| shared.forget(at_v4));
                return Err(error);
            }
            Ok(socket) => Some(socket),
        };
        std::iter::once(v4).chain(v6).try_for_each(|socket| self.keep_listener(socket, at))
    }

    fn keep_listener(&mut self, socket: Socket, at: Carrier) -> io::Result<()> {
        let id = self.watch.register(socket.as_raw_fd(), Interest::READABLE)?;
        self.listeners.insert(id, (socket, at));
        Ok(())
    }

    /// A connection comes from another loop, under the same limits as one that is accepted here: strangers say in their
    /// packets which loop that is.
    pub(crate) fn adopt(&mut self, now: Instant, link: Link, locals: &[IpAddr]) -> Option<Token> {
        let kept = if self.may_admit(&link.ends, locals, None) {
            self.make_room(now, false);
            self.keep(now, link).ok()
        } else {
            None
        };
        self.counters.carrier_streams_refused += u64::from(kept.is_none());
        // Bytes may be there that no new event reports.
        self.unread.extend(kept);
        kept
    }

    /// Whether a connection may still become one of another loop.
    pub(crate) fn may_move(&self, id: Token) -> bool {
        let link = self.all.get(&id);
        link.is_some_and(|link| link.by.is_none() && link.stream.proven.is_none())
    }

    /// Accepts no more connections: another process does.
    pub(crate) fn stop_listening(&mut self) {
        self.leaves = true;
        for (socket, _) in std::mem::take(&mut self.listeners).into_values() {
            self.watch.deregister(socket.as_raw_fd());
        }
    }

    /// The connection between `ends` that is made as `carrier` says if there is none: from the address of the local end,
    /// through `device`. `None` while connections there lead to nothing.
    pub(crate) fn dial(
        &mut self,
        now: Instant,
        ends: PathAddr,
        carrier: Carrier,
        device: Option<&str>,
    ) -> Option<Token> {
        if let Some(id) = self.by_ends.get(&(ends, Some(carrier))) {
            return Some(*id);
        }
        let pausing = self.failed.get(&(ends, carrier)).is_some_and(|(until, _)| *until > now);
        if pausing || self.all.len() >= MAX_STREAMS {
            return None;
        }
        let (to, request) = match carrier {
            Carrier::Proxy(_) => {
                let proxy = self.proxy_for(ends.local)?;
                (proxy.addr, Some(proxy.request(ends.remote)))
            }
            Carrier::Udp(_) | Carrier::Tcp(_) | Carrier::Tls(_) => (ends.remote, None),
        };
        self.counters.carrier_streams_dialled += 1;
        // Loopback is reached through no other interface.
        let device = device.filter(|_| !to.ip().is_loopback());
        let socket = connect(ends.local.ip(), to, device);
        let wrap = self.wrapper_for(carrier).map(|wrapper| wrapper.dial()).transpose();
        let stream = socket.and_then(|socket| Stream::dialled(socket, now, request, wrap?));
        let (by, at, is_unknown, has_ended) = (Some(carrier), None, false, false);
        let link = |stream| Link { stream, ends, by, at, is_unknown, has_ended };
        let kept = stream.and_then(|stream| self.keep(now, link(stream)));
        if kept.is_err() {
            self.note_failure(now, ends, carrier);
        }
        kept.ok()
    }

    fn proxy_for(&self, local: SocketAddr) -> Option<&Proxy> {
        self.config.proxies.iter().find(|proxy| proxy.addr.is_ipv4() == local.is_ipv4())
    }

    fn wrapper_for(&self, carrier: Carrier) -> Option<&dyn Wrapper> {
        self.config.wrapper.as_deref().filter(|_| self.config.carriers.wraps(carrier))
    }

    fn keep(&mut self, now: Instant, link: Link) -> io::Result<Token> {
        let id = self.watch.register(link.stream.fd(), Interest::READABLE | Interest::WRITABLE)?;
        self.by_ends.insert((link.ends, link.by), id);
        self.all.insert(id, link);
        self.look.get_or_insert(now + LOOK);
        Ok(id)
    }

    fn note_failure(&mut self, now: Instant, ends: PathAddr, carrier: Carrier) {
        self.counters.carrier_streams_failed += 1;
        let ends = (ends, carrier);
        let pause = self.failed.get(&ends).map_or(MIN_PAUSE, |(_, pause)| *pause * 2);
        let pause = pause.min(MAX_PAUSE);
        self.failed.retain(|_, (until, _)| now.since(*until) < MAX_PAUSE);
        if self.failed.len() >= MAX_FAILED && !self.failed.contains_key(&ends) {
            let first = self.failed.iter().min_by_key(|(_, (until, _))| *until);
            first.map(|(ends, _)| *ends).map(|ends| self.failed.remove(&ends));
        }
        self.failed.insert(ends, (now + pause, pause));
    }

    /// Sends packets over a connection.
    pub(crate) fn send(&mut self, now: Instant, id: Token, bytes: &[u8], size: usize) {
        let Some(link) = self.all.get_mut(&id) else { return };
        if let Err(over) = link.stream.send(bytes, size, &mut self.counters) {
            self.end(now, id, over);
        }
    }

    /// The accepted connection between `ends`.
    pub(crate) fn between(&self, ends: &PathAddr) -> Option<Token> {
        self.by_ends.get(&(*ends, None)).copied()
    }

    /// Where the accepted connection between `ends` came in.
    pub(crate) fn accepted_at(&self, ends: &PathAddr) -> Option<Carrier> {
        self.between(ends).and_then(|id| self.all.get(&id)?.at)
    }

    /// The ends of a connection, and what it is to paths if it was made here.
    pub(crate) fn ends(&self, id: Token) -> Option<(PathAddr, Option<Carrier>)> {
        self.all.get(&id).map(|link| (link.ends, link.by))
    }

    /// Whether an event of the poll is of something here.
    pub(crate) fn has(&self, token: Token) -> bool {
        let own = self.all.contains_key(&token) || self.listeners.contains_key(&token);
        own || self.passed.has(token)
    }

    /// Handles such an event. Connections that peers make are taken if they lead to one of the addresses `locals`.
    pub(crate) fn handle_event(&mut self, now: Instant, event: &Event, locals: &[IpAddr]) {
        let id = event.token();
        if self.passed.has(id) {
            return self.passed.handle_event(event);
        }
        let Some(link) = self.all.get_mut(&id) else { return self.accept(now, id, locals) };
        link.has_ended |= event.is_read_closed();
        if event.is_readable() || event.is_error() || event.is_read_closed() {
            self.unread.insert(id);
        }
        if event.is_writable() {
            let connected = link.stream.finish_connecting().map_err(|_| Over::Closed);
            if let Err(over) = connected.and_then(|()| link.stream.flush(&mut self.counters)) {
                self.end(now, id, over);
            }
        }
    }

    fn accept(&mut self, now: Instant, id: Token, locals: &[IpAddr]) {
        self.waiting.remove(&id);
        for _ in 0..ACCEPTS_PER_TURN {
            let Some((listener, at)) = self.listeners.get(&id) else { return };
            let at = *at;
            match listener.accept() {
                Ok((socket, peer)) => self.admit(now, socket, (&peer, at), locals),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // Another loop has ended it for all.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    let ended = self.listeners.remove(&id);
                    ended.iter().for_each(|(it, _)| self.watch.deregister(it.as_raw_fd()));
                    return;
                }
                // No descriptor or no memory.
                Err(_) => {
                    self.counters.carrier_accepts_failed += 1;
                    break;
                }
            }
        }
        // The others wait until the next look.
        self.waiting.insert(id);
        let soon = now + ACCEPT_PAUSE;
        self.look = Some(self.look.map_or(soon, |look| look.min(soon)));
    }

    /// Moves bytes of connections that are passed through.
    pub(crate) fn pass(&mut self, now: Instant) {
        self.passed.work(now, &self.watch, &mut self.counters);
    }

    /// The next connection with bytes to be read, which the caller reads.
    pub(crate) fn next_unread(&mut self) -> Option<Token> {
        let behind = (self.read.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let next = self.unread.range(behind).next().or_else(|| self.unread.first()).copied()?;
        self.unread.remove(&next);
        self.read = Some(next);
        Some(next)
    }

    /// Whether new associations are left to another process.
    pub(crate) const fn leaves(&self) -> bool {
        self.leaves
    }

    /// Whether a connection is no path of an association.
    pub(crate) fn is_unproven(&self, id: Token) -> bool {
        self.all.get(&id).is_some_and(|link| link.stream.proven.is_none())
    }

    /// Whether a turn has left work over.
    pub(crate) fn has_work(&self) -> bool {
        !self.over.is_empty() || !self.unread.is_empty() || self.passed.has_work()
    }

    /// Reads packets into `inbox`.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        id: Token,
        inbox: &mut Inbox,
        locals: &[IpAddr],
    ) -> Result<(), Over> {
        inbox.packets.clear();
        if !self.tell_apart(now, id, locals)? {
            return Ok(());
        }
        let Some(link) = self.all.get_mut(&id) else { return Ok(()) };
        let result = link.stream.receive(inbox);
        for packet in inbox.packets.iter_mut() {
            self.counters.packets_received += 1;
            self.counters.bytes_received += packet.len() as u64;
        }
        if result? {
            self.unread.insert(id);
        }
        // A proxy may have answered.
        link.stream.flush(&mut self.counters)
    }

    /// A packet has come over a connection: `proven` if that is a path of the packet's association, `known` if there is such
    /// an association. False if it was one too many.
    pub(crate) fn note_packet(
        &mut self,
        now: Instant,
        id: Token,
        proven: bool,
        known: bool,
    ) -> bool {
        let Some(link) = self.all.get_mut(&id) else { return false };
        if proven {
            link.stream.prove(now);
            link.by.map(|carrier| self.failed.remove(&(link.ends, carrier)));
        } else if link.stream.proven.is_none() && !known {
            link.stream.unproven_packets += 1;
        }
        link.stream.unproven_packets <= MAX_UNPROVEN_PACKETS
    }

    /// Ends a connection.
    pub(crate) fn end(&mut self, now: Instant, id: Token, over: Over) {
        let Some(link) = self.forget(id) else { return };
        self.counters.carrier_streams_foreign += u64::from(over == Over::Foreign);
        let (ends, by, failed) = (link.ends, link.by, link.stream.proven.is_none());
        if let Some(carrier) = by.filter(|_| failed) {
            self.note_failure(now, ends, carrier);
        }
        if !link.is_unknown {
            self.over.push(Ended { ends, by, failed });
        }
    }

    /// The connection is not one of those here any more.
    pub(crate) fn forget(&mut self, id: Token) -> Option<Link> {
        let link = self.all.remove(&id)?;
        self.by_ends.remove(&(link.ends, link.by));
        self.unread.remove(&id);
        self.watch.deregister(link.stream.fd());
        Some(link)
    }

    /// Connections that have ended since the last call.
    pub(crate) fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.over)
    }

    /// Ends what has lasted too long, and accepts what could not be accepted.
    pub(crate) fn look(&mut self, now: Instant, locals: &[IpAddr]) {
        let is_old = |link: &Link| match link.stream.proven {
            Some(proven) => now.since(proven) >= IDLE_LIFE,
            None if link.is_unknown => now.since(link.stream.begun) >= HELLO_LIFE,
            None => now.since(link.stream.begun) >= UNPROVEN_LIFE,
        };
        let old = self.all.iter().filter(|(_, link)| is_old(link)).map(|(id, _)| *id);
        for id in old.collect::<Vec<_>>() {
            self.counters.carrier_streams_expired += 1;
            self.end(now, id, Over::Closed);
        }
        self.passed.look(now, &self.watch, &mut self.counters);
        let is_idle = self.all.is_empty() && self.passed.is_empty();
        self.look = (!is_idle).then_some(now + LOOK);
        for id in self.waiting.clone() {
            self.accept(now, id, locals);
        }
    }

    /// When [`look`](Self::look) is due.
    pub(crate) const fn due(&self) -> Option<Instant> {
        self.look
    }

    /// A local address has gone: the connections from there are over.
    pub(crate) fn forget_local(&mut self, now: Instant, local: SocketAddr) {
        let from = |link: &Link| {
            let accepted = link.by.is_none() && link.ends.local.ip() == local.ip();
            accepted || link.ends.local == local
        };
        let gone = self.all.iter().filter(|(_, link)| from(link)).map(|(id, _)| *id);
        gone.collect::<Vec<_>>().into_iter().for_each(|id| self.end(now, id, Over::Closed));
    }
}

fn listener(addr: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Connections of before may still be waiting for their end.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::from(addr)).map_err(|error| explain_listen(&error, addr))?;
    socket.listen(BACKLOG).map_err(|error| explain_listen(&error, addr))?;
    Ok(socket)
}

/// Why no connections are accepted at a TCP port.
fn explain_listen(error: &io::Error, addr: SocketAddr) -> io::Error {
    let port = addr.port();
    let text = match error.raw_os_error() {
        Some(libc::EADDRINUSE) => format!(
            "TCP port {port} is in use by another program (`ss -ltnp sport = :{port}` shows which): stop that one or \
             choose another port"
        ),
        Some(libc::EACCES) => {
            format!("TCP port {port} needs root or CAP_NET_BIND_SERVICE (ports above 1023 do not)")
        }
        _ => format!("cannot listen at TCP port {port}: {error}"),
    };
    io::Error::new(error.kind(), text)
}

/// Begins a connection.
fn connect(local: IpAddr, remote: SocketAddr, device: Option<&str>) -> io::Result<Socket> {
    let local = SocketAddr::new(local, 0);
    let socket = Socket::new(Domain::for_address(local), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    if let Some(device) = device {
        socket.bind_device(Some(device.as_bytes()))?;
    }
    socket_option::choose_port_when_connecting(&socket)?;
    socket.bind(&SockAddr::from(local))?;
    match socket.connect(&SockAddr::from(remote)) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(socket),
        result => result.map(|()| socket),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(host: u32) -> PathAddr {
        let remote = SocketAddr::new(IpAddr::V4(host.into()), 443);
        PathAddr { local: "192.0.2.1:4000".parse().unwrap(), remote }
    }

    #[test]
    fn new_destinations_have_their_pause_whatever_has_failed_before() {
        let (mut streams, carrier) = (Streams::default(), Carrier::Tcp(443));
        let at = |secs| Instant::ZERO + Duration::from_secs(secs);
        for host in 0..2 * MAX_FAILED as u32 {
            streams.note_failure(at(0), ends(host), carrier);
            assert!(streams.failed.contains_key(&(ends(host), carrier)), "{host}");
        }
        assert_eq!(streams.failed.len(), MAX_FAILED);
        streams.note_failure(at(100), ends(0), carrier);
        assert_eq!(streams.failed.len(), 1, "the others are old");
    }
}
