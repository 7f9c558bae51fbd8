//! Normal, backup and disabled paths.

use super::{backup, data_on, path, role, want, wanted};
use crate::pair::{Pair, Side, address, millis};
use manypath_engine::{Duration, IdleReason, LocalAddress, PathRole, PathState};

const FILE: &[u8] = &[7; 400_000];

#[test]
fn a_backup_path_carries_nothing_while_the_normal_one_lives() {
    let (mut pair, a, z) = wanted(&[(2, backup())]);
    for (side, id) in [(Side::A, a), (Side::Z, z)] {
        pair.send(side, id, 0, FILE);
    }
    pair.drive(Duration::from_secs(5));
    assert_eq!((pair.a.received.len(), pair.z.received.len()), (1, 1));
    for (side, id) in [(Side::A, a), (Side::Z, z)] {
        assert!(data_on(&pair, side, 1) > 250, "{side:?}");
        assert_eq!(data_on(&pair, side, 2), 0, "{side:?}");
        let status = path(&mut pair, side, id, 2);
        assert_eq!((status.state, status.idle), (PathState::Active, Some(IdleReason::Backup)));
    }
}

#[test]
fn the_backup_takes_over_and_gives_back() {
    let (mut pair, a, _) = wanted(&[(2, backup())]);
    pair.cut(1);
    pair.send(Side::A, a, 0, FILE);
    let begun = pair.now;
    assert!(pair.drive_until(Duration::from_secs(5), |pair| pair.z.received.len() == 1));
    // One RTO finds the silence, which is what this profile's suspicion of idle paths leaves.
    assert!(pair.now.since(begun) < millis(600), "{:?}", pair.now.since(begun));
    assert!(data_on(&pair, Side::A, 2) > 250);
    pair.restore(1);
    assert!(pair.drive_until(Duration::from_secs(10), |pair| {
        pair.a.endpoint.status(pair.now, a).unwrap().paths[0].state == PathState::Active
    }));
    pair.ladder.clear();
    pair.send(Side::A, a, 0, FILE);
    pair.drive(Duration::from_secs(2));
    assert_eq!(pair.z.received.len(), 2);
    assert!(data_on(&pair, Side::A, 1) > 250);
    assert_eq!(data_on(&pair, Side::A, 2), 0);
}

#[test]
fn a_disabled_path_carries_nothing_even_alone() {
    let (mut pair, a, _) = wanted(&[(2, role(PathRole::Disabled))]);
    pair.cut(1);
    pair.send(Side::A, a, 0, b"waits");
    pair.drive(Duration::from_secs(3));
    assert!(pair.z.received.is_empty());
    assert_eq!(data_on(&pair, Side::A, 2), 0);
    assert_eq!(path(&mut pair, Side::A, a, 2).idle, Some(IdleReason::Disabled));
    want(&mut pair, Side::A, &[]);
    pair.drive(Duration::from_secs(1));
    assert_eq!(pair.z.received.len(), 1);
}

#[test]
fn a_role_changes_while_data_flows() {
    let (mut pair, a, z) = wanted(&[]);
    pair.quiet = true;
    pair.links.values_mut().for_each(|link| link.rate = 20_000_000);
    for (side, id) in [(Side::A, a), (Side::Z, z)] {
        pair.send(side, id, 0, &vec![1; 5_000_000]);
    }
    pair.drive(millis(500));
    let carried = |pair: &mut Pair| {
        [(Side::A, a), (Side::Z, z)].map(|(side, id)| path(pair, side, id, 2).bytes_sent)
    };
    let before = carried(&mut pair);
    assert!(before.iter().all(|bytes| *bytes > 200_000), "{before:?}");
    want(&mut pair, Side::A, &[(2, backup())]);
    // What is under way arrives; the other end needs half a round trip to hear of it.
    pair.drive(millis(100));
    let settled = carried(&mut pair);
    pair.drive(millis(500));
    let later = carried(&mut pair);
    for (before, after) in settled.iter().zip(later) {
        assert!(after - before < 2_000, "heartbeats and acknowledgements: {settled:?} {later:?}");
    }
    want(&mut pair, Side::A, &[]);
    pair.drive(millis(500));
    let again = carried(&mut pair);
    assert!(again.iter().zip(later).all(|(after, before)| after - before > 200_000), "{again:?}");
    pair.drive(Duration::from_secs(10));
    assert_eq!((pair.a.received.len(), pair.z.received.len()), (1, 1));
}

#[test]
fn the_first_packet_leaves_by_a_backup_only_if_that_is_the_nearest() {
    for (prefix_len, number) in [(24, 1), (32, 2)] {
        let mut pair = Pair::new(2);
        for path in [1, 2] {
            let addr = address(Side::A, path);
            let local = LocalAddress { addr, prefix_len, interface: 0, mtu: 1500 };
            pair.a.endpoint.add_local_address(local);
        }
        want(&mut pair, Side::A, &[(1, backup())]);
        let a = pair.connect();
        let first = pair.a.endpoint.status(pair.now, a).unwrap().paths[0].addr;
        assert_eq!(first.local, address(Side::A, number));
    }
}
