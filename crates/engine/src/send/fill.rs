//! Writing DATA chunks into a packet (RFC 9260 section 6.1): what was lost first, then new data, as
//! far as the packet, the path's congestion window and the peer's window allow.

use super::Sender;
use super::outstanding::SentChunk;
use super::spurious::Repetition;
use crate::config::{PathSuspicion, RetransmissionPolicy};
use crate::ecn::Ecn;
use crate::path::{Loss, Path, PathId, PathSet, Paths};
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

/// The packet that is being filled.
struct Job {
    now: Instant,
    id: PathId,
    usable: PathSet,
    /// Paths that may carry what was lost.
    repeaters: PathSet,
    /// Flight of the path before the packet.
    flight: usize,
    /// Whether the path is worth using for what waits (see `schedule::path`).
    worth: bool,
    /// Ask for an acknowledgement without delay (RFC 7053).
    immediate: bool,
    /// New chunks leave in an ECN-capable packet.
    ecn: bool,
    /// It is not for what other paths have lost.
    own: bool,
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
        let ecn = self.next_ecn(now, id, paths);
        let (usable, repeaters) =
            (self.choice.usable(paths), self.choice.repeaters(paths, self.outstanding.lost()));
        let worth = usable.contains(id) && self.is_worth_using(now, paths, usable, id);
        let Some(path) = paths.get_mut(id).filter(|path| repeaters.contains(path.id())) else {
            return Filled::NOTHING;
        };
        path.begin_packet(now, usable);
        let immediate = self.wants_prompt_sacks(path);
        let flight = path.in_flight();
        let ecn = ecn.is_capable();
        let job = Job { now, id, usable, repeaters, flight, worth, immediate, ecn, own: false };
        let job = Job { own: self.has_own_turn(&job, paths), ..job };
        let repeated =
            self.fill_lost(&job, paths, packet) + self.fill_rescheduled(&job, paths, packet);
        let copied = self.fill_copies(now, (id, job.flight), paths, packet);
        let ecn = ecn && repeated + copied == 0;
        let new = self.fill_new(&Job { ecn, ..job }, paths, packet);
        let written = repeated + copied + new;
        self.counts.repeated += (repeated + copied) as u64;
        self.queue.on_packet_end();
        if let Some(path) = paths.get_mut(id).filter(|_| written > 0) {
            path.end_packet(now, job.flight, repeated > 0 && !job.own);
        }
        let ecn = if ecn && new > 0 { Ecn::Ect0 } else { Ecn::NotEct };
        Filled { chunks: written, ecn }
    }

    /// Whether the peer is to acknowledge a packet on `path` without delay. A window of a few packets
    /// leaves no room for delayed acknowledgements: they would be a large part of its round trip, and
    /// losses show by the times of acknowledgements.
    fn wants_prompt_sacks(&self, path: &Path) -> bool {
        let (window, packet) = (path.congestion().window(), path.congestion().chunk_limit());
        let fills = path.in_flight() + 2 * packet >= window;
        let is_small = window <= 4 * packet || (self.is_racking() && fills && window < 8 * packet);
        path.flight().probes_tail() || (self.rules.immediate_sacks && is_small)
    }

    /// Whether the packet is for what the path itself has lost and for its own streams. Streams that
    /// are tied to a path must not stall because another one has failed, so every other packet is
    /// theirs. Without path suspicion what is lost goes first, as section 6.1 rule C has it.
    fn has_own_turn(&self, job: &Job, paths: &Paths) -> bool {
        let takes_turns =
            self.rules.path_suspicion != PathSuspicion::Off && self.queue.is_mapping();
        let path = paths.get(job.id).filter(|path| takes_turns && path.flight().has_helped());
        let Some(path) = path else { return false };
        let next = self.next_repeat(job.now, path, job.flight, job.worth, paths, job.repeaters);
        let chunk = next.and_then(|tsn| self.outstanding.get(tsn));
        if chunk.is_none_or(|chunk| chunk.record.path == job.id) {
            return false;
        }
        let taker = self.taker(job.now, paths, job.usable, job.id);
        self.next_own_repeat(job, path).is_some()
            || (job.worth
                && self.queue.has_own(taker)
                && self.next_new(job.now, path, job.flight, paths, job.usable).is_some())
    }

    /// What of its own losses `path` may repeat now.
    fn next_own_repeat(&self, job: &Job, path: &Path) -> Option<Tsn64> {
        let reported = path.flight().lost().first(Loss::Reported);
        let stays = self.rules.experiment.fast_retransmission_policy == RetransmissionPolicy::Same;
        reported.filter(|_| stays && path.may_repeat(job.now, job.flight))
    }

    fn fill_lost(&mut self, job: &Job, paths: &mut Paths, packet: &mut PacketWriter<'_>) -> usize {
        let mut written = 0;
        while let Some(path) = paths.get(job.id) {
            let next = if job.own {
                self.next_own_repeat(job, path)
            } else {
                self.next_repeat(job.now, path, job.flight, job.worth, paths, job.repeaters)
            };
            let Some(tsn) = next else { break };
            let Some(chunk) = self.outstanding.get(tsn) else { break };
            if packet.push(&chunk.to_chunk(tsn, job.immediate)).is_err() {
                break;
            }
            self.on_repeated(job.now, tsn, job.id, paths);
            self.note_size(tsn, packet.len(), paths);
            written += 1;
        }
        if let Some(path) = paths.get_mut(job.id).filter(|_| written > 0) {
            path.flight_mut().end_fast_packet();
        }
        written
    }

    /// Sends the chunk again that holds up all others.
    fn fill_rescheduled(
        &mut self,
        job: &Job,
        paths: &mut Paths,
        packet: &mut PacketWriter<'_>,
    ) -> usize {
        let Some(path) = paths.get(job.id) else { return 0 };
        let Some(tsn) = self.to_reschedule(job.now, path, job.flight, job.usable) else { return 0 };
        let Some(chunk) = self.outstanding.get(tsn) else { return 0 };
        if packet.push(&chunk.to_chunk(tsn, true)).is_err() {
            return 0;
        }
        self.reschedule(job.now, tsn, job.usable, paths);
        self.on_repeated(job.now, tsn, job.id, paths);
        self.note_size(tsn, packet.len(), paths);
        1
    }

    fn fill_new(&mut self, job: &Job, paths: &mut Paths, packet: &mut PacketWriter<'_>) -> usize {
        let (kind, header) = (self.chunk_type(), self.header_len());
        let mut written = 0;
        let has_room = |packet: &PacketWriter<'_>| job.worth && header < packet.room_for(kind);
        while let Some(path) = paths.get(job.id).filter(|_| has_room(packet)) {
            let next = self.next_new(job.now, path, job.flight, paths, job.usable);
            let Some((stream, len)) = next else { break };
            let Some(len) = self.fitting(stream, len, packet.room_for(kind)) else { break };
            let Some(mut fragment) = self.queue.pop(stream, job.id, len) else { break };
            // Nothing as large goes behind it before a SACK opens the window.
            fragment.prompt |= self.queue.ending && self.outstanding.rwnd_for_new() < 2 * len;
            self.counts.on_new(&fragment);
            let mut chunk = SentChunk::new(fragment, job.id, job.now);
            let tsn = self.outstanding.next_tsn();
            if packet.push(&chunk.to_chunk(tsn, job.immediate)).is_err() {
                debug_assert!(false, "the room was looked at");
            }
            self.abandonment.on_sent(tsn, &chunk.fragment);
            let Some(path) = paths.get_mut(job.id) else { break };
            let is_probe = len > self.outstanding.rwnd_for_new();
            path.on_new_sent(job.now, tsn, chunk.tracked());
            chunk.record.capable = job.ecn;
            self.outstanding.push(chunk);
            self.on_sent(job.now, len, path);
            if is_probe {
                self.on_probe_sent(job.now, tsn, path);
            }
            self.note_size(tsn, packet.len(), paths);
            self.copies.want((stream, tsn), &self.queue, (job.id, job.usable), paths);
            written += 1;
        }
        written
    }

    /// A lost chunk has been written into a packet for path `id`.
    fn on_repeated(&mut self, now: Instant, tsn: Tsn64, id: PathId, paths: &mut Paths) {
        let Some(chunk) = self.outstanding.get_mut(tsn) else { return };
        let (from, sent, len) = (chunk.record.path, chunk.record.last_sent, chunk.data_len());
        let repeated = paths.get_mut(from).map(|old| old.on_repeated(tsn, len, id));
        let (loss, probe) = repeated.unwrap_or((Loss::Reported, false));
        chunk.record.timed_out |= loss == Loss::TimedOut;
        let reported = loss == Loss::Reported && !probe;
        self.repetitions.push(Repetition { tsn, from, sent, reported });
        let Some(path) = paths.get_mut(id) else { return };
        path.on_repetition_sent(now, tsn, chunk.tracked());
        self.outstanding.on_repeated(len);
        self.on_sent(now, len, path);
        if self.outstanding.window().probe() == Some(tsn) {
            self.on_probe_sent(now, tsn, path);
        }
    }

    /// A chunk with `data` bytes has been written into a packet for `path`.
    fn on_sent(&mut self, now: Instant, data: usize, path: &mut Path) {
        self.outstanding.on_sent(data);
        path.note_share(now, self.queue.most_on(path.id()));
    }

    /// The packet that chunk `tsn` is in has `len` bytes so far. That a packet with more behind it was
    /// large is seen by its last chunk. One in IP fragments says nothing about the MTU.
    fn note_size(&mut self, tsn: Tsn64, len: usize, paths: &Paths) {
        let Some(chunk) = self.outstanding.get_mut(tsn) else { return };
        let path = paths.get(chunk.record.path);
        chunk.record.large =
            path.is_some_and(|path| path.is_large(len) && len <= path.packet_size());
    }

    /// The chunk is a probe of a closed window: its timer is the pause until the next one.
    fn on_probe_sent(&mut self, now: Instant, tsn: Tsn64, path: &mut Path) {
        let window = self.outstanding.window_mut();
        window.on_probe_sent(now, tsn);
        let pause = window.probe_pause(path.rtt().rto(), path.rtt().rto_max());
        path.flight_mut().start_t3(now, pause);
    }
}
