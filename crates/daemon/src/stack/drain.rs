//! The end of a stack: in good order, and bounded ([`Phase`]).

use super::Stack;
use crate::base::Base;
use crate::base::proven::key_of_peer;
use crate::log;
use crate::phase::{Cause, Drain, Phase};
use crate::relays::RelayEnd;
use crate::takeover::MAX_AFTERLIFE;
use crate::timers::Timer;
use manypath_control::counted;
use manypath_engine::Duration;
use tracing::{info, warn};

/// How often a draining stack is looked at.
const DRAIN_TICK: Duration = Duration::from_millis(200);
/// How long associations may take to shut down when all flows have ended.
const CLOSING_TIME: Duration = Duration::from_secs(2);

impl Stack {
    /// Whom it serves has gone: takes nothing new and ends when the flows have ended, or when nothing has moved for
    /// [`drain_timeout`](crate::Limits::drain_timeout).
    pub(super) fn drain(&mut self) {
        self.begin_drain(self.base.core.config.limits.drain_timeout, Cause::Deserted);
    }

    /// Another process takes what is new, if it is the one that was lent the sockets: ends when the flows have ended.
    pub(super) fn give_way(&mut self, id: u64) {
        if !self.succession.on_taken_over(id) {
            return;
        }
        self.base.core.count("taken_over");
        let open = connections(self.relays.flow_count(&self.base));
        info!(target: log::STACK, "another process takes over; {open} go on here");
        self.begin_drain(MAX_AFTERLIFE, Cause::Succeeded);
        self.release_launchers();
    }

    /// Told to end, with all other loops of the process: flows have a moment to finish, then they are reset. Told
    /// twice: at once.
    pub(super) fn stop(&mut self) {
        if let Some(seat) = &self.base.core.config.process.seat {
            seat.stop_others();
        }
        self.stop_this();
    }

    pub(super) fn stop_this(&mut self) {
        // It tells its other loops by itself.
        if self.base.core.config.loop_index() == 0 {
            self.succession.stop_predecessor();
        }
        match self.base.core.phase {
            Phase::Draining(Drain { cause: Cause::Told, .. }) | Phase::Closing(_) => {
                self.base.core.phase = Phase::Over;
            }
            Phase::Running | Phase::Draining(_) => {
                self.begin_drain(self.base.core.config.limits.exit_timeout, Cause::Told);
            }
            Phase::Over => {}
        }
    }

    fn begin_drain(&mut self, patience: Duration, cause: Cause) {
        info!(target: log::STACK, "ending; still open: {}", connections(self.relays.flow_count(&self.base)));
        let (now, mark) = (self.base.core.now, self.relays.progress_mark(&self.base));
        self.base.core.phase = Phase::Draining(Drain::begin(now, patience, cause, mark));
        self.base.core.timers.set(now, Timer::Drain);
        self.clients.doors.close();
        if cause != Cause::Succeeded {
            self.service.tell_stopping();
        }
        // The next program may begin at once.
        self.attempts.peers.save(&mut self.base.core);
    }

    pub(super) fn on_drain_timer(&mut self) {
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
            if self.succession.recovers(&mut self.base, &mut self.services) {
                self.base.core.phase = Phase::Running;
                return;
            }
            self.release_launchers();
        }
        let now = self.base.core.now;
        if self.is_drained() {
            self.base.core.phase = Phase::Closing(now + CLOSING_TIME);
            return shut_down_next(&mut self.base);
        }
        if !drain.is_over(now, self.relays.progress_mark(&self.base)) {
            self.base.core.phase = Phase::Draining(drain);
            return;
        }
        warn!(target: log::STACK, "reset at the end: {}", connections(self.relays.flow_count(&self.base)));
        self.base.core.phase = Phase::Over;
    }

    /// Launchers offer their listeners to the successor, as soon as none of them has a connection that was led to it:
    /// its name lives as long as the line to its launcher.
    fn release_launchers(&mut self) {
        for id in self.base.core.control.launchers() {
            if self.services.listeners.is_free(id) {
                self.drop_control(id);
            }
        }
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

    /// Resets what is left, on both sides.
    pub(super) fn end(&mut self) {
        let (base, callers) = (&mut self.base, &mut self.clients.callers);
        callers.end_callers(base);
        self.clients.doors.end(base);
        for relay in self.relays.ids() {
            let ended = self.relays.reset(base, relay, RelayEnd::StackEnds);
            self.services.on_relay_over(base, ended);
        }
        for id in base.ids() {
            base.core.abort(id, b"the stack ends");
        }
        base.core.driver.flush(base.core.now);
        callers.print_last_status_line(base, &self.relays, self.services.dials());
        self.attempts.peers.finish_saving(&mut base.core);
        base.core.quotas.finish();
        base.keys.keep_tickets(base.core.now);
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
