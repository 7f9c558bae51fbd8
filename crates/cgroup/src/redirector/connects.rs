//! Connects of the programs: from the gate to a relay, or to a failure.

use super::egress::Verdict;
use super::ways::Whose;
use super::{Error, Redirector};
use crate::connections::{Connection, Phase};
use crate::layout::{Connecting, Setting, WayKey};
use manypath_control::{Reply, Request, Transport};
use manypath_gate::gate::GateId;
use manypath_gate::join::{Join, Step, outcome};
use std::time::{Duration, Instant};

/// As long as the kernel sends SYNs (`tcp_syn_retries`).
const MOST_UNROUTED: Duration = Duration::from_secs(127);
/// Pause between two looks for a route that has gone.
const LOOK: Duration = Duration::from_millis(200);
/// When a refusal is repeated: the kernel does not believe an ICMP error while the program is still inside
/// its system call. Each is ignored that finds its socket failed already.
const REPEAT: [Duration; 3] =
    [Duration::from_millis(5), Duration::from_millis(50), Duration::from_millis(500)];

impl Redirector {
    /// A program's socket is on its way to the gate.
    pub(super) fn on_connecting(&mut self, of: Connecting) {
        let old = self.connections.last_of(of.cookie);
        if old.is_some_and(|old| of.is_sent_again(&old.of)) {
            return;
        }
        if let Some(old) = self.connections.undecided(of.cookie) {
            // The program has dissolved it, or fetched its error, and tries again.
            self.give_up(old);
        }
        let v6 = of.peer.is_ipv6();
        let Some(gate) = self.gates.take_in(v6, of.gate) else {
            return self.refuse(&of, libc::ECONNABORTED);
        };
        if let Err(Error::Kernel(error)) = self.set_gate(v6) {
            (self.options.notice)(&error.to_string());
        }
        let id = self.connections.next_id();
        self.decide(id, of, gate, Instant::now() + MOST_UNROUTED);
    }

    /// Carries the connect or not, as the egress policy says. Without a route the policy cannot be asked: then it is
    /// asked again, until `last`.
    fn decide(&mut self, id: u64, of: Connecting, gate: GateId, last: Instant) {
        match self.judge(&of) {
            Verdict::Permitted => self.open(id, of, gate),
            Verdict::Unrouted if Instant::now() < last => {
                let phase = Phase::Unrouted { again: Instant::now() + LOOK, last };
                self.connections.put(id, Connection { of, gate, phase, transport: None });
            }
            Verdict::Unrouted => {
                self.gates.leave(gate);
                self.refuse(&of, libc::ENETUNREACH);
            }
            Verdict::Denied(who) => self.bar(id, of, gate, &who),
            Verdict::OutOfReach(errno) => {
                self.gates.leave(gate);
                self.barred += 1;
                self.refuse(&of, errno);
            }
            Verdict::Gone => {
                self.gates.leave(gate);
                self.report.given_up += 1;
            }
        }
    }

    /// Asks the stack.
    pub(super) fn open(&mut self, id: u64, of: Connecting, gate: GateId) {
        let source = of.bound.then_some(of.own);
        self.stack.send(Request::OpenWaiting { id, destination: of.peer, source }, None);
        let until = Instant::now() + self.options.answer_limit;
        let phase = Phase::Asking { until };
        self.connections.put(id, Connection { of, gate, phase, transport: None });
    }

    /// Takes what the stack has said since the last time.
    pub(super) fn handle_stack(&mut self) -> Result<(), Error> {
        while let Some(reply) = self.stack.receive() {
            self.on_reply(reply);
            if self.silent_since.take().is_some() {
                (self.options.notice)("the stack answers again");
                self.connections.extend(Instant::now() + self.options.answer_limit);
                self.set_gates()?;
            }
        }
        if !self.stack.flush_and_is_lost() {
            return Ok(());
        }
        let fault = self.stack.take_fault();
        Err(Error::StackLost(fault.map_or("the stack has ended".to_owned(), |e| e.to_string())))
    }

    fn on_reply(&mut self, reply: Reply) {
        match reply {
            Reply::Pending { id } => {
                if !self.on_datagrams_pending(id) {
                    self.on_pending(id);
                }
            }
            Reply::Accepted { id, transport, .. } => {
                if !self.on_datagrams_accepted(id)
                    && let Some(mut connection) = self.connections.take(id)
                {
                    connection.transport = Some(transport);
                    self.complete(id, connection, 0);
                }
            }
            Reply::Failed { id, errno } => {
                if !self.on_datagrams_over(id) {
                    self.fail(id, errno);
                }
            }
            // Not for sockets that wait.
            Reply::Direct { id, reason } => {
                if !self.on_datagrams_direct(id, reason) {
                    self.fail(id, libc::ECONNABORTED);
                }
            }
            Reply::Closed { id } => {
                if !self.give_datagrams_up(id, "given-up") {
                    self.on_closed(id);
                }
            }
            Reply::Way { id, way } => self.on_way(id, way),
            Reply::Unreachable { id } => self.on_datagrams_unreachable(id),
            Reply::Idle { id } => drop(self.on_datagrams_over(id)),
            Reply::Plain { destination, for_ms } => {
                self.tables.add_plain(destination, Duration::from_millis(for_ms));
            }
            Reply::Changed => self.read_rules(),
            // The link has looked at the welcome; nothing else is asked for here.
            Reply::Welcome { .. }
            | Reply::WayFrom { .. }
            | Reply::Offered { .. }
            | Reply::NotOffered { .. }
            | Reply::Arriving { .. }
            | Reply::Left { .. }
            | Reply::Gone { .. }
            | Reply::Look { .. }
            | Reply::Resigned
            | Reply::StatusPart(_)
            | Reply::Reloaded { .. }
            | Reply::Forgotten { .. }
            | Reply::Traffic(_)
            | Reply::Watching
            | Reply::Path(_)
            | Reply::Lent { .. }
            | Reply::Refused { .. } => {}
        }
    }

    fn on_pending(&mut self, id: u64) {
        let Some(mut connection) = self.connections.take(id) else { return };
        if matches!(connection.phase, Phase::Asking { .. }) {
            connection.phase = Phase::Held;
        }
        self.connections.put(id, connection);
    }

    /// Connects a far end to the socket that waits at the gate.
    fn complete(&mut self, id: u64, connection: Connection, tries: u32) {
        let far = self.gates.open(connection.gate, connection.of.own);
        self.on_join(id, connection, Join::begin(far, tries, outcome, Instant::now()));
    }

    /// Looks at the far ends that have become ready.
    pub(super) fn handle_far_ends(&mut self) {
        let connecting = |phase: &Phase| matches!(phase, Phase::Joining(Join::Connecting { .. }));
        let waiting = self.connections.waiting().filter(|(_, one)| connecting(&one.phase));
        let waiting: Vec<u64> = waiting.map(|(id, _)| id).collect();
        for id in waiting {
            let Some(connection) = self.connections.take(id) else { continue };
            let Phase::Joining(join) = connection.phase else { continue };
            let step = join.go_on(outcome, Instant::now());
            self.on_join(id, Connection { phase: Phase::Held, ..connection }, step);
        }
    }

    fn on_join(&mut self, id: u64, mut connection: Connection, step: Step) {
        let is_over = matches!(step, Step::GivenUp);
        match step {
            Step::Wait(join) => connection.phase = Phase::Joining(join),
            Step::Joined(far) => {
                connection.phase = Phase::Active;
                self.stack.attach(id, far, connection.of.options);
                match connection.transport {
                    Some(Transport::Sctp) => self.report.sctp += 1,
                    Some(Transport::TcpRelay) | None => self.report.tcp_relay += 1,
                }
            }
            Step::GivenUp => {}
        }
        self.connections.put(id, connection);
        if is_over {
            self.give_up(id);
        }
    }

    /// A program has set an option of a socket; before it is attached the stack need not know.
    pub(super) fn on_option(&mut self, cookie: u64, setting: Setting) {
        if let Some((id, options)) = self.connections.set(cookie, setting) {
            self.stack.send(Request::Options { id, options }, None);
        }
    }

    /// Takes a connection that is over.
    fn take(&mut self, id: u64) -> Option<Connection> {
        let connection = self.connections.take(id)?;
        self.forget_way(WayKey::of_socket(connection.of.cookie), Whose::Opened(id));
        Some(connection)
    }

    /// Nobody wants the connect any more.
    fn give_up(&mut self, id: u64) {
        let Some(connection) = self.take(id) else { return };
        if !connection.is_barred() {
            self.stack.send(Request::Cancel { id }, None);
            self.report.given_up += 1;
        }
        self.gates.leave(connection.gate);
        self.refuse(&connection.of, libc::ECONNABORTED);
    }

    pub(super) fn fail(&mut self, id: u64, errno: i32) {
        let Some(connection) = self.take(id) else { return };
        self.report.failed += u64::from(!connection.is_barred());
        self.gates.leave(connection.gate);
        self.refuse(&connection.of, errno);
    }

    fn on_closed(&mut self, id: u64) {
        match self.connections.phase(id) {
            Some(Phase::Active) => {
                if let Some(connection) = self.take(id) {
                    self.gates.leave(connection.gate);
                }
            }
            // Nothing to close yet: the stack has lost it.
            Some(_) => self.fail(id, libc::ECONNABORTED),
            None => {}
        }
    }

    /// Lets the socket at the gate fail.
    pub(super) fn refuse(&mut self, of: &Connecting, errno: i32) {
        self.try_to_refuse(of, errno);
        if errno != libc::ECONNREFUSED {
            self.refusals.push((Instant::now() + REPEAT[0], 0, *of, errno));
        }
    }

    fn try_to_refuse(&self, of: &Connecting, errno: i32) {
        self.tables.set_error(of.cookie, errno);
        if let Err(error) = self.refuser.refuse(of, errno) {
            (self.options.notice)(&format!("a connect to {} hangs: {error}", of.peer));
        }
    }

    pub(super) fn repeat_refusals(&mut self, now: Instant) {
        let (due, later) =
            std::mem::take(&mut self.refusals).into_iter().partition(|one| now >= one.0);
        self.refusals = later;
        let due: Vec<_> = due;
        for (_, times, of, errno) in due {
            // The same socket may have begun anew meanwhile; then its sequence number is another.
            if self.connections.undecided(of.cookie).is_none() {
                self.try_to_refuse(&of, errno);
            }
            if let Some(pause) = REPEAT.get(times as usize + 1) {
                self.refusals.push((now + *pause, times + 1, of, errno));
            }
        }
    }

    /// Time goes on for connects that wait.
    pub(super) fn handle_limits(&mut self, now: Instant) -> Result<(), Error> {
        let asked = self.datagrams.deadline().is_some_and(|until| until <= now);
        if asked || self.silent_since.is_some() || self.connections.is_overdue(now) {
            self.on_silence(now)?;
        }
        for id in self.connections.due(now) {
            let Some(connection) = self.connections.take(id) else { continue };
            if let Phase::Joining(Join::Delayed { tries, .. }) = connection.phase {
                self.complete(id, connection, tries);
            } else if let Phase::Unrouted { last, .. } = connection.phase {
                self.decide(id, connection.of, connection.gate, last);
            }
        }
        Ok(())
    }

    /// The stack has not answered in time: it may be suspended, or hang. What begins now is better off without it; a
    /// connect that waits at the gate can only wait for it, as it would for a network that is away.
    fn on_silence(&mut self, now: Instant) -> Result<(), Error> {
        if self.silent_since.is_none() {
            (self.options.notice)(
                "the stack does not answer; programs use plain TCP until it does",
            );
        }
        let since = *self.silent_since.get_or_insert(now);
        let limit = since + self.options.longest_silence();
        if now >= limit {
            return Err(Error::StackLost("the stack does not answer".to_owned()));
        }
        self.connections.extend(limit);
        self.let_all_go();
        self.set_gates()
    }
}
