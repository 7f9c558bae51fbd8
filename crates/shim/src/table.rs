//! The program's connections that the launcher knows, by socket and by open.

use crate::gate::GateId;
use crate::trap::Trap;
use libc::pollfd;
use manypath_control::{SocketOptions, Transport};
use manypath_gate::join::Join;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Instant;

/// Connections that are over and are remembered for a while, because the program may still ask
/// for their addresses or their error. Nobody tells when a program closes a socket.
const REMEMBERED: usize = 1024;

/// One connect of one of the program's sockets.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The open's identity towards the stack.
    pub(crate) id: u64,
    /// The socket's identity.
    pub(crate) cookie: u64,
    /// Whether the socket is of the IPv6 family.
    pub(crate) v6_socket: bool,
    /// Where the program wants to go.
    pub(crate) destination: SocketAddr,
    /// Where the program has bound the socket.
    pub(crate) source: Option<SocketAddr>,
    pub(crate) phase: Phase,
    /// Threads of the program that wait inside a call.
    pub(crate) callers: Vec<Caller>,
    /// Where the socket waits, or did until it was connected.
    pub(crate) held: Option<Held>,
    /// What `getsockname` tells, once that is decided; until then the address that it would have had on its own.
    pub(crate) local: Option<SocketAddr>,
    /// What `getpeername` tells.
    pub(crate) peer: SocketAddr,
    /// What carries the bytes, once that is decided.
    pub(crate) transport: Option<Transport>,
    /// A non-blocking connect was begun, but its caller was interrupted before it heard so; its
    /// repetition shall hear `EINPROGRESS`, not `EALREADY`.
    pub(crate) unheard: bool,
    /// Options of its socket, as far as they mean something to the stack.
    pub(crate) options: SocketOptions,
}

/// How far a connect has come.
#[derive(Debug)]
pub(crate) enum Phase {
    /// The stack was asked and has not answered. The program's socket is untouched.
    Asking { until: Instant },
    /// The stack is at work; the program's thread waits and its socket is untouched.
    Deciding,
    /// The socket waits at a gate.
    Held,
    /// The destination has accepted; our far end is being connected to the socket.
    Joining(Join),
    /// The stack relays the connection.
    Active,
    /// The socket was reset, and this is the error the program shall see.
    Failed { errno: i32 },
    /// Over in both directions.
    Closed,
}

/// A socket at a gate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) gate: GateId,
    /// The socket's true address, on loopback.
    pub(crate) own: SocketAddr,
}

/// A thread of the program that waits inside a call. A thread blocked in `connect` keeps the
/// socket open whatever its process does, and so does this copy.
#[derive(Debug)]
pub(crate) struct Caller {
    /// The trapped call; `None` when it was interrupted and only its effect goes on.
    pub(crate) trap: Option<Trap>,
    pub(crate) thread: libc::pid_t,
    /// The socket's number in the program.
    pub(crate) fd: RawFd,
    pub(crate) socket: OwnedFd,
    /// Whether the call waits for the outcome.
    pub(crate) blocking: bool,
    /// When a blocking call stops waiting (`SO_SNDTIMEO`).
    pub(crate) until: Option<Instant>,
    pub(crate) purpose: Purpose,
}

/// What a caller wants besides the connection.
#[derive(Debug, Clone)]
pub(crate) enum Purpose {
    Connect,
    /// Bytes to send, from a call with `MSG_FASTOPEN`.
    Send(Payload),
}

/// Bytes in the program's memory that wait to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Payload {
    /// Address and length of each piece.
    pub(crate) pieces: Vec<(u64, usize)>,
    /// The call's flags.
    pub(crate) flags: i32,
    /// Where `sendmmsg` wants the count; it returns the number of messages instead.
    pub(crate) count_at: Option<u64>,
}

impl Connection {
    /// Whether time alone may change it.
    fn needs_clock(&self) -> bool {
        match self.phase {
            Phase::Asking { .. } | Phase::Deciding | Phase::Joining(Join::Delayed { .. }) => true,
            Phase::Held | Phase::Joining(Join::Connecting { .. }) => !self.callers.is_empty(),
            Phase::Active | Phase::Failed { .. } | Phase::Closed => false,
        }
    }

    /// Whether only its memory is left.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Failed { .. } | Phase::Closed)
    }
}

/// All known connections.
#[derive(Debug, Default)]
pub(crate) struct Table {
    by_id: BTreeMap<u64, Connection>,
    by_cookie: BTreeMap<u64, u64>,
    clocked: BTreeSet<u64>,
    completing: BTreeSet<u64>,
    over: VecDeque<u64>,
    failed: usize,
}

impl Table {
    /// Takes a connection out, to be changed and put back.
    pub(crate) fn take(&mut self, id: u64) -> Option<Connection> {
        let connection = self.by_id.remove(&id)?;
        self.by_cookie.remove(&connection.cookie);
        self.clocked.remove(&id);
        self.completing.remove(&id);
        self.failed -= usize::from(matches!(connection.phase, Phase::Failed { .. }));
        Some(connection)
    }

    /// Puts a connection in; forgets the one that has been over for longest, if there are many.
    pub(crate) fn put(&mut self, connection: Connection) {
        let id = connection.id;
        if connection.needs_clock() {
            self.clocked.insert(id);
        }
        if matches!(connection.phase, Phase::Joining(Join::Connecting { .. })) {
            self.completing.insert(id);
        }
        self.failed += usize::from(matches!(connection.phase, Phase::Failed { .. }));
        let over = connection.is_over();
        self.by_cookie.insert(connection.cookie, id);
        self.by_id.insert(id, connection);
        if over {
            self.remember(id);
        }
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Connection> {
        self.by_id.get(&id)
    }

    pub(crate) fn of_socket(&self, cookie: u64) -> Option<&Connection> {
        self.get(*self.by_cookie.get(&cookie)?)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Whether any connection is being relayed.
    pub(crate) fn has_active(&self) -> bool {
        self.by_id.values().any(|connection| matches!(connection.phase, Phase::Active))
    }

    /// Whether any connection waits to have its error fetched.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed > 0
    }

    /// Whether time alone may change any connection.
    pub(crate) fn needs_clock(&self) -> bool {
        !self.clocked.is_empty()
    }

    /// The connections that time alone may change.
    pub(crate) fn clocked(&self) -> Vec<u64> {
        self.clocked.iter().copied().collect()
    }

    /// The connections whose far end is being connected, and what to poll for.
    pub(crate) fn completing(&self) -> impl Iterator<Item = (u64, pollfd)> {
        self.completing.iter().filter_map(|&id| {
            let Phase::Joining(Join::Connecting { far, .. }) = &self.get(id)?.phase else {
                return None;
            };
            Some((id, pollfd { fd: far.as_raw_fd(), events: libc::POLLOUT, revents: 0 }))
        })
    }

    /// All connections.
    pub(crate) fn ids(&self) -> Vec<u64> {
        self.by_id.keys().copied().collect()
    }

    fn remember(&mut self, id: u64) {
        // Failed first, closed or fetched later: such an identity stands here twice, harmlessly.
        self.over.push_back(id);
        while self.over.len() > REMEMBERED {
            let oldest = self.over.pop_front();
            if let Some(oldest) = oldest
                && oldest != id
                && self.get(oldest).is_some_and(Connection::is_over)
            {
                self.take(oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests;
