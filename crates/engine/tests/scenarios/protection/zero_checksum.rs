//! Records without a checksum (RFC 9653): the tag of the AEAD tells more.

use super::{Protected, is_record, loose, offering, parsed};
use crate::craft::{checksummed, packet};
use crate::pair::{Pair, Side, address, millis};
use manypath_aead::CipherSuite;
use manypath_engine::{Config, Duration, Event, LocalAddress, PathAddr, PathState};
use manypath_wire::chunk::{Chunk, Shutdown};
use manypath_wire::{Packet, Tsn};

fn omits(bytes: &[u8]) -> bool {
    bytes[8..12] == [0; 4]
}

/// What `side` has sent since packets are recorded.
fn sent(it: &Protected, side: Side) -> impl Iterator<Item = &[u8]> {
    it.pair.recorded.iter().filter(move |(from, ..)| *from == side).map(|(_, _, bytes)| &bytes[..])
}

/// A transfer after which everything has arrived.
fn transfer(it: &mut Protected, messages: usize) {
    for _ in 0..messages {
        it.pair.send(Side::A, it.a, 0, &[7; 20_000]);
        it.pair.drive(millis(50));
    }
    it.pair.drive(millis(30_000));
    assert_eq!(it.pair.z.received.len(), messages);
}

/// The last packet of a message, of which Z has got nothing.
fn lost_without_checksum(it: &mut Protected) -> Vec<u8> {
    it.pair.lose(Side::A, "DTLS", 3);
    it.pair.send(Side::A, it.a, 0, &[7; 4_000]);
    it.pair.drain();
    it.pair.last_lost.clone().filter(|bytes| omits(bytes)).expect("one without")
}

#[test]
fn records_have_none_and_are_counted() {
    let mut it = Protected::new(2);
    transfer(&mut it, 10);
    assert!(it.pair.recorded.len() > 100);
    assert!(it.pair.recorded.iter().all(|(_, _, bytes)| is_record(bytes)));
    for side in [Side::A, Side::Z] {
        let (without, with) = sent(&it, side).partition::<Vec<_>, _>(|bytes| omits(bytes));
        assert!(without.len() > with.len() * 2, "{side:?}: {} and {}", without.len(), with.len());
    }
    let arrived = sent(&it, Side::A).filter(|bytes| omits(bytes)).count() as u64;
    assert_eq!((it.counter("zero_checksums"), it.counter("bad_checksum")), (arrived, 0));
}

#[test]
fn what_is_not_protected_has_one() {
    let (mut pair, a, z) =
        Pair::established_with(1, offering(Side::A, loose()), offering(Side::Z, loose()));
    pair.record = true;
    pair.send(Side::A, a, 0, b"before there are keys");
    pair.drive(millis(500));
    assert!(pair.recorded.len() > 1);
    assert!(pair.recorded.iter().all(|(_, _, bytes)| Packet::parse(bytes).is_ok()));
    let mut it = Protected { pair, a, z, suite: CipherSuite::Aes128Gcm };
    it.pair.recorded.clear();
    it.rekey(3);
    it.pair.send(Side::A, a, 0, &[7; 4_000]);
    it.pair.drive(millis(500));
    assert!(it.pair.recorded.iter().all(|(_, _, bytes)| is_record(bytes)));
    assert!(sent(&it, Side::A).any(omits) && sent(&it, Side::Z).any(omits));
}

#[test]
fn a_packet_with_an_asconf_has_one() {
    let changing = |side| Config { address_reconfiguration: true, ..offering(side, loose()) };
    let mut it = Protected::with(1, changing(Side::A), changing(Side::Z));
    let addr = address(Side::A, 2);
    let local = LocalAddress { addr, prefix_len: 24, interface: 0, mtu: 1500 };
    it.pair.links.insert(2, it.pair.links[&1]);
    it.pair.a.endpoint.add_local_address(local);
    let (now, a) = (it.pair.now, it.a);
    it.pair.a.endpoint.add_address(now, a, addr.ip()).unwrap();
    it.pair.drive(millis(20));
    let first = sent(&it, Side::A).next().unwrap();
    assert!(is_record(first) && Packet::parse(first).is_ok());
}

#[test]
fn without_encapsulation_packets_have_one() {
    let mut it = Protected::new(1);
    let native = lost_without_checksum(&mut it);
    let port = |mut addr: std::net::SocketAddr| {
        addr.set_port(0);
        addr
    };
    let addr = PathAddr { local: port(address(Side::A, 1)), remote: port(address(Side::Z, 1)) };
    it.pair.recorded.clear();
    it.pair.inject_from(Side::A, addr, &native);
    it.pair.drive(millis(500));
    let mut answers = sent(&it, Side::Z);
    assert!(answers.all(|bytes| is_record(bytes) && Packet::parse(bytes).is_ok()));
    assert!(sent(&it, Side::Z).count() > 0);
}

#[test]
fn a_peer_that_does_not_take_it_gets_one() {
    // INIT names another method of error detection, as that of an end without this one does.
    let other = |bytes: &mut Vec<u8>| {
        let at = bytes.windows(4).position(|it| it == [0x80, 0x01, 0, 8]);
        if let Some(at) = at {
            bytes[at + 7] ^= 1;
            *bytes = checksummed(std::mem::take(bytes));
        }
    };
    let mut pair = Pair::with(1, offering(Side::A, loose()), offering(Side::Z, loose()));
    pair.mangle = Some(other);
    let a = pair.connect();
    pair.drive(millis(500));
    let z = pair.z.endpoint.associations()[0];
    let mut it = Protected { pair, a, z, suite: CipherSuite::Aes128Gcm };
    it.rekey(3);
    it.pair.record = true;
    transfer(&mut it, 3);
    assert!(it.pair.recorded.iter().all(|(_, _, bytes)| Packet::parse(bytes).is_ok()));
}

#[test]
fn only_records_with_the_right_tag_and_under_a_key_may_be_without() {
    let mut it = Protected::new(1);
    let tag = it.tag();
    let whole = lost_without_checksum(&mut it);
    let mut other_tag = whole.clone();
    other_tag[7] ^= 1;
    let mut other_port = whole.clone();
    other_port[1] ^= 1;
    let mut plain = packet(Side::A, tag, &[Chunk::Shutdown(Shutdown { cum_tsn: Tsn(0) })]);
    plain[8..12].fill(0);
    let path = PathAddr { local: address(Side::Z, 1), remote: address(Side::A, 1) };
    for (number, bytes) in [other_tag, other_port, plain].iter().enumerate() {
        it.pair.z.endpoint.handle_packet(it.pair.now, path, bytes);
        assert_eq!(it.counter("bad_checksum"), number as u64 + 1);
    }
    let mut unkeyed =
        Pair::established_with(1, offering(Side::A, loose()), offering(Side::Z, loose())).0;
    let tag = unkeyed.tag_of(Side::Z);
    let Some(Ok(record)) = parsed(&whole).chunks().next() else { panic!("a record") };
    let mut bytes = packet(Side::A, tag, &[record]);
    bytes[8..12].fill(0);
    unkeyed.z.endpoint.handle_packet(unkeyed.now, path, &bytes);
    assert_eq!(unkeyed.z.endpoint.counters().bad_checksum, 1);
}

#[test]
fn where_something_on_the_way_drops_them_they_get_one_and_no_path_fails() {
    let mut it = Protected::new(2);
    // It takes what has no right checksum for damaged.
    it.pair.mangle = Some(|bytes| {
        if omits(bytes) {
            bytes[8] = 1;
        }
    });
    transfer(&mut it, 20);
    let status = it.pair.a.endpoint.status(it.pair.now, it.a).unwrap();
    for path in &status.paths {
        assert_eq!(path.state, PathState::Active);
        assert!(path.timeouts <= 4, "{}", path.timeouts);
    }
    it.pair.recorded.clear();
    it.pair.send(Side::A, it.a, 0, &[7; 20_000]);
    it.pair.drive(millis(500));
    assert_eq!(it.pair.z.received.len(), 21, "without a loss");
    assert!(sent(&it, Side::A).all(|bytes| Packet::parse(bytes).is_ok()));
}

#[test]
fn where_something_on_the_way_drops_them_an_idle_path_does_not_fail_again_and_again() {
    let mut it = Protected::new(2);
    it.pair.mangle = Some(|bytes| {
        if omits(bytes) {
            bytes[8] = 1;
        }
    });
    it.pair.drive(Duration::from_secs(900));
    for path in it.pair.a.endpoint.status(it.pair.now, it.a).unwrap().paths {
        assert_eq!(path.state, PathState::Active);
        let fails = |event: &&&Event| matches!(event, Event::PathChanged { path: id, state } if *id == path.id && *state != PathState::Active);
        assert!(it.pair.a.heard().iter().filter(fails).count() <= 3, "{:#?}", it.pair.a.heard());
    }
}
