//! Messages that wait to be sent, per stream, and their fragmentation (RFC 9260 section 6.9).
//!
//! TSN and SSN are given when a fragment leaves, not when the message is queued.

use crate::endpoint::Outgoing;
use crate::schedule::stream::{Fcfs, StreamScheduler};
use alloc::collections::{BTreeMap, VecDeque};
use bytes::Bytes;
use manypath_wire::{Ppid, Ssn, StreamId};

/// Most ordered messages of a stream that may be sent and not acknowledged (section 6.1).
const MAX_ORDERED: u32 = (1 << 16) - 1;

/// A piece of a message, ready for a DATA chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fragment {
    /// Stream of the message.
    pub(crate) stream: StreamId,
    /// Its number in the stream; 0 if unordered.
    pub(crate) ssn: Ssn,
    /// Payload protocol identifier.
    pub(crate) ppid: Ppid,
    /// Whether the message is unordered.
    pub(crate) unordered: bool,
    /// First piece.
    pub(crate) begin: bool,
    /// Last piece.
    pub(crate) end: bool,
    /// The bytes.
    pub(crate) payload: Bytes,
}

/// All messages that wait.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    streams: BTreeMap<StreamId, OutboundStream>,
    scheduler: Fcfs,
    bytes: usize,
    messages: usize,
}

#[derive(Debug, Default)]
struct OutboundStream {
    waiting: VecDeque<Waiting>,
    next_ssn: u16,
    /// Ordered messages of which something was sent and not everything acknowledged.
    ordered_under_way: u32,
}

/// A message, or what is left of it.
#[derive(Debug)]
struct Waiting {
    ppid: Ppid,
    unordered: bool,
    begun: bool,
    rest: Bytes,
}

impl SendQueue {
    /// Queues a message.
    pub(crate) fn push(&mut self, message: Outgoing) {
        let Outgoing { stream, ppid, unordered, payload: rest } = message;
        self.bytes += rest.len();
        self.messages += 1;
        self.scheduler.on_queued(stream);
        let waiting = &mut self.streams.entry(stream).or_default().waiting;
        waiting.push_back(Waiting { ppid, unordered, begun: false, rest });
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Messages that wait.
    pub(crate) fn messages(&self) -> usize {
        self.messages
    }

    /// Payload size of the fragment that [`Self::pop`] would give.
    pub(crate) fn next_len(&self, limit: usize) -> Option<usize> {
        let stream = self.streams.get(&self.scheduler.next()?)?;
        let message = stream.waiting.front()?;
        let blocked =
            !message.unordered && !message.begun && stream.ordered_under_way >= MAX_ORDERED;
        (!blocked).then(|| message.rest.len().min(limit))
    }

    /// Takes the next fragment of at most `limit` bytes.
    pub(crate) fn pop(&mut self, limit: usize) -> Option<Fragment> {
        let len = self.next_len(limit)?;
        let id = self.scheduler.next()?;
        let stream = self.streams.get_mut(&id)?;
        let message = stream.waiting.front_mut()?;
        let (begin, end) = (!message.begun, message.rest.len() == len);
        message.begun = true;
        let fragment = Fragment {
            stream: id,
            ssn: Ssn(if message.unordered { 0 } else { stream.next_ssn }),
            ppid: message.ppid,
            unordered: message.unordered,
            begin,
            end,
            payload: message.rest.split_to(len),
        };
        if !fragment.unordered {
            stream.ordered_under_way += u32::from(begin);
            stream.next_ssn = stream.next_ssn.wrapping_add(u16::from(end));
        }
        self.bytes -= len;
        if end {
            stream.waiting.pop_front();
            self.messages -= 1;
            self.scheduler.on_sent();
        }
        Some(fragment)
    }

    /// An ordered message of `stream` was acknowledged to its end.
    pub(crate) fn on_ordered_done(&mut self, stream: StreamId) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.ordered_under_way = stream.ordered_under_way.saturating_sub(1);
        }
    }

    /// Ordered messages under way in all streams.
    #[cfg(test)]
    pub(crate) fn ordered_under_way(&self) -> u32 {
        self.streams.values().map(|stream| stream.ordered_under_way).sum()
    }

    /// Drops what waits on streams that the peer does not have: numbers from `limit` on. Returns
    /// (messages, bytes) dropped.
    pub(crate) fn drop_streams_from(&mut self, limit: u16) -> (usize, usize) {
        let gone = self.streams.split_off(&StreamId(limit));
        let dropped = gone.values().flat_map(|stream| &stream.waiting);
        let (messages, bytes) =
            dropped.fold((0, 0), |(count, bytes), message| (count + 1, bytes + message.rest.len()));
        self.scheduler.on_dropped(|stream| stream.0 >= limit);
        self.messages -= messages;
        self.bytes -= bytes;
        (messages, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{Fragment, MAX_ORDERED, SendQueue};
    use crate::endpoint::Outgoing;
    use alloc::vec::Vec;
    use bytes::Bytes;
    use manypath_wire::{Ppid, StreamId};

    fn push(queue: &mut SendQueue, stream: u16, unordered: bool, len: usize) {
        let payload = Bytes::from(alloc::vec![7; len]);
        queue.push(Outgoing { stream: StreamId(stream), ppid: Ppid(1), unordered, payload });
    }

    fn drain(queue: &mut SendQueue) -> Vec<(u16, u16, bool, bool, usize)> {
        let all: Vec<Fragment> = core::iter::from_fn(|| queue.pop(1000)).collect();
        all.iter().map(|f| (f.stream.0, f.ssn.0, f.begin, f.end, f.payload.len())).collect()
    }

    #[test]
    fn messages_are_cut_and_numbered_when_they_leave() {
        let mut queue = SendQueue::default();
        push(&mut queue, 5, false, 2500);
        push(&mut queue, 2, false, 10);
        push(&mut queue, 5, true, 1001);
        push(&mut queue, 5, false, 1000);
        assert_eq!((queue.bytes(), queue.messages()), (4511, 4));
        let expected = [
            (5, 0, true, false, 1000),
            (5, 0, false, false, 1000),
            (5, 0, false, true, 500),
            (2, 0, true, true, 10),
            (5, 0, true, false, 1000),
            (5, 0, false, true, 1),
            (5, 1, true, true, 1000),
        ];
        assert_eq!(drain(&mut queue), expected);
        assert_eq!((queue.bytes(), queue.messages()), (0, 0));
    }

    #[test]
    fn a_stream_has_no_more_ordered_messages_under_way_than_numbers() {
        let mut queue = SendQueue::default();
        for _ in 0..=MAX_ORDERED {
            push(&mut queue, 1, false, 1);
        }
        assert_eq!(drain(&mut queue).len(), MAX_ORDERED as usize);
        assert_eq!((queue.next_len(9), queue.messages()), (None, 1));
        queue.on_ordered_done(StreamId(1));
        assert_eq!(drain(&mut queue), [(1, u16::MAX, true, true, 1)]);
        push(&mut queue, 1, true, 1);
        assert_eq!(queue.next_len(9), Some(1));
    }

    #[test]
    fn streams_that_the_peer_does_not_have_are_dropped() {
        let mut queue = SendQueue::default();
        push(&mut queue, 9, false, 5);
        push(&mut queue, 1, false, 6);
        push(&mut queue, 10, false, 7);
        assert_eq!(queue.drop_streams_from(9), (2, 12));
        assert_eq!(drain(&mut queue), [(1, 0, true, true, 6)]);
    }
}
