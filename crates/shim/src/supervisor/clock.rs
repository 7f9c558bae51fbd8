//! What time does: limits, and noticing that a caller was interrupted, of which nobody tells.

use super::Supervisor;
use crate::program;
use crate::seccomp::Answer;
use crate::table::{Caller, Connection, Phase};
use manypath_control::Request;
use manypath_gate::join::Join;
use std::time::{Duration, Instant};

/// How often callers that wait are looked after.
const TICK: Duration = Duration::from_millis(20);

/// When everything that waits is looked after next. Not in every turn of the loop: a turn takes few calls, and
/// many thousands may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticks(Instant);

impl Ticks {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    /// Whether it is time; then the next time is a tick later.
    fn is_due(&mut self, now: Instant) -> bool {
        let due = now >= self.0;
        if due {
            self.0 = now + TICK;
        }
        due
    }
}

impl Supervisor {
    /// How long the loop may sleep.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let anything =
            self.table.needs_clock() || self.has_questions() || self.datagrams.needs_clock();
        let handover = self.descriptors.handover();
        let handover = handover.and_then(|it| it.deadline(self.listener.sockets()));
        let next = [anything.then_some(self.ticks.0), self.accepts.next_deadline(), handover];
        // The poll counts whole milliseconds.
        let wait =
            |at: Instant| at.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        next.into_iter().flatten().map(wait).min()
    }

    /// Looks after everything that time alone may change.
    pub(crate) fn handle_time(&mut self, now: Instant) {
        if self.ticks.is_due(now) {
            self.drop_old_questions(now);
            self.handle_datagrams_time(now);
            for id in self.table.clocked() {
                self.update(id, |this, connection| this.on_tick(connection, now));
            }
        }
        self.handle_listeners_time(now);
        if let Some(handover) = self.descriptors.handover() {
            handover.look_after(self.listener.sockets(), now, |id| self.listener.is_waiting(id));
        }
    }

    fn on_tick(&mut self, connection: Connection, now: Instant) -> Option<Connection> {
        match connection.phase {
            Phase::Asking { until } if now >= until => self.on_no_answer(connection),
            Phase::Asking { .. } | Phase::Deciding => self.look_after(connection, now),
            Phase::Joining(Join::Delayed { until, tries }) if now >= until => {
                self.complete(connection, tries)
            }
            Phase::Held | Phase::Joining(Join::Connecting { .. }) => {
                Some(self.look_after_joined(connection, now))
            }
            Phase::Joining(Join::Delayed { .. })
            | Phase::Active
            | Phase::Failed { .. }
            | Phase::Closed => Some(connection),
        }
    }

    /// A stack that does not answer at all is worse than none.
    fn on_no_answer(&mut self, connection: Connection) -> Option<Connection> {
        self.stack.send(Request::Cancel { id: connection.id }, None);
        self.stack.distrust();
        self.fall_back(connection, "stack-silent")
    }

    /// A blocking attempt outlives its call when a signal or the socket's own time limit ends the
    /// call: the attempt then goes on in the background, as a non-blocking one.
    fn look_after(&mut self, mut connection: Connection, now: Instant) -> Option<Connection> {
        let waits =
            |c: &Caller| c.trap.as_ref().is_some_and(|trap| self.listener.is_waiting(trap.id));
        let (mut waiting, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut connection.callers).into_iter().partition(waits);
        let expired = |caller: &Caller| caller.until.is_some_and(|until| now >= until);
        let anybody_blocks = waiting.iter().any(|c| c.blocking && !expired(c));
        let was_blocking = gone.iter().chain(&waiting).any(|c| c.blocking);
        if anybody_blocks || !was_blocking && !waiting.is_empty() {
            connection.callers = waiting;
            return Some(connection);
        }
        for mut caller in gone {
            if waiting.is_empty() && program::has(caller.thread, caller.fd, &caller.socket) {
                caller.trap = None;
                waiting.push(caller);
            }
        }
        if waiting.is_empty() {
            self.abandon(connection);
            return None;
        }
        connection.callers = waiting;
        Some(if was_blocking { self.go_on_in_background(connection) } else { connection })
    }

    /// Asks the stack anew, for an attempt that can no longer end in plain TCP of the program's
    /// own.
    fn go_on_in_background(&mut self, mut connection: Connection) -> Connection {
        self.stack.send(Request::Cancel { id: connection.id }, None);
        connection.id = self.next_id();
        connection.phase = Phase::Asking { until: self.answer_deadline() };
        for caller in &mut connection.callers {
            caller.blocking = false;
        }
        let Connection { id, destination, source, .. } = connection;
        let open = Request::Open { id, destination, source, blocking: false };
        self.stack.send(open, None);
        connection
    }

    /// Calls that joined an attempt in the background: they may leave without consequence.
    fn look_after_joined(&self, mut connection: Connection, now: Instant) -> Connection {
        let waits = |caller: &Caller| {
            caller.trap.as_ref().is_some_and(|trap| self.listener.is_waiting(trap.id))
        };
        connection.callers.retain(waits);
        let is_over = |caller: &Caller| caller.until.is_some_and(|until| now >= until);
        let (over, waiting): (Vec<Caller>, _) = connection.callers.into_iter().partition(is_over);
        connection.callers = waiting;
        for caller in over {
            self.tell(caller, Answer::Error(libc::EALREADY));
        }
        connection
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_looked_after_once_in_a_tick_however_often_the_loop_turns() {
        let mut ticks = Ticks::new();
        let begun = ticks.0;
        let turns = (0..1000).map(|turn| begun + TICK * turn / 250);
        assert_eq!(turns.filter(|now| ticks.is_due(*now)).count(), 4);
    }
}
