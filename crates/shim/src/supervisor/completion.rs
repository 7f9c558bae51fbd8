//! Joining a program's socket with its far end.

use super::Supervisor;
use crate::seccomp::Answer;
use crate::socket;
use crate::table::{Caller, Connection, Held, Phase, Purpose};
use manypath_control::{Request, SocketOptions, Transport};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The kernel forgets a loopback connection of the same ports within a second.
const RETRY: Duration = Duration::from_millis(100);
const MAX_TRIES: u32 = 20;

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
    pub(super) fn complete(
        &mut self,
        mut connection: Connection,
        tries: u32,
    ) -> Option<Connection> {
        let held = connection.held?;
        match self.gates.open(held.gate, held.own) {
            Ok(far) => {
                connection.phase = Phase::Completing { far };
                self.check_far(connection)
            }
            Err(e) => self.far_failed(connection, e.raw_os_error().unwrap_or(0), tries),
        }
    }

    /// Looks at the far ends that have become ready.
    pub(crate) fn handle_far_ends(&mut self, ready: Vec<u64>) {
        for id in ready {
            self.update(id, Self::check_far);
        }
    }

    fn check_far(&mut self, connection: Connection) -> Option<Connection> {
        let Phase::Completing { far } = &connection.phase else { return Some(connection) };
        if socket::ready(far.as_fd(), libc::POLLOUT) == 0 {
            return Some(connection);
        }
        match socket::take_error(far.as_fd()) {
            0 => self.attach(connection),
            errno => self.far_failed(connection, errno, 0),
        }
    }

    fn attach(&mut self, mut connection: Connection) -> Option<Connection> {
        let phase = std::mem::replace(&mut connection.phase, Phase::Active);
        let Phase::Completing { far } = phase else { return Some(connection) };
        let (id, options) = (connection.id, connection.options);
        self.stack.send(Request::Attach { id }, Some(far.into()));
        if options != SocketOptions::default() {
            self.stack.send(Request::Options { id, options }, None);
        }
        match connection.transport {
            Some(Transport::Sctp) => self.report.sctp += 1,
            Some(Transport::TcpRelay) | None => self.report.tcp_relay += 1,
        }
        for caller in std::mem::take(&mut connection.callers) {
            let answer = self.completed_answer(&caller, &connection);
            self.tell(caller, answer);
        }
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

    fn far_failed(
        &mut self,
        mut connection: Connection,
        errno: i32,
        tries: u32,
    ) -> Option<Connection> {
        if errno == libc::EADDRNOTAVAIL && tries < MAX_TRIES {
            connection.phase = Phase::Delayed { until: Instant::now() + RETRY, tries: tries + 1 };
            return Some(connection);
        }
        // Most likely the program has closed the socket. If it has not, it must hear something.
        self.stack.send(Request::Cancel { id: connection.id }, None);
        self.report.given_up += 1;
        self.fail_held(connection, libc::ECONNABORTED)
    }
}

/// The address that a socket at a gate would have had on its own.
pub(super) fn own_name(connection: &Connection) -> Option<SocketAddr> {
    let own = connection.held?.own;
    let bound = connection.source.map(|source| source.ip());
    let routed = || socket::route_source(connection.destination).map_or(own.ip(), |a| a.ip());
    Some(SocketAddr::new(bound.unwrap_or_else(routed), own.port()))
}
