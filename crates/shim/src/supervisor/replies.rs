//! What the stack says.

use super::Supervisor;
use super::completion::own_name;
use super::questions::Whose;
use crate::seccomp::Answer;
use crate::table::{Connection, Phase};
use manypath_control::status::FallbackReason;
use manypath_control::{Reply, Request, Transport};
use std::net::SocketAddr;
use std::time::Instant;

impl Supervisor {
    /// Takes what the stack has said since the last time, if it `has_news`; notices when it is gone.
    pub(crate) fn handle_stack(&mut self, has_news: bool) {
        while has_news && let Some(reply) = self.stack.receive() {
            self.on_reply(reply);
        }
        if self.stack.flush_and_is_lost() {
            self.on_stack_lost();
        }
    }

    fn on_reply(&mut self, reply: Reply) {
        match reply {
            Reply::Pending { id } => {
                self.on_datagrams_pending(id);
                self.update(id, Self::on_pending);
            }
            Reply::Direct { id, reason } => {
                if !self.on_datagrams_left(id, Ok(reason)) {
                    self.update(id, |t, c| t.on_direct(c, reason));
                }
            }
            Reply::Accepted { id, transport, local, peer } => {
                if !self.on_datagrams_accepted(id, local) {
                    self.update(id, |t, c| t.on_accepted(c, transport, local, peer));
                }
            }
            Reply::Plain { destination, .. } => self.ahead.end(destination),
            Reply::Unreachable { id } => self.on_datagrams_unreachable(id),
            Reply::Failed { id, errno } => {
                if !self.on_datagrams_left(id, Err(errno)) {
                    self.update(id, |t, c| t.on_failed(c, errno));
                }
            }
            Reply::Closed { id } => {
                if !self.on_datagrams_closed(id) {
                    self.update(id, Self::on_closed);
                }
            }
            Reply::Traffic(traffic) => self.on_traffic(traffic),
            Reply::Way { id, way } => self.on_way(Whose::Opened(id), way),
            // The link has looked at the welcome; status and rules are not asked for here, and
            // listeners are the business of another stack. The rest is said to redirectors.
            Reply::Welcome { .. }
            | Reply::Idle { .. }
            | Reply::Changed
            | Reply::StatusPart(_)
            | Reply::Offered { .. }
            | Reply::NotOffered { .. }
            | Reply::Arriving { .. }
            | Reply::WayFrom { .. }
            | Reply::Left { .. }
            | Reply::Gone { .. }
            | Reply::Look { .. }
            | Reply::Resigned
            | Reply::Reloaded { .. }
            | Reply::Forgotten { .. }
            | Reply::Watching
            | Reply::Path(_)
            | Reply::Lent { .. }
            | Reply::Refused { .. } => {}
        }
    }

    fn on_pending(&mut self, mut connection: Connection) -> Option<Connection> {
        if !matches!(connection.phase, Phase::Asking { .. }) {
            return Some(connection);
        }
        self.ahead.note_pending(connection.destination, Instant::now());
        if connection.callers.iter().any(|caller| caller.blocking) {
            connection.phase = Phase::Deciding;
            // The peer is being asked meanwhile. `hold` and `complete` say what keeps either from being made.
            let _ = self.gates.prepare(connection.destination.is_ipv6());
            return Some(connection);
        }
        self.hold(connection)
    }

    fn on_direct(&mut self, connection: Connection, reason: FallbackReason) -> Option<Connection> {
        match connection.phase {
            Phase::Asking { .. } | Phase::Deciding => {
                self.ahead.end(connection.destination);
                self.report.leave_to(connection.destination, reason.name());
                self.leave_to_kernel(connection);
                None
            }
            // Too late: the program's socket is committed. The stack knows that.
            Phase::Held | Phase::Joining(_) => self.fail_held(connection, libc::ECONNABORTED),
            Phase::Active | Phase::Failed { .. } | Phase::Closed => Some(connection),
        }
    }

    fn on_accepted(
        &mut self,
        mut connection: Connection,
        transport: Transport,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Option<Connection> {
        if matches!(connection.phase, Phase::Asking { .. } | Phase::Deciding) {
            connection = self.hold(connection)?;
        }
        if !matches!(connection.phase, Phase::Held) {
            return Some(connection);
        }
        connection.transport = Some(transport);
        connection.peer = peer;
        connection.local = Some(completed(local, &connection));
        self.complete(connection, 0)
    }

    fn on_failed(&mut self, connection: Connection, errno: i32) -> Option<Connection> {
        match connection.phase {
            Phase::Asking { .. } | Phase::Deciding => {
                self.report.failed += 1;
                self.refuse(connection, errno)
            }
            Phase::Held | Phase::Joining(_) => {
                self.report.failed += 1;
                self.fail_held(connection, errno)
            }
            // The stack has reset it while it was handed over.
            Phase::Active => self.on_closed(connection),
            Phase::Failed { .. } | Phase::Closed => Some(connection),
        }
    }

    fn on_closed(&mut self, mut connection: Connection) -> Option<Connection> {
        match connection.phase {
            Phase::Active => {
                self.release(&mut connection);
                connection.phase = Phase::Closed;
                Some(connection)
            }
            // Nothing to close yet: the stack has lost it.
            Phase::Asking { .. } | Phase::Deciding => self.refuse(connection, libc::ECONNABORTED),
            Phase::Held | Phase::Joining(_) => self.fail_held(connection, libc::ECONNABORTED),
            Phase::Failed { .. } | Phase::Closed => Some(connection),
        }
    }

    /// As [`Self::fall_back`], where a socket cannot be made to fail either.
    fn leave_without_gate(&mut self, connection: Connection) {
        match self.errno_instead_of_tcp(connection.destination, "no-gate") {
            Some(errno) => {
                self.report.refuse("no-gate");
                for caller in connection.callers {
                    self.tell(caller, Answer::Error(errno));
                }
            }
            None => {
                self.report.leave_to(connection.destination, "no-gate");
                self.leave_to_kernel(connection);
            }
        }
    }

    /// Puts the undecided socket into the gate and tells those who do not wait.
    pub(super) fn hold(&mut self, mut connection: Connection) -> Option<Connection> {
        let Some(Ok(held)) = self.enter_gate(&connection) else {
            self.stack.send(Request::Cancel { id: connection.id }, None);
            self.leave_without_gate(connection);
            return None;
        };
        connection.held = Some(held);
        connection.phase = Phase::Held;
        let (waiting, told) = connection.callers.into_iter().partition(|c| c.blocking);
        connection.callers = waiting;
        for caller in told {
            let trapped = caller.trap.is_some();
            let heard = self.tell(caller, Answer::Error(libc::EINPROGRESS));
            connection.unheard |= trapped && !heard;
        }
        Some(connection)
    }
}

/// The address that the program shall see as its own, where the stack leaves parts of it open.
fn completed(mut told: SocketAddr, connection: &Connection) -> SocketAddr {
    if told.ip().is_unspecified()
        && let Some(ours) = own_name(connection)
    {
        told.set_ip(ours.ip());
    }
    if told.port() == 0
        && let Some(held) = connection.held
    {
        told.set_port(held.own.port());
    }
    told
}
