//! The choices of concurrent multipath transfer: what each changes.

use super::{Bench, experiment};
use crate::config::{
    Config, CongestionControl, CwndUpdate, FastRecoveryScope, LossRecovery, SplitFastRetransmit,
};
use crate::path::PathId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use proptest::prelude::*;

fn with(rule: SplitFastRetransmit, missing_reports: u8) -> Config {
    let config = experiment(|it| {
        (it.split_fast_retransmit, it.missing_reports) = (rule, missing_reports);
    });
    Config { loss_recovery: LossRecovery::Repeat, ..config }
}

/// TSNs 1-4 on path 0, 5-8 on path 1, 9-12 on path 2.
fn three_groups(config: &Config) -> Bench {
    let mut bench = Bench::opened_with(3, config);
    (0..3).for_each(|path| drop(bench.push(path, 4)));
    bench.pass(50);
    bench
}

fn reports(bench: &Bench, tsns: &[u64]) -> Vec<u8> {
    tsns.iter().map(|tsn| bench.missing(*tsn)).collect()
}

const SPLIT: [SplitFastRetransmit; 3] =
    [SplitFastRetransmit::Tsn, SplitFastRetransmit::TxSeq, SplitFastRetransmit::Lsfr];

#[test]
fn the_golden_cases_hold_for_every_split_rule_and_threshold() {
    for (rule, threshold) in SPLIT.into_iter().flat_map(|rule| [(rule, 3), (rule, 4)]) {
        let config = with(rule, threshold);
        // 1b: the third group arrives first.
        let mut bench = three_groups(&config);
        for last in 9..=12 {
            bench.sack(0, &[(9, last)], 2);
        }
        assert_eq!(reports(&bench, &[1, 4, 5, 8]), [0; 4], "{rule}");
        // 2a: the second group, then the first in order.
        let mut bench = three_groups(&config);
        for last in 5..=8 {
            bench.sack(0, &[(5, last)], 1);
        }
        bench.sack(1, &[(5, 8)], 0);
        bench.sack(2, &[(5, 8)], 0);
        assert_eq!(reports(&bench, &[3, 4]), [0; 2], "{rule}");
        // 2b: 2 is reported by 3, and by nothing of other groups.
        let mut bench = three_groups(&config);
        bench.sack(1, &[(5, 8)], 1);
        bench.sack(1, &[(3, 3), (5, 8)], 0);
        for last in 9..=12 {
            bench.sack(1, &[(3, 3), (5, 8), (9, last)], 2);
        }
        assert_eq!(reports(&bench, &[2, 4]), [1, 0], "{rule}");
    }
}

#[test]
fn without_the_split_slow_groups_are_struck_and_repeated_for_nothing() {
    let mut bench = three_groups(&with(SplitFastRetransmit::Off, 3));
    for last in 9..=11 {
        bench.sack(0, &[(9, last)], 2);
    }
    assert!((1..=8).all(|tsn| bench.is_lost(tsn)));
}

#[test]
fn the_threshold_decides_when_a_chunk_is_lost() {
    for (rule, threshold) in SPLIT.into_iter().flat_map(|rule| [(rule, 3), (rule, 4)]) {
        let mut bench = Bench::opened_with(1, &with(rule, threshold));
        bench.push(0, 8);
        for last in 2..=u64::from(threshold) + 1 {
            assert!(!bench.is_lost(1), "{rule}");
            bench.sack(0, &[(2, last)], 0);
        }
        assert!(bench.is_lost(1), "{rule}");
    }
}

#[test]
fn only_transmission_numbers_spare_a_retransmission_that_left_after_higher_tsns() {
    for (rule, struck) in SPLIT.into_iter().zip([1, 0, 1]) {
        let mut bench = Bench::opened_with(1, &with(rule, 3));
        bench.push(0, 10);
        for last in 2..=4 {
            bench.sack(0, &[(2, last)], 0);
        }
        assert_eq!(bench.send(0), [1]);
        bench.sack(0, &[(2, 5)], 0);
        assert_eq!(bench.missing(1), struck, "{rule}");
    }
}

/// LSFR as its paper writes it down: groups of pending chunks, and a strike for each hole of a
/// group below a TSN of the group that is newly acknowledged.
#[derive(Default)]
struct Reference {
    groups: BTreeMap<u8, BTreeSet<u64>>,
    strikes: BTreeMap<u64, u8>,
}

impl Reference {
    fn acknowledge(&mut self, reported: &BTreeSet<u64>) {
        for pending in self.groups.values_mut() {
            let newly: Vec<u64> = pending.intersection(reported).copied().collect();
            pending.retain(|tsn| !reported.contains(tsn));
            for hole in pending.iter().filter(|hole| newly.iter().any(|tsn| tsn > hole)) {
                *self.strikes.entry(*hole).or_default() += 1;
            }
        }
    }
}

proptest! {
    /// Without retransmissions all three split rules and the paper's words agree.
    #[test]
    fn sfr_and_lsfr_decide_alike(
        sends in prop::collection::vec(0..3u8, 1..30),
        arrivals in prop::collection::vec(prop::collection::vec(0..30usize, 1..4), 1..12),
    ) {
        let mut benches: Vec<Bench> =
            SPLIT.into_iter().map(|rule| Bench::opened_with(3, &with(rule, u8::MAX))).collect();
        let mut reference = Reference::default();
        for (tsn, path) in (1..).zip(&sends) {
            benches.iter_mut().for_each(|bench| assert_eq!(bench.push(*path, 1), [tsn]));
            reference.groups.entry(*path).or_default().insert(tsn);
        }
        let mut reported = BTreeSet::new();
        for arrival in arrivals {
            reported.extend(arrival.iter().map(|at| (at % sends.len()) as u64 + 1));
            let cum = (1..).find(|tsn| !reported.contains(tsn)).unwrap() - 1;
            let blocks: Vec<_> = reported.range(cum + 1..).map(|tsn| (*tsn, *tsn)).collect();
            reference.acknowledge(&reported);
            for bench in &mut benches {
                bench.sack(cum, &blocks, 0);
                for tsn in (cum + 1..=sends.len() as u64).filter(|tsn| !reported.contains(tsn)) {
                    let expected = reference.strikes.get(&tsn).copied().unwrap_or(0);
                    prop_assert_eq!(bench.missing(tsn), expected);
                }
            }
        }
    }
}

fn dac() -> Config {
    let config = experiment(|it| it.delayed_ack_cmt = true);
    Config { loss_recovery: LossRecovery::Repeat, ..config }
}

#[test]
fn a_delayed_sack_counts_for_its_packets() {
    for (packets, reports) in [(0, 1), (1, 1), (2, 2), (3, 3)] {
        let mut bench = Bench::opened_with(2, &dac());
        bench.push(0, 8);
        bench.flagged_sack(packets << 6, 0, &[(2, 3)], 0).unwrap();
        // Three reports make a chunk lost.
        assert_eq!((bench.missing(1), bench.is_lost(1)), (reports, reports == 3));
    }
}

#[test]
fn mixed_reports_and_those_of_several_paths_count_once() {
    // 3 lies between 2 and 4; 1 lies before both.
    let mut bench = Bench::opened_with(2, &dac());
    bench.push(0, 8);
    bench.flagged_sack(2 << 6, 0, &[(2, 2), (4, 4)], 0).unwrap();
    assert_eq!(reports(&bench, &[1, 3]), [2, 1]);
    let mut bench = Bench::opened_with(2, &dac());
    bench.push(0, 4);
    bench.push(1, 4);
    bench.flagged_sack(2 << 6, 0, &[(2, 2), (6, 6)], 0).unwrap();
    assert_eq!(reports(&bench, &[1, 5]), [1, 1]);
}

#[test]
fn without_dac_the_flags_mean_nothing() {
    let mut bench = Bench::reported(2);
    bench.push(0, 8);
    bench.flagged_sack(0xC0, 0, &[(2, 3)], 0).unwrap();
    assert_eq!(bench.missing(1), 1);
}

/// The windows of two paths after the first TSN of path 0 was lost and all else has arrived.
fn after_a_hole(cwnd_update: CwndUpdate) -> [bool; 2] {
    let mut bench = Bench::opened_with(2, &experiment(|it| it.cwnd_update = cwnd_update));
    bench.pass(1000);
    let chunks = bench.cwnd(0).div_ceil(1460).max(bench.cwnd(1).div_ceil(1460));
    bench.queue(2 * chunks);
    let (first, second) = (bench.send_all(0), bench.send_all(1));
    let before = [bench.cwnd(0), bench.cwnd(1)];
    bench.pass(100);
    // Neither acknowledgement moves the cumulative TSN.
    bench.sack(0, &[(2, 3)], 0);
    bench.sack(0, &[(2, 3), (second[0], *second.last().unwrap())], 1);
    assert!(first.len() > 10 && second.len() > 10);
    [0, 1].map(|path| bench.cwnd(path) > before[usize::from(path)])
}

#[test]
fn a_window_grows_with_its_own_path_whatever_the_cumulative_tsn_does() {
    assert_eq!(after_a_hole(CwndUpdate::V2), [false, true]);
    assert_eq!(after_a_hole(CwndUpdate::V1), [false, true]);
    assert_eq!(after_a_hole(CwndUpdate::None), [false, false]);
}

#[test]
fn a_lost_retransmission_stops_version_1_but_not_version_2() {
    for (cwnd_update, advances) in [(CwndUpdate::V1, false), (CwndUpdate::V2, true)] {
        let mut bench = Bench::opened_with(2, &experiment(|it| it.cwnd_update = cwnd_update));
        bench.push(0, 1);
        bench.push(1, 1);
        bench.pass(2000);
        bench.sender.handle_t3(PathId(0), &mut bench.paths);
        // 1 is repeated on path 1 and lost again; what path 1 sent itself arrives.
        assert_eq!(bench.send(1), [1]);
        let sent = bench.push(1, 1);
        bench.pass(100);
        bench.sack(0, &[(2, sent[0])], 1);
        assert_eq!(bench.path(1).advances(cwnd_update), advances, "{cwnd_update}");
    }
}

#[test]
fn moving_a_chunk_looks_for_the_earliest_of_both_paths_again() {
    let mut bench = Bench::opened(2);
    bench.push(0, 2);
    bench.push(1, 2);
    bench.sack(0, &[(4, 4)], 1);
    bench.pass(2000);
    bench.sender.handle_t3(PathId(0), &mut bench.paths);
    assert_eq!(bench.send_all(1), [1, 2]);
    assert!([0, 1].into_iter().all(|path| bench.path(path).wants_earliest() == (true, true)));
}

#[test]
fn fast_recovery_of_the_association_cuts_once_and_stops_all_growth() {
    for (fast_recovery, cuts) in [
        (FastRecoveryScope::Path, 2),
        (FastRecoveryScope::Association, 1),
        (FastRecoveryScope::None, 2),
    ] {
        let congestion = CongestionControl::Rfc9260;
        let config = Config { congestion, ..experiment(|it| it.fast_recovery = fast_recovery) };
        let mut bench = Bench::opened_with(2, &config);
        bench.push(0, 10);
        bench.push(1, 10);
        let before = [bench.cwnd(0), bench.cwnd(1)];
        bench.pass(100);
        for last in 4..=6 {
            bench.sack(0, &[(4, last)], 0);
        }
        // 1 to 3 were lost in one window: one cut.
        assert_eq!(bench.cwnd(0), before[0] / 2);
        for last in 12..=14 {
            bench.sack(0, &[(4, 6), (12, last)], 1);
        }
        let cut = [0, 1].map(|path| bench.cwnd(path) < before[usize::from(path)]);
        assert_eq!(cut.into_iter().filter(|cut| *cut).count(), cuts, "{fast_recovery}");
        // It ends when all that was outstanding is acknowledged cumulatively.
        bench.sack(20, &[], 0);
        assert!(!bench.sender.detection.is_recovering());
    }
}

#[test]
fn without_fast_recovery_each_sack_that_finds_a_loss_cuts_again() {
    for (fast_recovery, cuts) in [(FastRecoveryScope::Path, 1), (FastRecoveryScope::None, 3)] {
        let mut bench = Bench::opened_with(1, &experiment(|it| it.fast_recovery = fast_recovery));
        bench.push(0, 12);
        let mut window = bench.cwnd(0);
        bench.pass(100);
        let mut seen = 0;
        // 1, 3 and 5 get their third report one after the other.
        for blocks in [&[(2, 2)][..], &[(2, 2), (4, 4)], &[(2, 2), (4, 4), (6, 6)]] {
            bench.sack(0, blocks, 0);
        }
        for last in 6..=9 {
            seen += usize::from(bench.cwnd(0) < window);
            window = bench.cwnd(0);
            bench.sack(0, &[(2, 2), (4, 4), (6, last)], 0);
        }
        assert_eq!(seen, cuts, "{fast_recovery}");
        assert!([1, 3, 5].into_iter().all(|tsn| bench.is_lost(tsn)));
    }
}

#[test]
fn a_path_behind_another_ones_loss_times_out_only_without_the_smart_timer() {
    for (smart_t3, restarted) in [(true, true), (false, false)] {
        let mut bench = Bench::opened_with(2, &experiment(|it| it.smart_t3 = smart_t3));
        bench.push(0, 1);
        bench.push(1, 4);
        let started = bench.path(1).flight().t3().unwrap();
        bench.pass(150);
        // 1 is lost and holds the cumulative TSN; path 1 delivers.
        bench.sack(0, &[(2, 3)], 1);
        assert_eq!(bench.path(1).flight().t3().unwrap() > started, restarted);
        bench.sack(5, &[], 1);
        assert_eq!(bench.path(1).flight().t3(), None);
    }
}

#[test]
fn a_chunk_that_holds_up_a_full_share_is_sent_again_on_the_path_that_waits() {
    let config = experiment(|it| {
        it.rescheduling_percent = 50;
        it.path_scheduling = crate::config::PathScheduling::SmallestSrtt;
    });
    let config = Config { congestion: CongestionControl::Rfc9260, ..config };
    let mut bench = Bench::opened_with(2, &config);
    bench.sender.buffer.resize(20 * super::FULL);
    bench.push(1, 2);
    assert_eq!(bench.push(0, 6), [3, 4, 5, 6, 7, 8]);
    let windows = [bench.cwnd(0), bench.cwnd(1)];
    bench.queue(4);
    bench.pass(50);
    // Four of ten wait for the cumulative TSN: too few.
    bench.sack(0, &[(3, 6)], 0);
    assert_eq!(bench.send(0), [9]);
    bench.sack(0, &[(3, 8)], 0);
    assert_eq!(bench.send(0), [1]);
    assert_eq!(bench.path(1).stats().rescheduled, 1);
    assert_eq!((bench.cwnd(0), bench.cwnd(1)), (windows[0], windows[1] / 2));
    // It is not sent a third time, and 2 is not in the way.
    assert_eq!(bench.send(0), [10]);
    // The path of 2 is in recovery already: it is held back for a round trip.
    bench.sack(1, &[(3, 9)], 0);
    assert_eq!(bench.send(0), [2]);
    assert!(bench.path(1).pacer().is_held_back(bench.now));
    assert_eq!(bench.send(1), Vec::<u64>::new());
    let until = bench.sender.deadline(&bench.paths).unwrap();
    bench.now = until;
    assert_eq!(bench.send(1), [11]);
}
