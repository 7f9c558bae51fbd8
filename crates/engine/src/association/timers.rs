//! The timers of an association: T1-init, T1-cookie, T2-shutdown, T5-shutdown-guard, the delayed
//! SACK, and per path T3-rtx, the heartbeat and the pacer.
//!
//! A timer is an instant kept where its meaning is. Here they are only looked through.

use super::asconf::is_renumbering;
use super::context::Context;
use super::doubt;
use super::mtu;
use super::tcb::Association;
use super::translation::QUIET;
use crate::event::CloseReason;
use crate::path::{Path, PathId};
use crate::time::Instant;
use manypath_wire::cause::Cause;

impl Association {
    /// When [`Self::handle_timeout`] must be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let asconf = self.addresses.as_ref().and_then(|changes| changes.deadline());
        if is_renumbering(self.addresses.as_deref()) {
            return earliest([asconf, self.state.guard()]);
        }
        let (sends, probes) = (self.state.sends_data(), self.state.sends_heartbeats());
        // In SHUTDOWN-ACK-SENT no SACK is sent any more: its time would stay in the past.
        let sacks = self.peer.as_ref().filter(|_| self.state.sends_sacks());
        let quiet = self.paths.iter().filter_map(|path| path.arrivals().watched()).min();
        let mut first = earliest([
            self.state.retry().and_then(super::state::Retry::expiry),
            self.state.guard(),
            sacks.and_then(|peer| peer.receiver.acks().deadline()),
            quiet.map(|last| last + QUIET),
            self.paths.measurement_deadline().filter(|_| probes),
            self.security.doubt().map(|doubt| doubt.until),
        ]);
        if sends {
            first = earliest([
                first,
                self.sender.deadline(&self.paths),
                self.sender.loss_deadline(&self.paths),
                self.sender.silence().deadline(&self.paths),
                self.reconfiguration.deadline(),
                asconf,
            ]);
        }
        for path in self.paths.iter() {
            let mtu = mtu::deadline(path).filter(|_| probes);
            let (pacer, heartbeat) = (path.pacer().deadline(), path.heartbeat().deadline());
            first = earliest([first, path.flight().t3(), pacer, heartbeat, mtu]);
        }
        first
    }

    /// Handles every timer that has expired.
    pub(crate) fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        self.sender.nagle_mut().end_waiting();
        if self.state.guard().is_some_and(|guard| guard <= cx.now) {
            let cause = Cause::UserInitiatedAbort(b"T5-shutdown-guard expired");
            self.ending().abort_because(cx, &cause, CloseReason::TooManyFailures);
        }
        // Paths that carry data from now on are among those that the timers below look at.
        self.addressing().regulate(cx);
        self.paths.iter_mut().for_each(|path| path.pacer_mut().expire(cx.now));
        if self.state.sends_data() {
            self.sender.handle_loss_deadline(cx.now, &mut self.paths);
        }
        for id in self.paths.ids(|path| path.flight().t3().is_some_and(|at| at <= cx.now)) {
            self.handle_t3(cx, id);
        }
        self.path_manager().suspect_silent_paths(cx);
        let expired = |path: &Path| path.heartbeat().deadline().is_some_and(|at| at <= cx.now);
        for id in self.paths.ids(expired) {
            self.handle_heartbeat_timeout(cx, id);
        }
        self.path_manager().probe_quiet_paths(cx.now);
        self.path_manager().handle_mtu_timeouts(cx);
        self.paths.iter_mut().for_each(|path| path.pacer_mut().end_hold(cx.now));
        self.upper_layer().abandon_overdue(cx);
        if self.state.sends_data()
            && let Some(id) = self.reconfiguration.expire(cx.now)
        {
            self.paths.get_mut(id).into_iter().for_each(|path| path.rtt_mut().back_off());
            self.path_error(cx, id, true);
        }
        if let Some((path, counts)) = self.addressing().retry_asconf(cx.now) {
            self.path_error(cx, path, counts);
        }
        self.handle_retry(cx);
        doubt::handle_timeout(self, cx);
    }

    /// T3-rtx. In COOKIE-ECHOED its data leaves only with the next COOKIE ECHO, whose own timer
    /// counts the errors. A probe of a closed window is no error (section 6.1 rule A).
    fn handle_t3(&mut self, cx: &mut Context<'_>, id: PathId) {
        let is_probe = self.sender.handle_t3(id, &mut self.paths);
        self.path_manager().look_for_black_holes(cx);
        self.path_manager().count_ecn_failures(cx);
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
        match self.state.is_setting_up() {
            true => self.ending().retry_setup(cx, repetitions),
            false => self.retry_shutdown(cx, repetitions),
        }
    }

    fn retry_shutdown(&mut self, cx: &mut Context<'_>, sends: u32) {
        if sends > self.errors.most(cx.config) {
            return self.ending().give_up(cx, CloseReason::TooManyFailures);
        }
        let id = self.paths.shutdown_path();
        self.paths.leave_shutdown_path();
        if let Some(path) = self.paths.get_mut(id) {
            path.rtt_mut().back_off();
        }
        self.path_error(cx, id, false);
    }
}

fn earliest<const N: usize>(timers: [Option<Instant>; N]) -> Option<Instant> {
    timers.into_iter().fold(None, |first, timer| match (first, timer) {
        (Some(first), Some(timer)) => Some(first.min(timer)),
        (first, timer) => first.or(timer),
    })
}
