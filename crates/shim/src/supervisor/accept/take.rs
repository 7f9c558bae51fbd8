//! `accept`: done here, on a copy of the listening socket, and handed to the program with its
//! client's true address.

use super::waiting::Waiter;
use crate::accesses::What;
use crate::address::{self, MAX_SOCKADDR, ProgramAddress};
use crate::program;
use crate::seccomp::{Answer, NotGiven, Place};
use crate::socket;
use crate::supervisor::Supervisor;
use crate::supervisor::names::cut_name;
use crate::trap::Trap;
use manypath_control::Request;
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// How often the door is told of connections that are not its own.
const TALLY_INTERVAL: Duration = Duration::from_secs(1);

/// A connection out of the accept queue.
#[derive(Debug)]
pub(super) struct Accepted {
    socket: OwnedFd,
    /// The client's address as the program shall see it.
    name: Vec<u8>,
    left: Option<Left>,
}

/// A process has a connection already, under a number that it was not told: the call was interrupted between the
/// two steps ([`crate::seccomp::Servers::TwoSteps`]). Nobody can take it away again, and given to another process it
/// would stay open when that one closes it. So it waits for the next call of the same process, most likely the
/// repetition.
#[derive(Debug, Clone, Copy)]
struct Left {
    process: libc::pid_t,
    number: RawFd,
}

impl Left {
    /// Whether the process still has the connection there.
    fn holds(self, socket: &OwnedFd) -> bool {
        program::has(self.process, self.number, socket)
    }
}

impl Accepted {
    /// Whether a process may get it.
    pub(super) fn is_for(&mut self, process: Option<libc::pid_t>) -> bool {
        self.left = self.left.filter(|left| left.holds(&self.socket));
        self.left.is_none_or(|left| Some(left.process) == process)
    }
}

/// A connection that is being given to the program.
#[derive(Debug)]
pub(super) struct Given {
    cookie: u64,
    trap: Trap,
    name: Vec<u8>,
}

impl Supervisor {
    pub(crate) fn on_accept(&mut self, trap: &Trap) -> Option<Answer> {
        if self.accepts.listening.is_empty() {
            return Some(Answer::Continue);
        }
        let socket = match self.descriptors.of(trap.thread, trap.args[0] as RawFd) {
            Ok(socket) => socket,
            Err(e) => return Some(self.on_unseen_accept(trap, &e)),
        };
        let Ok(cookie) = socket::cookie(socket.as_fd()) else { return Some(Answer::Continue) };
        if !self.listener.is_waiting(trap.id) {
            return None;
        }
        if !self.accepts.listening.contains_key(&cookie) {
            return Some(Answer::Continue);
        }
        match self.take(cookie, trap, socket.as_fd()) {
            Ok(accepted) => self.deliver(cookie, trap, accepted),
            Err(libc::EAGAIN) if !socket::is_nonblocking(socket.as_fd()) => {
                self.wait_for_connection(cookie, trap, socket.as_fd())
            }
            Err(errno) => Some(Answer::Error(errno)),
        }
    }

    /// A process whose descriptors we may not see accepts connections. It might be one of the door's,
    /// whose client we could not tell: nothing is led here any more.
    fn on_unseen_accept(&mut self, trap: &Trap, error: &io::Error) -> Answer {
        match error.raw_os_error() {
            Some(libc::EBADF | libc::ESRCH) => {}
            Some(errno @ (libc::EMFILE | libc::ENFILE)) => return Answer::Error(errno),
            _ => {
                self.note_without_socket(trap.thread, error);
                self.report.leave_listener("out-of-reach");
                for listening in self.accepts.listening.values() {
                    self.accepts.door.send(Request::Withdraw { id: listening.id });
                }
            }
        }
        Answer::Continue
    }

    /// Takes a connection out of the queue, or the error number that says why there is none.
    fn take(&mut self, cookie: u64, trap: &Trap, socket: BorrowedFd<'_>) -> Result<Accepted, i32> {
        if let Some(parked) =
            self.waiting_at(cookie).and_then(|waiting| waiting.parked(trap.thread))
        {
            return Ok(parked);
        }
        let flags = self.accept_flags(trap);
        match accept(socket, flags) {
            Ok((accepted, raw)) => Ok(self.name(cookie, accepted, raw)),
            Err(e) => Err(e.raw_os_error().unwrap_or(libc::EINVAL)),
        }
    }

    fn accept_flags(&self, trap: &Trap) -> i32 {
        if trap.call == self.accept4_number() { trap.args[3] as i32 } else { 0 }
    }

    fn waiting_at(&mut self, cookie: u64) -> Option<&mut super::waiting::Waiting> {
        self.accepts.listening.get_mut(&cookie).map(|listening| &mut listening.waiting)
    }

    /// Finds out who the client is. The door has said it before it made the connection.
    fn name(&mut self, cookie: u64, socket: OwnedFd, raw: Vec<u8>) -> Accepted {
        let v6_socket = raw.first() == Some(&(libc::AF_INET6 as u8));
        let ends = ends(&socket, &raw);
        if let Some((from, to)) = ends.filter(|(from, to)| from.ip() == to.ip()) {
            self.handle_door();
            if let Some(client) = self.accepts.arrivals.remove(from, to) {
                if let Ok(accepted) = socket::cookie(socket.as_fd()) {
                    self.accepts.served.add(accepted, (from, to), client, v6_socket);
                }
                self.report.accepted_sctp += 1;
                let name = address::emit(client, v6_socket);
                return Accepted { socket, name, left: None };
            }
        }
        self.report.accepted_plain += 1;
        if let Some(listening) = self.accepts.listening.get_mut(&cookie) {
            listening.plain += 1;
            listening.tell_at.get_or_insert_with(|| Instant::now() + TALLY_INTERVAL);
        }
        Accepted { socket, name: raw, left: None }
    }

    /// Gives a connection to the program. `None`: it has it, or nobody waits any more.
    fn deliver(&mut self, cookie: u64, trap: &Trap, accepted: Accepted) -> Option<Answer> {
        if trap.args[1] != 0
            && let Err(errno) = cut_name(trap, &accepted.name)
        {
            // The kernel too has taken the connection by now, and drops it.
            return Some(Answer::Error(errno));
        }
        let close_on_exec = self.accept_flags(trap) & libc::SOCK_CLOEXEC != 0;
        let place = match accepted.left {
            Some(Left { number, .. }) => Place::There(number),
            None => Place::New { close_on_exec },
        };
        if let Some((source, writes)) = trap.memory.take_writes() {
            let Accepted { socket, name, .. } = accepted;
            self.accepts.giving.insert(trap.id, Given { cookie, trap: trap.clone(), name });
            self.begin_access(source, What::Give(writes, socket, place));
            return None;
        }
        let refused = self.listener.give(trap.id, accepted.socket.as_fd(), place).err()?;
        self.park(cookie, trap, accepted, refused)
    }

    /// Keeps a connection for the next one, and answers the call that did not take it.
    fn park(
        &mut self,
        cookie: u64,
        trap: &Trap,
        accepted: Accepted,
        why: NotGiven,
    ) -> Option<Answer> {
        let process = why.left.and_then(|_| program::process_of(trap.thread).ok());
        let left = process.zip(why.left).map(|(process, number)| Left { process, number });
        self.waiting_at(cookie)?.park(Accepted { left, ..accepted });
        if why.errno != libc::ENOENT {
            return Some(Answer::Error(why.errno));
        }
        // Killed, or interrupted.
        self.serve_waiting(cookie);
        None
    }

    /// A connection that was given to the program, after its name had been written, was not taken.
    pub(crate) fn on_not_given(&mut self, id: u64, why: NotGiven, socket: OwnedFd) {
        let Some(Given { cookie, trap, name }) = self.accepts.giving.remove(&id) else { return };
        let accepted = Accepted { socket, name, left: None };
        if let Some(answer) = self.park(cookie, &trap, accepted, why) {
            self.answer(&trap, answer);
        }
    }

    fn wait_for_connection(
        &mut self,
        cookie: u64,
        trap: &Trap,
        socket: BorrowedFd<'_>,
    ) -> Option<Answer> {
        let limit = SockRef::from(&socket).read_timeout().ok().flatten();
        let until = limit.map(|limit| Instant::now() + limit);
        let waiter = Waiter { trap: trap.clone(), until };
        let added = self.waiting_at(cookie)?.add(waiter, socket);
        added.err().map(|e| Answer::Error(e.raw_os_error().unwrap_or(libc::ENOMEM)))
    }

    /// Looks at the sockets at which calls wait.
    pub(crate) fn handle_watches(&mut self) {
        let ready = self.accepts.listening.iter().filter(|(_, listening)| {
            let watch = listening.waiting.watch();
            watch.is_some_and(|set| socket::ready(set.as_fd(), libc::POLLIN) != 0)
        });
        let ready: Vec<u64> = ready.map(|(cookie, _)| *cookie).collect();
        ready.into_iter().for_each(|cookie| self.serve_waiting(cookie));
    }

    /// Serves the calls that wait, as far as there are connections.
    fn serve_waiting(&mut self, cookie: u64) {
        while let Some(waiter) = self.waiting_at(cookie).and_then(|waiting| waiting.next()) {
            if self.listener.is_waiting(waiter.trap.id) && !self.serve(cookie, waiter) {
                return;
            }
        }
    }

    /// Whether there may be more.
    fn serve(&mut self, cookie: u64, waiter: Waiter) -> bool {
        let trap = &waiter.trap.clone();
        let Some(socket) = self.still_listening(cookie, trap) else {
            // Another thread has closed or replaced the descriptor: the kernel knows what that means.
            self.listener.answer(trap.id, Answer::Continue);
            return true;
        };
        let answer = match self.take(cookie, trap, socket.as_fd()) {
            Ok(accepted) => self.deliver(cookie, trap, accepted),
            Err(libc::EAGAIN) => {
                let waiting = self.waiting_at(cookie);
                let back = waiting.map(|waiting| waiting.put_back(waiter, socket.as_fd()));
                if matches!(back, Some(Ok(()))) {
                    return false;
                }
                Some(Answer::Error(libc::ENOMEM))
            }
            Err(errno) => Some(Answer::Error(errno)),
        };
        if let Some(answer) = answer {
            self.answer(trap, answer);
        }
        true
    }

    /// The listening socket at which the call waits, if its descriptor still means it.
    fn still_listening(&self, cookie: u64, trap: &Trap) -> Option<OwnedFd> {
        let fd = trap.args[0] as RawFd;
        let socket = match self.listener.sockets().of_call(trap.id) {
            Some(handed_over) => Some(handed_over).filter(|it| program::has(trap.thread, fd, it)),
            None => self.descriptors.of(trap.thread, fd).ok(),
        }?;
        let same = socket::cookie(socket.as_fd()).is_ok_and(|now| now == cookie);
        (same && self.listener.is_waiting(trap.id)).then_some(socket)
    }

    /// Ends the calls that have waited for as long as their socket lets them.
    pub(super) fn handle_accept_limits(&mut self, now: Instant) {
        let expired: Vec<Waiter> = self
            .accepts
            .listening
            .values_mut()
            .flat_map(|listening| listening.waiting.expired(now))
            .collect();
        for waiter in expired {
            self.listener.answer(waiter.trap.id, Answer::Error(libc::EAGAIN));
        }
    }
}

/// Takes a connection without waiting, whatever mode the listening socket is in. The mode is the
/// program's again when this returns.
fn accept(socket: BorrowedFd<'_>, flags: i32) -> io::Result<(OwnedFd, Vec<u8>)> {
    let listener = SockRef::from(&socket);
    let blocking = !listener.nonblocking()?;
    if blocking {
        if socket::ready(socket, libc::POLLIN) == 0 {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        listener.set_nonblocking(true)?;
    }
    let mut name = vec![0; MAX_SOCKADDR];
    let mut length = MAX_SOCKADDR as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes of the name.
    let fd = unsafe {
        let to = name.as_mut_ptr().cast();
        libc::accept4(socket.as_raw_fd(), to, &raw mut length, flags | libc::SOCK_CLOEXEC)
    };
    let error = io::Error::last_os_error();
    if blocking {
        listener.set_nonblocking(false)?;
    }
    if fd < 0 {
        return Err(error);
    }
    name.truncate(length as usize);
    // SAFETY: the kernel has just made it.
    Ok((unsafe { OwnedFd::from_raw_fd(fd) }, name))
}

/// The far and the near address of an accepted connection.
fn ends(socket: &OwnedFd, raw: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let ProgramAddress::Ip(from) = address::parse(raw) else { return None };
    let to = socket::local(socket.as_fd()).ok()?;
    Some((address::unmapped(from), address::unmapped(to)))
}
