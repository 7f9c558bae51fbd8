//! Giving up messages: which, and what it means for what was sent of them (RFC 3758 section 3.5 rules
//! A2 and A3, section 4.1; RFC 7496 section 3).
//!
//! An abandoned chunk counts as acknowledged in so far as it is not in flight any more and takes no
//! room, and as nothing for the congestion window. It stays in the list of outstanding chunks until
//! the cumulative TSN has passed it, to which `forward` helps. What was found lost before it was
//! abandoned has cut the window by then (rule F5).
//!
//! When a message is given up of which only the first part has been sent, the next TSN goes to its
//! end, which is abandoned at once. Otherwise the receiver would take the next message for a part of
//! this one until it learns better.

use super::Outgoing;
use super::Sender;
use super::abandonment::Abandonment;
use super::buffer::SendBuffer;
use super::forward::Forward;
use super::outstanding::{Outstanding, SentChunk};
use super::perishable::MessageKey;
use super::queue::{Fragment, SendQueue};
use super::reliability::Terms;
use crate::path::{ChunkState, Paths};
use crate::time::Instant;
use crate::tsn::Tsn64;
use alloc::vec::Vec;
use bytes::Bytes;
use manypath_wire::StreamId;

/// What giving up messages takes: where they wait, what was sent of them, and what the user and the peer are told.
pub(crate) struct Abandoning<'a> {
    now: Instant,
    abandonment: &'a mut Abandonment,
    forward: &'a mut Forward,
    queue: &'a mut SendQueue,
    outstanding: &'a mut Outstanding,
    buffer: &'a mut SendBuffer,
    paths: &'a mut Paths,
}

impl Sender {
    /// Borrows what giving up messages takes.
    pub(crate) fn abandoning<'a>(
        &'a mut self,
        now: Instant,
        paths: &'a mut Paths,
    ) -> Abandoning<'a> {
        Abandoning {
            now,
            abandonment: &mut self.abandonment,
            forward: &mut self.forward,
            queue: &mut self.queue,
            outstanding: &mut self.outstanding,
            buffer: &mut self.buffer,
            paths,
        }
    }
}

impl Abandoning<'_> {
    /// Gives up every message whose time has come. To be called before anything is sent.
    pub(crate) fn give_up(&mut self) {
        self.give_up_expired();
        if self.abandonment.has_perishable() {
            self.give_up_lost();
            self.forward.advance(self.now, false, self.outstanding);
        }
    }

    /// Rules TR3 and TR5 of RFC 3758 section 4.1, and TR4 for what of a message has left.
    fn give_up_expired(&mut self) {
        while let Some(key) = self.queue.perishables.pop_expired(self.now) {
            if !self.withdraw(key) {
                self.give_up_begun(key);
            }
        }
    }

    /// What is lost and may not be repeated is given up with the rest of its message.
    fn give_up_lost(&mut self) {
        let lost = self.paths.iter().flat_map(|path| path.flight().lost().iter());
        let doomed = |tsn: &Tsn64| {
            let chunk = self.outstanding.get(*tsn);
            chunk.is_some_and(|chunk| !chunk.may_be_repeated(self.now))
        };
        for tsn in lost.filter(doomed).collect::<Vec<_>>() {
            self.abandon(tsn);
        }
    }

    /// Gives up less important messages until there is room for `message`. False if there would be
    /// none even so: then nothing is given up.
    pub(super) fn make_room(&mut self, len: usize, terms: Terms) -> bool {
        self.give_up_expired();
        if len <= self.buffer.space(self.held()) {
            return true;
        }
        let priority = if let Terms::Priority(priority) = terms { Some(priority) } else { None };
        let (unsent, sent) = self.less_important(priority, len);
        if unsent.is_empty() && sent.is_empty() {
            return false;
        }
        for key in unsent {
            self.withdraw(key);
        }
        for tsn in sent {
            self.abandon(tsn);
        }
        self.forward.advance(self.now, false, self.outstanding);
        len <= self.buffer.space(self.held())
    }

    fn held(&self) -> usize {
        self.queue.messages() + self.outstanding.held()
    }

    /// Messages that make room for `len` bytes, the least important first and of equally important
    /// ones those of which nothing was sent; none if all together are too small.
    fn less_important(&self, priority: Option<u32>, len: usize) -> (Vec<MessageKey>, Vec<Tsn64>) {
        let waiting = self.queue.perishables.below(priority);
        let waiting = waiting.map(|(priority, key)| (priority, Ok(key)));
        let on_way = self.abandonment.below(priority);
        let on_way = on_way.filter(|(_, tsn)| self.outstanding.is_open(*tsn));
        let on_way = on_way.map(|(priority, tsn)| (priority, Err(tsn)));
        let mut candidates: Vec<_> = waiting.chain(on_way).collect();
        candidates.sort_by(|(a, _), (b, _)| b.cmp(a));
        let (mut unsent, mut sent) = (Vec::new(), Vec::new());
        let needed = self.buffer.lack(len);
        let (mut freed, mut count) = (0, 0);
        for (_, candidate) in candidates {
            if freed >= needed && self.buffer.has_slot(self.held().saturating_sub(count)) {
                break;
            }
            count += 1;
            match candidate {
                Ok(key) => {
                    freed += self.queue.waiting_len(key);
                    unsent.push(key);
                }
                Err(tsn) => {
                    let message = self.outstanding.message_of(tsn);
                    let held = message.filter_map(|tsn| self.outstanding.get(tsn));
                    freed += held.map(SentChunk::data_len).sum::<usize>();
                    sent.push(tsn);
                }
            }
        }
        if freed >= needed { (unsent, sent) } else { (Vec::new(), Vec::new()) }
    }

    /// Takes back a message of which nothing was sent. False if something was.
    fn withdraw(&mut self, key: MessageKey) -> bool {
        let Some((message, terms)) = self.queue.withdraw(key) else { return false };
        self.buffer.give_back(message.payload.len());
        self.abandonment.note(message, terms, false);
        true
    }

    /// The lifetime of a message is over of which a part was sent, and a part not.
    fn give_up_begun(&mut self, key: MessageKey) {
        if !self.abandonment.is_agreed() {
            return;
        }
        let of_it = |chunk: &SentChunk| chunk.fragment.stream == key.stream && !chunk.fragment.end;
        let cum = self.outstanding.cum();
        let all = (1..=self.outstanding.len() as u64).rev().map(|ahead| cum.plus(ahead));
        let mut ends = all.filter(|tsn| {
            let chunk = self.outstanding.get(*tsn);
            chunk.is_some_and(|chunk| chunk.fragment.stream == key.stream)
        });
        // The last that was sent of the stream is of this message, or the message is the first of
        // which nothing is outstanding.
        let last = ends.next().filter(|tsn| self.outstanding.get(*tsn).is_some_and(of_it));
        match last {
            Some(tsn) => self.abandon(tsn),
            None => {
                let bytes = self.abandon_rest(key.stream);
                self.note_sent(bytes);
            }
        }
    }

    /// Gives up the message that chunk `tsn` is a part of.
    fn abandon(&mut self, tsn: Tsn64) {
        let message: Vec<_> = self.outstanding.message_of(tsn).collect();
        let Some(chunk) = self.outstanding.get(tsn) else { return };
        if chunk.record.state == ChunkState::Abandoned {
            return;
        }
        let last = message.last().and_then(|tsn| self.outstanding.get(*tsn));
        let is_whole = last.is_some_and(|chunk| chunk.fragment.end);
        let fragment = chunk.fragment.clone();
        let mut parts = Vec::new();
        for tsn in message {
            parts.extend(self.abandon_chunk(tsn));
        }
        if !is_whole && let Some((_, rest)) = self.abandon_rest(fragment.stream) {
            parts.push(rest);
        }
        let payload = match &parts[..] {
            [only] => only.clone(),
            _ => parts.concat().into(),
        };
        self.note_sent(Some((fragment, payload)));
    }

    fn note_sent(&mut self, what: Option<(Fragment, Bytes)>) {
        let Some((fragment, payload)) = what else { return };
        let Fragment { stream, ppid, unordered, terms, .. } = fragment;
        self.abandonment.note(Outgoing { stream, ppid, unordered, payload }, terms, true);
    }

    /// Chunk `tsn` is given up. Returns its user data if that is still held.
    fn abandon_chunk(&mut self, tsn: Tsn64) -> Option<Bytes> {
        let mut chunk = self.outstanding.abandon(tsn)?;
        let data = chunk.data_len();
        self.abandonment.forget_priority(tsn, &chunk.fragment);
        self.buffer.give_back(data);
        // Its number stays in use until the receiver has skipped it.
        self.queue.on_acked(&Fragment { end: false, ..chunk.fragment.clone() });
        let path = self.paths.get_mut(chunk.record.path)?;
        path.flight_mut().on_abandoned(tsn, chunk.tracked());
        self.outstanding.on_done(chunk.record.state, data);
        Some(chunk.fragment.payload)
    }

    /// What of the first message of `stream` was not sent is given up; its end gets a TSN.
    fn abandon_rest(&mut self, stream: StreamId) -> Option<(Fragment, Bytes)> {
        let (end, rest) = self.queue.cut_short(stream)?;
        self.buffer.give_back(rest.len());
        let tsn = self.outstanding.next_tsn();
        self.abandonment.on_sent(tsn, &end);
        self.outstanding.push(SentChunk::new(end.clone(), self.paths.primary(), self.now));
        self.outstanding.abandon(tsn);
        Some((end, rest))
    }
}
