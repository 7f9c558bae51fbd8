//! What leaves when keys are there.

use super::{Protected, is_record, loose, offering};
use crate::chance::Chance;
use crate::pair::{Chaos, Side, millis};
use manypath_aead::CipherSuite;
use manypath_engine::{Config, Event, PathMtu};
use manypath_wire::chunk::types;

/// Text that would be seen in a packet.
const SECRET: &[u8] = b"attack at dawn, by the third gate; ";

fn message(number: u32) -> Vec<u8> {
    [&number.to_be_bytes(), &SECRET.repeat(60)[..]].concat()
}

fn received(pair: &mut Protected) -> Vec<u32> {
    let messages = std::mem::take(&mut pair.pair.z.received);
    messages.iter().map(|(_, it)| u32::from_be_bytes(it[..4].try_into().unwrap())).collect()
}

#[test]
fn data_arrives_over_two_lossy_paths_while_keys_change_and_nobody_can_read_it() {
    for suite in CipherSuite::ALL {
        let mut it = Protected::new(2);
        it.suite = suite;
        it.pair.quiet = true;
        it.pair.chaos =
            Some(Chaos { loss: 30, copies: 20, damage: 10, jitter: millis(15), chance: Chance(5) });
        for epoch in 4..9 {
            for number in 0..100 {
                it.pair.send(Side::A, it.a, 0, &message(epoch as u32 * 100 + number));
            }
            it.pair.drive(millis(40));
            it.rekey(epoch);
        }
        it.pair.drive(millis(30_000));
        assert_eq!(received(&mut it), (400..900).collect::<Vec<_>>(), "{suite:?}");
        let over = |path| {
            it.pair
                .recorded
                .iter()
                .filter(|(_, addr, _)| addr.local.ip() == crate::pair::address(Side::A, path).ip())
                .count()
        };
        assert!(over(1) > 50 && over(2) > 50, "both paths carry data");
        for (_, _, bytes) in &it.pair.recorded {
            assert!(is_record(bytes), "{bytes:x?}");
            assert!(!bytes.windows(8).any(|seen| SECRET.windows(8).any(|part| part == seen)));
        }
        let usage = it.pair.z.endpoint.key_use(it.z).unwrap();
        let opened: u64 = usage.opening.iter().map(|key| key.opened).sum();
        assert_eq!(usage.opening.iter().map(|key| key.epoch).collect::<Vec<_>>(), [5, 6, 7, 8]);
        assert!(opened > 300 && it.counter("replayed_records") > 0);
    }
}

#[test]
fn packets_are_as_large_as_without_and_leave_in_runs() {
    let mut it = Protected::new(1);
    it.pair.runs.clear();
    for number in 0..400 {
        it.pair.send(Side::A, it.a, 0, &message(number));
    }
    it.pair.drive(millis(3000));
    assert_eq!(received(&mut it).len(), 400);
    let largest = it.pair.recorded.iter().map(|(_, _, bytes)| bytes.len()).max();
    assert_eq!(largest, Some((1500 - 20 - 8) & !3));
    let longest = it.pair.runs.iter().map(|run| run.packets).max();
    assert!(longest >= Some(4), "{longest:?}");
    let fragment = it.pair.a.endpoint.fragment_size(it.a);
    assert_eq!(fragment, (1500 - 20 - 8) - 12 - 28 - 16);
}

#[test]
fn the_search_for_the_mtu_counts_what_protection_takes() {
    let search = |side| Config { path_mtu: PathMtu::Search, ..offering(side, loose()) };
    let mut it = Protected::with(1, search(Side::A), search(Side::Z));
    it.pair.links.get_mut(&1).unwrap().largest = 1400;
    it.pair.send(Side::A, it.a, 0, &[7; 40_000]);
    it.pair.drive(millis(60_000));
    let mtu = it.pair.a.endpoint.status(it.pair.now, it.a).unwrap().paths[0].mtu;
    assert!((1400..=1428).contains(&mtu), "{mtu}");
    assert_eq!(it.pair.z.received.len(), 1);
    assert!(it.pair.recorded.iter().all(|(_, _, bytes)| is_record(bytes)));
}

#[test]
fn heartbeats_and_the_end_are_protected_too() {
    let mut it = Protected::new(2);
    it.pair.drive(millis(60_000));
    assert!(it.pair.recorded.len() > 4, "HEARTBEATs and their answers");
    let (now, a) = (it.pair.now, it.a);
    it.pair.a.endpoint.shutdown(now, a);
    it.pair.drive(millis(1000));
    assert!(it.pair.recorded.iter().all(|(_, _, bytes)| is_record(bytes)));
    assert_eq!(it.pair.z.endpoint.associations(), []);
    assert_eq!(it.pair.a.endpoint.associations(), []);
    let mut it = Protected::new(1);
    let (now, a) = (it.pair.now, it.a);
    it.pair.a.endpoint.abort(now, a, b"enough");
    it.pair.drive(millis(100));
    assert!(it.pair.recorded.iter().all(|(_, _, bytes)| is_record(bytes)));
    let aborted = |event: &&Event| matches!(event, Event::Closed(_));
    assert_eq!(it.pair.z.heard().into_iter().filter(aborted).count(), 1);
}

#[test]
fn what_was_sent_before_the_keys_is_repeated_under_them() {
    let (a, z) = (offering(Side::A, loose()), offering(Side::Z, loose()));
    let (pair, a, z) = crate::pair::Pair::established_with(1, a, z);
    let mut it = Protected { pair, a, z, suite: CipherSuite::ChaCha20Poly1305 };
    it.pair.lose(Side::A, "DATA", 1);
    it.pair.send(Side::A, a, 0, &message(1));
    it.pair.drain();
    it.rekey(3);
    it.pair.record = true;
    it.pair.drive(millis(2000));
    assert_eq!(received(&mut it), [1]);
    assert!(it.pair.recorded.iter().all(|(_, _, bytes)| bytes[12] == types::DTLS));
    assert!(it.pair.recorded.iter().all(|(_, _, bytes)| bytes.len() <= 1472));
}
