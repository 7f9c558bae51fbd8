//! Which paths are silent while others are not (see `flight::silence`).

use super::Sender;
use super::outstanding::Outstanding;
use super::path_choice::PathChoice;
use super::rules::Rules;
use crate::config::PathSuspicion;
use crate::path::{Loss, Path, PathId, PathSet, Paths};
use crate::time::Instant;

/// What looking at silence reads: which paths carry data, and what is under way on them.
pub(crate) struct Silence<'a> {
    rules: &'a Rules,
    choice: &'a PathChoice,
    outstanding: &'a Outstanding,
}

impl Sender {
    /// Borrows what looking at silence reads.
    pub(crate) fn silence(&self) -> Silence<'_> {
        Silence { rules: &self.rules, choice: &self.choice, outstanding: &self.outstanding }
    }

    /// Looks at the silence of all paths: those that are to be suspected. For one that is overdue
    /// without a witness, a packet of chunks is sent again elsewhere.
    pub(crate) fn silent_paths(&mut self, now: Instant, paths: &mut Paths) -> PathSet {
        let mut silent = PathSet::default();
        if self.rules.path_suspicion == PathSuspicion::Off {
            return silent;
        }
        for id in self.silence().overdue(now, paths).iter() {
            if self.silence().is_witnessed(id, paths) {
                silent.insert(id);
            } else if !paths.get(id).is_some_and(|path| path.flight().is_asking()) {
                ask_for_witness(now, id, &self.choice, (&mut self.outstanding, paths));
            }
        }
        silent
    }
}

impl Silence<'_> {
    /// When the silence of a path must be looked at.
    pub(crate) fn deadline(&self, paths: &Paths) -> Option<Instant> {
        // The probe of a closed window is answered, but not acknowledged.
        if self.rules.path_suspicion == PathSuspicion::Off
            || self.outstanding.window().probe().is_some()
        {
            return None;
        }
        let usable = self.choice.usable(paths);
        let has_others = self.has_others(usable, paths);
        let watched = paths.among(usable).filter(|_| has_others);
        watched.filter_map(|path| path.subflow().overdue_at(self.rules.sack_delay)).min()
    }

    fn overdue(&self, now: Instant, paths: &Paths) -> PathSet {
        let mut overdue = PathSet::default();
        for path in paths.active() {
            let at = path.subflow().overdue_at(self.rules.sack_delay);
            if path.flight().is_asking() || at.is_some_and(|at| at <= now) {
                overdue.insert(path.id());
            }
        }
        if overdue.is_empty() || self.outstanding.window().probe().is_some() {
            return PathSet::default();
        }
        let usable = self.choice.usable(paths);
        if self.has_others(usable, paths) { overdue } else { PathSet::default() }
    }

    /// Whether there is a path that may tell of another one.
    fn has_others(&self, usable: PathSet, paths: &Paths) -> bool {
        usable.len() > 1 || !self.choice.standby(paths, usable).is_empty()
    }

    fn is_witnessed(&self, id: PathId, paths: &Paths) -> bool {
        let usable = self.choice.usable(paths);
        let standby = self.choice.standby(paths, usable);
        let may_tell = |path: &&Path| usable.contains(path.id()) || standby.contains(path.id());
        let Some(silent) = paths.get(id) else { return false };
        let mut others = paths.iter().filter(|path| path.id() != id).filter(may_tell);
        others.any(|path| silent.subflow().is_witnessed_by(path.subflow()))
    }

    /// Path `id` has answered a HEARTBEAT. If it stands by, that says something about others: returns
    /// whether it does.
    pub(crate) fn hear_standby(&self, now: Instant, id: PathId, paths: &mut Paths) -> bool {
        let stands_by = self.choice.standby(paths, self.choice.usable(paths)).contains(id);
        match paths.get_mut(id).filter(|path| stands_by && path.in_flight() == 0) {
            Some(path) => path.flight_mut().on_standby_heard(now),
            None => return false,
        }
        true
    }
}

/// Path `id` is overdue: makes other paths tell of it, those that stand by with a HEARTBEAT, those that carry data with
/// a packet of its chunks.
fn ask_for_witness(
    now: Instant,
    id: PathId,
    choice: &PathChoice,
    (outstanding, paths): (&mut Outstanding, &mut Paths),
) {
    let usable = choice.usable(paths);
    for other in choice.standby(paths, usable).iter() {
        if let Some(path) = paths.get_mut(other) {
            path.heartbeat_mut().probe_now();
        }
    }
    let Some(path) = paths.get_mut(id) else { return };
    path.subflow_mut().ask_for_witness(now);
    if usable.len() < 2 {
        return;
    }
    let (packet, mut room) = (path.congestion().chunk_limit(), None);
    while let Some((tsn, wire)) = outstanding.earliest_on(now, id, paths) {
        let Some(left) = room.unwrap_or(packet.max(wire)).checked_sub(wire) else { break };
        room = Some(left);
        outstanding.lose(tsn, paths, Loss::TimedOut);
    }
}
