//! The dynamic stream-to-path scheduler: measures paths and streams, and maps the one to the other
//! (`plan`) at intervals, and at once when paths come or go or streams appear.
//!
//! A stream changes its path only if the map gets clearly better by it, or if a path lies idle that
//! may carry something, and at most every two seconds. Then its messages wait until they cannot overtake what is under way on the old path.
//! A path that has nothing to send of its own streams helps another one that is held up, if what it
//! sends arrives before that one has sent what waits (`helps`): so the map need not be perfect, and
//! a single stream can use all paths.

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
const SHUNNED: Duration = Duration::from_secs(60);

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
    homes: Homes,
    /// Streams that have been moved: when, and until when they wait.
    moves: BTreeMap<StreamId, Move>,
    gauges: BTreeMap<PathId, Gauge>,
    planned: Option<(Instant, PathSet)>,
    /// Paths that streams were taken off because they did not get enough there, and until when that is
    /// not tried again.
    shunned: BTreeMap<PathId, Instant>,
    /// A stream without a path has something to send.
    pub(crate) incomplete: bool,
}

#[derive(Clone, Copy, Debug)]
struct Move {
    at: Instant,
    hold: Option<Instant>,
}

/// The measured capacity of a path.
#[derive(Clone, Copy, Debug)]
struct Gauge {
    capacity: u64,
    acked: u64,
}

impl DynamicMap {
    /// The path of `stream`, once it has one.
    pub(crate) fn home(&self, stream: StreamId) -> Option<PathId> {
        self.homes.get(&stream).copied()
    }

    /// Whether `stream` waits, so as not to overtake itself.
    pub(crate) fn is_held(&self, stream: StreamId) -> bool {
        self.moves.get(&stream).is_some_and(|moved| moved.hold.is_some())
    }

    /// When the first stream that waits need not wait any more.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.moves.values().filter_map(|moved| moved.hold).min()
    }

    /// Streams that need not wait any more go on.
    pub(crate) fn release(&mut self, now: Instant) {
        for moved in self.moves.values_mut() {
            moved.hold = moved.hold.filter(|hold| now < *hold);
        }
    }

    /// Whether it is time for a new plan; the time since the last one.
    pub(crate) fn is_due(&self, now: Instant, paths: &Paths, usable: PathSet) -> bool {
        let Some((at, with)) = self.planned else { return true };
        let slowest = paths.iter().filter_map(|path| path.rtt.smoothed()).max().unwrap_or_default();
        self.incomplete || with != usable || now.since(at) >= INTERVAL.max(slowest * 4)
    }

    /// The time since the last plan.
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        self.planned.map(|(at, _)| now.since(at))
    }

    /// Makes a new plan.
    pub(crate) fn replan(
        &mut self,
        now: Instant,
        paths: &Paths,
        usable: PathSet,
        reports: &[StreamReport],
    ) {
        let measured: Vec<PathView> = paths
            .iter()
            .filter(|path| usable.contains(path.id))
            .map(|path| self.measure(now, path))
            .collect();
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
        let target = if better || fills { new } else { kept };
        for report in reports {
            self.assign(now, paths, usable, *report, &target);
        }
        self.planned = Some((now, usable));
        self.incomplete = false;
    }

    /// The present map, with streams that have no usable path placed beside the others.
    fn completed(&self, paths: &[PathView], streams: &[StreamView]) -> Homes {
        let fixed = streams.iter().map(|stream| {
            let home = self.homes.get(&stream.id).copied();
            let home = home.filter(|home| paths.iter().any(|path| path.id == *home));
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
        let old = self.homes.get(&id).copied().filter(|old| usable.contains(*old));
        if old == Some(new) {
            return;
        }
        let rested = self.moves.get(&id).is_none_or(|moved| now.since(moved.at) >= REST);
        if old.is_some() && !rested {
            return;
        }
        self.homes.insert(id, new);
        let Some(old) = old.filter(|_| report.under_way) else { return };
        let delay = |id| paths.get(id).map_or(Duration::ZERO, Path::forward_delay);
        let hold = now + delay(old).saturating_sub(delay(new));
        self.moves.insert(id, Move { at: now, hold: Some(hold) });
    }

    /// What `path` carries: what was acknowledged, where its window was the limit; otherwise at
    /// least what was found before.
    fn measure(&mut self, now: Instant, path: &Path) -> PathView {
        let window = path.window_rate().unwrap_or_default();
        let acked = path.stats.bytes_acked;
        let gauge = self.gauges.entry(path.id).or_insert(Gauge { capacity: window, acked });
        if let Some((at, _)) = self.planned.filter(|(at, _)| now.since(*at) >= INTERVAL) {
            let nanos = now.since(at).as_nanos();
            let rate = u128::from(acked - gauge.acked) * 1_000_000_000 / nanos;
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            let limited = path.window_filled.is_some_and(|filled| filled >= at);
            let smooth = (gauge.capacity + rate) / 2;
            gauge.capacity = if limited { smooth } else { gauge.capacity.max(rate) };
            gauge.acked = acked;
        }
        let least = if path.congestion.is_starting() { window } else { 0 };
        PathView {
            id: path.id,
            capacity: gauge.capacity.max(least).max(1),
            delay: path.forward_delay(),
        }
    }
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

/// Whether `helper` should send something of the `left` bytes that wait for `path`: if it arrives
/// before `path` could have delivered them all.
pub(crate) fn helps(helper: &Path, path: &Path, left: usize) -> bool {
    let (Some(rate), Some(_)) = (path.window_rate(), helper.rtt.smoothed()) else { return true };
    let drain = (left as u64).saturating_mul(1_000_000_000) / rate.max(1);
    Duration::from_nanos(drain) + path.forward_delay() >= helper.forward_delay()
}

#[cfg(test)]
#[path = "dynamic_tests.rs"]
mod tests;
