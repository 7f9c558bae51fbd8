//! Fragmentation, numbering and the choice of the stream.

use super::super::reliability::Terms;
use super::{Fragment, Number, SendQueue, Taker};
use crate::config::{Config, StreamClass, StreamOptions, StreamScheduling};
use crate::path::testing::measured;
use crate::path::{PathId, PathSet};
use crate::schedule::map::Room;
use crate::send::Outgoing;
use crate::send::perishable::MessageKey;
use crate::send::stream::MAX_ORDERED;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use bytes::Bytes;
use manypath_wire::{Ppid, Ssn, StreamId};
use proptest::prelude::*;

fn queue() -> SendQueue {
    SendQueue::new(&Config { stream_scheduling: StreamScheduling::Fcfs, ..Config::default() })
}

fn mapped(mapping: &str) -> SendQueue {
    let stream_mapping = mapping.parse().unwrap();
    let stream_scheduling = StreamScheduling::RoundRobin;
    SendQueue::new(&Config { stream_mapping, stream_scheduling, ..Config::default() })
}

fn taker(path: u8, usable: &[u8]) -> Taker {
    let mut set = PathSet::default();
    usable.iter().for_each(|id| set.insert(PathId(*id)));
    Taker { path: PathId(path), usable: set, helps: PathSet::default(), ends: false, late: false }
}

fn push(queue: &mut SendQueue, stream: u16, unordered: bool, len: usize) {
    let payload = Bytes::from(alloc::vec![7; len]);
    let message = Outgoing { stream: StreamId(stream), ppid: Ppid(1), unordered, payload };
    queue.push(message, Terms::Reliable);
}

fn pop(queue: &mut SendQueue, limit: usize) -> Option<Fragment> {
    let (stream, _) = queue.next(taker(0, &[0]), limit)?;
    queue.pop(stream, PathId(0), limit)
}

fn drain(queue: &mut SendQueue) -> Vec<(u16, u16, bool, bool, usize)> {
    let all: Vec<Fragment> = core::iter::from_fn(|| pop(queue, 1000)).collect();
    let ssn = |f: &Fragment| match f.number {
        Number::Ssn(ssn) => ssn.0,
        Number::Mid(..) => panic!("not interleaved"),
    };
    all.iter().map(|f| (f.stream.0, ssn(f), f.begin, f.end, f.payload.len())).collect()
}

/// The stream that a path sends of next.
fn next(queue: &mut SendQueue, path: u8, usable: &[u8]) -> Option<Fragment> {
    let taker = taker(path, usable);
    let (stream, promised) = queue.next(taker, 1000)?;
    let fragment = queue.pop(stream, PathId(path), 1000);
    assert_eq!(Some(promised), fragment.as_ref().map(|fragment| fragment.payload.len()));
    fragment
}

fn next_stream(queue: &mut SendQueue, path: u8, usable: &[u8]) -> Option<u16> {
    next(queue, path, usable).map(|fragment| fragment.stream.0)
}

#[test]
fn messages_are_cut_and_numbered_when_they_leave() {
    let mut queue = queue();
    push(&mut queue, 5, false, 2500);
    push(&mut queue, 2, false, 10);
    push(&mut queue, 5, true, 1001);
    push(&mut queue, 5, false, 1000);
    assert_eq!((queue.bytes(), queue.messages()), (4511, 4));
    let expected = [
        (5, 0, true, false, 1000),
        (5, 0, false, false, 1000),
        (5, 0, false, true, 500),
        (2, 0, true, true, 10),
        (5, 0, true, false, 1000),
        (5, 0, false, true, 1),
        (5, 1, true, true, 1000),
    ];
    assert_eq!(drain(&mut queue), expected);
    assert_eq!((queue.bytes(), queue.messages()), (0, 0));
}

#[test]
fn sparse_streams_that_are_tied_to_no_path_leave_a_late_one_to_bulk_data() {
    let mut queue = SendQueue::new(&Config::default());
    let late = Taker { late: true, ..taker(0, &[0, 1]) };
    let next = |queue: &SendQueue, taker| queue.next(taker, 1000).map(|(stream, _)| stream.0);
    push(&mut queue, 5, false, 64);
    assert_eq!((next(&queue, late), next(&queue, taker(1, &[0, 1]))), (None, Some(5)));
    push(&mut queue, 3, false, 9000);
    assert_eq!((next(&queue, late), next(&queue, taker(1, &[0, 1]))), (Some(3), Some(5)));
    let mut tied =
        SendQueue::new(&Config { stream_mapping: "modulo".parse().unwrap(), ..Config::default() });
    push(&mut tied, 0, false, 64);
    assert_eq!(next(&tied, late), Some(0));
}

#[test]
fn a_stream_has_no_more_ordered_messages_under_way_than_numbers() {
    let mut queue = queue();
    for _ in 0..=MAX_ORDERED {
        push(&mut queue, 1, false, 1);
    }
    let first = pop(&mut queue, 1000).unwrap();
    assert_eq!(drain(&mut queue).len(), MAX_ORDERED as usize - 1);
    assert_eq!((queue.next_len(taker(0, &[0]), 9), queue.messages()), (None, 1));
    // Others go on.
    push(&mut queue, 2, false, 5);
    assert_eq!(drain(&mut queue), [(2, 0, true, true, 5)]);
    queue.on_acked(&first);
    assert_eq!(drain(&mut queue), [(1, u16::MAX, true, true, 1)]);
    push(&mut queue, 1, true, 1);
    assert_eq!(queue.next_len(taker(0, &[0]), 9), Some(1));
}

#[test]
fn sequence_numbers_wrap_to_zero_and_unordered_messages_have_none() {
    let mut queue = queue();
    let mut seen = Vec::new();
    for number in 0..=u32::from(u16::MAX) + 1 {
        push(&mut queue, 1, false, 1);
        push(&mut queue, 1, true, 1);
        let fragments: Vec<_> = core::iter::from_fn(|| pop(&mut queue, 1000)).collect();
        fragments.iter().for_each(|fragment| queue.on_acked(fragment));
        if number > 65_533 {
            let ordered = fragments.iter().find(|fragment| !fragment.unordered).unwrap();
            seen.push(ordered.number);
        }
    }
    let wrapped = [65_534, 65_535, 0].map(|ssn| Number::Ssn(Ssn(ssn)));
    assert!(seen.iter().eq(&wrapped), "{seen:?}");
}

#[test]
fn streams_that_the_peer_does_not_have_are_dropped() {
    let mut queue = queue();
    push(&mut queue, 9, false, 5);
    push(&mut queue, 1, false, 6);
    push(&mut queue, 10, false, 7);
    assert_eq!(queue.limit_streams(9), (2, 12));
    assert_eq!(drain(&mut queue), [(1, 0, true, true, 6)]);
}

#[test]
fn a_path_without_data_of_its_own_streams_stays_idle() {
    let mut queue = mapped("0,1,0,-");
    for stream in [0, 0, 1, 2, 3] {
        push(&mut queue, stream, false, 100);
    }
    assert_eq!(next_stream(&mut queue, 1, &[0, 1]), Some(1));
    assert_eq!(next_stream(&mut queue, 1, &[0, 1]), Some(3));
    assert_eq!(next_stream(&mut queue, 1, &[0, 1]), None);
    let rest: Vec<u16> = (0..3).filter_map(|_| next_stream(&mut queue, 0, &[0, 1])).collect();
    assert_eq!(rest, [0, 2, 0]);
    assert_eq!((queue.bytes(), queue.messages()), (0, 0));
}

#[test]
fn a_message_that_was_begun_is_finished_on_its_path_before_anything_else() {
    let mut queue = mapped("modulo");
    push(&mut queue, 1, false, 2500);
    push(&mut queue, 0, false, 100);
    assert_eq!(next_stream(&mut queue, 1, &[0, 1]), Some(1));
    assert_eq!(next_stream(&mut queue, 0, &[0, 1]), None);
    assert_eq!(next_stream(&mut queue, 1, &[0, 1]), Some(1));
    // Its path has failed: the rest goes over the other one.
    assert_eq!(next_stream(&mut queue, 0, &[0]), Some(1));
    assert_eq!(next_stream(&mut queue, 0, &[0]), Some(0));
}

#[test]
fn streams_leave_a_failed_path_at_once_and_return_when_nothing_is_under_way() {
    let mut queue = mapped("0,1");
    (0..4).for_each(|_| push(&mut queue, 1, false, 100));
    next(&mut queue, 1, &[0, 1]).unwrap();
    let moved = next(&mut queue, 0, &[0]).unwrap();
    // Path 1 is back, but what was sent over path 0 could be overtaken.
    assert_eq!(next_stream(&mut queue, 1, &[0, 1]), None);
    assert_eq!(next_stream(&mut queue, 0, &[0, 1]), None);
    queue.on_acked(&moved);
    queue.on_acked(&moved);
    assert_eq!(next_stream(&mut queue, 0, &[0, 1]), None);
    assert_eq!(next_stream(&mut queue, 1, &[0, 1]), Some(1));
}

#[test]
fn bytes_are_counted_per_stream_until_they_are_acknowledged() {
    let mut queue = queue();
    push(&mut queue, 4, false, 1500);
    push(&mut queue, 6, false, 10);
    let count = |queue: &SendQueue| -> Vec<_> {
        queue.streams().map(|(id, s)| (id.0, s.unsent(), s.unacked())).collect()
    };
    assert_eq!(count(&queue), [(4, 1500, 0), (6, 10, 0)]);
    let first = pop(&mut queue, 1000).unwrap();
    assert_eq!(count(&queue), [(4, 500, 1000), (6, 10, 0)]);
    pop(&mut queue, 1000);
    queue.on_acked(&first);
    assert_eq!(count(&queue), [(4, 0, 500), (6, 10, 0)]);
}

#[test]
fn interleaved_messages_take_turns_by_chunk_and_number_their_fragments() {
    let stream_scheduling = StreamScheduling::RoundRobin;
    let mut queue = SendQueue::new(&Config { stream_scheduling, ..Config::default() });
    queue.set_interleaving(100_000);
    push(&mut queue, 1, false, 2500);
    push(&mut queue, 2, true, 1500);
    push(&mut queue, 1, true, 10);
    push(&mut queue, 1, false, 10);
    let all: Vec<Fragment> = core::iter::from_fn(|| pop(&mut queue, 1000)).collect();
    let seen: Vec<_> = all
        .iter()
        .map(|f| match f.number {
            Number::Mid(mid, fsn) => (f.stream.0, mid.0, fsn.0, f.payload.len()),
            Number::Ssn(_) => panic!("interleaved"),
        })
        .collect();
    let expected = [
        (1, 0, 0, 1000),
        (2, 0, 0, 1000),
        (1, 0, 1, 1000),
        (2, 0, 1, 500),
        (1, 0, 2, 500),
        (1, 0, 0, 10),
        (1, 1, 0, 10),
    ];
    assert_eq!(seen, expected);
    assert_eq!((queue.bytes(), queue.messages()), (0, 0));
}

/// The peer holds what it cannot deliver yet: if all messages were begun, none might be completed.
#[test]
fn no_more_messages_are_begun_than_the_peer_can_hold() {
    let stream_scheduling = StreamScheduling::RoundRobin;
    let mut queue = SendQueue::new(&Config { stream_scheduling, ..Config::default() });
    queue.set_interleaving(5000);
    (0..4).for_each(|stream| push(&mut queue, stream, false, 2500));
    push(&mut queue, 4, false, 9000);
    let streams: Vec<u16> =
        core::iter::from_fn(|| pop(&mut queue, 1000)).map(|f| f.stream.0).collect();
    assert_eq!(streams[..12], [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3]);
    assert_eq!(streams[12..], [4; 9]);
}

fn replan(queue: &mut SendQueue, now: Instant) {
    let (paths, usable) = measured(&[20, 40, 400]);
    let room = (1 << 20, Room { window: 1 << 20, waiting: 0, non_renegable: true });
    queue.mapping.replan(now, (&paths, usable), room, &mut queue.streams);
}

/// Three paths with a stream each (dynamic mapping); the stream of each path.
fn mapped_dynamically() -> (SendQueue, [u16; 3]) {
    let mut queue = mapped("dynamic");
    (0..3).for_each(|stream| push(&mut queue, stream, false, 2500));
    replan(&mut queue, Instant::ZERO);
    let (_, usable) = measured(&[20, 40, 400]);
    let home = |stream| queue.mapping().home(StreamId(stream), usable);
    let of_path = |path| (0..3).find(|stream| home(*stream) == Some(PathId(path))).unwrap();
    let streams = [0, 1, 2].map(of_path);
    (queue, streams)
}

#[test]
fn the_end_of_a_message_stays_on_its_path_or_goes_where_the_message_might_begin() {
    let (mut queue, [fast, ..]) = mapped_dynamically();
    let usable = [0, 1, 2];
    let begun = next(&mut queue, 0, &usable).unwrap();
    assert_eq!((begun.stream.0, begun.end), (fast, false));
    // What all wait for now must not get onto a slow path.
    assert_eq!(queue.next(taker(2, &usable), 1000), None);
    let rest = Some((StreamId(fast), 1000));
    assert_eq!(queue.next(taker(0, &usable), 1000), rest);
    let mut helper = taker(1, &usable);
    helper.helps.insert(PathId(0));
    assert_eq!(queue.next(helper, 1000), rest, "it may help the path");
    let ends = Taker { ends: true, ..taker(1, &usable) };
    assert_eq!(queue.next(ends, 1000), rest, "it may end all messages");
}

#[test]
fn a_helper_goes_on_with_the_message_that_it_has_begun() {
    let (mut queue, [.., fast, slow]) = mapped_dynamically();
    let usable = [0, 1, 2];
    // The path has nothing to send of its own.
    while next(&mut queue, 1, &usable).is_some_and(|fragment| fragment.stream.0 == fast) {}
    let mut helper = taker(1, &usable);
    helper.helps.insert(PathId(2));
    let (stream, _) = queue.next(helper, 1000).unwrap();
    assert_eq!(stream.0, slow);
    queue.pop(stream, PathId(1), 1000).unwrap();
    let rest = Some((stream, 1000));
    assert_eq!(queue.next(taker(1, &usable), 1000), rest, "held up or not");
    assert_eq!(queue.next(taker(2, &usable), 1000), rest, "home");
    assert_eq!(queue.next(taker(0, &usable), 1000), None);
}

/// The choice of the dynamic mapping when every stream is asked.
fn next_of_all(queue: &SendQueue, taker: Taker) -> Option<StreamId> {
    let lane = queue.lane(taker.path);
    let may = |id| queue.may_begin(id, taker);
    let urgent = |id| queue.is_interactive(id) && may(id);
    queue.scheduler.next(lane, &urgent).or_else(|| queue.scheduler.next(lane, &may))
}

/// One step of a course: what is done, with which stream, over which path of those that are usable.
fn step(queue: &mut SendQueue, at: u64, (what, stream, path, usable): (u8, u16, u8, &[u8])) {
    let id = StreamId(stream);
    match what {
        0..=4 => push(queue, stream, false, 1 + usize::from(what) * 700),
        5 => {
            let class = if path == 0 { StreamClass::Bulk } else { StreamClass::Interactive };
            queue.set_options(id, StreamOptions { class, ..StreamOptions::default() });
        }
        6 => replan(queue, Instant::ZERO + Duration::from_millis(at * 300)),
        7 => {
            let first = queue.streams.get(id).and_then(|stream| stream.waiting.front());
            if let Some(arrival) = first.map(|first| first.arrival) {
                queue.withdraw(MessageKey { stream: id, arrival });
            }
        }
        8 => drop(queue.cut_short(id)),
        9 => drop(queue.limit_streams(6 + stream)),
        _ => drop(next(queue, path, usable)),
    }
}

proptest! {
    #[test]
    fn streams_that_are_not_asked_could_not_have_begun(
        scheduling in prop::sample::select(alloc::vec!["fcfs", "round-robin", "weighted-fair", "sparse-first"]),
        steps in prop::collection::vec((0..24u8, 0..8u16, 0..3u8, 1..8u8), 1..120),
    ) {
        let mut config = Config { streams: 8, ..Config::dynamic() };
        config.stream_scheduling = scheduling.parse().unwrap();
        let mut queue = SendQueue::new(&config);
        for (at, (what, stream, path, mask)) in (0..).zip(steps) {
            let usable: Vec<u8> = (0..3).filter(|path| mask >> path & 1 == 1).collect();
            if stream < queue.stream_count {
                step(&mut queue, at, (what, stream, path, &usable));
            }
            for path in usable.iter().filter(|_| queue.begun.is_none()) {
                let taker = taker(*path, &usable);
                prop_assert_eq!(queue.next_to_begin(taker), next_of_all(&queue, taker));
            }
        }
    }
}
