//! Working a SACK in (RFC 9260 sections 6.2.1, 6.3.2, 7.2; the rules per path in `path::flight`).

use super::{SackView, Sender};
use crate::config::PathSuspicion;
use crate::path::congestion::Group;
use crate::path::flight::dac::Reports;
use crate::path::{Extent, Path, PathId, PathSet, Paths, SackSummary};
use crate::time::Instant;
use crate::tsn::Tsn64;

/// What a SACK has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SackOutcome {
    /// It was older than one seen before and was ignored.
    pub(crate) stale: bool,
    /// Something was newly acknowledged.
    pub(crate) newly_acked: bool,
    /// Paths that have proved to work: their error counters are to be cleared.
    pub(crate) acked_paths: PathSet,
    /// Paths that are silent while others are not: they are to be suspected.
    pub(crate) silent_paths: PathSet,
}

impl Sender {
    /// Works in a SACK that arrived over `via`.
    ///
    /// # Errors
    /// The peer acknowledges what was never sent, or its blocks make no sense.
    pub(crate) fn handle_sack(
        &mut self,
        now: Instant,
        sack: &SackView<'_>,
        via: PathId,
        paths: &mut Paths,
    ) -> Result<SackOutcome, &'static str> {
        let cum = Tsn64::near(sack.cum_tsn, self.outstanding.cum());
        if !self.copies.is_on() {
            self.repetitions.on_duplicates(sack.duplicates, self.outstanding.cum(), paths);
        }
        if cum < self.outstanding.cum() || self.outstanding.is_from_before_jump(cum) {
            // One that comes over a slow path may be old, but what has arrived twice it alone knows.
            if self.copies.is_on() && sack.duplicates.iter().next().is_some() {
                let cum = SackView::of_shutdown(self.outstanding.cum().wire());
                let duplicates = SackView { duplicates: sack.duplicates, ..cum };
                return self.handle_sack(now, &duplicates, via, paths);
            }
            return Ok(SackOutcome { stale: true, ..SackOutcome::default() });
        }
        let highest = self.scoreboard.read(cum, sack);
        if highest >= self.outstanding.next_tsn() {
            return Err("acknowledgement of a TSN that was never sent");
        }
        self.scoreboard.accept(via, (!sack.is_complete()).then_some(highest));
        if let Some(path) = paths.get_mut(via) {
            path.subflow_mut().on_sack_received(now);
        }
        let believed = self.distribution(now, via, paths).run(cum, highest, sack);
        let mut outcome = SackOutcome::default();
        let group = self.choice.couple(paths);
        let summary = self.summary(now, highest, sack, via, paths, &group);
        for path in paths.iter_mut() {
            self.end_sack(&summary, path, &mut outcome);
        }
        if self.abandonment.take_passed() {
            // Nothing that was sent is acknowledged by it, but the peer has answered.
            outcome.newly_acked = true;
            if let Some(path) = self.forward.proven_path() {
                outcome.acked_paths.insert(path);
            }
        }
        self.copies.prune(&self.outstanding, paths);
        self.forward.advance(now, true, &self.outstanding);
        self.outstanding.guard(now, paths);
        if let Some(a_rwnd) = sack.a_rwnd.filter(|_| believed) {
            let needed = self.fragment_size(paths);
            self.outstanding.on_window(now, a_rwnd, needed, paths);
        }
        outcome.silent_paths = self.silent_paths(now, paths);
        self.buffer.fit(paths);
        Ok(outcome)
    }

    /// Draws the conclusions for one path.
    fn end_sack(&mut self, summary: &SackSummary<'_>, path: &mut Path, outcome: &mut SackOutcome) {
        let id = path.id();
        let conclusion =
            path.subflow_mut().conclude(summary, |sent| self.outstanding.is_live(id, sent));
        outcome.newly_acked |= conclusion.newly_acked;
        if conclusion.works {
            outcome.acked_paths.insert(id);
        }
        let (by_time, horizon) = (self.is_racking(), self.scoreboard.horizon());
        self.detection.on_sack(summary, by_time, horizon, path, &mut self.outstanding);
        path.subflow_mut().end_sack(summary.now, self.rules.experiment.smart_t3);
        if self.rules.path_suspicion != PathSuspicion::Off {
            let left_at = |sent| self.outstanding.left_at(id, sent);
            path.subflow_mut().note_sounds(summary.now, summary.via, left_at);
        }
    }

    fn summary<'g>(
        &mut self,
        now: Instant,
        highest: Tsn64,
        sack: &SackView<'_>,
        via: PathId,
        paths: &Paths,
        group: &'g Group,
    ) -> SackSummary<'g> {
        let cum = self.outstanding.cum();
        self.detection.on_cumulative(cum);
        let recovering = self.detection.is_recovering();
        let acking = paths.iter().filter(|path| path.flight().newly_acked().is_some()).count();
        let mut newly_acked =
            paths.iter().map(|path| path.flight().newly_acked()).fold(None, Extent::union);
        if recovering && paths.iter().any(|path| path.flight().was_passed()) {
            // Section 7.2.4: in fast recovery such a SACK strikes all that it reports missing.
            newly_acked = Extent::with(newly_acked, highest.next());
        }
        let dac = self.rules.experiment.delayed_ack_cmt;
        let reports = if dac { Reports::new(sack.flags, acking) } else { Reports::ONE };
        // With copies the earliest chunk of a path is no longer one that only this path can deliver.
        let cwnd_update = (!self.copies.is_on()).then_some(self.rules.experiment.cwnd_update);
        SackSummary { now, via, cum, highest, newly_acked, reports, recovering, cwnd_update, group }
    }
}
