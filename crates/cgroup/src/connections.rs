//! The sockets that wait at the gate, and those that have left it.

use crate::layout::{Connecting, Setting};
use manypath_control::{SocketOptions, Transport};
use manypath_gate::gate::GateId;
use manypath_gate::join::Join;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// One connect of one of the programs' sockets.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) of: Connecting,
    pub(crate) gate: GateId,
    pub(crate) phase: Phase,
    /// What carries the bytes, once that is decided.
    pub(crate) transport: Option<Transport>,
}

impl Connection {
    /// Whether the host's egress policy keeps it from the stack, or has not been asked.
    pub(crate) const fn is_barred(&self) -> bool {
        matches!(self.phase, Phase::Barred { .. } | Phase::Unrouted { .. })
    }
}

/// How far a connect has come.
#[derive(Debug)]
pub(crate) enum Phase {
    /// The host's egress policy has no leave for it: a TCP connection of the program's identity meets that policy.
    Barred { own: OwnedFd },
    /// The route that it had when it began has gone. A SYN that was under way would be sent again; the egress policy
    /// cannot be asked without one. The next look, and the last.
    Unrouted { again: Instant, last: Instant },
    /// The stack was asked and has not answered.
    Asking { until: Instant },
    /// The stack is at work.
    Held,
    /// The destination has accepted; our far end is being connected to the socket.
    Joining(Join),
    /// The stack relays the connection.
    Active,
}

/// All connections, by the identity that the stack knows.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    by_id: BTreeMap<u64, Connection>,
    /// Of those that are not active yet.
    by_cookie: BTreeMap<u64, u64>,
    /// Of those that are.
    active: BTreeMap<u64, u64>,
    last: u64,
}

impl Connections {
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(crate) fn take(&mut self, id: u64) -> Option<Connection> {
        let connection = self.by_id.remove(&id)?;
        for numbers in [&mut self.by_cookie, &mut self.active] {
            if numbers.get(&connection.of.cookie) == Some(&id) {
                numbers.remove(&connection.of.cookie);
            }
        }
        Some(connection)
    }

    pub(crate) fn put(&mut self, id: u64, connection: Connection) {
        let numbers = match connection.phase {
            Phase::Active => &mut self.active,
            Phase::Barred { .. }
            | Phase::Unrouted { .. }
            | Phase::Asking { .. }
            | Phase::Held
            | Phase::Joining(_) => &mut self.by_cookie,
        };
        numbers.insert(connection.of.cookie, id);
        self.by_id.insert(id, connection);
    }

    /// The connect of a socket that was not decided yet.
    pub(crate) fn undecided(&self, cookie: u64) -> Option<u64> {
        self.by_cookie.get(&cookie).copied()
    }

    /// The last connect of a socket: not decided yet, or active.
    pub(crate) fn last_of(&self, cookie: u64) -> Option<&Connection> {
        let id = self.undecided(cookie).or_else(|| self.active.get(&cookie).copied())?;
        self.get(id)
    }

    /// Those that are not active.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (u64, &Connection)> {
        self.by_cookie.values().filter_map(|id| Some((*id, self.by_id.get(id)?)))
    }

    /// Whether the stack should have answered by now.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        let overdue =
            |one: &Connection| matches!(one.phase, Phase::Asking { until } if until <= now);
        self.waiting().any(|(_, one)| overdue(one))
    }

    /// Those at which it is time to look again.
    pub(crate) fn due(&self, now: Instant) -> Vec<u64> {
        let at = |one: &Connection| match one.phase {
            Phase::Joining(Join::Delayed { until: at, .. }) | Phase::Unrouted { again: at, .. } => {
                Some(at)
            }
            Phase::Barred { .. }
            | Phase::Asking { .. }
            | Phase::Held
            | Phase::Joining(Join::Connecting { .. })
            | Phase::Active => None,
        };
        let due = self.waiting().filter(|(_, one)| at(one).is_some_and(|at| at <= now));
        due.map(|(id, _)| id).collect()
    }

    /// Gives the stack until then for all that it was asked.
    pub(crate) fn extend(&mut self, limit: Instant) {
        for id in self.by_cookie.values() {
            if let Some(Phase::Asking { until }) = self.by_id.get_mut(id).map(|one| &mut one.phase)
            {
                *until = limit;
            }
        }
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Connection> {
        self.by_id.get(&id)
    }

    /// A socket has got an option. Its connection and all its options, if the stack has it already.
    pub(crate) fn set(&mut self, cookie: u64, setting: Setting) -> Option<(u64, SocketOptions)> {
        let active = self.active.get(&cookie).copied();
        let id = self.undecided(cookie).or(active)?;
        let connection = self.by_id.get_mut(&id)?;
        setting.put(&mut connection.of.options);
        (active == Some(id)).then_some((id, connection.of.options))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn phase(&self, id: u64) -> Option<&Phase> {
        self.get(id).map(|connection| &connection.phase)
    }
}
