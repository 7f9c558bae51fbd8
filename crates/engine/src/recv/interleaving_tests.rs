//! The receiver with I-DATA: windows, given up messages, no mixing.

use crate::config::{Config, NrSack};
use crate::path::PathId;
use crate::recv::{DataOutcome, Receiver};
use crate::time::{Duration, Instant};
use manypath_wire::chunk::{
    Data, FragmentPlace, IData, IForwardTsn, SkippedMessage, SkippedMessages,
};
use manypath_wire::{Fsn, Mid, Ppid, Ssn, StreamId, Tsn};

fn receiver(receive_buffer: u32) -> Receiver {
    let config = Config { receive_buffer, ..Config::default() };
    let mut receiver = Receiver::new(&config, Tsn(1), 4, NrSack::Off);
    receiver.interleave();
    receiver
}

fn first<'a>(tsn: u32, stream: u16, mid: u32, payload: &'a [u8]) -> IData<'a> {
    IData {
        tsn: Tsn(tsn),
        stream: StreamId(stream),
        mid: Mid(mid),
        place: FragmentPlace::First(Ppid(7)),
        unordered: false,
        end: false,
        immediate: false,
        payload,
    }
}

#[test]
fn interleaved_messages_are_put_together_and_the_window_is_given_back() {
    let mut receiver = receiver(100_000);
    let last = |tsn, stream| IData {
        place: FragmentPlace::Later(Fsn(1)),
        end: true,
        ..first(tsn, stream, 0, b"end")
    };
    for chunk in [first(1, 1, 0, b"one "), first(2, 2, 0, b"two "), last(3, 2), last(4, 1)] {
        assert_eq!(receiver.handle_i_data(&chunk), Ok(DataOutcome::Accepted));
    }
    assert_eq!(receiver.queued(), 14);
    assert_eq!(receiver.read().unwrap().payload, "two end");
    assert_eq!(receiver.read().unwrap().payload, "one end");
    assert_eq!((receiver.read(), receiver.queued(), receiver.cum_tsn()), (None, 0, Tsn(4)));
}

#[test]
fn data_and_i_data_are_never_mixed() {
    let plain = Data {
        tsn: Tsn(1),
        stream: StreamId(0),
        ssn: Ssn(0),
        ppid: Ppid(0),
        unordered: false,
        begin: true,
        end: true,
        immediate: false,
        payload: b"x",
    };
    assert!(receiver(100_000).handle_data(&plain).is_err());
    let mut other = Receiver::new(&Config::default(), Tsn(1), 4, NrSack::Off);
    assert!(other.handle_i_data(&first(1, 0, 0, b"x")).is_err());
    let forward = IForwardTsn { cum_tsn: Tsn(1), skipped: SkippedMessages::EMPTY };
    assert!(other.handle_i_forward_tsn(&forward).is_err());
    assert_eq!(other.handle_data(&plain), Ok(DataOutcome::Accepted));
}

#[test]
fn given_up_messages_free_the_window_and_those_behind_them() {
    let mut receiver = receiver(100_000);
    let whole = IData { end: true, ..first(6, 1, 2, b"behind") };
    receiver.handle_i_data(&first(2, 1, 1, b"half")).unwrap();
    receiver.handle_i_data(&whole).unwrap();
    assert_eq!(
        (receiver.cum_tsn(), receiver.queued(), receiver.is_readable()),
        (Tsn(0), 10, false)
    );
    let skipped = [SkippedMessage { stream: StreamId(1), unordered: false, mid: Mid(1) }];
    let skipped = SkippedMessages::from_slice(&skipped);
    let forward = IForwardTsn { cum_tsn: Tsn(5), skipped };
    receiver.handle_i_forward_tsn(&forward).unwrap();
    // TSN 6 has arrived, so the cumulative TSN moves over it as well.
    assert_eq!((receiver.cum_tsn(), receiver.queued()), (Tsn(6), 6));
    assert_eq!(receiver.read().unwrap().payload, "behind");
    receiver.packet_end(Instant::ZERO, PathId(0), false, (2, Duration::default));
    assert_eq!(receiver.handle_i_data(&first(3, 1, 1, b"late")), Ok(DataOutcome::Duplicate));
    // An old one is answered at once.
    receiver.handle_i_forward_tsn(&forward).unwrap();
    receiver.packet_end(Instant::ZERO, PathId(0), false, (2, Duration::default));
    assert!(receiver.acks().due(Instant::ZERO).is_some());
}

#[test]
fn messages_that_fill_the_buffer_before_their_turn_are_an_error_not_a_stall() {
    let mut receiver = receiver(10_000);
    let payload = [0; 4000];
    for tsn in 1..=2 {
        // Nobody knows of message 0 of the stream.
        let chunk = first(tsn, tsn as u16, 1, &payload);
        assert_eq!(receiver.handle_i_data(&chunk), Ok(DataOutcome::Accepted));
    }
    assert!(receiver.handle_i_data(&first(3, 3, 1, &payload)).is_err());
}
