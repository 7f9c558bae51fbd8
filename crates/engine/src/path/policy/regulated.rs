//! The paths that may carry user data where somebody has said what is wanted of them.
//!
//! 1. Of the active paths those of the lowest rank: normal ones, else backup ones, else those whose
//!    allowance is used up. Disabled ones carry nothing.
//! 2. Of these the cheapest, and dearer ones up to a *ceiling*. It rises to the next cost when data has waited
//!    without a break for longer than the *patience*, although those up to the ceiling carry what their
//!    windows allow; it falls to the cost below when no path at the ceiling has carried data for as long.
//!    The patience is [`PATIENCE`], or two round trips of the slowest path up to the ceiling if they are longer.

use crate::path::{Path, PathSet, Paths, Rank};
use crate::time::{Duration, Instant};

/// For how long data waits for cheaper paths at least: a window that has just begun to grow, or a short burst,
/// is no reason to pay more.
const PATIENCE: Duration = Duration::from_millis(200);

/// The cost up to which paths are used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CostCeiling {
    /// `None`: the cheapest only.
    cost: Option<u16>,
    /// Since when data has waited.
    waiting: Option<Instant>,
    /// When it rose or fell last.
    moved: Instant,
}

impl CostCeiling {
    /// The cost up to which paths of `candidates` are used.
    fn of(&self, paths: &Paths, candidates: PathSet) -> u16 {
        let costs = || paths.among(candidates).map(|path| path.regime().cost());
        let cheapest = costs().min().unwrap_or(0);
        let allowed = costs().filter(|cost| Some(*cost) <= self.cost).max();
        allowed.unwrap_or(cheapest).max(cheapest)
    }

    /// Moves it, if that is due.
    pub(crate) fn adjust(&mut self, now: Instant, paths: &Paths) {
        let candidates = candidates(paths);
        let ceiling = self.of(paths, candidates);
        let patience = patience(paths, candidates, ceiling);
        let costs = || paths.among(candidates).map(|path| path.regime().cost());
        let next = costs().filter(|cost| *cost > ceiling).min();
        let below = costs().filter(|cost| *cost < ceiling).max();
        if next.is_some() && self.waiting.is_some_and(|since| now.since(since) >= patience) {
            *self = Self { cost: next, waiting: Some(now), moved: now };
        } else if below.is_some() {
            let at = paths.among(candidates).filter(|path| path.regime().cost() == ceiling);
            let used = at.filter_map(|path| path.flight().last_data()).max().unwrap_or(self.moved);
            if now.since(used.max(self.moved)) >= patience {
                *self = Self { cost: below, waiting: None, moved: now };
            }
        } else {
            self.cost = None;
        }
    }

    /// All that may be sent now has been sent; whether some of what is left waits for windows of paths.
    pub(crate) fn note_waiting(&mut self, now: Instant, waits: bool) {
        self.waiting = waits.then(|| self.waiting.unwrap_or(now));
    }

    /// When it will rise, if data goes on waiting.
    pub(crate) fn deadline(&self, paths: &Paths) -> Option<Instant> {
        let since = self.waiting?;
        let candidates = candidates(paths);
        let ceiling = self.of(paths, candidates);
        let is_last = paths.among(candidates).all(|path| path.regime().cost() <= ceiling);
        (!is_last).then(|| since + patience(paths, candidates, ceiling))
    }
}

/// The paths that may carry user data.
pub(crate) fn usable(paths: &Paths) -> PathSet {
    let mut set = candidates(paths);
    let ceiling = paths.ceiling().of(paths, set);
    for path in paths.iter().filter(|path| path.regime().cost() > ceiling) {
        set.remove(path.id());
    }
    set
}

/// The active paths that carry nothing now, but will where those of `usable` fail.
pub(crate) fn standby(paths: &Paths, usable: PathSet) -> PathSet {
    let mut set = PathSet::default();
    let active = paths.active().filter_map(with_rank);
    let waiting = active.filter(|(_, path)| !usable.contains(path.id()));
    waiting.for_each(|(_, path)| set.insert(path.id()));
    set
}

/// Those of `usable` that cost no more than `path`: whether it is worth using does not depend on dearer ones.
pub(crate) fn no_dearer(paths: &Paths, usable: PathSet, path: &Path) -> PathSet {
    let mut set = usable;
    for other in paths.iter().filter(|other| other.regime().cost() > path.regime().cost()) {
        set.remove(other.id());
    }
    set
}

/// The active paths of the lowest rank, whatever they cost.
fn candidates(paths: &Paths) -> PathSet {
    let ranked = || paths.active().filter_map(with_rank);
    let lowest = ranked().map(|(rank, _)| rank).min();
    let mut set = PathSet::default();
    let best = ranked().filter(|(rank, _)| Some(*rank) == lowest);
    best.for_each(|(_, path)| set.insert(path.id()));
    set
}

fn with_rank(path: &Path) -> Option<(Rank, &Path)> {
    Some((path.regime().rank()?, path))
}

fn patience(paths: &Paths, candidates: PathSet, ceiling: u16) -> Duration {
    let cheap = paths.among(candidates).filter(|path| path.regime().cost() <= ceiling);
    let slowest = cheap.filter_map(|path| path.rtt().smoothed()).max();
    slowest.map_or(PATIENCE, |srtt| PATIENCE.max(2 * srtt))
}

#[cfg(test)]
mod tests {
    use super::{CostCeiling, PATIENCE, standby, usable};
    use crate::path::testing::measured;
    use crate::path::{PathId, PathPolicy, PathRole, PathState, Paths};
    use crate::time::{Duration, Instant};
    use alloc::vec::Vec;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn with(policies: &[PathPolicy]) -> Paths {
        let srtts: Vec<u64> = policies.iter().map(|_| 20).collect();
        let (mut paths, _) = measured(&srtts);
        for (path, policy) in (0..).map(PathId).zip(policies) {
            paths.regulate(path, *policy);
        }
        paths
    }

    fn role(role: PathRole) -> PathPolicy {
        PathPolicy { role, ..PathPolicy::default() }
    }

    fn cost(cost: u16) -> PathPolicy {
        PathPolicy { cost, ..PathPolicy::default() }
    }

    fn chosen(paths: &Paths) -> Vec<u8> {
        usable(paths).iter().map(|id| id.0).collect()
    }

    fn fail(paths: &mut Paths, id: u8) {
        paths.get_mut(PathId(id)).unwrap().set_state(PathState::PotentiallyFailed);
    }

    #[test]
    fn backups_are_used_only_without_normal_paths() {
        let spent = PathPolicy { metered: Some(0), ..PathPolicy::default() };
        let mut paths = with(&[
            role(PathRole::Normal),
            role(PathRole::Backup),
            role(PathRole::Disabled),
            spent,
            role(PathRole::Normal),
        ]);
        assert_eq!(chosen(&paths), [0, 4]);
        fail(&mut paths, 0);
        assert_eq!(chosen(&paths), [4]);
        fail(&mut paths, 4);
        assert_eq!(chosen(&paths), [1]);
        fail(&mut paths, 1);
        assert_eq!(chosen(&paths), [3]);
        fail(&mut paths, 3);
        assert!(chosen(&paths).is_empty());
        paths.get_mut(PathId(0)).unwrap().set_state(PathState::Active);
        assert_eq!(chosen(&paths), [0]);
    }

    #[test]
    fn active_paths_that_wait_stand_by() {
        let roles = [PathRole::Normal, PathRole::Backup, PathRole::Disabled, PathRole::Backup];
        let mut paths = with(&roles.map(role));
        fail(&mut paths, 3);
        let waiting: Vec<u8> = standby(&paths, usable(&paths)).iter().map(|id| id.0).collect();
        assert_eq!(waiting, [1]);
    }

    #[test]
    fn dearer_paths_come_one_cost_after_the_other_and_go_again() {
        let mut paths = with(&[cost(0), cost(10), cost(10), cost(30)]);
        let mut ceiling = CostCeiling::default();
        let mut step = |paths: &mut Paths, millis, waits| {
            ceiling.adjust(at(millis), paths);
            *paths.ceiling_mut() = ceiling;
            ceiling.note_waiting(at(millis), waits);
            chosen(paths)
        };
        assert_eq!(step(&mut paths, 1000, true), [0]);
        assert_eq!(step(&mut paths, 1199, true), [0]);
        assert_eq!(step(&mut paths, 1200, true), [0, 1, 2]);
        assert_eq!(step(&mut paths, 1300, false), [0, 1, 2]);
        // While it carries something it stays.
        paths.get_mut(PathId(1)).unwrap().set_last_data(Some(at(1390)));
        assert_eq!(step(&mut paths, 1500, true), [0, 1, 2]);
        assert_eq!(step(&mut paths, 1589, false), [0, 1, 2]);
        assert_eq!(step(&mut paths, 1590, true), [0]);
        // Waiting counts only without a break.
        assert_eq!(step(&mut paths, 1700, false), [0]);
        assert_eq!(step(&mut paths, 1800, true), [0]);
        assert_eq!(step(&mut paths, 1950, true), [0]);
        assert_eq!(step(&mut paths, 2000, true), [0, 1, 2]);
        paths.get_mut(PathId(2)).unwrap().set_last_data(Some(at(2190)));
        assert_eq!(step(&mut paths, 2200, true), [0, 1, 2, 3]);
    }

    #[test]
    fn the_cheapest_that_works_is_used_at_once() {
        let mut paths = with(&[cost(0), cost(10), cost(30)]);
        fail(&mut paths, 0);
        assert_eq!(chosen(&paths), [1]);
        fail(&mut paths, 1);
        assert_eq!(chosen(&paths), [2]);
    }

    #[test]
    fn the_ceiling_has_a_deadline_while_data_waits_and_there_is_a_dearer_path() {
        let paths = with(&[cost(0), cost(10)]);
        let mut ceiling = CostCeiling::default();
        assert_eq!(ceiling.deadline(&paths), None);
        ceiling.note_waiting(at(50), true);
        ceiling.note_waiting(at(60), true);
        assert_eq!(ceiling.deadline(&paths), Some(at(50) + PATIENCE));
        ceiling.adjust(at(250), &paths);
        assert_eq!(ceiling.deadline(&paths), None);
    }
}
