//! The timers of an association: T1-init, T1-cookie, T2-shutdown, T5-shutdown-guard, the delayed
//! SACK, and per path T3-rtx, the heartbeat and the pacer.
//!
//! A timer is an instant kept where its meaning is. Here they are only looked through.

use super::context::Context;
use super::state::State;
use super::tcb::Association;
use crate::event::CloseReason;
use crate::path::{Path, PathId};
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use manypath_wire::cause::Cause;

impl Association {
    /// When [`Self::handle_timeout`] must be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let asconf = self.addresses.as_ref().and_then(|changes| changes.deadline());
        if self.is_renumbering() {
            return earlier(asconf, self.state.guard());
        }
        let retry = self.state.retry().and_then(super::state::Retry::expiry);
        // In SHUTDOWN-ACK-SENT no SACK is sent any more: its time would stay in the past.
        let sacks = self.peer.as_ref().filter(|_| self.state.sends_sacks());
        let sack = sacks.and_then(|peer| peer.receiver.acks().deadline());
        let sends = self.state.sends_data();
        let probe = self.sender.deadline(&self.paths).filter(|_| sends);
        let loss = self.sender.loss_deadline(&self.paths).filter(|_| sends);
        let silence = self.sender.silence_deadline(&self.paths).filter(|_| sends);
        let reconfiguration = self.reconfiguration.deadline().filter(|_| sends);
        let mut first = earlier(earlier(retry, self.state.guard()), earlier(sack, probe));
        first = earlier(first, reconfiguration);
        first = earlier(first, asconf.filter(|_| sends));
        for path in self.paths.iter() {
            first = earlier(first, earlier(path.t3(), path.pacing_deadline()));
            first = earlier(first, path.heartbeat().deadline());
            first = earlier(first, self.mtu_deadline(path));
        }
        first = earlier(first, earlier(self.quiet_deadline(), self.measurement_deadline()));
        earlier(earlier(first, loss), silence)
    }

    /// Handles every timer that has expired.
    pub(crate) fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        self.sender.end_waiting();
        if self.state.guard().is_some_and(|guard| guard <= cx.now) {
            let cause = Cause::UserInitiatedAbort(b"T5-shutdown-guard expired");
            self.abort_because(cx, &cause, CloseReason::TooManyFailures);
        }
        // Paths that carry data from now on are among those that the timers below look at.
        self.regulate(cx);
        self.paths.iter_mut().for_each(|path| path.expire_pacing(cx.now));
        if self.state.sends_data() {
            self.sender.handle_loss_deadline(cx.now, &mut self.paths);
        }
        for id in self.expired(cx.now, Path::t3) {
            self.handle_t3(cx, id);
        }
        self.suspect_silent_paths(cx);
        for id in self.expired(cx.now, |path| path.heartbeat().deadline()) {
            self.handle_heartbeat_timeout(cx, id);
        }
        self.probe_quiet_paths(cx.now);
        self.handle_mtu_timeouts(cx);
        self.paths.iter_mut().for_each(|path| path.end_hold(cx.now));
        self.abandon_overdue(cx);
        self.retry_reconfiguration(cx);
        self.retry_asconf(cx);
        self.handle_retry(cx);
    }

    fn expired(&self, now: Instant, deadline: impl Fn(&Path) -> Option<Instant>) -> Vec<PathId> {
        let expired = self.paths.iter().filter(|path| deadline(path).is_some_and(|at| at <= now));
        expired.map(|path| path.id()).collect()
    }

    /// T3-rtx. In COOKIE-ECHOED its data leaves only with the next COOKIE ECHO, whose own timer
    /// counts the errors. A probe of a closed window is no error (section 6.1 rule A).
    fn handle_t3(&mut self, cx: &mut Context<'_>, id: PathId) {
        let is_probe = self.sender.handle_t3(id, &mut self.paths);
        self.look_for_black_holes(cx);
        self.count_ecn_failures(cx);
        if !is_probe && !self.state.is_setting_up() && !self.state.is_closed() {
            self.path_error(cx, id, true);
        }
    }

    /// T1-init, T1-cookie or T2-shutdown.
    fn handle_retry(&mut self, cx: &mut Context<'_>) {
        let Some(retry) = self.state.retry_mut() else { return };
        if !retry.expire(cx.now) {
            return;
        }
        let repetitions = retry.sends();
        match self.state {
            State::CookieWait(_) | State::CookieEchoed(_) => self.retry_setup(cx, repetitions),
            State::ShutdownSent(_) | State::ShutdownAckSent(_) => {
                self.retry_shutdown(cx, repetitions);
            }
            State::Established
            | State::ShutdownPending
            | State::ShutdownReceived
            | State::Closed => {}
        }
    }

    fn retry_setup(&mut self, cx: &mut Context<'_>, sends: u32) {
        if sends > cx.config.max_init_retransmits {
            return self.give_up(cx, CloseReason::NoAnswer);
        }
        let limit = self.paths.iter().next().map_or(cx.config.rto_max, |path| path.rtt().rto_max());
        let limit = cx.config.rto_max_init.map_or(limit, |most| most.min(limit));
        if let Some(t1) = self.state.retry_mut() {
            t1.back_off(limit);
        }
        if let State::CookieWait(waiting) = &mut self.state {
            waiting.next_candidate();
        }
    }

    fn retry_shutdown(&mut self, cx: &mut Context<'_>, sends: u32) {
        if sends > self.errors.most(cx.config) {
            return self.give_up(cx, CloseReason::TooManyFailures);
        }
        let id = self.shutdown_path();
        self.shutdown_source = None;
        if let Some(path) = self.paths.get_mut(id) {
            path.back_off();
        }
        self.path_error(cx, id, false);
    }

    /// The RTO of the path for packets that may take any.
    pub(super) fn control_rto(&self) -> Duration {
        let path = self.paths.get(self.control_path());
        path.map_or(Duration::ZERO, |path| path.rtt().rto())
    }
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
