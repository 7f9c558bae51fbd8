//! Which streams of the queue are tied to which paths (`crate::schedule::map`), and what waits for each path.

use super::streams::OutboundStreams;
use crate::config::StreamMapping;
use crate::path::{PathId, PathSet, Paths};
use crate::schedule::map::{DynamicMap, Room, home};
use crate::time::Instant;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use manypath_wire::StreamId;

/// The mapping of streams to paths.
#[derive(Debug)]
pub(crate) struct Mapping {
    kind: StreamMapping,
    dynamic: Option<DynamicMap>,
    /// Bytes that wait on the streams of each path, and on those that have none (dynamic mapping). No less than do:
    /// what is withdrawn counts until the next plan.
    unsent: BTreeMap<Option<PathId>, usize>,
    /// Paths on which streams of failed paths go next, before the path's own.
    guests_next: PathSet,
}

impl Mapping {
    /// Nothing waits.
    pub(super) fn new(kind: &StreamMapping) -> Self {
        let dynamic = (*kind == StreamMapping::Dynamic).then(DynamicMap::default);
        let (unsent, guests_next) = (BTreeMap::new(), PathSet::default());
        Self { kind: kind.clone(), dynamic, unsent, guests_next }
    }

    /// Streams are tied to paths as `kind` says from now on, also those on which something waits.
    pub(super) fn follow(&mut self, kind: &StreamMapping, streams: &OutboundStreams) {
        if self.kind != *kind {
            *self = Self::new(kind);
            // What waits has no path yet.
            self.dynamic.iter_mut().for_each(|dynamic| dynamic.incomplete = true);
            self.count_unsent(streams);
        }
    }

    /// Whether streams are tied to paths.
    pub(crate) fn is_on(&self) -> bool {
        self.kind != StreamMapping::Any
    }

    /// The dynamic mapping, if that is what is used.
    pub(crate) fn dynamic(&self) -> Option<&DynamicMap> {
        self.dynamic.as_ref()
    }

    /// The path that `stream` is tied to while these paths are `usable`.
    pub(crate) fn home(&self, stream: StreamId, usable: PathSet) -> Option<PathId> {
        match &self.dynamic {
            Some(dynamic) => dynamic.home(stream).filter(|home| usable.contains(*home)),
            None => home(&self.kind, stream, usable),
        }
    }

    /// Whether `id` belongs to another path, which must have failed if it uses this one.
    pub(super) fn is_guest(&self, id: StreamId, path: PathId) -> bool {
        let StreamMapping::Manual(list) = &self.kind else { return false };
        list.get(usize::from(id.0)).is_some_and(|home| home.is_some_and(|home| home != path))
    }

    /// Whether such streams go next on `path`, where there may be any.
    pub(super) fn are_guests_next(&self, path: PathId) -> Option<bool> {
        let may_be = matches!(self.kind, StreamMapping::Manual(_));
        may_be.then(|| self.guests_next.contains(path))
    }

    /// What `path` may have in flight as far as the dynamic mapping is concerned.
    pub(crate) fn most_on(&self, path: PathId) -> usize {
        self.dynamic.as_ref().map_or(usize::MAX, |dynamic| dynamic.shares().most(path))
    }

    /// Bytes that wait on the streams of `path` (dynamic mapping).
    pub(crate) fn unsent_on(&self, path: PathId) -> usize {
        self.unsent.get(&Some(path)).copied().unwrap_or_default()
    }

    /// Whether something may wait that may begin on `path` while these paths are `usable`, as far as streams are tied to
    /// paths: otherwise no stream need be asked.
    pub(super) fn may_begin_on(&self, path: PathId, usable: PathSet) -> bool {
        let fits = |home: PathId| home == path || !usable.contains(home);
        let mut waiting = self.unsent.iter().filter(|(_, bytes)| **bytes > 0);
        self.dynamic.is_none() || waiting.any(|(home, _)| home.is_none_or(fits))
    }

    /// `bytes` more wait on `stream`.
    pub(super) fn on_queued(&mut self, stream: StreamId, bytes: usize) {
        let Some(dynamic) = &mut self.dynamic else { return };
        let home = dynamic.home(stream);
        dynamic.incomplete |= home.is_none();
        *self.unsent.entry(home).or_default() += bytes;
    }

    /// `bytes` of a stream have left on `path`.
    pub(super) fn on_sent(&mut self, stream: StreamId, path: PathId, bytes: usize) {
        match self.is_guest(stream, path) {
            true => self.guests_next.remove(path),
            false => self.guests_next.insert(path),
        }
        let Some(dynamic) = &mut self.dynamic else { return };
        dynamic.on_sent(stream, path, bytes);
        if let Some(unsent) = self.unsent.get_mut(&dynamic.home(stream)) {
            *unsent -= bytes;
        }
    }

    /// Lets the dynamic mapping take a look at the paths. `limit` is the size of the send buffer.
    pub(super) fn replan(
        &mut self,
        now: Instant,
        (paths, usable): (&Paths, PathSet),
        (limit, room): (usize, Room),
        streams: &mut OutboundStreams,
    ) {
        let Some(dynamic) = &mut self.dynamic else { return };
        dynamic.release(now);
        dynamic.observe(now, paths, usable, room);
        if !dynamic.is_due(now, paths) {
            return;
        }
        let age = dynamic.age(now);
        let active = streams.iter().filter(|(_, stream)| stream.is_active()).count();
        let much = limit / (4 * active.max(1));
        let reports: Vec<_> =
            streams.iter_mut().map(|(id, stream)| stream.report(id, age, much)).collect();
        dynamic.replan(now, paths, &reports);
        self.count_unsent(streams);
    }

    /// Counts anew what waits for each path.
    pub(super) fn count_unsent(&mut self, streams: &OutboundStreams) {
        self.unsent.clear();
        let Some(dynamic) = &self.dynamic else { return };
        for (id, stream) in streams.iter() {
            *self.unsent.entry(dynamic.home(id)).or_default() += stream.unsent();
        }
    }
}
