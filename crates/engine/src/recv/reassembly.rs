//! From DATA chunks to messages (RFC 9260 sections 6.5, 6.6, 6.9): fragments are joined, ordered
//! messages wait for their predecessors in their stream, whatever the order of arrival.

use super::fragments::Fragments;
use super::interleaved::Dropped;
use super::partial_delivery::Thresholds;
use crate::event::Message;
use crate::ranges::Range;
use crate::send::{Streams, includes};
use crate::tsn::Tsn64;
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;
use manypath_wire::chunk::{Data, SkippedStream};
use manypath_wire::{Ppid, Ssn, StreamId, Tsn};

const CONTRADICTION: &str = "fragments of one message that contradict each other";

/// A complete message, or a part of it, and the number of chunks in which it came.
#[derive(Debug)]
pub(crate) struct Complete {
    /// The message.
    pub(crate) message: Message,
    /// Number of DATA chunks.
    pub(crate) chunks: usize,
}

/// Everything received and not yet read.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    streams: BTreeMap<StreamId, InboundStream>,
    /// Neighbouring fragments of incomplete messages, by the TSN of the first.
    runs: BTreeMap<Tsn64, Run>,
    ready: VecDeque<Complete>,
    /// TSNs of messages that have become ready and that nobody has asked for.
    settled: Vec<Range>,
    /// Whether the peer may give up messages.
    gaps_expected: bool,
    /// First TSNs of messages that were dropped although parts of them were handed out.
    broken: Vec<Tsn>,
}

/// An inbound stream. Sequence numbers are unwrapped: the peer may not have more than 2^16 - 1
/// ordered messages under way in a stream (section 6.1), so each lies at or after the expected one.
#[derive(Debug, Default)]
struct InboundStream {
    expected: u64,
    waiting: BTreeMap<u64, (Complete, Range)>,
    /// Whether the expected message is being delivered in parts.
    begun: bool,
}

/// Fragments of one message with consecutive TSNs.
#[derive(Debug)]
struct Run {
    last: Tsn64,
    begin: bool,
    end: bool,
    label: Label,
    /// Those that were not delivered.
    fragments: Fragments,
    bytes: usize,
    /// Whether those before them were.
    begun: bool,
}

/// What all fragments of a message have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Label {
    stream: StreamId,
    ssn: Ssn,
    ppid: Ppid,
    unordered: bool,
}

impl Label {
    fn of(data: &Data<'_>) -> Self {
        let Data { stream, ssn, ppid, unordered, .. } = *data;
        Self { stream, ssn, ppid, unordered }
    }

    /// Whether fragments can be of one message. The RFC does not say that the payload protocol
    /// identifier is the same in all of them; the one of the first counts.
    fn agrees(&self, other: &Self) -> bool {
        let same_ssn = self.unordered || self.ssn == other.ssn;
        self.stream == other.stream && self.unordered == other.unordered && same_ssn
    }
}

impl Reassembly {
    /// Takes a chunk that is no duplicate; `payload` is a copy of its user data.
    ///
    /// # Errors
    /// The peer contradicts itself: the text says how.
    pub(crate) fn insert(
        &mut self,
        tsn: Tsn64,
        data: &Data<'_>,
        payload: Bytes,
    ) -> Result<(), &'static str> {
        let label = Label::of(data);
        if data.begin && data.end {
            return self.complete(label, payload, Range { start: tsn, end: tsn });
        }
        if !data.begin && self.continues_last(tsn, &label) {
            return self.extend_last(tsn, data.end, payload);
        }
        let (begin, end, bytes) = (data.begin, data.end, payload.len());
        let fragments = Fragments::of(payload);
        self.join(tsn, Run { last: tsn, begin, end, label, fragments, bytes, begun: false })
    }

    /// Nothing is held: gives memory back.
    pub(crate) fn release_memory(&mut self) {
        if self.runs.is_empty() {
            self.runs = BTreeMap::new();
        }
        self.ready.shrink_to_fit();
        self.settled.shrink_to_fit();
        for stream in self.streams.values_mut().filter(|stream| stream.waiting.is_empty()) {
            stream.waiting = BTreeMap::new();
        }
    }

    /// The peer may give up messages: what contradicts what came before may be of another message.
    pub(crate) fn expect_gaps(&mut self) {
        self.gaps_expected = true;
    }

    /// Whether the peer may give up messages.
    pub(crate) fn expects_gaps(&self) -> bool {
        self.gaps_expected
    }

    /// The ordered messages of a stream up to `skipped.ssn` will not come any more: those that are
    /// here are delivered, and who waited for the others waits no longer.
    pub(crate) fn skip(&mut self, skipped: SkippedStream) {
        let stream = self.streams.entry(skipped.stream).or_default();
        let stranded = stream.skip(skipped.ssn);
        for (complete, tsns) in stranded {
            self.settled.push(tsns);
            self.ready.push_back(complete);
        }
    }

    /// The messages of `streams` are numbered from 0 again. What waits for numbers that will not come
    /// any more is delivered.
    pub(crate) fn reset_streams(&mut self, streams: &Streams) {
        let concerned = self.streams.iter_mut().filter(|(id, _)| includes(streams, **id));
        for (complete, tsns) in concerned.flat_map(|(_, stream)| stream.restart()) {
            self.settled.push(tsns);
            self.ready.push_back(complete);
        }
    }

    /// Drops what cannot be completed when all TSNs up to `cum` have arrived or were given up.
    pub(crate) fn drop_incomplete(&mut self, cum: Tsn64) -> Dropped {
        let oldest = self.runs.range(..=cum.next());
        let dead = oldest.filter(|(_, run)| !run.begin || run.last < cum).map(|(first, _)| *first);
        let mut dropped = Dropped::default();
        for first in dead.collect::<Vec<_>>() {
            let Some(run) = self.runs.remove(&first) else { continue };
            dropped.bytes += run.bytes;
            dropped.chunks += run.fragments.len();
            self.broken.extend(run.begun.then_some(first.wire()));
        }
        dropped
    }

    /// First TSNs of messages that were dropped since the last call although parts of them were handed
    /// out.
    pub(super) fn take_broken(&mut self) -> Vec<Tsn> {
        core::mem::take(&mut self.broken)
    }

    /// First TSNs of messages whose end waits to be read.
    pub(super) fn ended(&self) -> BTreeSet<u32> {
        let ends = self.ready.iter().filter(|part| !part.message.more);
        ends.map(|part| part.message.tsn.0).collect()
    }

    /// Drops the unread parts of messages that `are` to be dropped.
    pub(super) fn drop_parts(&mut self, are: impl Fn(&Message) -> bool) -> Dropped {
        let mut dropped = Dropped::default();
        self.ready.retain(|part| {
            let drop = part.message.more && are(&part.message);
            if drop {
                dropped.bytes += part.message.payload.len();
                dropped.chunks += part.chunks;
            }
            !drop
        });
        dropped
    }

    /// Delivers what is here of the message that chunk `tsn` belongs to, if that is enough.
    pub(super) fn deliver_part_with(&mut self, tsn: Tsn64, thresholds: Thresholds) {
        let Some((&first, run)) = self.last_until(tsn) else { return };
        if run.last >= tsn && run.bytes >= thresholds.of(run.begun) {
            self.deliver_part(first);
        }
    }

    /// Delivers what is here of the message that is to go on after `cum`.
    pub(super) fn deliver_part_before(&mut self, cum: Tsn64) {
        let Some((&first, run)) = self.last_until(cum) else { return };
        if run.last == cum {
            self.deliver_part(first);
        }
    }

    /// Delivers what is here of a message, if it is its turn.
    fn deliver_part(&mut self, first: Tsn64) {
        let Some(run) = self.runs.get_mut(&first) else { return };
        if !run.begin || run.fragments.is_empty() {
            return;
        }
        if !run.begun && !run.label.unordered {
            let stream = self.streams.entry(run.label.stream).or_default();
            if !stream.begin(run.label.ssn) {
                return;
            }
        }
        run.begun = true;
        let part = run.take(first, true);
        self.settled.push(run.tsns(part.chunks));
        self.ready.push_back(part);
    }

    /// A message that was put together elsewhere waits for the user.
    pub(crate) fn push_ready(&mut self, complete: Complete, tsns: &[Tsn64]) {
        self.settled.extend(tsns.iter().map(|tsn| Range { start: *tsn, end: *tsn }));
        self.ready.push_back(complete);
    }

    /// Bytes and chunks that are held, counted anew.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn recount(&self) -> (usize, usize) {
        let waiting = self.streams.values().flat_map(|stream| stream.waiting.values());
        let whole = waiting.map(|(complete, _)| complete).chain(&self.ready);
        let whole = whole.map(|complete| (complete.message.payload.len(), complete.chunks));
        let parts = self
            .runs
            .values()
            .map(|run| (run.fragments.iter().map(Bytes::len).sum::<usize>(), run.fragments.len()));
        parts.chain(whole).fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
    }

    /// The next message for the user.
    pub(crate) fn read(&mut self) -> Option<Complete> {
        self.ready.pop_front()
    }

    /// The TSNs of messages that can be delivered since the last call.
    pub(crate) fn take_settled(&mut self) -> impl Iterator<Item = Range> {
        self.settled.drain(..)
    }

    /// Whether a message waits for the user.
    pub(crate) fn is_readable(&self) -> bool {
        !self.ready.is_empty()
    }

    /// All TSNs up to `cum` have arrived. An incomplete message whose neighbour is among them will
    /// never be complete.
    ///
    /// # Errors
    /// The peer did not end a message that it had begun, or the other way round.
    pub(crate) fn check(&self, cum: Tsn64) -> Result<(), &'static str> {
        let Some((&first, run)) = self.runs.first_key_value() else { return Ok(()) };
        if !run.begin && first <= cum.next() {
            return Err("a fragment without its beginning");
        }
        if !run.end && run.last < cum {
            return Err("a fragmented message that does not go on");
        }
        Ok(())
    }

    /// A fragment arrives next in sequence. Whatever the peer may give up, it is of the message that
    /// the one before it left open.
    ///
    /// # Errors
    /// It says something else.
    pub(crate) fn check_sequel(&self, tsn: Tsn64, data: &Data<'_>) -> Result<(), &'static str> {
        let Some((_, open)) = self.last_until(tsn) else { return Ok(()) };
        let is_sequel = open.last.next() == tsn && !open.end && !data.begin;
        if is_sequel && !open.label.agrees(&Label::of(data)) {
            return Err(CONTRADICTION);
        }
        Ok(())
    }

    /// Bytes of the oldest incomplete message that have arrived in one piece.
    pub(crate) fn oldest_partial(&self) -> usize {
        self.runs.first_key_value().map_or(0, |(_, run)| run.bytes)
    }

    /// The last run that begins at `tsn` or before. In order that is the last of all, which takes no search.
    fn last_until(&self, tsn: Tsn64) -> Option<(&Tsn64, &Run)> {
        let last = self.runs.last_key_value()?;
        if *last.0 <= tsn { Some(last) } else { self.runs.range(..=tsn).next_back() }
    }

    /// Whether a fragment is the next of the last message, and nothing beyond it has arrived.
    fn continues_last(&self, tsn: Tsn64, label: &Label) -> bool {
        let last = self.runs.last_key_value();
        last.is_some_and(|(_, run)| run.last.next() == tsn && !run.end && run.label.agrees(label))
    }

    /// As [`Self::join`], for a fragment that continues the last message.
    fn extend_last(&mut self, tsn: Tsn64, end: bool, payload: Bytes) -> Result<(), &'static str> {
        let Some(mut last) = self.runs.last_entry() else { return Ok(()) };
        let run = last.get_mut();
        (run.last, run.end) = (tsn, end);
        run.bytes += payload.len();
        run.fragments.push(payload);
        if !(run.begin && run.end) {
            return Ok(());
        }
        let (first, run) = last.remove_entry();
        self.finish(first, run)
    }

    /// Puts `run` beside its neighbours.
    fn join(&mut self, first: Tsn64, mut run: Run) -> Result<(), &'static str> {
        if let Some(next) = self.runs.get(&run.last.next()) {
            if next.begin != run.end {
                refuse_contradiction(self.gaps_expected)?;
            } else if !run.end && run.goes_on(next, self.gaps_expected)? {
                let next = self.runs.remove(&run.last.next());
                run.append(next);
            }
        }
        let gaps_expected = self.gaps_expected;
        let previous = self.runs.range_mut(..first).next_back();
        if let Some((&start, previous)) = previous.filter(|(_, r)| r.last.next() == first) {
            if previous.end != run.begin {
                refuse_contradiction(gaps_expected)?;
            } else if !run.begin && previous.goes_on(&run, gaps_expected)? {
                previous.append(Some(run));
                return self.settle(start);
            }
        }
        self.runs.insert(first, run);
        self.settle(first)
    }

    /// Completes the message whose fragments begin at `first`, if they are all there.
    fn settle(&mut self, first: Tsn64) -> Result<(), &'static str> {
        let Entry::Occupied(entry) = self.runs.entry(first) else { return Ok(()) };
        if !(entry.get().begin && entry.get().end) {
            return Ok(());
        }
        let run = entry.remove();
        self.finish(first, run)
    }

    /// All fragments of the message that begins at `first` are there.
    fn finish(&mut self, first: Tsn64, mut run: Run) -> Result<(), &'static str> {
        let Complete { message, chunks } = run.take(first, false);
        if !run.begun {
            return self.complete(run.label, message.payload, run.tsns(chunks));
        }
        self.settled.push(run.tsns(chunks));
        self.ready.push_back(Complete { message, chunks });
        let stream = self.streams.entry(run.label.stream).or_default();
        if !run.label.unordered && core::mem::take(&mut stream.begun) {
            stream.expected += 1;
            self.advance(run.label.stream);
        }
        Ok(())
    }

    /// A whole message has arrived.
    fn complete(&mut self, label: Label, payload: Bytes, tsns: Range) -> Result<(), &'static str> {
        let Label { stream, ssn, ppid, unordered } = label;
        let chunks = usize::try_from(tsns.end.since(tsns.start)).unwrap_or(usize::MAX) + 1;
        let (number, tsn) = (ssn.0.into(), tsns.start.wire());
        let message = Message { stream, ppid, unordered, number, tsn, payload, more: false };
        let complete = Complete { message, chunks };
        if unordered {
            self.settled.push(tsns);
            self.ready.push_back(complete);
            return Ok(());
        }
        let inbound = self.streams.entry(stream).or_default();
        if !inbound.pass(ssn) {
            let is_new = inbound.insert(ssn, complete, tsns);
            return is_new.then_some(()).ok_or("a stream sequence number used twice");
        }
        let is_waited_for = !inbound.waiting.is_empty();
        self.settled.push(tsns);
        self.ready.push_back(complete);
        if is_waited_for {
            self.advance(stream);
        }
        Ok(())
    }

    /// Delivers what has waited for its turn in a stream.
    fn advance(&mut self, stream: StreamId) {
        let Some(stream) = self.streams.get_mut(&stream) else { return };
        while let Some((complete, tsns)) = stream.next() {
            self.settled.push(tsns);
            self.ready.push_back(complete);
        }
    }
}

impl InboundStream {
    /// Whether message `ssn` is the expected one, and whole. Then the one after it is expected.
    #[allow(clippy::cast_possible_truncation, reason = "the low 16 bits are what the peer sees")]
    fn pass(&mut self, ssn: Ssn) -> bool {
        let passes = !self.begun && ssn.0 == self.expected as u16;
        self.expected += u64::from(passes);
        passes
    }

    /// Message `ssn`, which does not [`pass`](Self::pass), waits. Returns false if there is a message with this number.
    #[allow(clippy::cast_possible_truncation, reason = "the low 16 bits are what the peer sees")]
    fn insert(&mut self, ssn: Ssn, complete: Complete, tsns: Range) -> bool {
        let ahead = ssn.0.wrapping_sub(self.expected as u16);
        if ahead == 0 {
            return false;
        }
        match self.waiting.entry(self.expected + u64::from(ahead)) {
            Entry::Vacant(entry) => {
                entry.insert((complete, tsns));
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// Message `ssn` is to be delivered in parts. Returns whether it is its turn.
    #[allow(clippy::cast_possible_truncation, reason = "the low 16 bits are what the peer sees")]
    fn begin(&mut self, ssn: Ssn) -> bool {
        let begins = !self.begun && ssn.0 == self.expected as u16;
        self.begun |= begins;
        begins
    }

    /// Takes out what is here up to `ssn`, which is given up, and what can follow it. An old number
    /// changes nothing.
    #[allow(clippy::cast_possible_truncation, reason = "the low 16 bits are what the peer sees")]
    fn skip(&mut self, ssn: Ssn) -> Vec<(Complete, Range)> {
        let ahead = ssn.0.wrapping_sub(self.expected as u16);
        if ahead >= 1 << 15 {
            return Vec::new();
        }
        self.expected += u64::from(ahead) + 1;
        self.begun = false;
        let later = self.waiting.split_off(&self.expected);
        let mut stranded: Vec<_> =
            core::mem::replace(&mut self.waiting, later).into_values().collect();
        stranded.extend(core::iter::from_fn(|| self.next()));
        stranded
    }

    /// The next message is number 0 again.
    fn restart(&mut self) -> impl Iterator<Item = (Complete, Range)> {
        self.expected = self.expected.next_multiple_of(1 << 16);
        self.begun = false;
        core::mem::take(&mut self.waiting).into_values()
    }

    /// The next message in order.
    fn next(&mut self) -> Option<(Complete, Range)> {
        let complete = self.waiting.remove(&self.expected)?;
        self.expected += 1;
        Some(complete)
    }
}

impl Run {
    /// Whether `next` is of the same message.
    ///
    /// # Errors
    /// It must be, and says something else.
    fn goes_on(&self, next: &Self, gaps_expected: bool) -> Result<bool, &'static str> {
        let agrees = self.label.agrees(&next.label);
        if agrees || gaps_expected { Ok(agrees) } else { Err(CONTRADICTION) }
    }

    /// Takes its fragments out; the message began with TSN `first`. Whether `more` follows.
    fn take(&mut self, first: Tsn64, more: bool) -> Complete {
        let fragments = core::mem::take(&mut self.fragments);
        let payload = fragments.join(core::mem::take(&mut self.bytes));
        let Label { stream, ssn, ppid, unordered } = self.label;
        let (number, tsn) = (ssn.0.into(), first.wire());
        let message = Message { stream, ppid, unordered, number, tsn, payload, more };
        Complete { message, chunks: fragments.len() }
    }

    /// The last TSNs.
    fn tsns(&self, count: usize) -> Range {
        let first = (0..count.saturating_sub(1)).fold(self.last, |tsn, _| tsn.before());
        Range { start: first, end: self.last }
    }

    /// Adds the fragments that follow.
    fn append(&mut self, next: Option<Self>) {
        let Some(next) = next else { return };
        self.last = next.last;
        self.end = next.end;
        self.bytes += next.bytes;
        self.fragments.append(next.fragments);
    }
}

/// A message begins inside another, or ends before it began.
fn refuse_contradiction(gaps_expected: bool) -> Result<(), &'static str> {
    if gaps_expected { Ok(()) } else { Err("a message begins inside another") }
}

#[cfg(test)]
#[path = "reassembly_tests.rs"]
mod tests;
