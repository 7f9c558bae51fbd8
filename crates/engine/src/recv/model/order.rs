//! Messages of a truthful peer, in DATA or I-DATA, arriving in any order and more than once, some of
//! them given up: each that is not given up is delivered once, whole or in parts that make it up, and in
//! the order of its stream. Of those that are given up the user is told if it has got parts.

use crate::choices::Choices;
use crate::config::{Config, NrSack};
use crate::event::Message;
use crate::recv::{DataOutcome, Receiver};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use manypath_wire::chunk::{
    Data, ForwardTsn, FragmentPlace, IData, IForwardTsn, SkippedMessage, SkippedMessages,
    SkippedStream, SkippedStreams,
};
use manypath_wire::{Fsn, Mid, Ppid, Ssn, StreamId, Tsn};

const STREAMS: u8 = 3;

/// A message as the peer has numbered it, and what has become of it.
struct Sent {
    stream: u16,
    unordered: bool,
    number: u32,
    fragments: u8,
    /// Its TSNs, in the order of its fragments.
    tsns: Vec<usize>,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Underway,
    /// All of it has arrived, something before it has not.
    Waiting,
    Delivered,
    GivenUp,
}

/// Everything that the peer sends. TSNs count from 0 here.
struct Plan {
    interleaved: bool,
    initial: Tsn,
    messages: Vec<Sent>,
    /// Message and fragment, by TSN.
    chunks: Vec<(usize, u8)>,
    arrived: BTreeSet<usize>,
    /// All below has arrived or is given up.
    next: usize,
    /// The number of the message of each stream that is delivered next.
    expected: BTreeMap<u16, u32>,
    /// What the receiver must give to its reader.
    due: BTreeMap<(u16, bool), VecDeque<usize>>,
    /// What the reader has of messages that are not complete, by their first TSNs.
    parts: BTreeMap<u32, Vec<u8>>,
}

/// Runs the course that the bytes describe.
///
/// # Panics
/// If a message gets lost, or arrives twice, changed or out of order.
pub fn check(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let kind = choices.byte();
    let nr_sack = if kind & 4 == 0 { NrSack::Off } else { NrSack::Case2 };
    let mut plan = Plan::new(kind & 1 == 1, &mut choices);
    // Messages have at most 25 bytes.
    let partial_delivery_point = if kind & 8 == 0 { u32::MAX } else { u32::from(kind >> 4) };
    let config = Config { partial_delivery_point, ..Config::default() };
    let mut receiver = Receiver::new(&config, plan.initial, STREAMS.into(), nr_sack);
    if plan.interleaved {
        receiver.interleave();
    } else if kind & 2 == 2 {
        receiver.expect_forward_tsn();
    }
    while let Some(what) = choices.next() {
        let tsn = usize::from(what & 0x7F) % plan.chunks.len();
        if what < 0x80 || kind & 2 == 0 {
            plan.arrive(&mut receiver, tsn);
        } else {
            plan.give_up(&mut receiver, tsn, choices.byte());
        }
        plan.compare(&mut receiver);
    }
    plan.finish(receiver);
}

impl Plan {
    fn new(interleaved: bool, choices: &mut Choices<'_>) -> Self {
        let initial = Tsn(choices.u32());
        let mut numbers = BTreeMap::<(u16, bool), u32>::new();
        let messages: Vec<_> = (0..1 + choices.below(24))
            .map(|_| {
                let (kind, fragments) = (choices.byte(), 1 + choices.below(5));
                let (stream, unordered) = (u16::from(kind % STREAMS), kind / STREAMS % 2 == 1);
                // Without interleaving unordered messages have no numbers.
                let number = numbers.entry((stream, unordered)).or_default();
                let sent = Sent {
                    stream,
                    unordered,
                    number: *number,
                    fragments,
                    tsns: Vec::new(),
                    fate: Fate::Underway,
                };
                *number += u32::from(interleaved || !unordered);
                sent
            })
            .collect();
        let mut plan = Self {
            interleaved,
            initial,
            messages,
            chunks: Vec::new(),
            arrived: BTreeSet::new(),
            next: 0,
            expected: BTreeMap::new(),
            due: BTreeMap::new(),
            parts: BTreeMap::new(),
        };
        plan.number_chunks(choices);
        plan
    }

    /// Gives TSNs: message by message, or with the streams taking turns as `choices` say.
    fn number_chunks(&mut self, choices: &mut Choices<'_>) {
        let mut lanes = BTreeMap::<u16, VecDeque<(usize, u8)>>::new();
        for (index, message) in self.messages.iter().enumerate() {
            let lane = if self.interleaved { message.stream } else { 0 };
            let chunks = (0..message.fragments).map(|fragment| (index, fragment));
            lanes.entry(lane).or_default().extend(chunks);
        }
        while !lanes.is_empty() {
            let turn = usize::from(if lanes.len() > 1 { choices.byte() } else { 0 });
            let lane = lanes.keys().nth(turn % lanes.len()).copied().unwrap_or(0);
            let Some((index, fragment)) = lanes.get_mut(&lane).and_then(VecDeque::pop_front) else {
                lanes.remove(&lane);
                continue;
            };
            self.messages[index].tsns.push(self.chunks.len());
            self.chunks.push((index, fragment));
        }
    }

    fn tsn(&self, tsn: usize) -> Tsn {
        Tsn(self.initial.0.wrapping_add(tsn as u32))
    }

    /// The chunk with this TSN arrives.
    fn arrive(&mut self, receiver: &mut Receiver, tsn: usize) {
        let outcome = self.deliver_chunk(receiver, tsn);
        let new = tsn >= self.next && self.arrived.insert(tsn);
        let expected = if new { DataOutcome::Accepted } else { DataOutcome::Duplicate };
        assert_eq!(outcome, Ok(expected), "TSN {tsn}");
        self.advance();
        let message = self.chunks[tsn].0;
        if new {
            self.settle(message);
        }
    }

    fn deliver_chunk(
        &self,
        receiver: &mut Receiver,
        tsn: usize,
    ) -> Result<DataOutcome, &'static str> {
        let (index, fragment) = self.chunks[tsn];
        let message = &self.messages[index];
        let (begin, end) = (fragment == 0, fragment + 1 == message.fragments);
        let (tsn, stream) = (self.tsn(tsn), StreamId(message.stream));
        let (unordered, immediate) = (message.unordered, false);
        let payload = &payload(index, fragment)[..];
        if !self.interleaved {
            let (ssn, ppid) = (Ssn(message.number as u16), Ppid(7));
            let data = Data { tsn, stream, ssn, ppid, unordered, begin, end, immediate, payload };
            return receiver.handle_data(&data);
        }
        let mid = Mid(message.number);
        let place = if begin {
            FragmentPlace::First(Ppid(7))
        } else {
            FragmentPlace::Later(Fsn(fragment.into()))
        };
        let data = IData { tsn, stream, mid, place, unordered, end, immediate, payload };
        receiver.handle_i_data(&data)
    }

    /// A fragment of a message has arrived: is it complete, and what does that set free?
    fn settle(&mut self, index: usize) {
        let message = &mut self.messages[index];
        let whole = message.tsns.iter().all(|tsn| self.arrived.contains(tsn));
        if message.fate != Fate::Underway || !whole {
            return;
        }
        message.fate = Fate::Waiting;
        if message.unordered {
            self.hand_out(index);
        } else {
            self.advance_stream(self.messages[index].stream);
        }
    }

    fn hand_out(&mut self, index: usize) {
        let message = &mut self.messages[index];
        message.fate = Fate::Delivered;
        self.due.entry((message.stream, message.unordered)).or_default().push_back(index);
    }

    fn advance_stream(&mut self, stream: u16) {
        loop {
            let expected = self.expected.entry(stream).or_default();
            let next = self.messages.iter().position(|message| {
                !message.unordered && message.stream == stream && message.number == *expected
            });
            let Some(next) = next.filter(|next| self.messages[*next].fate == Fate::Waiting) else {
                return;
            };
            *expected += 1;
            self.hand_out(next);
        }
    }

    fn advance(&mut self) {
        while self.arrived.contains(&self.next) {
            self.next += 1;
        }
    }

    /// The peer gives up whatever it has no acknowledgement for up to `tsn`. It lacks those that
    /// `lost` says, although the chunks have arrived.
    fn give_up(&mut self, receiver: &mut Receiver, tsn: usize, lost: u8) {
        let lacks = |tsn: usize| tsn.is_multiple_of(8) && lost & 1 << (tsn / 8 % 8) != 0;
        let first = self.next;
        let mut last = tsn;
        let mut given_up = BTreeSet::new();
        let mut at = first;
        while at <= last {
            let index = self.chunks[at].0;
            if !self.arrived.contains(&at) || lacks(at) {
                given_up.insert(index);
                // Without interleaving the TSNs of a message follow each other.
                let end = self.messages[index].tsns.last().copied().unwrap_or(at);
                last = if self.interleaved { last } else { last.max(end) };
            }
            at += 1;
        }
        let given_up: Vec<_> = given_up.into_iter().collect();
        let accepted = self.send_forward(receiver, last, &given_up);
        assert_eq!(accepted, Ok(DataOutcome::Accepted));
        if last < first {
            return;
        }
        self.next = self.next.max(last + 1);
        self.advance();
        self.skip(&given_up);
    }

    fn send_forward(
        &self,
        receiver: &mut Receiver,
        last: usize,
        given_up: &[usize],
    ) -> Result<DataOutcome, &'static str> {
        let cum_tsn = self.tsn(last);
        let messages = given_up.iter().map(|index| &self.messages[*index]);
        if self.interleaved {
            let skipped: Vec<_> = messages
                .map(|message| SkippedMessage {
                    stream: StreamId(message.stream),
                    unordered: message.unordered,
                    mid: Mid(message.number),
                })
                .collect();
            let skipped = SkippedMessages::from_slice(&skipped);
            return receiver.handle_i_forward_tsn(&IForwardTsn { cum_tsn, skipped });
        }
        let skipped: Vec<_> = messages
            .filter(|message| !message.unordered)
            .map(|message| SkippedStream {
                stream: StreamId(message.stream),
                ssn: Ssn(message.number as u16),
            })
            .collect();
        let skipped = SkippedStreams::from_slice(&skipped);
        Ok(receiver.handle_forward_tsn(&ForwardTsn { cum_tsn, skipped }))
    }

    /// What is here of skipped messages, and of those before them, is given to the reader if it is
    /// whole, and is else given up.
    fn skip(&mut self, given_up: &[usize]) {
        for index in given_up.iter().copied() {
            let (stream, unordered) = (self.messages[index].stream, self.messages[index].unordered);
            if !unordered {
                let expected = self.expected.entry(stream).or_default();
                *expected = (*expected).max(self.messages[index].number + 1);
            }
            for earlier in 0..=index {
                let message = &mut self.messages[earlier];
                if (message.stream, message.unordered) != (stream, unordered) {
                    continue;
                }
                match message.fate {
                    Fate::Underway if !unordered || earlier == index => {
                        message.fate = Fate::GivenUp;
                    }
                    Fate::Waiting => self.hand_out(earlier),
                    Fate::Underway | Fate::Delivered | Fate::GivenUp => {}
                }
            }
            if !unordered {
                self.advance_stream(stream);
            }
        }
    }

    /// The reader gets what is due, in the order of each stream.
    fn compare(&mut self, receiver: &mut Receiver) {
        assert_eq!(receiver.cum_tsn(), self.tsn(self.next.wrapping_sub(1)));
        while let Some(message) = receiver.read() {
            if message.more {
                self.take_part(&message);
            } else {
                self.check_message(message);
            }
        }
        for aborted in receiver.take_aborted_parts() {
            assert!(self.parts.remove(&aborted.tsn.0).is_some(), "nothing was read of {aborted:?}");
            let sent = &self.messages[self.chunks[self.index(aborted.tsn)].0];
            assert_eq!((sent.number, sent.stream), (aborted.number, aborted.stream.0));
            assert_eq!(sent.fate, Fate::GivenUp);
        }
        for tsn in self.parts.keys() {
            let sent = &self.messages[self.chunks[self.index(Tsn(*tsn))].0];
            assert_eq!(sent.fate, Fate::Underway, "TSN {tsn}");
        }
        assert!(self.due.values().all(VecDeque::is_empty), "{:?} not delivered", self.due);
    }

    fn index(&self, tsn: Tsn) -> usize {
        tsn.0.wrapping_sub(self.initial.0) as usize
    }

    /// A part of an ordered message comes when all before it in the stream are delivered.
    fn take_part(&mut self, part: &Message) {
        let index = self.chunks[self.index(part.tsn)].0;
        let sent = &self.messages[index];
        assert_eq!((sent.number, sent.stream), (part.number, part.stream.0));
        assert_eq!((sent.unordered, part.ppid), (part.unordered, Ppid(7)));
        let expected = self.expected.get(&sent.stream).copied().unwrap_or(0);
        assert!(sent.unordered || sent.number == expected);
        self.parts.entry(part.tsn.0).or_default().extend_from_slice(&part.payload);
    }

    fn check_message(&mut self, mut message: Message) {
        if let Some(mut parts) = self.parts.remove(&message.tsn.0) {
            parts.extend_from_slice(&message.payload);
            message.payload = parts.into();
        }
        let due = self.due.get_mut(&(message.stream.0, message.unordered));
        let index = due.and_then(VecDeque::pop_front);
        let sent = index.map(|index| (index, &self.messages[index]));
        let Some((index, sent)) = sent else { unreachable!("{message:?} was not expected") };
        assert_eq!(message.number, sent.number);
        assert_eq!((message.tsn, message.ppid), (self.tsn(sent.tsns[0]), Ppid(7)));
        let whole: Vec<u8> = (0..sent.fragments).flat_map(|part| payload(index, part)).collect();
        assert_eq!(message.payload, whole);
    }

    /// All that is still missing arrives: nothing is left over.
    fn finish(mut self, mut receiver: Receiver) {
        for tsn in 0..self.chunks.len() {
            self.arrive(&mut receiver, tsn);
            self.compare(&mut receiver);
        }
        let done = |message: &Sent| matches!(message.fate, Fate::Delivered | Fate::GivenUp);
        assert!(self.messages.iter().all(done));
        assert!(self.parts.is_empty());
        assert_eq!(receiver.queued(), 0);
        assert_eq!(receiver.recount(), (0, 0));
    }
}

/// The user data of a fragment: its length tells the message, its contents both.
fn payload(message: usize, fragment: u8) -> Vec<u8> {
    let message = message as u8;
    alloc::vec![message.wrapping_mul(31) ^ fragment; 1 + usize::from(message % 5)]
}
