//! Messages that are larger than the receive buffer, or than the user wants to wait for, are delivered
//! in parts (RFC 9260 section 6.9, RFC 6458 sections 6.1.7 and 8.1.21).

use crate::pair::{Pair, Side, config, message, millis};
use manypath_engine::{
    AssociationId, CloseReason, Config, Duration, Event, Message, Outgoing, PartialMessage, Ppid,
    Reliability, StreamId,
};

const BUFFER: u32 = 20_000;

fn small(side: Side) -> Config {
    Config {
        receive_buffer: BUFFER,
        partial_reliability: true,
        reconfiguration: true,
        accept_association_resets: true,
        ..config(side)
    }
}

fn text(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251 + seed) as u8).collect()
}

/// What Z has read, with its flags.
fn parts(pair: &mut Pair, z: AssociationId) -> Vec<Message> {
    std::iter::from_fn(|| pair.z.endpoint.read(z)).collect()
}

fn aborted(pair: &Pair) -> Vec<PartialMessage> {
    let heard = pair.z.heard().into_iter();
    let aborted = heard.filter_map(|event| match event {
        Event::PartialDeliveryAborted(message) => Some(*message),
        _ => None,
    });
    aborted.collect()
}

#[test]
fn a_message_of_many_receive_buffers_gets_through() {
    for (interleaving, unordered, paths) in
        [(false, false, 1), (false, true, 2), (true, false, 2), (true, true, 1)]
    {
        let both = |side| Config { interleaving, multipath: paths > 1, ..small(side) };
        let (mut pair, a, _) = Pair::established_with(paths, both(Side::A), both(Side::Z));
        let payload = text(500_000, 0);
        pair.lose(Side::A, if interleaving { "I_DATA" } else { "DATA" }, 2);
        let whole = Outgoing { unordered, ..message(1, &payload) };
        pair.a.endpoint.send(pair.now, a, whole).unwrap();
        pair.send(Side::A, a, 1, b"next");
        pair.drive(Duration::from_secs(60));
        let received: Vec<u8> =
            pair.z.received.iter().flat_map(|(_, part)| part.to_vec()).collect();
        assert_eq!(received.len(), 500_004);
        let next = received.windows(4).position(|bytes| bytes == b"next").unwrap();
        assert!(next == 500_000 || unordered);
        assert!(received.starts_with(&payload) || unordered);
        assert!(pair.z.received.len() > 10);
        assert_eq!(pair.z.heard().iter().filter(|e| matches!(e, Event::Closed(_))).count(), 0);
    }
}

#[test]
fn several_large_messages_are_interleaved_and_told_apart() {
    let both = |side| Config { interleaving: true, ..small(side) };
    let (mut pair, a, z) = Pair::established_with(1, both(Side::A), both(Side::Z));
    pair.z.reads = false;
    for stream in 1..=3 {
        pair.send(Side::A, a, stream, &text(60_000, stream.into()));
    }
    let mut got = std::collections::BTreeMap::<u32, (u16, Vec<u8>, bool)>::new();
    for _ in 0..400 {
        pair.drive(millis(50));
        for part in parts(&mut pair, z) {
            let entry = got.entry(part.tsn.0).or_default();
            assert!(!entry.2, "more of a message that was complete");
            entry.0 = part.stream.0;
            entry.1.extend_from_slice(&part.payload);
            entry.2 = !part.more;
        }
    }
    let got: Vec<_> = got.into_values().collect();
    assert_eq!(got.len(), 3);
    for (stream, payload, complete) in got {
        assert!(complete && payload == text(60_000, stream.into()), "stream {stream}");
    }
}

#[test]
fn a_reader_that_waits_is_waited_for() {
    let (mut pair, a, z) = Pair::established_with(1, small(Side::A), small(Side::Z));
    pair.z.reads = false;
    let payload = text(100_000, 0);
    pair.send(Side::A, a, 1, &payload);
    let mut got = Vec::new();
    let mut last = true;
    for _ in 0..100 {
        pair.drive(Duration::from_secs(2));
        assert!(
            pair.z
                .endpoint
                .status(pair.now, z)
                .is_some_and(|it| it.receive_queued <= BUFFER as usize)
        );
        for part in parts(&mut pair, z) {
            got.extend_from_slice(&part.payload);
            last = part.more;
        }
    }
    assert!(got == payload && !last);
}

#[test]
fn the_user_gets_parts_from_the_size_on_that_it_has_named() {
    let eager = Config { partial_delivery_point: 4000, ..small(Side::Z) };
    let (mut pair, a, z) = Pair::established_with(1, small(Side::A), eager);
    pair.z.reads = false;
    pair.send(Side::A, a, 1, &text(4000, 0));
    pair.send(Side::A, a, 1, &text(10_000, 1));
    pair.drive(Duration::from_secs(1));
    let parts = parts(&mut pair, z);
    assert_eq!((parts[0].payload.len(), parts[0].more), (4000, false));
    assert!(parts[1].payload.len() >= 4000 && parts[1].more && parts[1].ppid == parts[2].ppid);
    let rest: usize = parts[1..].iter().map(|part| part.payload.len()).sum();
    assert_eq!((rest, parts.last().map(|part| part.more)), (10_000, Some(false)));
}

#[test]
fn the_user_is_told_when_the_rest_of_a_message_is_given_up() {
    for interleaving in [false, true] {
        let both = |side| Config { interleaving, partial_delivery_point: 2000, ..small(side) };
        let (mut pair, a, z) = Pair::established_with(1, both(Side::A), both(Side::Z));
        pair.z.reads = false;
        let late = Reliability::Lifetime(millis(300));
        let long = Outgoing { ppid: Ppid(7), ..message(1, &text(100_000, 0)) };
        pair.a.endpoint.send_with(pair.now, a, long, late).unwrap();
        pair.drive(millis(30));
        let read = parts(&mut pair, z);
        assert!(!read.is_empty() && read.iter().all(|part| part.more && part.ppid == Ppid(7)));
        pair.cut(1);
        pair.drive(Duration::from_secs(1));
        pair.restore(1);
        pair.send(Side::A, a, 1, b"next");
        pair.drive(Duration::from_secs(10));
        let (stream, unordered, number, tsn) = (StreamId(1), false, read[0].number, read[0].tsn);
        assert_eq!(aborted(&pair), [PartialMessage { stream, unordered, number, tsn }]);
        let left = parts(&mut pair, z);
        assert_eq!(left.len(), 1);
        assert_eq!((&left[0].payload[..], left[0].more), (&b"next"[..], false));
        assert_eq!(pair.z.endpoint.counters().partial_deliveries_aborted, 1);
    }
}

#[test]
fn the_user_is_told_when_the_association_ends_in_the_middle_of_a_message() {
    let eager = Config { partial_delivery_point: 2000, ..small(Side::Z) };
    let (mut pair, a, z) = Pair::established_with(1, small(Side::A), eager);
    pair.z.reads = false;
    pair.send(Side::A, a, 1, &text(100_000, 0));
    pair.drive(millis(30));
    assert!(!parts(&mut pair, z).is_empty());
    pair.drive(millis(30));
    pair.a.endpoint.abort(pair.now, a, b"enough");
    pair.drive(millis(30));
    let heard = pair.z.heard();
    let [.., Event::PartialDeliveryAborted(_), Event::Closed(CloseReason::PeerAborted(_))] =
        heard[..]
    else {
        panic!("{heard:?}");
    };
    assert_eq!(parts(&mut pair, z).len(), 0);
}

#[test]
fn a_restarted_peer_does_not_end_its_message() {
    let eager = Config { partial_delivery_point: 2000, ..small(Side::Z) };
    let (mut pair, a, z) = Pair::established_with(1, small(Side::A), eager);
    pair.z.reads = false;
    pair.send(Side::A, a, 1, &text(100_000, 0));
    pair.drive(millis(30));
    assert!(!parts(&mut pair, z).is_empty());
    pair.a.endpoint = crate::pair::endpoint(Side::A, 1, small(Side::A), 77);
    pair.connect();
    pair.drive(Duration::from_secs(1));
    assert_eq!(aborted(&pair).len(), 1);
    assert!(pair.z.heard().contains(&&Event::Restarted));
}

/// All of a message has come, and a part of it was read, when the association ends; then its reader gives up.
#[test]
fn the_user_is_told_of_what_an_abort_after_the_end_discards() {
    let eager = Config { partial_delivery_point: 2000, ..small(Side::Z) };
    let (mut pair, a, z) = Pair::established_with(1, small(Side::A), eager);
    pair.z.reads = false;
    pair.send(Side::A, a, 1, &text(6000, 0));
    pair.drive(millis(30));
    assert!(pair.z.endpoint.read(z).is_some_and(|part| part.more));
    pair.drive(millis(30));
    pair.a.endpoint.shutdown(pair.now, a);
    pair.drive(Duration::from_secs(1));
    assert!(pair.z.endpoint.associations().is_empty());
    assert_eq!(aborted(&pair), []);
    pair.z.endpoint.abort(pair.now, z, b"enough");
    pair.drive(millis(30));
    assert_eq!(aborted(&pair).len(), 1);
    assert_eq!(parts(&mut pair, z).len(), 0);
}
