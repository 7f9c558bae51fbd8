//! Keys of several epochs.

use super::{Protected, is_record, loose, offering};
use crate::pair::{Pair, Side, message, millis};
use manypath_engine::protection::{
    KEY_MANAGEMENT, Limits, NONCE_LEN, RecordCipher, RecordKey, SAMPLE_LEN, TAG_LEN,
};
use manypath_engine::{Event, Outgoing, Ppid};

#[test]
fn late_packets_of_an_old_epoch_are_taken_until_it_is_retired() {
    let mut it = Protected::new(1);
    let old = [(); 2].map(|()| it.packet_of_a(b"late"));
    it.rekey(4);
    it.pair.drive(millis(3_000));
    assert_eq!(it.pair.z.received.len(), 2, "sent again in the new epoch");
    it.pair.inject(Side::A, 1, &old[0]);
    it.pair.drive(millis(50));
    assert_eq!(it.counter("duplicate_data"), 1);
    let (now, z) = (it.pair.now, it.z);
    it.pair.z.endpoint.retire_receiving_key(now, z, 3).unwrap();
    it.pair.inject(Side::A, 1, &old[1]);
    it.pair.drive(millis(50));
    assert_eq!((it.counter("duplicate_data"), it.counter("unknown_epochs")), (1, 1));
}

#[test]
fn keys_may_come_to_one_end_after_the_other() {
    let mut it = Protected::new(1);
    let (now, suite) = (it.pair.now, it.suite);
    let key = |from| super::key(suite, from, 4);
    it.pair.z.endpoint.install_receiving_key(now, it.z, 4, key(Side::A)).unwrap();
    it.pair.a.endpoint.install_sending_key(now, it.a, 4, key(Side::A)).unwrap();
    it.pair.send(Side::A, it.a, 0, b"in epoch 4");
    it.pair.send(Side::Z, it.z, 0, b"in epoch 3");
    it.pair.drive(millis(300));
    assert_eq!(it.pair.z.received, [(0, "in epoch 4".into())]);
    assert_eq!(it.pair.a.received, [(0, "in epoch 3".into())]);
    let usage = it.pair.z.endpoint.key_use(it.z).unwrap();
    assert_eq!(usage.opening.iter().map(|key| key.epoch).collect::<Vec<_>>(), [3, 4]);
    assert!(usage.opening[1].opened > 0 && usage.sealing.unwrap().0 == 3);
}

#[test]
fn the_peers_key_may_be_used_before_it_is_required() {
    let mut it = Protected::new(1);
    let whole = it.packet_of_a(b"for the next epoch");
    assert!(is_record(&whole));
    let (now, suite) = (it.pair.now, it.suite);
    let next = super::key(suite, Side::A, 4);
    it.pair.a.endpoint.install_sending_key(now, it.a, 4, next).unwrap();
    it.pair.send(Side::A, it.a, 1, b"too early");
    it.pair.drive(millis(100));
    assert!(it.counter("unknown_epochs") > 0);
    let next = super::key(suite, Side::A, 4);
    it.pair.z.endpoint.install_receiving_key(it.pair.now, it.z, 4, next).unwrap();
    it.pair.drive(millis(5_000));
    assert_eq!(it.pair.z.received.len(), 2, "both were sent again");
}

#[test]
fn user_messages_without_protection_are_dropped_from_the_first_key_on() {
    for (ppid, arrives) in [(Ppid(0), false), (KEY_MANAGEMENT, true)] {
        let (a, z) = (offering(Side::A, loose()), offering(Side::Z, loose()));
        let (mut pair, a, z) = Pair::established_with(1, a, z);
        pair.lose(Side::A, "DATA", 1);
        let plain = Outgoing { ppid, ..message(0, b"plain") };
        pair.a.endpoint.send(pair.now, a, plain).unwrap();
        pair.drain();
        let (now, suite) = (pair.now, manypath_aead::CipherSuite::Aes128Gcm);
        let key = super::key(suite, Side::A, 3);
        pair.z.endpoint.install_receiving_key(now, z, 3, key).unwrap();
        pair.drive(millis(5_000));
        assert_eq!(!pair.z.received.is_empty(), arrives);
        let dropped = pair.z.endpoint.counters().unprotected_packets;
        assert_eq!(dropped > 0, !arrives);
    }
}

/// A cipher that protects nothing, for few records.
struct ShortLived;

impl ShortLived {
    const RECORDS: u64 = 10_000;

    fn key() -> RecordKey {
        RecordKey::new(Self, [0; NONCE_LEN])
    }
}

impl RecordCipher for ShortLived {
    fn seal(&self, _: [u8; NONCE_LEN], _: &[u8], _: &mut [u8]) -> Option<[u8; TAG_LEN]> {
        Some([0; TAG_LEN])
    }

    fn open(&self, _: [u8; NONCE_LEN], _: &[u8], content: &mut [u8]) -> bool {
        content.ends_with(&[0; TAG_LEN])
    }

    fn mask(&self, _: &[u8; SAMPLE_LEN]) -> [u8; 2] {
        [0; 2]
    }

    fn limits(&self) -> Limits {
        Limits { sealed: Self::RECORDS, failures: 1 << 36 }
    }
}

#[test]
fn both_ends_hear_once_for_each_key_that_half_of_it_is_used() {
    let (a, z) = (offering(Side::A, loose()), offering(Side::Z, loose()));
    let (mut pair, a, z) = Pair::established_with(1, a, z);
    pair.quiet = true;
    for epoch in [3, 4] {
        let now = pair.now;
        for (side, id) in [(Side::A, a), (Side::Z, z)] {
            let endpoint = &mut pair.node(side).endpoint;
            endpoint.install_receiving_key(now, id, epoch, ShortLived::key()).unwrap();
            endpoint.install_sending_key(now, id, epoch, ShortLived::key()).unwrap();
        }
        let sealed = |pair: &Pair| pair.a.endpoint.key_use(a).unwrap().sealing.unwrap().1;
        let said = |pair: &Pair| {
            [&pair.a, &pair.z]
                .map(|node| node.heard().iter().filter(|event| ***event == Event::RekeyDue).count())
        };
        let before = epoch as usize - 3;
        while sealed(&pair) < ShortLived::RECORDS / 2 + 100 {
            if sealed(&pair) < ShortLived::RECORDS / 2 - 10 {
                assert_eq!(said(&pair), [before; 2]);
            }
            pair.send(Side::A, a, 0, b"one packet");
            pair.drive(millis(21));
        }
        assert_eq!(said(&pair), [before + 1; 2]);
    }
}
