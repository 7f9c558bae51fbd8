//! Whether datagrams to a destination are carried, and how the socket is joined with the stack.

use super::super::Supervisor;
use super::{Flow, Phase, system};
use crate::address;
use crate::program;
use crate::seccomp::Answer;
use crate::socket;
use crate::trap::Trap;
use manypath_control::Request;
use manypath_gate::egress::Protocol;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

/// A UDP socket of the program in a call.
pub(in super::super) struct Called {
    pub(in super::super) socket: OwnedFd,
    pub(in super::super) cookie: u64,
    pub(in super::super) v6: bool,
}

impl Supervisor {
    /// `connect` of a UDP socket. Whatever it was connected to before is over.
    pub(in super::super) fn connect_datagrams(
        &mut self,
        trap: &Trap,
        called: Called,
        written: SocketAddr,
        unsuitable: Option<&'static str>,
    ) -> Result<Option<Answer>, &'static str> {
        let destination = address::unmapped(written);
        if let Some(flow) = self.datagrams.connected(called.cookie) {
            let (id, same) = (flow.id, flow.destination == destination);
            match flow.phase {
                Phase::Carried { .. } if same => return Ok(Some(Answer::Value(0))),
                Phase::Asking { .. } | Phase::Deciding if same => {
                    self.hold_call(id, trap);
                    return Ok(None);
                }
                Phase::Carried { .. } | Phase::Asking { .. } | Phase::Deciding => {
                    self.leave_connected(id, called.socket.as_fd());
                }
            }
        }
        check_reach_of(self, &called, unsuitable, written)?;
        self.ask_for_datagrams(trap, called, destination, true)?;
        Ok(None)
    }

    /// Whether the socket can be joined with the stack for datagrams to what the program has written,
    /// without its being connected to it.
    pub(super) fn check_datagrams(
        &mut self,
        called: &Called,
        written: SocketAddr,
    ) -> Result<(), &'static str> {
        let unsuitable = address::unsuitable(address::unmapped(written), self.loopback_paths);
        if socket::is_port_shared(called.socket.as_fd()) {
            // Answers might go to another socket of the same port.
            return Err("shared-port");
        }
        check_reach_of(self, called, unsuitable, written)
    }

    /// Asks the stack; the call waits for its answer.
    pub(super) fn ask_for_datagrams(
        &mut self,
        trap: &Trap,
        called: Called,
        destination: SocketAddr,
        connected: bool,
    ) -> Result<(), &'static str> {
        // A port of its own that outlives changes of what it is connected to.
        let source = system::bound(called.socket.as_fd(), called.v6).map_err(|_| "no-port")?;
        let own = (called.socket.as_fd(), source);
        self.check_egress(trap.thread, own, Protocol::Udp, destination)?;
        let id = self.next_id();
        let (cookie, v6) = (called.cookie, called.v6);
        let process = program::process_of(trap.thread).unwrap_or(trap.thread);
        let place = (process, trap.args[0] as RawFd);
        let (phase, held) = (Phase::Asking { until: self.answer_deadline() }, vec![trap.clone()]);
        self.stack.send(Request::OpenDatagrams { id, destination, source }, None);
        self.datagrams.put(Flow { id, cookie, v6, destination, connected, place, phase, held });
        Ok(())
    }

    pub(super) fn hold_call(&mut self, id: u64, trap: &Trap) {
        if let Some(flow) = self.datagrams.flows.get_mut(&id) {
            flow.held.retain(|earlier| earlier.thread != trap.thread);
            flow.held.push(trap.clone());
        }
    }

    pub(in super::super) fn on_datagrams_pending(&mut self, id: u64) {
        if let Some(flow) = self.datagrams.flows.get_mut(&id)
            && matches!(flow.phase, Phase::Asking { .. })
        {
            flow.phase = Phase::Deciding;
        }
    }

    /// The stack carries them. True if these were datagrams.
    pub(in super::super) fn on_datagrams_accepted(&mut self, id: u64, local: SocketAddr) -> bool {
        let Some(mut flow) = self.datagrams.take(id) else { return false };
        let held = std::mem::take(&mut flow.held);
        let mut waiting = held.iter().filter(|trap| self.listener.is_waiting(trap.id));
        let socket = waiting.find_map(|trap| self.socket_of(trap, flow.cookie));
        let joined = socket.map(|socket| self.join_stack(&mut flow, &socket, local));
        match joined {
            Some(Ok(())) => {
                self.report.datagrams += 1;
                self.datagrams.put(flow);
                held.iter().for_each(|trap| self.resume(trap));
            }
            Some(Err(_)) | None => {
                self.stack.send(Request::Cancel { id }, None);
                self.report.leave("not-joined");
                self.let_go(&held);
            }
        }
        true
    }

    fn socket_of(&self, trap: &Trap, cookie: u64) -> Option<OwnedFd> {
        let socket = self.descriptors.of(trap.thread, trap.args[0] as RawFd).ok()?;
        let same = socket::cookie(socket.as_fd()).is_ok_and(|own| own == cookie);
        (same && self.listener.is_waiting(trap.id)).then_some(socket)
    }

    fn join_stack(
        &mut self,
        flow: &mut Flow,
        socket: &OwnedFd,
        told: SocketAddr,
    ) -> io::Result<()> {
        let Flow { id, destination, connected, v6, .. } = *flow;
        let inode = Some(File::from(socket.try_clone()?).metadata()?.ino());
        let pair = system::pair(socket.as_fd(), destination.is_ipv6(), connected, v6)?;
        let local = SocketAddr::new(told.ip(), pair.program.port());
        flow.phase = Phase::Carried { relay: pair.relay, local };
        let attach = Request::AttachDatagrams { id, program: pair.program, inode, connected };
        self.stack.send(attach, Some(pair.end));
        Ok(())
    }

    /// A call that has waited for a decision goes on as carried.
    fn resume(&mut self, trap: &Trap) {
        if !self.listener.is_waiting(trap.id) {
            return;
        }
        let answer = match trap.call == self.numbers.connect {
            true => Some(Answer::Value(0)),
            false => self.dispatch(trap),
        };
        if let Some(answer) = answer {
            self.answer(trap, answer);
        }
    }

    /// Calls that have waited go on in the kernel.
    pub(super) fn let_go(&self, held: &[Trap]) {
        for trap in held {
            self.listener.answer(trap.id, Answer::Continue);
        }
    }

    /// Looks after questions that the stack has not answered.
    pub(in super::super) fn handle_datagrams_time(&mut self, now: Instant) {
        let late = |flow: &&Flow| matches!(flow.phase, Phase::Asking { until } if until <= now);
        let late: Vec<u64> = self.datagrams.flows.values().filter(late).map(|f| f.id).collect();
        for id in late {
            let Some(flow) = self.datagrams.take(id) else { continue };
            self.stack.send(Request::Cancel { id }, None);
            self.stack.distrust();
            self.report.leave("stack-silent");
            self.let_go(&flow.held);
        }
    }

    /// The UDP socket that a call is about; `None` if it is another one, or nobody waits any more.
    pub(super) fn called(&self, trap: &Trap) -> Option<Called> {
        let socket = self.descriptors.of(trap.thread, trap.args[0] as RawFd).ok()?;
        let v6 = is_udp(socket.as_fd())?;
        let cookie = socket::cookie(socket.as_fd()).ok()?;
        self.listener.is_waiting(trap.id).then_some(Called { socket, cookie, v6 })
    }
}

fn check_reach_of(
    supervisor: &mut Supervisor,
    called: &Called,
    unsuitable: Option<&'static str>,
    written: SocketAddr,
) -> Result<(), &'static str> {
    let socket = called.socket.as_fd();
    let own = socket::local(socket).map_err(|_| "no-socket")?;
    supervisor.check_reach((socket, own), unsuitable, written, called.v6)
}

/// Whether it is of the IPv6 family, if it is a UDP socket.
fn is_udp(socket: BorrowedFd<'_>) -> Option<bool> {
    match socket::kind(socket) {
        Ok(socket::Kind::Udp { v6 }) => Some(v6),
        Ok(_) | Err(_) => None,
    }
}
