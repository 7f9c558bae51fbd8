//! Which paths are silent while others are not (see `cmt::silence`).

use super::Sender;
use super::retransmit::{Loss, earliest_live};
use crate::cmt::PathSuspicion;
use crate::path::congestion::CongestionEvent;
use crate::path::{Path, PathId, PathSet, Paths};
use crate::time::Instant;
use crate::tsn::Tsn64;

impl Sender {
    /// When the silence of a path must be looked at.
    pub(crate) fn silence_deadline(&self, paths: &Paths) -> Option<Instant> {
        // The probe of a closed window is answered, but not acknowledged.
        if self.rules.path_suspicion == PathSuspicion::Off || self.window.probe().is_some() {
            return None;
        }
        let usable = self.usable(paths);
        let watched = paths.iter().filter(|path| usable.len() > 1 && usable.contains(path.id));
        watched.filter_map(|path| self.overdue_at(path)).min()
    }

    /// When the path becomes overdue if it is not already.
    fn overdue_at(&self, path: &Path) -> Option<Instant> {
        if path.flight == 0 || path.cmt.silence.is_asking() {
            return None;
        }
        path.cmt.silence.overdue(&path.rtt, self.rules.sack_delay)
    }

    /// Looks at the silence of all paths: those that are to be suspected. For one that is overdue
    /// without a witness, a chunk is sent again elsewhere.
    pub(crate) fn silent_paths(&mut self, now: Instant, paths: &mut Paths) -> PathSet {
        let mut silent = PathSet::default();
        if self.rules.path_suspicion == PathSuspicion::Off {
            return silent;
        }
        for id in self.overdue(now, paths).iter() {
            if self.is_witnessed(id, paths) {
                silent.insert(id);
            } else if !paths.get(id).is_some_and(|path| path.cmt.silence.is_asking()) {
                self.ask_for_witness(now, id, paths);
            }
        }
        silent
    }

    fn overdue(&self, now: Instant, paths: &Paths) -> PathSet {
        let mut overdue = PathSet::default();
        for path in paths.iter().filter(|path| path.is_active()) {
            if path.cmt.silence.is_asking() || self.overdue_at(path).is_some_and(|at| at <= now) {
                overdue.insert(path.id);
            }
        }
        if overdue.is_empty() || self.window.probe().is_some() || self.usable(paths).len() < 2 {
            return PathSet::default();
        }
        overdue
    }

    fn is_witnessed(&self, id: PathId, paths: &Paths) -> bool {
        let usable = self.usable(paths);
        let Some(silent) = paths.get(id) else { return false };
        let mut others = paths.iter().filter(|path| path.id != id && usable.contains(path.id));
        others
            .any(|path| silent.cmt.silence.is_witnessed(&silent.rtt, &path.cmt.silence, &path.rtt))
    }

    fn ask_for_witness(&mut self, now: Instant, id: PathId, paths: &mut Paths) {
        let Some(path) = paths.get_mut(id) else { return };
        path.cmt.silence.ask(now);
        path.stats.probes += 1;
        let first = earliest_live(&self.outstanding, id, &mut path.cmt.first);
        let again = earliest_live(&self.outstanding, id, &mut path.cmt.again);
        let allowed = |tsn: &Tsn64| {
            let chunk = self.outstanding.get(*tsn);
            chunk.is_some_and(|c| c.fragment.terms.allow_repeat(now, c.transmissions))
        };
        if let Some(tsn) = first.into_iter().chain(again).min().filter(allowed) {
            self.lose(tsn, paths, Loss::TimedOut);
        }
    }

    /// A SACK has been worked in for `path`.
    pub(super) fn note_sounds(&self, now: Instant, path: &mut Path) {
        if self.rules.path_suspicion == PathSuspicion::Off {
            return;
        }
        if path.cmt.news.numbers.is_some() && path.cmt.silence.on_heard(now, &path.rtt) {
            path.stats.spurious_probes += 1;
        }
        let orders = [&mut path.cmt.first, &mut path.cmt.again];
        let earliest = orders.map(|order| earliest_live(&self.outstanding, path.id, order));
        let sent = |tsn| self.outstanding.get(tsn).map(|chunk| chunk.last_sent);
        if let Some(oldest) = earliest.into_iter().flatten().filter_map(sent).min() {
            let alone = path.flight <= path.congestion.chunk_limit();
            path.cmt.silence.set_oldest(oldest, alone);
        }
    }

    /// Path `id` has answered a HEARTBEAT: it works. If it was suspected, and nothing of its flight is
    /// known to have arrived, that is lost.
    pub(crate) fn on_suspect_answered(&self, now: Instant, id: PathId, paths: &mut Paths) {
        let group = paths.couple(self.usable(paths));
        let Some(path) = paths.get_mut(id) else { return };
        let Some(suspicion) = path.cmt.silence.settle() else { return };
        path.cmt.silence.survive(now, suspicion);
        path.stats.spurious_suspicions += 1;
        if !suspicion.refuted {
            path.congestion.on_loss(&CongestionEvent { used: suspicion.flight }, &group);
        }
    }

    /// Path `id` has not answered a HEARTBEAT either. If it was suspected, its flight has timed out.
    pub(crate) fn on_suspect_silent(&self, id: PathId, paths: &mut Paths) {
        let group = paths.couple(self.usable(paths));
        let Some(path) = paths.get_mut(id) else { return };
        let Some(suspicion) = path.cmt.silence.settle() else { return };
        path.stats.timeouts += 1;
        path.congestion.on_timeout(&CongestionEvent { used: suspicion.flight }, &group);
        path.cmt.recovery.leave();
        path.cmt.fast_packet = false;
        path.cmt.one_packet = true;
    }
}
