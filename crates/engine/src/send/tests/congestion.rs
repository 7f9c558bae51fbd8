//! How windows grow: CUC, use of the window, Max.Burst, one packet after a timeout.

use super::{Bench, FULL, classic};
use crate::config::{CwndUpdate, Pacing};
use crate::path::PathId;
use alloc::vec::Vec;

const WIRE: usize = FULL + 16;

#[test]
fn a_path_grows_although_the_cumulative_tsn_is_blocked_by_another() {
    let mut bench = Bench::new(2, &classic());
    bench.push(0, 1);
    let before = (bench.cwnd(0), bench.cwnd(1));
    for _ in 0..3 {
        bench.queue(50);
        let sent = bench.send_all(1);
        bench.pass(100);
        bench.sack(0, &[(2, *sent.last().unwrap())], 1);
    }
    assert_eq!(bench.cwnd(0), before.0);
    assert!(bench.cwnd(1) >= before.1 + 6 * WIRE, "{} {}", before.1, bench.cwnd(1));
}

#[test]
fn what_another_path_repeats_moves_both_pseudo_acknowledgements() {
    let mut bench = Bench::opened(2);
    bench.push(0, 4);
    bench.push(1, 2);
    bench.pass(300);
    bench.sack(0, &[(5, 6)], 1);
    assert_eq!(bench.path(0).wants_earliest(), (false, true));
    assert!(!bench.sender.handle_t3(PathId(0), &mut bench.paths));
    assert_eq!(bench.send(1), [1]);
    assert_eq!(bench.path(0).wants_earliest(), (true, true));
    assert_eq!(bench.path(1).wants_earliest(), (true, true));
    // Version 2: a path that carries retransmissions only does advance.
    bench.pass(100);
    bench.sack(1, &[(5, 6)], 1);
    assert!(bench.path(1).advances(CwndUpdate::V2));
}

#[test]
fn an_unused_window_does_not_grow() {
    let mut bench = Bench::opened(1);
    let cwnd = bench.cwnd(0);
    for _ in 0..20 {
        let sent = bench.push(0, 2);
        bench.pass(150);
        bench.sack(*sent.last().unwrap(), &[], 0);
    }
    assert_eq!(bench.cwnd(0), cwnd);
}

#[test]
fn several_sacks_before_the_next_transmission_all_widen_the_window() {
    let mut bench = Bench::opened(1);
    let cwnd = bench.cwnd(0);
    bench.queue(200);
    let sent = bench.send_all(0);
    bench.pass(100);
    for tsn in sent.iter().take(10) {
        bench.sack(*tsn, &[], 0);
    }
    assert_eq!(bench.cwnd(0), cwnd + 10 * WIRE);
}

#[test]
fn a_pause_does_not_release_the_whole_window_at_once() {
    let mut bench = Bench::opened(1);
    bench.queue(20);
    let sent = bench.send_all(0);
    assert_eq!(sent.len(), 20);
    bench.pass(100);
    bench.sack(20, &[], 0);
    bench.queue(1000);
    // Right after the SACK its 20 packets may be replaced, plus Max.Burst.
    assert_eq!(bench.send_all(0).len(), 24);
    bench.pass(100);
    for tsn in 21..=44 {
        bench.sack(tsn, &[], 0);
    }
    bench.pass(40);
    bench.sack(44, &[], 0);
    assert_eq!(bench.send_all(0).len(), 4);
}

#[test]
fn windows_and_flight_count_headers_and_padding() {
    let mut bench = Bench::opened(1);
    for (len, flight) in [(1, 20), (4, 40), (5, 64)] {
        bench.queue_bytes(len);
        bench.send(0);
        assert_eq!(bench.path(0).in_flight(), flight);
    }
}

#[test]
fn growth_is_applied_before_the_cut_of_the_same_sack() {
    let mut bench = Bench::reported(1);
    bench.queue(200);
    let sent = bench.send_all(0).len();
    let cwnd = bench.cwnd(0);
    bench.pass(100);
    // TSN 2 is reported missing for the third time by a SACK that advances the cumulative TSN.
    bench.sack(0, &[(3, 3)], 0);
    bench.sack(0, &[(3, 4)], 0);
    assert_eq!(bench.cwnd(0), cwnd);
    bench.sack(1, &[(3, 5)], 0);
    assert!(bench.is_lost(2));
    assert!(bench.cwnd(0) > cwnd / 2, "{sent} packets: {} of {cwnd}", bench.cwnd(0));
}

#[test]
fn the_window_is_exceeded_by_less_than_one_packet() {
    let mut bench = Bench::new(1, &classic());
    bench.queue(50);
    bench.send_all(0);
    let (flight, cwnd) = (bench.path(0).in_flight(), bench.cwnd(0));
    assert!(flight >= cwnd && flight < cwnd + WIRE, "{flight} {cwnd}");
}

#[test]
fn after_a_timeout_one_packet_is_in_flight_until_something_is_acknowledged() {
    let mut bench = Bench::opened(1);
    for _ in 0..30 {
        bench.queue_bytes(100);
    }
    bench.send_all(0);
    bench.pass(1000);
    assert!(!bench.sender.handle_t3(PathId(0), &mut bench.paths));
    assert_eq!(bench.cwnd(0), 1460);
    assert_eq!(bench.send(0), (1..=12).collect::<Vec<u64>>());
    assert_eq!(bench.send(0), Vec::<u64>::new());
    bench.pass(100);
    bench.sack(12, &[], 0);
    assert_eq!(bench.send(0), (13..=24).collect::<Vec<u64>>());
    assert_eq!(bench.send(0), [25]);
}

#[test]
fn the_window_decays_while_the_path_is_idle() {
    let mut bench = Bench::opened(1);
    bench.push(0, 1);
    bench.sack(1, &[], 0);
    let cwnd = bench.cwnd(0);
    let rto = bench.path(0).rtt().rto();
    bench.now = bench.now + rto * 2;
    bench.push(0, 1);
    assert_eq!(bench.cwnd(0), cwnd / 4);
}

#[test]
fn every_path_starts_with_its_own_initial_window() {
    let mut bench = Bench::new(3, &classic());
    bench.queue(100);
    let counts: Vec<usize> = (0..3).map(|id| bench.send_all(id).len()).collect();
    assert_eq!(counts, [4, 4, 4]);
}

#[test]
fn paced_packets_leave_one_after_the_other() {
    let mut bench = Bench::opened(1);
    bench.paths.get_mut(PathId(0)).unwrap().set_pacing(Pacing::On);
    bench.queue(200);
    let start = bench.now;
    let window = bench.cwnd(0);
    let mut trains = Vec::new();
    while bench.path(0).in_flight() < window {
        trains.push(bench.send_all(0).len());
        let path = bench.paths.get_mut(PathId(0)).unwrap();
        let Some(hold) = path.pacer().deadline() else { break };
        assert!(hold > bench.now);
        bench.now = hold;
        path.pacer_mut().expire(hold);
    }
    assert_eq!(trains.remove(0), 4, "an initial window");
    assert!(trains.iter().all(|packets| (1..=2).contains(packets)), "{trains:?}");
    // Twice the window per round trip of 100 ms.
    let millis = bench.now.since(start).as_millis();
    assert!((45..=55).contains(&millis), "{millis}");
}
