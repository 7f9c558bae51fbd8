//! Messages that leave the queue without being sent.

use super::Outgoing;
use super::perishable::MessageKey;
use super::queue::{Fragment, SendQueue};
use super::reliability::Terms;
use super::stream::{MAX_ORDERED, OutboundStream};
use crate::schedule::stream::Departure;
use bytes::Bytes;
use manypath_wire::StreamId;

impl SendQueue {
    /// Messages may be given up after they were sent. A receiver can tell numbers that were skipped
    /// from old ones only within half of their range.
    pub(super) fn halve_window_of_streams(&mut self) {
        self.most_ordered = MAX_ORDERED / 2;
    }

    /// Takes a message out of which no part has left; `None` if there is no such message.
    pub(super) fn withdraw(&mut self, key: MessageKey) -> Option<(Outgoing, Terms)> {
        let stream = self.streams.get_mut(key.stream)?;
        let at =
            stream.waiting.binary_search_by_key(&key.arrival, |waiting| waiting.arrival).ok()?;
        if stream.waiting.get(at)?.begun {
            return None;
        }
        let waiting = stream.waiting.remove(at)?;
        stream.unsent -= waiting.rest.len();
        self.bytes -= waiting.rest.len();
        self.messages -= 1;
        self.urgent.update(key.stream, stream);
        if at == 0 {
            self.scheduler.remove(key.stream);
            if let Some(head) = stream.head() {
                self.scheduler.add(key.stream, head);
            }
        }
        self.perishables.remove(key, waiting.terms);
        let (stream, ppid, unordered) = (key.stream, waiting.ppid, waiting.unordered);
        Some((Outgoing { stream, ppid, unordered, payload: waiting.rest }, waiting.terms))
    }

    /// Bytes of a message that waits.
    pub(super) fn waiting_len(&self, key: MessageKey) -> usize {
        let waiting = self.streams.get(key.stream).map(|stream| &stream.waiting);
        let found = waiting.and_then(|waiting| {
            let at = waiting.binary_search_by_key(&key.arrival, |waiting| waiting.arrival).ok()?;
            waiting.get(at)
        });
        found.map_or(0, |waiting| waiting.rest.len())
    }

    /// Gives up the rest of the message of `stream` of which a part has left. Returns the rest, and
    /// the empty end that stands for it.
    pub(super) fn cut_short(&mut self, id: StreamId) -> Option<(Fragment, Bytes)> {
        let interleaving = self.interleaving.is_some();
        let stream = self.streams.get_mut(id)?;
        let arrival = stream.waiting.front()?.arrival;
        let before = stream.partly_sent();
        let (end, rest) = stream.cut_short(id, interleaving)?;
        self.partly_sent -= before;
        self.bytes -= rest.len();
        self.messages -= 1;
        let bytes = core::mem::take(&mut stream.departing);
        let (path, next) = (stream.path, stream.head());
        self.urgent.update(id, stream);
        self.perishables.remove(MessageKey { stream: id, arrival }, end.terms);
        let lane = path.and_then(|path| self.lane(path));
        self.scheduler.on_sent(id, Departure { lane, bytes, next });
        self.begun = self.begun.filter(|begun| *begun != id);
        Some((end, rest))
    }
}

impl OutboundStream {
    fn cut_short(&mut self, id: StreamId, interleaving: bool) -> Option<(Fragment, Bytes)> {
        let first = self.waiting.front_mut().filter(|first| first.begun)?;
        let rest = core::mem::take(&mut first.rest);
        self.unsent -= rest.len();
        let end = self.take(id, 0, interleaving)?;
        Some((end, rest))
    }
}
