//! Keys of several epochs.

use super::{Protected, is_record};
use crate::pair::{Side, millis};

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
