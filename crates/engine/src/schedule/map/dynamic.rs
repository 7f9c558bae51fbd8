//! The dynamic stream-to-path scheduler, in three decisions:
//!
//! 1. How much of the buffers each path may use, and which paths are worth using at all (`shares`, from
//!    what `gauge` measures). This replaces buffer splitting and the path scheduler by name: the path with
//!    the shortest round trip is asked first.
//! 2. Which path each stream uses (`plan`): decided at intervals, and at once when paths come or go or
//!    streams appear. A stream changes its path only if the map gets clearly better by it, or if a
//!    path lies idle that may carry something, or, if it is interactive, for a clearly smaller delay; and
//!    at most every two seconds. Then its messages wait until they cannot overtake what is under way
//!    on the old path.
//! 3. Which path takes a chunk: its stream's, or, if that one is held up, another that has nothing to
//!    send of its own streams, if the chunk arrives earlier there and the buffers have room for all
//!    that must wait for it. So the map need not be perfect, and a single stream can use all paths. The
//!    rest of a message that was begun is treated alike. Interactive messages go before bulk on
//!    their path, and stay there.

use super::path_shares::{PathShares, Room, Tenants};
use super::plan::{Homes, PathView, StreamView, plan, value};
use crate::path::{Path, PathId, PathSet, Paths};
use crate::time::{Duration, Instant};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use manypath_wire::StreamId;

/// Shortest time between two plans.
const INTERVAL: Duration = Duration::from_millis(500);
/// A stream changes its path no more often.
const REST: Duration = Duration::from_secs(2);

/// A path that did not give enough to streams is not tried again for so long.
const SHUNNED: Duration = Duration::from_secs(10);

/// What a stream has done since the last plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamReport {
    pub(crate) view: StreamView,
    /// Whether it used its path last.
    pub(crate) under_way: bool,
}

/// The map and what it is made from.
#[derive(Debug, Default)]
pub(crate) struct DynamicMap {
    /// The path of each stream, by its number: asked several times a chunk.
    homes: Vec<Option<PathId>>,
    /// When streams were moved last.
    moved: BTreeMap<StreamId, Instant>,
    /// Until when streams wait that have been moved.
    held: BTreeMap<StreamId, Instant>,
    shares: PathShares,
    tenants: Tenants,
    planned: Option<(Instant, PathSet)>,
    /// Paths that streams were taken off because they did not get enough there, and until when that is
    /// not tried again.
    shunned: BTreeMap<PathId, Instant>,
    /// A stream without a path has something to send.
    pub(crate) incomplete: bool,
}

impl DynamicMap {
    /// The path of `stream`, once it has one.
    pub(crate) fn home(&self, stream: StreamId) -> Option<PathId> {
        self.homes.get(usize::from(stream.0)).copied().flatten()
    }

    /// Whether `stream` waits, so as not to overtake itself.
    pub(crate) fn is_held(&self, stream: StreamId) -> bool {
        self.held.contains_key(&stream)
    }

    /// When the first stream that waits need not wait any more.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.held.values().min().copied()
    }

    /// Streams that need not wait any more go on.
    pub(crate) fn release(&mut self, now: Instant) {
        self.held.retain(|_, until| now < *until);
    }

    /// Looks at what the paths carry, and shares `room` between them.
    pub(crate) fn observe(&mut self, now: Instant, paths: &Paths, usable: PathSet, room: Room) {
        self.shares.observe(now, paths, usable, (room, self.tenants));
    }

    /// `bytes` of `stream` have left on `path`.
    pub(crate) fn on_sent(&mut self, stream: StreamId, path: PathId, bytes: usize) {
        if let Some(home) = self.home(stream) {
            self.shares.on_sent(path, home, bytes);
        }
    }

    /// What each path may use.
    pub(crate) fn shares(&self) -> &PathShares {
        &self.shares
    }

    /// Whether it is time for a new plan; the time since the last one.
    pub(crate) fn is_due(&self, now: Instant, paths: &Paths) -> bool {
        let Some((at, with)) = self.planned else { return true };
        let slowest = paths.iter().filter_map(|path| path.rtt().least()).max().unwrap_or_default();
        self.incomplete
            || with != self.shares.admitted()
            || now.since(at) >= INTERVAL.max(slowest * 4)
    }

    /// The time since the last plan.
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        self.planned.map(|(at, _)| now.since(at))
    }

    /// Makes a new plan.
    pub(crate) fn replan(&mut self, now: Instant, paths: &Paths, reports: &[StreamReport]) {
        let usable = self.shares.admitted();
        let measured: Vec<PathView> = paths.among(usable).map(|path| self.view(path)).collect();
        let views: Vec<StreamView> = reports.iter().map(|report| report.view).collect();
        let kept = self.completed(&measured, &views);
        let new = plan(&measured, &views);
        let fills = self.fills_idle_path(now, &views, (&kept, &new));
        let better = is_better(value(&measured, &views, &kept), value(&measured, &views, &new));
        if better {
            let (left, taken) = (used(&views, &kept), used(&views, &new));
            let left = left.iter().filter(|path| !taken.contains(*path));
            self.shunned.extend(left.map(|path| (path, now + SHUNNED)));
        }
        let mut target = kept;
        if better || fills {
            target = new;
        } else {
            hurry(&mut target, &new, &measured, &views);
        }
        for report in reports {
            self.assign(now, paths, usable, *report, &target);
        }
        self.tenants = tenants(&views);
        self.planned = Some((now, usable));
        self.incomplete = false;
    }

    /// The present map, with streams that have no usable path placed beside the others.
    fn completed(&self, paths: &[PathView], streams: &[StreamView]) -> Homes {
        let fixed = streams.iter().map(|stream| {
            let home =
                self.home(stream.id).filter(|home| paths.iter().any(|path| path.id == *home));
            let mut view = *stream;
            view.options.pinned = view.options.pinned.or(home);
            view
        });
        plan(paths, &fixed.collect::<Vec<_>>())
    }

    /// Whether a map gives saturated streams to a path that has none. What that path can carry is not
    /// known before it is tried.
    fn fills_idle_path(
        &self,
        now: Instant,
        streams: &[StreamView],
        (old, new): (&Homes, &Homes),
    ) -> bool {
        let before = used(streams, old);
        let is_shunned = |path| self.shunned.get(&path).is_some_and(|until| now < *until);
        used(streams, new).iter().any(|path| !before.contains(path) && !is_shunned(path))
            && used(streams, new).len() > before.len()
    }

    fn assign(
        &mut self,
        now: Instant,
        paths: &Paths,
        usable: PathSet,
        report: StreamReport,
        target: &Homes,
    ) {
        let id = report.view.id;
        let Some(new) = target.get(&id).copied() else { return };
        let old = self.home(id).filter(|old| usable.contains(*old));
        if old == Some(new) {
            return;
        }
        let rested = self.moved.get(&id).is_none_or(|at| now.since(*at) >= REST);
        if old.is_some() && !rested {
            return;
        }
        self.move_to(id, new);
        let Some(old) = old.filter(|_| report.under_way) else { return };
        let delay = |id| paths.get(id).map_or(Duration::ZERO, |path| path.rtt().forward_delay());
        self.moved.insert(id, now);
        self.held.insert(id, now + delay(old).saturating_sub(delay(new)));
    }

    fn move_to(&mut self, stream: StreamId, home: PathId) {
        let at = usize::from(stream.0);
        if self.homes.len() <= at {
            self.homes.resize(at + 1, None);
        }
        self.homes[at] = Some(home);
    }

    fn view(&self, path: &Path) -> PathView {
        let capacity =
            self.shares.rate(path.id()).or(path.subflow().window_rate()).unwrap_or_default().max(1);
        PathView { id: path.id(), capacity, delay: path.rtt().forward_delay() }
    }
}

/// Takes over from `new` the paths of interactive streams that have clearly less delay there.
fn hurry(homes: &mut Homes, new: &Homes, paths: &[PathView], streams: &[StreamView]) {
    let delay = |home: &PathId| paths.iter().find(|path| path.id == *home).map(|path| path.delay);
    let is_interactive = |s: &&StreamView| s.options.class.is_hurried();
    for stream in streams.iter().filter(is_interactive) {
        let (Some(old), Some(new)) = (homes.get(&stream.id), new.get(&stream.id)) else { continue };
        if let (Some(before), Some(after)) = (delay(old), delay(new))
            && after * 5 < before * 4
        {
            homes.insert(stream.id, *new);
        }
    }
}

fn tenants(streams: &[StreamView]) -> Tenants {
    let saturated = streams.iter().filter(|stream| stream.demand.is_none()).count();
    let mut pins = PathSet::default();
    streams.iter().filter_map(|stream| stream.options.pinned).for_each(|path| pins.insert(path));
    Tenants { saturated, pins }
}

/// The paths that have saturated streams.
fn used(streams: &[StreamView], homes: &Homes) -> PathSet {
    let mut set = PathSet::default();
    let saturated = streams.iter().filter(|stream| stream.demand.is_none());
    saturated.filter_map(|stream| homes.get(&stream.id)).for_each(|path| set.insert(*path));
    set
}

/// Whether a map is so much better that streams should change their paths for it: the worst share
/// by a quarter, or the sum by a tenth, and neither is worse by more than that.
fn is_better((old_least, old_sum): (u64, u64), (least, sum): (u64, u64)) -> bool {
    let exceeds = |a: u64, b: u64, percent: u64| {
        u128::from(a) * 100 > u128::from(b) * u128::from(100 + percent)
    };
    let fairer = least != u64::MAX && exceeds(least, old_least, 25);
    (exceeds(sum, old_sum, 10) && !exceeds(old_least, least, 25))
        || (fairer && !exceeds(old_sum, sum, 10))
}

#[cfg(test)]
#[path = "dynamic_tests.rs"]
mod tests;
