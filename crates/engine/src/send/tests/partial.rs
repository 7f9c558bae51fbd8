//! Messages that are given up, against hand-made SACKs.

use super::{Bench, FULL, HEADER, classic};
use crate::config::{Config, Reliability, StreamClass, StreamOptions};
use crate::path::PathId;
use crate::send::reliability::Terms;
use crate::send::{Abandoned, Failed, ReliabilityPolicy};
use crate::send::{Outgoing, SendError};
use crate::time::Duration;
use crate::tsn::Tsn64;
use alloc::vec::Vec;
use bytes::Bytes;
use manypath_wire::{Chunk, Packet, PacketWriter, Ppid, StreamId, Tsn};

const ONCE: Reliability = Reliability::Retransmissions(0);

/// New cumulative TSN, and streams with the last number that is skipped.
type Told = (u32, Vec<(u16, u32)>);

impl Bench {
    /// A peer that follows, and paths with open windows.
    fn partial(count: u16) -> Self {
        let mut bench = Self::opened(count);
        bench.sender.allow_abandoning();
        bench
    }

    fn put(&mut self, stream: u16, len: usize, reliability: Reliability) -> Result<(), SendError> {
        self.put_kind(stream, false, len, reliability)
    }

    /// With the reliability that is usual for the stream.
    fn put_usual(&mut self, stream: u16, len: usize) -> Result<(), SendError> {
        let payload = Bytes::from(alloc::vec![1; len]);
        let stream = StreamId(stream);
        let message = Outgoing { stream, ppid: Ppid(0), unordered: false, payload };
        self.sender.enqueue(self.now, message, None, &mut self.paths)
    }

    fn put_kind(
        &mut self,
        stream: u16,
        unordered: bool,
        len: usize,
        reliability: Reliability,
    ) -> Result<(), SendError> {
        let payload = Bytes::from(alloc::vec![1; len]);
        let message = Outgoing { stream: StreamId(stream), ppid: Ppid(0), unordered, payload };
        self.sender.enqueue(self.now, message, Some(reliability), &mut self.paths)
    }

    fn give_up(&mut self) -> Vec<Failed> {
        self.sender.abandoning(self.now, &mut self.paths).give_up();
        self.check();
        self.sender.abandonment.take_failed()
    }

    /// The FORWARD-TSN or I-FORWARD-TSN that is due, in a packet of `size` bytes.
    fn told_in(&mut self, size: usize) -> Option<Told> {
        if !self.sender.is_forward_due() {
            return None;
        }
        let mut buffer = alloc::vec![0; size];
        let mut writer = PacketWriter::new(&mut buffer, HEADER);
        let id = PathId(0);
        assert!(self.sender.write_forward(self.now, id, &mut self.paths, &mut writer));
        assert!(self.paths.iter().any(|path| path.flight().t3().is_some()), "rule C5");
        let len = writer.finish();
        match Packet::parse(&buffer[..len]).unwrap().chunks().next() {
            Some(Ok(Chunk::ForwardTsn(chunk))) => {
                let skipped = chunk.skipped.iter().map(|s| (s.stream.0, s.ssn.0.into()));
                Some((chunk.cum_tsn.0, skipped.collect()))
            }
            Some(Ok(Chunk::IForwardTsn(chunk))) => {
                // The kind of the message goes into the highest bit of the stream.
                let kind = |unordered| if unordered { 0x8000 } else { 0 };
                let skipped =
                    chunk.skipped.iter().map(|s| (s.stream.0 | kind(s.unordered), s.mid.0));
                Some((chunk.cum_tsn.0, skipped.collect()))
            }
            other => panic!("{other:?}"),
        }
    }

    fn told(&mut self) -> Option<Told> {
        self.told_in(1472)
    }

    fn abandoned(&self) -> (u64, u64) {
        let Abandoned { unsent, sent } = self.sender.abandonment.count(None, None);
        (unsent, sent)
    }
}

fn tsn(number: u64) -> Tsn64 {
    Tsn64::initial(Tsn(0)).plus(number)
}

#[test]
fn a_message_that_may_not_be_repeated_is_skipped_when_it_is_lost() {
    let mut bench = Bench::partial(1);
    bench.put(1, FULL, ONCE).unwrap();
    bench.send(0);
    bench.push(0, 5);
    let cwnd = bench.cwnd(0);
    for highest in 2..=4 {
        bench.sack(0, &[(2, highest)], 0);
    }
    assert!(bench.is_lost(1));
    let failed = bench.give_up();
    assert_eq!(failed.len(), 1);
    let Failed { message, policy, sent } = &failed[0];
    assert_eq!((message.stream, message.payload.len(), *sent), (StreamId(1), FULL, true));
    assert_eq!(*policy, ReliabilityPolicy::Retransmissions);
    assert_eq!(bench.abandoned(), (0, 1));
    assert_eq!(bench.told(), Some((1, [(1, 0)].into())));
    // It was lost to congestion all the same (rule F5), and its end makes nothing grow.
    let cut = bench.cwnd(0);
    assert!(cut < cwnd);
    assert!(!bench.sender.is_forward_due());
    let outcome = bench.sack(4, &[], 0);
    assert!(outcome.newly_acked && bench.cwnd(0) == cut);
    bench.sack(6, &[], 0);
    assert!(bench.sender.is_drained() && bench.sender.buffer.is_empty());
}

#[test]
fn the_retransmissions_that_are_allowed_are_made() {
    let mut bench = Bench::partial(1);
    bench.put(1, FULL, Reliability::Retransmissions(2)).unwrap();
    assert_eq!(bench.send(0), [1]);
    for _ in 0..2 {
        bench.pass(5000);
        bench.sender.handle_t3(PathId(0), &mut bench.paths);
        assert_eq!((bench.give_up(), bench.send(0)), ([].into(), [1].into()));
    }
    bench.pass(20_000);
    bench.sender.handle_t3(PathId(0), &mut bench.paths);
    assert_eq!(bench.give_up().len(), 1);
    assert_eq!((bench.send(0), bench.told()), ([].into(), Some((1, [(1, 0)].into()))));
}

#[test]
fn all_parts_of_a_message_go_together() {
    let mut bench = Bench::partial(2);
    bench.put(3, 4 * FULL, ONCE).unwrap();
    let sent = [bench.send(0), bench.send(1), bench.send(0), bench.send(1)].concat();
    assert_eq!(sent, [1, 2, 3, 4]);
    bench.push(0, 4);
    // 2 and 4 are still on their way over the other path, 3 has arrived.
    for highest in 5..=7 {
        bench.sack(0, &[(3, 3), (5, highest)], 0);
    }
    assert!(bench.is_lost(1));
    let failed = bench.give_up();
    assert_eq!((failed.len(), failed[0].message.payload.len()), (1, 4 * FULL));
    assert_eq!(bench.path(1).in_flight(), 0);
    assert_eq!(bench.told(), Some((4, [(3, 0)].into())));
    // What was on its way may arrive nevertheless.
    bench.sack(8, &[], 1);
    assert!(bench.sender.is_drained());
}

#[test]
fn the_end_of_a_message_that_was_partly_sent_gets_a_tsn() {
    for interleaving in [false, true] {
        let mut bench = Bench::partial(1);
        if interleaving {
            bench.sender.interleave();
        }
        let full = if interleaving { FULL - 4 } else { FULL };
        bench.put(3, 5 * full, Reliability::Lifetime(Duration::from_millis(50))).unwrap();
        assert_eq!(bench.sender.queue.deadline(), Some(bench.now + Duration::from_millis(50)));
        let taken = |bench: &mut Bench| {
            let (id, paths) = (PathId(0), &mut bench.paths);
            let mut buffer = [0; 1472];
            let mut writer = PacketWriter::new(&mut buffer, HEADER);
            bench.sender.fill(bench.now, id, paths, &mut writer).chunks
        };
        assert_eq!((taken(&mut bench), taken(&mut bench)), (1, 1));
        bench.put(4, 10, Reliability::Reliable).unwrap();
        bench.pass(49);
        assert_eq!(bench.give_up(), []);
        bench.pass(1);
        let failed = bench.give_up();
        assert_eq!((failed.len(), failed[0].message.payload.len()), (1, 5 * full));
        assert_eq!(failed[0].policy, ReliabilityPolicy::Lifetime);
        // TSN 3 stands for the end.
        assert_eq!(bench.told(), Some((3, [(3, 0)].into())));
        assert_eq!(bench.sender.outstanding.next_tsn(), tsn(4));
        assert_eq!(taken(&mut bench), 1);
        bench.put(3, 10, Reliability::Reliable).unwrap();
        assert_eq!(taken(&mut bench), 1);
        let chunk = bench.sender.outstanding.get(tsn(5)).unwrap();
        let shown = alloc::format!("{}", chunk.to_chunk(tsn(5), false));
        assert!(shown.contains("ssn=1") || shown.contains("mid=1"), "{shown}");
        bench.sack(5, &[], 0);
        assert!(bench.sender.is_drained() && bench.sender.buffer.is_empty());
        assert_eq!(
            bench.sender.queue.streams().map(|(_, it)| it.ordered_under_way).sum::<u32>(),
            0
        );
    }
}

#[test]
fn the_rest_of_a_message_whose_beginning_has_arrived_is_skipped() {
    let mut bench = Bench::partial(1);
    bench.put(3, 3 * FULL, Reliability::Lifetime(Duration::from_millis(500))).unwrap();
    assert_eq!(bench.send(0), [1]);
    bench.sack(1, &[], 0);
    bench.pass(500);
    assert_eq!(bench.give_up()[0].message.payload.len(), 2 * FULL);
    assert_eq!((bench.abandoned(), bench.told()), ((0, 1), Some((2, [(3, 0)].into()))));
    bench.sack(2, &[], 0);
    assert!(bench.sender.is_drained() && bench.sender.buffer.is_empty());
}

#[test]
fn messages_of_a_realtime_stream_are_given_up_when_they_are_late() {
    let mut bench = Bench::partial(1);
    let max_delay = Some(Duration::from_millis(10));
    let realtime =
        StreamOptions { class: StreamClass::Realtime, max_delay, ..StreamOptions::default() };
    bench.sender.queue_mut().set_stream_options(StreamId(1), realtime);
    let interactive = StreamOptions { class: StreamClass::Interactive, ..realtime };
    bench.sender.queue_mut().set_stream_options(StreamId(2), interactive);
    for stream in [1, 2] {
        bench.put_usual(stream, 100).unwrap();
    }
    bench.pass(10);
    let failed = bench.give_up();
    assert_eq!(failed.iter().map(|f| f.message.stream).collect::<Vec<_>>(), [StreamId(1)]);
    // What is said about the stream holds.
    bench.sender.abandonment.set_reliability(Some(StreamId(1)), Reliability::Reliable);
    bench.put_usual(1, 100).unwrap();
    bench.pass(10);
    assert!(bench.give_up().is_empty());
}

#[test]
fn what_was_not_sent_leaves_no_trace() {
    let mut bench = Bench::partial(1);
    let soon = Reliability::Lifetime(Duration::from_millis(10));
    for (stream, reliability) in [(1, Reliability::Reliable), (1, soon), (2, soon), (1, soon)] {
        bench.put(stream, 100, reliability).unwrap();
    }
    bench.put(1, 100, Reliability::Reliable).unwrap();
    bench.pass(10);
    let failed = bench.give_up();
    assert!(failed.len() == 3 && failed.iter().all(|failed| !failed.sent));
    let by = |stream, policy| bench.sender.abandonment.count(stream, policy);
    let (lifetime, priority) = (ReliabilityPolicy::Lifetime, ReliabilityPolicy::Priority);
    assert_eq!(by(Some(StreamId(1)), Some(lifetime)), Abandoned { unsent: 2, sent: 0 });
    assert_eq!(by(Some(StreamId(2)), None), Abandoned { unsent: 1, sent: 0 });
    assert_eq!(by(None, Some(priority)), Abandoned::default());
    assert_eq!(bench.send(0), [1, 2]);
    assert!(!bench.sender.is_forward_due());
    bench.sack(2, &[], 0);
    assert!(bench.sender.is_drained() && bench.sender.buffer.is_empty());
}

#[test]
fn without_the_peers_consent_what_was_begun_is_finished() {
    let mut bench = Bench::opened(1);
    let soon = Reliability::Lifetime(Duration::from_millis(10));
    bench.put(1, 2 * FULL, soon).unwrap();
    bench.put(1, 100, ONCE).unwrap();
    assert_eq!(bench.send(0), [1]);
    bench.put(1, 100, soon).unwrap();
    bench.pass(20);
    assert_eq!(bench.give_up().len(), 1);
    assert_eq!(bench.sender.queue.deadline(), None);
    assert_eq!([bench.send(0), bench.send(0)].concat(), [2, 3]);
    bench.pass(5000);
    bench.sender.handle_t3(PathId(0), &mut bench.paths);
    assert_eq!((bench.give_up(), bench.sender.is_forward_due()), ([].into(), false));
    assert_eq!([bench.send(0), bench.send(0)].concat(), [1]);
}

#[test]
fn the_point_stops_at_what_is_wanted_and_passes_what_has_arrived_for_good() {
    let mut bench = Bench::partial(1);
    for (stream, reliability) in
        [(1, ONCE), (2, ONCE), (1, ONCE), (3, Reliability::Reliable), (5, ONCE)]
    {
        bench.put(stream, FULL, reliability).unwrap();
        bench.send(0);
    }
    bench.put_kind(1, true, FULL, ONCE).unwrap();
    bench.send(0);
    bench.sender.handle_t3(PathId(0), &mut bench.paths);
    assert_eq!(bench.give_up().len(), 5);
    // The last number of each stream once; 4 must be repeated.
    assert_eq!(bench.told(), Some((3, [(1, 1), (2, 0)].into())));
    assert_eq!(bench.send(0), [4]);
    bench.pass(200);
    bench.sack(4, &[], 0);
    assert_eq!(bench.give_up(), []);
    // An unordered message has no number.
    assert_eq!(bench.told(), Some((6, [(5, 0)].into())));
}

#[test]
fn a_chunk_that_would_not_fit_is_cut_to_a_lower_point() {
    let mut bench = Bench::partial(1);
    for stream in 0..10 {
        bench.put(stream, FULL, ONCE).unwrap();
        bench.send(0);
    }
    bench.sender.handle_t3(PathId(0), &mut bench.paths);
    bench.give_up();
    let all: Vec<_> = (0..10).map(|stream| (stream, 0)).collect();
    // Headers of packet and chunk, and room for three streams.
    assert_eq!(bench.told_in(12 + 8 + 3 * 4 + 2), Some((3, all[..3].into())));
    bench.sack(3, &[], 0);
    assert_eq!(bench.told(), Some((10, all[3..].into())));
}

#[test]
fn the_peer_is_told_again_when_it_seems_not_to_have_heard() {
    let mut bench = Bench::partial(1);
    bench.put(1, FULL, ONCE).unwrap();
    bench.send(0);
    bench.push(0, 2);
    bench.sender.handle_t3(PathId(0), &mut bench.paths);
    bench.give_up();
    assert_eq!(bench.told(), Some((1, [(1, 0)].into())));
    let round_trip = bench.path(0).rtt().smoothed().unwrap();
    bench.send_all(0);
    bench.sack(0, &[(2, 2)], 0);
    assert_eq!(bench.told(), None);
    bench.now = bench.now + round_trip;
    bench.sack(0, &[(2, 3)], 0);
    assert_eq!(bench.told(), Some((1, [(1, 0)].into())));
    // Nothing is in flight; the timer runs for the answer alone, and its expiry is an error.
    assert!(bench.path(0).flight().t3().is_some() && bench.path(0).in_flight() == 0);
    bench.pass(10_000);
    let (cwnd, rto) = (bench.cwnd(0), bench.path(0).rtt().rto());
    assert!(!bench.sender.handle_t3(PathId(0), &mut bench.paths));
    assert_eq!((bench.cwnd(0), bench.path(0).rtt().rto()), (cwnd, rto * 2));
    assert_eq!(bench.told(), Some((1, [(1, 0)].into())));
    let outcome = bench.sack(3, &[], 0);
    assert!(outcome.newly_acked && outcome.acked_paths.contains(PathId(0)));
    assert!(bench.path(0).flight().t3().is_none() && bench.sender.is_drained());
}

#[test]
fn with_i_data_both_kinds_of_messages_are_told() {
    let mut bench = Bench::partial(1);
    bench.sender.interleave();
    for (stream, unordered) in [(1, false), (1, true), (1, true), (2, false)] {
        bench.put_kind(stream, unordered, 1000, ONCE).unwrap();
        let (id, mut buffer) = (PathId(0), [0; 1472]);
        let mut writer = PacketWriter::new(&mut buffer, HEADER);
        assert_eq!(bench.sender.fill(bench.now, id, &mut bench.paths, &mut writer).chunks, 1);
    }
    bench.sender.handle_t3(PathId(0), &mut bench.paths);
    bench.give_up();
    assert_eq!(bench.told(), Some((4, [(1, 0), (0x8001, 1), (2, 0)].into())));
}

#[test]
fn important_messages_take_the_room_of_others() {
    let config = Config { send_buffer: 10_000, ..classic() };
    let mut bench = Bench::new(1, &config);
    bench.sender.allow_abandoning();
    for priority in [7, 3, 7, 5] {
        bench.put(priority as u16, 2500, Reliability::Priority(priority)).unwrap();
    }
    assert_eq!(bench.put(1, 2500, Reliability::Priority(7)), Err(SendError::BufferFull));
    assert_eq!(bench.put(1, 7501, Reliability::Priority(3)), Err(SendError::BufferFull));
    assert_eq!((bench.abandoned(), bench.sender.space()), ((0, 0), 0));
    // The oldest of the least important.
    bench.put(1, 100, Reliability::Priority(6)).unwrap();
    let failed = bench.sender.abandonment.take_failed();
    assert_eq!((failed.len(), failed[0].message.stream, failed[0].sent), (1, StreamId(7), false));
    assert_eq!(failed[0].policy, ReliabilityPolicy::Priority);
    // Reliable ones are the most important of all, and never leave.
    bench.put(1, 9000, Reliability::Reliable).unwrap();
    assert_eq!((bench.abandoned(), bench.sender.space()), ((5, 0), 1000));
    assert_eq!(bench.put(1, 1001, Reliability::Priority(0)), Err(SendError::BufferFull));
}

#[test]
fn of_equally_important_messages_those_that_were_not_sent_go_first() {
    let config = Config { send_buffer: 10_000, ..classic() };
    let mut bench = Bench::new(1, &config);
    bench.sender.allow_abandoning();
    for stream in 0..4 {
        bench.put(stream, 1400, Reliability::Priority(5)).unwrap();
    }
    assert_eq!([bench.send(0), bench.send(0)].concat(), [1, 2]);
    bench.put(9, 4400, Reliability::Reliable).unwrap();
    bench.put(9, 2400, Reliability::Priority(1)).unwrap();
    assert_eq!(bench.abandoned(), (2, 0));
    bench.put(9, 1400, Reliability::Priority(4)).unwrap();
    bench.check();
    assert_eq!((bench.abandoned(), bench.told()), ((2, 1), Some((1, [(0, 0)].into()))));
}

#[test]
fn defaults_hold_per_stream_and_for_all_others() {
    let config = Config { reliability: ONCE, ..classic() };
    let mut bench = Bench::new(1, &config);
    bench.sender.abandonment.set_reliability(Some(StreamId(1)), Reliability::Priority(4));
    bench.sender.abandonment.set_reliability(Some(StreamId(2)), Reliability::Reliable);
    let terms = |bench: &mut Bench, stream| {
        let payload = Bytes::from_static(b"x");
        let message =
            Outgoing { stream: StreamId(stream), ppid: Ppid(0), unordered: false, payload };
        bench.enqueue(message).unwrap();
        bench.sender.queue.streams().find(|(id, _)| id.0 == stream).unwrap().1.last_terms()
    };
    assert_eq!(terms(&mut bench, 0), Terms::Retransmissions(0));
    assert_eq!(terms(&mut bench, 1), Terms::Priority(4));
    assert_eq!(terms(&mut bench, 2), Terms::Reliable);
    bench.sender.abandonment.set_reliability(None, Reliability::Lifetime(Duration::from_millis(7)));
    let end = bench.now + Duration::from_millis(7);
    assert_eq!(
        (terms(&mut bench, 0), terms(&mut bench, 1)),
        (Terms::Until(end), Terms::Priority(4))
    );
}
