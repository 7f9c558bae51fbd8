//! Redundant transmission: what is copied, and what becomes of the copies.

use super::super::SackView;
use super::{Bench, FULL, experiment};
use crate::config::{Config, PathScheduling, Redundancy, StreamClass, StreamOptions};
use crate::path::PathId;
use crate::status::IdleReason;
use alloc::vec::Vec;
use manypath_wire::Tsn;
use manypath_wire::chunk::Tsns;

/// A chunk of `FULL` bytes in a packet.
const WIRE: usize = FULL + 16;

fn bench(paths: u16, path_scheduling: PathScheduling) -> Bench {
    Bench::opened_with(paths, &experiment(|it| it.path_scheduling = path_scheduling))
}

impl Bench {
    /// A SACK that lists duplicates arrives.
    fn sack_with(&mut self, cum: u64, duplicates: &[u32], via: u8) {
        let duplicates: Vec<Tsn> = duplicates.iter().map(|tsn| Tsn(*tsn)).collect();
        let view = SackView {
            a_rwnd: Some(self.a_rwnd),
            duplicates: Tsns::from_slice(&duplicates),
            ..SackView::of_shutdown(Tsn(cum as u32))
        };
        self.sender.handle_sack(self.now, &view, PathId(via), &mut self.paths).unwrap();
        self.check();
    }

    fn flight(&self, id: u8) -> usize {
        self.path(id).in_flight()
    }
}

#[test]
fn every_path_sends_every_chunk_once() {
    let mut bench = bench(3, PathScheduling::Redundant);
    assert_eq!(bench.push(0, 3), [1, 2, 3]);
    assert_eq!(bench.send_all(1), [1, 2, 3]);
    assert_eq!(bench.send_all(2), [1, 2, 3]);
    assert!(bench.send(0).is_empty() && bench.send(1).is_empty());
    assert_eq!([0, 1, 2].map(|id| bench.flight(id)), [3 * WIRE; 3]);
    assert_eq!((bench.path(0).stats().copies, bench.path(1).stats().copies), (0, 3));
    // The user's bytes count once.
    assert_eq!(bench.sender.outstanding.in_flight(), 3 * FULL);
}

#[test]
fn what_is_acknowledged_needs_no_copy() {
    let mut bench = bench(2, PathScheduling::Redundant);
    bench.push(0, 3);
    bench.pass(100);
    bench.sack(2, &[], 0);
    assert_eq!(bench.send_all(1), [3]);
}

#[test]
fn a_copy_occupies_its_path_until_the_peer_tells_that_it_has_arrived() {
    let mut bench = bench(2, PathScheduling::Redundant);
    bench.push(0, 2);
    bench.send_all(1);
    bench.pass(100);
    bench.sack(2, &[], 0);
    assert_eq!([bench.flight(0), bench.flight(1)], [0, 2 * WIRE]);
    let window = bench.cwnd(1);
    bench.pass(50);
    bench.sack_with(2, &[1], 1);
    bench.sack_with(2, &[2], 1);
    assert_eq!((bench.flight(1), bench.cwnd(1)), (0, window));
    // Of what was never copied a duplicate says nothing.
    bench.sack_with(2, &[2, 77], 1);
}

#[test]
fn the_transmission_on_the_path_of_the_sack_was_first() {
    let mut bench = bench(2, PathScheduling::Redundant);
    bench.push(0, 1);
    bench.send_all(1);
    bench.pass(100);
    bench.sack(1, &[], 1);
    assert_eq!([bench.flight(0), bench.flight(1)], [WIRE, 0]);
    assert!(bench.sender.is_drained());
    // What the first path sent comes after all; an old SACK may tell so.
    bench.push(0, 1);
    bench.pass(100);
    bench.sack(2, &[], 0);
    bench.sack_with(1, &[1], 0);
    assert_eq!(bench.flight(0), 0);
}

#[test]
fn lost_copies_cut_the_window_of_their_path_once() {
    let mut bench = bench(2, PathScheduling::Redundant);
    bench.push(0, 5);
    bench.send_all(1);
    let window = bench.cwnd(1);
    bench.pass(100);
    bench.sack(5, &[], 0);
    // 1 and 3 have not arrived, although what left later has.
    bench.sack_with(5, &[2, 4], 1);
    assert_eq!((bench.cwnd(1), bench.flight(1)), (window, 3 * WIRE));
    bench.pass(100);
    bench.sack(5, &[], 0);
    assert!(bench.cwnd(1) < window, "{} of {window}", bench.cwnd(1));
    assert_eq!(bench.flight(1), WIRE);
    let window = bench.cwnd(1);
    bench.sack_with(5, &[5], 1);
    assert_eq!((bench.cwnd(1), bench.flight(1)), (window, 0));
}

#[test]
fn a_timeout_gives_up_copies_and_is_no_error_where_duplicates_are_never_told() {
    let mut bench = bench(2, PathScheduling::Redundant);
    bench.push(0, 2);
    bench.send_all(1);
    bench.pass(100);
    bench.sack(2, &[], 0);
    assert!(bench.sender.handle_t3(PathId(1), &mut bench.paths));
    assert_eq!((bench.flight(1), bench.path(1).stats().timeouts), (0, 1));
    // Once it has told of some, silence means that the path has failed.
    bench.push(0, 2);
    bench.send_all(1);
    bench.pass(100);
    bench.sack_with(4, &[3], 1);
    bench.push(0, 1);
    bench.send_all(1);
    bench.sack(5, &[], 0);
    assert!(!bench.sender.handle_t3(PathId(1), &mut bench.paths));
}

#[test]
fn only_interactive_streams_are_copied_if_so_chosen() {
    let mut bench = bench(2, PathScheduling::RedundantInteractive);
    assert_eq!(bench.push(0, 1), [1]);
    assert!(bench.send(1).is_empty());
    let options = StreamOptions { class: StreamClass::Interactive, ..StreamOptions::default() };
    bench.sender.queue_mut().set_stream_options(manypath_wire::StreamId(0), options);
    assert_eq!(bench.push(0, 1), [2]);
    assert_eq!(bench.send_all(1), [2]);
    let idle = bench.sender.idle_reason(bench.now, PathId(1), &bench.paths);
    assert_eq!(idle, Some(IdleReason::NoData));
}

#[test]
fn wishes_for_streams_and_redundancy_outlive_a_restart_of_the_peer() {
    let mut bench = bench(2, PathScheduling::SmallestSrtt);
    bench.sender.copies.set_redundancy(Redundancy::Interactive, &mut bench.paths);
    let options = StreamOptions { class: StreamClass::Interactive, ..StreamOptions::default() };
    bench.sender.queue_mut().set_stream_options(manypath_wire::StreamId(0), options);
    bench.sender = bench.sender.restarted(&Config::default(), manypath_wire::Tsn(1), 1 << 20, 10);
    assert_eq!(bench.push(0, 1), [1]);
    assert_eq!(bench.send_all(1), [1], "on both paths");
}
