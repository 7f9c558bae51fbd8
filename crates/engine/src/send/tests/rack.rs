//! Losses found by time, probes of silent tails, and what was repeated for nothing.

use super::{Bench, FULL, classic};
use crate::config::{BurstLimit, Config, CongestionControl, LossRecovery};
use crate::path::PathId;
use crate::send::SackView;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use manypath_wire::Tsn;
use manypath_wire::chunk::{GapBlock, GapBlocks, Tsns};

/// One path with a wide window and round trips of 100 ms: the reordering window is 25 ms. T3-rtx takes
/// a second.
fn bench() -> Bench {
    let (rto_min, congestion) = (Duration::from_secs(1), CongestionControl::Rfc9260);
    let mut bench = Bench::opened_with(1, &Config { rto_min, congestion, ..classic() });
    bench.pass(1000);
    bench
}

fn deadline(bench: &Bench) -> Option<Instant> {
    bench.sender.loss_deadline(&bench.paths)
}

/// How long it is until the next deadline, in ms.
fn wait(bench: &Bench) -> Option<u64> {
    deadline(bench).map(|at| (at.since(bench.now).as_nanos() / 1_000_000) as u64)
}

/// The clock moves to the deadline, which is handled.
fn expire(bench: &mut Bench) {
    bench.now = deadline(bench).unwrap();
    bench.sender.handle_loss_deadline(bench.now, &mut bench.paths);
    bench.check();
}

fn report_duplicates(bench: &mut Bench, cum: u64, duplicates: &[u32]) {
    let tsns: Vec<Tsn> = duplicates.iter().map(|tsn| Tsn(*tsn)).collect();
    let view =
        SackView { duplicates: Tsns::from_slice(&tsns), ..SackView::of_shutdown(Tsn(cum as u32)) };
    let view = SackView { a_rwnd: Some(bench.a_rwnd), ..view };
    bench.sender.handle_sack(bench.now, &view, PathId(0), &mut bench.paths).unwrap();
    bench.check();
}

#[test]
fn one_later_arrival_and_the_time_to_arrive_make_a_chunk_lost() {
    let mut bench = bench();
    let cwnd = bench.cwnd(0);
    bench.push(0, 2);
    bench.pass(100);
    bench.sack(0, &[(2, 2)], 0);
    assert!(!bench.is_lost(1));
    assert_eq!(wait(&bench), Some(25));
    expire(&mut bench);
    assert!(bench.is_lost(1));
    assert_eq!(bench.cwnd(0), cwnd / 2);
    assert_eq!(bench.send(0), [1]);
}

#[test]
fn three_later_arrivals_make_it_lost_at_once_even_in_one_sack() {
    let mut bench = bench();
    bench.push(0, 5);
    bench.pass(100);
    bench.sack(0, &[(2, 3)], 0);
    assert!(!bench.is_lost(1));
    bench.sack(0, &[(2, 4)], 0);
    assert!(bench.is_lost(1) && !bench.is_lost(5));
}

#[test]
fn on_a_path_that_reorders_only_time_counts() {
    let mut bench = bench();
    bench.push(0, 2);
    bench.pass(100);
    bench.sack(0, &[(2, 2)], 0);
    bench.sack(2, &[], 0);
    bench.push(0, 6);
    bench.pass(100);
    bench.sack(2, &[(4, 8)], 0);
    assert!(!bench.is_lost(3));
    assert_eq!(wait(&bench), Some(25));
    // It was only late.
    bench.pass(20);
    bench.sack(8, &[], 0);
    assert_eq!(bench.path(0).stats().spurious_retransmits, 0);
}

#[test]
fn a_lost_retransmission_is_found_by_a_single_later_arrival_and_cuts_again() {
    let mut bench = bench();
    bench.push(0, 10);
    bench.pass(100);
    bench.sack(0, &[(2, 4)], 0);
    let cwnd = bench.cwnd(0);
    assert_eq!(bench.send(0), [1]);
    bench.pass(1);
    assert_eq!(bench.push(0, 1), [11]);
    bench.pass(100);
    bench.sack(0, &[(2, 11)], 0);
    assert!(bench.is_lost(1));
    assert_eq!(bench.cwnd(0), cwnd / 2);
    assert_eq!(bench.send(0), [1]);
    assert_eq!(bench.path(0).stats().timeouts, 0);
}

#[test]
fn several_losses_of_one_window_cut_once() {
    let mut bench = bench();
    let cwnd = bench.cwnd(0);
    bench.push(0, 12);
    bench.pass(100);
    bench.sack(0, &[(2, 4), (6, 6)], 0);
    bench.sack(0, &[(2, 4), (6, 6), (8, 12)], 0);
    assert!(bench.is_lost(1) && bench.is_lost(5) && bench.is_lost(7));
    assert_eq!(bench.cwnd(0), cwnd / 2);
}

#[test]
fn what_a_full_sack_had_no_room_for_is_not_lost() {
    let mut bench = bench();
    bench.push(0, 40);
    bench.pass(100);
    // 1 arrives at the second attempt, which left after all the others.
    bench.sack(0, &[(2, 4)], 0);
    assert_eq!(bench.send(0), [1]);
    bench.pass(200);
    let gaps: Vec<GapBlock> =
        (1..=16).map(|block| GapBlock { start: 2 * block, end: 2 * block }).collect();
    let view = SackView {
        a_rwnd: Some(bench.a_rwnd),
        gaps: GapBlocks::from_slice(&gaps),
        ..SackView::of_shutdown(Tsn(4))
    };
    bench.sender.handle_sack(bench.now, &view, PathId(0), &mut bench.paths).unwrap();
    assert!(bench.is_lost(5) && bench.is_lost(35));
    assert!((37..=40).all(|tsn| !bench.is_lost(tsn)));
}

#[test]
fn a_silent_tail_is_probed_with_what_was_sent_last_before_t3_expires() {
    let mut bench = bench();
    bench.push(0, 3);
    assert_eq!(wait(&bench), Some(200));
    assert!(deadline(&bench) < bench.path(0).flight().t3());
    let cwnd = bench.cwnd(0);
    expire(&mut bench);
    assert_eq!(bench.send_all(0), [3]);
    assert_eq!((bench.path(0).stats().tail_probes, bench.cwnd(0)), (1, cwnd));
    // T3-rtx is next, a full RTO later.
    assert_eq!(deadline(&bench), None);
    assert_eq!(bench.path(0).flight().t3().unwrap().since(bench.now), bench.path(0).rtt().rto());
    // The answer shows that all before it is lost.
    bench.pass(100);
    bench.sack(0, &[(3, 3)], 0);
    assert!(bench.is_lost(1) && bench.is_lost(2));
    assert_eq!(bench.path(0).stats().timeouts, 0);
}

#[test]
fn a_single_packet_is_given_the_time_of_a_delayed_acknowledgement() {
    let mut bench = bench();
    bench.push(0, 1);
    assert_eq!(wait(&bench), Some(250));
}

#[test]
fn a_probe_is_new_data_beyond_the_window_if_there_is_some() {
    let mut bench = bench();
    bench.queue(100);
    let sent = bench.send_all(0);
    expire(&mut bench);
    assert_eq!(bench.send_all(0), [sent.len() as u64 + 1]);
    assert!(bench.path(0).in_flight() > bench.cwnd(0));
}

#[test]
fn a_lost_retransmission_with_nothing_behind_it_is_probed() {
    let mut bench = bench();
    bench.push(0, 4);
    bench.pass(100);
    bench.sack(0, &[(2, 4)], 0);
    assert_eq!(bench.send_all(0), [1]);
    expire(&mut bench);
    assert_eq!(bench.send_all(0), [1]);
    bench.pass(100);
    bench.sack(4, &[], 0);
    assert_eq!(bench.path(0).stats().timeouts, 0);
}

/// A probe has repeated the last of two chunks, and the peer has acknowledged both; what happens to
/// the window when the next chunk is acknowledged, if these duplicates are reported before?
fn is_cut_after_probe(duplicates: &[u32]) -> bool {
    let mut bench = bench();
    let cwnd = bench.cwnd(0);
    bench.push(0, 2);
    expire(&mut bench);
    assert_eq!(bench.send_all(0), [2]);
    bench.pass(100);
    bench.sack(2, &[], 0);
    assert_eq!(bench.cwnd(0), cwnd);
    report_duplicates(&mut bench, 2, duplicates);
    bench.push(0, 1);
    bench.pass(100);
    bench.sack(3, &[], 0);
    bench.cwnd(0) < cwnd
}

#[test]
fn a_loss_that_the_probe_has_repaired_cuts_the_window() {
    assert!(is_cut_after_probe(&[]));
    assert!(!is_cut_after_probe(&[2]));
}

#[test]
fn duplicates_of_retransmissions_are_counted_once_and_widen_the_reordering_window() {
    let mut bench = bench();
    bench.push(0, 4);
    bench.pass(100);
    bench.sack(0, &[(2, 4)], 0);
    assert_eq!(bench.send(0), [1]);
    bench.pass(100);
    bench.sack(4, &[], 0);
    // 3 was never sent again: the network has made the duplicate.
    report_duplicates(&mut bench, 4, &[1, 3]);
    report_duplicates(&mut bench, 4, &[1]);
    let path = bench.path(0);
    assert_eq!(path.stats().spurious_retransmits, 1);
    assert_eq!(path.reordering_window(), Duration::from_millis(50));
}

#[test]
fn without_it_nothing_happens_before_t3() {
    for loss_recovery in [LossRecovery::Rfc9260, LossRecovery::Repeat] {
        let mut bench = Bench::opened_with(1, &Config { loss_recovery, ..classic() });
        bench.queue_bytes(FULL);
        bench.send(0);
        assert_eq!(deadline(&bench), None, "{loss_recovery}");
    }
}

#[test]
fn losses_of_one_window_cut_a_path_once_that_only_retransmits() {
    for sent_before in [0, 2] {
        let (congestion, burst_limit) = (CongestionControl::Rfc9260, BurstLimit::None);
        let config = Config { congestion, burst_limit, ..Config::default() };
        let mut bench = Bench::opened_with(2, &config);
        let cum = bench.push(1, sent_before).len() as u64;
        bench.pass(100);
        bench.sack(cum, &[], 1);
        bench.push(0, 10);
        bench.sender.handle_t3(PathId(0), &mut bench.paths);
        assert_eq!(bench.send_all(1).len(), 10, "what timed out takes the other path");
        let cwnd = bench.cwnd(1);
        bench.pass(100);
        bench.sack(cum, &[(cum + 2, cum + 4)], 1);
        assert!(bench.is_lost(cum + 1));
        assert_eq!(bench.cwnd(1), cwnd / 2);
        bench.sack(cum, &[(cum + 2, cum + 4), (cum + 6, cum + 8)], 1);
        assert!(bench.is_lost(cum + 5));
        assert_eq!(bench.cwnd(1), cwnd / 2, "sent before: {sent_before}");
    }
}
