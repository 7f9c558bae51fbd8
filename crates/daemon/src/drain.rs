//! The end of a stack: in good order, and bounded.
//!
//! ```text
//! Running ──▶ Draining (nothing new, flows run on) ──▶ Closing (associations shut down) ──▶ over
//!                      └── no progress, or told twice ──▶ everything is reset
//! ```

use crate::base::Base;
use crate::log;
use crate::proven::key_of_peer;
use crate::relays::RelayEnd;
use crate::stack::Stack;
use crate::timers::Timer;
use manypath_control::counted;
use manypath_engine::{Duration, Instant};
use manypath_net::Signal;
use tracing::{info, warn};

/// How often a draining stack is looked at.
const DRAIN_TICK: Duration = Duration::from_millis(200);
/// How long associations may take to shut down when all flows have ended.
const CLOSING_TIME: Duration = Duration::from_secs(2);

/// Where the stack stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Running,
    /// Nothing new is taken; flows run on.
    Draining(Drain),
    /// No flow is left; associations are being shut down until then.
    Closing(Instant),
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Drain {
    /// How long nothing may move.
    patience: Duration,
    cause: Cause,
    last_progress: Instant,
    /// Changes whenever a byte has moved.
    mark: u64,
}

/// Why the stack drains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    /// Whom it serves has gone. Bytes that move prolong it.
    Deserted,
    /// A signal asked it to stop.
    Told,
    /// Another process has taken over; peers may still open connections on the associations that there are.
    Succeeded,
}

impl Drain {
    /// Nobody has told the stack to end; it only has nothing to do.
    pub(crate) const fn is_idle(self) -> bool {
        matches!(self.cause, Cause::Deserted)
    }
}

impl Phase {
    pub(crate) const fn takes_work(self) -> bool {
        matches!(self, Self::Running)
    }

    /// Whether another process has taken over.
    pub(crate) const fn is_succeeded(&self) -> bool {
        matches!(self, Self::Draining(Drain { cause: Cause::Succeeded, .. }))
    }

    /// Whether what peers ask for on their associations is done.
    pub(crate) const fn serves_peers(&self) -> bool {
        matches!(self, Self::Running) || self.is_succeeded()
    }
}

impl Stack {
    /// Takes nothing new and ends when the flows have ended, or when nothing has moved for
    /// `patience`.
    pub(crate) fn drain(&mut self, patience: Duration) {
        self.begin_drain(patience, Cause::Deserted);
    }

    /// Another process takes what is new: ends when the flows have ended, or after `limit`.
    pub(crate) fn outlive(&mut self, limit: Duration) {
        self.begin_drain(limit, Cause::Succeeded);
    }

    /// Told to end, with all other loops of the process: flows have a moment to finish, then they are reset. Told twice: at
    /// once.
    pub(crate) fn stop(&mut self) {
        if let Some(seat) = &self.base.core.config.process.seat {
            seat.stop_others();
        }
        self.stop_this();
    }

    fn stop_this(&mut self) {
        // It tells its other loops by itself.
        if self.base.core.config.loop_index() == 0 {
            self.succession.stop_predecessor();
        }
        match self.base.core.phase {
            Phase::Draining(Drain { cause: Cause::Told, .. }) => self.base.core.phase = Phase::Over,
            Phase::Closing(_) => self.base.core.phase = Phase::Over,
            Phase::Running | Phase::Draining(_) => {
                self.begin_drain(self.base.core.config.limits.exit_timeout, Cause::Told);
            }
            Phase::Over => {}
        }
    }

    /// Another thread has something for this loop.
    pub(crate) fn on_wake(&mut self) {
        self.on_names_found();
        if self.stopper.is_told() {
            self.stop();
        }
        let Some(seat) = self.base.core.config.process.seat.clone() else { return };
        (0..seat.take_stops()).for_each(|_| self.stop_this());
        if seat.take_reload() {
            // What keeps it from doing so is in its counters and in the log.
            let _ = self.reload_counted();
        }
    }

    fn begin_drain(&mut self, patience: Duration, cause: Cause) {
        info!(target: log::STACK, "ending; still open: {}", connections(self.relays.flow_count(&self.base)));
        let (last_progress, mark) = (self.base.core.now, self.relays.progress_mark(&self.base));
        self.base.core.phase = Phase::Draining(Drain { patience, cause, last_progress, mark });
        self.base.core.timers.set(self.base.core.now, Timer::Drain);
        self.clients.doors.close();
        if cause != Cause::Succeeded {
            self.tell_stopping();
        }
        // The next program may begin at once.
        self.attempts.peers.save(&mut self.base.core);
    }

    pub(crate) fn on_drain_timer(&mut self) {
        match self.base.core.phase {
            Phase::Draining(drain) => self.check_drain(drain),
            Phase::Closing(until) => {
                shut_down_next(&mut self.base);
                if self.base.ids().is_empty() || self.base.core.now >= until {
                    self.base.core.phase = Phase::Over;
                }
            }
            Phase::Running | Phase::Over => return,
        }
        self.base.core.after(DRAIN_TICK, Timer::Drain);
    }

    fn check_drain(&mut self, mut drain: Drain) {
        if drain.cause == Cause::Succeeded {
            if self.recovers() {
                self.base.core.phase = Phase::Running;
                return;
            }
            self.release_launchers();
        }
        if self.is_drained() {
            return self.close_associations();
        }
        let mark = self.relays.progress_mark(&self.base);
        if mark != drain.mark && drain.cause == Cause::Deserted {
            (drain.mark, drain.last_progress) = (mark, self.base.core.now);
        }
        if self.base.core.now.since(drain.last_progress) < drain.patience {
            self.base.core.phase = Phase::Draining(drain);
            return;
        }
        warn!(target: log::STACK, "reset at the end: {}", connections(self.relays.flow_count(&self.base)));
        self.base.core.phase = Phase::Over;
    }

    fn close_associations(&mut self) {
        self.base.core.phase = Phase::Closing(self.base.core.now + CLOSING_TIME);
        shut_down_next(&mut self.base);
    }

    /// Whether everything that has been taken was handed over, and nobody wants more to be.
    fn is_drained(&mut self) -> bool {
        let seat = self.base.core.config.process.seat.as_ref();
        let idle = self.attempts.is_empty()
            && self.clients.callers.len() == 0
            && self.clients.doors.is_empty()
            && self.relays.ids().is_empty()
            && self.datagrams.is_empty()
            && seat.is_none_or(|seat| seat.index() > 0 || seat.is_last());
        idle && self.relays.flow_count(&self.base) == 0
            && !self.base.has_waiting()
            && self.succession.is_last()
    }

    pub(crate) fn on_signal(&mut self) {
        while let Some(signal) = self.signals.as_ref().and_then(|signals| signals.next()) {
            match signal {
                Signal::Terminate if self.detach() => {}
                Signal::Terminate => self.stop(),
                Signal::Interrupt | Signal::Hangup
                    if self.base.core.config.process.ignore_interrupt => {}
                Signal::Hangup if self.service.is_managed() => self.reload_for_manager(),
                Signal::Interrupt | Signal::Hangup => self.stop(),
            }
        }
    }

    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.base.core.phase, Phase::Over)
    }

    /// Resets what is left, on both sides.
    pub(crate) fn end(&mut self) {
        self.clients.callers.end_callers(&mut self.base);
        self.clients.doors.end(&self.base);
        for relay in self.relays.ids() {
            self.relays.reset(&mut self.base, &mut self.services, relay, RelayEnd::StackEnds);
        }
        for id in self.base.ids() {
            self.base.core.abort(id, b"the stack ends");
        }
        self.base.core.driver.flush(self.base.core.now);
        self.print_last_status_line();
        self.attempts.peers.finish_saving(&mut self.base.core);
        self.base.core.quotas.finish();
        self.base.keys.keep_tickets(self.base.core.now);
    }
}

/// Ends the associations that may need those with relays, and these when none of them is left.
fn shut_down_next(base: &mut Base) {
    let (mut all, now) = (base.ids(), base.core.now);
    if all.iter().any(|id| key_of_peer(&base.core, *id).is_some()) {
        all.retain(|id| key_of_peer(&base.core, *id).is_some());
    }
    for id in all {
        base.core.driver.endpoint_mut().shutdown(now, id);
    }
}

fn connections(count: usize) -> String {
    counted(count, "connection", "connections")
}
