//! I-DATA (RFC 8260): used if both ends want it, never mixed with DATA.

use crate::craft::packet;
use crate::pair::{Pair, Side, config, millis};
use manypath_engine::{AssociationId, CloseReason, Config, Duration, Event, StreamScheduling, Tsn};
use manypath_wire::chunk::{Chunk, FragmentPlace, IData, IForwardTsn, SkippedMessages};
use manypath_wire::packet::Packet;
use manypath_wire::{Mid, Ppid, StreamId};

fn wanting(side: Side, interleaving: bool) -> Config {
    Config { interleaving, stream_scheduling: StreamScheduling::RoundRobin, ..config(side) }
}

fn established(a: bool, z: bool) -> (Pair, AssociationId) {
    let (pair, id, _) = Pair::established_with(1, wanting(Side::A, a), wanting(Side::Z, z));
    (pair, id)
}

#[test]
fn a_short_message_does_not_wait_for_a_long_one() {
    for (interleaving, first) in [(true, 1), (false, 0)] {
        let (mut pair, a) = established(interleaving, interleaving);
        pair.send(Side::A, a, 0, &vec![7; 300_000]);
        pair.send(Side::A, a, 1, b"short");
        pair.drive(Duration::from_secs(5));
        let streams: Vec<u16> = pair.z.received.iter().map(|message| message.0).collect();
        assert_eq!(streams, [first, 1 - first]);
        let long = pair.z.received.iter().find(|message| message.0 == 0).unwrap();
        assert_eq!(long.1, vec![7; 300_000]);
    }
}

#[test]
fn both_must_want_it() {
    for (a, z) in [(true, false), (false, true), (false, false), (true, true)] {
        let (mut pair, id) = established(a, z);
        pair.take_ladder();
        pair.send(Side::A, id, 3, b"hello");
        pair.drive(millis(100));
        let name = if a && z { "I_DATA" } else { "DATA" };
        assert!(pair.take_ladder().starts_with(&format!("A -> {name} -> Z")));
        assert_eq!(pair.z.received.last().unwrap(), &(3, b"hello".to_vec().into()));
    }
}

#[test]
fn losses_are_repaired() {
    let (mut pair, a) = established(true, true);
    let text: Vec<u8> = (0..200_000_u32).map(|n| (n / 7) as u8).collect();
    for stream in 0..3 {
        pair.send(Side::A, a, stream, &text);
    }
    pair.drive(millis(25));
    pair.lose(Side::A, "I_DATA", 3);
    pair.drive(Duration::from_secs(5));
    assert_eq!(pair.z.received.len(), 3);
    assert!(pair.z.received.iter().all(|message| message.1 == text));
}

#[test]
fn messages_larger_together_than_the_peers_buffer_are_all_delivered() {
    let small = Config { receive_buffer: 64_000, ..wanting(Side::Z, true) };
    let (mut pair, a, _) = Pair::established_with(1, wanting(Side::A, true), small);
    for stream in 0..8 {
        pair.send(Side::A, a, stream, &vec![stream as u8; 30_000]);
    }
    pair.drive(Duration::from_secs(10));
    assert_eq!(pair.z.received.len(), 8);
}

#[test]
fn what_was_not_agreed_on_ends_the_association() {
    let (mut pair, _) = established(false, true);
    let tag = pair.tag_of(Side::Z);
    let forward = IForwardTsn { cum_tsn: Tsn(1), skipped: SkippedMessages::EMPTY };
    pair.inject(Side::A, 1, &packet(Side::A, tag, &[Chunk::IForwardTsn(forward)]));
    pair.drive(millis(100));
    assert!(matches!(pair.z.heard()[..], [Event::Closed(CloseReason::ProtocolViolation(_))]));
}

#[test]
fn fragments_are_numbered_within_their_message() {
    let (mut pair, a) = established(true, true);
    pair.record = true;
    for stream in [0, 1, 0] {
        pair.send(Side::A, a, stream, &[7; 5000]);
    }
    pair.drive(millis(500));
    assert_eq!(pair.z.received.len(), 3);
    let sent: Vec<_> = pair.recorded.iter().filter(|(from, ..)| *from == Side::A).collect();
    let mut messages = std::collections::BTreeMap::<_, Vec<_>>::new();
    let mut open = std::collections::BTreeMap::new();
    for chunk in sent.iter().flat_map(|(_, _, bytes)| Packet::parse(bytes).unwrap().chunks()) {
        let Ok(Chunk::IData(data)) = chunk else { continue };
        // One message of a stream at a time.
        let current = open.entry(data.stream).or_insert(data.mid);
        assert_eq!(*current, data.mid, "{data}");
        if data.end {
            open.remove(&data.stream);
        }
        let (fsn, begin) = match data.place {
            FragmentPlace::First(_) => (0, true),
            FragmentPlace::Later(fsn) => (fsn.0, false),
        };
        messages.entry((data.stream, data.mid.0)).or_default().push((fsn, begin, data.end));
    }
    assert_eq!(messages.len(), 3);
    for parts in messages.values() {
        let last = parts.len() as u32 - 1;
        assert!(last >= 3);
        let expected = (0..=last).map(|fsn| (fsn, fsn == 0, fsn == last));
        assert!(parts.iter().copied().eq(expected), "{parts:?}");
    }
    for (_, _, bytes) in &sent {
        // The reserved bits of the chunk flags and the field between stream and MID.
        assert!(bytes[12] != 64 || (bytes[13] & 0xf0, &bytes[22..24]) == (0, &[0, 0][..]));
    }
}

#[test]
fn the_immediate_bit_of_i_data_is_obeyed() {
    for (immediate, acknowledged) in [(true, true), (false, false)] {
        let mut pair = Pair::with(1, wanting(Side::A, true), wanting(Side::Z, true));
        pair.record = true;
        pair.connect();
        pair.drive(millis(500));
        let init = pair.recorded[0].2.clone();
        let Some(Ok(Chunk::Init(init))) = Packet::parse(&init).unwrap().chunks().next() else {
            panic!("no INIT");
        };
        let tag = pair.recorded[2].2[4..8].try_into().map(u32::from_be_bytes).unwrap();
        for ahead in 0..2 {
            let data = IData {
                tsn: Tsn(init.initial_tsn.0.wrapping_add(ahead)),
                stream: StreamId(0),
                mid: Mid(ahead),
                unordered: false,
                place: FragmentPlace::First(Ppid(0)),
                end: true,
                immediate: immediate && ahead == 1,
                payload: b"text",
            };
            pair.ladder.clear();
            pair.inject(Side::A, 1, &packet(Side::A, tag, &[Chunk::IData(data)]));
            // The first of all is acknowledged at once anyway.
            pair.drive(millis(15));
        }
        assert_eq!(pair.take_ladder().contains("A <- SACK <- Z"), acknowledged);
    }
}
