//! Reassembly against the messages that were cut, in any order of arrival.

use super::{Fragments, Label, Reassembly, Run};
use crate::tsn::Tsn64;
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use bytes::Bytes;
use manypath_wire::chunk::Data;
use manypath_wire::{Ppid, Ssn, StreamId, Tsn};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Sent {
    stream: u16,
    unordered: bool,
    payload: Vec<u8>,
    fragment: usize,
}

fn messages() -> impl Strategy<Value = Vec<Sent>> {
    let message = (0..3u16, prop::bool::weighted(0.3), 1..40usize, 1..15usize).prop_map(
        |(stream, unordered, len, fragment)| Sent {
            stream,
            unordered,
            payload: (0..len).map(|i| i as u8).collect(),
            fragment,
        },
    );
    prop::collection::vec(message, 1..30)
}

#[derive(Clone, Debug)]
struct Piece {
    tsn: u64,
    stream: u16,
    ssn: u16,
    unordered: bool,
    begin: bool,
    end: bool,
    payload: Vec<u8>,
}

/// The chunks of all messages, each payload beginning with its message's number.
fn cut(messages: &[Sent], first_ssn: u16) -> Vec<Piece> {
    let (mut pieces, mut ssns) = (Vec::new(), BTreeMap::<u16, u16>::new());
    for (number, message) in messages.iter().enumerate() {
        let mut payload = message.payload.clone();
        payload.insert(0, number as u8);
        let ssn = ssns.entry(message.stream).or_insert(first_ssn);
        let count = payload.len().div_ceil(message.fragment);
        for (index, part) in payload.chunks(message.fragment).enumerate() {
            pieces.push(Piece {
                tsn: pieces.len() as u64,
                stream: message.stream,
                ssn: *ssn,
                unordered: message.unordered,
                begin: index == 0,
                end: index + 1 == count,
                payload: part.to_vec(),
            });
        }
        *ssn = ssn.wrapping_add(u16::from(!message.unordered));
    }
    pieces
}

fn data(piece: &Piece) -> Data<'_> {
    Data {
        tsn: tsn(piece.tsn).wire(),
        stream: StreamId(piece.stream),
        ssn: Ssn(piece.ssn),
        ppid: Ppid(9),
        unordered: piece.unordered,
        begin: piece.begin,
        end: piece.end,
        immediate: false,
        payload: &piece.payload,
    }
}

fn insert(reassembly: &mut Reassembly, piece: &Piece) -> Result<(), &'static str> {
    reassembly.insert(tsn(piece.tsn), &data(piece), Bytes::copy_from_slice(&piece.payload))
}

/// As [`insert`], but a fragment is always searched a place for, whether it comes in order or not.
fn insert_anywhere(reassembly: &mut Reassembly, piece: &Piece) -> Result<(), &'static str> {
    if piece.begin && piece.end {
        return insert(reassembly, piece);
    }
    let Piece { begin, end, .. } = *piece;
    let (tsn, label) = (tsn(piece.tsn), Label::of(&data(piece)));
    let fragments = Fragments::of(Bytes::copy_from_slice(&piece.payload));
    let bytes = piece.payload.len();
    reassembly.join(tsn, Run { last: tsn, begin, end, label, fragments, bytes, begun: false })
}

/// Chunks of a peer that may contradict itself, mostly in order.
fn chunks() -> impl Strategy<Value = Vec<Piece>> {
    let labels = (0..2u16, 0..4u16, prop::bool::weighted(0.2));
    let flags = (prop::bool::weighted(0.3), prop::bool::weighted(0.3));
    let chunk = (0..40u32, labels, flags, 0..3u64);
    prop::collection::vec(chunk, 1..60).prop_map(|chunks| {
        let mut seen = BTreeSet::new();
        let pieces =
            (0..).zip(chunks).map(|(at, (rare, (stream, ssn, unordered), flags, ahead))| {
                // Three chunks in four have the label of their neighbours.
                let (stream, ssn) = if rare % 4 == 0 { (stream, ssn) } else { (0, at as u16 / 8) };
                let tsn = if rare < 8 { at + ahead } else { at };
                let (begin, end) = flags;
                let payload = alloc::vec![at as u8; 1 + rare as usize % 3];
                Piece { tsn, stream, ssn, unordered: unordered && rare < 8, begin, end, payload }
            });
        pieces.filter(|piece| seen.insert(piece.tsn)).collect()
    })
}

fn read_all(reassembly: &mut Reassembly) -> Vec<(Vec<u8>, u16, bool, bool, usize)> {
    let parts = core::iter::from_fn(|| reassembly.read());
    let told = parts.map(|part| {
        let message = part.message;
        (message.payload.to_vec(), message.stream.0, message.unordered, message.more, part.chunks)
    });
    told.collect()
}

fn piece(tsn: u64, flags: (bool, bool), ssn: u16) -> Piece {
    let (begin, end) = flags;
    Piece { tsn, stream: 0, ssn, unordered: false, begin, end, payload: alloc::vec![1] }
}

const BEGIN: (bool, bool) = (true, false);
const MIDDLE: (bool, bool) = (false, false);
const END: (bool, bool) = (false, true);
const WHOLE: (bool, bool) = (true, true);

fn tsn(number: u64) -> Tsn64 {
    Tsn64::initial(Tsn(0)).plus(number)
}

proptest! {
    #[test]
    fn every_message_once_and_in_order(
        messages in messages(),
        order in prop::collection::vec(any::<u32>(), 700),
    ) {
        let mut pieces = cut(&messages, 0);
        pieces.sort_by_key(|piece| order[piece.tsn as usize % order.len()]);
        let mut reassembly = Reassembly::default();
        let mut read = Vec::new();
        for piece in &pieces {
            prop_assert_eq!(insert(&mut reassembly, piece), Ok(()));
            read.extend(core::iter::from_fn(|| reassembly.read()));
        }
        prop_assert!(!reassembly.is_readable() && reassembly.runs.is_empty());
        let mut last = BTreeMap::new();
        let mut seen = Vec::new();
        for complete in &read {
            let message = &complete.message;
            let number = usize::from(message.payload[0]);
            let sent = &messages[number];
            prop_assert_eq!(&message.payload[1..], &sent.payload[..]);
            prop_assert_eq!(message.stream.0, sent.stream);
            prop_assert_eq!(complete.chunks, (sent.payload.len() + 1).div_ceil(sent.fragment));
            if !sent.unordered {
                prop_assert!(last.insert(sent.stream, number).is_none_or(|last| last < number));
            }
            seen.push(number);
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..messages.len()).collect::<Vec<_>>());
    }
}

proptest! {
    /// What comes in order takes shorter ways through the same state.
    #[test]
    fn a_fragment_in_order_is_treated_like_any_other(chunks in chunks(), gaps: bool, parts: bool) {
        let mut both = [Reassembly::default(), Reassembly::default()];
        for piece in &chunks {
            both.iter_mut().filter(|_| gaps).for_each(Reassembly::expect_gaps);
            let [fast, slow] = &mut both;
            let result = insert(fast, piece);
            prop_assert_eq!(result, insert_anywhere(slow, piece));
            if result.is_err() {
                break;
            }
            if parts {
                both.iter_mut().for_each(|one| one.deliver_part_before(tsn(piece.tsn)));
            }
            let [fast, slow] = both.each_mut().map(read_all);
            prop_assert_eq!(fast, slow);
            let [fast, slow] = both.each_ref().map(|one| (one.recount(), one.oldest_partial()));
            prop_assert_eq!(fast, slow);
        }
    }

    /// Ordered messages of one chunk against a map from which the expected number is taken as long as it is there.
    #[test]
    fn messages_leave_as_from_a_map(
        first in prop_oneof![Just(0u64), Just(65_530u64)],
        ahead in prop::collection::vec((0..2u16, 0..6u64), 1..60),
    ) {
        let mut reassembly = Reassembly::default();
        let mut models = [(first, BTreeMap::new()), (first, BTreeMap::new())];
        for number in 0..first {
            for stream in 0..2 {
                let whole = piece(2 * number + u64::from(stream), WHOLE, number as u16);
                prop_assert_eq!(insert(&mut reassembly, &Piece { stream, ..whole }), Ok(()));
                prop_assert!(reassembly.read().is_some());
            }
        }
        for (at, (stream, ahead)) in (0..).zip(ahead) {
            let (expected, waiting) = &mut models[usize::from(stream)];
            let number = *expected + ahead;
            let payload = alloc::vec![at as u8];
            let whole = piece(2 * first + at, WHOLE, number as u16);
            let result = insert(&mut reassembly, &Piece { stream, payload: payload.clone(), ..whole });
            let Entry::Vacant(entry) = waiting.entry(number) else {
                prop_assert!(result.is_err(), "used twice");
                break;
            };
            prop_assert_eq!(result, Ok(()));
            entry.insert(payload);
            let mut due = Vec::new();
            while let Some(payload) = waiting.remove(expected) {
                due.push((payload, stream, false, false, 1));
                *expected += 1;
            }
            prop_assert_eq!(read_all(&mut reassembly), due);
        }
    }
}

#[test]
fn stream_sequence_numbers_wrap() {
    let mut reassembly = Reassembly::default();
    for number in 0..70_000u64 {
        let piece = piece(number ^ 1, WHOLE, (number ^ 1) as u16);
        insert(&mut reassembly, &piece).unwrap();
        if number % 2 == 1 {
            assert!(reassembly.read().is_some() && reassembly.read().is_some());
        }
    }
}

#[test]
fn streams_do_not_wait_for_each_other_and_unordered_waits_for_nothing() {
    let mut reassembly = Reassembly::default();
    insert(&mut reassembly, &piece(1, WHOLE, 1)).unwrap();
    assert!(!reassembly.is_readable());
    insert(&mut reassembly, &Piece { stream: 1, ..piece(2, WHOLE, 0) }).unwrap();
    insert(&mut reassembly, &Piece { unordered: true, ..piece(3, WHOLE, 77) }).unwrap();
    let order: Vec<u16> =
        core::iter::from_fn(|| reassembly.read()).map(|c| c.message.stream.0).collect();
    assert_eq!(order, [1, 0]);
}

#[test]
fn contradictions_are_found() {
    let cases: [&[Piece]; 6] = [
        &[piece(1, WHOLE, 0), piece(2, WHOLE, 0), piece(3, WHOLE, 0), piece(3, WHOLE, 1)],
        &[piece(1, BEGIN, 0), piece(2, BEGIN, 0)],
        &[piece(2, BEGIN, 0), piece(1, MIDDLE, 0)],
        &[piece(1, BEGIN, 0), piece(2, MIDDLE, 1)],
        &[piece(1, END, 0), piece(2, MIDDLE, 0)],
        &[piece(1, BEGIN, 0), Piece { unordered: true, ..piece(2, END, 0) }],
    ];
    for pieces in cases {
        let mut reassembly = Reassembly::default();
        let failed = pieces.iter().any(|piece| insert(&mut reassembly, piece).is_err());
        assert!(failed, "{pieces:?}");
    }
}

#[test]
fn messages_that_can_never_be_complete_are_found() {
    let mut reassembly = Reassembly::default();
    insert(&mut reassembly, &piece(5, MIDDLE, 0)).unwrap();
    assert_eq!(reassembly.check(tsn(3)), Ok(()));
    assert!(reassembly.check(tsn(4)).is_err());
    let mut reassembly = Reassembly::default();
    insert(&mut reassembly, &piece(5, BEGIN, 0)).unwrap();
    assert_eq!(reassembly.check(tsn(5)), Ok(()));
    assert!(reassembly.check(tsn(6)).is_err());
}
