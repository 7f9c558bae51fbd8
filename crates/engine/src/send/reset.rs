//! Outbound streams that begin anew, or are added (RFC 6525 section 5.1; RFC 8260 section 2.3.2).

use super::Sender;
use super::queue::SendQueue;
use super::stream::OutboundStream;
use crate::config::StreamOptions;
use alloc::collections::BTreeSet;
use manypath_wire::StreamId;

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
    /// Whether the next message of the stream must wait.
    pub(super) fn holds(&self, id: StreamId, stream: &OutboundStream) -> bool {
        let waits = |arrival| arrival >= self.arrival;
        includes(&self.streams, id) && stream.next_to_begin().is_some_and(waits)
    }
}

pub(crate) fn includes(streams: &Streams, stream: StreamId) -> bool {
    streams.as_ref().is_none_or(|streams| streams.contains(&stream))
}

impl SendQueue {
    /// Messages of `streams` that are queued from now on wait (rules A1 and C2).
    pub(crate) fn hold_back(&mut self, streams: Streams) {
        self.gate = Some(Gate { streams, arrival: self.arrivals });
    }

    /// Nothing waits any more.
    pub(crate) fn let_go(&mut self) {
        self.gate = None;
    }

    /// Whether all that was queued before [`Self::hold_back`] has been sent.
    pub(crate) fn has_sent_before_reset(&self) -> bool {
        let Some(gate) = &self.gate else { return true };
        let mut concerned = self.streams().filter(|(id, _)| includes(&gate.streams, *id));
        concerned.all(|(_, stream)| stream.has_nothing_before(gate.arrival))
    }

    /// Whether no message of `streams` has been numbered since they began.
    pub(crate) fn are_fresh(&self, streams: &Streams) -> bool {
        let mut concerned = self.streams().filter(|(id, _)| includes(streams, *id));
        concerned.all(|(_, stream)| stream.is_fresh())
    }

    /// Messages of `streams` are numbered from 0 again.
    pub(crate) fn reset_streams(&mut self, streams: &Streams) {
        let concerned = self.streams.iter_mut().filter(|(id, _)| includes(streams, *id));
        concerned.for_each(|(_, stream)| stream.restart_numbers());
    }

    /// The user has other wishes for a stream. False if there is no such stream.
    pub(crate) fn set_stream_options(&mut self, stream: StreamId, options: StreamOptions) -> bool {
        let exists = stream.0 < self.stream_count;
        if exists {
            self.set_options(stream, options);
        }
        exists
    }

    /// Bytes of one stream that are accepted and not acknowledged for good.
    pub(crate) fn queued_on(&self, stream: StreamId) -> usize {
        self.stream(stream).map_or(0, |stream| stream.unsent() + stream.unacked())
    }

    /// Number of streams.
    pub(crate) fn stream_count(&self) -> u16 {
        self.stream_count
    }

    /// There are so many more streams.
    pub(crate) fn add_streams(&mut self, count: u16) {
        self.stream_count = self.stream_count.saturating_add(count);
    }
}

impl Sender {
    /// Whether nothing is outstanding and no message is partly sent.
    pub(crate) fn is_between_messages(&self) -> bool {
        let queue = &self.queue;
        queue.partly_sent == 0 && queue.unfinished.is_empty() && self.outstanding.is_empty()
    }
}
