//! Path schedulers that are not the engine's own: what they are shown, and what they are asked.

use crate::path_id::PathId;
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use core::fmt;

/// What is to be sent, and what the windows of the association leave for it.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Bytes that wait to be sent for the first time or again.
    pub left: usize,
    /// What of `left` can be sent before the peer must announce more.
    pub sendable: usize,
    /// Bytes that may be outstanding in all.
    pub window: usize,
}

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
    /// A place where none is written yet.
    pub(crate) const NONE: Self = Self {
        id: PathId(0),
        srtt: None,
        rttvar: Duration::ZERO,
        min_rtt: None,
        cwnd: 0,
        in_flight: 0,
        chunk_limit: 0,
        has_window: false,
    };
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
