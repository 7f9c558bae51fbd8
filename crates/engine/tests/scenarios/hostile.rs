//! Garbage and mutated packets into both endpoints: nothing panics, nothing grows without bound.

use crate::chance::Chance;
use crate::craft::checksummed;
use crate::pair::{Pair, Side, address, millis};
use manypath_engine::PathAddr;
use manypath_wire::packet::CommonHeader;
use proptest::prelude::*;
use std::net::SocketAddr;

/// Changes a packet at a few places and makes its checksum good, so that it gets past it.
fn mutated(bytes: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + chance.below(4) {
        match chance.below(5) {
            0 => bytes.truncate(CommonHeader::LEN.max(chance.below(bytes.len() as u64) as usize)),
            1 => bytes.extend(chance.bytes(4)),
            // Lengths and counts are where parsers break: small numbers are the worst.
            2 => set(&mut bytes, chance, |chance| chance.below(8) as u8),
            3 => set(&mut bytes, chance, |_| 0xff),
            _ => set(&mut bytes, chance, |chance| chance.next() as u8),
        }
    }
    checksummed(bytes)
}

/// Sets one byte behind the common header, which keeps the tag good.
fn set(bytes: &mut [u8], chance: &mut Chance, value: impl Fn(&mut Chance) -> u8) {
    let behind = bytes.len().saturating_sub(CommonHeader::LEN);
    let at = CommonHeader::LEN + chance.below(behind as u64) as usize;
    if let Some(byte) = bytes.get_mut(at) {
        *byte = value(chance);
    }
}

fn strange_path(chance: &mut Chance) -> PathAddr {
    let mut socket = || {
        let ip = [10, 1 + chance.below(3) as u8, 0, chance.below(4) as u8];
        SocketAddr::from((ip, 9899 + chance.below(3) as u16))
    };
    PathAddr { local: socket(), remote: socket() }
}

fn assert_bounded(pair: &Pair) {
    for node in [&pair.a, &pair.z] {
        for id in node.endpoint.associations() {
            let status = node.endpoint.status(pair.now, id).unwrap();
            assert!(status.paths.len() <= 32);
            assert!(status.receive_queued <= 16 << 20);
        }
    }
}

/// Replays packets of a running conversation, mutated, while it goes on.
fn converse(seed: u64) {
    let mut chance = Chance(seed);
    let mut pair = Pair::new(2);
    pair.record = true;
    let a = pair.connect();
    pair.send(Side::A, a, 0, &[1; 5000]);
    for round in 0..30 {
        pair.drive(millis(chance.below(60)));
        for _ in 0..5 {
            let known = pair.recorded.len() as u64;
            let (from, addr, bytes) = pair.recorded[chance.below(known) as usize].clone();
            let back = PathAddr { local: addr.remote, remote: addr.local };
            let path = if chance.hits(900) { back } else { strange_path(&mut chance) };
            let (now, bytes) = (pair.now, mutated(&bytes, &mut chance));
            pair.node(from.other()).endpoint.handle_packet(now, path, &bytes);
        }
        if round == 20 {
            pair.a.endpoint.shutdown(pair.now, a);
        }
        pair.drain();
        assert_bounded(&pair);
    }
    pair.drive(millis(5000));
}

#[test]
fn mutated_packets_never_panic() {
    for seed in 0..1000 {
        converse(seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn garbage_never_panics(packets in prop::collection::vec(
        prop::collection::vec(any::<u8>(), 0..300), 1..20), good_checksum: bool) {
        let (mut pair, _, _) = Pair::established(1);
        for bytes in packets {
            let bytes = if good_checksum && bytes.len() >= 12 { checksummed(bytes) } else { bytes };
            for (side, peer) in [(Side::A, Side::Z), (Side::Z, Side::A)] {
                let path = PathAddr { local: address(side, 1), remote: address(peer, 1) };
                let now = pair.now;
                pair.node(side).endpoint.handle_packet(now, path, &bytes);
            }
            pair.drive(millis(5));
        }
    }

    #[test]
    fn random_chunks_with_the_right_tag_never_panic(
        kind in 0..20_u8, flags: u8, value in prop::collection::vec(any::<u8>(), 0..100)) {
        let (mut pair, _, _) = Pair::established(1);
        let tag = pair.tag_of(Side::Z);
        let mut bytes = crate::craft::packet(Side::A, tag, &[]);
        bytes.extend([kind, flags]);
        bytes.extend((4 + value.len() as u16).to_be_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        pair.inject(Side::A, 1, &checksummed(bytes));
        pair.drive(millis(3000));
    }
}
