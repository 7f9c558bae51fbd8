//! Packets of no association, with wrong tags, and with chunks that nobody knows
//! (RFC 9260 sections 3.2, 6.10, 8.4 and 8.5).

use crate::craft::{checksummed, packet};
use crate::pair::{Pair, Side, address, config, endpoint, millis};
use manypath_engine::{AssociationState, CloseReason, Config, Ecn, Event, PathAddr};
use manypath_wire::cause::{Cause, CauseWriter, Causes};
use manypath_wire::chunk::{
    Abort, Chunk, CookieEcho, Error, GapBlocks, Heartbeat, Init, Sack, Shutdown, ShutdownComplete,
    Tsns, Unknown,
};
use manypath_wire::packet::Packet;
use manypath_wire::parameter::Parameters;
use manypath_wire::{Tsn, VerificationTag};
use std::net::SocketAddr;

fn abort(tag_reflected: bool) -> Chunk<'static> {
    Chunk::Abort(Abort { tag_reflected, causes: Causes::EMPTY })
}

fn init(tag: u32, a_rwnd: u32, outbound_streams: u16) -> Chunk<'static> {
    Chunk::Init(Init {
        tag: VerificationTag(tag),
        a_rwnd,
        outbound_streams,
        inbound_streams: 1,
        initial_tsn: Tsn(1),
        parameters: Parameters::EMPTY,
    })
}

/// Somebody else at the address may know them: a client that shares it keeps still, and a server says
/// no more than that it does not accept an association.
#[test]
fn where_the_address_is_shared_strangers_are_not_answered() {
    let heartbeat = Chunk::Heartbeat(Heartbeat { info: &[1, 2, 3, 4] });
    let shared = |accept| Config { respond_to_ootb: false, accept, ..config(Side::Z) };
    let answered = |accept, tag, chunk| {
        let mut pair = Pair::with(1, config(Side::A), Config { port: 1, ..shared(accept) });
        pair.inject(Side::A, 1, &packet(Side::A, tag, &[chunk]));
        pair.drive(millis(50));
        let counters = pair.z.endpoint.counters();
        assert_eq!(counters.out_of_the_blue + counters.refused_inits, 1);
        pair.take_ladder().contains("<-")
    };
    for accept in [true, false] {
        assert!(!answered(accept, 0x1234_5678, heartbeat));
        assert!(!answered(accept, 0x1234_5678, Chunk::ShutdownAck));
        assert_eq!(answered(accept, 0, init(9, 9999, 1)), accept);
    }
}

#[test]
fn answers_to_packets_out_of_the_blue() {
    let mut stale = [0; 8];
    let mut causes = CauseWriter::new(&mut stale);
    causes.push(&Cause::StaleCookie { staleness_us: 1 }).unwrap();
    causes.finish();
    let stale = Chunk::Error(Error { causes: Causes::from_bytes(&stale) });
    let other = Chunk::Error(Error { causes: Causes::EMPTY });
    let complete = Chunk::ShutdownComplete(ShutdownComplete { tag_reflected: false });
    let shutdown = Chunk::Shutdown(Shutdown { cum_tsn: Tsn(1) });
    let heartbeat = Chunk::Heartbeat(Heartbeat { info: &[1, 2, 3, 4] });
    let (gaps, duplicates) = (GapBlocks::EMPTY, Tsns::EMPTY);
    let sack = Chunk::Sack(Sack { flags: 0, cum_tsn: Tsn(1), a_rwnd: 1, gaps, duplicates });
    let cases: [(&[Chunk<'_>], Option<&str>); 12] = [
        (&[sack], Some("ABORT")),
        (&[init(9, 9999, 1)], None),
        (&[init(9, 9999, 1), heartbeat], None),
        (&[abort(false)], None),
        (&[heartbeat, abort(true)], None),
        (&[Chunk::ShutdownAck], Some("SHUTDOWN_COMPLETE")),
        (&[complete], None),
        (&[Chunk::CookieAck], None),
        (&[stale], None),
        (&[other], Some("ABORT")),
        (&[shutdown], Some("ABORT")),
        (&[heartbeat], Some("ABORT")),
    ];
    for (chunks, answer) in cases {
        let mut pair = Pair::new(1);
        pair.record = true;
        pair.inject(Side::A, 1, &packet(Side::A, 0x1234_5678, chunks));
        pair.drive(millis(50));
        let mut answers = std::mem::take(&mut pair.recorded);
        answers.retain(|(from, ..)| *from == Side::Z);
        assert_eq!(answers.len(), usize::from(answer.is_some()), "{chunks:?}");
        if let (Some(name), [(_, _, bytes)]) = (answer, &answers[..]) {
            assert!(pair.take_ladder().ends_with(&format!("A <- {name} <- Z")), "{chunks:?}");
            let parsed = Packet::parse(bytes).unwrap();
            assert_eq!(parsed.header().tag, VerificationTag(0x1234_5678));
            match parsed.chunks().next() {
                Some(Ok(Chunk::Abort(abort))) => assert!(abort.tag_reflected),
                Some(Ok(Chunk::ShutdownComplete(complete))) => assert!(complete.tag_reflected),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(pair.z.endpoint.counters().out_of_the_blue, 1, "{chunks:?}");
    }
}

#[test]
fn packets_to_or_from_groups_are_dropped() {
    let mut pair = Pair::new(1);
    for (local, remote) in [("224.1.0.1:1", "10.1.0.1:1"), ("10.1.0.2:1", "255.255.255.255:1")] {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        let path = PathAddr { local: parse(local), remote: parse(remote) };
        let bytes = packet(Side::A, 1, &[Chunk::CookieAck]);
        pair.z.endpoint.handle_packet(pair.now, path, &bytes);
    }
    pair.drive(millis(10));
    assert_eq!(pair.z.endpoint.counters().malformed_packets, 2);
}

#[test]
fn impossible_inits_are_refused() {
    let cases = [(init(9, 1499, 1), true), (init(9, 1500, 0), true), (init(0, 9999, 1), false)];
    for (chunk, answered) in cases {
        let mut pair = Pair::new(1);
        pair.inject(Side::A, 1, &packet(Side::A, 0, &[chunk]));
        pair.drive(millis(50));
        let answer = if answered { "\nA <- ABORT <- Z" } else { "" };
        assert_eq!(pair.take_ladder(), format!("A -> INIT -> Z{answer}"));
        assert_eq!(pair.z.endpoint.counters().refused_inits, 1);
    }
}

#[test]
fn an_init_must_be_alone_and_must_have_no_tag() {
    let mut pair = Pair::new(1);
    let heartbeat = Chunk::Heartbeat(Heartbeat { info: &[] });
    pair.inject(Side::A, 1, &packet(Side::A, 0, &[init(9, 9999, 1), heartbeat]));
    pair.inject(Side::A, 1, &packet(Side::A, 0, &[heartbeat]));
    pair.drive(millis(50));
    assert_eq!(pair.z.endpoint.counters().bad_tag, 2);
    assert_eq!(pair.take_ladder().matches("<-").count(), 0);
}

#[test]
fn packets_with_a_wrong_tag_are_dropped_in_silence() {
    let (mut pair, _, z) = Pair::established(1);
    let wrong = pair.tag_of(Side::Z) ^ 1;
    let shutdown = Chunk::Shutdown(Shutdown { cum_tsn: Tsn(1) });
    for chunk in [abort(false), abort(true), shutdown, Chunk::ShutdownAck, Chunk::CookieAck] {
        pair.inject(Side::A, 1, &packet(Side::A, wrong, &[chunk]));
    }
    pair.drive(millis(50));
    assert_eq!(pair.z.endpoint.counters().bad_tag, 5);
    assert_eq!(pair.z.endpoint.associations(), [z]);
    assert_eq!(pair.take_ladder().matches("<-").count(), 0);
}

#[test]
fn an_abort_needs_our_tag_or_the_peers_with_the_t_bit() {
    for (own, reflected, good) in
        [(true, false, true), (true, true, false), (false, true, true), (false, false, false)]
    {
        let (mut pair, _, _) = Pair::established(1);
        let tag = pair.tag_of(if own { Side::Z } else { Side::A });
        pair.z.events.clear();
        pair.inject(Side::A, 1, &packet(Side::A, tag, &[abort(reflected)]));
        pair.drive(millis(50));
        let closed = Event::Closed(CloseReason::PeerAborted(None));
        assert_eq!(pair.z.heard() == [&closed], good, "own {own} reflected {reflected}");
        assert_eq!(pair.z.endpoint.counters().bad_tag, u64::from(!good));
    }
}

#[test]
fn a_packet_with_our_tag_from_elsewhere_is_not_taken() {
    let (mut pair, _, z) = Pair::established(1);
    let tag = pair.tag_of(Side::Z);
    let elsewhere = SocketAddr::from(([10, 1, 0, 77], 9899));
    let path = PathAddr { local: elsewhere, remote: address(Side::Z, 1) };
    pair.inject_from(Side::A, path, &packet(Side::A, tag, &[abort(false)]));
    pair.drive(millis(50));
    assert_eq!(pair.z.endpoint.counters().unknown_addresses, 1);
    assert_eq!(pair.z.endpoint.associations(), [z]);
}

#[test]
fn corrupted_packets_are_dropped() {
    let (mut pair, a, _) = Pair::established(1);
    pair.mangle = Some(|bytes| {
        let last = bytes.len() - 1;
        bytes[last] ^= 0x10;
    });
    pair.send(Side::A, a, 0, b"text");
    pair.drive(millis(50));
    assert_eq!(pair.z.endpoint.counters().bad_checksum, 1);
    pair.mangle = None;
    pair.drive(millis(2000));
    assert_eq!(pair.z.received, [(0, "text".into())]);
}

#[test]
fn unknown_chunks_say_themselves_what_to_do() {
    let heartbeat = Chunk::Heartbeat(Heartbeat { info: &[] });
    let cases = [
        (0x3f, ""),
        (0x7f, "\nA <- ERROR <- Z"),
        (0xbf, "\nA <- HEARTBEAT_ACK <- Z"),
        (0xff, "\nA <- ERROR HEARTBEAT_ACK <- Z"),
    ];
    for (kind, answer) in cases {
        let (mut pair, _, _) = Pair::established(1);
        let tag = pair.tag_of(Side::Z);
        let raw = [kind, 0, 0, 8, 1, 2, 3, 4];
        let unknown = Chunk::Unknown(Unknown::from_bytes(&raw).unwrap());
        pair.inject(Side::A, 1, &packet(Side::A, tag, &[unknown, heartbeat]));
        pair.drive(millis(50));
        assert_eq!(pair.take_ladder(), format!("A -> UNKNOWN HEARTBEAT -> Z{answer}"));
        assert_eq!(pair.z.endpoint.counters().unknown_chunks, 1);
    }
}

#[test]
fn a_partial_chunk_is_dropped_and_what_came_before_is_kept() {
    let (mut pair, _, _) = Pair::established(1);
    let tag = pair.tag_of(Side::Z);
    let heartbeat = Chunk::Heartbeat(Heartbeat { info: &[1, 2, 3, 4] });
    let mut bytes = packet(Side::A, tag, &[heartbeat, heartbeat]);
    bytes.truncate(bytes.len() - 4);
    pair.inject(Side::A, 1, &checksummed(bytes));
    pair.drive(millis(50));
    pair.expect("A -> HEARTBEAT ? -> Z\nA <- HEARTBEAT_ACK <- Z");
    assert_eq!(pair.z.endpoint.counters().malformed_chunks, 1);
}

#[test]
fn chunks_out_of_place_change_nothing() {
    let (mut pair, _, z) = Pair::established(1);
    let tag = pair.tag_of(Side::Z);
    let complete = Chunk::ShutdownComplete(ShutdownComplete { tag_reflected: false });
    let chunks = [Chunk::CookieAck, Chunk::ShutdownAck, complete, init(5, 9999, 1)];
    for chunk in chunks {
        pair.inject(Side::A, 1, &packet(Side::A, tag, &[chunk]));
    }
    let echo = Chunk::CookieEcho(CookieEcho { cookie: &[0; 100] });
    pair.inject(Side::A, 1, &packet(Side::A, tag, &[echo]));
    pair.drive(millis(50));
    let counters = pair.z.endpoint.counters();
    assert_eq!((counters.unexpected_chunks, counters.bad_cookie), (4, 1));
    let status = pair.z.endpoint.status(pair.now, z).unwrap();
    assert_eq!(status.state, AssociationState::Established);
    assert_eq!(pair.take_ladder().matches("<-").count(), 0);
}

#[test]
fn queues_that_strangers_fill_are_bounded() {
    let mut pair = Pair::new(1);
    let path = PathAddr { local: address(Side::Z, 1), remote: address(Side::A, 1) };
    let bytes = packet(Side::A, 7, &[Chunk::Heartbeat(Heartbeat { info: &[] })]);
    for _ in 0..1000 {
        pair.z.endpoint.handle_packet(pair.now, path, &bytes);
    }
    pair.drain();
    assert_eq!(pair.ladder.len(), 512);
    assert_eq!(pair.z.endpoint.counters().reply_drops, 1000 - 512);
}

/// Two endpoints may have the same sockets: one that takes what is new, and an earlier one.
#[test]
fn strays_are_left_to_another_endpoint() {
    let mut pair = Pair::new(1);
    pair.record = true;
    let id = pair.connect();
    pair.send(Side::A, id, 0, b"hello");
    pair.drive(millis(500));
    let mut from_a = std::mem::take(&mut pair.recorded);
    from_a.retain(|(from, ..)| *from == Side::A);
    let path = PathAddr { local: address(Side::Z, 1), remote: address(Side::A, 1) };
    let mut other = endpoint(Side::Z, 1, config(Side::Z), 7);
    other.leave_strays(true);
    let mut init = packet(Side::A, 0, &[init(9, 9999, 1)]);
    assert!(
        other.handle_marked_packet(pair.now, path, &mut init, Ecn::NotEct),
        "a new association"
    );
    let taken = from_a.iter().map(|(_, _, bytes)| {
        other.handle_marked_packet(pair.now, path, &mut bytes.clone(), Ecn::NotEct)
    });
    let taken: Vec<bool> = taken.collect();
    assert_eq!(taken[..2], [true, false], "INIT, COOKIE ECHO with DATA");
    assert!(!taken[1..].contains(&true), "{taken:?}");
    let counters = other.counters();
    assert_eq!((counters.out_of_the_blue, counters.bad_cookie, counters.bad_tag), (0, 0, 0));
    other.leave_strays(false);
    let (_, _, last) = from_a.last().unwrap();
    assert!(other.handle_marked_packet(pair.now, path, &mut last.clone(), Ecn::NotEct));
    let counters = other.counters();
    assert_eq!(counters.out_of_the_blue + counters.bad_cookie, 1);
}
