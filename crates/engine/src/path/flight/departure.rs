//! What leaves on a path, and what may.

use super::{ChunkRecord, ChunkState, Flight, Sent, Tracked};
use crate::path::congestion::Departure;
use crate::path::{PathId, PathSet, Subflow};
use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;

impl Flight {
    /// Whether an acknowledgement of anything may still come.
    pub(crate) fn awaits_acknowledgement(&self) -> bool {
        self.bytes + self.hidden > 0
    }

    /// User data whose last transmission was on the path and which is not acknowledged for good (the
    /// measure `queued` of buffer splitting).
    pub(crate) fn booked(&self) -> usize {
        self.booked
    }

    /// When DATA was sent last.
    pub(crate) fn last_data(&self) -> Option<Instant> {
        self.last_data
    }

    /// When it had in flight last what its window or its share of the buffers allows.
    pub(crate) fn share_filled(&self) -> Option<Instant> {
        self.share_filled
    }

    /// Whether the last packet with DATA repeated what other paths had lost.
    pub(crate) fn has_helped(&self) -> bool {
        self.helped
    }

    /// Chunk `tsn` leaves on path `id`, which is this one's.
    fn on_sent(&mut self, now: Instant, id: PathId, tsn: Tsn64, record: &mut ChunkRecord) {
        self.transmissions += 1;
        let sent = Sent { number: self.transmissions, tsn };
        if record.transmissions == 0 {
            self.originals.push(sent);
            self.highest_tsn = self.highest_tsn.max(Some(tsn));
        } else {
            self.retransmissions.push(sent);
        }
        record.number = sent.number;
        record.from = core::mem::replace(&mut record.path, id);
        record.last_sent = now;
        record.transmissions += 1;
        record.missing = 0;
        record.capable = false;
        record.hidden = false;
        record.state = ChunkState::InFlight;
    }

    /// The privilege of a fast retransmit is for one packet (section 7.2.4 rule 3).
    pub(crate) fn end_fast_packet(&mut self) {
        self.fast_packet = false;
    }

    /// User data that was sent on the path is acknowledged for good, or needs no acknowledgement.
    pub(crate) fn release(&mut self, data: usize) {
        self.booked = self.booked.saturating_sub(data);
    }

    /// When T3-rtx expires, if it runs.
    pub(crate) fn t3(&self) -> Option<Instant> {
        self.t3
    }

    /// (Re)starts T3-rtx with another time than the RTO.
    pub(crate) fn start_t3(&mut self, now: Instant, pause: Duration) {
        self.t3 = Some(now + pause);
    }

    /// Stops T3-rtx. Returns when it would have expired.
    pub(crate) fn stop_t3(&mut self) -> Option<Instant> {
        self.t3.take()
    }

    /// Goes on with the T3-rtx of another path, if its own does not run.
    pub(crate) fn adopt_t3(&mut self, t3: Option<Instant>) {
        self.t3 = self.t3.or(t3);
    }

    /// T3-rtx expires at `at` at the latest, if it runs.
    pub(crate) fn hasten_t3(&mut self, at: Instant) {
        self.t3 = self.t3.map(|expiry| expiry.min(at));
    }
}

impl Subflow {
    /// Whether the congestion window and Max.Burst (RFC 9260 section 6.1 rules B and D), or pacing, let
    /// one more chunk out, or a probe does that need not care. `before`: the flight before the packet
    /// that is being built.
    pub(crate) fn may_send(&self, now: Instant, before: usize) -> bool {
        let fits = self.flight.bytes < self.congestion.window()
            && self.may_follow(now)
            && !(self.flight.one_packet && before > 0);
        fits || self.flight.tail_probe.exceeds()
    }

    /// The same for a chunk that was lost.
    pub(crate) fn may_repeat(&self, now: Instant, before: usize) -> bool {
        self.flight.fast_packet || self.may_send(now, before)
    }

    /// A packet with DATA is about to be built, while `usable` are the paths that may carry some. The
    /// window decays if it has not been used for some time (section 7.2.1).
    pub(crate) fn begin_packet(&mut self, now: Instant, usable: PathSet) {
        match self.flight.last_data {
            None => self.congestion.begin(usable.len()),
            Some(last) if self.flight.bytes == 0 => {
                let rto = self.rtt.rto().as_nanos().max(1);
                let rtos = u32::try_from(now.since(last).as_nanos() / rto).unwrap_or(u32::MAX);
                if rtos > 0 {
                    self.congestion.on_idle(rtos);
                    self.flight.last_data = Some(now);
                }
            }
            Some(_) => {}
        }
        self.pacer.end_hold(now);
    }

    /// The packet is complete, and has DATA. `helps`: it repeats what other paths have lost.
    pub(crate) fn end_packet(&mut self, now: Instant, before: usize, helps: bool) {
        let bytes = self.flight.bytes.saturating_sub(before);
        self.flight.helped &= helps;
        self.burst.on_packet(now, bytes);
        if let Some(pace) = self.pacer.pace(&self.congestion, &self.rtt) {
            if self.flight.bytes <= bytes {
                self.pacer.begin(now, self.congestion.initial_window(), pace);
            }
            self.pacer.on_packet(now, bytes, pace);
        }
        self.flight.tail_probe.on_packet();
    }

    /// A new chunk has been written into a packet.
    pub(crate) fn on_new_sent(&mut self, now: Instant, tsn: Tsn64, chunk: Tracked<'_>) {
        self.flight.booked += chunk.data;
        self.flight.on_sent(now, self.id, tsn, chunk.record);
        self.occupy(now, chunk.wire);
    }

    /// A chunk that was sent before, here or on another path, has been written into a packet.
    pub(crate) fn on_repetition_sent(&mut self, now: Instant, tsn: Tsn64, chunk: Tracked<'_>) {
        let Tracked { record, data, wire } = chunk;
        self.stats.bytes_retransmitted += data as u64;
        let is_earliest = self.flight.cuc.earliest() == Some(tsn);
        if record.path != self.id {
            record.moved = true;
            self.flight.helped = true;
            self.flight.booked += data;
            self.flight.cuc.forget();
        }
        self.flight.on_sent(now, self.id, tsn, record);
        self.occupy(now, wire);
        if is_earliest {
            // Section 6.1: the earliest outstanding chunk of the path is sent again.
            self.restart_t3(now);
        }
    }

    /// `wire` bytes more are in flight, by the latest transmission.
    pub(super) fn occupy(&mut self, now: Instant, wire: usize) {
        let (number, in_flight) = (self.flight.transmissions, self.flight.bytes);
        self.flight.silence.on_sent(now, in_flight == 0);
        self.congestion.on_sent(&Departure { now, number, bytes: wire, in_flight });
        self.flight.bytes += wire;
        self.flight.last_data = Some(now);
        self.stats.data_bytes += wire as u64;
        if self.flight.bytes >= self.congestion.window() {
            self.flight.window_filled = Some(now);
        }
        if self.flight.t3.is_none() {
            self.restart_t3(now);
        }
    }

    /// Its share of the buffers has room for `most` bytes in flight.
    pub(crate) fn note_share(&mut self, now: Instant, most: usize) {
        let share = self.congestion.window().min(most);
        if self.flight.bytes + self.congestion.chunk_limit() > share {
            self.flight.share_filled = Some(now);
        }
    }

    /// (Re)starts T3-rtx (RFC 9260 section 6.3.2).
    pub(crate) fn restart_t3(&mut self, now: Instant) {
        self.flight.start_t3(now, self.rtt.rto());
    }

    /// Nothing is under way: gives memory back.
    pub(crate) fn release_memory(&mut self) {
        self.flight.originals.release_memory();
        self.flight.retransmissions.release_memory();
        self.congestion.release_memory();
    }
}
