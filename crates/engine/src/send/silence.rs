//! Which paths are silent while others are not (see `flight::silence`).

use super::Sender;
use super::retransmit::{Loss, earliest_live, is_live};
use crate::path::congestion::CongestionEvent;
use crate::path::policy::standby;
use crate::path::{Path, PathId, PathSet, PathSuspicion, Paths, Sent, SentOrder};
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
        let has_others = usable.len() > 1 || !self.standby(paths, usable).is_empty();
        let watched = paths.iter().filter(|path| has_others && usable.contains(path.id));
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
    /// without a witness, a packet of chunks is sent again elsewhere.
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
        if overdue.is_empty() || self.window.probe().is_some() {
            return PathSet::default();
        }
        let usable = self.usable(paths);
        let has_others = usable.len() > 1 || !self.standby(paths, usable).is_empty();
        if has_others { overdue } else { PathSet::default() }
    }

    /// Paths that only wait for those of `usable` to fail.
    fn standby(&self, paths: &Paths, usable: PathSet) -> PathSet {
        match paths.is_regulated() && self.multipath {
            true => standby(paths, usable),
            false => PathSet::default(),
        }
    }

    fn is_witnessed(&self, id: PathId, paths: &Paths) -> bool {
        let usable = self.usable(paths);
        let standby = self.standby(paths, usable);
        let may_tell = |path: &&Path| usable.contains(path.id) || standby.contains(path.id);
        let Some(silent) = paths.get(id) else { return false };
        let mut others = paths.iter().filter(|path| path.id != id).filter(may_tell);
        others
            .any(|path| silent.cmt.silence.is_witnessed(&silent.rtt, &path.cmt.silence, &path.rtt))
    }

    fn ask_for_witness(&mut self, now: Instant, id: PathId, paths: &mut Paths) {
        let usable = self.usable(paths);
        for other in self.standby(paths, usable).iter() {
            if let Some(path) = paths.get_mut(other) {
                path.heartbeat.probe_now();
            }
        }
        let Some(path) = paths.get_mut(id) else { return };
        path.cmt.silence.ask(now);
        path.stats.probes += 1;
        if usable.len() < 2 {
            return;
        }
        let (packet, mut room) = (path.congestion.chunk_limit(), None);
        while let Some((tsn, wire)) = self.earliest_in_flight(now, id, paths) {
            let Some(left) = room.unwrap_or(packet.max(wire)).checked_sub(wire) else { break };
            room = Some(left);
            self.lose(tsn, paths, Loss::TimedOut);
        }
    }

    /// The earliest chunk in flight on `id`, if it may be repeated, and its size.
    fn earliest_in_flight(
        &self,
        now: Instant,
        id: PathId,
        paths: &mut Paths,
    ) -> Option<(Tsn64, usize)> {
        let path = paths.get_mut(id)?;
        let first = earliest_live(&self.outstanding, id, &mut path.cmt.first);
        let again = earliest_live(&self.outstanding, id, &mut path.cmt.again);
        let tsn = first.into_iter().chain(again).min()?;
        let chunk = self.outstanding.get(tsn)?;
        let allowed = chunk.fragment.terms.allow_repeat(now, chunk.transmissions);
        allowed.then_some((tsn, chunk.wire_len()))
    }

    /// A SACK has been worked in for `path`.
    pub(super) fn note_sounds(&self, now: Instant, path: &mut Path) {
        if self.rules.path_suspicion == PathSuspicion::Off {
            return;
        }
        if let Some(sent) = path.cmt.news.sent {
            let due = sent.most + path.rtt.smoothed().unwrap_or_default();
            let heard = if self.is_delivered_before(path) { due.min(now) } else { now };
            path.cmt.silence.on_heard(heard, sent.least, &path.rtt);
        }
        let awaited = self.awaited(path);
        let alone = path.flight <= path.congestion.chunk_limit() && path.last_data <= awaited;
        path.cmt.silence.set_awaited(awaited, alone);
    }

    /// Whether what the SACK under work tells of `path` is what that had delivered before it fell silent,
    /// and is told by the answer of another path: when it comes says nothing about this one.
    pub(super) fn is_delivered_before(&self, path: &Path) -> bool {
        let silence = &path.cmt.silence;
        (silence.is_asking() || silence.is_suspected()) && self.sack_path != Some(path.id)
    }

    /// When the earliest transmission of `path` left that may be the next to arrive: what left before one
    /// that has arrived is lost.
    fn awaited(&self, path: &Path) -> Option<Instant> {
        let newest = path.cmt.rack.newest().unwrap_or_default();
        let earliest = |order: &SentOrder| {
            order.earliest_after(newest, |sent| is_live(&self.outstanding, path.id, sent))
        };
        let both = [&path.cmt.first, &path.cmt.again].map(earliest);
        let sent = |sent: Sent| self.outstanding.get(sent.tsn).map(|chunk| chunk.last_sent);
        both.into_iter().flatten().filter_map(sent).min()
    }

    /// Whether what was acknowledged for `path` may have arrived before the path failed: it is suspected,
    /// and its own acknowledgements do not come. Then its flight was not lost, but it is not used before
    /// it has answered.
    pub(super) fn is_old_news(&self, path: &mut Path) -> bool {
        let old = path.cmt.silence.is_suspected() && self.sack_path != Some(path.id);
        if old {
            path.cmt.silence.refute();
        }
        old
    }

    /// Path `id` has answered a HEARTBEAT. If it stands by, that says something about others: returns
    /// whether it does.
    pub(crate) fn hear_standby(&self, now: Instant, id: PathId, paths: &mut Paths) -> bool {
        let stands_by = self.standby(paths, self.usable(paths)).contains(id);
        match paths.get_mut(id).filter(|path| stands_by && path.flight == 0) {
            Some(path) => path.cmt.silence.on_answer(now),
            None => return false,
        }
        true
    }

    /// Path `id` has answered a HEARTBEAT: it works. If it was suspected, and nothing of its flight is
    /// known to have arrived, that is lost.
    pub(crate) fn on_suspect_answered(&self, now: Instant, id: PathId, paths: &mut Paths) {
        let group = paths.couple(self.usable(paths));
        let Some(path) = paths.get_mut(id) else { return };
        let Some(suspicion) = path.cmt.silence.settle() else { return };
        path.cmt.silence.survive(now, suspicion, &path.rtt);
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
