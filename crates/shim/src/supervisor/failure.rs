//! The ends of attempts: errors, plain TCP, nobody left to tell.

use super::Supervisor;
use super::completion::own_name;
use crate::only_sctp;
use crate::seccomp::Answer;
use crate::socket;
use crate::table::{Caller, Connection, Phase};
use manypath_control::Request;
use std::net::SocketAddr;
use std::os::fd::AsFd;

impl Supervisor {
    /// Answers a waiting call; false when nobody waits any more. Our copy of the socket is closed
    /// before the program runs on: what it closes then is closed, and its port is free.
    pub(super) fn tell(&self, mut caller: Caller, answer: Answer) -> bool {
        let trap = caller.trap.take();
        drop(caller);
        trap.is_some_and(|trap| self.answer(&trap, answer))
    }

    /// Gives the connection's place at its gate back.
    pub(super) fn release(&mut self, connection: &mut Connection) {
        connection.local = connection.local.or_else(|| own_name(connection));
        if let Some(held) = connection.held.take() {
            self.gates.leave(held.gate);
        }
    }

    /// The error of a connect that would be left to the kernel, if a rule forbids plain TCP.
    pub(super) fn errno_instead_of_tcp(
        &mut self,
        destination: SocketAddr,
        reason: &'static str,
    ) -> Option<i32> {
        only_sctp::errno_of(reason).filter(|_| self.only_sctp.holds_for(destination))
    }

    /// An untouched socket goes on as plain TCP, or fails where a rule forbids that.
    pub(super) fn fall_back(
        &mut self,
        connection: Connection,
        reason: &'static str,
    ) -> Option<Connection> {
        if let Some(errno) = self.errno_instead_of_tcp(connection.destination, reason) {
            self.report.refuse(reason);
            return self.refuse(connection, errno);
        }
        self.report.leave_to(connection.destination, reason);
        self.leave_to_kernel(connection);
        None
    }

    /// The program's own socket goes on as plain TCP. Our copies are closed before the program runs
    /// on: while one is open, a socket that the program closes stays in its epoll sets.
    pub(super) fn leave_to_kernel(&self, connection: Connection) {
        let Connection { callers, destination, v6_socket, .. } = connection;
        let mut waiting = Vec::new();
        for caller in callers {
            if let Some(trap) = caller.trap {
                waiting.push(trap.id);
            } else {
                // Interrupted connects go on in the background. Should it fail at once, the
                // program finds an unconnected socket, as after an interrupted failure.
                let _ = socket::connect(caller.socket.as_fd(), destination, v6_socket);
            }
        }
        for id in waiting {
            // A caller that was killed meanwhile needs no answer.
            let _ = self.listener.answer(id, Answer::Continue);
        }
    }

    /// An untouched socket fails: those who wait hear why.
    pub(super) fn refuse(&mut self, connection: Connection, errno: i32) -> Option<Connection> {
        if connection.callers.iter().all(|caller| caller.trap.is_some()) {
            for caller in connection.callers {
                self.tell(caller, Answer::Error(errno));
            }
            return None;
        }
        // Nobody waits in a call, so the socket itself must show the failure.
        let held = self.hold(connection)?;
        self.fail_held(held, errno)
    }

    /// A socket at the gate fails with `errno`: it is reset, and the calls that fetch its error
    /// are answered with the true one.
    /// One who waits fetches it at once, which makes the socket fresh again.
    pub(super) fn fail_held(
        &mut self,
        mut connection: Connection,
        errno: i32,
    ) -> Option<Connection> {
        // Closes a far end that may already be connected; its linger setting makes that a reset.
        connection.phase = Phase::Failed { errno };
        if let Some(held) = connection.held {
            // It fails when the program has closed the socket: then there is nothing to reset.
            let _ = self.gates.reset(held.gate, held.own);
        }
        self.release(&mut connection);
        let mut fetched = false;
        for caller in std::mem::take(&mut connection.callers) {
            let answer = failure_answer(&connection, errno, &caller);
            fetched |= answer != Answer::Continue;
            self.tell(caller, answer);
        }
        (!fetched).then_some(connection)
    }

    /// Connect on a socket that has failed. It tells the error once and makes the socket fresh.
    pub(super) fn fetch_failure(
        &mut self,
        connection: Connection,
        errno: i32,
        caller: &Caller,
    ) -> Answer {
        let answer = failure_answer(&connection, errno, caller);
        if answer == Answer::Continue {
            self.table.put(connection);
        }
        answer
    }

    /// The program has dissolved the connection.
    pub(super) fn abandon(&mut self, mut connection: Connection) {
        match connection.phase {
            Phase::Active | Phase::Failed { .. } | Phase::Closed => {}
            Phase::Asking { .. } | Phase::Deciding | Phase::Held | Phase::Joining(_) => {
                self.stack.send(Request::Cancel { id: connection.id }, None);
                self.report.given_up += 1;
            }
        }
        self.release(&mut connection);
        for caller in connection.callers {
            self.tell(caller, Answer::Error(libc::ECONNABORTED));
        }
    }

    /// The stack is gone. What it relayed is reset by its death; everything else goes on without.
    pub(super) fn on_stack_lost(&mut self) {
        self.report.stack_lost = true;
        self.drop_questions();
        self.on_stack_lost_by_datagrams();
        for id in self.table.ids() {
            self.update(id, |this, mut connection| {
                match connection.phase {
                    Phase::Asking { .. } | Phase::Deciding => {
                        return this.fall_back(connection, "stack-lost");
                    }
                    Phase::Held | Phase::Joining(_) => {
                        this.report.failed += 1;
                        return this.fail_held(connection, libc::ECONNABORTED);
                    }
                    Phase::Active => {
                        this.release(&mut connection);
                        connection.phase = Phase::Closed;
                    }
                    Phase::Failed { .. } | Phase::Closed => {}
                }
                Some(connection)
            });
        }
    }
}

/// Lets the kernel settle the reset socket and puts the true error in place of the reset.
fn failure_answer(connection: &Connection, errno: i32, caller: &Caller) -> Answer {
    if socket::is_fresh(caller.socket.as_fd()) {
        // Another thread that waited was first; the kernel tells the later ones no more.
        return Answer::Error(libc::ECONNABORTED);
    }
    let to = connection.destination;
    match socket::connect(caller.socket.as_fd(), to, connection.v6_socket) {
        Err(e) if e.raw_os_error() == Some(libc::ECONNRESET) => Answer::Error(errno),
        // The program has fetched the error in another way before.
        Err(e) if e.raw_os_error() == Some(libc::ECONNABORTED) => Answer::Error(libc::ECONNABORTED),
        // The reset is still under way.
        Ok(()) | Err(_) => Answer::Continue,
    }
}
