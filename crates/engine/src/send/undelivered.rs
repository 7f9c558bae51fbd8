//! What an association has not got across when it ends (RFC 9260 section 11.2 SEND FAILURE).

use super::Outgoing;
use super::outstanding::{Outstanding, SentChunk};
use super::queue::{Fragment, SendQueue};
use super::reliability::Terms;
use super::stream::Waiting;
use crate::path::ChunkState;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use manypath_wire::{Ppid, StreamId};

/// A message that the peer has not acknowledged as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Undelivered {
    /// What is still held of it.
    pub(crate) message: Outgoing,
    /// Whether a part of it was sent.
    pub(crate) sent: bool,
    pub(crate) terms: Terms,
}

/// Pieces of one message, in order.
struct Pieces {
    stream: StreamId,
    ppid: Ppid,
    unordered: bool,
    terms: Terms,
    sent: bool,
    /// Whether the peer lacks something of it, as far as is known.
    lacks: bool,
    parts: Vec<Bytes>,
}

/// The messages that the peer has not acknowledged: first those of which something was sent, then
/// the others, in the order in which they were given.
pub(crate) fn undelivered(outstanding: &Outstanding, queue: &SendQueue) -> Vec<Undelivered> {
    let (mut messages, mut open) = sent_messages(outstanding);
    let (rests, waiting) = queue.left();
    for (stream, rest) in rests.into_iter().chain(waiting) {
        // What was sent of it may be acknowledged.
        let goes_on = rest.begun || rest.part.continues;
        let known = open.remove(&stream).filter(|_| goes_on);
        let at = known.unwrap_or(messages.len());
        let fresh = Pieces::of_rest(stream, rest, goes_on);
        match messages.get_mut(at) {
            Some(message) => message.append(fresh),
            None => messages.push(fresh),
        }
        if rest.part.open {
            open.insert(stream, at);
        }
    }
    messages.into_iter().filter(|message| message.lacks).map(Pieces::join).collect()
}

/// The messages of which something was sent, and which message of each stream is not sent to its end.
fn sent_messages(outstanding: &Outstanding) -> (Vec<Pieces>, BTreeMap<StreamId, usize>) {
    let mut messages: Vec<Pieces> = Vec::new();
    let mut open = BTreeMap::new();
    for chunk in outstanding.iter() {
        let Fragment { stream, begin, end, .. } = chunk.fragment;
        let known = open.get(&stream).copied().filter(|_| !begin);
        let at = known.unwrap_or(messages.len());
        match messages.get_mut(at) {
            Some(message) => message.append(Pieces::of_chunk(chunk)),
            None => messages.push(Pieces::of_chunk(chunk)),
        }
        if end {
            open.remove(&stream);
        } else {
            open.insert(stream, at);
        }
    }
    (messages, open)
}

impl Pieces {
    fn of_chunk(chunk: &SentChunk) -> Self {
        let Fragment { stream, ppid, unordered, terms, ref payload, .. } = chunk.fragment;
        let lacks = match chunk.record.state {
            ChunkState::InFlight | ChunkState::Lost => true,
            // What was given up has been told.
            ChunkState::Acked | ChunkState::Released | ChunkState::Abandoned => false,
        };
        let parts = alloc::vec![payload.clone()];
        Self { stream, ppid, unordered, terms, sent: true, lacks, parts }
    }

    fn of_rest(stream: StreamId, rest: &Waiting, sent: bool) -> Self {
        let Waiting { ppid, unordered, terms, ref rest, .. } = *rest;
        let parts = alloc::vec![rest.clone()];
        Self { stream, ppid, unordered, terms, sent, lacks: true, parts }
    }

    fn append(&mut self, next: Self) {
        self.lacks |= next.lacks;
        self.parts.extend(next.parts);
    }

    fn join(self) -> Undelivered {
        let Self { stream, ppid, unordered, terms, sent, mut parts, .. } = self;
        let payload = match parts.as_mut_slice() {
            [one] => core::mem::take(one),
            parts => parts.concat().into(),
        };
        Undelivered { message: Outgoing { stream, ppid, unordered, payload }, sent, terms }
    }
}

/// Messages by their streams.
type Waiters<'a> = Vec<(StreamId, &'a Waiting)>;

impl SendQueue {
    /// Messages of which a part has left, and those of which none has.
    fn left(&self) -> (Waiters<'_>, Waiters<'_>) {
        let streams = self.streams.iter();
        let all = streams
            .flat_map(|(id, stream)| stream.waiting.iter().map(move |message| (id, message)));
        let (begun, mut whole): (Vec<_>, Vec<_>) = all.partition(|(_, message)| message.begun);
        whole.sort_unstable_by_key(|(_, message)| message.arrival);
        (begun, whole)
    }
}
