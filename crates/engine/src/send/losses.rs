//! Looking for losses (see `flight::loss`) and probing silent tails (`flight::tail_probe`): what SACKs
//! and timers set off in the sender.

use super::Sender;
use crate::config::{FastRecoveryScope, LossRecovery};
use crate::path::congestion::Group;
use crate::path::{Detection, Found, Loss, Path, PathId, Paths, SackSummary};
use crate::time::Instant;

impl Sender {
    /// Whether losses are found by time. Not in redundant transmission: of a chunk that is late on one
    /// path another transmission is under way.
    pub(super) fn is_racking(&self) -> bool {
        self.rules.loss_recovery == LossRecovery::Rack && !self.copies.is_on()
    }

    /// When losses must be looked for, or a silent tail be probed.
    pub(crate) fn loss_deadline(&self, paths: &Paths) -> Option<Instant> {
        if !self.is_racking() {
            return None;
        }
        let times =
            paths.iter().filter_map(|path| path.flight().loss_timer().or(self.probe_at(path)));
        times.chain(self.tail.relief).min()
    }

    /// The probe of a closed window is answered, but not acknowledged, and needs no other one.
    pub(super) fn probe_at(&self, path: &Path) -> Option<Instant> {
        match self.outstanding.window().probe() {
            Some(_) => None,
            None => path.tail_probe_at(self.rules.sack_delay),
        }
    }

    /// Does what is due at [`Self::loss_deadline`].
    pub(crate) fn handle_loss_deadline(&mut self, now: Instant, paths: &mut Paths) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if !due(self.loss_deadline(paths)) {
            return;
        }
        self.tail.relief.take_if(|at| *at <= now);
        let group = self.choice.couple(paths);
        for path in paths.iter_mut().filter(|path| due(path.flight().loss_timer())) {
            let rules = self.detection();
            let found = path.find_late(now, false, &rules, &mut self.outstanding);
            self.outstanding.on_lost(found.data);
            self.respond(found, self.recovery.is_active(), path, &group);
        }
        let is_silent =
            |path: &Path| path.flight().loss_timer().is_none() && due(self.probe_at(path));
        for id in paths.ids(is_silent) {
            self.probe_tail(now, id, paths);
        }
    }

    /// By what losses are found now.
    fn detection(&self) -> Detection {
        Detection {
            split_fast_retransmit: self.rules.experiment.split_fast_retransmit,
            missing_reports: self.rules.experiment.missing_reports.max(1),
            repeats: self.rules.loss_recovery != LossRecovery::Rfc9260,
            horizon: self.scoreboard.horizon(),
        }
    }

    /// Looks for chunks and copies that the SACK shows to be lost, and cuts the window for them.
    pub(super) fn look_for_losses(&mut self, summary: &SackSummary<'_>, path: &mut Path) {
        let rules = self.detection();
        let mut found = if self.is_racking() {
            path.find_late(summary.now, true, &rules, &mut self.outstanding)
        } else {
            path.count_missing_reports(summary, &rules, &mut self.outstanding)
        };
        self.outstanding.on_lost(found.data);
        found.any |= path.lose_copies(summary.now);
        found.any |= path.flight_mut().was_repaired();
        self.respond(found, summary.recovering, path, summary.group);
    }

    /// Draws the conclusions for the congestion window. `recovering`: the association is in fast recovery.
    /// A lost retransmission is a second sign of congestion (RFC 8985 section 9.3), once per window.
    fn respond(&mut self, found: Found, recovering: bool, path: &mut Path, group: &Group) {
        if !found.any {
            return;
        }
        let again = path.flight_mut().is_lost_again(found.repeated);
        if self.enter_recovery(recovering && !again, path) {
            path.cut(group);
        }
    }

    /// Chunks of `path` were found lost, with the association in fast recovery before or not. Returns
    /// whether its window is to be cut for it.
    pub(super) fn enter_recovery(&mut self, recovering: bool, path: &mut Path) -> bool {
        match self.rules.experiment.fast_recovery {
            FastRecoveryScope::Path => path.flight_mut().enter_recovery(self.outstanding.cum()),
            FastRecoveryScope::Association => {
                self.recovery.enter(Some(self.outstanding.next_tsn().before()));
                !recovering
            }
            FastRecoveryScope::None => true,
        }
    }

    /// Sends something on a path that has been silent for too long. If there is nothing that may be sent,
    /// T3-rtx is not put off.
    fn probe_tail(&mut self, now: Instant, id: PathId, paths: &mut Paths) {
        let Some(path) = paths.get_mut(id) else { return };
        path.flight_mut().allow_tail_probe();
        let has_data = self.has_data_for(now, id, paths);
        let latest = self.outstanding.latest_on(now, id, paths).filter(|_| !has_data);
        let Some(path) = paths.get_mut(id) else { return };
        if !has_data && latest.is_none() {
            return path.flight_mut().cancel_tail_probe();
        }
        path.begin_tail_probe(now, latest);
        if let Some(tsn) = latest {
            self.outstanding.lose(tsn, paths, Loss::Reported);
        }
    }
}
