//! The receiver: what arrives, what is acknowledged, what is read.

use super::ack_policy::AckPolicy;
use super::echo::Echoes;
use super::interleaved::Interleaved;
use super::partial_delivery::PartialDelivery;
use super::reassembly::Reassembly;
use super::reset::{Deferred, bare_data};
use super::tracker::{Seen, Tracker};
use super::window::{Place, ReceiveWindow};
use crate::config::{Config, NrSack};
use crate::event::Message;
use crate::path::PathId;
use crate::path::flight::dac;
use crate::ranges::RangeSet;
use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;
use alloc::vec::Vec;
use bytes::Bytes;
use manypath_wire::chunk::{
    Cwr, Data, GapBlock, GapBlocks, IData, NrSack as NrSackChunk, Sack, Tsns, types,
};
use manypath_wire::{Chunk, PacketWriter, StreamId, Tsn};

/// A SACK without blocks and duplicates: chunk header, cumulative TSN, a_rwnd, two counts.
const SACK_LEN: usize = 16;
/// An NR-SACK without blocks and duplicates: two counts more.
const NR_SACK_LEN: usize = 20;
/// Bytes of a Gap Ack Block, and of a duplicate TSN.
const SACK_ITEM: usize = 4;

/// Gap Ack Blocks reach this far beyond the cumulative TSN. What comes from beyond could not be
/// acknowledged, so it is not kept: a peer could else make us keep account of any number of gaps.
const MAX_TSN_AHEAD: u64 = 65_535;

/// What became of a DATA chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DataOutcome {
    /// It was taken.
    Accepted,
    /// It was here before.
    Duplicate,
    /// Dropped: the receive buffer is full.
    BufferFull,
    /// Dropped: all associations together hold too much.
    MemoryFull,
    /// Dropped: its TSN is too far ahead to be acknowledged.
    BeyondReport,
    /// Noted and dropped: there is no such stream (RFC 9260 section 6.5).
    InvalidStream(StreamId),
    /// Dropped: whether it belongs to before or after a reset of the association is not known yet.
    AwaitsRestart,
    /// It carries no user data: the association must be aborted (section 6.2).
    NoUserData(Tsn),
}

/// Whether a chunk is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    /// It is, and this is its TSN.
    Take(Tsn64),
    /// It is not.
    Refuse(DataOutcome),
}

/// A chunk that waits for a reset, without its user data.
#[derive(Debug)]
pub(super) enum Held {
    Data(Data<'static>),
    IData(IData<'static>),
}

/// The receiving half of an association.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(super) tracker: Tracker,
    policy: AckPolicy,
    pub(super) reassembly: Reassembly,
    /// Where I-DATA was agreed on.
    pub(super) interleaved: Option<Interleaved>,
    pub(super) window: ReceiveWindow,
    pub(super) inbound_streams: u16,
    /// Marks of congestion that the peer is to hear of.
    pub(crate) echoes: Echoes,
    pub(super) partial: PartialDelivery,
    nr_sack: NrSack,
    /// Beyond the cumulative TSN: what can be delivered (case 2 of NR-SACK).
    deliverable: RangeSet,
    /// A reset of streams that waits for what was sent before it.
    pub(super) deferred: Option<Deferred>,
    /// The peer was asked to begin anew and has not answered.
    pub(super) awaits_restart: bool,
    /// Something in the packet under work must be acknowledged at once.
    pub(super) urgent: bool,
    /// There was a gap before the packet under work, or it made one.
    pub(super) gap: bool,
    /// Delayed acknowledgement for CMT: gaps are no reason to hurry while there are several paths.
    delayed_ack_cmt: bool,
    gaps: Vec<GapBlock>,
    nr_gaps: Vec<GapBlock>,
    duplicates: Vec<Tsn>,
}

impl Receiver {
    /// Nothing has arrived yet from a peer that begins with `peer_initial_tsn`. `nr_sack` is what
    /// was agreed with it.
    pub(crate) fn new(
        config: &Config,
        peer_initial_tsn: Tsn,
        inbound_streams: u16,
        nr_sack: NrSack,
    ) -> Self {
        Self {
            tracker: Tracker::new(peer_initial_tsn),
            policy: AckPolicy::new(config),
            reassembly: Reassembly::default(),
            interleaved: None,
            window: ReceiveWindow::new(config.receive_buffer).growing(config.receive_buffer_max),
            inbound_streams,
            echoes: Echoes::default(),
            partial: PartialDelivery::new(config),
            nr_sack,
            deliverable: RangeSet::default(),
            deferred: None,
            awaits_restart: false,
            urgent: false,
            gap: false,
            delayed_ack_cmt: config.experiment.delayed_ack_cmt,
            gaps: Vec::new(),
            nr_gaps: Vec::new(),
            duplicates: Vec::new(),
        }
    }

    /// A DATA chunk has arrived.
    ///
    /// # Errors
    /// The peer broke the protocol; the text says how.
    pub(crate) fn handle_data(&mut self, data: &Data<'_>) -> Result<DataOutcome, &'static str> {
        if self.interleaved.is_some() {
            return Err("DATA although I-DATA was agreed on");
        }
        let Data { tsn, stream, immediate, payload, .. } = *data;
        let tsn = match self.admit(tsn, stream, immediate, payload.len())? {
            Admission::Take(tsn) => tsn,
            Admission::Refuse(outcome) => return Ok(outcome),
        };
        self.window.hold(payload.len());
        let payload = Bytes::copy_from_slice(payload);
        let waits = self.deferred.is_some()
            && self.hold_for_reset(tsn, (stream, Held::Data(bare_data(data))), &payload);
        if !waits {
            self.process_data(tsn, data, payload)?;
        }
        Ok(DataOutcome::Accepted)
    }

    /// Makes messages of a chunk that was taken.
    pub(super) fn process(
        &mut self,
        tsn: Tsn64,
        chunk: &Held,
        payload: Bytes,
    ) -> Result<(), &'static str> {
        match chunk {
            Held::Data(data) => self.process_data(tsn, data, payload),
            Held::IData(data) => self.process_i_data(tsn, data, payload),
        }
    }

    fn process_data(
        &mut self,
        tsn: Tsn64,
        data: &Data<'_>,
        payload: Bytes,
    ) -> Result<(), &'static str> {
        if self.expects_forward_tsn() && tsn <= self.tracker.cum() {
            self.reassembly.check_sequel(tsn, data)?;
        }
        self.reassembly.insert(tsn, data, payload)?;
        if self.expects_forward_tsn() {
            self.drop_incomplete();
        } else {
            self.reassembly.check(self.tracker.cum())?;
        }
        self.deliver_parts(tsn);
        self.note_deliverable();
        Ok(())
    }

    /// What was agreed with the peer about NR-SACK.
    pub(crate) fn nr_sack(&self) -> NrSack {
        self.nr_sack
    }

    /// A packet with DATA, which came over `via`, one of so many `paths`, has been worked through.
    /// `immediate`: the caller wants it acknowledged without delay. The shortest of the paths has this round trip.
    pub(crate) fn packet_end(
        &mut self,
        now: Instant,
        via: PathId,
        immediate: bool,
        (paths, round_trip): (usize, impl FnOnce() -> Duration),
    ) {
        // Where every packet counts, CMT or not, what is missing is told at once.
        let delays = self.delayed_ack_cmt && paths > 1 && self.policy.may_delay_gaps();
        let gap = self.gap && !delays;
        self.policy.on_packet(now, via, immediate || self.urgent || gap, round_trip);
        self.urgent = false;
        self.gap = false;
    }

    /// A packet with CE, whose lowest new TSN is `tsn`, came over `via`. Returns whether a SACK is to
    /// tell of it without delay.
    pub(crate) fn note_congestion(&mut self, via: PathId, tsn: Tsn) -> bool {
        let tsn = self.tracker.unwrap(tsn);
        self.echoes.note(via, tsn)
    }

    /// The peer has made its window smaller.
    pub(crate) fn handle_cwr(&mut self, via: PathId, cwr: Cwr) {
        let tsn = self.tracker.unwrap(cwr.lowest_tsn);
        self.echoes.on_cwr(via, tsn, cwr.all_paths);
    }

    /// When SACKs are due, and where.
    pub(crate) fn acks(&self) -> &AckPolicy {
        &self.policy
    }

    /// Makes a SACK due now.
    pub(crate) fn force_sack(&mut self) {
        self.policy.force();
    }

    /// A SHUTDOWN acknowledges what has arrived up to the cumulative TSN. A SACK is due for the rest:
    /// "if there are TSNs [...] larger than the Cumulative TSN Ack Point" or duplicates (RFC 9260
    /// section 9.2).
    pub(crate) fn on_shutdown_sent(&mut self) {
        if self.tracker.has_more_to_tell() {
            self.policy.force();
        } else {
            self.policy.on_sent(0);
        }
    }

    /// Appends a SACK, or an NR-SACK if that was agreed, with the lowest Gap Ack Blocks that fit.
    /// Returns false if not even an empty one fits.
    pub(crate) fn write_sack(&mut self, packet: &mut PacketWriter<'_>) -> bool {
        let (kind, fixed) = match self.nr_sack {
            NrSack::Off => (types::SACK, SACK_LEN),
            NrSack::Case1 | NrSack::Case2 | NrSack::Case3 => (types::NR_SACK, NR_SACK_LEN),
        };
        let Some(room) = packet.room_for(kind).checked_sub(fixed) else { return false };
        let items = room / SACK_ITEM;
        self.collect_blocks(items);
        let left = items - self.gaps.len() - self.nr_gaps.len();
        self.tracker.take_duplicates(left, &mut self.duplicates);
        let a_rwnd = self.window.a_rwnd();
        if packet.push(&self.acknowledgement(a_rwnd)).is_err() {
            return false;
        }
        self.window.on_announced(a_rwnd);
        self.policy.on_sent(packet.len());
        true
    }

    /// The next message, or part of one. When that opens a window that was nearly closed, a SACK becomes
    /// due to tell the peer.
    pub(crate) fn read(&mut self) -> Option<Message> {
        let complete = self.reassembly.read()?;
        self.window.release(complete.message.payload.len(), complete.chunks);
        if self.window.wants_update() {
            self.policy.force();
        }
        self.partial.on_read(&complete.message);
        self.deliver_part_if_short();
        Some(complete.message)
    }

    /// Nothing is held: gives memory back.
    pub(crate) fn release_memory(&mut self) {
        self.tracker.release_memory();
        self.reassembly.release_memory();
        self.deliverable.release_memory();
        (self.gaps, self.nr_gaps, self.duplicates) = (Vec::new(), Vec::new(), Vec::new());
    }

    /// Whether [`Self::read`] would give a message.
    pub(crate) fn is_readable(&self) -> bool {
        self.reassembly.is_readable()
    }

    /// The cumulative TSN.
    pub(crate) fn cum_tsn(&self) -> Tsn {
        self.tracker.cum().wire()
    }

    /// Bytes received and not yet read.
    pub(crate) fn queued(&self) -> usize {
        self.window.held()
    }

    /// What it holds, charged with what it costs.
    pub(crate) fn charge(&self) -> usize {
        self.window.cost()
    }

    /// See [`ReceiveWindow::allow`].
    pub(crate) fn allow(&mut self, left: usize, share: usize) {
        self.window.allow(left, share);
    }

    /// Makes the receive buffer larger if what arrives calls for it.
    pub(crate) fn fit_buffer(&mut self, now: Instant, round_trip: impl FnOnce() -> Duration) {
        self.window.fit(now, round_trip);
    }

    /// The blocks of the next acknowledgement, at most `items`.
    fn collect_blocks(&mut self, items: usize) {
        let Self { tracker, gaps, nr_gaps, .. } = self;
        gaps.clear();
        nr_gaps.clear();
        match self.nr_sack {
            NrSack::Off | NrSack::Case1 => tracker.gap_blocks(items, gaps),
            NrSack::Case2 => tracker.split_blocks(&self.deliverable, items, (gaps, nr_gaps)),
            NrSack::Case3 => tracker.gap_blocks(items, nr_gaps),
        }
    }

    fn acknowledgement(&self, a_rwnd: u32) -> Chunk<'_> {
        let cum_tsn = self.cum_tsn();
        let flags = if self.delayed_ack_cmt { dac::flags(self.policy.packets()) } else { 0 };
        let gaps = GapBlocks::from_slice(&self.gaps);
        let duplicates = Tsns::from_slice(&self.duplicates);
        if self.nr_sack == NrSack::Off {
            return Chunk::Sack(Sack { flags, cum_tsn, a_rwnd, gaps, duplicates });
        }
        let nr_gaps = GapBlocks::from_slice(&self.nr_gaps);
        Chunk::NrSack(NrSackChunk { flags, cum_tsn, a_rwnd, gaps, nr_gaps, duplicates })
    }

    pub(super) fn note_deliverable(&mut self) {
        let settled = self.reassembly.take_settled();
        if self.nr_sack == NrSack::Case2 {
            settled.for_each(|range| self.deliverable.insert(range));
            self.deliverable.remove_up_to(self.tracker.cum());
        }
    }

    /// Whether a chunk is taken: notes its TSN, and what must be acknowledged at once.
    pub(super) fn admit(
        &mut self,
        tsn: Tsn,
        stream: StreamId,
        immediate: bool,
        len: usize,
    ) -> Result<Admission, &'static str> {
        if len == 0 {
            return Ok(Admission::Refuse(DataOutcome::NoUserData(tsn)));
        }
        let tsn = self.tracker.unwrap(tsn);
        let is_next = tsn == self.tracker.cum().next();
        let place = Place { fills_hole: tsn < self.tracker.highest(), is_next };
        self.urgent |= immediate;
        self.gap |= self.tracker.has_gap();
        if self.awaits_restart && !self.tracker.has(tsn) {
            return Ok(Admission::Refuse(DataOutcome::AwaitsRestart));
        }
        if tsn.since(self.tracker.cum()) > MAX_TSN_AHEAD {
            self.urgent = true;
            return Ok(Admission::Refuse(DataOutcome::BeyondReport));
        }
        if !self.tracker.has(tsn) && !self.window.accepts(len, place) {
            return self.drop_chunk(len, place).map(Admission::Refuse);
        }
        if self.tracker.observe(tsn) == Seen::Duplicate {
            self.urgent = true;
            self.policy.note_repeated();
            return Ok(Admission::Refuse(DataOutcome::Duplicate));
        }
        self.gap |= self.tracker.has_gap();
        if stream.0 >= self.inbound_streams {
            self.urgent = true;
            return Ok(Admission::Refuse(DataOutcome::InvalidStream(stream)));
        }
        Ok(Admission::Take(tsn))
    }

    fn drop_chunk(&mut self, len: usize, place: Place) -> Result<DataOutcome, &'static str> {
        if self.window.fits(len, place) {
            self.urgent = true;
            return Ok(DataOutcome::MemoryFull);
        }
        let too_large = self.reassembly.oldest_partial() + len > self.window.size();
        // Only new TSNs could complete a message, there is no room for the next of them, and no part of a
        // message can be delivered.
        let stuck = !self.deliver_what_is_there() && place.is_next && !self.tracker.has_gap();
        if stuck && (too_large || self.interleaved.is_some()) {
            return Err("incomplete messages fill the receive buffer");
        }
        self.urgent = true;
        Ok(DataOutcome::BufferFull)
    }
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
