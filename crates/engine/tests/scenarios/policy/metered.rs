//! Paths on which bytes count.

use super::{metered, path, want, wanted};
use crate::pair::{Pair, Side};
use manypath_engine::{AssociationId, Duration, IdleReason};

const ALLOWANCE: u64 = 125_000;

fn busy(rate: u64) -> (Pair, AssociationId, AssociationId) {
    let (mut pair, a, z) = wanted(&[(2, metered(rate))]);
    pair.quiet = true;
    for link in pair.links.values_mut() {
        link.rate = 10_000_000;
    }
    (pair, a, z)
}

#[test]
fn the_allowance_holds_in_both_directions() {
    let (mut pair, a, z) = busy(ALLOWANCE);
    let sent = |pair: &mut Pair| {
        [(Side::A, a), (Side::Z, z)].map(|(side, id)| {
            let status = path(pair, side, id, 2);
            // What the IP packets have.
            status.bytes_sent + 28 * status.packets_sent
        })
    };
    for (side, id) in [(Side::A, a), (Side::Z, z)] {
        pair.send(side, id, 0, &vec![1; 8_000_000]);
        pair.send(side, id, 1, &vec![1; 100_000]);
    }
    pair.drive(Duration::from_secs(1));
    let before = sent(&mut pair);
    pair.drive(Duration::from_secs(4));
    for (before, after) in before.iter().zip(sent(&mut pair)) {
        let allowed = 4 * ALLOWANCE;
        let used = after - before;
        assert!(used <= allowed * 103 / 100 && used > allowed * 90 / 100, "{used} of {allowed}");
    }
}

#[test]
fn without_an_allowance_it_carries_only_what_nothing_else_does() {
    let (mut pair, a, _) = busy(0);
    pair.send(Side::A, a, 0, &vec![1; 1_000_000]);
    pair.drive(Duration::from_secs(2));
    let status = path(&mut pair, Side::A, a, 2);
    assert!(status.bytes_sent < 4_000, "{} beside HEARTBEATs", status.bytes_sent);
    assert_eq!(status.idle, Some(IdleReason::Metered));
    pair.cut(1);
    pair.send(Side::A, a, 0, &vec![1; 1_000_000]);
    pair.drive(Duration::from_secs(3));
    assert_eq!(pair.z.received.len(), 2);
    assert!(path(&mut pair, Side::A, a, 2).bytes_sent > 1_000_000);
}

#[test]
fn an_idle_metered_path_is_probed_less_often() {
    let probes = |policies: &[_]| {
        let (mut pair, a, _) = wanted(policies);
        pair.drive(Duration::from_secs(3600));
        path(&mut pair, Side::A, a, 2).packets_sent
    };
    let (metered, usual) = (probes(&[(2, metered(0))]), probes(&[]));
    // HEARTBEATs of A, and answers to those of Z, which has heard of it.
    assert!(3 * metered < usual + 60 && metered > 60, "{metered} {usual}");
}

#[test]
fn the_allowance_is_lifted_at_once() {
    let (mut pair, a, _) = busy(0);
    pair.send(Side::A, a, 0, &vec![1; 5_000_000]);
    pair.drive(Duration::from_secs(1));
    want(&mut pair, Side::A, &[]);
    pair.drive(Duration::from_secs(1));
    let sent = path(&mut pair, Side::A, a, 2).bytes_sent;
    assert!(sent > 500_000, "{sent}");
}
