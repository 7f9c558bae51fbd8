//! Answers the program's trapped calls.
//!
//! One thread, one loop ([`crate::launcher`]), no waiting on any single attempt: each connect is a
//! [`Connection`] that moves from phase to phase when the stack replies, when a far end becomes
//! ready, when the program calls again, or when time passes.
//!
//! ```text
//!            connect()                        stack: Pending              stack: Accepted
//!  (fresh) ------------> Asking --+--blocking------> Deciding --+------------> Completing --> Active
//!                           |     +--non-blocking--> Held ------+                               |
//!                           |                          |                                        |
//!        stack: Direct      | stack: Failed            | stack: Failed                          v
//!        plain TCP <--------+--> errno                 +--------> Failed                     Closed
//! ```
//!
//! Where the files are: `accept` everything about servers, `attempt` the calls that connect, `ahead` those that do not wait for the stack's first answer, `names` the calls that ask for addresses
//! or errors, `replies` what the stack says, `completion` joining a socket with its far end,
//! `failure` the ends of attempts, `clock` what time does, `send` fast open, `questions` options whose
//! true answer only the stack knows, `datagrams` everything of UDP,
//! `traffic` what the stacks have carried, `named` memory of programs of other users,
//! `bypass` calls that go past the shim, `reach` programs that cannot be looked into.

mod accept;
mod ahead;
mod attempt;
mod bypass;
mod clock;
mod completion;
mod datagrams;
mod egress;
mod failure;
mod named;
mod names;
mod questions;
mod reach;
mod replies;
mod send;
mod traffic;

use crate::accesses::Accesses;
use crate::descriptors::Descriptors;
use crate::filter::Architecture;
use crate::gate::Gates;
use crate::memory::Source;
use crate::only_sctp::OnlySctp;
use crate::options::RunOptions;
use crate::report::Report;
use crate::seccomp::{Answer, Listener, Notification};
use crate::socket;
use crate::stack_link::StackLink;
use crate::table::{Connection, Table};
use crate::trap::Trap;
use accept::Accepts;
use ahead::Ahead;
use bypass::is_foreign;
use clock::Ticks;
use datagrams::Datagrams;
use egress::EgressPolicy;
use questions::Question;
use reach::Reach;
use socket2::{Domain, Socket, Type};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// The launcher's state.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) listener: Arc<Listener>,
    pub(crate) stack: StackLink,
    pub(crate) report: Report,
    pub(crate) table: Table,
    pub(crate) accepts: Accepts,
    datagrams: Datagrams,
    gates: Gates,
    only_sctp: OnlySctp,
    numbers: Architecture,
    /// How long the stack may take for its first answer to an open.
    answer_limit: Duration,
    /// Whether loopback destinations are carried too.
    loopback_paths: bool,
    /// The network namespace in which the gates are; `None` on kernels that cannot tell.
    namespace: Option<u64>,
    next_id: u64,
    ahead: Ahead,
    ticks: Ticks,
    questions: Vec<Question>,
    hide_io_uring: bool,
    reach: Reach,
    pub(crate) descriptors: Descriptors,
    /// Whom this process belongs to.
    user: u32,
    /// Access to memory of programs of other users, once there were any.
    accesses: Option<Accesses>,
    /// Asks whether programs could send themselves what the stack is to send for them.
    egress: Option<EgressPolicy>,
    /// Calls whose memory is being copied.
    copying: BTreeMap<u64, (Notification, Source)>,
    /// Stacks that were asked what they have carried and have not answered yet.
    traffic_answers_due: usize,
}

impl Supervisor {
    pub(crate) fn new(
        listener: Listener,
        stack: StackLink,
        numbers: Architecture,
        descriptors: Descriptors,
        options: &RunOptions,
    ) -> Self {
        // Programs hand over sockets of TCP alone.
        let datagrams = options.datagrams && descriptors.handover().is_none();
        let (answer_limit, loopback_paths) = (options.answer_limit, options.loopback_paths);
        let probe = Socket::new(Domain::IPV4, Type::DGRAM, None);
        let namespace = probe.ok().and_then(|probe| socket::namespace(probe.as_fd()).ok());
        let (report, table, gates) = Default::default();
        let next_id = 1;
        let accepts = Accepts::new(options.server.clone());
        Self {
            listener: Arc::new(listener),
            stack,
            report,
            table,
            accepts,
            datagrams: Datagrams::new(datagrams),
            gates,
            only_sctp: OnlySctp::new(options.rules.clone()),
            numbers,
            answer_limit,
            loopback_paths,
            namespace,
            next_id,
            ahead: Ahead::default(),
            ticks: Ticks::new(),
            questions: Vec::new(),
            hide_io_uring: options.hide_io_uring,
            reach: Reach::default(),
            descriptors,
            // SAFETY: takes nothing.
            user: unsafe { libc::geteuid() },
            accesses: None,
            egress: EgressPolicy::new(),
            copying: BTreeMap::new(),
            traffic_answers_due: 0,
        }
    }

    /// Takes one trapped call; the listener was seen readable.
    ///
    /// # Errors
    /// Only when the listener is broken.
    pub(crate) fn handle_trap(&mut self) -> std::io::Result<()> {
        if let Some(call) = self.listener.receive()? {
            self.handle_notification(call);
        }
        Ok(())
    }

    fn handle_call(&mut self, trap: &Trap) {
        self.descriptors.begin(&self.listener, trap);
        let answer = self.dispatch(trap);
        self.descriptors.end(&self.listener, trap);
        if let Some(answer) = answer {
            self.answer(trap, answer);
        }
        trap.memory.close();
    }

    /// `None` when the call is answered later, or its caller has gone.
    fn dispatch(&mut self, trap: &Trap) -> Option<Answer> {
        let numbers = &self.numbers;
        if is_foreign(numbers, &trap.notification()) {
            return Some(self.on_foreign_connect(trap));
        }
        match trap.call {
            call if call == numbers.io_uring_setup => Some(self.on_io_uring()),
            call if call == numbers.connect => self.on_connect(trap),
            call if call == numbers.getpeername => Some(self.on_getpeername(trap)),
            call if call == numbers.getsockname => Some(self.on_getsockname(trap)),
            call if call == numbers.listen => self.on_listen(trap),
            call if call == numbers.accept || call == numbers.accept4 => self.on_accept(trap),
            call if call == numbers.getsockopt => self.on_getsockopt(trap),
            call if call == numbers.setsockopt => Some(self.on_setsockopt(trap)),
            call if call == numbers.sendto && !is_fast_open(trap.args[3]) => {
                self.on_sendto_address(trap)
            }
            call if call == numbers.sendto => self.on_sendto(trap),
            call if call == numbers.sendmsg && !is_fast_open(trap.args[2]) => {
                self.on_sendmsg_address(trap)
            }
            call if call == numbers.sendmsg => self.on_sendmsg(trap),
            call if call == numbers.sendmmsg && !is_fast_open(trap.args[3]) => {
                self.on_sendmmsg_address(trap)
            }
            call if call == numbers.sendmmsg => self.on_sendmmsg(trap),
            call if numbers.receives(call) => self.on_receive(trap),
            _ => Some(Answer::Continue),
        }
    }

    pub(crate) const fn accept4_number(&self) -> u32 {
        self.numbers.accept4
    }

    pub(crate) const fn loopback_paths(&self) -> bool {
        self.loopback_paths
    }

    pub(crate) const fn answer_limit(&self) -> Duration {
        self.answer_limit
    }

    /// Whether loopback of the socket's network is ours, as far as the kernel tells.
    pub(crate) fn is_in_our_network(&self, socket: BorrowedFd<'_>) -> bool {
        self.namespace.is_none() || socket::namespace(socket).ok() == self.namespace
    }

    /// Lets `change` move a connection on; what it does not return is forgotten.
    fn update(
        &mut self,
        id: u64,
        change: impl FnOnce(&mut Self, Connection) -> Option<Connection>,
    ) {
        if let Some(connection) = self.table.take(id)
            && let Some(connection) = change(self, connection)
        {
            self.table.put(connection);
        }
    }
}

/// Whether the flags of a call that sends let it connect, too.
const fn is_fast_open(flags: u64) -> bool {
    flags as i32 & libc::MSG_FASTOPEN != 0
}
