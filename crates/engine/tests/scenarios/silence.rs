//! Paths that are silent while others are not: suspicion before T3-rtx expires, and its end.

use crate::pair::{Pair, Side, config, millis};
use manypath_engine::{
    AssociationId, Config, Duration, Experiment, PathState, PathStatus, PathSuspicion,
    RetransmissionPolicy,
};

fn path(pair: &Pair, id: AssociationId, number: usize) -> PathStatus {
    pair.a.endpoint.status(pair.now, id).unwrap().paths[number - 1].clone()
}

/// Both paths in the middle of a transfer.
fn busy(suspicion: PathSuspicion) -> (Pair, AssociationId) {
    let config = |side| Config {
        path_suspicion: suspicion,
        experiment: Experiment {
            timeout_retransmission_policy: RetransmissionPolicy::Asap,
            ..config(side).experiment
        },
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

/// Credit, acknowledgements of programs: nothing else flows there. Of the last messages that the cut path has
/// delivered the SACKs are lost, and the first answer over the other path acknowledges them.
#[test]
fn small_messages_against_a_flow_do_not_wait_for_the_timer_of_a_cut_path() {
    for later in 0..10 {
        let (mut pair, _) = busy(PathSuspicion::Silence);
        let z = pair.z.endpoint.associations()[0];
        pair.links.get_mut(&2).unwrap().delay = millis(20);
        let send = |pair: &mut Pair, times| {
            let (mut last, mut before, mut longest) = (pair.now, 0, Duration::ZERO);
            for _ in 0..times {
                pair.send(Side::Z, z, 0, b"small");
                pair.drive(millis(3));
                let received = pair.a.received.len();
                if received > before {
                    (last, before) = (pair.now, received);
                }
                longest = longest.max(pair.now.since(last));
            }
            longest
        };
        send(&mut pair, 200);
        pair.drive(millis(later));
        pair.cut(1);
        let longest = send(&mut pair, 300);
        println!("{later}: {longest:?}");
        assert!(longest < millis(100), "{later}: {longest:?}");
    }
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

/// As a receiver's credit does: few chunks are in flight, and while another path is asked the next one leaves.
#[test]
fn the_second_answer_counts_also_when_more_has_left_on_the_silent_path_since() {
    let (mut pair, a, _) = Pair::established(2);
    pair.links.get_mut(&2).unwrap().delay = millis(30);
    for _ in 0..20 {
        pair.send(Side::A, a, 0, b"both hear");
        pair.drive(millis(100));
    }
    pair.z.received.clear();
    pair.cut(1);
    pair.ladder.clear();
    pair.send(Side::A, a, 0, b"asked about");
    while path(&pair, a, 1).probes == 0 {
        pair.drive(millis(1));
    }
    // Shortly before the answer.
    pair.drive(millis(50));
    let (mut sent, begun) = (1, pair.now);
    while path(&pair, a, 1).suspicions == 0 {
        pair.send(Side::A, a, 0, b"and since");
        sent += 1;
        pair.drive(millis(10));
        assert!(pair.now.since(begun) < millis(250), "{:?}", pair.ladder);
    }
    let silent = path(&pair, a, 1);
    assert_eq!((silent.probes, silent.timeouts), (2, 0), "{:?}", pair.ladder);
    pair.drive(millis(40));
    assert_eq!(pair.z.received.len(), sent, "{:?}", pair.ladder);
}

#[test]
fn a_receiver_that_rests_makes_no_path_suspected() {
    let (mut pair, a, _) = Pair::established(2);
    pair.drive(Duration::from_secs(1));
    pair.links.values_mut().for_each(|link| link.delay = millis(150));
    pair.send(Side::A, a, 0, b"heard late");
    pair.drive(millis(150));
    pair.links.values_mut().for_each(|link| link.delay = millis(10));
    pair.drive(Duration::from_secs(1));
    let paths = [1, 2].map(|number| path(&pair, a, number));
    // The chunk went over the other path too, but no SACK told there that it was missing on the first.
    assert!(paths.iter().any(|path| path.probes > 0), "{paths:?}");
    assert!(paths.iter().all(|path| path.suspicions == 0), "{paths:?}");
}

/// Lets `time` pass in a transfer of which the user gives A as much as `credit` messages beyond what has
/// arrived. Returns the longest time in which nothing arrived.
fn feed(pair: &mut Pair, id: AssociationId, credit: usize, time: Duration) -> Duration {
    let (mut longest, mut last, end) = (Duration::ZERO, pair.now, pair.now + time);
    let mut sent = pair.z.received.len().next_multiple_of(credit / 2);
    let mut before = pair.z.received.len();
    while pair.now < end {
        if sent <= pair.z.received.len() + credit / 2 {
            (0..credit / 2).for_each(|_| pair.send(Side::A, id, 0, &[7; 1400]));
            sent += credit / 2;
        }
        pair.drive(millis(2));
        if pair.z.received.len() != before {
            (last, before) = (pair.now, pair.z.received.len());
        }
        longest = longest.max(pair.now.since(last));
    }
    longest
}

/// The paths of the test with real packets: bursts overflow their queues, and between bursts some have
/// nothing to say. The cut path is found silent no later for that.
#[test]
fn losses_and_pauses_before_a_cut_do_not_make_it_last_longer() {
    for credit in [200, 300, 400, 500, 600] {
        let mut pair = Pair::with(3, config(Side::A), config(Side::Z));
        for (link, delay) in pair.links.values_mut().zip([10, 25, 75]) {
            (link.rate, link.queue, link.delay) = (10_000_000, millis(60), millis(delay));
        }
        pair.quiet = true;
        let a = pair.connect();
        pair.drive(Duration::from_secs(1));
        feed(&mut pair, a, credit, Duration::from_secs(3));
        pair.cut(3);
        let gap = feed(&mut pair, a, credit, Duration::from_secs(1));
        println!("{credit}: {gap:?}");
        assert!(gap < millis(250), "{credit}: {gap:?} {:?}", path(&pair, a, 3));
    }
}
