//! Interleaved reassembly against the messages that were cut, in any order of arrival.

use super::{Dropped, Interleaved};
use crate::recv::partial_delivery::Thresholds;
use crate::tsn::Tsn64;
use alloc::vec::Vec;
use bytes::Bytes;
use manypath_wire::chunk::{FragmentPlace, IData, SkippedMessage};
use manypath_wire::{Fsn, Mid, Ppid, StreamId, Tsn};
use proptest::prelude::*;

/// A fragment: stream, U, message, number, whether it is the last.
type Piece = (u16, bool, u32, u32, bool);

fn chunk((stream, unordered, mid, number, end): Piece) -> IData<'static> {
    let place = match number {
        0 => FragmentPlace::First(Ppid(mid)),
        later => FragmentPlace::Later(Fsn(later)),
    };
    let stream = StreamId(stream);
    IData {
        tsn: Tsn(0),
        stream,
        mid: Mid(mid),
        place,
        unordered,
        end,
        immediate: false,
        payload: b"",
    }
}

/// Nothing is delivered in parts.
const WHOLE: Thresholds = Thresholds { first: usize::MAX, later: usize::MAX };
const TSN: Tsn64 = Tsn64::initial(Tsn(0));

#[derive(Default)]
struct Bench {
    interleaved: Interleaved,
    ready: Vec<super::Whole>,
}

impl Bench {
    /// The payload of a fragment is its number.
    fn arrive(&mut self, piece: Piece) -> Result<Dropped, &'static str> {
        let payload = Bytes::from(alloc::vec![piece.3 as u8]);
        self.interleaved.insert(TSN, &chunk(piece), payload, WHOLE, &mut self.ready)
    }

    fn skip(&mut self, stream: u16, unordered: bool, mid: u32) -> Dropped {
        let skipped = SkippedMessage { stream: StreamId(stream), unordered, mid: Mid(mid) };
        self.interleaved.skip(&skipped, &mut self.ready)
    }

    /// Stream, number and length of what has become ready.
    fn ready(&mut self) -> Vec<(u16, u32, usize)> {
        self.ready
            .drain(..)
            .map(|(complete, tsns)| {
                let message = complete.message;
                let expected: Vec<u8> = (0..message.payload.len()).map(|n| n as u8).collect();
                assert_eq!(message.payload, expected);
                assert_eq!(
                    (complete.chunks, tsns.len()),
                    (message.payload.len(), message.payload.len())
                );
                (message.stream.0, message.ppid.0, message.payload.len())
            })
            .collect()
    }
}

#[test]
fn fragments_of_several_messages_may_alternate() {
    let mut bench = Bench::default();
    for piece in [(1, false, 0, 0, false), (2, false, 0, 0, false), (1, true, 0, 1, true)] {
        bench.arrive(piece).unwrap();
    }
    bench.arrive((2, false, 0, 1, true)).unwrap();
    assert_eq!(bench.ready(), [(2, 0, 2)]);
    bench.arrive((1, true, 0, 0, false)).unwrap();
    bench.arrive((1, false, 0, 1, true)).unwrap();
    assert_eq!(bench.ready(), [(1, 0, 2), (1, 0, 2)]);
}

#[test]
fn contradictions_are_errors() {
    let twice = [(1, false, 0, 1, false), (1, false, 0, 1, false)];
    let beyond = [(1, false, 0, 2, true), (1, false, 0, 3, false)];
    let before = [(1, false, 0, 3, false), (1, false, 0, 2, true)];
    let two_ends = [(1, false, 0, 3, true), (1, false, 0, 2, true)];
    for [first, second] in [twice, beyond, before, two_ends] {
        let mut bench = Bench::default();
        bench.arrive(first).unwrap();
        assert!(bench.arrive(second).is_err(), "{second:?}");
    }
    let zero = IData { place: FragmentPlace::Later(Fsn(0)), ..chunk((1, false, 0, 1, false)) };
    let mut bench = Bench::default();
    assert!(
        bench
            .interleaved
            .insert(TSN, &zero, Bytes::from_static(b"x"), WHOLE, &mut bench.ready)
            .is_err()
    );
}

#[test]
fn skipped_messages_hold_up_no_others() {
    let mut bench = Bench::default();
    for piece in [(1, false, 1, 0, true), (1, false, 2, 0, false), (1, false, 3, 0, true)] {
        bench.arrive(piece).unwrap();
    }
    bench.arrive((1, true, 5, 1, false)).unwrap();
    assert_eq!(bench.ready(), []);
    // Message 0 never came, 1 is complete, 2 is not.
    assert_eq!(bench.skip(1, false, 2), Dropped { bytes: 1, chunks: 1 });
    assert_eq!(bench.ready(), [(1, 1, 1), (1, 3, 1)]);
    assert_eq!(bench.skip(1, true, 5), Dropped { bytes: 1, chunks: 1 });
    // What comes too late, and what was said before.
    assert_eq!(bench.arrive((1, true, 5, 0, false)), Ok(Dropped { bytes: 1, chunks: 1 }));
    assert_eq!(bench.skip(1, false, 2), Dropped::default());
    bench.arrive((1, true, 6, 0, true)).unwrap();
    assert_eq!(bench.ready(), [(1, 6, 1)]);
}

#[test]
fn message_identifiers_wrap() {
    let mut bench = Bench::default();
    bench.skip(1, false, (1 << 31) - 1);
    bench.skip(1, false, u32::MAX - 1);
    bench.arrive((1, false, 0, 0, true)).unwrap();
    assert_eq!(bench.ready(), []);
    bench.arrive((1, false, u32::MAX, 0, true)).unwrap();
    assert_eq!(bench.ready(), [(1, u32::MAX, 1), (1, 0, 1)]);
}

/// Messages per stream and kind with their numbers of fragments, and an order of arrival.
fn arrivals() -> impl Strategy<Value = Vec<Piece>> {
    let lengths = prop::collection::vec(prop::collection::vec(1..6u32, 0..8), 4);
    let pieces = lengths.prop_map(|series| {
        let mut pieces = Vec::new();
        for (index, lengths) in (0..).zip(&series) {
            for (mid, length) in (0..).zip(lengths) {
                let piece =
                    |number| (index / 2, index % 2 == 1, mid, number, number + 1 == *length);
                pieces.extend((0..*length).map(piece));
            }
        }
        pieces
    });
    pieces.prop_shuffle()
}

proptest! {
    #[test]
    fn every_message_is_delivered_once_and_ordered_ones_in_order(pieces in arrivals()) {
        let mut bench = Bench::default();
        let mut delivered = Vec::new();
        for piece in &pieces {
            prop_assert_eq!(bench.arrive(*piece), Ok(Dropped::default()));
            for (complete, _) in bench.ready.drain(..) {
                let message = complete.message;
                delivered.push((message.stream.0, message.unordered, message.ppid.0, message.payload.len()));
            }
        }
        let mut expected: Vec<_> = pieces
            .iter()
            .filter(|piece| piece.4)
            .map(|(stream, unordered, mid, last, _)| (*stream, *unordered, *mid, *last as usize + 1))
            .collect();
        for stream in 0..2 {
            let mids: Vec<u32> = delivered
                .iter()
                .filter(|message| message.0 == stream && !message.1)
                .map(|message| message.2)
                .collect();
            prop_assert!(mids.is_sorted());
        }
        delivered.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(delivered, expected);
    }
}
