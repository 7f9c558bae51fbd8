//! The receiver with FORWARD-TSN: what is given up, what is delivered in spite of it.

use crate::config::{Config, NrSack};
use crate::path::PathId;
use crate::recv::{DataOutcome, Receiver};
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use manypath_wire::chunk::{Data, ForwardTsn, SkippedStream, SkippedStreams};
use manypath_wire::{Ppid, Ssn, StreamId, Tsn};
use proptest::prelude::*;

fn receiver() -> Receiver {
    let config = Config { receive_buffer: 100_000, ..Config::default() };
    let mut receiver = Receiver::new(&config, Tsn(1), 4, NrSack::Case2);
    receiver.expect_forward_tsn();
    receiver
}

/// A message of one chunk.
fn whole(tsn: u32, stream: u16, ssn: u16) -> Data<'static> {
    Data {
        tsn: Tsn(tsn),
        stream: StreamId(stream),
        ssn: Ssn(ssn),
        ppid: Ppid(tsn),
        unordered: false,
        begin: true,
        end: true,
        immediate: false,
        payload: b"whole",
    }
}

fn arrive(receiver: &mut Receiver, chunk: Data<'_>) {
    assert_eq!(receiver.handle_data(&chunk), Ok(DataOutcome::Accepted), "{chunk}");
}

fn forward(receiver: &mut Receiver, cum: u32, skipped: &[(u16, u16)]) -> DataOutcome {
    let skipped: Vec<_> = skipped
        .iter()
        .map(|(stream, ssn)| SkippedStream { stream: StreamId(*stream), ssn: Ssn(*ssn) })
        .collect();
    let skipped = SkippedStreams::from_slice(&skipped);
    receiver.handle_forward_tsn(&ForwardTsn { cum_tsn: Tsn(cum), skipped })
}

/// The TSNs of the first chunks of what is read.
fn read(receiver: &mut Receiver) -> Vec<u32> {
    core::iter::from_fn(|| receiver.read()).map(|message| message.ppid.0).collect()
}

fn is_due(receiver: &mut Receiver) -> bool {
    receiver.packet_end(Instant::ZERO, PathId(0), false, (1, Duration::default));
    receiver.acks().due(Instant::ZERO).is_some()
}

#[test]
fn who_waited_for_a_skipped_message_waits_no_longer() {
    // RFC 3758 section 3.6: 103 is given up, 104 and 105 have arrived, 106 is missing.
    let mut receiver = receiver();
    arrive(&mut receiver, whole(1, 1, 0));
    arrive(&mut receiver, whole(3, 1, 2));
    arrive(&mut receiver, whole(4, 2, 1));
    arrive(&mut receiver, whole(6, 1, 3));
    assert_eq!(read(&mut receiver), [1]);
    assert_eq!(forward(&mut receiver, 2, &[(1, 1)]), DataOutcome::Accepted);
    assert_eq!((receiver.cum_tsn(), read(&mut receiver)), (Tsn(4), [3, 6].into()));
    // The other stream waits for its own first message.
    arrive(&mut receiver, whole(5, 2, 0));
    assert_eq!((receiver.cum_tsn(), read(&mut receiver)), (Tsn(6), [5, 4].into()));
    assert_eq!(receiver.queued(), 0);
    assert_eq!(receiver.handle_data(&whole(2, 1, 1)), Ok(DataOutcome::Duplicate));
}

#[test]
fn stranded_messages_up_to_the_skipped_one_are_delivered_in_order() {
    let mut receiver = receiver();
    for (tsn, ssn) in [(3, 2), (5, 4), (8, 7)] {
        arrive(&mut receiver, whole(tsn, 0, ssn));
    }
    assert_eq!(forward(&mut receiver, 6, &[(0, 5)]), DataOutcome::Accepted);
    assert_eq!((read(&mut receiver), receiver.queued()), ([3, 5].into(), 5));
    assert_eq!(forward(&mut receiver, 7, &[(0, 6)]), DataOutcome::Accepted);
    assert_eq!((read(&mut receiver), receiver.cum_tsn()), ([8].into(), Tsn(8)));
}

#[test]
fn parts_of_messages_that_cannot_be_completed_give_their_room_back() {
    let mut receiver = receiver();
    let part = |tsn, ssn, begin, end| Data { begin, end, ..whole(tsn, 0, ssn) };
    arrive(&mut receiver, part(1, 0, true, false));
    arrive(&mut receiver, part(3, 0, false, true));
    arrive(&mut receiver, part(5, 1, false, false));
    assert_eq!(receiver.queued(), 15);
    // 2 and with it the first message is given up.
    assert_eq!(forward(&mut receiver, 2, &[(0, 0)]), DataOutcome::Accepted);
    assert_eq!((receiver.queued(), receiver.cum_tsn()), (5, Tsn(3)));
    // The second is not: its first part may still come.
    arrive(&mut receiver, part(4, 1, true, false));
    arrive(&mut receiver, part(6, 1, false, true));
    assert_eq!((read(&mut receiver), receiver.queued()), ([4].into(), 0));
}

#[test]
fn what_arrives_of_a_message_after_it_was_given_up_is_dropped() {
    let mut receiver = receiver();
    let part = |tsn, begin, end| Data { begin, end, ..whole(tsn, 0, 0) };
    arrive(&mut receiver, part(1, true, false));
    // The chunk was too small to skip the whole message at once.
    assert_eq!(forward(&mut receiver, 2, &[(0, 0)]), DataOutcome::Accepted);
    arrive(&mut receiver, part(3, false, false));
    arrive(&mut receiver, part(4, false, true));
    arrive(&mut receiver, whole(5, 0, 1));
    assert_eq!((read(&mut receiver), receiver.queued()), ([5].into(), 0));
}

#[test]
fn a_message_without_its_end_does_not_swallow_the_next() {
    let mut receiver = receiver();
    let begin = Data { end: false, ..whole(1, 0, 0) };
    arrive(&mut receiver, begin);
    arrive(&mut receiver, Data { end: false, ..whole(2, 0, 1) });
    arrive(&mut receiver, Data { begin: false, ..whole(3, 0, 1) });
    assert_eq!(read(&mut receiver), []);
    assert_eq!(receiver.queued(), 10);
    arrive(&mut receiver, whole(5, 0, 2));
    assert_eq!(forward(&mut receiver, 4, &[(0, 0)]), DataOutcome::Accepted);
    assert_eq!((read(&mut receiver), receiver.queued()), ([2, 5].into(), 0));
}

#[test]
fn old_ones_are_answered_and_those_far_ahead_followed() {
    let mut receiver = receiver();
    arrive(&mut receiver, whole(1, 0, 0));
    assert!(is_due(&mut receiver));
    receiver = self::receiver();
    for tsn in 1..=4 {
        arrive(&mut receiver, whole(tsn, 0, tsn as u16 - 1));
    }
    for cum in [4, 3, 1, 0, u32::MAX, (1 << 31) + 4] {
        assert_eq!(forward(&mut receiver, cum, &[(0, 9)]), DataOutcome::Accepted);
        assert!(is_due(&mut receiver));
        assert_eq!(receiver.cum_tsn(), Tsn(4));
    }
    // Nothing was skipped by any of them, and streams that do not exist cost nothing.
    arrive(&mut receiver, whole(5, 0, 4));
    assert_eq!(read(&mut receiver).len(), 5);
    assert_eq!(forward(&mut receiver, 6, &[(4, 0), (u16::MAX, 1)]), DataOutcome::Accepted);
    assert_eq!(receiver.cum_tsn(), Tsn(6));
    for cum in [6 + 65_536, 1 << 30, (1 << 31) + 5, (1 << 31) + (1 << 30)] {
        assert_eq!(forward(&mut receiver, cum, &[]), DataOutcome::Accepted);
        assert_eq!(receiver.cum_tsn(), Tsn(cum));
    }
    arrive(&mut receiver, whole((1 << 31) + (1 << 30) + 1, 0, 5));
    assert_eq!(read(&mut receiver).len(), 1);
}

#[test]
fn fragments_that_contradict_each_other_are_dropped_unless_they_come_in_sequence() {
    let part = |tsn, ssn, begin| Data { begin, end: !begin, ..whole(tsn, 0, ssn) };
    let mut receiver = receiver();
    arrive(&mut receiver, part(3, 1, false));
    arrive(&mut receiver, part(2, 0, true));
    assert_eq!(forward(&mut receiver, 1, &[]), DataOutcome::Accepted);
    assert_eq!((receiver.cum_tsn(), receiver.queued()), (Tsn(3), 0));
    arrive(&mut receiver, part(4, 1, true));
    let violation = receiver.handle_data(&part(5, 2, false));
    assert_eq!(violation, Err("fragments of one message that contradict each other"));
}

proptest! {
    /// Messages of one to three chunks on two streams, some of them given up, chunks in any order.
    #[test]
    fn all_but_what_is_given_up_comes_out_in_order(
        messages in prop::collection::vec((0..2u16, 1..4u32, prop::bool::weighted(0.4)), 1..20),
        order in prop::collection::vec(any::<prop::sample::Index>(), 60),
        lost in any::<u64>(),
    ) {
        let mut receiver = receiver();
        let (mut chunks, mut ssns, mut tsn) = (Vec::new(), [0_u16; 2], 1);
        let mut skipped = [None; 2];
        let mut wanted = [Vec::new(), Vec::new()];
        for (stream, count, given_up) in messages {
            let ssn = ssns[usize::from(stream)];
            ssns[usize::from(stream)] += 1;
            let first = tsn;
            for n in 0..count {
                let chunk = Data { begin: n == 0, end: n + 1 == count, ..whole(tsn, stream, ssn) };
                // Of a message that is given up some chunks arrive nevertheless, but not all.
                let arrives = !given_up || (n > 0 && lost >> (tsn % 64) & 1 == 0);
                if arrives {
                    chunks.push(Data { ppid: Ppid(first), ..chunk });
                }
                tsn += 1;
            }
            if given_up {
                skipped[usize::from(stream)] = Some(ssn);
            } else {
                wanted[usize::from(stream)].push(first);
            }
        }
        // FORWARD-TSN comes last, but for what it could not skip: that has arrived by then.
        for index in order {
            if !chunks.is_empty() {
                let chunk = chunks.swap_remove(index.index(chunks.len()));
                arrive(&mut receiver, chunk);
            }
        }
        let rest: Vec<_> = core::mem::take(&mut chunks);
        rest.into_iter().for_each(|chunk| arrive(&mut receiver, chunk));
        let list: Vec<_> =
            (0..).zip(skipped).filter_map(|(stream, ssn)| Some((stream, ssn?))).collect();
        prop_assert_eq!(forward(&mut receiver, tsn - 1, &list), DataOutcome::Accepted);
        let mut got = [Vec::new(), Vec::new()];
        while let Some(message) = receiver.read() {
            got[usize::from(message.stream.0)].push(message.ppid.0);
        }
        prop_assert_eq!(got, wanted);
        prop_assert_eq!(receiver.queued(), 0);
        prop_assert_eq!(receiver.cum_tsn(), Tsn(tsn - 1));
    }
}
