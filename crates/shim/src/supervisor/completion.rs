//! Joining a program's socket with its far end.

use super::Supervisor;
use crate::seccomp::Answer;
use crate::socket;
use crate::table::{Caller, Connection, Held, Phase, Purpose};
use manypath_control::{Request, Transport};
use manypath_gate::join::{Join, Step, outcome};
use socket2::Socket;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Instant;

impl Supervisor {
    /// Connects the program's socket to a gate. Returns where it waits; `None` when nobody has the socket.
    pub(super) fn enter_gate(&mut self, connection: &Connection) -> Option<io::Result<Held>> {
        let socket = connection.callers.first()?.socket.as_fd();
        let v6 = connection.destination.is_ipv6();
        let connect = |to| socket::connect(socket, to, connection.v6_socket);
        let gate = match self.gates.enter(v6, false, connect) {
            // No port is left towards the gates there are.
            Err(e) if e.raw_os_error() == Some(libc::EADDRNOTAVAIL) => {
                self.gates.enter(v6, true, connect)
            }
            other => other,
        };
        socket::keep_little_unsent(socket);
        Some(gate.and_then(|gate| Ok(Held { gate, own: socket::local(socket)? })))
    }

    /// Connects a far end to the socket that waits at the gate. The destination has accepted.
    pub(super) fn complete(&mut self, connection: Connection, tries: u32) -> Option<Connection> {
        let held = connection.held?;
        let far = self.gates.open(held.gate, held.own);
        self.on_join(connection, Join::begin(far, tries, outcome, Instant::now()))
    }

    /// Looks at the far ends that have become ready.
    pub(crate) fn handle_far_ends(&mut self, ready: Vec<u64>) {
        for id in ready {
            self.update(id, Self::check_far);
        }
    }

    fn check_far(&mut self, connection: Connection) -> Option<Connection> {
        let Phase::Joining(join) = connection.phase else { return Some(connection) };
        let step = join.go_on(outcome, Instant::now());
        self.on_join(Connection { phase: Phase::Held, ..connection }, step)
    }

    fn on_join(&mut self, mut connection: Connection, step: Step) -> Option<Connection> {
        match step {
            Step::Wait(join) => {
                connection.phase = Phase::Joining(join);
                Some(connection)
            }
            Step::Joined(far) => self.attach(connection, far),
            Step::GivenUp => {
                self.stack.send(Request::Cancel { id: connection.id }, None);
                self.report.given_up += 1;
                self.fail_held(connection, libc::ECONNABORTED)
            }
        }
    }

    fn attach(&mut self, mut connection: Connection, far: Socket) -> Option<Connection> {
        connection.phase = Phase::Active;
        match connection.transport {
            Some(Transport::Sctp) => self.report.sctp += 1,
            Some(Transport::TcpRelay) | None => self.report.tcp_relay += 1,
        }
        // The program first: its socket is joined, and keeps what it writes until the stack has the far end, or is
        // reset where the stack ends before.
        for caller in std::mem::take(&mut connection.callers) {
            let answer = self.completed_answer(&caller, &connection);
            self.tell(caller, answer);
        }
        self.stack.attach(connection.id, far, connection.options);
        Some(connection)
    }

    /// The socket is connected: a waiting connect goes on in the kernel, which returns success
    /// and settles the socket's state; a waiting send gets its bytes sent.
    fn completed_answer(&self, caller: &Caller, connection: &Connection) -> Answer {
        match (&caller.purpose, &caller.trap) {
            (Purpose::Send(payload), Some(trap)) => {
                // Takes the success that a connect would have taken.
                let to = connection.destination;
                let _ = socket::connect(caller.socket.as_fd(), to, connection.v6_socket);
                self.send_payload(trap, caller, payload)
            }
            (Purpose::Connect | Purpose::Send(_), _) => Answer::Continue,
        }
    }
}

/// The address that a socket at a gate would have had on its own.
pub(super) fn own_name(connection: &Connection) -> Option<SocketAddr> {
    let own = connection.held?.own;
    let bound = connection.source.map(|source| source.ip());
    let routed = || socket::route_source(connection.destination).map_or(own.ip(), |a| a.ip());
    Some(SocketAddr::new(bound.unwrap_or_else(routed), own.port()))
}
