//! The calls that ask for addresses and for the pending error.

use super::Supervisor;
use super::completion::own_name;
use super::questions::Asked;
use crate::address;
use crate::machine;
use crate::memory::Memory;
use crate::seccomp::{Answer, Notification};
use crate::socket;
use crate::table::{Connection, Phase};
use crate::trap::Trap;
use socket2::SockRef;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};

impl Supervisor {
    pub(super) fn on_getpeername(&self, trap: &Trap) -> Answer {
        let Some((cookie, socket)) = self.asked_socket(trap) else { return Answer::Continue };
        if let Some((_, peer, v6)) = self.datagrams.names(cookie) {
            return give_name(trap, &address::emit(peer, v6));
        }
        let connected = self.table.of_socket(cookie).map(|known| (known.peer, known.v6_socket));
        let Some((peer, v6_socket)) = connected.or_else(|| self.accepts.peer_of(cookie)) else {
            return Answer::Continue;
        };
        // Whether there is a peer at all is for the kernel to say.
        if SockRef::from(&socket).peer_addr().is_err() {
            return Answer::Continue;
        }
        give_name(trap, &address::emit(peer, v6_socket))
    }

    pub(super) fn on_getsockname(&self, trap: &Trap) -> Answer {
        let Some((cookie, _socket)) = self.asked_socket(trap) else { return Answer::Continue };
        if let Some((own, _, v6)) = self.datagrams.names(cookie) {
            return give_name(trap, &address::emit(own, v6));
        }
        let Some(connection) = self.table.of_socket(cookie) else { return Answer::Continue };
        let local = connection.local.or_else(|| own_name(connection));
        let Some(local) = local else { return Answer::Continue };
        let name = address::emit(local, connection.v6_socket);
        give_name(trap, &name)
    }

    /// The filter lets only the options through that are told apart here.
    pub(super) fn on_getsockopt(&mut self, trap: &Trap) -> Option<Answer> {
        match (trap.args[1] as i32, trap.args[2] as i32) {
            // A launcher below this one wants to know who listens.
            (libc::SOL_SOCKET, libc::SO_ERROR) if machine::is_question(&trap.args) => {
                Some(Answer::Value(machine::SIGNATURE))
            }
            (libc::SOL_SOCKET, libc::SO_ERROR) => Some(self.on_pending_error(trap)),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => self.ask(trap, Asked::ReceiveBuffer),
            (libc::IPPROTO_TCP, libc::TCP_INFO) => self.ask(trap, Asked::Info),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => self.ask(trap, Asked::Segment),
            _ => Some(Answer::Continue),
        }
    }

    /// Whether a call asks for the error of a socket while none has another than the kernel knows. Programs that connect
    /// without blocking ask for each connection, some of them twice.
    pub(super) fn is_for_the_kernel(&self, call: &Notification) -> bool {
        let numbers = &self.numbers;
        let asks = numbers.is_native(call.arch, call.call) && call.call == numbers.getsockopt;
        let error =
            (call.args[1] as i32, call.args[2] as i32) == (libc::SOL_SOCKET, libc::SO_ERROR);
        let known = self.table.has_failed() || machine::is_question(&call.args);
        asks && error && !known && self.descriptors.handover().is_none()
    }

    /// `getsockopt(SO_ERROR)`: a socket that we reset shows the true reason instead. Fetching it
    /// takes it away, and with it all that the kernel does not know.
    fn on_pending_error(&mut self, trap: &Trap) -> Answer {
        if !self.table.has_failed() {
            return Answer::Continue;
        }
        let Some((connection, socket)) = self.asked(trap) else { return Answer::Continue };
        let (id, Phase::Failed { errno }) = (connection.id, &connection.phase) else {
            return Answer::Continue;
        };
        let errno = *errno;
        let length = match trap.memory.read_int(trap.args[4]) {
            Ok(length) if length >= 0 => length.min(4),
            _ => return Answer::Continue,
        };
        if socket::take_error(socket.as_fd()) == 0 {
            return Answer::Continue;
        }
        self.table.take(id);
        let value = errno.to_ne_bytes();
        give(trap, trap.args[3], trap.args[4], &value, length)
    }

    /// The connection that the call asks about, if it is one of ours.
    pub(super) fn asked(&self, trap: &Trap) -> Option<(&Connection, OwnedFd)> {
        if self.table.is_empty() {
            return None;
        }
        let (cookie, socket) = self.asked_socket(trap)?;
        self.table.of_socket(cookie).map(|connection| (connection, socket))
    }

    /// The socket that the call asks about, and its cookie, if there are any of ours.
    pub(super) fn asked_socket(&self, trap: &Trap) -> Option<(u64, OwnedFd)> {
        if self.table.is_empty() && self.datagrams.is_empty() && !self.accepts.has_served() {
            return None;
        }
        let socket = self.descriptors.of(trap.thread, trap.args[0] as RawFd).ok()?;
        let cookie = socket::cookie(socket.as_fd()).ok()?;
        self.listener.is_waiting(trap.id).then_some((cookie, socket))
    }
}

fn give_name(trap: &Trap, name: &[u8]) -> Answer {
    match cut_name(trap, name) {
        Ok(()) => Answer::Value(0),
        // The kernel knows the right error.
        Err(libc::EINVAL) => Answer::Continue,
        Err(errno) => Answer::Error(errno),
    }
}

/// Writes an address where the call wants it, as the kernel does: cut to the room there is, with the
/// true length.
///
/// # Errors
/// `EINVAL` when the room is negative or cannot be read, `EFAULT` when it cannot be written.
pub(crate) fn cut_name(trap: &Trap, name: &[u8]) -> Result<(), i32> {
    cut_name_at(&trap.memory, (trap.args[1], trap.args[2]), name)
}

/// The same, to an address and a length that are somewhere else.
pub(super) fn cut_name_at(
    memory: &Memory,
    (to, length_at): (u64, u64),
    name: &[u8],
) -> Result<(), i32> {
    let room = memory.read_int(length_at).map_err(|_| libc::EINVAL)?;
    let length = name.len() as i32;
    let cut = usize::try_from(room.min(length)).map_err(|_| libc::EINVAL)?;
    memory.write(to, name.get(..cut).unwrap_or_default()).map_err(|_| libc::EFAULT)?;
    match room == length {
        true => Ok(()),
        false => memory.write_int(length_at, length).map_err(|_| libc::EFAULT),
    }
}

pub(super) fn give(trap: &Trap, to: u64, length_at: u64, value: &[u8], length: i32) -> Answer {
    let written = value.get(..length as usize).unwrap_or_default();
    answer(trap.memory.write_int(length_at, length).and_then(|()| trap.memory.write(to, written)))
}

fn answer(written: io::Result<()>) -> Answer {
    match written {
        Ok(()) => Answer::Value(0),
        Err(_) => Answer::Error(libc::EFAULT),
    }
}
