//! The map over time.

use super::{DynamicMap, REST, StreamReport};
use crate::config::StreamOptions;
use crate::path::testing::measured;
use crate::path::{PathId, PathSet, Paths};
use crate::schedule::map::{Room, StreamView};
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use manypath_wire::StreamId;

/// More than any of the paths here needs.
const ROOM: Room = Room { window: 8 << 20, waiting: 0, non_renegable: true };

struct Bench {
    map: DynamicMap,
    paths: Paths,
    usable: PathSet,
    now: Instant,
}

impl Bench {
    fn new(srtts: &[u64]) -> Self {
        let (paths, usable) = measured(srtts);
        Self { map: DynamicMap::default(), paths, usable, now: Instant::ZERO }
    }

    /// A second in which the paths carry so many bytes at full window; then a plan for saturated
    /// streams.
    fn second(&mut self, carried: &[u64], streams: u16) -> Vec<u8> {
        for _ in 0..10 {
            self.now = self.now + Duration::from_millis(100);
            for (path, bytes) in self.paths.iter_mut().zip(carried) {
                path.stats_mut().bytes_acked += bytes / 10;
                path.set_share_filled(Some(self.now));
            }
            self.map.observe(self.now, &self.paths, self.usable, ROOM);
        }
        self.plan(streams)
    }

    fn plan(&mut self, streams: u16) -> Vec<u8> {
        let report = |id| StreamReport {
            view: StreamView { id: StreamId(id), options: StreamOptions::default(), demand: None },
            under_way: true,
        };
        let reports: Vec<_> = (0..streams).map(report).collect();
        self.map.release(self.now);
        self.map.observe(self.now, &self.paths, self.usable, ROOM);
        self.map.replan(self.now, &self.paths, &reports);
        (0..streams).filter_map(|id| self.map.home(StreamId(id))).map(|path| path.0).collect()
    }
}

#[test]
fn every_path_gets_a_stream_and_the_map_stays() {
    let mut bench = Bench::new(&[20, 20, 100]);
    let first = bench.plan(7);
    assert!((0..3).all(|path| first.contains(&path)), "{first:?}");
    let seconds: Vec<_> =
        (0..5).map(|_| bench.second(&[1_250_000, 1_250_000, 125_000], 7)).collect();
    let count = |map: &Vec<u8>, path| map.iter().filter(|home| **home == path).count();
    assert_eq!([0, 1, 2].map(|path| count(&seconds[4], path)), [3, 3, 1]);
    assert_eq!(seconds[3], seconds[4]);
}

#[test]
fn small_differences_move_nobody() {
    let mut bench = Bench::new(&[20, 20]);
    (0..5).for_each(|_| drop(bench.second(&[1_000_000, 1_000_000], 3)));
    let before = bench.plan(3);
    for _ in 0..5 {
        assert_eq!(bench.second(&[1_050_000, 950_000], 3), before);
        assert_eq!(bench.second(&[950_000, 1_050_000], 3), before);
    }
}

#[test]
fn streams_follow_when_the_rates_of_the_paths_are_swapped() {
    let mut bench = Bench::new(&[20, 20]);
    (0..5).for_each(|_| drop(bench.second(&[4_000_000, 1_000_000], 5)));
    let count = |map: &[u8]| map.iter().filter(|home| **home == 0).count();
    assert_eq!(count(&bench.plan(5)), 4);
    let after: Vec<_> = (0..5).map(|_| count(&bench.second(&[1_000_000, 4_000_000], 5))).collect();
    assert_eq!(after[4], 1, "{after:?}");
}

#[test]
fn a_stream_that_moves_waits_for_what_is_under_way_and_then_rests() {
    let mut bench = Bench::new(&[200, 20]);
    bench.usable = PathSet::default();
    bench.usable.insert(PathId(0));
    assert_eq!(bench.plan(2), [0, 0]);
    bench.usable.insert(PathId(1));
    let map = bench.second(&[1_000_000, 1_000_000], 2);
    let moved = map.iter().position(|home| *home == 1).unwrap();
    let moved = StreamId(moved as u16);
    assert!(bench.map.is_held(moved));
    let until = bench.map.deadline().unwrap();
    assert_eq!(until, bench.now + Duration::from_millis(90));
    bench.map.release(until);
    assert!(!bench.map.is_held(moved));
    assert_eq!(bench.map.deadline(), None);
    // The fast path turns out to be next to nothing, but the stream has just moved.
    let before = bench.map.home(moved);
    bench.now = bench.now + REST / 4;
    bench.plan(2);
    assert_eq!(bench.map.home(moved), before);
}

#[test]
fn streams_of_a_failed_path_move_at_once() {
    let mut bench = Bench::new(&[20, 20]);
    assert_eq!(bench.plan(2), [0, 1]);
    bench.usable = PathSet::default();
    bench.usable.insert(PathId(1));
    bench.map.observe(bench.now, &bench.paths, bench.usable, ROOM);
    assert!(bench.map.is_due(bench.now, &bench.paths));
    assert_eq!(bench.plan(2), [1, 1]);
    assert!(!bench.map.is_held(StreamId(0)));
}
