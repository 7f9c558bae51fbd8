//! Messages that wait to be sent, per stream, and their fragmentation (RFC 9260 section 6.9).
//!
//! TSN and SSN are given when a fragment leaves, not when the message is queued. Which stream goes
//! next is asked per path: streams may be tied to paths (`crate::schedule::map`).

use super::mapping::Mapping;
use super::message::Outgoing;
use super::parts::{Part, Unfinished};
use super::perishable::{MessageKey, Perishables};
use super::reliability::Terms;
use super::reset::Gate;
use super::stream::{MAX_ORDERED, OutboundStream, Waiting};
use super::streams::OutboundStreams;
use super::urgent::UrgentStreams;
use crate::config::{Config, StreamOptions};
use crate::path::{PathId, PathSet};
use crate::schedule::map::DynamicMap;
use crate::schedule::stream::{Departure, Head, Lane, StreamScheduler};
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use bytes::Bytes;
use manypath_wire::chunk::{Data, IData, types};
use manypath_wire::{Fsn, Mid, Ppid, Ssn, StreamId};

/// A piece of a message, ready for a DATA chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fragment {
    /// Stream of the message.
    pub(crate) stream: StreamId,
    /// Its place in the stream.
    pub(crate) number: Number,
    /// Payload protocol identifier.
    pub(crate) ppid: Ppid,
    /// Whether the message is unordered.
    pub(crate) unordered: bool,
    /// First piece.
    pub(crate) begin: bool,
    /// Last piece.
    pub(crate) end: bool,
    /// Its chunk has the I bit, whatever the path says (RFC 9260 section 6.1).
    pub(crate) prompt: bool,
    /// When the message may be given up.
    pub(crate) terms: Terms,
    /// The bytes.
    pub(crate) payload: Bytes,
}

/// How a fragment finds its place at the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Number {
    /// In DATA: the number of its message, 0 if unordered. Its TSN tells the rest.
    Ssn(Ssn),
    /// In I-DATA: the number of its message, and its own in the message.
    Mid(Mid, Fsn),
}

impl Fragment {
    /// Whether `other`, sent before or after this one with no piece of another message of the stream
    /// between them, is of the same message.
    pub(super) fn is_of_message(&self, other: &Self) -> bool {
        let same = self.stream == other.stream && self.unordered == other.unordered;
        same && match (self.number, other.number) {
            (Number::Ssn(own), Number::Ssn(other)) => own == other,
            (Number::Mid(own, _), Number::Mid(other, _)) => own == other,
            (Number::Ssn(_), Number::Mid(..)) | (Number::Mid(..), Number::Ssn(_)) => false,
        }
    }

    /// Bytes of its chunk before the user data.
    pub(crate) fn header_len(&self) -> usize {
        match self.number {
            Number::Ssn(_) => Data::HEADER_LEN,
            Number::Mid(..) => IData::HEADER_LEN,
        }
    }
}

/// A path that asks for something to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taker {
    /// Other paths whose streams it may serve when its own have nothing, or when those have too little of the whole
    /// (dynamic mapping).
    pub(crate) helps: PathSet,
    /// It may end any message that others have begun (dynamic mapping).
    pub(crate) ends: bool,
    /// Sparse streams that are tied to no path wait for another one, which delivers sooner.
    pub(crate) late: bool,
    /// The path.
    pub(crate) path: PathId,
    /// All paths that carry data now.
    pub(crate) usable: PathSet,
}

impl Taker {
    /// A path that helps no other.
    pub(crate) fn alone(path: PathId, usable: PathSet) -> Self {
        Self { path, usable, helps: PathSet::default(), ends: false, late: false }
    }
}

/// All messages that wait.
#[derive(Debug)]
pub(crate) struct SendQueue {
    pub(super) streams: OutboundStreams,
    pub(super) scheduler: Box<dyn StreamScheduler>,
    pub(super) urgent: UrgentStreams,
    /// Messages that may be given up.
    pub(super) perishables: Perishables,
    /// Messages whose end the user has not given yet.
    pub(super) unfinished: Unfinished,
    /// Nothing more is given.
    pub(super) ending: bool,
    /// Messages that must wait for a reset of their streams.
    pub(super) gate: Option<Gate>,
    /// There are streams with numbers below.
    pub(super) stream_count: u16,
    /// Most ordered messages of a stream that may be under way.
    pub(super) most_ordered: u32,
    pub(super) mapping: Mapping,
    /// Wishes for streams that were not used yet.
    options: BTreeMap<StreamId, StreamOptions>,
    /// The stream whose first message is partly sent: nothing else may leave before its rest.
    pub(super) begun: Option<StreamId>,
    /// Whether messages of different streams may be interleaved (I-DATA), and how many bytes messages
    /// that are partly sent may have together. The peer holds them until they are complete.
    pub(super) interleaving: Option<usize>,
    /// Bytes of the messages that are partly sent, sent or not; of those that are given in parts, of the
    /// part that is sent.
    pub(super) partly_sent: usize,
    pub(super) arrivals: u64,
    pub(super) bytes: usize,
    pub(super) messages: usize,
}

impl SendQueue {
    /// Nothing waits.
    pub(crate) fn new(config: &Config) -> Self {
        let mut scheduler = config.stream_scheduling.scheduler();
        for (number, options) in (0..).zip(&config.stream_options) {
            scheduler.set_options(StreamId(number), *options);
        }
        Self {
            streams: OutboundStreams::default(),
            scheduler,
            urgent: UrgentStreams::default(),
            perishables: Perishables::default(),
            unfinished: Unfinished::default(),
            ending: false,
            gate: None,
            stream_count: config.streams,
            most_ordered: MAX_ORDERED,
            mapping: Mapping::new(&config.stream_mapping),
            options: (0..).map(StreamId).zip(config.stream_options.iter().copied()).collect(),
            begun: None,
            interleaving: None,
            partly_sent: 0,
            arrivals: 0,
            bytes: 0,
            messages: 0,
        }
    }

    /// Which stream goes next, and over which path, is decided as `config` says from now on, also for what waits already.
    pub(crate) fn follow(&mut self, config: &Config) {
        self.scheduler = config.stream_scheduling.scheduler();
        for (id, options) in &self.options {
            self.scheduler.set_options(*id, *options);
        }
        for (id, stream) in self.streams.iter() {
            // Whose message has begun has its turn, even if the rest of it was not given yet.
            let begun = Head { arrival: self.arrivals, len: 0 };
            let head = stream.head().or((self.begun == Some(id)).then_some(begun));
            if let Some(head) = head {
                self.scheduler.add(id, head);
                self.scheduler.on_more(id, head, stream.unsent);
            }
        }
        self.mapping.follow(&config.stream_mapping, &self.streams);
    }

    /// Nothing waits: gives memory back.
    pub(super) fn release_memory(&mut self) {
        self.streams.iter_mut().for_each(|(_, stream)| stream.waiting.shrink_to_fit());
        self.scheduler.release_memory();
    }

    /// Queues a message that may be given up under these `terms`.
    pub(super) fn push(&mut self, message: Outgoing, terms: Terms) {
        self.push_part(message, terms, Part::default());
    }

    /// Queues a message or a part of one.
    pub(super) fn push_part(&mut self, message: Outgoing, terms: Terms, part: Part) {
        let Outgoing { stream: id, ppid, unordered, payload: rest } = message;
        self.bytes += rest.len();
        self.messages += 1;
        let wishes = &self.options;
        let new = || OutboundStream::new(wishes.get(&id).copied().unwrap_or_default());
        let stream = self.streams.get_or_insert_with(id, new);
        self.mapping.on_queued(id, rest.len());
        let arrival = self.arrivals;
        stream.push(Waiting { arrival, ppid, unordered, begun: false, part, rest, terms });
        self.perishables.insert(MessageKey { stream: id, arrival }, terms);
        self.arrivals += 1;
        self.urgent.update(id, stream);
        // Whose turn has begun keeps it until the message ends.
        let has_turn = self.begun == Some(id);
        match stream.head() {
            Some(head) if stream.waiting.len() == 1 && !has_turn => self.scheduler.add(id, head),
            Some(head) => self.scheduler.on_more(id, head, stream.unsent),
            None => {}
        }
    }

    /// The user has other wishes for a stream.
    pub(crate) fn options(&self, stream: StreamId) -> StreamOptions {
        let used = self.streams.get(stream).map(|stream| stream.options);
        used.or_else(|| self.options.get(&stream).copied()).unwrap_or_default()
    }

    pub(super) fn set_options(&mut self, id: StreamId, options: StreamOptions) {
        self.scheduler.set_options(id, options);
        self.options.insert(id, options);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.options = options;
            self.urgent.update(id, stream);
        }
    }

    /// The wishes for streams are those of `other`.
    pub(super) fn adopt_options(&mut self, other: &Self) {
        other.options.iter().for_each(|(stream, options)| self.set_options(*stream, *options));
    }

    /// How many streams have little to send, and go before bulk data.
    pub(crate) fn sparse(&self) -> usize {
        self.scheduler.sparse()
    }

    /// Which streams are tied to which paths.
    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// When something may be sent that may not be sent now.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let plan = self.mapping.dynamic().and_then(DynamicMap::deadline);
        let plan = plan.filter(|_| self.messages > 0);
        plan.into_iter().chain(self.perishables.next_end()).min()
    }

    /// Messages may be interleaved from now on, and those that are partly sent may have so many bytes
    /// together. To be called before anything leaves.
    pub(super) fn set_interleaving(&mut self, most_partly_sent: usize) {
        self.interleaving = Some(most_partly_sent);
    }

    /// Whether messages are interleaved.
    pub(crate) fn is_interleaving(&self) -> bool {
        self.interleaving.is_some()
    }

    /// The type of the chunks with user data.
    pub(super) fn chunk_type(&self) -> u8 {
        if self.is_interleaving() { types::I_DATA } else { types::DATA }
    }

    /// Bytes of a chunk before the user data.
    pub(super) fn header_len(&self) -> usize {
        if self.is_interleaving() { IData::HEADER_LEN } else { Data::HEADER_LEN }
    }

    /// A packet is complete.
    pub(super) fn on_packet_end(&mut self) {
        self.scheduler.on_packet_end();
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Messages that wait.
    pub(crate) fn messages(&self) -> usize {
        self.messages
    }

    /// The streams that were ever used.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (StreamId, &OutboundStream)> {
        self.streams.iter()
    }

    /// A stream, if it was ever used.
    pub(crate) fn stream(&self, id: StreamId) -> Option<&OutboundStream> {
        self.streams.get(id)
    }

    /// Whether what [`Self::next`] gives cannot go over another path.
    pub(crate) fn is_tied(&self, taker: Taker) -> bool {
        let is_tied = |id| self.mapping.home(id, taker.usable).is_some();
        self.mapping.is_on() && self.next_stream(taker).is_some_and(is_tied)
    }

    /// The stream that is to go next, and the payload size of its next fragment of at most `limit` bytes.
    pub(crate) fn next(&self, taker: Taker, limit: usize) -> Option<(StreamId, usize)> {
        let id = self.next_stream(taker)?;
        let waiting = self.streams.get(id)?.waiting.front()?;
        Some((id, waiting.rest.len().min(limit)))
    }

    /// As [`Self::next`], without the stream.
    pub(crate) fn next_len(&self, taker: Taker, limit: usize) -> Option<usize> {
        self.next(taker, limit).map(|(_, len)| len)
    }

    /// Takes a fragment of at most `limit` bytes off stream `id`, which [`Self::next`] gave for
    /// `path`.
    pub(super) fn pop(&mut self, id: StreamId, path: PathId, limit: usize) -> Option<Fragment> {
        let lane = self.lane(path);
        let stream = self.streams.get_mut(id)?;
        let before = stream.partly_sent();
        let arrival = stream.waiting.front()?.arrival;
        let interleaving = self.interleaving.is_some();
        let count = stream.waiting.len();
        let mut fragment = stream.take(id, limit, interleaving)?;
        self.messages -= count - stream.waiting.len();
        fragment.prompt |= self.ending && self.messages == 0;
        let key = MessageKey { stream: id, arrival };
        if fragment.end {
            self.perishables.remove(key, fragment.terms);
        } else {
            self.perishables.on_begun(key, fragment.terms);
        }
        stream.path = Some(path);
        self.urgent.update(id, stream);
        self.partly_sent = self.partly_sent + stream.partly_sent() - before;
        self.bytes -= fragment.payload.len();
        if fragment.end || interleaving {
            let bytes = core::mem::take(&mut stream.departing);
            self.scheduler.on_sent(id, Departure { lane, bytes, next: stream.head() });
        }
        self.begun = (!fragment.end && !interleaving).then_some(id);
        self.mapping.on_sent(id, path, fragment.payload.len());
        Some(fragment)
    }

    /// The chunk with this fragment is acknowledged for good.
    pub(super) fn on_acked(&mut self, fragment: &Fragment) {
        if let Some(stream) = self.streams.get_mut(fragment.stream) {
            stream.on_acked(fragment);
        }
    }

    /// There are so many streams. Drops what waits on others, that is on numbers from `limit` on. Returns
    /// (messages, bytes) dropped.
    pub(super) fn limit_streams(&mut self, limit: u16) -> (usize, usize) {
        self.stream_count = limit;
        self.unfinished.drop_from(limit);
        let (mut messages, mut bytes) = (0, 0);
        for (stream, outbound) in self.streams.split_off(limit) {
            self.scheduler.remove(stream);
            self.urgent.remove(stream);
            for Waiting { arrival, terms, .. } in &outbound.waiting {
                self.perishables.remove(MessageKey { stream, arrival: *arrival }, *terms);
            }
            self.partly_sent -= outbound.partly_sent();
            (messages, bytes) = (messages + outbound.waiting.len(), bytes + outbound.unsent);
        }
        self.begun = self.begun.filter(|id| id.0 < limit);
        self.messages -= messages;
        self.bytes -= bytes;
        self.mapping.count_unsent(&self.streams);
        (messages, bytes)
    }

    fn next_stream(&self, taker: Taker) -> Option<StreamId> {
        match self.begun {
            Some(begun) => self.may_go_on(begun, taker).then_some(begun),
            None => {
                let own = self.next_to_begin(taker);
                if taker.helps.is_empty() || own.is_some_and(|id| self.is_interactive(id)) {
                    return own;
                }
                let may = |id| self.may_help(id, taker);
                match own {
                    Some(id) => self.scheduler.owed(id, &may).or(own),
                    None => self.scheduler.next(self.lane(taker.path), &may),
                }
            }
        }
    }

    /// The streams of a path and those that it has taken over from a failed one take turns: what has
    /// piled up there must not hold up the path's own.
    fn next_to_begin(&self, taker: Taker) -> Option<StreamId> {
        let lane = self.lane(taker.path);
        if self.mapping.dynamic().is_some() {
            // An interactive message need not wait until every bulk stream had its turn.
            let urgent = |id| self.is_interactive(id) && self.may_begin(id, taker);
            if self.urgent.iter().any(urgent)
                && let Some(id) = self.scheduler.next(lane, &urgent)
            {
                return Some(id);
            }
            if !self.mapping.may_begin_on(taker.path, taker.usable) {
                return None;
            }
        }
        let Some(guests) = self.mapping.are_guests_next(taker.path) else {
            return self.scheduler.next(lane, &|id| self.may_begin(id, taker));
        };
        let next = |guests| {
            let group = |id| self.mapping.is_guest(id, taker.path) == guests;
            self.scheduler.next(lane, &|id| group(id) && self.may_begin(id, taker))
        };
        next(guests).or_else(|| next(!guests))
    }

    /// Whether streams that belong to the path have something that may leave over it now.
    pub(crate) fn has_own(&self, taker: Taker) -> bool {
        let here = |id| self.mapping.home(id, taker.usable) == Some(taker.path);
        let own = |id| here(id) && !self.mapping.is_guest(id, taker.path);
        self.mapping.is_on()
            && match self.begun {
                Some(begun) => own(begun) && self.may_go_on(begun, taker),
                None => {
                    let may = |id| own(id) && self.may_begin(id, taker);
                    self.scheduler.next(self.lane(taker.path), &may).is_some()
                }
            }
    }

    fn is_interactive(&self, id: StreamId) -> bool {
        let stream = self.streams.get(id);
        stream.is_some_and(|stream| stream.options.class.is_hurried())
    }

    /// Whether the path may send something of `id`, a stream of another one. Interactive messages go
    /// first on their own path, which is the one with the least delay.
    fn may_help(&self, id: StreamId, taker: Taker) -> bool {
        let (Some(stream), Some(dynamic)) = (self.streams.get(id), self.mapping.dynamic()) else {
            return false;
        };
        let home = self.mapping.home(id, taker.usable);
        stream.options.splittable
            && !self.is_interactive(id)
            && home.is_some_and(|home| taker.helps.contains(home))
            && !self.is_blocked(id, stream)
            && !dynamic.is_held(id)
    }

    /// Whether the next message of the stream must wait for acknowledgements or a reset.
    fn is_blocked(&self, id: StreamId, stream: &OutboundStream) -> bool {
        if self.gate.as_ref().is_some_and(|gate| gate.holds(id, stream)) {
            return true;
        }
        match self.interleaving {
            None => stream.is_blocked(self.most_ordered),
            Some(most) => {
                let more = stream.to_begin();
                more > 0 && self.partly_sent > 0 && self.partly_sent + more > most
            }
        }
    }

    /// Whether a message of `id` may begin on the path. While something of the stream is under way on
    /// another path that works, a stream that is to change its path waits, so that its messages do
    /// not overtake each other.
    fn may_begin(&self, id: StreamId, taker: Taker) -> bool {
        let Some(stream) = self.streams.get(id) else { return false };
        if self.is_blocked(id, stream) {
            return false;
        }
        if let Some(dynamic) = self.mapping.dynamic() {
            let here = self.mapping.home(id, taker.usable).is_none_or(|home| home == taker.path);
            return here && !dynamic.is_held(id);
        }
        let Some(home) = self.mapping.home(id, taker.usable) else {
            return !(taker.late && self.scheduler.is_sparse(id));
        };
        home == taker.path && stream.bound_to(taker.usable).is_none_or(|path| path == home)
    }

    /// Whether the path may send the rest of a message of `id`: it stays on its path, or goes where the
    /// dynamic mapping would let the message begin. A slow path must not get the end of what all others
    /// then wait for.
    fn may_go_on(&self, id: StreamId, taker: Taker) -> bool {
        if self.streams.get(id).is_none_or(|stream| stream.waiting.is_empty()) {
            return false;
        }
        let Some(home) = self.mapping.home(id, taker.usable) else { return true };
        let begun_on = self.streams.get(id).and_then(|stream| stream.path);
        let path = begun_on.filter(|path| taker.usable.contains(*path));
        let elsewhere = || home == taker.path || taker.ends || taker.helps.contains(home);
        path.unwrap_or(home) == taker.path || (self.mapping.dynamic().is_some() && elsewhere())
    }

    pub(super) fn lane(&self, path: PathId) -> Lane {
        // With common parts every stream has one of what all paths carry, although it is tied to one.
        let is_whole = self.mapping.dynamic().is_some() && self.scheduler.has_common_parts();
        (self.mapping.is_on() && !is_whole).then_some(path)
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
