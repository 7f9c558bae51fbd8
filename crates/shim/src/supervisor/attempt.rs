//! The calls that connect.

use super::Supervisor;
use super::datagrams::Called;
use crate::address::{self, MAX_SOCKADDR, ProgramAddress};
use crate::seccomp::Answer;
use crate::socket::{self, Kind};
use crate::table::{Caller, Connection, Phase, Purpose};
use crate::trap::Trap;
use manypath_control::Request;
use manypath_gate::egress::{Protocol, unspecified};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

/// A call that connects, as the program made it.
pub(super) struct Attempt {
    pub(super) address: u64,
    pub(super) length: u32,
    /// The call itself asks not to wait, whatever the socket's mode.
    pub(super) nonblocking: bool,
    pub(super) purpose: Purpose,
}

impl Attempt {
    const fn is_connect(&self) -> bool {
        matches!(self.purpose, Purpose::Connect)
    }
}

/// What to do with a call: answer now, answer later (`None`), or leave it to the kernel and count
/// the reason.
type Decision = Result<Option<Answer>, &'static str>;

impl Supervisor {
    pub(super) fn on_connect(&mut self, trap: &Trap) -> Option<Answer> {
        let address = trap.args[1];
        let length = trap.args[2] as u32;
        let purpose = Purpose::Connect;
        self.on_attempt(trap, Attempt { address, length, nonblocking: false, purpose })
    }

    pub(super) fn on_attempt(&mut self, trap: &Trap, attempt: Attempt) -> Option<Answer> {
        let left = match read_address(trap, &attempt) {
            Ok(ProgramAddress::Ip(written)) => {
                let decided = self.decide(trap, attempt, written);
                return decided.unwrap_or_else(|reason| {
                    Some(self.leave_or_refuse(address::unmapped(written), reason))
                });
            }
            Ok(ProgramAddress::Unspecified) => return Some(self.on_dissolve(trap)),
            Ok(ProgramAddress::Other) => "other-family",
            Err(reason) => reason,
        };
        if left == "out-of-reach" {
            // Nothing can be read of a caller that a signal has interrupted.
            if !self.listener.is_waiting(trap.id) {
                return None;
            }
            self.note_out_of_reach(trap.thread);
        }
        self.report.leave(left);
        Some(Answer::Continue)
    }

    /// The call is the kernel's, unless a rule forbids plain TCP.
    pub(super) fn leave_or_refuse(
        &mut self,
        destination: SocketAddr,
        reason: &'static str,
    ) -> Answer {
        match self.errno_instead_of_tcp(destination, reason) {
            Some(errno) => {
                self.report.refuse(reason);
                Answer::Error(errno)
            }
            None => {
                self.report.leave_to(destination, reason);
                Answer::Continue
            }
        }
    }

    fn decide(&mut self, trap: &Trap, attempt: Attempt, written: SocketAddr) -> Decision {
        let destination = address::unmapped(written);
        let unsuitable = address::unsuitable(destination, self.loopback_paths);
        if let Some(reason) =
            unsuitable.filter(|_| self.table.is_empty() && self.datagrams.is_empty())
        {
            return Err(reason);
        }
        let fd = trap.args[0] as RawFd;
        let socket = match self.descriptors.of(trap.thread, fd) {
            Ok(socket) => socket,
            // The kernel will say so.
            Err(e) if e.raw_os_error() == Some(libc::EBADF) => return Ok(Some(Answer::Continue)),
            Err(e) => {
                self.note_without_socket(trap.thread, &e);
                return Err(out_of_reach(&e));
            }
        };
        if !self.listener.is_waiting(trap.id) {
            return Ok(None);
        }
        let (kind, own) = socket::look(socket.as_fd()).map_err(|_| "no-socket")?;
        let own = own.unwrap_or(SocketAddr::new(unspecified(written.ip()), 0));
        let v6_socket = match kind {
            Kind::Tcp { v6 } => v6,
            Kind::Udp { v6 } if self.datagrams.wanted && attempt.is_connect() => {
                let cookie = socket::cookie(socket.as_fd()).map_err(|_| "no-cookie")?;
                let called = Called { socket, cookie, v6 };
                let connected = self.connect_datagrams(trap, called, written, unsuitable);
                return connected.or_else(|reason| {
                    self.report.leave(reason);
                    Ok(Some(Answer::Continue))
                });
            }
            Kind::Udp { .. } => return Err("udp"),
            Kind::Other(name) => return Err(name),
        };
        let cookie = socket::cookie(socket.as_fd()).map_err(|_| "no-cookie")?;
        let caller = caller(trap, socket, attempt);
        let fresh = socket::is_fresh(caller.socket.as_fd());
        match self.table.of_socket(cookie).map(|known| (known.id, known.is_over())) {
            // The kernel has settled the end of what was before.
            Some((id, true)) if fresh => drop(self.table.take(id)),
            Some((id, _)) => return Ok(self.again(id, with_limit(caller))),
            None if !fresh => return Ok(Some(Answer::Continue)),
            None => {}
        }
        let socket = caller.socket.as_fd();
        self.check_reach((socket, own), unsuitable, written, v6_socket)?;
        self.check_egress(trap.thread, (socket, own), Protocol::Tcp, destination)?;
        self.open(cookie, v6_socket, (own, destination), caller);
        Ok(None)
    }

    /// Whether this socket can be connected to our gate, and there is a stack to ask. One that has ended is replaced.
    pub(super) fn check_reach(
        &mut self,
        (socket, own): (BorrowedFd<'_>, SocketAddr),
        unsuitable: Option<&'static str>,
        written: SocketAddr,
        v6_socket: bool,
    ) -> Result<(), &'static str> {
        let disguised = v6_socket && address::unmapped(written).is_ipv4();
        if let Some(reason) = unsuitable {
            Err(reason)
        } else if written.is_ipv6() != v6_socket || disguised && socket::is_v6_only(socket) {
            Err("wrong-family")
        } else if socket::is_bound_to_device(socket) {
            Err("bound-to-device")
        } else if socket::is_marked(socket) {
            Err("marked")
        } else if !socket::is_own_source(own) {
            Err("foreign-source")
        } else if !self.is_in_our_network(socket) {
            Err("other-network-namespace")
        } else {
            self.stack.replace(Instant::now());
            if self.stack.is_usable() { Ok(()) } else { Err("no-stack") }
        }
    }

    fn open(
        &mut self,
        cookie: u64,
        v6_socket: bool,
        (own, destination): (SocketAddr, SocketAddr),
        caller: Caller,
    ) {
        let id = self.next_id();
        let blocking = caller.blocking;
        // Who has bound a port alone may send from any address. A socket whose connect has failed has a port, too.
        let source = Some(own).filter(|own| !own.ip().is_unspecified());
        let ahead = !blocking && source.is_none() && self.goes_ahead(destination);
        self.report.opened += 1;
        let request = match ahead {
            true => Request::OpenWaiting { id, destination, source },
            false => Request::Open { id, destination, source, blocking },
        };
        self.stack.send(request, None);
        // The stack works meanwhile.
        let options = socket::stack_options(caller.socket.as_fd(), v6_socket);
        let asking = Connection {
            id,
            cookie,
            v6_socket,
            destination,
            source,
            phase: Phase::Asking { until: self.answer_deadline() },
            callers: vec![with_limit(caller)],
            held: None,
            local: None,
            peer: destination,
            transport: None,
            unheard: false,
            options,
        };
        let connection = if ahead { self.hold(asking) } else { Some(asking) };
        connection.into_iter().for_each(|connection| self.table.put(connection));
    }

    /// When an open that is sent now should have had its first answer.
    pub(super) fn answer_deadline(&self) -> Instant {
        let patience = if self.stack.is_starting() { 3 } else { 1 };
        Instant::now() + self.answer_limit * patience
    }

    pub(super) fn next_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Connect on a socket that has a history here.
    fn again(&mut self, id: u64, caller: Caller) -> Option<Answer> {
        let mut connection = self.table.take(id)?;
        let answer = match connection.phase {
            Phase::Asking { .. } | Phase::Deciding => self.join(&mut connection, caller),
            Phase::Held | Phase::Joining(_) => join_held(&mut connection, caller),
            Phase::Failed { errno } => return Some(self.fetch_failure(connection, errno, &caller)),
            Phase::Active | Phase::Closed => Some(Answer::Continue),
        };
        self.table.put(connection);
        answer
    }

    /// A call during an undecided attempt: the repetition of an interrupted one takes its place,
    /// another thread's waits too, or hears that the attempt is under way.
    fn join(&self, connection: &mut Connection, caller: Caller) -> Option<Answer> {
        let waits =
            |c: &Caller| c.trap.as_ref().is_some_and(|trap| self.listener.is_waiting(trap.id));
        connection.callers.retain(waits);
        if connection.callers.is_empty() || caller.blocking {
            connection.callers.push(caller);
            return None;
        }
        Some(Answer::Error(libc::EALREADY))
    }

    /// `connect(AF_UNSPEC)`: whatever was under way is over.
    fn on_dissolve(&mut self, trap: &Trap) -> Answer {
        if self.table.is_empty() && self.datagrams.is_empty() {
            return Answer::Continue;
        }
        let socket = self.descriptors.of(trap.thread, trap.args[0] as RawFd);
        let cookie = socket.and_then(|socket| socket::cookie(socket.as_fd()));
        let cookie = cookie.ok();
        if let Some(cookie) = cookie {
            self.dissolve_datagrams(cookie);
        }
        let known = cookie.and_then(|cookie| self.table.of_socket(cookie));
        if let Some(id) = known.map(|connection| connection.id) {
            self.update(id, |this, connection| {
                this.abandon(connection);
                None
            });
        }
        Answer::Continue
    }
}

pub(super) fn read_address(trap: &Trap, attempt: &Attempt) -> Result<ProgramAddress, &'static str> {
    let length = attempt.length as usize;
    if length > MAX_SOCKADDR {
        return Err("other-family");
    }
    let mut bytes = [0; MAX_SOCKADDR];
    let bytes = bytes.get_mut(..length).unwrap_or_default();
    trap.memory.read(attempt.address, bytes).map_err(|_| "out-of-reach")?;
    Ok(address::parse(bytes))
}

fn out_of_reach(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => "no-descriptors",
        _ => "out-of-reach",
    }
}

fn caller(trap: &Trap, socket: OwnedFd, attempt: Attempt) -> Caller {
    let blocking = !attempt.nonblocking && !socket::is_nonblocking(socket.as_fd());
    Caller {
        trap: Some(trap.clone()),
        thread: trap.thread,
        fd: trap.args[0] as RawFd,
        socket,
        blocking,
        until: None,
        purpose: attempt.purpose,
    }
}

/// The same, who waits no longer than the socket wants.
fn with_limit(caller: Caller) -> Caller {
    let limit = caller.blocking.then(|| socket::connect_limit(caller.socket.as_fd())).flatten();
    Caller { until: limit.map(|limit| Instant::now() + limit), ..caller }
}

/// A call while the socket waits at the gate. One that does not wait is for the kernel, which
/// knows the right error; one that waits may have to hear an error which the kernel does not know.
fn join_held(connection: &mut Connection, caller: Caller) -> Option<Answer> {
    if caller.blocking {
        connection.callers.push(caller);
        return None;
    }
    if std::mem::take(&mut connection.unheard) {
        return Some(Answer::Error(libc::EINPROGRESS));
    }
    Some(Answer::Continue)
}
