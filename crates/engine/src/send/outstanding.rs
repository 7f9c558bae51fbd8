//! Chunks that were sent and are not cumulatively acknowledged, in TSN order without holes.

use super::queue::{Fragment, Number};
use crate::path::{ChunkRecord, ChunkState, PathId, Records, Sent, Tracked};
use crate::time::Instant;
use crate::tsn::{MAX_AHEAD, Tsn64};
use alloc::collections::VecDeque;
use bytes::Bytes;
use manypath_wire::Tsn;
use manypath_wire::chunk::{Chunk, Data, FragmentPlace, IData};

/// A chunk with its history.
#[derive(Debug)]
pub(crate) struct SentChunk {
    /// What it carries.
    pub(crate) fragment: Fragment,
    /// What became of it.
    pub(crate) record: ChunkRecord,
}

impl SentChunk {
    /// A chunk that is about to be sent for the first time.
    pub(crate) fn new(fragment: Fragment, path: PathId, now: Instant) -> Self {
        Self { fragment, record: ChunkRecord::new(path, now) }
    }

    /// Bytes of user data: the unit of the receive window.
    pub(crate) fn data_len(&self) -> usize {
        self.fragment.payload.len()
    }

    /// Bytes in a packet, header and padding included: the unit of the congestion window.
    pub(crate) fn wire_len(&self) -> usize {
        self.fragment.header_len() + self.fragment.payload.len().next_multiple_of(4)
    }

    /// Whether the user lets it be sent again.
    pub(crate) fn may_be_repeated(&self, now: Instant) -> bool {
        self.fragment.terms.allow_repeat(now, self.record.transmissions)
    }

    /// The chunk as its path sees it.
    pub(crate) fn tracked(&mut self) -> Tracked<'_> {
        let (data, wire) = (self.data_len(), self.wire_len());
        Tracked { record: &mut self.record, data, wire }
    }

    /// The DATA or I-DATA chunk.
    pub(crate) fn to_chunk(&self, tsn: Tsn64, immediate: bool) -> Chunk<'_> {
        let Fragment { stream, number, ppid, unordered, begin, end, ref payload, .. } =
            self.fragment;
        let (tsn, immediate) = (tsn.wire(), immediate || self.fragment.prompt);
        match number {
            Number::Ssn(ssn) => Chunk::Data(Data {
                tsn,
                stream,
                ssn,
                ppid,
                unordered,
                begin,
                end,
                immediate,
                payload,
            }),
            Number::Mid(mid, fsn) => {
                let place =
                    if begin { FragmentPlace::First(ppid) } else { FragmentPlace::Later(fsn) };
                Chunk::IData(IData { tsn, stream, mid, place, unordered, end, immediate, payload })
            }
        }
    }
}

/// The chunks from the one after the cumulative TSN to the last that was sent.
#[derive(Debug)]
pub(crate) struct Outstanding {
    cum: Tsn64,
    chunks: VecDeque<SentChunk>,
    released: usize,
    /// Whether the TSNs have ever begun anew elsewhere.
    jumped: bool,
}

impl Outstanding {
    /// Nothing was sent; the first TSN will be `initial`.
    pub(crate) fn new(initial: Tsn) -> Self {
        let cum = Tsn64::initial(initial).before();
        Self { cum, chunks: VecDeque::new(), released: 0, jumped: false }
    }

    /// The cumulative TSN: it and all before it are acknowledged.
    pub(crate) fn cum(&self) -> Tsn64 {
        self.cum
    }

    /// The TSN of the next new chunk.
    pub(crate) fn next_tsn(&self) -> Tsn64 {
        self.cum.plus(self.chunks.len() as u64 + 1)
    }

    /// Number of chunks.
    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Number of chunks whose user data is held.
    pub(crate) fn held(&self) -> usize {
        self.chunks.len() - self.released
    }

    /// Whether everything sent is acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Gives memory back that is not needed now.
    pub(crate) fn release_memory(&mut self) {
        self.chunks.shrink_to_fit();
    }

    /// Adds a new chunk and gives it its TSN.
    pub(crate) fn push(&mut self, chunk: SentChunk) -> Tsn64 {
        let tsn = self.next_tsn();
        self.chunks.push_back(chunk);
        tsn
    }

    /// The chunk `tsn`.
    pub(crate) fn get(&self, tsn: Tsn64) -> Option<&SentChunk> {
        self.chunks.get(self.index(tsn)?)
    }

    /// The chunk `tsn`.
    pub(crate) fn get_mut(&mut self, tsn: Tsn64) -> Option<&mut SentChunk> {
        let index = self.index(tsn)?;
        self.chunks.get_mut(index)
    }

    /// Whether a transmission on path `id` is still under way.
    pub(crate) fn is_live(&self, id: PathId, sent: Sent) -> bool {
        self.get(sent.tsn).is_some_and(|chunk| chunk.record.is_live(id, sent))
    }

    /// The path that chunk `tsn` is in flight on.
    pub(crate) fn carrier(&self, tsn: Tsn64) -> Option<PathId> {
        let record = &self.get(tsn)?.record;
        (record.state == ChunkState::InFlight).then_some(record.path)
    }

    /// Whether chunk `tsn` is in flight.
    pub(crate) fn is_in_flight(&self, tsn: Tsn64) -> bool {
        self.get(tsn).is_some_and(|chunk| chunk.record.state == ChunkState::InFlight)
    }

    /// Whether chunk `tsn` may have to be sent again.
    pub(crate) fn is_open(&self, tsn: Tsn64) -> bool {
        self.get(tsn).is_some_and(|chunk| chunk.record.state.is_open())
    }

    /// All chunks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &SentChunk> {
        self.chunks.iter()
    }

    /// All chunks.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut SentChunk> {
        self.chunks.iter_mut()
    }

    /// The peer has chunk `tsn` for good. Returns what is let go if that is news.
    pub(crate) fn release(&mut self, tsn: Tsn64) -> Option<SentChunk> {
        self.empty(tsn, ChunkState::Released)
    }

    /// Chunk `tsn` is given up. Returns what is let go, unless that has happened before.
    pub(crate) fn abandon(&mut self, tsn: Tsn64) -> Option<SentChunk> {
        self.empty(tsn, ChunkState::Abandoned)
    }

    /// The chunk as it was.
    fn empty(&mut self, tsn: Tsn64, state: ChunkState) -> Option<SentChunk> {
        let chunk = self.get_mut(tsn).filter(|chunk| !chunk.record.state.is_empty())?;
        let whole = SentChunk { fragment: chunk.fragment.clone(), ..*chunk };
        chunk.record.state = state;
        chunk.fragment.payload = Bytes::new();
        self.released += 1;
        Some(whole)
    }

    /// Moves the cumulative TSN one further and returns the chunk that it has passed.
    pub(crate) fn pop(&mut self) -> Option<SentChunk> {
        let chunk = self.chunks.pop_front()?;
        self.cum = self.cum.next();
        self.released -= usize::from(chunk.record.state.is_empty());
        Some(chunk)
    }

    /// The next new chunk gets TSN `tsn`, which lies ahead. There must be no chunk.
    pub(crate) fn jump_to(&mut self, tsn: Tsn) {
        self.cum = self.cum.jump(tsn).before();
        self.jumped = true;
    }

    /// Whether an acknowledgement up to `cum` is one from before a jump. A jump of half of the number
    /// space makes what lies behind it look as if it lay far ahead.
    pub(crate) fn is_from_before_jump(&self, cum: Tsn64) -> bool {
        self.jumped && cum.since(self.next_tsn()) > MAX_AHEAD
    }

    fn index(&self, tsn: Tsn64) -> Option<usize> {
        let ahead = tsn.since(self.cum);
        usize::try_from(ahead).ok()?.checked_sub(1)
    }
}

impl Records for Outstanding {
    fn record(&mut self, tsn: Tsn64) -> Option<&mut ChunkRecord> {
        self.get_mut(tsn).map(|chunk| &mut chunk.record)
    }

    fn tracked(&mut self, tsn: Tsn64) -> Option<Tracked<'_>> {
        self.get_mut(tsn).map(SentChunk::tracked)
    }
}
