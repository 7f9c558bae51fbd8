//! Packets of others, and packets that were changed, repeated or bundled on the way.

use super::{Protected, SETUP, types_of};
use crate::chance::Chance;
use crate::craft::{checksummed, init, packet};
use crate::pair::{PORT_A, Side, millis};
use manypath_engine::AssociationStatus;
use manypath_engine::protection::KeyUse;
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
    match super::parsed(bytes).chunks().next() {
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
        forged[8..12].fill(0);
        assert!(!it.changes(&forged), "bit {bit}, without a checksum");
        assert!(!it.changes(&checksummed(forged)), "bit {bit}");
    }
    let dropped = ["malformed_records", "unknown_epochs", "replayed_records", "forged_records"];
    let dropped: u64 = dropped.iter().map(|name| it.counter(name)).sum();
    assert_eq!(dropped as usize, 2 * (whole.len() - 3 - 17) * 8);
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

/// Records that an attacker has seen, and what can be made of them.
struct Attacker {
    chance: Chance,
    tag: u32,
    /// Records of both ends, all of which have arrived.
    seen: Vec<Vec<u8>>,
}

impl Attacker {
    /// A packet that Z has not got from A in this form, or not for the first time. Neither INIT, COOKIE ECHO nor
    /// ABORT: those are answered, and have tests of their own.
    fn packet(&mut self) -> Vec<u8> {
        let chance = &mut self.chance;
        let seen = &self.seen[chance.below(self.seen.len() as u64) as usize];
        let own = record(seen);
        let mut bytes = match chance.below(5) {
            0 => own,
            1 => chance.bytes(chance.clone().below(90) as usize),
            2 => [&[0x28 | chance.below(4) as u8][..], &own[1..]].concat(),
            3 => own[..chance.below(own.len() as u64) as usize].to_vec(),
            _ => own.iter().rev().copied().collect(),
        };
        for _ in 0..chance.below(4) {
            if let Some(last) = bytes.len().checked_sub(1) {
                bytes[chance.below(1 + last as u64) as usize] ^= 1 << chance.below(8);
            }
        }
        let dtls = Chunk::Dtls(Dtls { restart: chance.hits(100), record: &bytes });
        let shutdown = Chunk::Shutdown(Shutdown { cum_tsn: Tsn(chance.below(1 << 32) as u32) });
        let mut packet = match chance.below(8) {
            0 => self.clear(),
            1 => packet(Side::A, self.tag, &[shutdown]),
            2 => packet(Side::A, self.tag, &[dtls, shutdown]),
            3 => checksummed([&packet(Side::A, self.tag, &[dtls])[..], &[0; 4]].concat()),
            // Once more what A has sent, or what Z has sent itself.
            4 => checksummed([&packet(Side::A, self.tag, &[])[..12], &seen[12..]].concat()),
            _ => packet(Side::A, self.tag, &[dtls]),
        };
        if self.chance.hits(500) {
            packet[8..12].fill(0);
        }
        packet
    }

    /// A chunk without protection, of any type but those, with anything in it.
    fn clear(&mut self) -> Vec<u8> {
        let answered = [types::INIT, types::COOKIE_ECHO, types::ABORT];
        let kind = loop {
            let kind = self.chance.below(256) as u8;
            if !answered.contains(&kind) {
                break kind;
            }
        };
        let value = self.chance.bytes(self.chance.clone().below(60) as usize);
        let len = (4 + value.len()) as u16;
        let header = &packet(Side::A, self.tag, &[])[..12];
        let head = [&[kind, self.chance.next() as u8][..], &len.to_be_bytes()].concat();
        let padding = [0; 3];
        let padding = &padding[..(4 - value.len() % 4) % 4];
        checksummed([header, &head, &value, padding].concat())
    }
}

/// An association over two paths with data both ways, which somebody has seen all of.
fn watched(seed: u64) -> (Protected, Attacker) {
    let mut it = Protected::new(2);
    let (a, z) = (it.a, it.z);
    for _ in 0..20 {
        it.pair.send(Side::A, a, 0, &[1; 3000]);
        it.pair.send(Side::Z, z, 0, b"an answer");
        it.pair.drive(millis(50));
    }
    it.pair.drive(millis(5_000));
    it.pair.quiet = true;
    it.pair.z.received.clear();
    let seen = std::mem::take(&mut it.pair.recorded);
    let of_a = seen.iter().find(|(from, ..)| *from == Side::A).unwrap();
    let tag = u32::from_be_bytes(of_a.2[4..8].try_into().unwrap());
    let seen = seen.into_iter().map(|(_, _, bytes)| bytes).filter(|bytes| super::is_record(bytes));
    (it, Attacker { chance: Chance(seed), tag, seen: seen.collect() })
}

#[test]
fn a_million_hostile_packets_change_nothing() {
    for seed in 0..10 {
        let (mut it, mut attacker) = watched(seed);
        let (before, allowed) = (it.state_of_z(), it.pair.z.endpoint.key_use(it.z));
        let opened = |usage: Option<KeyUse>| -> u64 {
            usage.unwrap().opening.iter().map(|epoch| epoch.opened).sum()
        };
        for round in 0..100_000_u32 {
            let from = 1 + (round % 2) as u8;
            let path = manypath_engine::PathAddr {
                local: crate::pair::address(Side::Z, from),
                remote: crate::pair::address(Side::A, from),
            };
            it.pair.z.endpoint.handle_packet(it.pair.now, path, &attacker.packet());
            it.pair.drain();
            if round % 1000 == 0 {
                assert_eq!(it.state_of_z(), before, "seed {seed}, before packet {round}");
            }
        }
        assert_eq!(it.state_of_z(), before, "seed {seed}");
        assert_eq!(it.pair.z.received, []);
        assert_eq!(opened(it.pair.z.endpoint.key_use(it.z)), opened(allowed), "nothing is opened");
        assert_eq!(it.pair.recorded, [], "no answers");
        it.pair.send(Side::A, it.a, 0, b"still there");
        it.pair.drive(millis(500));
        assert_eq!(it.pair.z.received, [(0, "still there".into())]);
    }
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
