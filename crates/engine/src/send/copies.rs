//! Redundant transmission: a chunk goes out on every usable path that has a window, with the same TSN
//! (after the redundant scheduler of Multipath TCP: Lopez et al., "Redundancy-based multipath TCP
//! scheduling", and Frömmgen et al., ReMP TCP, ICC 2016). It arrives with the first of its
//! transmissions; what a path loses needs no retransmission if another one brings it.
//!
//! The first transmission of a chunk counts like any other; `flight::copies` counts the copies.
//!
//! So each path obeys its own congestion control, and a slow path carries as many copies as it can, of
//! what is not acknowledged yet.

use super::outstanding::Outstanding;
use super::queue::SendQueue;
use crate::config::{PathScheduling, Redundancy};
use crate::path::{Path, PathId, PathSet, Paths};
use crate::time::Instant;
use crate::tsn::Tsn64;
use manypath_wire::StreamId;
use manypath_wire::chunk::Tsns;

/// Which chunks are copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    None,
    All,
    Interactive,
    Sparse,
}

/// What may wait on a stream that is sparse: a large packet.
const SPARSE: usize = 1500;

/// Which chunks are sent on several paths, and whether any were.
#[derive(Debug)]
pub(crate) struct Copies {
    which: Which,
    /// The peer has told of duplicates: if it does not any more, the path may have failed.
    confirmed: bool,
    /// Copies were made, or may be at any time.
    used: bool,
}

impl Copies {
    pub(super) fn new(scheduling: PathScheduling, redundancy: Redundancy) -> Self {
        let which = match scheduling {
            PathScheduling::Redundant => Which::All,
            PathScheduling::RedundantInteractive => Which::Interactive,
            PathScheduling::Primary
            | PathScheduling::LeastRecentlyUsed
            | PathScheduling::SmallestSrtt
            | PathScheduling::EarliestCompletion
            | PathScheduling::Lsfr
            | PathScheduling::Ecf
            | PathScheduling::Blest => Which::None,
        };
        let used = which != Which::None;
        let which = if used { which } else { Which::from(redundancy) };
        Self { which, confirmed: false, used }
    }

    /// The same streams are sent on several paths as by `other`.
    pub(super) fn adopt_redundancy(&mut self, other: &Self) {
        self.which = other.which;
    }

    /// Whether anything was copied, or may be at any time.
    pub(super) fn is_on(&self) -> bool {
        self.used || self.which == Which::All
    }

    /// From now on other streams are sent on several paths. Copies that are under way stay accounted for.
    pub(crate) fn set_redundancy(&mut self, redundancy: Redundancy, paths: &mut Paths) {
        self.which = Which::from(redundancy);
        if redundancy == Redundancy::Off {
            paths.iter_mut().for_each(|path| path.flight_mut().want_no_copies());
        }
    }

    /// Chunk `tsn` of `stream` has left for the first time, on `id`: the other paths are to send it too.
    pub(super) fn want(
        &mut self,
        (stream, tsn): (StreamId, Tsn64),
        queue: &SendQueue,
        (id, usable): (PathId, PathSet),
        paths: &mut Paths,
    ) {
        let options = queue.options(stream);
        let is_hurried = options.class.is_hurried();
        let is_sparse = || queue.stream(stream).is_none_or(|it| it.unsent() <= SPARSE);
        let wanted = options.redundant
            || match self.which {
                Which::None => false,
                Which::All => true,
                Which::Interactive => is_hurried,
                Which::Sparse => is_hurried || is_sparse(),
            };
        if !wanted {
            return;
        }
        self.used |= !usable.is_only(id);
        let others = paths.iter_mut().filter(|path| path.id() != id && usable.contains(path.id()));
        others.for_each(|path| path.flight_mut().want_copy(tsn));
    }

    /// A SACK that came over `via` tells of chunk `tsn`. If a copy on that path was first, the chunk is
    /// accounted there from now on.
    pub(super) fn attribute(
        now: Instant,
        tsn: Tsn64,
        via: PathId,
        outstanding: &mut Outstanding,
        paths: &mut Paths,
    ) {
        let Some(chunk) = outstanding.get_mut(tsn) else { return };
        let from = chunk.record.path;
        if from == via || !chunk.record.state.is_open() {
            return;
        }
        let (data, path) = (chunk.data_len(), paths.get_mut(via));
        let first = path.and_then(|path| path.subflow_mut().attribute(now, tsn, chunk.tracked()));
        if let Some((first, old)) = first.zip(paths.get_mut(from)) {
            old.flight_mut().adopt_copy(first, data);
        }
    }

    /// What arrived a second time: of the transmissions that are under way the one on `via`, otherwise
    /// the oldest.
    pub(super) fn on_duplicates(
        &mut self,
        now: Instant,
        duplicates: Tsns<'_>,
        cum: Tsn64,
        via: PathId,
        paths: &mut Paths,
    ) {
        if !self.is_on() {
            return;
        }
        for tsn in duplicates.iter() {
            let tsn = Tsn64::near(tsn, cum);
            let copied =
                |path: &Path| Some((path.id() != via, path.flight().copied_at(tsn)?, path.id()));
            let Some((.., id)) = paths.iter().filter_map(copied).min() else { continue };
            if let Some(path) = paths.get_mut(id) {
                self.confirmed |= path.subflow_mut().on_copy_acked(now, tsn);
            }
        }
    }

    /// Forgets chunks that need no copies any more.
    pub(super) fn prune(&mut self, outstanding: &Outstanding, paths: &mut Paths) {
        for path in paths.iter_mut() {
            path.flight_mut().prune_copies(|tsn| !outstanding.is_open(tsn));
        }
        let may_come =
            self.which != Which::None || paths.iter().any(|path| path.flight().has_copies());
        self.used &= may_come;
    }

    /// Nothing more is expected of the copies on `id`. Returns whether they were all that was in flight
    /// there and the peer may be one that never tells of duplicates: then that says nothing about the
    /// path.
    pub(super) fn drop_on(&self, id: PathId, paths: &mut Paths) -> bool {
        let alone = paths.get_mut(id).is_some_and(|path| path.flight_mut().drop_copies());
        alone && !self.confirmed
    }
}

impl From<Redundancy> for Which {
    fn from(redundancy: Redundancy) -> Self {
        match redundancy {
            Redundancy::Off => Self::None,
            Redundancy::Interactive => Self::Interactive,
            Redundancy::Sparse => Self::Sparse,
            Redundancy::All => Self::All,
        }
    }
}

/// The chunk that `path` may send a copy of now. `flight` is what was in flight before the packet that is being built.
pub(super) fn next_copy(
    outstanding: &Outstanding,
    now: Instant,
    path: &Path,
    flight: usize,
) -> Option<Tsn64> {
    let is_elsewhere = |tsn: &Tsn64| outstanding.carrier(*tsn).is_some_and(|id| id != path.id());
    path.flight().next_copy(is_elsewhere).filter(|_| path.subflow().may_send(now, flight))
}
