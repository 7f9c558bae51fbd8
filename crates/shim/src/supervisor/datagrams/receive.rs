//! Calls that ask for the source of each datagram.
//!
//! Also sockets that have sent nothing yet are received from here if the call waits: it would be in the
//! kernel, where no address is translated, when another thread sends the first datagram.

use super::super::Supervisor;
use super::super::names::cut_name_at;
use super::connect::Called;
use super::message::{Message, scatter, with_local};
use super::{Phase, system};
use crate::address;
use crate::seccomp::Answer;
use crate::socket;
use crate::trap::Trap;
use libc::pollfd;
use socket2::SockRef;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Instant;

/// A call that waits for a datagram. A thread blocked in it keeps the socket open, and so does this.
#[derive(Debug)]
pub(super) struct HeldReceive {
    trap: Trap,
    called: Called,
    /// When it stops waiting (`SO_RCVTIMEO`).
    until: Option<Instant>,
}

impl std::fmt::Debug for Called {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Called").field("cookie", &self.cookie).finish_non_exhaustive()
    }
}

/// Where the parts of a datagram go in the program's memory.
struct Wanted {
    pieces: Vec<(u64, usize)>,
    flags: i32,
    /// Where the source goes, and where its length is.
    name: (u64, u64),
    message: Option<Message>,
    /// Where `recvmmsg` wants the length; it returns the number of messages instead.
    length_at: Option<u64>,
}

impl Supervisor {
    /// `recvfrom`, `recvmsg` or `recvmmsg`, of which only one message is taken: a program must expect
    /// fewer than it asks for.
    pub(in super::super) fn on_receive(&mut self, trap: &Trap) -> Option<Answer> {
        let Some(wanted) = self.wanted(trap).filter(is_for_us) else {
            return Some(Answer::Continue);
        };
        let Some(called) = self.called(trap) else { return Some(Answer::Continue) };
        let socket = SockRef::from(&called.socket);
        let waits = wanted.flags & libc::MSG_DONTWAIT == 0 && !socket.nonblocking().unwrap_or(true);
        if !waits && !self.datagrams.flows.values().any(|flow| flow.cookie == called.cookie) {
            return Some(Answer::Continue);
        }
        let limit = socket.read_timeout().ok().flatten();
        match self.receive_datagram(trap, &called, &wanted) {
            None if waits => {
                let until = limit.map(|limit| Instant::now() + limit);
                self.datagrams.receives.retain(|held| held.trap.thread != trap.thread);
                self.datagrams.receives.push(HeldReceive { trap: trap.clone(), called, until });
                None
            }
            None => Some(Answer::Error(libc::EAGAIN)),
            answer => answer,
        }
    }

    fn wanted(&self, trap: &Trap) -> Option<Wanted> {
        let [_, at, second, third, name, name_length] = trap.args;
        if trap.call == self.numbers.recvfrom {
            let pieces = vec![(at, usize::try_from(second).unwrap_or(usize::MAX))];
            let (flags, name) = (third as i32, (name, name_length));
            return Some(Wanted { pieces, flags, name, message: None, length_at: None });
        }
        let many = trap.call == self.numbers.recvmmsg;
        let message = Message::read(&trap.memory, at).ok()?;
        let length_at = at + mem::offset_of!(libc::msghdr, msg_namelen) as u64;
        let count_at = at + mem::offset_of!(libc::mmsghdr, msg_len) as u64;
        Some(Wanted {
            pieces: message.header.pieces.clone(),
            flags: if many { third as i32 } else { second as i32 },
            name: (message.header.address, length_at),
            message: Some(message),
            length_at: many.then_some(count_at),
        })
    }

    /// `None` when nothing has come.
    fn receive_datagram(&self, trap: &Trap, called: &Called, wanted: &Wanted) -> Option<Answer> {
        let room = wanted.pieces.iter().map(|(_, length)| *length).fold(0, usize::saturating_add);
        let control = wanted.message.as_ref().map_or(0, Message::control_room);
        let received = system::receive(called.socket.as_fd(), wanted.flags, room, control);
        match received {
            Ok(received) => Some(match self.hand_over(trap, called, wanted, received) {
                Ok(value) => Answer::Value(value),
                Err(error) => Answer::Error(error.raw_os_error().unwrap_or(libc::EFAULT)),
            }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => Some(Answer::Error(error.raw_os_error().unwrap_or(libc::EIO))),
        }
    }

    fn hand_over(
        &self,
        trap: &Trap,
        called: &Called,
        wanted: &Wanted,
        mut received: system::Received,
    ) -> io::Result<i64> {
        let memory = &trap.memory;
        if let Some(source) = received.source {
            let relay = address::unmapped(source);
            let flow = self.datagrams.by_relay.get(&(called.cookie, relay));
            let flow = flow.and_then(|id| self.datagrams.flows.get(id));
            if let Some(Phase::Carried { local, .. }) = flow.map(|flow| &flow.phase) {
                with_local(&mut received.control, *local);
            }
            let told = self.datagrams.behind(called.cookie, relay);
            let name = told.map_or_else(
                || address::emit(source, called.v6),
                |destination| address::emit(destination, called.v6),
            );
            cut_name_at(memory, wanted.name, &name).map_err(io::Error::from_raw_os_error)?;
        }
        scatter(memory, &wanted.pieces, &received.bytes)?;
        if let Some(message) = &wanted.message {
            message.write_back(memory, &received.control, received.flags)?;
        }
        let Some(at) = wanted.length_at else { return Ok(received.length as i64) };
        memory.write_int(at, received.length as i32)?;
        Ok(1)
    }

    /// What to poll for.
    pub(crate) fn datagram_interests(&self) -> impl Iterator<Item = pollfd> {
        self.datagrams.receives.iter().map(|held| pollfd {
            fd: held.called.socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
    }

    /// Gives calls that wait what has come for them.
    pub(crate) fn handle_receives(&mut self) {
        let now = Instant::now();
        for held in mem::take(&mut self.datagrams.receives) {
            if !self.listener.is_waiting(held.trap.id) {
                continue;
            }
            let ready = socket::ready(held.called.socket.as_fd(), libc::POLLIN) != 0;
            let wanted = if ready { self.wanted(&held.trap) } else { None };
            let answer = wanted.and_then(|w| self.receive_datagram(&held.trap, &held.called, &w));
            let over = held.until.is_some_and(|until| until <= now);
            match answer.or_else(|| over.then_some(Answer::Error(libc::EAGAIN))) {
                Some(answer) => {
                    let HeldReceive { trap, called, .. } = held;
                    // Our copy is closed before the program runs on.
                    drop(called);
                    self.answer(&trap, answer);
                }
                None => self.datagrams.receives.push(held),
            }
        }
    }
}

/// Whether an address is asked for; errors are told by the kernel alone.
fn is_for_us(wanted: &Wanted) -> bool {
    wanted.name.0 != 0 && wanted.name.1 != 0 && wanted.flags & libc::MSG_ERRQUEUE == 0
}
