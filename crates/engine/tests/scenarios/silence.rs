//! Paths that are silent while others are not: suspicion before T3-rtx expires, and its end.

use crate::pair::{Pair, Side, config, millis};
use manypath_engine::{
    AssociationId, Config, Duration, PathState, PathStatus, PathSuspicion, RetransmissionPolicy,
};

fn path(pair: &Pair, id: AssociationId, number: usize) -> PathStatus {
    pair.a.endpoint.status(pair.now, id).unwrap().paths[number - 1].clone()
}

/// Both paths in the middle of a transfer.
fn busy(suspicion: PathSuspicion) -> (Pair, AssociationId) {
    let config = |side| Config {
        path_suspicion: suspicion,
        timeout_retransmission_policy: RetransmissionPolicy::Asap,
        ..config(side)
    };
    let (mut pair, a, _) = Pair::established_with(2, config(Side::A), config(Side::Z));
    for link in pair.links.values_mut() {
        (link.rate, link.queue) = (10_000_000, millis(40));
    }
    pair.send(Side::A, a, 0, &vec![7; 4_000_000]);
    pair.drive(Duration::from_secs(1));
    pair.ladder.clear();
    (pair, a)
}

#[test]
fn a_silent_path_is_left_before_its_timer_expires() {
    let (mut pair, a) = busy(PathSuspicion::Silence);
    pair.cut(1);
    pair.drive(millis(150));
    let silent = path(&pair, a, 1);
    assert_eq!(silent.state, PathState::PotentiallyFailed);
    assert_eq!((silent.suspicions, silent.timeouts, silent.in_flight), (1, 0, 0));
    assert!(pair.ladder.iter().any(|line| line.contains("A -> HEARTBEAT")), "{:?}", pair.ladder);
    // The HEARTBEAT is not answered either: now the flight counts as timed out.
    pair.drive(millis(400));
    let silent = path(&pair, a, 1);
    assert_eq!((silent.spurious_suspicions, silent.timeouts), (0, 1));
    assert!(silent.cwnd < 2000, "{silent:?}");
}

#[test]
fn without_suspicion_the_timer_finds_the_path_lost() {
    let (mut pair, a) = busy(PathSuspicion::Off);
    pair.cut(1);
    pair.drive(millis(150));
    assert_eq!(path(&pair, a, 1).state, PathState::Active);
    pair.drive(millis(300));
    let silent = path(&pair, a, 1);
    assert_eq!(silent.state, PathState::PotentiallyFailed);
    assert_eq!((silent.suspicions, silent.probes, silent.timeouts), (0, 0, 1));
}

#[test]
fn a_path_that_only_rested_keeps_its_window() {
    let (mut pair, a) = busy(PathSuspicion::Silence);
    let before = path(&pair, a, 1);
    let usual = pair.links[&1].delay;
    pair.links.get_mut(&1).unwrap().delay = usual + millis(60);
    pair.drive(millis(100));
    pair.links.get_mut(&1).unwrap().delay = usual;
    assert_eq!(path(&pair, a, 1).suspicions, 1);
    pair.drive(millis(150));
    let after = path(&pair, a, 1);
    assert_eq!(after.state, PathState::Active);
    assert_eq!((after.suspicions, after.spurious_suspicions, after.timeouts), (1, 1, 0));
    assert!(after.cwnd >= before.cwnd / 2, "{before:?} {after:?}");
}

#[test]
fn a_chunk_alone_on_a_silent_path_goes_over_another_one() {
    let (mut pair, a, _) = Pair::established(2);
    pair.drive(Duration::from_secs(1));
    pair.send(Side::A, a, 0, b"both hear");
    pair.drive(Duration::from_secs(1));
    pair.z.received.clear();
    pair.cut(1);
    pair.ladder.clear();
    pair.send(Side::A, a, 0, b"and I am heard");
    pair.drive(millis(150));
    assert_eq!(pair.z.received.len(), 1, "{:?}", pair.ladder);
    let silent = path(&pair, a, 1);
    assert_eq!((silent.probes, silent.spurious_probes, silent.timeouts), (1, 0, 0));
    // The answer of the other path is the witness.
    assert_eq!((silent.state, silent.suspicions), (PathState::PotentiallyFailed, 1));
}
