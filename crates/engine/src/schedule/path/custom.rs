//! Path schedulers that are not the engine's own: what they are shown, and what they are asked.

use super::{Demand, PathOrder, by_smallest_srtt};
use crate::path::{Path, PathId, PathSet, Paths};
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use core::fmt;

/// What a path scheduler sees of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathView {
    /// The path.
    pub id: PathId,
    /// The smoothed round-trip time (RFC 9260 section 6.3.1), once measured.
    pub srtt: Option<Duration>,
    /// The variation of the round-trip time. Zero before the first measurement.
    pub rttvar: Duration,
    /// The shortest round-trip time, once measured.
    pub min_rtt: Option<Duration>,
    /// The congestion window in bytes.
    pub cwnd: usize,
    /// Bytes in flight.
    pub in_flight: usize,
    /// The largest chunk in bytes (PMDCS).
    pub chunk_limit: usize,
    /// Whether the congestion window has room.
    pub has_window: bool,
}

impl PathView {
    const NONE: Self = Self {
        id: PathId(0),
        srtt: None,
        rttvar: Duration::ZERO,
        min_rtt: None,
        cwnd: 0,
        in_flight: 0,
        chunk_limit: 0,
        has_window: false,
    };

    fn of(path: &Path) -> Self {
        let (rtt, congestion) = (path.rtt(), path.congestion());
        Self {
            id: path.id(),
            srtt: rtt.smoothed(),
            rttvar: rtt.variation(),
            min_rtt: rtt.least(),
            cwnd: congestion.window(),
            in_flight: path.in_flight(),
            chunk_limit: congestion.chunk_limit(),
            has_window: path.has_window(),
        }
    }
}

/// What a path scheduler decides by: the paths that may carry data, and what waits for them.
#[derive(Clone, Copy, Debug)]
pub struct SchedulerView<'a> {
    /// What waits, and what the windows of the association leave for it.
    pub demand: Demand,
    /// The paths, the smallest [`srtt`](PathView::srtt) first; those that were never measured come last.
    pub paths: &'a [PathView],
}

/// The path scheduler of one association. The same views must lead to the same answers: the engine is deterministic.
pub trait PathScheduler: fmt::Debug + Send + Sync {
    /// Takes the state of the paths into account. It comes each time before paths are asked for packets.
    fn observe(&mut self, now: Instant, view: &SchedulerView<'_>);

    /// Where the path with this `index` in the view stands in the order in which paths are asked: the lowest first, and
    /// the fastest among equals.
    fn rank(&self, view: &SchedulerView<'_>, index: usize) -> u32;

    /// Whether the path with this `index` in the view should carry something of what waits. It comes for each packet. If
    /// nothing is in flight on any path the fastest one carries data whatever is said, so that an association cannot stand
    /// still.
    fn allows(&self, view: &SchedulerView<'_>, index: usize) -> bool;
}

/// What makes a path scheduler for each association.
pub trait PathSchedulers: fmt::Debug + Send + Sync {
    /// Tells different schedulers apart, in results too.
    fn name(&self) -> &str;

    /// The scheduler of an association that begins.
    fn begin(&self) -> Box<dyn PathScheduler>;
}

impl PartialEq for dyn PathSchedulers {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn PathSchedulers {}

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
        views[len] = PathView::of(path);
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
    use super::{PathScheduler, PathView, SchedulerView, is_used, order};
    use crate::path::PathId;
    use crate::path::testing::measured;
    use crate::schedule::path::Demand;
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
