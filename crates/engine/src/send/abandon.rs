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
use super::forward::Forward;
use super::outstanding::SentChunk;
use super::perishable::MessageKey;
use super::queue::Fragment;
use super::reliability::{Abandoned, Failed, ReliabilityPolicy, Terms};
use crate::config::{Config, Reliability, StreamClass};
use crate::path::{ChunkState, Paths};
use crate::time::Instant;
use crate::tsn::Tsn64;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use bytes::Bytes;
use manypath_wire::StreamId;

/// What the sender knows about messages that may be given up, and about those that were.
#[derive(Debug)]
pub(super) struct Abandonment {
    /// What holds for messages that are queued without a word about it, per stream and for the
    /// others.
    streams: BTreeMap<StreamId, Reliability>,
    others: Reliability,
    /// The peer follows when messages of which a part was sent are given up.
    agreed: bool,
    pub(super) forward: Forward,
    /// Chunks sent that may be given up.
    perishable: usize,
    /// First chunks of messages with a priority, the least important last; of equal ones the oldest.
    by_priority: BTreeSet<(u32, u64, Tsn64)>,
    /// Messages given up of which the user does not know yet.
    failed: Vec<Failed>,
    counts: BTreeMap<(StreamId, ReliabilityPolicy), Abandoned>,
    /// The cumulative TSN has passed abandoned chunks.
    pub(super) passed: bool,
}

impl Abandonment {
    pub(super) fn new(config: &Config, last: Tsn64) -> Self {
        Self {
            streams: BTreeMap::new(),
            others: config.reliability,
            agreed: false,
            forward: Forward::new(last),
            perishable: 0,
            by_priority: BTreeSet::new(),
            failed: Vec::new(),
            counts: BTreeMap::new(),
            passed: false,
        }
    }

    /// What holds for messages of which nothing is said is as in `other`, and so is what was counted.
    pub(super) fn adopt_defaults(&mut self, other: &Self) {
        self.streams.clone_from(&other.streams);
        self.others = other.others;
        self.counts.clone_from(&other.counts);
    }

    /// A chunk is sent for the first time.
    pub(super) fn on_sent(&mut self, tsn: Tsn64, fragment: &Fragment) {
        self.perishable += usize::from(fragment.terms != Terms::Reliable);
        if let Some(order) = priority_order(tsn, fragment) {
            self.by_priority.insert(order);
        }
    }

    /// The cumulative TSN has passed a chunk.
    pub(super) fn on_gone(&mut self, tsn: Tsn64, fragment: &Fragment) {
        self.perishable -= usize::from(fragment.terms != Terms::Reliable);
        self.forget_priority(tsn, fragment);
    }

    fn forget_priority(&mut self, tsn: Tsn64, fragment: &Fragment) {
        if let Some(order) = priority_order(tsn, fragment) {
            self.by_priority.remove(&order);
        }
    }

    fn note(&mut self, message: Outgoing, terms: Terms, sent: bool) {
        let Some(policy) = terms.policy() else { return };
        let counts = self.counts.entry((message.stream, policy)).or_default();
        counts.sent += u64::from(sent);
        counts.unsent += u64::from(!sent);
        self.failed.push(Failed { message, policy, sent });
    }
}

/// The place of a message in the order of priorities, if the fragment is its first.
fn priority_order(tsn: Tsn64, fragment: &Fragment) -> Option<(u32, u64, Tsn64)> {
    let Terms::Priority(priority) = fragment.terms else { return None };
    let age = u64::MAX - tsn.since(Tsn64::initial(manypath_wire::Tsn(0)).before());
    fragment.begin.then_some((priority, age, tsn))
}

impl Sender {
    /// The peer follows when messages of which a part was sent are given up.
    pub(crate) fn allow_abandoning(&mut self) {
        self.abandonment.agreed = true;
        self.queue.halve_window_of_streams();
    }

    /// Whether messages of which a part was sent may be given up.
    pub(crate) fn may_abandon(&self) -> bool {
        self.abandonment.agreed
    }

    /// What holds from now on for messages of `stream`, or of all streams for which nothing was said,
    /// that are queued without a word about it.
    pub(crate) fn set_reliability(&mut self, stream: Option<StreamId>, reliability: Reliability) {
        match stream {
            Some(stream) => drop(self.abandonment.streams.insert(stream, reliability)),
            None => self.abandonment.others = reliability,
        }
    }

    /// What holds for messages of `stream` that are queued without a word about it.
    pub(super) fn reliability(&self, stream: StreamId) -> Reliability {
        let Abandonment { streams, others, .. } = &self.abandonment;
        streams.get(&stream).copied().or_else(|| self.worth(stream)).unwrap_or(*others)
    }

    /// How long messages of a realtime stream are worth something.
    fn worth(&self, stream: StreamId) -> Option<Reliability> {
        let options = self.queue.options(stream);
        let lifetime = options.max_delay.filter(|_| options.class == StreamClass::Realtime)?;
        Some(Reliability::Lifetime(lifetime))
    }

    /// How many messages of `stream`, or of all, were given up by `policy`, or by any.
    pub(crate) fn abandoned(
        &self,
        stream: Option<StreamId>,
        policy: Option<ReliabilityPolicy>,
    ) -> Abandoned {
        let wanted = |(of, by): &(StreamId, ReliabilityPolicy)| {
            stream.is_none_or(|stream| stream == *of) && policy.is_none_or(|policy| policy == *by)
        };
        let counts = self.abandonment.counts.iter().filter(|(key, _)| wanted(key));
        counts.fold(Abandoned::default(), |sum, (_, Abandoned { unsent, sent })| Abandoned {
            unsent: sum.unsent + unsent,
            sent: sum.sent + sent,
        })
    }

    /// The messages given up since the last call.
    pub(crate) fn take_failed(&mut self) -> Vec<Failed> {
        core::mem::take(&mut self.abandonment.failed)
    }

    /// Gives up every message whose time has come. To be called before anything is sent.
    pub(crate) fn give_up(&mut self, now: Instant, paths: &mut Paths) {
        self.give_up_expired(now, paths);
        if self.abandonment.agreed && self.abandonment.perishable > 0 {
            self.give_up_lost(now, paths);
            self.advance_forward(now, false);
        }
    }

    /// Rules TR3 and TR5 of RFC 3758 section 4.1, and TR4 for what of a message has left.
    fn give_up_expired(&mut self, now: Instant, paths: &mut Paths) {
        while let Some(key) = self.queue.perishables.pop_expired(now) {
            if !self.withdraw(key) {
                self.give_up_begun(now, key, paths);
            }
        }
    }

    /// What is lost and may not be repeated is given up with the rest of its message.
    fn give_up_lost(&mut self, now: Instant, paths: &mut Paths) {
        let lost = paths.iter().flat_map(|path| path.flight().lost().iter());
        let doomed = |tsn: &Tsn64| {
            let chunk = self.outstanding.get(*tsn);
            chunk.is_some_and(|chunk| !chunk.may_be_repeated(now))
        };
        for tsn in lost.filter(doomed).collect::<Vec<_>>() {
            self.abandon(now, tsn, paths);
        }
    }

    /// Gives up less important messages until there is room for `message`. False if there would be
    /// none even so: then nothing is given up.
    pub(super) fn make_room(
        &mut self,
        now: Instant,
        (len, terms): (usize, Terms),
        paths: &mut Paths,
    ) -> bool {
        self.give_up_expired(now, paths);
        if len <= self.space() {
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
            self.abandon(now, tsn, paths);
        }
        self.advance_forward(now, false);
        len <= self.space()
    }

    /// Messages that make room for `len` bytes, the least important first and of equally important
    /// ones those of which nothing was sent; none if all together are too small.
    fn less_important(&self, priority: Option<u32>, len: usize) -> (Vec<MessageKey>, Vec<Tsn64>) {
        let waiting = self.queue.perishables.below(priority);
        let waiting = waiting.map(|(priority, key)| (priority, Ok(key)));
        let less = |other: u32| priority.is_none_or(|priority| other > priority);
        let agreed = self.abandonment.agreed;
        let on_way = self.abandonment.by_priority.iter().rev().filter(|_| agreed);
        let on_way = on_way.take_while(|(other, ..)| less(*other));
        let is_open = |tsn: Tsn64| self.outstanding.is_open(tsn);
        let on_way = on_way.filter(|(_, _, tsn)| is_open(*tsn));
        let on_way = on_way.map(|(priority, _, tsn)| (*priority, Err(*tsn)));
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
    fn give_up_begun(&mut self, now: Instant, key: MessageKey, paths: &mut Paths) {
        if !self.abandonment.agreed {
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
            Some(tsn) => self.abandon(now, tsn, paths),
            None => {
                let bytes = self.abandon_rest(now, key.stream, paths);
                self.note_sent(bytes);
            }
        }
    }

    /// Gives up the message that chunk `tsn` is a part of.
    pub(super) fn abandon(&mut self, now: Instant, tsn: Tsn64, paths: &mut Paths) {
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
            parts.extend(self.abandon_chunk(tsn, paths));
        }
        if !is_whole && let Some((_, rest)) = self.abandon_rest(now, fragment.stream, paths) {
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
    fn abandon_chunk(&mut self, tsn: Tsn64, paths: &mut Paths) -> Option<Bytes> {
        let mut chunk = self.outstanding.abandon(tsn)?;
        let data = chunk.data_len();
        self.abandonment.forget_priority(tsn, &chunk.fragment);
        self.buffer.give_back(data);
        // Its number stays in use until the receiver has skipped it.
        self.queue.on_acked(&Fragment { end: false, ..chunk.fragment.clone() });
        let path = paths.get_mut(chunk.record.path)?;
        path.flight_mut().on_abandoned(tsn, chunk.tracked());
        self.outstanding.on_done(chunk.record.state, data);
        Some(chunk.fragment.payload)
    }

    /// What of the first message of `stream` was not sent is given up; its end gets a TSN.
    fn abandon_rest(
        &mut self,
        now: Instant,
        stream: StreamId,
        paths: &Paths,
    ) -> Option<(Fragment, Bytes)> {
        let (end, rest) = self.queue.cut_short(stream)?;
        self.buffer.give_back(rest.len());
        let tsn = self.outstanding.next_tsn();
        self.abandonment.on_sent(tsn, &end);
        self.outstanding.push(SentChunk::new(end.clone(), paths.primary(), now));
        self.outstanding.abandon(tsn);
        Some((end, rest))
    }
}
