//! Messages that are delivered in parts: when, in which order, and what is left when the rest does
//! not come.

use crate::config::{Config, NrSack};
use crate::event::{Message, PartialMessage};
use crate::recv::{DataOutcome, Receiver};
use alloc::vec::Vec;
use manypath_wire::chunk::{
    Data, ForwardTsn, FragmentPlace, IData, IForwardTsn, SkippedMessage, SkippedMessages,
    SkippedStream, SkippedStreams,
};
use manypath_wire::{Fsn, Mid, Ppid, Ssn, StreamId, Tsn};

const BUFFER: u32 = 16_000;
const CHUNK: [u8; 1000] = [7; 1000];

fn receiver(partial_delivery_point: u32) -> Receiver {
    let config = Config { receive_buffer: BUFFER, partial_delivery_point, ..Config::default() };
    let mut receiver = Receiver::new(&config, Tsn(1), 4, NrSack::Off);
    receiver.expect_forward_tsn();
    receiver
}

fn interleaving(partial_delivery_point: u32) -> Receiver {
    let config = Config { receive_buffer: BUFFER, partial_delivery_point, ..Config::default() };
    let mut receiver = Receiver::new(&config, Tsn(1), 4, NrSack::Off);
    receiver.interleave();
    receiver
}

/// A chunk of a message on stream 1 that begins with TSN 1.
fn part(tsn: u32, end: bool) -> Data<'static> {
    Data {
        tsn: Tsn(tsn),
        stream: StreamId(1),
        ssn: Ssn(0),
        ppid: Ppid(7),
        unordered: false,
        begin: tsn == 1,
        end,
        immediate: false,
        payload: &CHUNK,
    }
}

/// Chunk `fsn` of message 0 of a stream.
fn i_part(tsn: u32, stream: u16, fsn: u32, end: bool) -> IData<'static> {
    let place =
        if fsn == 0 { FragmentPlace::First(Ppid(7)) } else { FragmentPlace::Later(Fsn(fsn)) };
    let (tsn, stream, mid) = (Tsn(tsn), StreamId(stream), Mid(0));
    let (unordered, immediate) = (false, false);
    IData { tsn, stream, mid, place, unordered, end, immediate, payload: &CHUNK }
}

fn read(receiver: &mut Receiver) -> Vec<(usize, bool)> {
    let messages = core::iter::from_fn(|| receiver.read());
    messages.map(|Message { payload, more, .. }| (payload.len(), more)).collect()
}

fn take(receiver: &mut Receiver, data: &Data<'_>) {
    assert_eq!(receiver.handle_data(data), Ok(DataOutcome::Accepted));
}

#[test]
fn a_message_larger_than_the_buffer_is_delivered_in_parts() {
    for unordered in [false, true] {
        let mut receiver = receiver(u32::MAX);
        let mut got = Vec::new();
        for tsn in 1..=100 {
            take(&mut receiver, &Data { unordered, ..part(tsn, tsn == 100) });
            let room = receiver.window.a_rwnd();
            got.append(&mut read(&mut receiver));
            assert!(room >= 1000 || receiver.window.a_rwnd() >= 1000);
        }
        // The first when little room is left, the others in time for the window to stay open.
        assert_eq!(got[..3], [(14_000, true), (4000, true), (4000, true)]);
        assert_eq!(got.iter().map(|(len, _)| len).sum::<usize>(), 100_000);
        assert_eq!(got.iter().filter(|(_, more)| !more).count(), 1);
        assert_eq!(got.last().map(|(_, more)| *more), Some(false));
        assert_eq!((receiver.queued(), receiver.recount()), (0, (0, 0)));
    }
}

#[test]
fn each_part_may_be_a_chunk_larger_than_the_buffer() {
    static LARGE: [u8; 12_288] = [7; 12_288];
    for interleaved in [false, true] {
        let config = Config { receive_buffer: 1500, ..Config::default() };
        let mut receiver = Receiver::new(&config, Tsn(1), 4, NrSack::Off);
        if interleaved {
            receiver.interleave();
        }
        for n in 0..3 {
            let (end, payload) = (n == 2, &LARGE[..]);
            let taken = if interleaved {
                receiver.handle_i_data(&IData { payload, ..i_part(1 + n, 1, n, end) })
            } else {
                receiver.handle_data(&Data { payload, ..part(1 + n, end) })
            };
            assert_eq!(taken, Ok(DataOutcome::Accepted), "interleaved: {interleaved}");
            assert_eq!(read(&mut receiver), [(12_288, !end)]);
        }
        assert_eq!((receiver.queued(), receiver.recount()), (0, (0, 0)));
    }
}

#[test]
fn a_message_that_fits_is_delivered_whole() {
    let mut receiver = receiver(u32::MAX);
    (1..=14).for_each(|tsn| take(&mut receiver, &part(tsn, tsn == 14)));
    assert_eq!(read(&mut receiver), [(14_000, false)]);
}

#[test]
fn the_user_says_from_which_size_on_parts_are_delivered() {
    let mut receiver = receiver(3000);
    (1..=7).for_each(|tsn| take(&mut receiver, &part(tsn, tsn == 7)));
    assert_eq!(read(&mut receiver), [(3000, true), (3000, true), (1000, false)]);
    let next = Data { ssn: Ssn(1), begin: true, ..part(8, true) };
    take(&mut receiver, &next);
    assert_eq!(read(&mut receiver), [(1000, false)]);
}

#[test]
fn parts_wait_for_their_turn_and_hold_up_their_stream_alone() {
    let mut receiver = receiver(2000);
    let late = |tsn, end| Data { ssn: Ssn(1), begin: tsn == 2, ..part(tsn, end) };
    // The message before it is missing.
    (2..=4).for_each(|tsn| take(&mut receiver, &late(tsn, false)));
    assert_eq!(read(&mut receiver), []);
    take(&mut receiver, &part(1, true));
    take(&mut receiver, &late(5, false));
    assert_eq!(read(&mut receiver), [(1000, false), (4000, true)]);
    // The next of the stream waits for the end, those of others do not.
    let next = Data { ssn: Ssn(2), begin: true, ..part(7, true) };
    take(&mut receiver, &next);
    take(&mut receiver, &Data { stream: StreamId(2), begin: true, ..part(8, true) });
    assert_eq!(read(&mut receiver), [(1000, false)]);
    take(&mut receiver, &late(6, true));
    assert_eq!(read(&mut receiver), [(1000, false), (1000, false)]);
}

#[test]
fn nothing_is_cut_up_while_a_hole_may_be_filled_or_something_be_read() {
    let mut receiver = receiver(u32::MAX);
    take(&mut receiver, &part(1, false));
    (3..=15).for_each(|tsn| take(&mut receiver, &part(tsn, false)));
    assert!(receiver.window.is_short() && !receiver.is_readable());
    take(&mut receiver, &part(2, false));
    assert_eq!(read(&mut receiver), [(15_000, true)]);
    // A whole message that waits to be read takes the room.
    let mut receiver = self::receiver(u32::MAX);
    let other = Data { stream: StreamId(2), begin: true, unordered: true, ..part(1, true) };
    take(&mut receiver, &other);
    let long = |tsn| Data { begin: tsn == 2, ..part(tsn, false) };
    (2..=14).for_each(|tsn| take(&mut receiver, &long(tsn)));
    assert!(receiver.window.is_short());
    // It is read, and there is room again.
    let first = receiver.read().map(|message| (message.payload.len(), message.more));
    assert_eq!((first, receiver.is_readable()), (Some((1000, false)), false));
    take(&mut receiver, &long(15));
    assert_eq!(read(&mut receiver), [(14_000, true)]);
}

#[test]
fn parts_of_interleaved_messages_are_told_apart_by_their_tsns() {
    let mut receiver = interleaving(2000);
    let mut got = Vec::new();
    for fsn in 0..5 {
        for stream in [1, 2] {
            let chunk = i_part(1 + 2 * fsn + u32::from(stream - 1), stream, fsn, fsn == 4);
            assert_eq!(receiver.handle_i_data(&chunk), Ok(DataOutcome::Accepted));
        }
        let messages = core::iter::from_fn(|| receiver.read());
        got.extend(messages.map(|it| (it.tsn.0, it.stream.0, it.payload.len(), it.more)));
    }
    let expected = [(2000, true), (2000, true), (1000, false)];
    let expected: Vec<_> = expected
        .iter()
        .flat_map(|(len, more)| [(1, 1, *len, *more), (2, 2, *len, *more)])
        .collect();
    assert_eq!(got, expected);
    assert_eq!(receiver.recount(), (0, 0));
}

#[test]
fn short_of_room_the_largest_of_interleaved_messages_gives_way() {
    let mut receiver = interleaving(u32::MAX);
    let mut tsn = 0;
    for (stream, chunks) in [(1, 4), (2, 6), (3, 5)] {
        for fsn in 0..chunks {
            tsn += 1;
            let chunk = i_part(tsn, stream, fsn, false);
            assert_eq!(receiver.handle_i_data(&chunk), Ok(DataOutcome::Accepted));
        }
    }
    assert_eq!(read(&mut receiver), [(6000, true)]);
    assert_eq!(receiver.queued(), 9000);
}

#[test]
fn of_a_message_that_is_given_up_nothing_more_is_read() {
    let mut receiver = receiver(2000);
    (1..=2).for_each(|tsn| take(&mut receiver, &part(tsn, false)));
    assert_eq!(read(&mut receiver), [(2000, true)]);
    // Another part that nobody has read yet.
    (3..=5).for_each(|tsn| take(&mut receiver, &part(tsn, false)));
    assert!(receiver.is_readable());
    let skipped = [SkippedStream { stream: StreamId(1), ssn: Ssn(0) }];
    let skipped = SkippedStreams::from_slice(&skipped);
    let forward = ForwardTsn { cum_tsn: Tsn(9), skipped };
    assert_eq!(receiver.handle_forward_tsn(&forward), DataOutcome::Accepted);
    let (stream, unordered, number, tsn) = (StreamId(1), false, 0, Tsn(1));
    assert_eq!(receiver.take_aborted_parts(), [PartialMessage { stream, unordered, number, tsn }]);
    assert_eq!((read(&mut receiver), receiver.queued()), (Vec::new(), 0));
    // The stream goes on.
    take(&mut receiver, &Data { ssn: Ssn(1), begin: true, ..part(10, true) });
    assert_eq!(read(&mut receiver), [(1000, false)]);
}

#[test]
fn what_is_complete_when_the_association_ends_is_read_to_its_last_part() {
    for (mut receiver, interleaved) in [(receiver(2000), false), (interleaving(2000), true)] {
        for n in 0..5 {
            if interleaved {
                let chunk = i_part(1 + n, 1, n, n == 4);
                assert_eq!(receiver.handle_i_data(&chunk), Ok(DataOutcome::Accepted));
            } else {
                take(&mut receiver, &part(1 + n, n == 4));
            }
        }
        // Once before anything was read, once in the middle.
        receiver.end_partial_delivery(true);
        let first = receiver.read().map(|part| (part.payload.len(), part.more));
        assert_eq!(first, Some((2000, true)), "interleaved: {interleaved}");
        receiver.end_partial_delivery(true);
        assert_eq!(receiver.take_aborted_parts(), []);
        assert_eq!(read(&mut receiver), [(2000, true), (1000, false)]);
        assert_eq!((receiver.queued(), receiver.recount()), (0, (0, 0)));
    }
}

#[test]
fn nobody_is_told_of_a_given_up_message_of_which_nothing_was_read() {
    let mut receiver = receiver(2000);
    (1..=3).for_each(|tsn| take(&mut receiver, &part(tsn, false)));
    let skipped = SkippedStreams::from_slice(&[]);
    receiver.handle_forward_tsn(&ForwardTsn { cum_tsn: Tsn(9), skipped });
    assert_eq!((read(&mut receiver), receiver.take_aborted_parts()), (Vec::new(), Vec::new()));
    assert_eq!((receiver.queued(), receiver.recount()), (0, (0, 0)));
}

#[test]
fn interleaved_messages_are_given_up_or_reset_in_the_middle() {
    for reset in [false, true] {
        let mut receiver = interleaving(2000);
        for fsn in 0..3 {
            let chunk = i_part(1 + fsn, 1, fsn, false);
            assert_eq!(receiver.handle_i_data(&chunk), Ok(DataOutcome::Accepted));
        }
        assert_eq!(read(&mut receiver), [(2000, true)]);
        if reset {
            assert_eq!(receiver.reset_after(None, Tsn(3)), Ok(true));
        } else {
            let skipped = [SkippedMessage { stream: StreamId(1), unordered: false, mid: Mid(0) }];
            let skipped = SkippedMessages::from_slice(&skipped);
            let forward = IForwardTsn { cum_tsn: Tsn(9), skipped };
            assert_eq!(receiver.handle_i_forward_tsn(&forward), Ok(DataOutcome::Accepted));
        }
        assert_eq!(receiver.take_aborted_parts().len(), 1);
        assert_eq!((receiver.queued(), receiver.recount()), (0, (0, 0)));
    }
}

#[test]
fn a_fragment_of_a_part_that_was_delivered_does_not_come_again_under_another_tsn() {
    let mut receiver = interleaving(1000);
    for fsn in 0..2 {
        let chunk = i_part(1 + fsn, 1, fsn, false);
        assert_eq!(receiver.handle_i_data(&chunk), Ok(DataOutcome::Accepted));
    }
    for fsn in 0..2 {
        let chunk = i_part(3 + fsn, 1, fsn, false);
        assert!(receiver.handle_i_data(&chunk).is_err(), "{fsn}");
    }
}

#[test]
fn the_end_of_the_association_leaves_no_parts() {
    let mut receiver = receiver(2000);
    (1..=2).for_each(|tsn| take(&mut receiver, &part(tsn, false)));
    assert_eq!(read(&mut receiver), [(2000, true)]);
    (3..=4).for_each(|tsn| take(&mut receiver, &part(tsn, false)));
    let whole = Data { stream: StreamId(2), begin: true, unordered: true, ..part(6, true) };
    take(&mut receiver, &whole);
    receiver.end_partial_delivery(true);
    assert_eq!(receiver.take_aborted_parts().len(), 1);
    assert_eq!(read(&mut receiver), [(1000, false)]);
}
