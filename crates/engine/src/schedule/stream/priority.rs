//! Strict priorities (RFC 8260 section 3.4): the lowest value first, round robin among equals.

use super::round_robin::RoundRobin;
use super::{Departure, Head, Lane, StreamScheduler};
use crate::config::StreamOptions;
use alloc::collections::BTreeMap;
use manypath_wire::StreamId;

/// A round robin per priority.
#[derive(Debug, Default)]
pub(crate) struct Priority {
    classes: BTreeMap<u16, RoundRobin>,
    /// Priorities other than 0, and those of streams that have something to send.
    priorities: BTreeMap<StreamId, u16>,
    waiting: BTreeMap<StreamId, Head>,
}

impl Priority {
    fn class(&mut self, stream: StreamId) -> &mut RoundRobin {
        let priority = self.priorities.get(&stream).copied().unwrap_or_default();
        self.classes.entry(priority).or_default()
    }
}

impl StreamScheduler for Priority {
    fn add(&mut self, stream: StreamId, head: Head) {
        self.waiting.insert(stream, head);
        self.class(stream).add(stream, head);
    }

    fn next(&self, lane: Lane, may: &dyn Fn(StreamId) -> bool) -> Option<StreamId> {
        self.classes.values().find_map(|class| class.next(lane, may))
    }

    fn on_sent(&mut self, stream: StreamId, departure: Departure) {
        match departure.next {
            Some(head) => self.waiting.insert(stream, head),
            None => self.waiting.remove(&stream),
        };
        self.class(stream).on_sent(stream, departure);
    }

    fn remove(&mut self, stream: StreamId) {
        self.waiting.remove(&stream);
        self.class(stream).remove(stream);
    }

    fn set_options(&mut self, stream: StreamId, options: StreamOptions) {
        let waiting = self.waiting.get(&stream).copied();
        self.remove(stream);
        self.priorities.insert(stream, options.priority);
        if let Some(head) = waiting {
            self.add(stream, head);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::StreamScheduler;
    use super::super::testing::Bench;
    use super::Priority;
    use crate::config::StreamOptions;
    use alloc::vec::Vec;
    use manypath_wire::StreamId;

    fn set(bench: &mut Bench<Priority>, stream: u16, priority: u16) {
        let options = StreamOptions { priority, ..StreamOptions::default() };
        bench.scheduler.set_options(StreamId(stream), options);
    }

    #[test]
    fn the_lowest_value_first_and_turns_among_equals() {
        let mut bench = Bench::new(Priority::default());
        for (stream, priority) in [(1, 5), (2, 3), (3, 5), (4, 9)] {
            set(&mut bench, stream, priority);
            bench.queue(stream, 10, 2);
        }
        assert_eq!(bench.send(3), [2, 2, 1]);
        bench.queue(2, 10, 1);
        assert_eq!(bench.send(99), [2, 3, 1, 3, 4, 4]);
    }

    #[test]
    fn a_stream_that_may_not_send_leaves_its_place_to_lower_ones() {
        let mut bench = Bench::new(Priority::default());
        set(&mut bench, 2, 1);
        bench.queue(1, 10, 1);
        bench.queue(2, 10, 1);
        assert_eq!(bench.send_for(None, &|stream| stream != StreamId(1)), Some(2));
    }

    #[test]
    fn a_new_priority_counts_for_what_waits_already() {
        let mut bench = Bench::new(Priority::default());
        bench.queue(1, 10, 2);
        bench.queue(2, 10, 2);
        assert_eq!(bench.send(1), [1]);
        set(&mut bench, 1, 7);
        assert_eq!(bench.send(99), [2, 2, 1]);
        set(&mut bench, 9, 1);
        assert_eq!(bench.send(1), Vec::<u16>::new());
    }
}
