//! Back to plain UDP: the peer does not carry datagrams, or the stack is gone, or the program connects
//! its socket to something else.

use super::super::Supervisor;
use super::{Flow, Phase, system};
use crate::seccomp::Answer;
use crate::socket;
use manypath_control::Request;
use manypath_control::status::FallbackReason;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

impl Supervisor {
    /// The stack does not carry them: they are plain UDP for a reason, or fail with an errno. True if these were datagrams.
    /// A connected socket that fails goes on to the stack's end, where nobody listens any more.
    pub(in super::super) fn on_datagrams_left(
        &mut self,
        id: u64,
        why: Result<FallbackReason, i32>,
    ) -> bool {
        let Some(flow) = self.datagrams.take(id) else { return false };
        match why {
            Ok(reason) => {
                self.report.leave(reason.name());
                self.datagrams.leave_alone(flow.destination);
                self.let_go(&flow.held);
            }
            Err(errno) => {
                self.report.failed += 1;
                for trap in &flow.held {
                    self.listener.answer(trap.id, Answer::Error(errno));
                }
            }
        }
        true
    }

    /// The stack does not carry them any more. True if these were datagrams.
    pub(in super::super) fn on_datagrams_closed(&mut self, id: u64) -> bool {
        let Some(flow) = self.datagrams.take(id) else { return false };
        self.report.leave("datagrams-given-up");
        self.return_to_kernel(&flow);
        true
    }

    /// Without a stack everything is plain UDP.
    pub(in super::super) fn on_stack_lost_by_datagrams(&mut self) {
        let ids: Vec<u64> = self.datagrams.flows.keys().copied().collect();
        for id in ids {
            if let Some(flow) = self.datagrams.take(id) {
                self.report.leave("stack-lost");
                self.return_to_kernel(&flow);
            }
        }
    }

    /// A socket that the program has connected is connected to the true destination now.
    fn return_to_kernel(&mut self, flow: &Flow) {
        self.datagrams.leave_alone(flow.destination);
        self.let_go(&flow.held);
        if let Some(socket) = self
            .socket_at(flow)
            .filter(|_| flow.connected && matches!(flow.phase, Phase::Carried { .. }))
        {
            socket::dissolve(socket.as_fd());
            // Where there is no way to it, the program's next call says so.
            let _ = socket::connect(socket.as_fd(), flow.destination, flow.v6);
        }
    }

    /// The socket, where the program had it last, if it is still there.
    fn socket_at(&self, flow: &Flow) -> Option<OwnedFd> {
        let socket = self.descriptors.of(flow.place.0, flow.place.1).ok()?;
        let same = socket::cookie(socket.as_fd()).is_ok_and(|cookie| cookie == flow.cookie);
        same.then_some(socket)
    }

    /// The program connects its socket to something else, or to nothing.
    pub(super) fn leave_connected(&mut self, id: u64, socket: BorrowedFd<'_>) {
        let Some(flow) = self.datagrams.take(id) else { return };
        self.stack.send(Request::Cancel { id }, None);
        self.let_go(&flow.held);
        if matches!(flow.phase, Phase::Carried { .. }) {
            socket::dissolve(socket);
        }
    }

    /// `connect(AF_UNSPEC)`, which the kernel executes.
    pub(in super::super) fn dissolve_datagrams(&mut self, cookie: u64) {
        if let Some(id) = self.datagrams.connected(cookie).map(|flow| flow.id) {
            self.stack.send(Request::Cancel { id }, None);
            if let Some(flow) = self.datagrams.take(id) {
                self.let_go(&flow.held);
            }
        }
    }

    /// The destination cannot be reached. The stack's end refuses datagrams for the moment: one more
    /// from the program's socket brings the error to it as UDP does.
    pub(in super::super) fn on_datagrams_unreachable(&mut self, id: u64) {
        let flow = self.datagrams.flows.get(&id);
        let socket = flow.filter(|flow| flow.connected).and_then(|flow| self.socket_at(flow));
        if let Some(socket) = socket {
            system::poke(socket.as_fd());
        }
        self.stack.send(Request::Told { id }, None);
    }
}
