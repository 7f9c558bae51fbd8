//! Data transfer end to end: losses, windows, fragments, bundling (RFC 9260 section 6).

use crate::craft::packet;
use crate::pair::{Pair, Side, config, message, millis};
use manypath_engine::{
    AssociationState, CloseReason, Config, Duration, Event, PacketBatch, SendError, Tsn,
};
use manypath_wire::chunk::{Chunk, Data, GapBlocks, Sack, Shutdown};
use manypath_wire::{Ppid, Ssn, StreamId};

#[test]
fn one_lost_packet_in_a_window_is_repeated_fast() {
    let (mut pair, a, _) = Pair::established(1);
    let text: Vec<u8> = (0..200_000_u32).map(|n| (n / 7) as u8).collect();
    pair.send(Side::A, a, 0, &text);
    pair.drive(millis(25));
    pair.lose(Side::A, "DATA", 1);
    pair.drive(Duration::from_secs(1));
    assert!(pair.z.received == [(0, text.into())]);
    let path = pair.a.endpoint.status(pair.now, a).unwrap().paths[0].clone();
    assert_eq!((path.fast_retransmits, path.timeouts), (1, 0));
}

#[test]
fn messages_of_all_sizes_arrive_in_order_on_their_streams() {
    let (mut pair, a, _) = Pair::established(2);
    let sizes = [1, 2, 3, 4, 5, 1000, 1423, 1424, 1425, 2848, 2849, 10_000];
    for (number, size) in sizes.into_iter().enumerate() {
        pair.send(Side::A, a, (number % 3) as u16, &vec![number as u8; size]);
    }
    pair.drive(Duration::from_secs(1));
    for stream in 0..3 {
        let seen: Vec<_> =
            pair.z.received.iter().filter(|m| m.0 == stream).map(|m| m.1.len()).collect();
        let sent: Vec<_> = sizes.iter().copied().skip(stream.into()).step_by(3).collect();
        assert_eq!(seen, sent);
    }
}

#[test]
fn small_messages_share_a_packet_and_a_pending_sack_rides_along() {
    let (mut pair, a, z) = Pair::established(1);
    // With a window of only a few packets every SACK is asked for at once.
    pair.send(Side::A, a, 0, &[0; 20_000]);
    pair.send(Side::Z, z, 0, &[0; 20_000]);
    pair.drive(millis(500));
    pair.ladder.clear();
    for _ in 0..3 {
        pair.send(Side::A, a, 0, b"ping");
    }
    pair.drive(millis(12));
    pair.send(Side::Z, z, 0, b"pong");
    pair.drive(millis(70));
    pair.expect(
        "A -> DATA DATA DATA -> Z
         A <- SACK DATA <- Z
         A -> SACK -> Z",
    );
}

#[test]
fn a_reader_that_stops_stops_the_sender_and_nothing_is_lost() {
    let small = Config { receive_buffer: 20_000, ..config(Side::Z) };
    let (mut pair, a, z) = Pair::established_with(1, config(Side::A), small);
    pair.z.reads = false;
    for number in 0..100_u8 {
        pair.send(Side::A, a, 0, &[number; 1000]);
    }
    pair.drive(Duration::from_secs(300));
    let status = pair.a.endpoint.status(pair.now, a).unwrap();
    assert!(status.unsent > 70_000, "{status:?}");
    assert_eq!(pair.a.endpoint.associations(), [a], "a closed window is no failure");
    pair.z.reads = true;
    pair.z.read_all(z);
    pair.drive(Duration::from_secs(5));
    let seen: Vec<_> = pair.z.received.iter().map(|(_, text)| text[0]).collect();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_closed_window_is_not_probed_while_the_only_link_is_down() {
    let small = Config { receive_buffer: 20_000, ..config(Side::Z) };
    let (mut pair, a, _) = Pair::established_with(1, config(Side::A), small);
    pair.z.reads = false;
    for number in 0..100_u8 {
        pair.send(Side::A, a, 0, &[number; 1000]);
    }
    // Before the first probe.
    pair.drive(millis(200));
    pair.a.endpoint.suspend_local_address(pair.now, crate::pair::address(Side::A, 1).ip());
    pair.now = pair.now + Duration::from_secs(600);
    pair.a.endpoint.handle_timeout(pair.now);
    pair.drain();
    let next = pair.a.endpoint.poll_timeout();
    assert!(next.is_none_or(|at| at > pair.now), "a timer that never ends: {next:?}");
}

#[test]
fn a_full_send_buffer_refuses_and_tells_when_there_is_room() {
    let small = Config { send_buffer: 10_000, ..config(Side::A) };
    let (mut pair, a, _) = Pair::established_with(1, small, config(Side::Z));
    pair.send(Side::A, a, 0, &[1; 8000]);
    let refused = pair.a.endpoint.send(pair.now, a, message(0, &[2; 3000]));
    assert_eq!(refused, Err(SendError::BufferFull));
    assert_eq!(pair.a.endpoint.send_space(a), 2000);
    pair.drive(Duration::from_secs(1));
    assert_eq!(pair.a.heard(), [&Event::Writable]);
    pair.send(Side::A, a, 0, &[2; 3000]);
}

#[test]
fn wrong_messages_are_refused() {
    let (mut pair, a, _) = Pair::established(1);
    let mut send = |m| pair.a.endpoint.send(pair.now, a, m);
    assert_eq!(send(message(16, b"x")), Err(SendError::InvalidStream));
    assert_eq!(send(message(0, b"")), Err(SendError::Empty));
}

fn data(tsn: u32, stream: u16, payload: &[u8]) -> Chunk<'_> {
    Chunk::Data(Data {
        tsn: Tsn(tsn),
        stream: StreamId(stream),
        ssn: Ssn(0),
        ppid: Ppid(0),
        unordered: false,
        begin: true,
        end: true,
        immediate: false,
        payload,
    })
}

/// The TSN that Z expects next, and the tag.
fn next_tsn(pair: &mut Pair) -> (u32, u32) {
    let tag = pair.tag_of(Side::Z);
    let sent = pair.recorded.iter().rev().find_map(|(from, _, bytes)| {
        let packet = manypath_wire::packet::Packet::parse(bytes).unwrap();
        let data = |chunk| if let Chunk::Data(data) = chunk { Some(data.tsn.0) } else { None };
        packet.chunks().flatten().find_map(data).filter(|_| *from == Side::A)
    });
    (sent.unwrap().wrapping_add(1), tag)
}

#[test]
fn data_that_comes_with_the_shutdown_keeps_no_timer_busy() {
    let (mut pair, _, z) = Pair::established(1);
    let (tsn, tag) = next_tsn(&mut pair);
    pair.send(Side::Z, z, 0, b"acknowledged by a SACK, which says the TSN");
    pair.drive(millis(200));
    let cum_tsn = pair.recorded.iter().rev().find_map(|(from, _, bytes)| {
        let packet = manypath_wire::packet::Packet::parse(bytes).unwrap();
        let cum = |chunk| if let Chunk::Sack(sack) = chunk { Some(sack.cum_tsn) } else { None };
        packet.chunks().flatten().find_map(cum).filter(|_| *from == Side::A)
    });
    let shutdown = Chunk::Shutdown(Shutdown { cum_tsn: cum_tsn.unwrap() });
    pair.inject(Side::A, 1, &packet(Side::A, tag, &[data(tsn, 0, b"late"), shutdown]));
    assert!(pair.drive_until(millis(20), |pair| {
        let status = pair.z.endpoint.status(pair.now, z).unwrap();
        status.state == AssociationState::ShutdownAckSent
    }));
    let due = pair.z.endpoint.poll_timeout().unwrap();
    pair.z.endpoint.handle_timeout(due);
    while pair.z.endpoint.poll_transmit(due, &mut PacketBatch::new(1)).is_some() {}
    assert!(pair.z.endpoint.poll_timeout() > Some(due), "it would be called without end");
}

#[test]
fn data_on_a_stream_that_does_not_exist_is_acknowledged_and_reported() {
    let (mut pair, _, _) = Pair::established(1);
    let (tsn, tag) = next_tsn(&mut pair);
    pair.inject(Side::A, 1, &packet(Side::A, tag, &[data(tsn, 16, b"lost")]));
    pair.drive(millis(100));
    assert!(pair.take_ladder().starts_with("A -> DATA -> Z\nA <- ERROR SACK <- Z"));
    assert_eq!(pair.z.endpoint.counters().invalid_streams, 1);
    assert!(pair.z.received.is_empty());
}

#[test]
fn data_without_data_ends_the_association() {
    let (mut pair, _, _) = Pair::established(1);
    let (tsn, tag) = next_tsn(&mut pair);
    pair.inject(Side::A, 1, &packet(Side::A, tag, &[data(tsn, 0, b"")]));
    pair.drive(millis(100));
    pair.expect("A -> DATA -> Z\nA <- ABORT <- Z");
    assert_eq!(pair.a.heard(), [&Event::Closed(CloseReason::PeerAborted(Some(9)))]);
    assert_eq!(pair.z.endpoint.counters().protocol_violations, 1);
}

#[test]
fn acknowledging_what_was_never_sent_ends_the_association() {
    let (mut pair, _, _) = Pair::established(1);
    let tag = pair.tag_of(Side::A);
    let sack = Chunk::Sack(Sack {
        flags: 0,
        cum_tsn: Tsn(0x1234_5678),
        a_rwnd: 1000,
        gaps: GapBlocks::EMPTY,
        duplicates: manypath_wire::chunk::Tsns::EMPTY,
    });
    let mut ends = 0;
    for offset in [0, 1 << 30, 1 << 31, 3 << 30] {
        let Chunk::Sack(sack) = sack else { continue };
        let sack = Sack { cum_tsn: Tsn(sack.cum_tsn.0.wrapping_add(offset)), ..sack };
        pair.inject(Side::Z, 1, &packet(Side::Z, tag, &[Chunk::Sack(sack)]));
        pair.drive(millis(20));
        ends += usize::from(pair.a.endpoint.associations().is_empty());
    }
    assert!(ends > 0);
    assert!(matches!(pair.a.heard()[..], [Event::Closed(CloseReason::ProtocolViolation(_))]));
}

#[test]
fn full_packets_leave_in_runs() {
    let (mut pair, a, _) = Pair::established(1);
    pair.send(Side::A, a, 0, &vec![1; 1_000_000]);
    pair.drive(millis(500));
    assert_eq!(pair.z.received.len(), 1);
    let full = pair.runs.iter().filter(|run| run.packets > 1);
    let packets: usize = full.map(|run| run.packets).sum();
    assert!(packets > 350, "{packets} of 703 packets left in runs of two or more");
}

#[test]
fn a_message_that_the_send_buffer_never_takes_is_too_large() {
    let small = Config { send_buffer: 10_000, send_buffer_max: 20_000, ..config(Side::A) };
    let (mut pair, a, _) = Pair::established_with(1, small, config(Side::Z));
    let send = |pair: &mut Pair, len: usize| {
        let now = pair.now;
        pair.a.endpoint.send(now, a, message(0, &vec![1; len]))
    };
    assert_eq!(send(&mut pair, 20_001), Err(SendError::TooLarge));
    assert_eq!(send(&mut pair, 9_000), Ok(()));
    assert_eq!(send(&mut pair, 20_000), Err(SendError::BufferFull));
    pair.drive(Duration::from_secs(1));
    assert_eq!(pair.a.heard(), [&Event::Writable]);
    assert_eq!(send(&mut pair, 20_000), Ok(()), "nothing else is held");
    pair.drive(Duration::from_secs(1));
    assert_eq!(pair.z.received.len(), 2);
}
