//! First come, first served (RFC 8260 section 3.1): messages leave in the order in which they were
//! queued, whatever their stream.

use super::{Departure, Head, Lane, StreamScheduler};
use alloc::collections::{BTreeMap, BTreeSet};
use manypath_wire::StreamId;

/// The streams by the arrival of their first message.
#[derive(Debug, Default)]
pub(crate) struct Fcfs {
    order: BTreeSet<(u64, StreamId)>,
    arrivals: BTreeMap<StreamId, u64>,
}

impl StreamScheduler for Fcfs {
    fn add(&mut self, stream: StreamId, head: Head) {
        self.order.insert((head.arrival, stream));
        self.arrivals.insert(stream, head.arrival);
    }

    fn next(&self, _lane: Lane, may: &dyn Fn(StreamId) -> bool) -> Option<StreamId> {
        self.order.iter().map(|(_, stream)| *stream).find(|stream| may(*stream))
    }

    fn on_sent(&mut self, stream: StreamId, departure: Departure) {
        let Some(head) = departure.next else { return self.remove(stream) };
        let Some(arrival) = self.arrivals.get_mut(&stream) else { return self.add(stream, head) };
        let before = core::mem::replace(arrival, head.arrival);
        if before != head.arrival {
            self.order.remove(&(before, stream));
            self.order.insert((head.arrival, stream));
        }
    }

    fn release_memory(&mut self) {
        if self.order.is_empty() {
            *self = Self::default();
        }
    }

    fn remove(&mut self, stream: StreamId) {
        if let Some(arrival) = self.arrivals.remove(&stream) {
            self.order.remove(&(arrival, stream));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::Fcfs;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use manypath_wire::StreamId;
    use proptest::prelude::*;

    #[test]
    fn order_of_arrival() {
        let mut bench = Bench::new(Fcfs::default());
        for stream in [3, 1, 3, 2, 1] {
            bench.queue(stream, 10, 1);
        }
        assert_eq!(bench.send(2), [3, 1]);
        bench.drop_stream(1);
        assert_eq!(bench.send(9), [3, 2]);
    }

    #[test]
    fn a_stream_that_may_not_send_holds_up_no_other() {
        let mut bench = Bench::new(Fcfs::default());
        for stream in [3, 1, 3, 2] {
            bench.queue(stream, 10, 1);
        }
        let not_three = |stream| stream != StreamId(3);
        assert_eq!(bench.send_for(None, &not_three), Some(1));
        assert_eq!(bench.send(9), [3, 3, 2]);
    }

    proptest! {
        #[test]
        fn the_oldest_message_of_those_that_may_leave_is_next(
            steps in prop::collection::vec((0..8u8, 0..4u16), 1..80),
        ) {
            let mut bench = Bench::new(Fcfs::default());
            let mut model = BTreeMap::<u64, u16>::new();
            for (at, (what, stream)) in (0..).zip(steps) {
                let others = |other: StreamId| other.0 != stream;
                match what {
                    0..=3 => {
                        bench.queue(stream, 10, 1);
                        model.insert(at, stream);
                    }
                    4 => {
                        bench.drop_stream(stream);
                        model.retain(|_, other| *other != stream);
                    }
                    _ => {
                        let oldest = model.iter().find(|(_, other)| others(StreamId(**other)));
                        let oldest = oldest.map(|(at, other)| (*at, *other));
                        let sent = bench.send_for(None, &others);
                        prop_assert_eq!(sent, oldest.map(|(_, other)| other));
                        oldest.and_then(|(at, _)| model.remove(&at));
                    }
                }
            }
            let left: Vec<_> = model.into_values().collect();
            prop_assert_eq!(bench.send(99), left);
        }
    }
}
