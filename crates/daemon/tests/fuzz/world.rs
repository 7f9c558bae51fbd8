//! Hosts, programs and services, and the time that all of them share.

use crate::host::{Host, LISTENING, UDP_PORT, address, service};
use crate::line::{End, Line};
use manypath_control::{Reply, Request};
use manypath_engine::{Duration, Instant};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

/// Rounds in which something happens without any time passing: more mean that somebody is busy with nothing.
const MAX_ROUNDS: usize = 3000;
/// Times at which something is due within one call of [`World::drive`]. A timer that comes too often takes more.
const MAX_STEPS: usize = 20_000;
/// How often it is looked whether everything is over.
const SLICE: Duration = Duration::from_secs(2);
/// Quiet rounds after which nothing more is expected.
const QUIET_ROUNDS: usize = 2;

/// What became of a program's connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    None,
    Pending,
    /// The program was told: it is connected, or not, or goes on by itself.
    Told,
}

/// A program that has asked for a connection.
#[derive(Debug)]
struct Program {
    host: usize,
    id: u64,
    blocking: bool,
    answer: Answer,
    line: Option<Line>,
    /// The stack has said that the connection is over.
    closed: bool,
    /// Its stack was killed.
    orphaned: bool,
}

/// Somebody else on the network.
pub(crate) trait Other {
    /// Whether it breaks rules.
    const HOSTILE: bool;
    /// Does what is due; whether there was anything.
    fn turn(&mut self, now: Instant) -> bool;
    fn next_turn(&self) -> Option<Instant>;
}

/// Nobody else.
impl Other for () {
    const HOSTILE: bool = false;

    fn turn(&mut self, _: Instant) -> bool {
        false
    }

    fn next_turn(&self) -> Option<Instant> {
        None
    }
}

pub(crate) struct World<O> {
    pub(crate) now: Instant,
    pub(crate) hosts: Vec<Host>,
    pub(crate) other: O,
    listeners: Vec<TcpListener>,
    datagrams: UdpSocket,
    /// Where programs' sockets come from.
    pairs: TcpListener,
    programs: Vec<Program>,
    served: Vec<Line>,
    last_id: u64,
}

impl<O: Other> World<O> {
    /// Hosts with these seeds; services are at the first one and at host `services`.
    pub(crate) fn new(seeds: &[u8], other: O) -> Self {
        let listen = |host| LISTENING.map(|number| TcpListener::bind(service(host, number)));
        let listeners: Vec<_> = [0, 1].into_iter().flat_map(listen).map(Result::unwrap).collect();
        listeners.iter().for_each(|listener| listener.set_nonblocking(true).unwrap());
        let datagrams = UdpSocket::bind((address(0, 0), UDP_PORT)).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        Self {
            now: Instant::from_nanos(1_000_000_000),
            hosts: seeds.iter().enumerate().map(|(host, seed)| Host::start(host, *seed)).collect(),
            other,
            listeners,
            datagrams,
            pairs: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
            programs: Vec::new(),
            served: Vec::new(),
            last_id: 0,
        }
    }

    /// A program of `host` connects, in the way that `how` says.
    pub(crate) fn connect(&mut self, host: usize, destination: SocketAddr, how: u8) {
        self.last_id += 1;
        let id = self.last_id;
        let (blocking, waiting) = (how & 1 == 1, how & 2 == 2);
        let source =
            (how & 4 == 4).then(|| SocketAddr::new(address(host, how as usize >> 3 & 1), 0));
        let request = match waiting {
            true => Request::OpenWaiting { id, destination, source },
            false => Request::Open { id, destination, source, blocking },
        };
        let blocking = blocking && !waiting;
        let (answer, line) = (Answer::None, None);
        let program = Program { host, id, blocking, answer, line, closed: false, orphaned: false };
        self.programs.push(program);
        self.hosts[host].tell(&request);
    }

    /// One end of some connection: of a program or of a service.
    pub(crate) fn line(&mut self, of_service: bool, pick: u8) -> Option<&mut Line> {
        let lines: Vec<&mut Line> = match of_service {
            true => self.served.iter_mut().collect(),
            false => self.programs.iter_mut().filter_map(|one| one.line.as_mut()).collect(),
        };
        let count = lines.len();
        lines.into_iter().nth(usize::from(pick).checked_rem(count)?)
    }

    /// A program gives up a connect before it was answered.
    pub(crate) fn cancel(&mut self, pick: u8) {
        let count = self.programs.len();
        let Some(pick) = usize::from(pick).checked_rem(count) else { return };
        let Program { host, id, .. } = self.programs[pick];
        if self.programs[pick].line.is_none() {
            self.programs[pick].closed = true;
            self.programs[pick].answer = Answer::Told;
            self.hosts[host].tell(&Request::Cancel { id });
        }
    }

    /// A stack is killed and another one started.
    pub(crate) fn restart(&mut self, host: usize, seed: u8) {
        let old = self.hosts.remove(host);
        self.hosts.insert(host, old.restart(seed));
        let its = self.programs.iter_mut().filter(|program| program.host == host);
        its.for_each(|program| program.orphaned = true);
    }

    /// Lets time pass.
    pub(crate) fn drive(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..MAX_STEPS {
            self.settle();
            let next = self.hosts.iter().filter_map(Host::next_turn);
            let next = next.chain(self.other.next_turn()).min();
            match next.filter(|at| *at <= end) {
                Some(at) => {
                    assert!(at > self.now, "a timer does not let time pass");
                    self.now = at;
                }
                None => {
                    self.now = end;
                    return;
                }
            }
        }
        unreachable!("no end of {time:?} after {MAX_STEPS} steps");
    }

    /// Lets everything happen that happens at this time.
    fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..MAX_ROUNDS {
            quiet = if self.round() { 0 } else { quiet + 1 };
            if quiet == QUIET_ROUNDS {
                return;
            }
        }
        unreachable!("somebody is still busy after {MAX_ROUNDS} rounds");
    }

    fn round(&mut self) -> bool {
        let now = self.now;
        let mut busy = self.other.turn(now);
        for host in 0..self.hosts.len() {
            busy |= self.hosts[host].turn(now);
            while let Some(reply) = self.hosts[host].reply() {
                self.on_reply(host, &reply);
                busy = true;
            }
        }
        for listener in &self.listeners {
            while let Ok((socket, _)) = listener.accept() {
                let line = Line::of_service(socket);
                self.served.push(if O::HOSTILE { line.with_anybody() } else { line });
                busy = true;
            }
        }
        let mut datagram = [0; 2048];
        while let Ok((len, from)) = self.datagrams.recv_from(&mut datagram) {
            let _ = self.datagrams.send_to(&datagram[..len], from);
            busy = true;
        }
        let lines = self.programs.iter_mut().filter_map(|one| one.line.as_mut());
        for line in lines.chain(&mut self.served) {
            busy |= line.service();
        }
        busy
    }

    fn program(&mut self, host: usize, id: u64) -> Option<&mut Program> {
        self.programs.iter_mut().find(|one| one.id == id && one.host == host && !one.orphaned)
    }

    fn on_reply(&mut self, host: usize, reply: &Reply) {
        match *reply {
            Reply::Pending { id } => {
                let Some(program) = self.program(host, id) else { return };
                assert!(program.closed || program.answer == Answer::None, "{program:?}");
                if !program.closed {
                    program.answer = Answer::Pending;
                }
            }
            Reply::Direct { id, .. } => {
                let Some(program) = self.program(host, id) else { return };
                assert!(program.closed || program.blocking || program.answer == Answer::None);
                Self::end_connect(program);
            }
            Reply::Failed { id, .. } => {
                let Some(program) = self.program(host, id) else { return };
                // What was accepted may break while the launcher hands over the connection.
                if program.line.is_some() && !program.closed {
                    program.closed = true;
                } else {
                    Self::end_connect(program);
                }
            }
            Reply::Accepted { id, .. } => self.attach(host, id),
            Reply::Closed { id } => {
                let Some(program) = self.program(host, id) else { return };
                assert!(!std::mem::replace(&mut program.closed, true), "told twice: {program:?}");
            }
            _ => {}
        }
    }

    /// A program is not connected, and is told that once.
    fn end_connect(program: &mut Program) {
        assert!(program.closed || program.answer != Answer::Told, "told twice: {program:?}");
        (program.answer, program.closed) = (Answer::Told, true);
    }

    fn attach(&mut self, host: usize, id: u64) {
        let near = TcpStream::connect(self.pairs.local_addr().unwrap()).unwrap();
        let (far, _) = self.pairs.accept().unwrap();
        let Some(program) = self.program(host, id) else { return };
        if program.closed {
            return;
        }
        assert_eq!(program.answer, Answer::Pending, "{program:?}");
        program.answer = Answer::Told;
        let line = Line::of_client(near, u32::try_from(id).unwrap());
        program.line = Some(if O::HOSTILE { line.with_anybody() } else { line });
        self.hosts[host].attach(id, &far);
    }

    /// Lets every connection come to its end, in a network that works; all must, each in one of the ways that
    /// there are, and bytes that were taken in good order have arrived.
    pub(crate) fn finish(&mut self, patience: Duration) {
        for host in &self.hosts {
            (0..crate::host::PATHS).for_each(|path| host.cut(path, false));
        }
        let until = self.now + patience;
        while self.now < until && !self.is_over() {
            let lines = self.programs.iter_mut().filter_map(|one| one.line.as_mut());
            lines.chain(&mut self.served).for_each(|line| {
                (line.reads, line.finishing) = (true, true);
            });
            self.drive(SLICE);
        }
        self.check_ends();
    }

    fn is_over(&self) -> bool {
        let over = |program: &Program| {
            let line = program.line.as_ref().is_none_or(Line::is_over);
            line && (program.closed && program.answer == Answer::Told || program.orphaned)
        };
        let flows = |host: &Host| {
            host.stack().status().associations.iter().any(|one| !one.flows.is_empty())
        };
        self.programs.iter().all(over)
            && self.served.iter().all(Line::is_over)
            && !self.hosts.iter().any(flows)
    }

    fn check_ends(&self) {
        for program in self.programs.iter().filter(|program| !program.orphaned) {
            assert!(program.answer == Answer::Told, "never answered: {program:?}");
            assert!(program.closed, "never over: {program:?}");
            assert!(program.line.as_ref().is_none_or(Line::is_over), "left open: {program:?}");
        }
        for served in &self.served {
            assert!(served.is_over(), "left open: {served:?}");
            if !O::HOSTILE {
                self.check_delivery(served);
            }
        }
        for host in &self.hosts {
            check_counts(&host.stack().status());
        }
    }

    /// Who has seen the other side's end in good order has all of its bytes.
    fn check_delivery(&self, served: &Line) {
        let Some(client) = self.client_of(served) else { return };
        if served.end == Some(End::Finished) {
            assert!(client.finished && served.read == client.written, "{served:?} {client:?}");
        }
        if client.end == Some(End::Finished) {
            assert!(served.finished && client.read == served.written, "{served:?} {client:?}");
        }
    }

    fn client_of(&self, served: &Line) -> Option<&Line> {
        let id = u64::from(served.number()?);
        self.programs.iter().find(|program| program.id == id)?.line.as_ref()
    }

    /// What every stack holds to, at any time.
    pub(crate) fn check_limits(&self) {
        for host in &self.hosts {
            let status = host.stack().status();
            let memory = status.receive_memory;
            assert!(memory.promised_bytes <= memory.limit_bytes);
            for association in &status.associations {
                assert!(association.flows.len() <= 2 * 1024);
                assert!(association.paths.len() <= 32);
                assert!(association.receive_queued_bytes <= 64 << 20);
            }
        }
    }
}

/// Nothing is left, and every connection that was carried has ended in one of the ways that are counted.
fn check_counts(status: &manypath_control::status::StackStatus) {
    let left: Vec<_> = status.associations.iter().flat_map(|one| &one.flows).collect();
    assert!(left.is_empty(), "flows are left: {left:#?}");
    let count = |name: &str| status.counters.get(name).copied().unwrap_or_default();
    let ends = [
        "relays_finished",
        "relays_reset_by_local_socket",
        "relays_reset_without_redirector",
        "relays_reset_by_peer",
        "relays_lost_with_association",
        "relays_reset_by_user_timeout",
        "relays_reset_at_the_end",
    ];
    let ended: u64 = ends.into_iter().map(count).sum();
    // What begins before its peer has answered, and is refused, begins anew.
    let begun =
        count("relays_started") + count("tcp_relays_started") - count("early_opens_refused");
    assert_eq!(begun, ended, "{:#?}", status.counters);
}
