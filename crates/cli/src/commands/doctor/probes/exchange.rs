//! Questions to the peer, many at a time: each is asked again a few times until something is known.

use super::capture::Capture;
use super::init::{Answer, answer, question};
use super::uplinks::Uplink;
use manypath_engine::Ecn;
use manypath_net::{LocalBinding, Probes, ReportKind};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// When a question is asked, from the first time on.
const TIMES: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(300), Duration::from_millis(700)];
/// When it is given up.
const LIMIT: Duration = Duration::from_millis(1300);
/// The longest pause between two looks at what a capture has seen.
const TURN: Duration = Duration::from_millis(50);
/// Bytes of IP and UDP headers.
const IPV4_HEADERS: u16 = 28;
const IPV6_HEADERS: u16 = 48;

/// How a question is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// As small as it is.
    Plain,
    /// Marked as ECN-capable (ECT(0)).
    EcnCapable,
    /// As an IP packet of so many bytes.
    Sized(u16),
    /// As two packets that the kernel cuts from one.
    Run,
}

/// What is known about a question.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Nothing.
    Silent,
    /// It was answered.
    Answered(Duration, Box<Answer>),
    /// The network has said something.
    Said(ReportKind),
    /// It could not be sent.
    Refused(io::Error),
}

/// A question.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) socket: usize,
    pub(super) remote: SocketAddr,
    pub(super) form: Form,
    pub(super) outcome: Outcome,
    /// An answer was seen to arrive at this host.
    pub(super) seen: bool,
    tag: u32,
    sends: usize,
    sent: Option<Instant>,
}

impl Ask {
    pub(super) fn new(socket: usize, remote: SocketAddr, form: Form) -> Self {
        let (outcome, seen, sends, sent) = (Outcome::Silent, false, 0, None);
        Self { socket, remote, form, outcome, seen, tag: tag(), sends, sent }
    }

    pub(super) const fn is_answered(&self) -> bool {
        matches!(self.outcome, Outcome::Answered(..))
    }

    const fn is_open(&self) -> bool {
        matches!(self.outcome, Outcome::Silent)
    }

    fn packet(&self, source_port: u16, keys: bool) -> Vec<u8> {
        let size = match self.form {
            Form::Sized(size) => size - headers(self.remote),
            Form::Plain | Form::EcnCapable | Form::Run => 0,
        };
        question(self.tag, source_port, usize::from(size), keys)
    }
}

/// A random Initiate Tag, which is never 0.
pub(super) fn tag() -> u32 {
    let mut bytes = [0; 4];
    // Without randomness the clock has to do: the tag only tells answers apart.
    if getrandom::fill(&mut bytes).is_err() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        bytes = now.unwrap_or_default().subsec_nanos().to_be_bytes();
    }
    u32::from_be_bytes(bytes).max(1)
}

/// Bytes of headers before SCTP.
pub(super) fn headers(remote: SocketAddr) -> u16 {
    if remote.is_ipv4() { IPV4_HEADERS } else { IPV6_HEADERS }
}

/// Sockets, and what comes to them.
#[derive(Debug)]
pub(super) struct Asker {
    pub(super) probes: Probes,
    /// Questions offer encryption: those who require it answer no others.
    keys: bool,
    capture: Option<Capture>,
    poll: Poll,
    events: Events,
}

impl Asker {
    /// Without any socket yet. `keys`: questions offer encryption.
    pub(super) fn new(keys: bool) -> io::Result<Self> {
        let (probes, capture) = (Probes::default(), Capture::open());
        Ok(Self { probes, keys, capture, poll: Poll::new()?, events: Events::with_capacity(64) })
    }

    /// Opens a socket at an address of this host; returns its number.
    pub(super) fn open(&mut self, uplink: &Uplink) -> io::Result<usize> {
        let socket = self.probes.open(&LocalBinding::from(&uplink.interface))?;
        let descriptor = self.probes.descriptor(socket);
        let registry = self.poll.registry();
        registry.register(&mut SourceFd(&descriptor), Token(socket), Interest::READABLE)?;
        Ok(socket)
    }

    /// Whether it is seen what arrives at this host.
    pub(super) const fn sees_all(&self) -> bool {
        self.capture.is_some()
    }

    /// Asks until all is known, or time is up.
    pub(super) fn ask(&mut self, asks: &mut [Ask]) -> io::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < LIMIT && asks.iter().any(Ask::is_open) {
            for ask in asks.iter_mut().filter(|ask| ask.is_open()) {
                if TIMES.get(ask.sends).is_some_and(|due| begun.elapsed() >= *due) {
                    self.send(ask);
                }
            }
            self.wait(TURN)?;
            for socket in sockets(asks) {
                self.take(socket, asks);
            }
            if let Some(capture) = &mut self.capture {
                capture.take(|to, tag| see(&self.probes, asks, to, tag));
            }
        }
        Ok(())
    }

    /// Waits until something has come, or for `limit`.
    pub(super) fn wait(&mut self, limit: Duration) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(limit)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    fn send(&mut self, ask: &mut Ask) {
        let packet = ask.packet(self.probes.local(ask.socket).port(), self.keys);
        let size = packet.len();
        let (bytes, ecn) = match ask.form {
            Form::Plain | Form::Sized(_) => (packet, Ecn::NotEct),
            Form::EcnCapable => (packet, Ecn::Ect0),
            Form::Run => (packet.repeat(2), Ecn::NotEct),
        };
        (ask.sends, ask.sent) = (ask.sends + 1, Some(Instant::now()));
        match self.probes.send(ask.socket, ask.remote, (&bytes, size), ecn) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                ask.outcome = Outcome::Refused(error);
            }
            _ => {}
        }
    }

    fn take(&mut self, socket: usize, asks: &mut [Ask]) {
        self.probes.receive(socket, |_, bytes| {
            let Some((tag, said)) = answer(bytes) else { return };
            if let Some(ask) = asks.iter_mut().find(|ask| ask.tag == tag && ask.socket == socket)
                && !ask.is_answered()
            {
                let rtt = ask.sent.map_or(Duration::ZERO, |sent| sent.elapsed());
                ask.outcome = Outcome::Answered(rtt, Box::new(said));
            }
        });
        for report in self.probes.reports(socket) {
            let meant = |ask: &&mut Ask| {
                ask.is_open()
                    && ask.socket == socket
                    && ask.remote == report.remote
                    && report.init_tag.is_none_or(|tag| tag == ask.tag)
            };
            let said = report.kind;
            for ask in asks.iter_mut().filter(meant).filter(|_| said != ReportKind::Other) {
                ask.outcome = Outcome::Said(said);
            }
        }
    }
}

fn sockets(asks: &[Ask]) -> Vec<usize> {
    let mut sockets: Vec<_> = asks.iter().map(|ask| ask.socket).collect();
    sockets.sort_unstable();
    sockets.dedup();
    sockets
}

fn see(probes: &Probes, asks: &mut [Ask], to: SocketAddr, tag: u32) {
    for ask in asks.iter_mut().filter(|ask| ask.tag == tag) {
        ask.seen |= probes.local(ask.socket) == to;
    }
}
