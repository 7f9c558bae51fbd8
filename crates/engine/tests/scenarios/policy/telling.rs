//! The peer learns what is wanted of a path, on the path itself.

use super::{backup, metered, path, want, wanted};
use crate::pair::{Pair, Side, millis};
use manypath_engine::{Duration, Event, PathId, PathPolicy};

#[test]
fn a_heartbeat_tells_the_peer_and_its_answer_is_the_receipt() {
    let (mut pair, a, z) = wanted(&[]);
    want(&mut pair, Side::A, &[(2, backup())]);
    pair.drive(millis(100));
    pair.expect(
        "A -2> HEARTBEAT -> Z
         A <2- HEARTBEAT_ACK <- Z",
    );
    assert_eq!(path(&mut pair, Side::A, a, 2).policy, backup());
    assert_eq!(path(&mut pair, Side::Z, z, 2).peer_policy, backup());
    let told = Event::PathPolicy { path: PathId(1), policy: backup() };
    assert_eq!(pair.a.heard(), [&told]);
    assert_eq!(pair.z.heard(), [&told]);
}

#[test]
fn a_lost_heartbeat_is_repeated() {
    let (mut pair, _, z) = wanted(&[]);
    pair.lose(Side::A, "HEARTBEAT", 2);
    want(&mut pair, Side::A, &[(2, backup())]);
    pair.drive(Duration::from_secs(3));
    assert_eq!(path(&mut pair, Side::Z, z, 2).peer_policy, backup());
}

#[test]
fn the_default_is_told_as_well_when_something_else_was() {
    let (mut pair, _, z) = wanted(&[(2, backup())]);
    assert_eq!(path(&mut pair, Side::Z, z, 2).peer_policy, backup());
    want(&mut pair, Side::A, &[]);
    pair.drive(millis(100));
    assert_eq!(path(&mut pair, Side::Z, z, 2).peer_policy, PathPolicy::default());
}

#[test]
fn both_ends_may_want_something() {
    let (mut pair, a, z) = wanted(&[(2, PathPolicy { cost: 4, ..metered(5000) })]);
    want(&mut pair, Side::Z, &[(2, PathPolicy { cost: 3, ..metered(9000) })]);
    pair.drive(millis(100));
    let both = PathPolicy { cost: 7, ..metered(5000) };
    let heard = |pair: &Pair, side: Side| {
        let node = if side == Side::A { &pair.a } else { &pair.z };
        node.heard().into_iter().rev().find_map(|event| match event {
            Event::PathPolicy { policy, .. } => Some(*policy),
            _ => None,
        })
    };
    assert_eq!((heard(&pair, Side::A), heard(&pair, Side::Z)), (Some(both), Some(both)));
    assert_eq!(path(&mut pair, Side::A, a, 2).peer_policy.cost, 3);
    assert_eq!(path(&mut pair, Side::Z, z, 2).peer_policy.cost, 4);
}

#[test]
fn the_primary_path_of_one_end_is_that_of_the_other() {
    let primary = PathPolicy { primary: true, ..PathPolicy::default() };
    let (mut pair, a, z) = wanted(&[]);
    want(&mut pair, Side::A, &[(2, primary)]);
    pair.drive(millis(100));
    for (side, id) in [(Side::A, a), (Side::Z, z)] {
        assert!(path(&mut pair, side, id, 2).primary, "{side:?}");
    }
    want(&mut pair, Side::Z, &[(1, primary)]);
    pair.drive(millis(100));
    // Each end goes by its own wish first.
    assert!(path(&mut pair, Side::Z, z, 1).primary);
    assert!(path(&mut pair, Side::A, a, 2).primary);
}

#[test]
fn what_times_out_goes_to_the_primary_path() {
    let primary = PathPolicy { primary: true, ..PathPolicy::default() };
    for (chosen, other) in [(2, 3), (3, 2)] {
        let mut pair = Pair::new(3);
        let a = pair.connect();
        want(&mut pair, Side::A, &[(chosen, primary)]);
        pair.drive(millis(500));
        // All of it fits into the window of the first path, which is dead.
        pair.cut(1);
        pair.send(Side::A, a, 0, &[1; 4_000]);
        pair.drive(Duration::from_secs(2));
        assert_eq!(pair.z.received.len(), 1);
        let repeated =
            |path: usize, pair: &mut Pair| super::path(pair, Side::A, a, path).bytes_retransmitted;
        let (by_chosen, by_other) =
            (repeated(chosen.into(), &mut pair), repeated(other, &mut pair));
        // One chunk asks another path whether this one is dead, before it times out.
        assert!(by_chosen > 2_500 && by_other < 1_500, "{by_chosen} {by_other}");
    }
}
