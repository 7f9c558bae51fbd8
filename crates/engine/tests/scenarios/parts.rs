//! Messages that the user gives in parts (RFC 6458 section 8.1.26).

use crate::pair::{Pair, Side, config, message, millis};
use manypath_engine::{
    AssociationId, Config, Duration, Event, MessageEnd, Outgoing, Ppid, SendError, StreamDirection,
    StreamScheduling,
};
use manypath_wire::StreamId;

fn part(pair: &mut Pair, id: AssociationId, stream: u16, text: &[u8], last: bool) {
    let end = if last { MessageEnd::Last } else { MessageEnd::Open };
    let given = pair.a.endpoint.send_part(pair.now, id, message(stream, text), end);
    given.unwrap();
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn a_message_that_is_larger_than_the_send_buffer_arrives_as_one() {
    for interleaving in [false, true] {
        let small = Config { send_buffer: 10_000, interleaving, ..config(Side::A) };
        let z = Config { interleaving, ..config(Side::Z) };
        let (mut pair, a, _) = Pair::established_with(1, small, z);
        let text = text(50_000);
        let mut parts = text.chunks(4000).peekable();
        while let Some(next) = parts.next() {
            let last = parts.peek().is_none();
            while pair.a.endpoint.send_space(a) < next.len() {
                pair.drive(millis(10));
            }
            part(&mut pair, a, 0, next, last);
            assert_eq!(pair.a.endpoint.is_unfinished(a, None), !last);
        }
        pair.drive(Duration::from_secs(5));
        assert!(pair.z.received == [(0, text.into())], "interleaving: {interleaving}");
    }
}

#[test]
fn parts_leave_before_the_end_is_given() {
    let (mut pair, a, _) = Pair::established(1);
    pair.take_ladder();
    part(&mut pair, a, 0, b"one ", false);
    pair.drive(millis(200));
    assert!(pair.take_ladder().starts_with("A -> DATA -> Z"));
    assert!(pair.z.received.is_empty());
    part(&mut pair, a, 0, b"two", true);
    pair.drive(millis(200));
    assert_eq!(pair.z.received, [(0, b"one two".to_vec().into())]);
}

/// RFC 9260 section 6.9: the fragments of a message have consecutive TSNs.
#[test]
fn other_streams_wait_for_the_end_unless_messages_are_interleaved() {
    for scheduling in
        [StreamScheduling::RoundRobin, StreamScheduling::Fcfs, StreamScheduling::Priority]
    {
        for interleaving in [false, true] {
            let wanting =
                |side| Config { interleaving, stream_scheduling: scheduling, ..config(side) };
            let (mut pair, a, _) = Pair::established_with(1, wanting(Side::A), wanting(Side::Z));
            part(&mut pair, a, 3, b"begun", false);
            pair.drive(millis(100));
            pair.send(Side::A, a, 1, b"other");
            pair.drive(millis(500));
            let other = (1, b"other".to_vec().into());
            let first: &[_] = if interleaving { std::slice::from_ref(&other) } else { &[] };
            assert_eq!(pair.z.received, first);
            part(&mut pair, a, 3, b", ended", true);
            pair.send(Side::A, a, 3, b"next");
            pair.drive(millis(500));
            let mut streams: Vec<_> = pair.z.received.clone();
            streams.sort();
            let all = [(1, &b"other"[..]), (3, b"begun, ended"), (3, b"next")];
            assert_eq!(streams, all.map(|(stream, text)| (stream, text.to_vec().into())));
            let on_three = pair.z.received.iter().filter(|message| message.0 == 3);
            assert!(on_three.map(|message| message.1.len()).eq([12, 4]), "in their order");
        }
    }
}

#[test]
fn a_stream_with_an_open_message_takes_no_other() {
    let (mut pair, a, _) = Pair::established(1);
    let first = Outgoing { ppid: Ppid(9), unordered: true, ..message(2, b"a") };
    pair.a.endpoint.send_part(pair.now, a, first, MessageEnd::Open).unwrap();
    let refused = pair.a.endpoint.send(pair.now, a, message(2, b"b"));
    assert_eq!(refused, Err(SendError::Unfinished));
    assert!(pair.a.endpoint.is_unfinished(a, Some(StreamId(2))));
    assert!(!pair.a.endpoint.is_unfinished(a, Some(StreamId(1))));
    pair.z.reads = false;
    part(&mut pair, a, 2, b"c", true);
    pair.send(Side::A, a, 2, b"d");
    pair.drive(millis(500));
    let z = pair.z.endpoint.associations()[0];
    let read = std::iter::from_fn(|| pair.z.endpoint.read(z));
    let read: Vec<_> = read.map(|it| (it.payload, it.ppid, it.unordered)).collect();
    assert_eq!(read[0], (b"ac".to_vec().into(), Ppid(9), true));
    assert!(!read[1].2);
    let empty = pair.a.endpoint.send_part(pair.now, a, message(2, b""), MessageEnd::Last);
    assert_eq!(empty, Err(SendError::Empty));
}

#[test]
fn a_stream_is_reset_after_the_end_of_its_message() {
    let wanting =
        |side| Config { reconfiguration: true, accept_stream_resets: true, ..config(side) };
    let (mut pair, a, _) = Pair::established_with(1, wanting(Side::A), wanting(Side::Z));
    part(&mut pair, a, 1, b"begun", false);
    pair.drive(millis(300));
    let (outgoing, streams) = ([StreamDirection::Outgoing], [StreamId(1)]);
    pair.a.endpoint.reset_streams(pair.now, a, &outgoing, &streams).unwrap();
    pair.drive(Duration::from_secs(5));
    let is_reset = |pair: &Pair| {
        pair.a.heard().iter().any(|event| matches!(event, Event::StreamsReset { .. }))
    };
    assert!(!is_reset(&pair));
    part(&mut pair, a, 1, b", ended", true);
    pair.send(Side::A, a, 1, b"first");
    pair.drive(Duration::from_secs(5));
    assert!(is_reset(&pair));
    let texts: Vec<_> = pair.z.received.iter().map(|message| message.1.to_vec()).collect();
    assert_eq!(texts, [b"begun, ended".to_vec(), b"first".to_vec()]);
}

#[test]
fn what_was_not_delivered_of_it_is_told_as_one_message() {
    let telling = Config { report_undelivered: true, ..config(Side::A) };
    let (mut pair, a, _) = Pair::established_with(1, telling, config(Side::Z));
    for text in [b"one ", b"two ", b"end "] {
        part(&mut pair, a, 1, text, text == b"end ");
    }
    part(&mut pair, a, 2, b"alone", false);
    pair.a.endpoint.abort(pair.now, a, b"enough");
    pair.drive(millis(100));
    let texts = pair.a.heard().into_iter().filter_map(|event| match event {
        Event::Undelivered { message, .. } => Some(message.payload.to_vec()),
        _ => None,
    });
    assert_eq!(texts.collect::<Vec<_>>(), [b"one two end ".to_vec(), b"alone".to_vec()]);
}
