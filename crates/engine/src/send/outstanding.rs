//! The table of TSNs: chunks that were sent and are not cumulatively acknowledged, in TSN order without holes.
//!
//! It owns what follows from them: how much user data is in flight, how much is to be sent again, and what the peer's
//! receive window leaves besides (RFC 9260 section 6.2.1). Whoever changes the state of a chunk reports it here
//! (`on_sent`, `on_repeated`, `on_lost`, `on_reneged`, `on_done`), which keeps these sums; `lose` does both. The flight of
//! each path is the path's own.

use super::queue::{Fragment, Number};
use super::window::PeerWindow;
use crate::path::{ChunkRecord, ChunkState, Loss, Path, PathId, Paths, Records, Sent, Tracked};
use crate::time::{Duration, Instant};
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
    /// User data in flight on all paths.
    in_flight: usize,
    /// User data that is to be sent again.
    lost: usize,
    window: PeerWindow,
}

impl Outstanding {
    /// Nothing was sent; the first TSN will be `initial`.
    pub(crate) fn new(initial: Tsn, window: PeerWindow) -> Self {
        Self {
            cum: Tsn64::initial(initial).before(),
            chunks: VecDeque::new(),
            released: 0,
            jumped: false,
            in_flight: 0,
            lost: 0,
            window,
        }
    }

    /// The cumulative TSN: it and all before it are acknowledged.
    pub(crate) fn cum(&self) -> Tsn64 {
        self.cum
    }

    /// The TSN of the next new chunk.
    pub(crate) fn next_tsn(&self) -> Tsn64 {
        self.cum.plus(self.chunks.len() as u64 + 1)
    }

    /// Whether every chunk before `tsn` has been acknowledged, and not by a gap ack block only.
    pub(crate) fn has_delivered_before(&self, tsn: Tsn64) -> bool {
        self.cum.next() >= tsn
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

    /// User data in flight on all paths, in bytes.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// User data that is to be sent again, in bytes.
    pub(crate) fn lost(&self) -> usize {
        self.lost
    }

    /// Whether nothing is in flight and nothing is to be sent again.
    pub(crate) fn is_quiet(&self) -> bool {
        self.in_flight == 0 && self.lost == 0
    }

    /// The peer's receive window.
    pub(crate) fn window(&self) -> &PeerWindow {
        &self.window
    }

    /// The peer's receive window.
    pub(super) fn window_mut(&mut self) -> &mut PeerWindow {
        &mut self.window
    }

    /// What the peer's window leaves for new data when all that is lost has been repeated: a
    /// chunk that was marked lost gave its bytes back to the window (section 6.2.1 rule C), but it
    /// will need them again, and it goes first (section 6.1 rule C).
    pub(crate) fn rwnd_for_new(&self) -> usize {
        self.window.rwnd().saturating_sub(self.lost)
    }

    /// Gives memory back that is not needed now.
    pub(super) fn release_memory(&mut self) {
        self.chunks.shrink_to_fit();
    }

    /// Adds a new chunk and gives it its TSN.
    pub(super) fn push(&mut self, chunk: SentChunk) -> Tsn64 {
        let tsn = self.next_tsn();
        self.chunks.push_back(chunk);
        tsn
    }

    /// The chunk `tsn`.
    pub(crate) fn get(&self, tsn: Tsn64) -> Option<&SentChunk> {
        self.chunks.get(self.index(tsn)?)
    }

    /// The chunk `tsn`.
    pub(super) fn get_mut(&mut self, tsn: Tsn64) -> Option<&mut SentChunk> {
        let index = self.index(tsn)?;
        self.chunks.get_mut(index)
    }

    /// Whether a transmission on path `id` is still under way.
    pub(crate) fn is_live(&self, id: PathId, sent: Sent) -> bool {
        self.get(sent.tsn).is_some_and(|chunk| chunk.record.is_live(id, sent))
    }

    /// When the transmission `sent` left on path `id`, if it is under way.
    #[inline]
    pub(super) fn left_at(&self, id: PathId, sent: Sent) -> Option<Instant> {
        let record = &self.get(sent.tsn)?.record;
        record.is_live(id, sent).then_some(record.last_sent)
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
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut SentChunk> {
        self.chunks.iter_mut()
    }

    /// The peer has chunk `tsn` for good. Returns what is let go if that is news.
    pub(super) fn release(&mut self, tsn: Tsn64) -> Option<SentChunk> {
        self.empty(tsn, ChunkState::Released)
    }

    /// Chunk `tsn` is given up. Returns what is let go, unless that has happened before.
    pub(super) fn abandon(&mut self, tsn: Tsn64) -> Option<SentChunk> {
        self.empty(tsn, ChunkState::Abandoned)
    }

    /// `data` bytes were sent, for the first time or again.
    pub(super) fn on_sent(&mut self, data: usize) {
        self.in_flight += data;
        self.window.on_sent(data);
    }

    /// `data` bytes that were lost are about to be sent again.
    pub(super) fn on_repeated(&mut self, data: usize) {
        self.lost = self.lost.saturating_sub(data);
    }

    /// `data` bytes in flight are to be sent again.
    pub(super) fn on_lost(&mut self, data: usize) {
        self.in_flight = self.in_flight.saturating_sub(data);
        self.lost += data;
        self.window.on_lost(data);
    }

    /// `data` bytes that were acknowledged are in flight again.
    pub(super) fn on_reneged(&mut self, data: usize) {
        self.in_flight += data;
    }

    /// A chunk with `data` bytes that was in state `was` need not be sent any more.
    pub(super) fn on_done(&mut self, was: ChunkState, data: usize) {
        match was {
            ChunkState::InFlight => self.in_flight = self.in_flight.saturating_sub(data),
            ChunkState::Lost => self.lost = self.lost.saturating_sub(data),
            ChunkState::Acked | ChunkState::Released | ChunkState::Abandoned => {}
        }
    }

    /// Chunk `tsn`, in flight or acknowledged in vain, is to be sent again.
    pub(super) fn lose(&mut self, tsn: Tsn64, paths: &mut Paths, loss: Loss) {
        let held = self.get_mut(tsn);
        let Some(chunk) = held.filter(|chunk| !chunk.record.state.is_empty()) else { return };
        let Some(path) = paths.get_mut(chunk.record.path) else { return };
        let (was, data) = (chunk.record.state, chunk.data_len());
        path.on_lost(tsn, &mut chunk.tracked(), loss);
        match was {
            ChunkState::InFlight => self.on_lost(data),
            ChunkState::Acked => self.lost += data,
            ChunkState::Lost | ChunkState::Released | ChunkState::Abandoned => {}
        }
    }

    /// All that is in flight on `id` is to be sent again.
    pub(super) fn give_up_flight(&mut self, id: PathId, paths: &mut Paths) {
        let Some(path) = paths.get_mut(id) else { return };
        for sent in path.flight_mut().take_sent() {
            if self.is_live(id, sent) {
                self.lose(sent.tsn, paths, Loss::TimedOut);
            }
        }
    }

    /// The chunk that was sent last on `id`, if it may be repeated.
    pub(super) fn latest_on(&self, now: Instant, id: PathId, paths: &Paths) -> Option<Tsn64> {
        let tsn = paths.get(id)?.flight().latest(|sent| self.is_live(id, sent))?;
        self.get(tsn)?.may_be_repeated(now).then_some(tsn)
    }

    /// When the silent tail of `path`, if it is active, must be probed while the peer takes `sack_delay` for an
    /// acknowledgement. The probe of a closed window is answered, but not acknowledged, and needs no other one.
    pub(super) fn tail_probe_at(&self, path: &Path, sack_delay: Duration) -> Option<Instant> {
        let may_ask = self.window.probe().is_none() && path.health().is_active();
        may_ask.then(|| path.subflow().tail_probe_at(sack_delay)).flatten()
    }

    /// The earliest chunk in flight on `id`, if it may be repeated, and its size.
    pub(super) fn earliest_on(
        &self,
        now: Instant,
        id: PathId,
        paths: &mut Paths,
    ) -> Option<(Tsn64, usize)> {
        let tsn = paths.get_mut(id)?.flight_mut().earliest(|sent| self.is_live(id, sent))?;
        let chunk = self.get(tsn)?;
        chunk.may_be_repeated(now).then_some((tsn, chunk.wire_len()))
    }

    /// The peer has announced its window in a SACK. A full chunk has `needed` bytes of user data.
    pub(super) fn on_window(
        &mut self,
        now: Instant,
        a_rwnd: u32,
        needed: usize,
        paths: &mut Paths,
    ) {
        let rwnd = (a_rwnd as usize).saturating_sub(self.in_flight);
        let acked = self.window.probe().is_some_and(|probe| !self.is_open(probe));
        let Some(probe) = self.window.on_sack(now, rwnd, needed, acked) else { return };
        if self.is_in_flight(probe) {
            self.lose(probe, paths, Loss::Reported);
        }
    }

    /// The probe of a closed window, if it is what is in flight on `id` and SACKs have answered it.
    pub(super) fn answered_probe(&self, id: PathId) -> Option<Tsn64> {
        let probe = self.window.probe().filter(|_| self.window.is_answered())?;
        let chunk = self.get(probe)?;
        let alone = chunk.record.path == id && self.in_flight == chunk.data_len();
        (alone && chunk.record.state == ChunkState::InFlight).then_some(probe)
    }

    /// A timer must run while anything is outstanding: see `retransmit::treat_gap_acks_as_reneged`.
    pub(super) fn guard(&self, now: Instant, paths: &mut Paths) {
        if !self.is_quiet() {
            return;
        }
        let first = self.get(self.cum.next());
        if let Some(path) = first.and_then(|chunk| paths.get_mut(chunk.record.path)) {
            path.subflow_mut().restart_t3(now);
        }
    }

    /// The chunks of the message that `tsn` is one of, as far as they are outstanding, in order.
    pub(super) fn message_of(&self, tsn: Tsn64) -> impl Iterator<Item = Tsn64> {
        let own = self.get(tsn).map(|chunk| &chunk.fragment);
        let same = move |other: &Fragment| own.is_some_and(|own| own.is_of_message(other));
        let fragment = move |tsn| self.get(tsn).map(|chunk| &chunk.fragment);
        let ahead = tsn.since(self.cum);
        let mut first = tsn;
        for back in 0..ahead {
            let at = self.cum.plus(ahead - back);
            let Some(other) = fragment(at).filter(|other| same(other)) else { continue };
            first = at;
            if other.begin {
                break;
            }
        }
        let mut ended = false;
        let count = self.next_tsn().since(first);
        (0..count)
            .map(move |ahead| first.plus(ahead))
            .map_while(move |tsn| {
                let other = fragment(tsn).filter(|_| !ended)?;
                let of_it = same(other);
                ended = of_it && other.end;
                Some((tsn, of_it))
            })
            .filter_map(|(tsn, of_it)| of_it.then_some(tsn))
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
    pub(super) fn pop(&mut self) -> Option<SentChunk> {
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
