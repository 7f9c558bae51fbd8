//! Packets of others, and packets that were changed, repeated or bundled on the way.

use super::{Protected, SETUP, types_of};
use crate::chance::Chance;
use crate::craft::{checksummed, init, packet};
use crate::pair::{PORT_A, Side, millis};
use manypath_engine::AssociationStatus;
use manypath_wire::Tsn;
use manypath_wire::chunk::{Chunk, Dtls, Shutdown, ShutdownComplete, types};

impl Protected {
    fn state_of_z(&self) -> AssociationStatus {
        let mut status = self.pair.z.endpoint.status(self.pair.now, self.z).unwrap();
        // These only tell how much time has passed.
        for path in &mut status.paths {
            (path.since_data_sent, path.since_data_received) = (None, None);
        }
        status
    }

    /// Z gets `bytes`. Whether that changes anything but counters.
    fn changes(&mut self, bytes: &[u8]) -> bool {
        let before = (self.state_of_z(), self.pair.z.events.len());
        let path = manypath_engine::PathAddr {
            local: crate::pair::address(Side::Z, 1),
            remote: crate::pair::address(Side::A, 1),
        };
        self.pair.z.endpoint.handle_packet(self.pair.now, path, bytes);
        self.pair.drain();
        before != (self.state_of_z(), self.pair.z.events.len())
    }

    /// The tag of packets to Z.
    pub(super) fn tag(&mut self) -> u32 {
        let bytes = self.packet_of_a(b"tag");
        u32::from_be_bytes(bytes[4..8].try_into().unwrap())
    }
}

/// The record of a packet.
fn record(bytes: &[u8]) -> Vec<u8> {
    match manypath_wire::packet::Packet::parse(bytes).unwrap().chunks().next() {
        Some(Ok(Chunk::Dtls(dtls))) => dtls.record.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_flipped_bit_anywhere_behind_the_tag_is_dropped_and_counted() {
    let mut it = Protected::new(1);
    let whole = it.packet_of_a(b"a message");
    for bit in 16 * 8 + 8..(whole.len() - 3) * 8 {
        let mut forged = whole.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        assert!(!it.changes(&checksummed(forged)), "bit {bit}");
    }
    let dropped = ["malformed_records", "unknown_epochs", "replayed_records", "forged_records"];
    let dropped: u64 = dropped.iter().map(|name| it.counter(name)).sum();
    assert_eq!(dropped as usize, (whole.len() - 3 - 17) * 8);
    assert!(it.changes(&whole), "as it was sent it arrives");
    assert_eq!(it.pair.z.received, [(0, "a message".into())]);
}

#[test]
fn a_packet_is_taken_once() {
    let mut it = Protected::new(1);
    let whole = it.packet_of_a(b"once");
    assert!(it.changes(&whole));
    for _ in 0..10 {
        assert!(!it.changes(&whole));
    }
    assert_eq!(it.counter("replayed_records"), 10);
    assert_eq!(it.pair.z.received.len(), 1);
}

#[test]
fn a_hundred_thousand_hostile_packets_change_nothing() {
    let mut it = Protected::new(2);
    it.pair.quiet = true;
    let (tag, whole) = (it.tag(), it.packet_of_a(b"seen by an attacker"));
    assert!(it.changes(&whole));
    it.pair.drive(millis(5_000));
    it.pair.z.received.clear();
    let (before, mut chance) = (it.state_of_z(), Chance(9));
    let seen = record(&whole);
    for round in 0..100_000_u64 {
        let mut bytes = match round % 4 {
            0 => seen.clone(),
            1 => (0..chance.below(90)).map(|_| chance.below(256) as u8).collect(),
            2 => [&[0x28 | chance.below(4) as u8][..], &seen[1..]].concat(),
            _ => seen[..chance.below(seen.len() as u64) as usize].to_vec(),
        };
        for _ in 0..chance.below(4) {
            if let Some(last) = bytes.len().checked_sub(1) {
                bytes[chance.below(1 + last as u64) as usize] ^= 1 << chance.below(8);
            }
        }
        let dtls = Chunk::Dtls(Dtls { restart: chance.hits(100), record: &bytes });
        let shutdown = Chunk::Shutdown(Shutdown { cum_tsn: Tsn(chance.below(1 << 32) as u32) });
        let chunks: &[Chunk<'_>] = match round % 7 {
            5 => &[shutdown],
            6 => &[dtls, shutdown],
            _ => &[dtls],
        };
        let path = manypath_engine::PathAddr {
            local: crate::pair::address(Side::Z, 1),
            remote: crate::pair::address(Side::A, 1),
        };
        it.pair.z.endpoint.handle_packet(it.pair.now, path, &packet(Side::A, tag, chunks));
        it.pair.drain();
    }
    assert_eq!(it.state_of_z(), before);
    assert_eq!(it.pair.z.received, []);
    assert!(it.pair.recorded.iter().all(|(_, _, bytes)| super::is_record(bytes)), "no answers");
    it.pair.send(Side::A, it.a, 0, b"still there");
    it.pair.drive(millis(500));
    assert_eq!(it.pair.z.received, [(0, "still there".into())]);
}

#[test]
fn packets_without_protection_are_dropped_in_silence() {
    let mut it = Protected::new(1);
    let tag = it.tag();
    it.pair.drive(millis(5_000));
    let peer = it.tag_of_peer();
    let complete = Chunk::ShutdownComplete(ShutdownComplete { tag_reflected: true });
    let forged = [
        packet(Side::A, peer, &[complete]),
        packet(Side::A, tag, &[Chunk::ShutdownAck]),
        packet(Side::A, tag, &[Chunk::Shutdown(Shutdown { cum_tsn: Tsn(0) })]),
        packet(Side::A, tag, &[Chunk::CookieAck]),
    ];
    let sent = it.pair.recorded.len();
    for bytes in &forged {
        assert!(!it.changes(bytes));
    }
    assert_eq!(it.counter("unprotected_packets"), forged.len() as u64);
    assert_eq!(it.pair.recorded.len(), sent, "no answers");
}

#[test]
fn a_record_beside_another_chunk_is_dropped_with_it() {
    let mut it = Protected::new(1);
    let (tag, whole) = (it.tag(), it.packet_of_a(b"alone"));
    let record = record(&whole);
    let dtls = Chunk::Dtls(Dtls { restart: false, record: &record });
    for chunks in [[dtls, Chunk::CookieAck], [Chunk::CookieAck, dtls], [dtls, dtls]] {
        assert!(!it.changes(&packet(Side::A, tag, &chunks)));
    }
    assert_eq!(it.counter("bundled_records"), 3);
    assert!(!it.changes(&packet(
        Side::A,
        tag,
        &[Chunk::Dtls(Dtls { restart: true, record: &record })]
    )));
    assert_eq!(it.counter("unknown_epochs"), 1, "there are no keys for restarts");
    assert!(it.changes(&packet(Side::A, tag, &[dtls])));
}

#[test]
fn a_restart_without_its_keys_is_not_answered() {
    let mut it = Protected::new(1);
    it.pair.drive(millis(5_000));
    let sent = it.pair.recorded.len();
    it.pair.inject(Side::A, 1, &init(77, &[]));
    it.pair.drive(millis(20));
    let answer = it.pair.recorded[sent..].iter().find(|(from, ..)| *from == Side::Z).unwrap();
    assert!(SETUP.contains(&types_of(&answer.2)[0]), "INIT and INIT ACK are not protected");
    let echo = crate::craft::cookie_echo(&answer.2);
    let sent = it.pair.recorded.len();
    it.pair.inject(Side::A, 1, &echo);
    it.pair.drive(millis(5_000));
    let answers = it.pair.recorded[sent..].iter().filter(|(from, ..)| *from == Side::Z);
    assert!(answers.map(|(_, _, bytes)| bytes).all(|bytes| super::is_record(bytes)));
    assert_eq!(it.counter("unprotected_packets"), 1);
    assert_eq!(it.pair.z.endpoint.associations(), [it.z]);
    assert_eq!(u16::from_be_bytes(echo[..2].try_into().unwrap()), PORT_A);
    assert_eq!(types_of(&echo), [types::COOKIE_ECHO]);
}
