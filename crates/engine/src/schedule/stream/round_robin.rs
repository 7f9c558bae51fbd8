//! Round robin (RFC 8260 section 3.2): after each message, or chunk where messages are interleaved,
//! it is the turn of the next stream that has something to send, in the order of their numbers.
//!
//! Streams that are tied to a path take turns among themselves (Dreibholz et al. 2010: round robin
//! inside a path), so each lane has its own pointer.

use super::stream_set::StreamSet;
use super::{Departure, Head, Lane, StreamScheduler};
use alloc::collections::BTreeMap;
use manypath_wire::StreamId;

/// The streams that have something to send, and who was served last.
#[derive(Debug, Default)]
pub(crate) struct RoundRobin {
    streams: StreamSet,
    last: BTreeMap<Lane, StreamId>,
}

impl StreamScheduler for RoundRobin {
    fn add(&mut self, stream: StreamId, _head: Head) {
        self.streams.insert(stream);
    }

    fn next(&self, lane: Lane, may: &dyn Fn(StreamId) -> bool) -> Option<StreamId> {
        self.streams.next_after(self.last.get(&lane).copied(), may)
    }

    fn on_sent(&mut self, stream: StreamId, departure: Departure) {
        self.last.insert(departure.lane, stream);
        if departure.next.is_none() {
            self.streams.remove(stream);
        }
    }

    fn remove(&mut self, stream: StreamId) {
        self.streams.remove(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::RoundRobin;
    use crate::path::PathId;
    use manypath_wire::StreamId;

    #[test]
    fn streams_take_turns_whatever_their_messages_are() {
        let mut bench = Bench::new(RoundRobin::default());
        bench.queue(7, 9000, 3);
        bench.queue(2, 10, 4);
        bench.queue(5, 10, 1);
        assert_eq!(bench.send(99), [2, 5, 7, 2, 7, 2, 7, 2]);
    }

    #[test]
    fn who_comes_late_waits_for_its_turn() {
        let mut bench = Bench::new(RoundRobin::default());
        bench.queue(3, 10, 2);
        assert_eq!(bench.send(1), [3]);
        bench.queue(1, 10, 1);
        bench.queue(4, 10, 1);
        assert_eq!(bench.send(9), [4, 1, 3]);
    }

    /// A common pointer would jump with the turns of the other path and pass streams over.
    #[test]
    fn the_streams_of_a_path_take_turns_among_themselves() {
        let mut bench = Bench::new(RoundRobin::default());
        (0..4).for_each(|stream| bench.queue(stream, 10, 6));
        let (low, high) = (|s: StreamId| s.0 < 2, |s: StreamId| s.0 >= 2);
        let (a, b) = (Some(PathId(0)), Some(PathId(1)));
        let mut sent = [0; 4];
        for _ in 0..4 {
            for (lane, may) in [(a, &low as &dyn Fn(StreamId) -> bool), (b, &high), (b, &high)] {
                sent[usize::from(bench.send_for(lane, may).unwrap())] += 1;
            }
        }
        assert_eq!(sent, [2, 2, 4, 4]);
    }
}
