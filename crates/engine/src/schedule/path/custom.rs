//! Asks a path scheduler that is not the engine's own.

use super::{PathOrder, by_smallest_srtt};
use crate::config::{Demand, PathScheduler, PathView, SchedulerView};
use crate::path::{Path, PathId, PathSet, Paths};

fn view_of(path: &Path) -> PathView {
    let (rtt, congestion) = (path.rtt(), path.congestion());
    PathView {
        id: path.id(),
        srtt: rtt.smoothed(),
        rttvar: rtt.variation(),
        min_rtt: rtt.least(),
        cwnd: congestion.window(),
        in_flight: path.in_flight(),
        chunk_limit: congestion.chunk_limit(),
        has_window: path.subflow().has_window(),
    }
}

/// Shows the `usable` paths to `look`, the fastest first.
pub(super) fn with_view<R>(
    paths: &Paths,
    usable: PathSet,
    demand: Demand,
    look: impl FnOnce(&SchedulerView<'_>) -> R,
) -> R {
    let mut views = [PathView::NONE; PathOrder::MAX];
    let mut len = 0;
    for path in by_smallest_srtt(paths, usable).filter_map(|id| paths.get(id)) {
        views[len] = view_of(path);
        len += 1;
    }
    look(&SchedulerView { demand, paths: &views[..len] })
}

/// The `usable` paths as the scheduler ranks them.
pub(super) fn order(
    scheduler: &dyn PathScheduler,
    paths: &Paths,
    usable: PathSet,
    demand: Demand,
) -> PathOrder {
    with_view(paths, usable, demand, |view| {
        let place = |id| view.paths.iter().position(|path| path.id == id);
        PathOrder::by(paths, usable, |path| {
            let place = place(path.id()).unwrap_or(usize::MAX);
            (scheduler.rank(view, place), place)
        })
    })
}

/// Whether `id` should carry something.
pub(super) fn is_worth_using(
    scheduler: &dyn PathScheduler,
    paths: &Paths,
    usable: PathSet,
    id: PathId,
    demand: Demand,
) -> bool {
    with_view(paths, usable, demand, |view| {
        let index = view.paths.iter().position(|path| path.id == id);
        index.is_none_or(|index| is_used(scheduler, view, index))
    })
}

fn is_used(scheduler: &dyn PathScheduler, view: &SchedulerView<'_>, index: usize) -> bool {
    let stands_still = view.paths.iter().all(|path| path.in_flight == 0);
    (stands_still && index == 0) || scheduler.allows(view, index)
}

#[cfg(test)]
mod tests {
    use super::{is_used, order};
    use crate::config::{Demand, PathScheduler, PathView, SchedulerView};
    use crate::path::PathId;
    use crate::path::testing::measured;
    use crate::time::Instant;
    use alloc::vec::Vec;

    const DEMAND: Demand = Demand { left: 9000, sendable: 9000, window: 90_000 };

    /// Asks the slow paths first, and uses none.
    #[derive(Debug)]
    struct Contrary;

    impl PathScheduler for Contrary {
        fn observe(&mut self, _now: Instant, _view: &SchedulerView<'_>) {}

        fn rank(&self, view: &SchedulerView<'_>, index: usize) -> u32 {
            (view.paths.len() - index) as u32
        }

        fn allows(&self, _view: &SchedulerView<'_>, _index: usize) -> bool {
            false
        }
    }

    #[test]
    fn paths_are_asked_as_they_are_ranked() {
        let (paths, all) = measured(&[30, 10, 20]);
        let ranked: Vec<_> = order(&Contrary, &paths, all, DEMAND).collect();
        assert_eq!(ranked, [PathId(0), PathId(2), PathId(1)]);
    }

    #[test]
    fn an_association_cannot_be_made_to_stand_still() {
        let used = |in_flight| {
            let paths = [0, in_flight].map(|in_flight| PathView { in_flight, ..PathView::NONE });
            let view = SchedulerView { demand: DEMAND, paths: &paths };
            [0, 1].map(|index| is_used(&Contrary, &view, index))
        };
        assert_eq!(used(0), [true, false], "the fastest, as nothing is in flight");
        assert_eq!(used(100), [false, false]);
    }
}
