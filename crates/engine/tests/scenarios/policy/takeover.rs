//! How soon a backup carries what the only normal path does not any more.

use super::{backup, cost, data_on, path, role, want};
use crate::pair::{Pair, Side, address, config, millis};
use manypath_engine::{
    AssociationId, Config, Duration, Experiment, PathPolicy, PathRole, PathState, PathSuspicion,
    RetransmissionPolicy,
};

/// Data flows from `sender` over path 1, while path 2 has a policy of A's.
fn busy(sender: Side, second: PathPolicy) -> (Pair, [AssociationId; 2]) {
    let config = |side| Config {
        path_suspicion: PathSuspicion::Silence,
        experiment: Experiment {
            timeout_retransmission_policy: RetransmissionPolicy::Asap,
            ..config(side).experiment
        },
        ..config(side)
    };
    let (mut pair, a, z) = Pair::established_with(2, config(Side::A), config(Side::Z));
    want(&mut pair, Side::A, &[(2, second)]);
    for link in pair.links.values_mut() {
        (link.rate, link.queue) = (10_000_000, millis(40));
    }
    pair.drive(millis(500));
    let id = if sender == Side::A { a } else { z };
    (0..4000).for_each(|_| pair.send(sender, id, 0, &[7; 1000]));
    pair.drive(millis(700));
    pair.ladder.clear();
    (pair, [a, z])
}

/// The longest time in the next second in which nothing arrives.
fn longest_gap(pair: &mut Pair, receiver: Side) -> Duration {
    let (mut longest, mut last, mut before) = (Duration::ZERO, pair.now, usize::MAX);
    for _ in 0..500 {
        pair.drive(millis(2));
        let received = pair.node(receiver).received.len();
        if received != before {
            (last, before) = (pair.now, received);
        }
        longest = longest.max(pair.now.since(last));
    }
    longest
}

#[test]
fn a_backup_takes_over_before_a_timeout_when_the_only_normal_path_falls_silent() {
    for sender in [Side::A, Side::Z] {
        for second in [backup(), cost(10)] {
            let (mut pair, [a, z]) = busy(sender, second);
            pair.cut(1);
            let gap = longest_gap(&mut pair, sender.other());
            // A round trip with its queue, slack, and a round trip of the witness; RTO.Min is longer.
            println!("{sender:?} {second:?}: {gap:?}");
            assert!(gap < millis(160), "{sender:?} {second:?}: {gap:?}");
            let id = if sender == Side::A { a } else { z };
            let first = path(&mut pair, sender, id, 1);
            assert!(first.suspicions > 0, "{sender:?}: {first:?}");
            assert!(data_on(&pair, sender, 2) > 100, "{sender:?}");
        }
    }
}

#[test]
fn a_backup_takes_over_at_once_when_the_link_of_the_normal_path_is_known_to_be_down() {
    let (mut pair, _) = busy(Side::A, backup());
    pair.cut(1);
    let now = pair.now;
    pair.a.endpoint.suspend_local_address(now, address(Side::A, 1).ip());
    let gap = longest_gap(&mut pair, Side::Z);
    println!("{gap:?}");
    assert!(gap <= millis(40), "{gap:?}");
}

#[test]
fn a_normal_path_that_only_rested_takes_its_data_back() {
    let (mut pair, [a, _]) = busy(Side::A, backup());
    let usual = pair.links[&1].delay;
    pair.links.get_mut(&1).unwrap().delay = usual + millis(100);
    pair.drive(millis(150));
    pair.links.get_mut(&1).unwrap().delay = usual;
    pair.drive(millis(300));
    let first = path(&mut pair, Side::A, a, 1);
    assert_eq!((first.state, first.timeouts), (PathState::Active, 0), "{first:?}");
    pair.ladder.clear();
    pair.drive(millis(200));
    assert!(data_on(&pair, Side::A, 1) > 100);
    assert_eq!(data_on(&pair, Side::A, 2), 0);
}

#[test]
fn a_disabled_path_is_not_asked() {
    let (mut pair, [a, _]) = busy(Side::A, role(PathRole::Disabled));
    pair.cut(1);
    pair.drive(millis(150));
    let first = path(&mut pair, Side::A, a, 1);
    assert_eq!((first.state, first.probes), (PathState::Active, 0));
    assert!(!pair.ladder.iter().any(|line| line.contains("2> HEARTBEAT")), "{:?}", pair.ladder);
}
