//! T3-rtx, failing paths, reneging and acknowledgements that were overtaken.

use super::Bench;
use crate::path::{PathId, PathState};
use crate::send::SackView;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use manypath_wire::Tsn;

const A: PathId = PathId(0);
const B: PathId = PathId(1);

fn t3(bench: &Bench, id: u8) -> Option<Instant> {
    bench.path(id).flight().t3()
}

#[test]
fn the_timer_follows_the_earliest_chunk_of_its_path() {
    let mut bench = Bench::opened(1);
    bench.push(0, 3);
    let rto = bench.path(0).rtt().rto();
    assert_eq!(t3(&bench, 0), Some(bench.now + rto));
    let started = bench.now;
    bench.pass(10);
    bench.push(0, 1);
    assert_eq!(t3(&bench, 0), Some(started + rto));
    bench.pass(10);
    bench.sack(0, &[(2, 2)], 0);
    assert_eq!(t3(&bench, 0), Some(started + rto));
    bench.sack(2, &[], 0);
    assert_eq!(t3(&bench, 0), Some(bench.now + bench.path(0).rtt().rto()));
    bench.sack(4, &[], 0);
    assert_eq!(t3(&bench, 0), None);
}

#[test]
fn a_path_behind_another_paths_hole_does_not_time_out() {
    let mut bench = Bench::opened(2);
    bench.push(0, 1);
    let mut last = *bench.push(1, 1).last().unwrap();
    for _ in 0..20 {
        // Something is always in flight on path B, and its earliest chunk gets acknowledged.
        let sent = bench.push(1, 1);
        bench.pass(50);
        bench.sack(0, &[(2, last)], 1);
        last = *sent.last().unwrap();
        assert!(t3(&bench, 1).is_some_and(|at| at > bench.now));
    }
    assert!(t3(&bench, 0).is_some_and(|at| at < bench.now), "path A is overdue");
    bench.sack(last, &[], 1);
    assert!(bench.sender.is_drained());
}

#[test]
fn a_timeout_moves_everything_to_another_path_at_once() {
    let mut bench = Bench::opened(2);
    bench.push(0, 5);
    let rto = bench.path(0).rtt().rto();
    bench.pass(300);
    assert!(!bench.sender.handle_t3(A, &mut bench.paths));
    bench.check();
    assert_eq!((bench.path(0).in_flight(), t3(&bench, 0)), (0, None));
    assert_eq!(bench.path(0).rtt().rto(), rto * 2);
    assert_eq!(bench.send(0), Vec::<u64>::new());
    assert_eq!(bench.send_all(1), [1, 2, 3, 4, 5]);
    assert_eq!(bench.path(0).stats().timeout_retransmits, 5);
    // Nobody knows which transmission arrived: neither path has proved anything.
    bench.pass(100);
    assert!(bench.sack(5, &[], 1).acked_paths.is_empty());
}

#[test]
fn what_timed_out_goes_to_a_slow_path_even_if_that_is_not_worth_using_otherwise() {
    let mut bench = Bench::opened(2);
    bench.paths.get_mut(B).unwrap().rtt_mut().on_sample(bench.now, Duration::from_secs(9));
    bench.push(0, 1);
    bench.queue(1);
    assert_eq!(bench.send(1), Vec::<u64>::new());
    bench.pass(300);
    bench.sender.handle_t3(A, &mut bench.paths);
    assert_eq!(bench.send(1), [1]);
}

#[test]
fn a_timeout_on_the_only_path_is_repeated_there() {
    let mut bench = Bench::opened(1);
    bench.push(0, 3);
    bench.pass(300);
    bench.sender.handle_t3(A, &mut bench.paths);
    bench.paths.get_mut(A).unwrap().set_state(PathState::PotentiallyFailed);
    bench.sender.path_lost(A, &mut bench.paths);
    assert_eq!(bench.send_all(0), [1]);
    bench.pass(100);
    let outcome = bench.sack(1, &[], 0);
    assert!(outcome.acked_paths.contains(A));
    assert_eq!(bench.send_all(0), [2, 3]);
}

#[test]
fn a_path_that_is_given_up_loses_its_data_to_the_others() {
    let mut bench = Bench::opened(3);
    bench.push(0, 4);
    bench.push(1, 2);
    bench.paths.get_mut(A).unwrap().set_state(PathState::Inactive);
    bench.sender.path_lost(A, &mut bench.paths);
    bench.check();
    assert_eq!(t3(&bench, 0), None);
    assert_eq!(bench.send(1), [1]);
    assert_eq!(bench.send(2), [2]);
    // The window of the failed path was not judged: nothing of it was seen to be lost.
    assert!(bench.cwnd(0) >= 64_000);
}

#[test]
fn reported_losses_of_a_failed_path_go_to_the_others_too() {
    let mut bench = Bench::opened(2);
    bench.push(0, 5);
    bench.pass(100);
    for last in 2..=4 {
        bench.sack(0, &[(2, last)], 0);
    }
    assert_eq!(bench.send(1), Vec::<u64>::new());
    bench.paths.get_mut(A).unwrap().set_state(PathState::PotentiallyFailed);
    bench.sender.path_lost(A, &mut bench.paths);
    assert_eq!(bench.send_all(1), [1, 5]);
}

#[test]
fn an_overtaken_sack_of_the_other_path_does_not_renege() {
    let mut bench = Bench::reported(2);
    bench.push(0, 4);
    bench.push(1, 4);
    bench.pass(100);
    bench.sack(0, &[(2, 4), (6, 8)], 0);
    let rwnd = bench.sender.outstanding().window().rwnd();
    bench.a_rwnd = 7;
    let outcome = bench.sack(0, &[(2, 2), (6, 8)], 1);
    assert!(!outcome.newly_acked);
    assert_eq!(bench.path(0).in_flight(), 1460);
    assert_eq!(bench.sender.outstanding().window().rwnd(), rwnd);
}

#[test]
fn a_renege_on_the_same_path_is_believed_and_repaired() {
    let mut bench = Bench::reported(2);
    bench.push(0, 6);
    bench.pass(100);
    bench.sack(0, &[(2, 5)], 0);
    assert_eq!(bench.path(0).in_flight(), 2 * 1460);
    bench.sack(0, &[(2, 2), (5, 5)], 0);
    assert_eq!(bench.path(0).in_flight(), 4 * 1460);
    assert_eq!((bench.missing(3), bench.missing(4)), (1, 1));
    bench.push(0, 2);
    for last in 6..=8 {
        bench.sack(0, &[(2, 2), (5, last)], 0);
    }
    assert!(bench.is_lost(1) && bench.is_lost(3) && bench.is_lost(4));
}

#[test]
fn a_renege_is_believed_from_any_path_when_the_witness_has_failed() {
    let mut bench = Bench::opened(2);
    bench.push(0, 3);
    bench.pass(100);
    bench.sack(0, &[(2, 3)], 1);
    bench.paths.get_mut(B).unwrap().set_state(PathState::Inactive);
    bench.sack(0, &[(3, 3)], 0);
    assert_eq!(bench.path(0).in_flight(), 2 * 1460);
}

/// RFC 9260 section 3.3.8: "the receiver of the SHUTDOWN chunk MUST NOT interpret the lack of a Gap Ack
/// Block as a renege."
#[test]
fn a_shutdown_takes_nothing_back() {
    let mut bench = Bench::opened(1);
    bench.push(0, 4);
    bench.pass(100);
    bench.sack(0, &[(2, 3)], 0);
    assert_eq!(bench.path(0).in_flight(), 2 * 1460);
    let outcome =
        bench.sender.handle_sack(bench.now, &SackView::of_shutdown(Tsn(1)), A, &mut bench.paths);
    assert!(outcome.unwrap().newly_acked);
    bench.check();
    assert_eq!(bench.path(0).in_flight(), 1460, "only TSN 4 is missing");
}

#[test]
fn the_timer_of_a_repetition_is_that_of_the_path_it_takes() {
    let mut bench = Bench::opened(2);
    bench.paths.get_mut(B).unwrap().rtt_mut().on_sample(bench.now, Duration::from_millis(500));
    bench.push(0, 1);
    bench.pass(300);
    bench.sender.handle_t3(A, &mut bench.paths);
    assert_eq!(bench.send(1), [1]);
    let rtos = [0, 1].map(|id| bench.path(id).rtt().rto());
    assert_ne!(rtos[0], rtos[1]);
    assert_eq!((t3(&bench, 0), t3(&bench, 1)), (None, Some(bench.now + rtos[1])));
}

#[test]
fn a_peer_that_silently_forgets_everything_gets_it_again() {
    let mut bench = Bench::opened(1);
    bench.push(0, 3);
    bench.pass(100);
    // Block 1-3 with the cumulative TSN at 0: acknowledged, yet not cumulatively.
    bench.sack(0, &[(1, 3)], 0);
    assert_eq!(bench.path(0).in_flight(), 0);
    assert!(t3(&bench, 0).is_some());
    assert!(bench.sender.handle_t3(A, &mut bench.paths));
    bench.check();
    assert_eq!(bench.send_all(0), [1, 2, 3]);
}

#[test]
fn the_timer_restarts_when_the_earliest_chunk_is_repeated() {
    let mut bench = Bench::opened(1);
    bench.push(0, 5);
    bench.pass(100);
    for last in 2..=4 {
        bench.sack(0, &[(2, last)], 0);
    }
    bench.pass(30);
    let before = t3(&bench, 0).unwrap();
    assert_eq!(bench.send(0), [1]);
    assert_eq!(t3(&bench, 0), Some(bench.now + bench.path(0).rtt().rto()));
    assert!(t3(&bench, 0).unwrap() >= before + Duration::from_millis(30));
}

#[test]
fn a_spurious_timeout_is_forgiven_when_the_acknowledgements_come() {
    let mut bench = Bench::opened(2);
    bench.push(0, 5);
    bench.pass(300);
    bench.sender.handle_t3(A, &mut bench.paths);
    assert_eq!(bench.send(1), [1]);
    let outcome = bench.sack(5, &[], 0);
    assert!(outcome.acked_paths.contains(A));
    assert!(bench.sender.is_drained());
    assert_eq!((bench.path(0).in_flight(), bench.path(1).in_flight()), (0, 0));
}
