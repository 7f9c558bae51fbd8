//! Looking for losses (see `flight::loss`) and probing silent tails (`flight::tail_probe`): what SACKs
//! and timers set off in the sender.

use super::Sender;
use super::outstanding::Outstanding;
use crate::config::{Config, FastRecoveryScope, LossRecovery};
use crate::path::congestion::Group;
use crate::path::{
    Detection, FastRecovery, Found, Loss, MtuSearch, Path, PathId, Paths, SackSummary,
};
use crate::time::Instant;
use crate::tsn::Tsn64;

/// By what losses are found, and what they mean for the congestion window: it owns the fast recovery of the
/// association.
#[derive(Debug)]
pub(super) struct LossDetection {
    loss_recovery: LossRecovery,
    rules: Detection,
    scope: FastRecoveryScope,
    /// Fast recovery of the association, if that is its scope.
    recovery: FastRecovery,
}

impl LossDetection {
    /// What `config` says.
    pub(super) fn new(config: &Config) -> Self {
        let experiment = &config.experiment;
        Self {
            loss_recovery: config.loss_recovery,
            rules: Detection {
                split_fast_retransmit: experiment.split_fast_retransmit,
                missing_reports: experiment.missing_reports.max(1),
                repeats: config.loss_recovery != LossRecovery::Rfc9260,
                horizon: None,
            },
            scope: experiment.fast_recovery,
            recovery: FastRecovery::default(),
        }
    }

    /// Whether losses are found by time where chunks are sent on one path each.
    pub(super) fn is_by_time(&self) -> bool {
        self.loss_recovery == LossRecovery::Rack
    }

    /// Whether the association is in fast recovery.
    pub(super) fn is_recovering(&self) -> bool {
        self.recovery.is_active()
    }

    /// The cumulative TSN is `cum`.
    pub(super) fn on_cumulative(&mut self, cum: Tsn64) {
        self.recovery.on_cumulative(cum);
    }

    /// T3-rtx has expired.
    pub(super) fn on_timeout(&mut self) {
        self.recovery.leave();
    }

    /// Looks for chunks and copies that the SACK shows to be lost, by time or not, and cuts the window for them. SACKs may
    /// have left out what is beyond `horizon`.
    pub(super) fn on_sack(
        &mut self,
        summary: &SackSummary<'_>,
        by_time: bool,
        horizon: Option<Tsn64>,
        path: &mut Path,
        outstanding: &mut Outstanding,
    ) {
        let rules = Detection { horizon, ..self.rules };
        let mut found = if by_time {
            path.subflow_mut().find_late(summary.now, true, &rules, outstanding)
        } else {
            path.subflow_mut().count_missing_reports(summary, &rules, outstanding)
        };
        found.any |= path.subflow_mut().lose_copies(summary.now);
        found.any |= path.flight_mut().was_repaired();
        self.respond(found, summary.recovering, path, summary.group, outstanding);
    }

    /// The loss timer of `path` has expired.
    fn on_timer(
        &mut self,
        now: Instant,
        horizon: Option<Tsn64>,
        path: &mut Path,
        group: &Group,
        outstanding: &mut Outstanding,
    ) {
        let rules = Detection { horizon, ..self.rules };
        let found = path.subflow_mut().find_late(now, false, &rules, outstanding);
        self.respond(found, self.is_recovering(), path, group, outstanding);
    }

    /// Draws the conclusions for the peer's window, the MTU and the congestion window. `recovering`: the association is in
    /// fast recovery. A lost retransmission is a second sign of congestion (RFC 8985 section 9.3), once per window.
    fn respond(
        &mut self,
        found: Found,
        recovering: bool,
        path: &mut Path,
        group: &Group,
        outstanding: &mut Outstanding,
    ) {
        if !found.any {
            return;
        }
        outstanding.on_lost(found.data);
        if found.large {
            path.change_mtu(MtuSearch::on_large_lost);
        }
        let again = path.flight_mut().is_lost_again(found.repeated);
        if self.enter_recovery(recovering && !again, path, outstanding) {
            path.subflow_mut().cut(group);
        }
    }

    /// Chunks of `path` were found lost, with the association in fast recovery before or not. Returns
    /// whether its window is to be cut for it.
    pub(super) fn enter_recovery(
        &mut self,
        recovering: bool,
        path: &mut Path,
        outstanding: &Outstanding,
    ) -> bool {
        match self.scope {
            FastRecoveryScope::Path => path.flight_mut().enter_recovery(outstanding.cum()),
            FastRecoveryScope::Association => {
                self.recovery.enter(Some(outstanding.next_tsn().before()));
                !recovering
            }
            FastRecoveryScope::None => true,
        }
    }
}

impl Sender {
    /// Whether losses are found by time. Not in redundant transmission: of a chunk that is late on one
    /// path another transmission is under way.
    pub(super) fn is_racking(&self) -> bool {
        self.detection.is_by_time() && !self.copies.is_on()
    }

    /// When losses must be looked for, or a silent tail be probed.
    pub(crate) fn loss_deadline(&self, paths: &Paths) -> Option<Instant> {
        if !self.is_racking() {
            return None;
        }
        let delay = self.rules.sack_delay;
        let probe_at = |path: &Path| self.outstanding.tail_probe_at(path, delay);
        let times = paths.iter().filter_map(|path| path.flight().loss_timer().or(probe_at(path)));
        times.chain(self.tail.relief()).min()
    }

    /// Does what is due at [`Self::loss_deadline`].
    pub(crate) fn handle_loss_deadline(&mut self, now: Instant, paths: &mut Paths) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if !due(self.loss_deadline(paths)) {
            return;
        }
        self.tail.on_deadline(now);
        let group = self.choice.couple(paths);
        let horizon = self.scoreboard.horizon();
        for path in paths.iter_mut().filter(|path| due(path.flight().loss_timer())) {
            self.detection.on_timer(now, horizon, path, &group, &mut self.outstanding);
        }
        let delay = self.rules.sack_delay;
        let probe_at = |path: &Path| self.outstanding.tail_probe_at(path, delay);
        let is_silent = |path: &Path| path.flight().loss_timer().is_none() && due(probe_at(path));
        for id in paths.ids(is_silent) {
            self.probe_tail(now, id, paths);
        }
    }

    /// Sends something on a path that has been silent for too long. If there is nothing that may be sent,
    /// T3-rtx is not put off.
    fn probe_tail(&mut self, now: Instant, id: PathId, paths: &mut Paths) {
        let Some(path) = paths.get_mut(id) else { return };
        path.flight_mut().tail_probe_mut().probe();
        let has_data = self.has_data_for(now, id, paths);
        let latest = self.outstanding.latest_on(now, id, paths).filter(|_| !has_data);
        let Some(path) = paths.get_mut(id) else { return };
        if !has_data && latest.is_none() {
            return path.flight_mut().tail_probe_mut().on_packet();
        }
        path.subflow_mut().begin_tail_probe(now, latest);
        if let Some(tsn) = latest {
            self.outstanding.lose(tsn, paths, Loss::Reported);
        }
    }
}
