//! Errors and successes of paths, and what they mean for the association (RFC 9260 sections 8.1
//! and 8.2, RFC 7829 section 3.2).

use super::context::Context;
use super::path_manager::{Addressing, PathManager};
use super::state::State;
use super::tcb::Association;
use crate::config::Config;
use crate::event::{CloseReason, Event};
use crate::path::{MtuSearch, PathAddr, PathId, PathState};
use crate::send::Sender;
use crate::time::Duration;

impl Association {
    /// Something sent on `id` was not answered in time. `counts` says whether it also counts for the
    /// association.
    pub(super) fn path_error(&mut self, cx: &mut Context<'_>, id: PathId, counts: bool) {
        // Our own link is down, which says nothing about the peer.
        let Some(path) = self.paths.get_mut(id).filter(|path| !path.health().is_suspended()) else {
            return;
        };
        if counts {
            self.errors.add(cx.now);
        }
        let state = path.on_error(cx.config);
        self.path_manager().set_path_state(cx, id, state);
        self.addressing().drop_forgotten_port(id);
        let patience = patience(&self.state, &self.sender, cx.config);
        if self.errors.are_too_many(cx.now, cx.config, patience) {
            self.ending().give_up(cx, CloseReason::TooManyFailures);
        }
    }

    /// The network said that `addr` cannot be reached. During setup this ends the attempt over that
    /// pair of addresses (RFC 6951 section 5.5, RFC 9260 section 10 rule ICMP8). Later the report
    /// proves nothing, as it is not tied to our tag: it counts as one error of an Active path.
    ///
    /// In SHUTDOWN-ACK-SENT everything has arrived on both sides and only the confirmation is
    /// missing. Where that was lost, a peer that has ended cannot repeat it: nobody is left to wait for.
    pub(crate) fn handle_unreachable(&mut self, cx: &mut Context<'_>, addr: PathAddr) {
        if matches!(self.state, State::CookieWait(_)) {
            self.ending().candidate_unreachable(cx, addr);
        } else if matches!(self.state, State::ShutdownAckSent(_)) {
            if let Some(id) = self.paths.by_addr(&addr) {
                self.path_manager().set_path_state(cx, id, PathState::Inactive);
            }
            if !self.paths.iter().any(|path| path.health().is_active()) {
                self.ending().close(cx, CloseReason::Graceful);
            }
        } else if !self.state.is_setting_up() {
            let id = self.paths.by_addr(&addr);
            if let Some(id) = id.filter(|id| self.paths.is_active(*id)) {
                self.path_error(cx, id, false);
            }
        }
    }
}

impl Addressing<'_> {
    /// HEARTBEATs on `id` were answered, which also confirms the address (section 5.4).
    pub(super) fn path_confirmed(&mut self, cx: &mut Context<'_>, id: PathId) {
        let group = self.sender.choice().couple(self.paths);
        let Some(path) = self.paths.get_mut(id) else { return };
        path.subflow_mut().on_suspect_answered(cx.now, &group);
        path.health_mut().clear_errors();
        let is_new = !path.health().is_confirmed();
        let remote = path.addr().remote;
        self.paths.verify(remote);
        self.path_manager().set_path_state(cx, id, PathState::Active);
        if is_new {
            self.leave_other_ports(cx, id);
            if cx.config.handshake_race {
                self.sender.overtake(cx.now, id, self.paths);
            }
        }
        self.apply_preference(cx);
        self.paths.apply_wished_primary();
    }
}

impl PathManager<'_> {
    /// Looks for paths that are silent while others are not.
    pub(super) fn suspect_silent_paths(&mut self, cx: &mut Context<'_>) {
        if self.state.sends_data() {
            let silent = self.sender.silent_paths(cx.now, self.paths);
            silent.iter().for_each(|id| self.suspect(cx, id));
        }
    }

    /// `id` is silent while others are not.
    pub(super) fn suspect(&mut self, cx: &mut Context<'_>, id: PathId) {
        let Some(path) = self.paths.get_mut(id).filter(|path| path.health().is_active()) else {
            return;
        };
        path.subflow_mut().suspect(cx.now);
        self.set_path_state(cx, id, PathState::PotentiallyFailed);
    }

    /// DATA that went over `id` alone was acknowledged.
    pub(super) fn path_acked(&mut self, cx: &mut Context<'_>, id: PathId) {
        let Some(path) = self.paths.get_mut(id) else { return };
        let state = path.on_data_acked();
        self.set_path_state(cx, id, state);
    }

    pub(super) fn set_path_state(&mut self, cx: &mut Context<'_>, id: PathId, state: PathState) {
        let Some(path) = self.paths.get_mut(id) else { return };
        let Some(before) = path.health_mut().change_state(state) else { return };
        cx.emit(self.id, Event::PathChanged { path: id, state });
        *self.keys_changed |= before == PathState::Unconfirmed;
        if state == PathState::Active {
            path.change_mtu(MtuSearch::start);
            self.path_returned(cx, id);
        } else if before == PathState::Active {
            path.change_mtu(MtuSearch::pause);
            self.path_left(cx, id);
        }
    }

    /// Data leaves the path and a HEARTBEAT asks at once whether it works.
    fn path_left(&mut self, cx: &Context<'_>, id: PathId) {
        if let Some(path) =
            self.probed(id).filter(|path| path.health().supervision(cx.config).heartbeats)
        {
            path.heartbeat_mut().probe_now();
        }
        self.sender.path_lost(id, self.paths);
    }

    /// What is in flight on the path waits for a T3-rtx that was backed off while nothing got
    /// through; the fresh RTO is enough.
    fn path_returned(&mut self, cx: &mut Context<'_>, id: PathId) {
        let heartbeats = self.state.sends_heartbeats();
        let Some(path) = self.paths.get_mut(id) else { return };
        let expiry = cx.now + path.rtt().rto();
        path.flight_mut().hasten_t3(expiry);
        if heartbeats {
            path.rest_probing(cx.now, cx.config, cx.rng);
        }
        self.leave_failed_paths();
    }

    /// While no path was Active, data went on over a failed one. Now it need not wait there.
    pub(super) fn leave_failed_paths(&mut self) {
        for id in self.paths.ids(|path| !path.health().is_active() && path.in_flight() > 0) {
            self.sender.path_lost(id, self.paths);
        }
    }
}

/// How long the peer may be silent, however many errors there were.
fn patience(state: &State, sender: &Sender, config: &Config) -> Duration {
    match sender.unacked() {
        _ if !state.sends_data() => Duration::ZERO,
        0 => config.idle_patience,
        _ => config.data_patience,
    }
}
