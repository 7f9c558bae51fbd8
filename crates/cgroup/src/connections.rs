//! The sockets that wait at the gate, and those that have left it.

use crate::layout::Connecting;
use manypath_control::Transport;
use manypath_gate::gate::GateId;
use socket2::Socket;
use std::collections::BTreeMap;
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

/// How far a connect has come.
#[derive(Debug)]
pub(crate) enum Phase {
    /// The stack was asked and has not answered.
    Asking { until: Instant },
    /// The stack is at work.
    Held,
    /// The destination has accepted; our far end is being connected to the socket.
    Completing { far: Socket },
    /// As `Completing`, but the kernel must first forget an earlier connection of these ports.
    Delayed { until: Instant, tries: u32 },
    /// The stack relays the connection.
    Active,
}

/// All connections, by the identity that the stack knows.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    by_id: BTreeMap<u64, Connection>,
    /// Of those that are not active yet.
    by_cookie: BTreeMap<u64, u64>,
    last: u64,
}

impl Connections {
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(crate) fn take(&mut self, id: u64) -> Option<Connection> {
        let connection = self.by_id.remove(&id)?;
        if self.by_cookie.get(&connection.of.cookie) == Some(&id) {
            self.by_cookie.remove(&connection.of.cookie);
        }
        Some(connection)
    }

    pub(crate) fn put(&mut self, id: u64, connection: Connection) {
        if !matches!(connection.phase, Phase::Active) {
            self.by_cookie.insert(connection.of.cookie, id);
        }
        self.by_id.insert(id, connection);
    }

    /// The connect of a socket that was not decided yet.
    pub(crate) fn undecided(&self, cookie: u64) -> Option<u64> {
        self.by_cookie.get(&cookie).copied()
    }

    /// Those that are not active.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (u64, &Connection)> {
        self.by_cookie.values().filter_map(|id| Some((*id, self.by_id.get(id)?)))
    }

    pub(crate) fn phase(&self, id: u64) -> Option<&Phase> {
        self.by_id.get(&id).map(|connection| &connection.phase)
    }
}
