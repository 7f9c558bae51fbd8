//! Chunks in states that they are not for, and what states allow (RFC 9260 sections 4, 6, 8.3, 8.5.1 and
//! 9.2).

use crate::craft::{checksummed, packet};
use crate::pair::{Pair, Side, config, message, millis};
use crate::parameters::{first_chunk, last};
use manypath_engine::{
    AssociationId, AssociationState, CloseReason, Config, Duration, Event, SendError,
};
use manypath_wire::chunk::{
    Abort, Chunk, Data, GapBlocks, Heartbeat, InitAck, Sack, Shutdown, ShutdownComplete, Tsns,
    Unknown,
};
use manypath_wire::packet::Packet;
use manypath_wire::parameter::Parameters;
use manypath_wire::{Ppid, Ssn, StreamId, Tsn, VerificationTag};

fn state(pair: &Pair, side: Side) -> Option<AssociationState> {
    let node = if side == Side::A { &pair.a } else { &pair.z };
    let id = *node.endpoint.associations().first()?;
    Some(node.endpoint.status(pair.now, id)?.state)
}

fn data(tsn: u32) -> Chunk<'static> {
    Chunk::Data(Data {
        tsn: Tsn(tsn),
        stream: StreamId(0),
        ssn: Ssn(0),
        ppid: Ppid(0),
        unordered: true,
        begin: true,
        end: true,
        immediate: false,
        payload: b"text",
    })
}

fn sack(tsn: u32) -> Chunk<'static> {
    let (gaps, duplicates) = (GapBlocks::EMPTY, Tsns::EMPTY);
    Chunk::Sack(Sack { flags: 0, cum_tsn: Tsn(tsn), a_rwnd: 5000, gaps, duplicates })
}

/// A in COOKIE-WAIT or COOKIE-ECHOED, and the tag that it expects.
fn setting_up(lost: &'static str) -> (Pair, u32) {
    let mut pair = Pair::new(1);
    pair.record = true;
    pair.lose(Side::A, lost, 1000);
    pair.connect();
    pair.drive(millis(50));
    let Chunk::Init(init) = first_chunk(&pair.recorded[0].2) else { panic!("no INIT") };
    let tag = init.tag.0;
    pair.ladder.clear();
    (pair, tag)
}

/// Z in SHUTDOWN-ACK-SENT, and the tag that it expects.
fn shutdown_ack_sent() -> (Pair, u32) {
    let (mut pair, a, _) = Pair::established(1);
    let tag = pair.tag_of(Side::Z);
    pair.lose(Side::Z, "SHUTDOWN_ACK", 1);
    pair.a.endpoint.shutdown(pair.now, a);
    pair.drive(millis(30));
    assert_eq!(state(&pair, Side::Z), Some(AssociationState::ShutdownAckSent));
    pair.ladder.clear();
    (pair, tag)
}

/// Z in SHUTDOWN-RECEIVED: it has data on the way that does not arrive.
fn shutdown_received() -> (Pair, AssociationId, AssociationId) {
    let (mut pair, a, z) = Pair::established(1);
    pair.lose(Side::Z, "DATA", 1);
    pair.send(Side::Z, z, 0, b"one");
    pair.drive(millis(1));
    pair.a.endpoint.shutdown(pair.now, a);
    pair.drive(millis(20));
    assert_eq!(state(&pair, Side::Z), Some(AssociationState::ShutdownReceived));
    pair.ladder.clear();
    (pair, a, z)
}

#[test]
fn data_sack_and_shutdown_are_discarded_during_setup() {
    for lost in ["INIT", "COOKIE_ECHO"] {
        let (mut pair, tag) = setting_up(lost);
        let before = state(&pair, Side::A);
        let shutdown = Chunk::Shutdown(Shutdown { cum_tsn: Tsn(7) });
        let complete = Chunk::ShutdownComplete(ShutdownComplete { tag_reflected: false });
        for chunk in [data(1), sack(7), shutdown, complete] {
            pair.inject(Side::Z, 1, &packet(Side::Z, tag, &[chunk]));
        }
        pair.drive(millis(50));
        assert_eq!(pair.a.endpoint.counters().unexpected_chunks, 4, "{lost}");
        assert_eq!(pair.take_ladder().matches("->").count(), 0);
        assert_eq!(state(&pair, Side::A), before);
        assert!(pair.a.received.is_empty() && pair.a.events.is_empty());
    }
}

#[test]
fn data_and_sack_are_discarded_when_the_shutdown_is_nearly_over() {
    let (mut pair, tag) = shutdown_ack_sent();
    let before = pair.z.endpoint.counters().unexpected_chunks;
    for chunk in [data(1), sack(7)] {
        pair.inject(Side::A, 1, &packet(Side::A, tag, &[chunk]));
    }
    pair.drive(millis(15));
    assert_eq!(pair.z.endpoint.counters().unexpected_chunks, before + 2);
    assert_eq!(pair.take_ladder().matches("<-").count(), 0);
    assert_eq!(state(&pair, Side::Z), Some(AssociationState::ShutdownAckSent));
}

#[test]
fn an_init_ack_counts_only_in_cookie_wait() {
    let ack = |tag, streams| {
        Chunk::InitAck(InitAck {
            tag: VerificationTag(tag),
            a_rwnd: 100_000,
            outbound_streams: streams,
            inbound_streams: streams,
            initial_tsn: Tsn(1),
            parameters: Parameters::EMPTY,
        })
    };
    let (echoed, tag) = setting_up("COOKIE_ECHO");
    let (mut established, _, _) = Pair::established(1);
    let known = established.tag_of(Side::A);
    for (mut pair, tag) in [(echoed, tag), (established, known)] {
        let before = (state(&pair, Side::A), pair.a.endpoint.poll_timeout());
        for chunk in [ack(9, 1), ack(0, 1), ack(9, 0)] {
            pair.inject(Side::Z, 1, &packet(Side::Z, tag, &[chunk]));
        }
        pair.drive(millis(15));
        assert_eq!(pair.a.endpoint.counters().unexpected_chunks, 3);
        assert_eq!((state(&pair, Side::A), pair.a.endpoint.poll_timeout()), before);
        assert_eq!(pair.take_ladder().matches("->").count(), 0);
    }
}

#[test]
fn a_shutdown_ack_during_setup_is_answered_as_out_of_the_blue() {
    for (lost, own_tag) in [("INIT", false), ("INIT", true), ("COOKIE_ECHO", true)] {
        let (mut pair, tag) = setting_up(lost);
        let before = state(&pair, Side::A);
        let tag = if own_tag { tag } else { 0x0102_0304 };
        pair.inject(Side::Z, 1, &packet(Side::Z, tag, &[Chunk::ShutdownAck]));
        pair.drive(millis(15));
        pair.expect("A <- SHUTDOWN_ACK <- Z\nA -> SHUTDOWN_COMPLETE -> Z");
        let said = last(&pair, Side::A);
        assert_eq!(Packet::parse(&said).unwrap().header().tag.0, tag);
        let Chunk::ShutdownComplete(complete) = first_chunk(&said) else { panic!() };
        assert!(complete.tag_reflected);
        assert_eq!(state(&pair, Side::A), before);
    }
}

#[test]
fn a_shutdown_complete_needs_our_tag_or_the_peers_with_the_t_bit() {
    for (own, tag_reflected, good) in
        [(true, false, true), (true, true, false), (false, true, true), (false, false, false)]
    {
        let (mut pair, our_tag) = shutdown_ack_sent();
        let peers = pair.recorded.iter().rev().find(|(from, ..)| *from == Side::Z).unwrap();
        let peers_tag = Packet::parse(&peers.2).unwrap().header().tag.0;
        let tag = if own { our_tag } else { peers_tag };
        let complete = Chunk::ShutdownComplete(ShutdownComplete { tag_reflected });
        pair.inject(Side::A, 1, &packet(Side::A, tag, &[complete]));
        pair.drive(millis(15));
        assert_eq!(pair.z.endpoint.associations().is_empty(), good, "{own} {tag_reflected}");
        assert_eq!(pair.z.endpoint.counters().bad_tag, u64::from(!good));
    }
}

#[test]
fn an_abort_has_the_tag_of_its_receiver() {
    let (mut pair, a, _) = Pair::established(1);
    let tag = pair.tag_of(Side::Z);
    pair.a.endpoint.abort(pair.now, a, b"enough");
    pair.drive(millis(50));
    let said = last(&pair, Side::A);
    assert_eq!(Packet::parse(&said).unwrap().header().tag.0, tag);
    let Chunk::Abort(abort) = first_chunk(&said) else { panic!() };
    assert!(!abort.tag_reflected);
    assert_eq!(abort.causes.iter().next().unwrap().unwrap().code(), 12);
}

#[test]
fn the_reason_of_an_abort_reaches_the_peers_user_once() {
    let (mut pair, a, z) = Pair::established(1);
    pair.a.endpoint.abort(pair.now, a, b"out of paper");
    pair.drive(millis(50));
    assert_eq!(pair.z.heard(), [&Event::Closed(CloseReason::PeerAborted(Some(12)))]);
    assert_eq!(pair.z.endpoint.take_abort_reason(z).as_deref(), Some(&b"out of paper"[..]));
    assert_eq!(pair.z.endpoint.take_abort_reason(z), None);
    // What nobody asks for is kept for the last 64.
    let mut pair = Pair::with(1, Config { port: 0, ..config(Side::A) }, config(Side::Z));
    for number in 1..=66_u8 {
        let a = pair.connect();
        pair.drive(millis(50));
        pair.a.endpoint.abort(pair.now, a, &[number; 300]);
        pair.drive(millis(50));
    }
    let kept = |pair: &mut Pair, id| pair.z.endpoint.take_abort_reason(AssociationId(id));
    assert_eq!(kept(&mut pair, 2), None);
    assert_eq!(kept(&mut pair, 3).as_deref(), Some(&[3; 256][..]));
}

#[test]
fn a_malformed_abort_changes_nothing() {
    let (mut pair, _, z) = Pair::established(1);
    let tag = pair.tag_of(Side::Z);
    let abort = Chunk::Abort(Abort {
        tag_reflected: false,
        causes: manypath_wire::cause::Causes::from_bytes(&[0, 12, 0, 3, 0, 0, 0, 0]),
    });
    pair.inject(Side::A, 1, &packet(Side::A, tag, &[abort]));
    let mut short = packet(Side::A, tag, &[Chunk::CookieAck]);
    short[12] = 6;
    short[15] = 3;
    pair.inject(Side::A, 1, &checksummed(short));
    pair.drive(millis(50));
    pair.expect("A -> ABORT -> Z\nA -> ? -> Z");
    assert_eq!(pair.z.endpoint.counters().malformed_chunks, 2);
    assert_eq!(pair.z.endpoint.associations(), [z]);
}

#[test]
fn heartbeats_are_answered_unchanged_from_cookie_echoed_until_the_shutdown() {
    let info = b"any bytes, 35 of them, no padding...";
    let heartbeat = Chunk::Heartbeat(Heartbeat { info });
    let (mut pair, tag) = setting_up("INIT");
    pair.inject(Side::Z, 1, &packet(Side::Z, tag, &[heartbeat]));
    pair.drive(millis(50));
    pair.expect("A <- HEARTBEAT <- Z");

    let (mut pair, _, _) = Pair::established(1);
    let tag = pair.tag_of(Side::Z);
    pair.inject(Side::A, 1, &packet(Side::A, tag, &[heartbeat]));
    pair.drive(millis(50));
    pair.expect("A -> HEARTBEAT -> Z\nA <- HEARTBEAT_ACK <- Z");
    let said = last(&pair, Side::Z);
    let Chunk::HeartbeatAck(ack) = first_chunk(&said) else { panic!() };
    assert_eq!(ack.info, info);

    // What follows the information in the chunk comes back as well.
    let chunk = b"\x04\xff\0\x12\0\x01\0\x05i\0\0\0\xc1\x23\0\x06xy";
    let more = Unknown::from_bytes(chunk).unwrap();
    pair.inject(Side::A, 1, &packet(Side::A, tag, &[Chunk::Unknown(more)]));
    pair.drive(millis(50));
    let said = last(&pair, Side::Z);
    assert_eq!(said[12..], [&[5, 0][..], &chunk[2..], &[0, 0]].concat());

    let (mut pair, tag) = shutdown_ack_sent();
    pair.inject(Side::A, 1, &packet(Side::A, tag, &[heartbeat]));
    pair.drive(millis(15));
    pair.expect("A -> HEARTBEAT -> Z");
}

#[test]
fn after_a_shutdown_has_come_nothing_new_is_taken_from_the_user_and_the_rest_is_delivered() {
    let (mut pair, _, z) = shutdown_received();
    let refused = pair.z.endpoint.send(pair.now, z, message(0, b"two"));
    assert_eq!(refused, Err(SendError::ShuttingDown));
    pair.z.endpoint.shutdown(pair.now, z);
    assert_eq!(state(&pair, Side::Z), Some(AssociationState::ShutdownReceived));
    pair.drive(Duration::from_secs(5));
    assert_eq!(pair.a.received, [(0, "one".into())]);
    let ladder = pair.take_ladder();
    // A goes on to ask for the end, and Z answers when it has nothing left.
    assert!(ladder.contains("A -> SHUTDOWN"), "{ladder}");
    assert!(ladder.contains("A <- SHUTDOWN_ACK <- Z\nA -> SHUTDOWN_COMPLETE -> Z"), "{ladder}");
    let (mut pair, _) = shutdown_ack_sent();
    let z = pair.z.endpoint.associations()[0];
    let refused = pair.z.endpoint.send(pair.now, z, message(0, b"x"));
    assert_eq!(refused, Err(SendError::ShuttingDown));
}

#[test]
fn give_up_when_the_shutdown_ack_is_never_answered() {
    let quick = Config { association_max_retransmits: 3, ..config(Side::Z) };
    let (mut pair, a, _) = Pair::established_with(1, config(Side::A), quick);
    pair.lose(Side::Z, "SHUTDOWN_ACK", 1000);
    pair.a.endpoint.shutdown(pair.now, a);
    pair.drive(millis(15));
    pair.cut(1);
    pair.ladder.clear();
    pair.drive(Duration::from_secs(30));
    assert_eq!(pair.take_ladder().matches("SHUTDOWN_ACK").count(), 3);
    let last = pair.z.heard().pop().cloned();
    assert_eq!(last, Some(Event::Closed(CloseReason::TooManyFailures)));
}

#[test]
fn a_repeated_shutdown_tells_what_has_come_since() {
    let (mut pair, a, z) = Pair::established(1);
    pair.record = true;
    pair.lose(Side::Z, "DATA", 1);
    pair.lose(Side::A, "SHUTDOWN", 1);
    pair.send(Side::Z, z, 0, b"one");
    pair.drive(millis(1));
    pair.a.endpoint.shutdown(pair.now, a);
    pair.drive(Duration::from_secs(5));
    let told: Vec<_> = pair
        .recorded
        .iter()
        .flat_map(|(_, _, bytes)| Packet::parse(bytes).unwrap().chunks().map(Result::unwrap))
        .filter_map(|chunk| if let Chunk::Shutdown(s) = chunk { Some(s.cum_tsn.0) } else { None })
        .collect();
    assert!(told.len() >= 2, "{told:?}");
    assert_eq!(told[told.len() - 1].wrapping_sub(told[0]), 1);
    assert_eq!(pair.a.received.len(), 1);
}

#[test]
fn many_answers_to_one_packet_fit_into_one() {
    let (mut pair, _, _) = Pair::established(1);
    let tag = pair.tag_of(Side::Z);
    let raw = [0xff, 0, 0, 4];
    let unknown = Chunk::Unknown(Unknown::from_bytes(&raw).unwrap());
    let mut chunks = vec![unknown; 200];
    chunks.push(Chunk::Heartbeat(Heartbeat { info: &[1; 300] }));
    pair.inject(Side::A, 1, &packet(Side::A, tag, &chunks));
    pair.drive(millis(50));
    let ladder = pair.take_ladder();
    assert_eq!(ladder.matches("A <-").count(), 1, "{ladder}");
}
