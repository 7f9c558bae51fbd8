//! The end of a transfer, of which slow paths carry the rest.

use super::Bench;
use crate::path::PathId;
use crate::time::Duration;
use alloc::vec::Vec;

/// Round trips take 100 ms on path 0, and from now on 400 ms on path 1, on which a packet needs 350 ms to the peer: the least
/// one took 100 ms.
fn slow_down(bench: &mut Bench) {
    let (now, rtt) = (bench.now, Some(Duration::from_millis(400)));
    (0..60).for_each(|_| bench.paths.sample(now, PathId(1), rtt));
}

fn relieve(bench: &mut Bench) -> Vec<u64> {
    slow_down(bench);
    bench.sender.relieve_slow_paths(bench.now, &mut bench.paths);
    bench.check();
    bench.send_all(0)
}

#[test]
fn the_fastest_path_takes_what_a_slow_one_has_just_sent() {
    let mut bench = Bench::opened(2);
    bench.push(1, 4);
    assert_eq!(relieve(&mut bench), [1, 2, 3, 4]);
    assert_eq!(bench.path(1).in_flight(), 0);
    assert!(relieve(&mut bench).is_empty());
    bench.sack(4, &[], 0);
    assert!(bench.sender.is_drained());
}

#[test]
fn what_arrives_within_a_round_trip_of_the_fastest_path_stays() {
    let mut bench = Bench::opened(2);
    bench.push(1, 2);
    bench.pass(200);
    bench.push(1, 2);
    bench.pass(70);
    assert_eq!(relieve(&mut bench), [3, 4]);
}

#[test]
fn the_fastest_path_takes_no_more_than_it_carries_sooner() {
    let mut bench = Bench::opened(2);
    let sent = bench.push(1, 40);
    // 20 ms more than a round trip of the fastest path, in which it carries a fifth of its window.
    bench.pass(230);
    let (taken, window) = (relieve(&mut bench), bench.cwnd(0));
    assert!(taken.last() == sent.last() && taken.len() * 1400 < window / 4, "{taken:?} {window}");
}

#[test]
fn nothing_is_sent_twice_while_something_else_waits() {
    let mut bench = Bench::opened(2);
    bench.push(1, 4);
    bench.sender.set_backlog(1);
    assert!(relieve(&mut bench).is_empty());
    bench.sender.set_backlog(0);
    bench.queue(1);
    assert_eq!(relieve(&mut bench), [5]);
}

#[test]
fn the_fastest_path_takes_what_a_slow_one_should_have_had_acknowledged() {
    let mut bench = Bench::opened(2);
    let (sent, left_at) = (bench.push(1, 4), bench.now);
    bench.pass(300);
    let taken = relieve(&mut bench);
    assert!(taken.is_empty(), "{taken:?}");
    let timeout = bench.path(1).subflow().ack_timeout(Duration::ZERO);
    assert!(timeout > Duration::from_millis(400), "{timeout:?}");
    assert_eq!(bench.sender.tail.relief(), Some(left_at + timeout));
    bench.now = left_at + timeout + Duration::from_millis(1);
    assert_eq!(relieve(&mut bench), sent);
    assert_eq!(bench.sender.tail.relief(), None);
}

#[test]
fn an_answer_that_is_no_later_than_round_trips_vary_is_waited_for() {
    let mut bench = Bench::opened(2);
    bench.push(1, 4);
    slow_down(&mut bench);
    for rtt in [200, 600].repeat(4) {
        bench.paths.sample(bench.now, PathId(1), Some(Duration::from_millis(rtt)));
    }
    bench.pass(600);
    bench.sender.relieve_slow_paths(bench.now, &mut bench.paths);
    assert!(bench.send_all(0).is_empty());
}
