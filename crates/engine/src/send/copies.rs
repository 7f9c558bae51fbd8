//! Redundant transmission: a chunk goes out on every usable path that has a window, with the same TSN
//! (after the redundant scheduler of Multipath TCP: Lopez et al., "Redundancy-based multipath TCP
//! scheduling", and Frömmgen et al., ReMP TCP, ICC 2016). It arrives with the first of its
//! transmissions; what a path loses needs no retransmission if another one brings it.
//!
//! The first transmission is accounted as any other. The further ones, the copies, occupy the window of
//! their path until it is known what became of them:
//!
//! * The chunk is acknowledged by a SACK that came over the path of a copy. A peer answers over the path
//!   of the DATA, so this copy was first: it changes places with the first transmission.
//! * The peer reports the TSN as a duplicate: a second transmission has arrived.
//! * Something that left later on the same path has arrived and the copy is older than a round trip should
//!   take: it is lost, and the path's window is cut as for any loss.
//! * T3-rtx of the path expires.
//!
//! So each path obeys its own congestion control, and a slow path carries as many copies as it can, of
//! what is not acknowledged yet.

use super::Sender;
use crate::path::{ChunkState, Path, PathId, PathSet, Paths};
use crate::schedule::path::{PathScheduling, Redundancy};
use crate::time::Instant;
use crate::tsn::Tsn64;
use alloc::collections::{BTreeMap, VecDeque};
use manypath_wire::PacketWriter;
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

/// Copies of all paths.
#[derive(Debug)]
pub(super) struct Copies {
    which: Which,
    paths: BTreeMap<PathId, PathCopies>,
    /// The peer has told of duplicates: if it does not any more, the path may have failed.
    confirmed: bool,
    /// Copies were made, or may be at any time.
    used: bool,
}

/// Copies of one path.
#[derive(Debug, Default)]
struct PathCopies {
    /// Chunks that were sent on another path and should be sent here too.
    wanted: VecDeque<Tsn64>,
    /// What is under way, in the order of transmission.
    under_way: VecDeque<Copy>,
    /// The highest transmission number that has arrived.
    arrived: u64,
}

/// One transmission that is not the one that its chunk is accounted by.
#[derive(Clone, Copy, Debug)]
struct Copy {
    tsn: Tsn64,
    number: u64,
    wire: usize,
    sent: Instant,
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
        Self { which, paths: BTreeMap::new(), confirmed: false, used }
    }

    /// The same streams are sent on several paths as by `other`.
    pub(super) fn adopt_redundancy(&mut self, other: &Self) {
        self.which = other.which;
    }

    fn is_under_way(&self) -> bool {
        self.paths.values().any(|copies| !copies.under_way.is_empty())
    }

    /// Bytes that copies occupy on a path.
    #[cfg(test)]
    pub(super) fn flight(&self, id: PathId) -> usize {
        let copies = self.paths.get(&id).map(|copies| copies.under_way.iter());
        copies.into_iter().flatten().map(|copy| copy.wire).sum()
    }

    /// A path is gone.
    pub(super) fn forget(&mut self, id: PathId) {
        self.paths.remove(&id);
    }

    /// Whether anything was copied, or may be at any time.
    pub(super) fn is_on(&self) -> bool {
        self.used || self.which == Which::All
    }
}

impl PathCopies {
    fn take(&mut self, tsn: Tsn64) -> Option<Copy> {
        let at = self.under_way.iter().position(|copy| copy.tsn == tsn)?;
        self.under_way.remove(at)
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

impl Sender {
    /// From now on other streams are sent on several paths. Copies that are under way stay accounted for.
    pub(crate) fn set_redundancy(&mut self, redundancy: Redundancy) {
        self.copies.which = Which::from(redundancy);
        if redundancy == Redundancy::Off {
            self.copies.paths.values_mut().for_each(|copies| copies.wanted.clear());
        }
    }

    /// Chunk `tsn` has left for the first time, on `id`: the other paths are to send it too.
    pub(super) fn want_copies(&mut self, tsn: Tsn64, id: PathId, usable: PathSet) {
        let Some(stream) = self.outstanding.get(tsn).map(|chunk| chunk.fragment.stream) else {
            return;
        };
        let options = self.queue.options(stream);
        let is_hurried = options.class.is_hurried();
        let is_sparse = || self.queue.stream(stream).is_none_or(|it| it.unsent() <= SPARSE);
        let wanted = options.redundant
            || match self.copies.which {
                Which::None => false,
                Which::All => true,
                Which::Interactive => is_hurried,
                Which::Sparse => is_hurried || is_sparse(),
            };
        self.copies.used |= wanted && !usable.is_only(id);
        for other in usable.iter().filter(|other| wanted && *other != id) {
            self.copies.paths.entry(other).or_default().wanted.push_back(tsn);
        }
    }

    /// The chunk that `path` may send a copy of now. `flight` is what was in flight before the packet
    /// that is being built.
    pub(super) fn next_copy(&self, now: Instant, path: &Path, flight: usize) -> Option<Tsn64> {
        let wanted = &self.copies.paths.get(&path.id)?.wanted;
        let is_under_way = |tsn: &&Tsn64| {
            self.outstanding.get(**tsn).is_some_and(|chunk| {
                chunk.record.state == ChunkState::InFlight && chunk.record.path != path.id
            })
        };
        wanted.iter().find(is_under_way).copied().filter(|_| path.may_send(now, flight))
    }

    /// Appends copies for path `id` to `packet`. Returns their number.
    pub(super) fn fill_copies(
        &mut self,
        now: Instant,
        (id, flight): (PathId, usize),
        paths: &mut Paths,
        packet: &mut PacketWriter<'_>,
    ) -> usize {
        let mut written = 0;
        while let Some(path) = paths.get_mut(id) {
            let Some(tsn) = self.next_copy(now, path, flight) else { break };
            let Some(chunk) = self.outstanding.get(tsn) else { break };
            if packet.push(&chunk.to_chunk(tsn, false)).is_err() {
                break;
            }
            let wire = chunk.wire_len();
            let number = path.on_copy_sent(now, tsn, wire);
            let copy = Copy { tsn, number, wire, sent: now };
            let Some(copies) = self.copies.paths.get_mut(&id) else { break };
            copies.wanted.retain(|other| *other > tsn);
            copies.under_way.push_back(copy);
            written += 1;
        }
        written
    }

    /// A SACK that came over `via` tells of chunk `tsn`. If a copy on that path was first, the chunk is
    /// accounted there from now on.
    pub(super) fn attribute(&mut self, now: Instant, tsn: Tsn64, via: PathId, paths: &mut Paths) {
        let Some(chunk) = self.outstanding.get_mut(tsn) else { return };
        let from = chunk.record.path;
        if from == via || !chunk.record.state.is_open() {
            return;
        }
        let Some(path) = paths.get_mut(via) else { return };
        let found = self.copies.paths.get_mut(&via).and_then(|copies| copies.take(tsn));
        let Some(copy) = found else { return };
        let possible = path.rtt.least().is_none_or(|least| now.since(copy.sent) >= least);
        if chunk.record.state != ChunkState::InFlight || !possible {
            // Either one may have been first: nothing is learned about paths from this chunk.
            chunk.record.moved = true;
            chunk.record.transmissions += 1;
            if let Some(copies) = self.copies.paths.get_mut(&via) {
                copies.under_way.push_front(copy);
            }
            return;
        }
        let first = Copy {
            tsn,
            number: chunk.record.number,
            wire: copy.wire,
            sent: chunk.record.last_sent,
        };
        let len = chunk.data_len();
        (chunk.record.path, chunk.record.number, chunk.record.last_sent) =
            (via, copy.number, copy.sent);
        chunk.record.capable = false;
        path.on_copy_first(len);
        let copies = self.copies.paths.entry(via).or_default();
        copies.arrived = copies.arrived.max(copy.number);
        if let Some(old) = paths.get_mut(from) {
            old.on_copy_first_elsewhere(len);
        }
        self.copies.paths.entry(from).or_default().under_way.push_back(first);
    }

    /// What arrived a second time: of the transmissions that are under way the one on `via`, otherwise
    /// the oldest.
    pub(super) fn take_duplicates(
        &mut self,
        now: Instant,
        duplicates: Tsns<'_>,
        via: PathId,
        paths: &mut Paths,
    ) {
        if !self.copies.is_on() {
            return;
        }
        for tsn in duplicates.iter() {
            let tsn = Tsn64::near(tsn, self.outstanding.cum());
            let candidates = self.copies.paths.iter().filter_map(|(id, copies)| {
                let copy = copies.under_way.iter().find(|copy| copy.tsn == tsn)?;
                Some((*id != via, copy.sent, *id))
            });
            let Some((.., id)) = candidates.min() else { continue };
            self.confirm(now, tsn, id, paths);
        }
    }

    /// The copy of `tsn` on `id` has arrived.
    fn confirm(&mut self, now: Instant, tsn: Tsn64, id: PathId, paths: &mut Paths) {
        let Some(path) = paths.get_mut(id) else { return };
        let Some(copies) = self.copies.paths.get_mut(&id) else { return };
        let Some(copy) = copies.take(tsn) else { return };
        copies.arrived = copies.arrived.max(copy.number);
        self.copies.confirmed = true;
        path.on_copy_acked(now, copy.number, copy.sent, copy.wire);
    }

    /// Gives up copies of `path` that are lost. Returns whether there were any.
    pub(super) fn lose_copies(&mut self, now: Instant, path: &mut Path) -> bool {
        let Some(copies) = self.copies.paths.get_mut(&path.id) else { return false };
        copies.arrived = copies.arrived.max(path.latest_acked().unwrap_or_default());
        let Some(srtt) = path.rtt.smoothed() else { return false };
        let patience = srtt + (srtt / 4).max(path.rtt.variation() * 4);
        let (arrived, before) = (copies.arrived, copies.under_way.len());
        copies.under_way.retain(|copy| {
            let lost = copy.number < arrived && now.since(copy.sent) > patience;
            if lost {
                path.on_copy_lost(now, copy.number, copy.wire);
            }
            !lost
        });
        copies.under_way.len() < before
    }

    /// Forgets chunks that need no copies any more.
    pub(super) fn prune_copies(&mut self) {
        let outstanding = &self.outstanding;
        let is_over = |tsn: &Tsn64| !outstanding.is_open(*tsn);
        for copies in self.copies.paths.values_mut() {
            while copies.wanted.front().is_some_and(is_over) {
                copies.wanted.pop_front();
            }
        }
        self.copies.used &= self.copies.which != Which::None || self.copies.is_under_way();
    }

    /// Nothing more is expected of the copies on `id`. Returns whether they were all that was in flight
    /// there and the peer may be one that never tells of duplicates: then that says nothing about the
    /// path.
    pub(super) fn drop_copies(&mut self, id: PathId, paths: &mut Paths) -> bool {
        let Some(path) = paths.get_mut(id) else { return false };
        let Some(copies) = self.copies.paths.get_mut(&id) else { return false };
        let bytes: usize = copies.under_way.drain(..).map(|copy| copy.wire).sum();
        let alone = bytes > 0 && bytes >= path.flight();
        path.drop_copies(bytes);
        alone && !self.copies.confirmed
    }
}
