//! Further keys.

use crate::managed::Managed;
use crate::pair::{Side, millis};
use manypath_engine::Duration;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn keys_are_replaced_each_hour_and_old_ones_go_after_two_minutes() {
    let mut it = Managed::protected(1);
    it.pair.quiet = true;
    assert_eq!(it.epochs(), (3, vec![3]));
    it.run(HOUR);
    assert_eq!(it.epochs(), (4, vec![3, 4]));
    it.run(Duration::from_secs(121));
    assert_eq!(it.epochs(), (4, vec![4]));
    for epoch in 5..9 {
        it.run(HOUR);
        assert_eq!(it.epochs().0, epoch);
    }
    it.send(Side::A, b"with the sixth key");
    it.run(millis(500));
    assert_eq!(it.z.received[0].0, "with the sixth key");
    assert_eq!((&it.a.failure, &it.z.failure), (&None, &None));
}

#[test]
fn messages_under_way_survive_a_change_of_keys_with_losses() {
    for seed in 0..10 {
        let mut it = Managed::protected(2);
        it.pair.quiet = true;
        it.pair.record = false;
        it.run(HOUR - Duration::from_secs(4));
        let chance = crate::chance::Chance(seed);
        let (loss, copies, damage, jitter) = (50, 50, 0, millis(40));
        it.pair.chaos = Some(crate::pair::Chaos { loss, copies, damage, jitter, chance });
        for number in 0..200_u8 {
            it.send(Side::A, &[number; 100]);
            it.send(Side::Z, &[number; 100]);
            it.run(millis(50));
        }
        it.pair.chaos = None;
        it.run(Duration::from_secs(60));
        assert_eq!(it.epochs().0, 4, "seed {seed}");
        for end in [&it.a, &it.z] {
            let numbers: Vec<_> = end.received.iter().map(|(message, _)| message[0]).collect();
            assert_eq!(numbers, (0..200).collect::<Vec<_>>(), "seed {seed}");
        }
    }
}

#[test]
fn an_outage_at_the_time_of_a_change_is_no_failure() {
    let mut it = Managed::protected(1);
    it.pair.quiet = true;
    it.run(HOUR - Duration::from_secs(1));
    it.pair.cut(1);
    it.run(Duration::from_secs(10));
    it.pair.restore(1);
    it.run(Duration::from_secs(60));
    assert_eq!(it.epochs().0, 4);
    assert_eq!((&it.a.failure, &it.z.failure), (&None, &None));
}

#[test]
fn keys_that_are_half_used_are_replaced_at_once_by_the_end_that_connected() {
    let mut it = Managed::protected(1);
    for (side, epoch) in [(Side::Z, 3), (Side::A, 4), (Side::A, 5), (Side::A, 6)] {
        it.rekey(side);
        it.run(millis(500));
        assert_eq!(it.epochs().0, epoch);
    }
    assert_eq!(it.epochs().1, [5, 6], "no more than two are received at a time");
    it.run(Duration::from_secs(121));
    assert_eq!(it.epochs().1, [6]);
}

#[test]
fn messages_wait_for_room_in_the_send_buffer() {
    let mut it = Managed::protected(1);
    it.pair.quiet = true;
    it.pair.cut(1);
    let full = |it: &mut Managed| {
        let (now, id) = (it.pair.now, it.a.id.unwrap());
        let message = crate::pair::message(1, &[7; 10_000]);
        it.pair.a.endpoint.send(now, id, message).is_err()
    };
    while !full(&mut it) {}
    it.rekey(Side::A);
    it.run(Duration::from_secs(3));
    it.pair.restore(1);
    it.run(Duration::from_secs(60));
    assert_eq!(it.epochs().0, 4);
    assert!(it.a.failure.is_none() && it.z.failure.is_none());
}
