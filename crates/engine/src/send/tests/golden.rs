//! Which chunks get missing reports: the golden cases of split fast retransmit, and what the order
//! of transmission adds to them.

use super::{Bench, FULL, classic};
use crate::config::{Config, CongestionControl};
use crate::path::PathId;
use alloc::vec::Vec;

/// TSNs 1-4 on path 0, 5-8 on path 1, 9-12 on path 2.
fn three_groups() -> Bench {
    let mut bench = Bench::opened(3);
    assert_eq!(bench.push(0, 4), [1, 2, 3, 4]);
    assert_eq!(bench.push(1, 4), [5, 6, 7, 8]);
    assert_eq!(bench.push(2, 4), [9, 10, 11, 12]);
    bench.pass(50);
    bench
}

fn reports(bench: &Bench, tsns: impl Iterator<Item = u64>) -> Vec<u8> {
    tsns.map(|tsn| bench.missing(tsn)).collect()
}

#[test]
fn case_1b_the_fastest_path_says_nothing_about_the_others() {
    let mut bench = three_groups();
    for last in 9..=12 {
        bench.sack(0, &[(9, last)], 2);
    }
    assert_eq!(reports(&bench, 1..=8), [0; 8]);
}

#[test]
fn case_2a_arrival_in_order_on_each_path() {
    let mut bench = three_groups();
    for last in 5..=8 {
        bench.sack(0, &[(5, last)], 1);
    }
    bench.sack(1, &[(5, 8)], 0);
    bench.sack(2, &[(5, 8)], 0);
    assert_eq!(reports(&bench, 3..=4), [0, 0]);
}

#[test]
fn case_2b_a_report_needs_something_newer_of_the_same_path() {
    let mut bench = three_groups();
    bench.sack(1, &[(5, 8)], 1);
    bench.sack(1, &[(3, 3), (5, 8)], 0);
    assert_eq!(reports(&bench, [2, 4].into_iter()), [1, 0]);
    for last in 9..=12 {
        bench.sack(1, &[(3, 3), (5, 8), (9, last)], 2);
    }
    assert_eq!(reports(&bench, [2, 4].into_iter()), [1, 0]);
}

#[test]
fn three_reports_make_a_chunk_lost_and_it_stays_on_its_path() {
    let mut bench = Bench::opened(2);
    bench.push(0, 6);
    bench.pass(100);
    bench.sack(0, &[(2, 2)], 0);
    bench.sack(0, &[(2, 3)], 0);
    assert!(!bench.is_lost(1));
    bench.sack(0, &[(2, 4)], 0);
    assert!(bench.is_lost(1));
    assert_eq!(bench.send(1), Vec::<u64>::new());
    assert_eq!(bench.send(0), [1]);
    assert_eq!(bench.path(0).stats().fast_retransmits, 1);
}

#[test]
fn a_retransmission_is_not_reported_missing_by_what_was_sent_before_it() {
    let mut bench = Bench::opened(1);
    bench.push(0, 10);
    bench.pass(100);
    for last in 2..=4 {
        bench.sack(0, &[(2, last)], 0);
    }
    assert_eq!(bench.send(0), [1]);
    for last in 5..=10 {
        bench.sack(0, &[(2, last)], 0);
    }
    assert_eq!(bench.missing(1), 0);
}

#[test]
fn a_lost_retransmission_is_found_by_what_was_sent_after_it() {
    let mut bench = Bench::reported(1);
    bench.push(0, 10);
    bench.pass(100);
    for last in 2..=4 {
        bench.sack(0, &[(2, last)], 0);
    }
    assert_eq!(bench.send(0), [1]);
    bench.sack(0, &[(2, 10)], 0);
    assert_eq!(bench.push(0, 4), [11, 12, 13, 14]);
    // Too early: the retransmission is younger than a round trip.
    bench.pass(50);
    for last in 11..=13 {
        bench.sack(0, &[(2, last)], 0);
    }
    assert!(!bench.is_lost(1));
    bench.pass(60);
    bench.sack(0, &[(2, 14)], 0);
    assert!(bench.is_lost(1));
    assert_eq!(bench.send(0), [1]);
}

#[test]
fn rule_5_is_kept_if_so_configured() {
    let config =
        crate::config::Config { loss_recovery: crate::config::LossRecovery::Rfc9260, ..classic() };
    let mut bench = Bench::opened_with(1, &config);
    bench.push(0, 10);
    bench.pass(100);
    for last in 2..=4 {
        bench.sack(0, &[(2, last)], 0);
    }
    assert_eq!(bench.send(0), [1]);
    bench.sack(0, &[(2, 10)], 0);
    bench.push(0, 5);
    bench.pass(200);
    for last in 11..=15 {
        bench.sack(0, &[(2, last)], 0);
    }
    assert!(!bench.is_lost(1));
}

#[test]
fn an_ambiguous_acknowledgement_says_nothing_about_others() {
    let mut bench = Bench::opened(1);
    bench.push(0, 8);
    bench.pass(100);
    for last in 2..=4 {
        bench.sack(0, &[(2, last)], 0);
    }
    bench.sack(0, &[(2, 4), (8, 8)], 0);
    assert_eq!(reports(&bench, 5..=7), [1; 3]);
    // 1 was only late: it arrives just after it was sent again.
    assert_eq!(bench.send(0), [1]);
    bench.pass(1);
    bench.sack(4, &[(8, 8)], 0);
    assert_eq!(reports(&bench, 5..=7), [1; 3]);
}

#[test]
fn a_chunk_above_the_highest_reported_tsn_is_not_missing() {
    let mut bench = Bench::reported(1);
    bench.push(0, 10);
    bench.pass(100);
    for last in 2..=4 {
        bench.sack(0, &[(2, last)], 0);
    }
    assert_eq!(bench.send(0), [1]);
    bench.pass(100);
    // 1 was sent after 5-10, which this SACK does not reach.
    bench.sack(4, &[], 0);
    assert_eq!(reports(&bench, 5..=10), [0; 6]);
}

#[test]
fn one_cut_per_window_and_path() {
    let congestion = CongestionControl::Rfc9260;
    let mut bench = Bench::opened_with(2, &Config { congestion, ..classic() });
    bench.push(0, 10);
    bench.push(1, 10);
    let (cwnd, other) = (bench.cwnd(0), bench.cwnd(1));
    bench.pass(100);
    // 1, 3 and 5 are lost in one window.
    bench.sack(0, &[(2, 2)], 0);
    for last in 6..=10 {
        bench.sack(0, &[(2, 2), (4, 4), (6, last)], 0);
    }
    assert!([1, 3, 5].into_iter().all(|tsn| bench.is_lost(tsn)));
    assert_eq!(bench.cwnd(0), cwnd / 2);
    assert_eq!(bench.cwnd(1), other);
    // A loss on the other path cuts that one's window.
    for last in 12..=14 {
        bench.sack(0, &[(2, 2), (4, 4), (6, 10), (12, last)], 1);
    }
    assert_eq!((bench.cwnd(0), bench.cwnd(1)), (cwnd / 2, other / 2));
}

#[test]
fn fast_recovery_ends_on_a_path_although_the_cumulative_tsn_stands_still() {
    let mut bench = Bench::opened(2);
    bench.push(1, 1);
    bench.push(0, 6);
    bench.pass(100);
    for last in 3..=5 {
        bench.sack(0, &[(3, last)], 0);
    }
    assert!(bench.path(0).flight().is_recovering());
    assert_eq!(bench.send(0), [2]);
    let next = bench.push(0, 2);
    bench.pass(100);
    bench.sack(0, &[(3, 7)], 0);
    assert!(bench.path(0).flight().is_recovering());
    bench.sack(0, &[(2, 7)], 0);
    assert!(!bench.path(0).flight().is_recovering());
    assert_eq!(next, [8, 9]);
}

#[test]
fn one_packet_of_a_fast_retransmit_ignores_the_window() {
    let mut bench = Bench::opened(1);
    let cwnd = bench.cwnd(0);
    let count = cwnd / (FULL + 16) + 1;
    bench.push(0, count);
    bench.pass(100);
    for last in 3..=5 {
        bench.sack(0, &[(3, last)], 0);
    }
    // More than the halved window is in flight: one packet with one full chunk may leave.
    assert!(bench.path(0).in_flight() > bench.cwnd(0));
    assert_eq!(bench.send(0), [1]);
    assert_eq!(bench.send(0), Vec::<u64>::new());
}

#[test]
fn a_chunk_that_is_acknowledged_while_it_waits_is_not_sent_again() {
    let mut bench = Bench::opened(1);
    bench.push(0, 6);
    bench.pass(100);
    for last in 2..=4 {
        bench.sack(0, &[(2, last)], 0);
    }
    assert!(bench.is_lost(1));
    bench.sack(6, &[], 0);
    assert_eq!(bench.send(0), Vec::<u64>::new());
    assert!(bench.sender.is_drained());
}

#[test]
fn senseless_acknowledgements_are_violations_and_old_ones_stale() {
    let mut bench = Bench::opened(1);
    bench.push(0, 4);
    assert!(bench.try_sack(5, &[], 0).is_err());
    assert!(bench.try_sack(0, &[(2, 5)], 0).is_err());
    assert!(bench.sack(2, &[], 0).newly_acked);
    assert!(bench.sack(1, &[(3, 4)], 0).stale);
    let outcome = bench.sack(4, &[], 0);
    assert!(outcome.acked_paths.contains(PathId(0)) && bench.sender.buffer.is_empty());
    assert!(bench.sender.is_drained());
}
