//! Dearer paths are used when cheaper ones are full.

use super::{cost, path, wanted_of};
use crate::pair::{Pair, Side, config, millis};
use manypath_engine::{AssociationId, Config, CongestionControl, Duration, IdleReason};

const CHEAP: u64 = 10_000_000;

/// A sends at `rate` bits per second for a time.
fn stream(pair: &mut Pair, a: AssociationId, rate: u64, time: Duration) {
    let pause = millis(5);
    let payload = vec![3; (rate / 8 * 5 / 1000) as usize];
    for _ in 0..time.as_millis() / pause.as_millis() {
        pair.send(Side::A, a, 0, &payload);
        pair.drive(pause);
    }
}

fn slow(policies: &[(u8, manypath_engine::PathPolicy)]) -> (Pair, AssociationId) {
    // A window that is full says when a path is.
    let config = |side| Config { congestion: CongestionControl::Cubic, ..config(side) };
    let pair = Pair::with(2, config(Side::A), config(Side::Z));
    let (mut pair, a, _) = wanted_of(pair, policies);
    pair.quiet = true;
    for link in pair.links.values_mut() {
        (link.rate, link.queue) = (CHEAP, millis(60));
    }
    (pair, a)
}

#[test]
fn what_the_cheap_path_carries_costs_no_more() {
    let (mut pair, a) = slow(&[(2, cost(10))]);
    // The window grows.
    stream(&mut pair, a, CHEAP / 10, Duration::from_secs(1));
    let before = path(&mut pair, Side::A, a, 2).bytes_sent;
    stream(&mut pair, a, CHEAP / 2, Duration::from_secs(10));
    let status = path(&mut pair, Side::A, a, 2);
    assert!(status.bytes_sent - before < 1_000, "{}", status.bytes_sent - before);
    assert_eq!(status.idle, Some(IdleReason::Cost));
}

#[test]
fn what_it_does_not_carry_goes_over_the_dear_one() {
    let (mut pair, a) = slow(&[(2, cost(10))]);
    let rate = CHEAP * 3 / 2;
    stream(&mut pair, a, rate, Duration::from_secs(10));
    let [cheap, dear] = [1, 2].map(|number| path(&mut pair, Side::A, a, number).bytes_sent);
    // The cheap one is full, the dear one has what is left.
    assert!(cheap * 8 > CHEAP * 10 * 85 / 100, "{cheap} {dear}");
    assert!(dear * 8 < CHEAP * 10 * 65 / 100, "{cheap} {dear}");
    pair.drive(Duration::from_secs(2));
    let delivered: usize = pair.z.received.iter().map(|(_, payload)| payload.len()).sum();
    assert_eq!(delivered as u64, rate / 8 * 10);
    // Little data afterwards costs nothing again.
    let before = path(&mut pair, Side::A, a, 2).bytes_sent;
    stream(&mut pair, a, CHEAP / 10, Duration::from_secs(2));
    let after = path(&mut pair, Side::A, a, 2).bytes_sent;
    assert!(after - before < 1_000, "{}", after - before);
}

#[test]
fn the_dear_path_takes_over_when_the_cheap_one_dies() {
    let (mut pair, a) = slow(&[(2, cost(10))]);
    pair.cut(1);
    pair.send(Side::A, a, 0, &[1; 10_000]);
    let done = pair.drive_until(millis(600), |pair| pair.z.received.len() == 1);
    assert!(done, "{:#?}", pair.ladder);
}
