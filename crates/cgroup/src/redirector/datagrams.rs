//! Datagrams of the programs, taken from their sockets: to the stack, or on their way after all.
//!
//! The first ones of a flow wait here until the stack has asked the peer. What is carried goes to the stack
//! over one line; its answers come to the program by a socket that has the peer's address.

use super::Redirector;
use crate::datagram::{Datagram, News};
use crate::kernel::Ring;
use crate::plain::{Sinks, answers, send_plain};
use crate::report::DatagramReport;
use libc::pollfd;
use manypath_control::Request;
use manypath_control::status::FallbackReason;
use manypath_gate::egress::unspecified;
use manypath_gate::poll::interest;
use manypath_gate::socket::set_int;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

/// Most bytes, and most pieces, of a flow that wait for the stack's answer.
const MOST_BYTES: usize = 256 << 10;
const MOST_WAITING: usize = 256;
/// How long a destination that is not carried is left alone without asking again.
const PLAIN: Duration = Duration::from_secs(1);
/// Bytes that may be on their way to the stack.
const LINE_BUFFER: i32 = 8 << 20;

/// The datagrams of one socket to one destination.
#[derive(Debug)]
struct Flow {
    /// Its identity towards the stack.
    id: u64,
    /// The address of the program's socket.
    source: SocketAddr,
    /// What it is connected to in place of the peer.
    sink: Option<SocketAddr>,
    phase: Phase,
    /// What waits for the stack's answer.
    waiting: VecDeque<Datagram>,
    /// The socket is closed.
    gone: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The stack was asked and has not answered.
    Asking {
        until: Instant,
    },
    /// The stack is asking the peer.
    Deciding,
    Carried,
}

/// A socket's identity and a destination.
pub(super) type Key = (u64, SocketAddr);

/// All datagrams of the programs.
#[derive(Debug)]
pub(super) struct Datagrams {
    ring: Ring,
    /// Our end of the line to the stack, once there is anything to carry.
    line: Option<UnixDatagram>,
    sinks: Option<Sinks>,
    flows: BTreeMap<Key, Flow>,
    keys: BTreeMap<u64, Key>,
    pub(super) report: DatagramReport,
}

impl Datagrams {
    pub(super) fn new(ring: Ring) -> Self {
        let (line, sinks, flows, keys, report) = Default::default();
        Self { ring, line, sinks, flows, keys, report }
    }

    pub(super) fn interest(&self) -> pollfd {
        interest(self.ring.as_fd().as_raw_fd())
    }

    /// When the stack must have answered.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let asking = self.flows.values().filter_map(|flow| match flow.phase {
            Phase::Asking { until } => Some(until),
            Phase::Deciding | Phase::Carried => None,
        });
        asking.min()
    }

    /// Whether none are carried, nor may be soon.
    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    fn take(&mut self, id: u64) -> Option<(Key, Flow)> {
        let key = self.keys.remove(&id)?;
        Some((key, self.flows.remove(&key)?))
    }

    fn by_id(&mut self, id: u64) -> Option<&mut Flow> {
        self.flows.get_mut(self.keys.get(&id)?)
    }

    /// Keeps it until the stack has answered; the oldest give way.
    fn keep(&mut self, key: Key, datagram: Datagram) {
        let Some(flow) = self.flows.get_mut(&key) else { return };
        flow.waiting.push_back(datagram);
        let bytes = |flow: &Flow| flow.waiting.iter().map(Datagram::len).sum::<usize>();
        while flow.waiting.len() > MOST_WAITING || bytes(flow) > MOST_BYTES {
            let dropped = flow.waiting.pop_front();
            self.report.dropped += dropped.map_or(0, |one| one.pieces().count() as u64);
        }
    }

    /// Hands a datagram to the stack. False when there is none any more.
    fn forward(&mut self, id: u64, datagram: &Datagram) -> bool {
        let Some(line) = &self.line else { return false };
        let (line, id) = (socket2::SockRef::from(line), id.to_le_bytes());
        for piece in datagram.pieces() {
            match line.send_vectored(&[IoSlice::new(&id), IoSlice::new(piece)]) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.report.dropped += 1,
                Err(_) => return false,
            }
        }
        true
    }

    fn of_socket(&self, cookie: u64) -> Vec<Key> {
        let least = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        self.flows.range((cookie, least)..(cookie + 1, least)).map(|(key, _)| *key).collect()
    }
}

impl Redirector {
    /// Takes what the kernel has told since the last time.
    pub(super) fn handle_datagrams(&mut self) {
        let mut news = Vec::new();
        self.datagrams.ring.read(|bytes| news.extend(News::parse(bytes)));
        for one in news {
            match one {
                News::Datagram(datagram) => self.on_datagram(datagram),
                News::Gone(cookie) => self.on_gone(cookie),
            }
        }
    }

    fn on_datagram(&mut self, datagram: Datagram) {
        let key = (datagram.cookie, datagram.peer);
        if let Some(sink) = datagram.sink.filter(|_| self.detours.contains(key)) {
            return self.detour(sink, &datagram);
        }
        let known = self.datagrams.flows.get(&key).map(|flow| (flow.id, flow.phase, flow.source));
        match known {
            Some((id, Phase::Carried, source)) => {
                if source != datagram.source && !self.join(key, datagram.source) {
                    self.give_datagrams_up(id, "no-socket");
                    return self.let_go(&datagram);
                }
                self.forward(key, id, &datagram);
            }
            Some(_) => self.datagrams.keep(key, datagram),
            None => self.ask(key, datagram),
        }
    }

    /// The stack may have ended a moment ago.
    fn forward(&mut self, key: Key, id: u64, datagram: &Datagram) {
        if !self.datagrams.forward(id, datagram) {
            self.tables.leave_flow(key.0, key.1);
            self.let_go(datagram);
        }
    }

    fn ask(&mut self, key: Key, datagram: Datagram) {
        if !self.may_send(&datagram) {
            // The kernel drops what follows; this one would have been dropped, too.
            self.tables.leave_flow(key.0, key.1);
            *self.datagrams.report.left.entry("egress-policy".into()).or_default() += 1;
            return;
        }
        if !self.stack.is_usable() || self.silent_since.is_some() || !self.has_line() {
            return self.let_go(&datagram);
        }
        let id = self.connections.next_id();
        let mut source = datagram.source;
        if !datagram.bound {
            source.set_ip(unspecified(datagram.peer.ip()));
        }
        self.stack.send(Request::OpenDatagrams { id, destination: key.1, source }, None);
        self.datagrams.report.asked += 1;
        let phase = Phase::Asking { until: Instant::now() + self.options.answer_limit };
        let (waiting, gone) = (VecDeque::new(), false);
        let (source, sink) = (datagram.source, datagram.sink);
        let flow = Flow { id, source, sink, phase, waiting, gone };
        self.datagrams.keys.insert(id, key);
        self.datagrams.flows.insert(key, flow);
        self.datagrams.keep(key, datagram);
    }

    /// Makes the line when it is needed first.
    fn has_line(&mut self) -> bool {
        if self.datagrams.line.is_none() {
            let made = UnixDatagram::pair().and_then(|(ours, theirs)| {
                ours.set_nonblocking(true)?;
                let name = libc::SO_SNDBUFFORCE;
                set_int(ours.as_fd(), libc::SOL_SOCKET, name, LINE_BUFFER)?;
                Ok((ours, theirs))
            });
            match made {
                Ok((ours, theirs)) => {
                    self.stack.send(Request::DatagramLine, Some(OwnedFd::from(theirs)));
                    self.datagrams.line = Some(ours);
                }
                Err(error) => (self.options.notice)(&format!("datagrams stay plain UDP: {error}")),
            }
        }
        self.datagrams.line.is_some()
    }

    /// The stack is asking the peer. True if these were datagrams.
    pub(super) fn on_datagrams_pending(&mut self, id: u64) -> bool {
        let flow = self.datagrams.by_id(id);
        flow.map(|flow| flow.phase = Phase::Deciding).is_some()
    }

    /// The peer takes them. True if these were datagrams.
    pub(super) fn on_datagrams_accepted(&mut self, id: u64) -> bool {
        let Some(key) = self.datagrams.keys.get(&id).copied() else { return false };
        let Some(flow) = self.datagrams.flows.get_mut(&key) else { return false };
        flow.phase = Phase::Carried;
        let (source, gone) = (flow.source, flow.gone);
        let waiting = std::mem::take(&mut flow.waiting);
        if !self.join(key, source) {
            waiting.iter().for_each(|datagram| self.let_go(datagram));
            return self.give_datagrams_up(id, "no-socket");
        }
        self.datagrams.report.sctp += 1;
        waiting.iter().for_each(|datagram| self.forward(key, id, datagram));
        if gone {
            self.cancel(id);
        }
        true
    }

    /// Gives the stack a socket for what comes to the program.
    fn join(&mut self, key: Key, source: SocketAddr) -> bool {
        let Some(flow) = self.datagrams.flows.get_mut(&key) else { return false };
        let Ok(socket) = answers(flow.sink.unwrap_or(key.1), source) else { return false };
        flow.source = source;
        let (id, inode, connected) = (flow.id, None, true);
        let attach = Request::AttachDatagrams { id, program: source, inode, connected };
        self.stack.send(attach, Some(socket.into()));
        true
    }

    /// The stack does not carry them. True if these were datagrams.
    pub(super) fn on_datagrams_direct(&mut self, id: u64, reason: FallbackReason) -> bool {
        let Some((key, flow)) = self.datagrams.take(id) else { return false };
        *self.datagrams.report.left.entry(reason.name().into()).or_default() += 1;
        self.tables.leave_flow(key.0, key.1);
        self.tables.add_plain_datagrams(key.1, PLAIN);
        flow.waiting.iter().for_each(|datagram| self.let_go(datagram));
        true
    }

    /// They are not carried any more. True if these were datagrams.
    pub(super) fn give_datagrams_up(&mut self, id: u64, why: &'static str) -> bool {
        let Some((key, flow)) = self.datagrams.take(id) else { return false };
        self.stack.send(Request::Cancel { id }, None);
        self.tables.leave_flow(key.0, key.1);
        self.datagrams.report.given_up += 1;
        *self.datagrams.report.left.entry(why.into()).or_default() += 1;
        flow.waiting.iter().for_each(|datagram| self.let_go(datagram));
        true
    }

    /// They were idle, or must not be plain UDP: the next one asks again. True if these were datagrams.
    pub(super) fn on_datagrams_over(&mut self, id: u64) -> bool {
        let Some(((cookie, peer), flow)) = self.datagrams.take(id) else { return false };
        self.tables.forget_flow(cookie, peer);
        self.lose(flow.waiting.len() as u64);
        true
    }

    /// Nobody listens at the destination.
    pub(super) fn on_datagrams_unreachable(&mut self, id: u64) {
        let Some(flow) = self.datagrams.by_id(id) else { return };
        let (source, sink) = (flow.source, flow.sink);
        let Some((_, peer)) = self.datagrams.keys.get(&id).copied() else { return };
        if let Err(error) = self.refuser.unreachable(source, sink.unwrap_or(peer)) {
            (self.options.notice)(&format!("datagrams to {peer} are not told refused: {error}"));
        }
    }

    /// Sends what was taken on its way as it would have gone.
    fn let_go(&mut self, datagram: &Datagram) {
        match datagram.sink {
            Some(sink) => self.detour(sink, datagram),
            None if send_plain(datagram).is_err() => self.lose(1),
            None => {}
        }
    }

    /// Counts datagrams that were lost here.
    pub(super) fn lose(&mut self, count: u64) {
        self.datagrams.report.dropped += count;
    }

    /// The program has closed a socket; what it has sent is still carried.
    fn on_gone(&mut self, cookie: u64) {
        self.detours.remove_socket(cookie);
        for key in self.datagrams.of_socket(cookie) {
            let Some(flow) = self.datagrams.flows.get_mut(&key) else { continue };
            flow.gone = true;
            let (id, phase) = (flow.id, flow.phase);
            if phase == Phase::Carried {
                self.cancel(id);
            }
        }
    }

    fn cancel(&mut self, id: u64) {
        self.datagrams.take(id);
        self.stack.send(Request::Cancel { id }, None);
    }

    /// Lets the programs for datagrams work as the rules say.
    pub(super) fn adopt_datagram_rules(&mut self) {
        let wanted = self.tables.carries_datagrams() && self.can_take_datagrams();
        self.group.want_datagrams(wanted);
        match wanted {
            true => self.open_sinks(),
            false => self.end_datagrams(),
        }
        if self.group.is_attached()
            && let Err(error) = self.group.attach(&self.programs)
        {
            (self.options.notice)(&format!("datagrams stay plain UDP: {error}"));
        }
    }

    /// Without a sink sockets that ask for errors are left alone.
    fn open_sinks(&mut self) {
        if self.datagrams.sinks.is_none()
            && let Ok(sinks) = Sinks::new()
            && self.tables.set_sinks(sinks.ports()).is_ok()
        {
            self.datagrams.sinks = Some(sinks);
        }
    }

    /// Older kernels cannot.
    fn can_take_datagrams(&self) -> bool {
        let missing = self.programs.missing();
        if let Some(error) = missing {
            (self.options.notice)(&format!("datagrams stay plain UDP: {error}"));
        }
        missing.is_none()
    }

    /// Nothing is carried any more; what waits goes as plain UDP.
    pub(super) fn let_all_go(&mut self) {
        for id in self.datagrams.keys.keys().copied().collect::<Vec<_>>() {
            self.stack.send(Request::Cancel { id }, None);
            let Some((_, flow)) = self.datagrams.take(id) else { continue };
            flow.waiting.iter().for_each(|datagram| self.let_go(datagram));
        }
        self.tables.forget_flows();
    }

    /// The sockets are the kernel's own again.
    pub(super) fn end_datagrams(&mut self) {
        self.group.want_datagrams(false);
        let _ = self.tables.set_sinks([0, 0]);
        self.handle_datagrams();
        self.let_all_go();
        // Whoever is still connected to a sink is told that nobody is there.
        self.detours.clear();
        self.datagrams.sinks = None;
    }

    /// What became of them.
    pub(super) fn datagram_report(&self) -> DatagramReport {
        let mut report = self.datagrams.report.clone();
        let mut counts = self.tables.datagram_counts();
        counts.remove("carried");
        report.dropped += counts.remove("events-lost").unwrap_or(0);
        for (reason, count) in counts {
            *report.left.entry(reason).or_default() += count;
        }
        report
    }
}
