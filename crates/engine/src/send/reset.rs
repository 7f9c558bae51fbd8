//! Outbound streams that begin anew, or are added (RFC 6525 section 5.1; RFC 8260 section 2.3.2).

use super::Sender;
use super::queue::SendQueue;
use super::stream::OutboundStream;
use crate::tsn::Tsn64;
use alloc::collections::BTreeSet;
use manypath_wire::{StreamId, Tsn};

/// Streams; `None` stands for all.
pub(crate) type Streams = Option<BTreeSet<StreamId>>;

/// Messages that must wait until a reset is done.
#[derive(Debug)]
pub(super) struct Gate {
    streams: Streams,
    /// The first message that must wait.
    arrival: u64,
}

impl Gate {
    fn is_for(&self, stream: StreamId) -> bool {
        self.streams.as_ref().is_none_or(|streams| streams.contains(&stream))
    }
}

impl Sender {
    /// Messages of `streams` that are queued from now on wait (rules A1 and C2).
    pub(crate) fn hold_back(&mut self, streams: Streams) {
        self.queue.gate = Some(Gate { streams, arrival: self.queue.arrivals() });
    }

    /// Nothing waits any more.
    pub(crate) fn let_go(&mut self) {
        self.queue.gate = None;
    }

    /// Whether all that was queued before [`Self::hold_back`] has been sent.
    pub(crate) fn has_sent_before_reset(&self) -> bool {
        self.queue.is_gate_reached()
    }

    /// Whether nothing is outstanding.
    fn has_nothing_outstanding(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Whether nothing is outstanding and no message is partly sent.
    pub(crate) fn is_between_messages(&self) -> bool {
        let queue = &self.queue;
        queue.partly_sent == 0 && queue.unfinished.is_empty() && self.has_nothing_outstanding()
    }

    /// Whether no message of `streams` has been numbered since they began.
    pub(crate) fn are_fresh(&self, streams: &Streams) -> bool {
        let mut concerned = self.queue.streams().filter(|(id, _)| includes(streams, *id));
        concerned.all(|(_, stream)| stream.is_fresh())
    }

    /// Messages of `streams` are numbered from 0 again.
    pub(crate) fn reset_streams(&mut self, streams: &Streams) {
        self.queue.reset_streams(streams);
    }

    /// Whether every chunk before `tsn` has been acknowledged, and not by a gap ack block only.
    pub(crate) fn has_delivered_before(&self, tsn: Tsn64) -> bool {
        self.outstanding.cum().next() >= tsn
    }

    /// The TSN of the next new chunk.
    pub(crate) fn next_tsn(&self) -> Tsn {
        self.next_tsn64().wire()
    }

    /// The TSN of the next new chunk, which does not wrap.
    pub(crate) fn next_tsn64(&self) -> Tsn64 {
        self.outstanding.next_tsn()
    }

    /// The TSN of the next new chunk is `tsn`. Nothing must be outstanding.
    pub(crate) fn jump_to(&mut self, tsn: Tsn) {
        self.outstanding.jump_to(tsn);
    }

    /// Number of streams.
    pub(crate) fn outbound_streams(&self) -> u16 {
        self.outbound_streams
    }

    /// There are so many more streams.
    pub(crate) fn add_streams(&mut self, count: u16) {
        self.outbound_streams = self.outbound_streams.saturating_add(count);
    }
}

pub(crate) fn includes(streams: &Streams, stream: StreamId) -> bool {
    streams.as_ref().is_none_or(|streams| streams.contains(&stream))
}

impl SendQueue {
    /// Whether the next message of the stream must wait for a reset.
    pub(super) fn is_held_back(&self, id: StreamId, stream: &OutboundStream) -> bool {
        self.gate.as_ref().is_some_and(|gate| {
            let waits = |arrival| arrival >= gate.arrival;
            gate.is_for(id) && stream.next_to_begin().is_some_and(waits)
        })
    }

    fn is_gate_reached(&self) -> bool {
        let Some(gate) = &self.gate else { return true };
        let mut concerned = self.streams().filter(|(id, _)| gate.is_for(*id));
        concerned.all(|(_, stream)| stream.has_nothing_before(gate.arrival))
    }

    fn reset_streams(&mut self, streams: &Streams) {
        let concerned = self.streams.iter_mut().filter(|(id, _)| includes(streams, *id));
        concerned.for_each(|(_, stream)| stream.restart_numbers());
    }
}
