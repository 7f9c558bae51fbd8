//! The client side: a program's connect, until it is a relay or has been sent elsewhere.
//!
//! ```text
//! Open ──▶ Direct                       unsuitable, remembered, at a limit: decided at once
//!      └─▶ Pending ──▶ Accepted(SCTP)    the flow was opened ──▶ Attach ──▶ relay
//!                  ├─▶ Failed(errno)     the peer tried the destination and failed
//!                  └─▶ SCTP not possible: blocking ──▶ Direct
//!                                         non-blocking ──▶ our own TCP connection ──▶ Accepted(TCP), Failed
//! ```
//!
//! A non-blocking connect cannot go back to the program's own socket once it is pending, so plain
//! TCP is raced against SCTP: it starts after a head start, at once when SCTP has failed, and is
//! used only when SCTP cannot be; the loser is closed.

use crate::association::{FlowUse, RelayId};
use crate::dial;
use crate::relay::Relay;
use crate::socket::Socket;
use crate::stack::Stack;
use crate::tcp_relay::TcpRelay;
use crate::timers::Timer;
use crate::token::Source;
use manypath_control::status::FallbackReason;
use manypath_control::{Reply, Transport};
use manypath_engine::{AssociationId, Duration};
use manypath_flow::{FlowId, Refusal};
use manypath_rules::{Options, Policy};
use mio::event::Event;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// How long the launcher may take to hand over a connection that it was told to complete.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);
/// The shortest silence that counts on an established association. It has other paths and
/// retransmits on them; a peer that really is gone is found out by other means as well.
const ESTABLISHED_SILENCE: Duration = Duration::from_secs(1);

/// Names a program's connect. Never used again; the relay that comes of it has the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct AttemptId(pub(crate) u64);

/// Who asked: a control connection and its name for the connect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Client {
    pub(crate) control: u64,
    pub(crate) id: u64,
}

/// What a launcher asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) destination: SocketAddr,
    pub(crate) source: Option<SocketAddr>,
    pub(crate) blocking: bool,
}

/// How far SCTP is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sctp {
    /// The flow is being opened. `received` is the number of packets that the peer had sent us
    /// before: any more of them show that it is alive.
    Opening { association: AssociationId, flow: FlowId, received: u64 },
    /// The launcher was told; its `Attach` is awaited.
    Opened { association: AssociationId, flow: FlowId },
    /// It cannot be, and plain TCP is to be used.
    Failed,
}

/// How far plain TCP is.
#[derive(Debug)]
enum Tcp {
    NotStarted,
    Connecting(Socket),
    Connected(Socket),
    /// The launcher was told that this connection is used; its `Attach` is awaited.
    Promised(Socket),
    Failed(i32),
}

#[derive(Debug)]
pub(crate) struct Attempt {
    client: Client,
    open: Open,
    options: Options,
    sctp: Sctp,
    tcp: Tcp,
}

impl Stack {
    /// A launcher asks for a connection.
    pub(crate) fn on_open(&mut self, client: Client, open: Open) {
        let (policy, options) = self.rules.connect(open.destination);
        let begun = match policy {
            Policy::Enable => self.begin(client, open, options),
            Policy::Disable => Err(FallbackReason::Rule),
        };
        match begun {
            Ok(()) => self.reply(client.control, Reply::Pending { id: client.id }),
            Err(reason) if sctp_only(&options) && !is_for_the_kernel(reason) => {
                self.refuse_open(client, open.destination, reason);
            }
            Err(reason) => self.go_direct(client, open.destination, reason),
        }
    }

    fn begin(
        &mut self,
        client: Client,
        open: Open,
        options: Options,
    ) -> Result<(), FallbackReason> {
        let destination = open.destination;
        self.check_suitable(&open)?;
        let remembered = self.peers.lookup(self.now, destination);
        // Without a fallback the peer is asked again each time.
        if let Some(reason) = remembered.filter(|_| !sctp_only(&options)) {
            self.log.verbose(format_args!("{destination}: remembered: {reason}"));
            return Err(FallbackReason::Remembered);
        }
        let association = self.association_for(destination)?;
        let flow = self.open_flow(association, &open)?;
        let id = AttemptId(self.next_id());
        let received = self.packets_received(association);
        let sctp = Sctp::Opening { association, flow, received };
        self.attempts.insert(id, Attempt { client, open, options, sctp, tcp: Tcp::NotStarted });
        self.set_flow_use(association, flow, FlowUse::Attempt(id));
        self.control.remember(client, id);
        let alone = open.blocking || sctp_only(&options);
        self.start_clocks(id, association, alone);
        Ok(())
    }

    fn check_suitable(&self, open: &Open) -> Result<(), FallbackReason> {
        let destination = open.destination.ip();
        if !self.phase.takes_work() {
            return Err(FallbackReason::Busy);
        }
        if destination.is_loopback() && !self.config.loopback_paths {
            return Err(FallbackReason::Loopback);
        }
        if !is_unicast(destination) || open.destination.port() == 0 {
            return Err(FallbackReason::NotUnicast);
        }
        if self.locals.is_own(destination) {
            return Err(FallbackReason::LocalAddress);
        }
        let source = open.source.map(|source| source.ip()).filter(|ip| !ip.is_unspecified());
        if !self.locals.has_family_of(destination)
            || source.is_some_and(|ip| !self.locals.is_own(ip))
        {
            return Err(FallbackReason::NoLocalAddress);
        }
        Ok(())
    }

    fn open_flow(&mut self, id: AssociationId, open: &Open) -> Result<FlowId, FallbackReason> {
        let association = self.associations.get_mut(&id).ok_or(FallbackReason::AssociationLost)?;
        let source = open.source.unwrap_or_else(|| unspecified_like(open.destination));
        let opened = association.mux.open(open.destination, source);
        self.dirty.insert(id);
        opened.map_err(|error| {
            self.log.warn(format_args!("association {}: {error}", id.0));
            FallbackReason::Busy
        })
    }

    /// `alone`: plain TCP is not tried beside it.
    fn start_clocks(&mut self, id: AttemptId, association: AssociationId, alone: bool) {
        let patience = match self.is_established(association) {
            true => self.config.fallback_timeout.max(ESTABLISHED_SILENCE),
            false => self.config.fallback_timeout,
        };
        self.timers.set(self.now + patience, Timer::Fallback(id));
        if !alone {
            let head_start = self.config.tcp_head_start.min(patience);
            self.timers.set(self.now + head_start, Timer::HeadStart(id));
        }
    }

    /// Tells the launcher to use plain TCP on the program's own socket.
    fn go_direct(&mut self, client: Client, destination: SocketAddr, reason: FallbackReason) {
        self.note_fallback(destination, reason);
        self.reply(client.control, Reply::Direct { id: client.id, reason });
    }

    /// Tells the launcher that the destination cannot be reached, because only SCTP may be used.
    fn refuse_open(&mut self, client: Client, destination: SocketAddr, reason: FallbackReason) {
        self.counters.count("opens_without_fallback");
        self.log.verbose(format_args!("{destination}: {reason}, and only SCTP may be used"));
        let errno = errno_of(reason);
        self.reply(client.control, Reply::Failed { id: client.id, errno });
    }

    fn note_fallback(&mut self, destination: SocketAddr, reason: FallbackReason) {
        self.counters.count_fallback(reason);
        self.log.verbose(format_args!("{destination}: plain TCP: {reason}"));
    }

    // ---- SCTP ----

    /// The peer has accepted the flow.
    pub(crate) fn on_opened(&mut self, association: AssociationId, flow: FlowId) {
        let Some(FlowUse::Attempt(id)) = self.flow_use(association, flow) else { return };
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        attempt.sctp = Sctp::Opened { association, flow };
        let tcp = std::mem::replace(&mut attempt.tcp, Tcp::NotStarted);
        let (client, open) = (attempt.client, attempt.open);
        self.drop_tcp(tcp);
        let local = self.local_name(association, &open);
        self.log.verbose(format_args!("{}: over association {}", open.destination, association.0));
        self.promise(id, client, Transport::Sctp, local, open.destination);
    }

    fn promise(
        &mut self,
        attempt: AttemptId,
        client: Client,
        transport: Transport,
        local: SocketAddr,
        peer: SocketAddr,
    ) {
        self.timers.set(self.now + ATTACH_TIMEOUT, Timer::Attach(attempt));
        self.reply(client.control, Reply::Accepted { id: client.id, transport, local, peer });
    }

    /// What the program shall see as its own address: the one of the path to the destination. The
    /// port is the program's if it chose one; 0 leaves it to the launcher.
    fn local_name(&self, association: AssociationId, open: &Open) -> SocketAddr {
        let port = open.source.map_or(0, |source| source.port());
        let bound = open.source.map(|source| source.ip()).filter(|ip| !ip.is_unspecified());
        let ip = bound.or_else(|| self.local_towards(association, open.destination.ip()));
        SocketAddr::new(ip.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), port)
    }

    fn local_towards(&self, association: AssociationId, remote: IpAddr) -> Option<IpAddr> {
        let paths = self.driver.endpoint().status(self.now, association)?.paths;
        let direct = paths.iter().find(|path| path.addr.remote.ip() == remote);
        let path = direct.or_else(|| paths.iter().find(|path| path.primary))?;
        Some(path.addr.local.ip())
    }

    /// The peer has refused the flow.
    pub(crate) fn on_refused(&mut self, association: AssociationId, flow: FlowId, why: Refusal) {
        let Some(FlowUse::Attempt(id)) = self.flow_use(association, flow) else { return };
        self.set_flow_use(association, flow, FlowUse::Closing);
        let Some(attempt) = self.attempts.get(&id) else { return };
        let destination = attempt.open.destination;
        match why {
            Refusal::Errno(errno) => self.fail(id, i32::from(errno)),
            Refusal::NotAllowed => {
                let reason = FallbackReason::NotAllowed;
                self.peers.remember_service(self.now, destination, reason);
                self.give_up_sctp(id, reason);
            }
            Refusal::Busy | Refusal::NoStream | Refusal::Other(_) => {
                self.give_up_sctp(id, FallbackReason::Busy);
            }
        }
    }

    /// The association of the flow has ended.
    pub(crate) fn on_attempt_flow_lost(&mut self, id: AttemptId, reason: FallbackReason) {
        match self.attempts.get(&id).map(|attempt| attempt.sctp) {
            Some(Sctp::Opening { .. }) => self.give_up_sctp(id, reason),
            // The program was told that it is connected: it sees the connection break.
            Some(Sctp::Opened { .. }) => self.fail(id, libc::ECONNRESET),
            Some(Sctp::Failed) | None => {}
        }
    }

    /// The peer has reset the flow that was to be used.
    pub(crate) fn on_attempt_flow_reset(&mut self, id: AttemptId) {
        self.on_attempt_flow_lost(id, FallbackReason::AssociationLost);
    }

    /// SCTP cannot be used for the connect: plain TCP it is.
    fn give_up_sctp(&mut self, id: AttemptId, reason: FallbackReason) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if attempt.sctp == Sctp::Failed {
            return;
        }
        attempt.sctp = Sctp::Failed;
        let (client, open) = (attempt.client, attempt.open);
        if sctp_only(&attempt.options) {
            self.log
                .verbose(format_args!("{}: {reason}, and only SCTP may be used", open.destination));
            self.counters.count("opens_without_fallback");
            self.fail(id, errno_of(reason));
        } else if open.blocking {
            self.forget_attempt(id);
            self.go_direct(client, open.destination, reason);
        } else {
            self.note_fallback(open.destination, reason);
            self.start_tcp(id);
            self.settle_race(id);
        }
    }

    pub(crate) fn on_fallback_timer(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        let Sctp::Opening { association, flow, received } = attempt.sctp else { return };
        if self.packets_received(association) > received {
            return;
        }
        // An established association is judged by its own failure detection.
        if !self.is_established(association) {
            let peer = attempt.open.destination.ip();
            self.peers.remember_peer(self.now, peer, FallbackReason::Silent);
        }
        self.reset_flow(association, flow);
        self.give_up_sctp(id, FallbackReason::Silent);
    }

    // ---- plain TCP beside it ----

    pub(crate) fn on_head_start_timer(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        if let Sctp::Opening { association, received, .. } = attempt.sctp {
            // A peer that has answered decides alone: no useless connection to its service.
            if self.packets_received(association) > received {
                return;
            }
            self.start_tcp(id);
        }
    }

    fn start_tcp(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if !matches!(attempt.tcp, Tcp::NotStarted) {
            return;
        }
        let token = Source::Far(id.0).token();
        let socket = connect_from(attempt.open.source, attempt.open.destination)
            .and_then(|fd| Socket::new(fd, &self.registry, token));
        attempt.tcp = match socket {
            Ok(socket) => Tcp::Connecting(socket),
            Err(error) => Tcp::Failed(errno(&error)),
        };
    }

    pub(crate) fn on_race_event(&mut self, id: u64, event: &Event) {
        let id = AttemptId(id);
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        match std::mem::replace(&mut attempt.tcp, Tcp::NotStarted) {
            Tcp::Connecting(mut socket) => {
                socket.on_event(event);
                match socket.is_connected() {
                    Ok(true) => attempt.tcp = Tcp::Connected(socket),
                    Ok(false) => attempt.tcp = Tcp::Connecting(socket),
                    Err(error) => {
                        attempt.tcp = Tcp::Failed(errno(&error));
                        socket.reset(&self.registry);
                    }
                }
                self.settle_race(id);
            }
            Tcp::Connected(mut socket) => {
                socket.on_event(event);
                attempt.tcp = Tcp::Connected(socket);
            }
            Tcp::Promised(mut socket) => {
                socket.on_event(event);
                attempt.tcp = Tcp::Promised(socket);
            }
            other @ (Tcp::NotStarted | Tcp::Failed(_)) => attempt.tcp = other,
        }
    }

    /// Uses the outcome of plain TCP, once SCTP has failed.
    fn settle_race(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if attempt.sctp != Sctp::Failed {
            return;
        }
        match std::mem::replace(&mut attempt.tcp, Tcp::NotStarted) {
            Tcp::Connected(socket) => {
                let (client, peer) = (attempt.client, attempt.open.destination);
                let local = socket.local_addr().unwrap_or_else(|_| unspecified_like(peer));
                attempt.tcp = Tcp::Promised(socket);
                self.promise(id, client, Transport::TcpRelay, local, peer);
            }
            Tcp::Failed(errno) => self.fail(id, errno),
            other @ (Tcp::NotStarted | Tcp::Connecting(_) | Tcp::Promised(_)) => {
                attempt.tcp = other;
            }
        }
    }

    fn drop_tcp(&mut self, tcp: Tcp) {
        match tcp {
            Tcp::Connecting(socket) => socket.reset(&self.registry),
            Tcp::Connected(socket) | Tcp::Promised(socket) => {
                self.counters.count("tcp_races_lost");
                socket.close(&self.registry);
            }
            Tcp::NotStarted | Tcp::Failed(_) => {}
        }
    }

    // ---- the end of an attempt ----

    /// The launcher hands over the program's connection.
    pub(crate) fn on_attach(&mut self, client: Client, fd: OwnedFd) {
        let Some(id) = self.control.attempt(client) else {
            return self.counters.count("attaches_too_late");
        };
        let Some(attempt) = self.attempts.remove(&id) else { return };
        if let Err(error) = self.attach(id, attempt, fd) {
            self.counters.count("attaches_failed");
            self.log.warn(format_args!("a connection could not be taken over: {error}"));
            self.report_closed(RelayId(id.0));
        }
    }

    fn attach(&mut self, id: AttemptId, attempt: Attempt, fd: OwnedFd) -> io::Result<()> {
        let relay = RelayId(id.0);
        match (attempt.sctp, attempt.tcp) {
            (Sctp::Opened { association, flow }, _) => {
                let token = Source::Relay(relay.0).token();
                let socket = Socket::new(fd, &self.registry, token)
                    .inspect_err(|_| self.reset_flow(association, flow))?;
                let joined = Relay::new(association, flow, socket).with(&attempt.options);
                self.start_relay(relay, joined);
            }
            (_, Tcp::Promised(far)) => {
                let near = Socket::new(fd, &self.registry, Source::Near(relay.0).token())?;
                self.tcp_relays.insert(relay, TcpRelay::new(near, far));
                self.counters.count("tcp_relays_started");
                self.ready.insert(relay);
            }
            (Sctp::Opening { association, flow, .. }, tcp) => {
                self.drop_tcp(tcp);
                self.reset_flow(association, flow);
                return Err(io::Error::other("it was not promised"));
            }
            (Sctp::Failed, tcp) => {
                self.drop_tcp(tcp);
                return Err(io::Error::other("it was not promised"));
            }
        }
        Ok(())
    }

    /// Neither the program nor its launcher waits for the connect any more.
    pub(crate) fn cancel_attempt(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        if let Sctp::Opening { association, flow, .. } | Sctp::Opened { association, flow } =
            attempt.sctp
        {
            self.reset_flow(association, flow);
        }
        self.counters.count("opens_cancelled");
        self.forget_attempt(id);
    }

    pub(crate) fn on_attach_timer(&mut self, id: AttemptId) {
        if self.attempts.contains_key(&id) {
            self.counters.count("attaches_missed");
            self.cancel_attempt(id);
        }
    }

    /// The destination cannot be reached: this is final.
    fn fail(&mut self, id: AttemptId, errno: i32) {
        let Some(client) = self.attempts.get(&id).map(|attempt| attempt.client) else { return };
        self.counters.count("opens_failed");
        self.forget_attempt(id);
        self.reply(client.control, Reply::Failed { id: client.id, errno });
    }

    fn forget_attempt(&mut self, id: AttemptId) {
        if let Some(attempt) = self.attempts.remove(&id) {
            self.control.forget(attempt.client);
            self.drop_tcp(attempt.tcp);
        }
    }

    /// Tells the launcher that a relay of its is over.
    pub(crate) fn report_closed(&mut self, relay: RelayId) {
        if let Some(client) = self.control.client_of(AttemptId(relay.0)) {
            self.control.forget(client);
            self.reply(client.control, Reply::Closed { id: client.id });
        }
    }

    pub(crate) fn on_timer(&mut self, timer: Timer) {
        match timer {
            Timer::HeadStart(id) => self.on_head_start_timer(id),
            Timer::Fallback(id) => self.on_fallback_timer(id),
            Timer::Attach(id) => self.on_attach_timer(id),
            Timer::Idle(id) => self.on_idle_timer(id),
            Timer::Rescan => self.on_rescan_timer(),
            Timer::Presence(id) => self.on_presence_timer(id),
            Timer::Drain => self.on_drain_timer(),
        }
    }
}

fn sctp_only(options: &Options) -> bool {
    options.sctp_only == Some(true)
}

/// Connections that are never carried, whatever the rules say.
fn is_for_the_kernel(reason: FallbackReason) -> bool {
    use FallbackReason as R;
    matches!(reason, R::Rule | R::Loopback | R::LocalAddress | R::NotUnicast)
}

/// What a program hears that must not fall back to TCP: as near to the truth as connect() can be.
fn errno_of(reason: FallbackReason) -> i32 {
    use FallbackReason as R;
    match reason {
        R::Silent => libc::ETIMEDOUT,
        R::Refused | R::NotManypath | R::NotAllowed | R::Remembered => libc::ECONNREFUSED,
        R::NoLocalAddress => libc::ENETUNREACH,
        R::AssociationLost | R::Busy => libc::EHOSTUNREACH,
        R::Rule | R::Loopback | R::LocalAddress | R::NotUnicast => libc::EACCES,
    }
}

/// Connects from the address that the program chose, and from its port unless the program's own
/// socket occupies it.
fn connect_from(source: Option<SocketAddr>, to: SocketAddr) -> io::Result<OwnedFd> {
    match dial::connect(source, to) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            dial::connect(source.map(|source| SocketAddr::new(source.ip(), 0)), to)
        }
        result => result,
    }
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

fn is_unicast(addr: IpAddr) -> bool {
    let broadcast = addr == IpAddr::V4(Ipv4Addr::BROADCAST);
    !(addr.is_unspecified() || addr.is_multicast() || broadcast)
}

/// The unspecified address of the same family.
fn unspecified_like(addr: SocketAddr) -> SocketAddr {
    match addr {
        SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0u16; 8], 0)),
    }
}
