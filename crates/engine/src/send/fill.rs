//! Writing DATA chunks into a packet (RFC 9260 section 6.1): what was lost first, then new data, as
//! far as the packet, the path's congestion window and the peer's window allow. What may go next says `Opportunity`;
//! here it is written, taken for sent, and counted.

use super::Sender;
use super::copies::next_copy;
use super::opportunity::Opportunity;
use super::outstanding::SentChunk;
use super::queue::Fragment;
use super::rules::Rules;
use super::spurious::Repetition;
use crate::config::PathSuspicion;
use crate::ecn::Ecn;
use crate::path::{Loss, Path, PathId, PathSet, Paths, ip_len};
use crate::time::Instant;
use crate::tsn::Tsn64;
use manypath_wire::PacketWriter;

/// What was written into a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Filled {
    /// Chunks with user data.
    pub(crate) chunks: usize,
    /// What the packet may say of itself: see `Sender::next_ecn`.
    pub(crate) ecn: Ecn,
}

impl Filled {
    const NOTHING: Self = Self { chunks: 0, ecn: Ecn::NotEct };
}

/// The packet that is being filled for one path.
struct Filling<'a, 'p> {
    sender: &'a mut Sender,
    paths: &'a mut Paths,
    packet: &'a mut PacketWriter<'p>,
    now: Instant,
    id: PathId,
    /// Ask for an acknowledgement without delay (RFC 7053).
    immediate: bool,
    // The next four are answers of `Opportunity`, asked once for the whole packet.
    usable: PathSet,
    repeaters: PathSet,
    flight: usize,
    worth: bool,
}

impl Sender {
    /// Appends DATA chunks for path `id` to `packet` and takes them for sent: they are in flight
    /// and T3-rtx runs.
    pub(crate) fn fill(
        &mut self,
        now: Instant,
        id: PathId,
        paths: &mut Paths,
        packet: &mut PacketWriter<'_>,
    ) -> Filled {
        if self.has_nothing_to_send() {
            return Filled::NOTHING;
        }
        let ecn = self.next_ecn(now, id, paths).is_capable();
        let may = self.opportunity(now, id, paths).filter(|it| it.repeaters.contains(id));
        let Some(Opportunity { usable, repeaters, worth, .. }) = may else {
            return Filled::NOTHING;
        };
        let by_time = self.is_racking();
        let Some(path) = paths.get_mut(id) else { return Filled::NOTHING };
        path.subflow_mut().begin_packet(now, usable);
        let (immediate, flight) =
            (wants_prompt_sacks(&self.rules, by_time, path), path.in_flight());
        let sender = &mut *self;
        let mut filling =
            Filling { sender, paths, packet, now, id, immediate, usable, repeaters, flight, worth };
        let (own, lost) = filling.fill_lost();
        let repeated = lost + filling.fill_rescheduled();
        let copied = filling.fill_copies();
        let ecn = ecn && repeated + copied == 0;
        let new = filling.fill_new(ecn);
        let written = repeated + copied + new;
        self.counts.repeated += (repeated + copied) as u64;
        self.queue.on_packet_end();
        if let Some(path) = paths.get_mut(id).filter(|_| written > 0) {
            path.subflow_mut().end_packet(now, flight, repeated > 0 && !own);
        }
        let ecn = if ecn && new > 0 { Ecn::Ect0 } else { Ecn::NotEct };
        Filled { chunks: written, ecn }
    }
}

impl Filling<'_, '_> {
    /// What the path may send beside what the packet has.
    fn opportunity(&self) -> Option<Opportunity<'_>> {
        let Self { ref sender, ref paths, now, usable, repeaters, flight, worth, .. } = *self;
        let path = paths.get(self.id)?;
        Some(Opportunity { sender, paths, path, now, usable, repeaters, flight, worth })
    }

    /// Sends again what was lost. Returns whether that is only what the path itself has lost, the packet being its
    /// own, and how many chunks that were.
    fn fill_lost(&mut self) -> (bool, usize) {
        if self.sender.outstanding.lost() == 0 {
            return (false, 0);
        }
        let own = self.opportunity().is_some_and(|it| it.has_own_turn());
        let mut written = 0;
        while let Some(it) = self.opportunity() {
            let next = if own { it.next_own_repeat() } else { it.next_repeat() };
            let Some(tsn) = next else { break };
            let Some(chunk) = self.sender.outstanding.get(tsn) else { break };
            if self.packet.push(&chunk.to_chunk(tsn, self.immediate)).is_err() {
                break;
            }
            self.on_repeated(tsn);
            written += 1;
        }
        if let Some(path) = self.paths.get_mut(self.id).filter(|_| written > 0) {
            path.flight_mut().end_fast_packet();
        }
        (own, written)
    }

    /// Sends the chunk again that holds up all others.
    fn fill_rescheduled(&mut self) -> usize {
        if self.sender.rules.experiment.rescheduling_percent == 0 {
            return 0;
        }
        let next = self.opportunity().and_then(|it| it.to_reschedule());
        let chunk = next.and_then(|tsn| Some((tsn, self.sender.outstanding.get(tsn)?)));
        let Some((tsn, chunk)) = chunk else { return 0 };
        if self.packet.push(&chunk.to_chunk(tsn, true)).is_err() {
            return 0;
        }
        self.sender.outstanding.reschedule(self.now, tsn, self.usable, self.paths);
        self.on_repeated(tsn);
        1
    }

    /// Sends copies of what is under way on other paths.
    fn fill_copies(&mut self) -> usize {
        let mut written = 0;
        while let Some(path) = self.paths.get_mut(self.id) {
            let outstanding = &self.sender.outstanding;
            let Some(tsn) = next_copy(outstanding, self.now, path, self.flight) else { break };
            let Some(chunk) = outstanding.get(tsn) else { break };
            if self.packet.push(&chunk.to_chunk(tsn, false)).is_err() {
                break;
            }
            path.subflow_mut().on_copy_sent(self.now, tsn, chunk.wire_len());
            written += 1;
        }
        written
    }

    /// Sends new data, in an ECN-capable packet or not.
    fn fill_new(&mut self, ecn: bool) -> usize {
        let (kind, header) = (self.sender.queue.chunk_type(), self.sender.queue.header_len());
        let mut written = 0;
        while self.worth && header < self.packet.room_for(kind) {
            let Some((stream, len)) = self.opportunity().and_then(|it| it.next_new()) else {
                break;
            };
            let room = self.packet.room_for(kind) - header;
            let Sender { queue, outstanding, fragmentation, .. } = &mut *self.sender;
            let rest = || queue.stream(stream).map_or(0, |stream| stream.next_len());
            let Some(len) = fragmentation.fitting(len, room, || rest() > len) else { break };
            let Some(mut fragment) = queue.pop(stream, self.id, len) else { break };
            // Nothing as large goes behind it before a SACK opens the window.
            fragment.prompt |= queue.ending && outstanding.rwnd_for_new() < 2 * len;
            self.on_new(fragment, ecn);
            written += 1;
        }
        written
    }

    /// A fragment leaves in a chunk of its own.
    fn on_new(&mut self, fragment: Fragment, ecn: bool) {
        let Self { sender, paths, packet, now, id, immediate, usable, .. } = self;
        let (now, id, stream, len) = (*now, *id, fragment.stream, fragment.payload.len());
        sender.counts.on_new(&fragment);
        let mut chunk = SentChunk::new(fragment, id, now);
        let tsn = sender.outstanding.next_tsn();
        if packet.push(&chunk.to_chunk(tsn, *immediate)).is_err() {
            debug_assert!(false, "the room was looked at");
        }
        sender.abandonment.on_sent(tsn, &chunk.fragment);
        let Some(path) = paths.get_mut(id) else { return };
        let is_probe = len > sender.outstanding.rwnd_for_new();
        path.subflow_mut().on_new_sent(now, tsn, chunk.tracked());
        chunk.record.capable = ecn;
        chunk.record.large = is_large(path, packet.len());
        sender.outstanding.push(chunk);
        on_sent(sender, now, len, path);
        if is_probe {
            on_probe_sent(sender, now, tsn, path);
        }
        sender.copies.want((stream, tsn), &sender.queue, (id, *usable), paths);
    }

    /// A lost chunk has been written into the packet.
    fn on_repeated(&mut self, tsn: Tsn64) {
        let Self { sender, paths, packet, now, id, .. } = self;
        let Some(chunk) = sender.outstanding.get_mut(tsn) else { return };
        let (from, sent, len) = (chunk.record.path, chunk.record.last_sent, chunk.data_len());
        let repeated = paths.get_mut(from).map(|old| old.subflow_mut().on_repeated(tsn, len, *id));
        let (loss, probe) = repeated.unwrap_or((Loss::Reported, false));
        chunk.record.timed_out |= loss == Loss::TimedOut;
        let reported = loss == Loss::Reported && !probe;
        sender.repetitions.push(Repetition { tsn, from, sent, reported });
        let Some(path) = paths.get_mut(*id) else { return };
        path.subflow_mut().on_repetition_sent(*now, tsn, chunk.tracked());
        chunk.record.large = is_large(path, packet.len());
        sender.outstanding.on_repeated(len);
        on_sent(sender, *now, len, path);
        if sender.outstanding.window().probe() == Some(tsn) {
            on_probe_sent(sender, *now, tsn, path);
        }
    }
}

impl Opportunity<'_> {
    /// Whether the packet is for what the path itself has lost and for its own streams. Streams that
    /// are tied to a path must not stall because another one has failed, so every other packet is
    /// theirs. Without path suspicion what is lost goes first, as section 6.1 rule C has it.
    fn has_own_turn(&self) -> bool {
        let Sender { rules, queue, outstanding, .. } = self.sender;
        let takes_turns = rules.path_suspicion != PathSuspicion::Off && queue.mapping().is_on();
        if !takes_turns || !self.path.flight().has_helped() {
            return false;
        }
        let chunk = self.next_repeat().and_then(|tsn| outstanding.get(tsn));
        if chunk.is_none_or(|chunk| chunk.record.path == self.path.id()) {
            return false;
        }
        self.next_own_repeat().is_some()
            || (self.worth && queue.has_own(self.taker()) && self.next_new().is_some())
    }
}

/// Whether the peer is to acknowledge a packet on `path` without delay. A window of a few packets
/// leaves no room for delayed acknowledgements: they would be a large part of its round trip, and
/// losses that are found `by_time` show by the times of acknowledgements.
fn wants_prompt_sacks(rules: &Rules, by_time: bool, path: &Path) -> bool {
    let (window, packet) = (path.congestion().window(), path.congestion().chunk_limit());
    let fills = path.in_flight() + 2 * packet >= window;
    let is_small = window <= 4 * packet || (by_time && fills && window < 8 * packet);
    path.flight().tail_probe().exceeds() || (rules.immediate_sacks && is_small)
}

/// A chunk with `data` bytes has been written into a packet for `path`.
fn on_sent(sender: &mut Sender, now: Instant, data: usize, path: &mut Path) {
    sender.outstanding.on_sent(data);
    let most = sender.queue.mapping().most_on(path.id());
    path.subflow_mut().note_share(now, most);
}

/// The chunk is a probe of a closed window: its timer is the pause until the next one.
fn on_probe_sent(sender: &mut Sender, now: Instant, tsn: Tsn64, path: &mut Path) {
    let window = sender.outstanding.window_mut();
    window.on_probe_sent(now, tsn);
    let pause = window.probe_pause(path.rtt());
    path.flight_mut().start_t3(now, pause);
}

/// The packet that a chunk is in has `len` bytes so far. That a packet with more behind it was
/// large is seen by its last chunk. One in IP fragments says nothing about the MTU.
fn is_large(path: &Path, len: usize) -> bool {
    path.search().is_large(ip_len(&path.addr(), len)) && len <= path.packet_size()
}
