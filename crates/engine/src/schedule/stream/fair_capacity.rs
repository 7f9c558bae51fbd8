//! Fair capacity (RFC 8260 section 3.5): all streams get the same number of bytes, whatever the
//! lengths of their messages: weighted fair queueing with equal weights.

use super::{Departure, Head, Lane, StreamScheduler, WeightedFair};
use manypath_wire::StreamId;

/// Equal shares of bytes.
#[derive(Debug, Default)]
pub(crate) struct FairCapacity(WeightedFair);

impl StreamScheduler for FairCapacity {
    fn add(&mut self, stream: StreamId, head: Head) {
        self.0.add(stream, head);
    }

    fn next(&self, lane: Lane, may: &dyn Fn(StreamId) -> bool) -> Option<StreamId> {
        self.0.next(lane, may)
    }

    fn on_sent(&mut self, stream: StreamId, departure: Departure) {
        self.0.on_sent(stream, departure);
    }

    fn remove(&mut self, stream: StreamId) {
        self.0.remove(stream);
    }

    fn has_common_parts(&self) -> bool {
        self.0.has_common_parts()
    }

    fn owed(&self, own: StreamId, may: &dyn Fn(StreamId) -> bool) -> Option<StreamId> {
        self.0.owed(own, may)
    }
}

#[cfg(test)]
mod tests {
    use super::super::StreamScheduler;
    use super::super::testing::Bench;
    use super::FairCapacity;
    use crate::config::StreamOptions;
    use manypath_wire::StreamId;

    #[test]
    fn short_messages_are_not_put_at_a_disadvantage() {
        let mut bench = Bench::new(FairCapacity::default());
        let options = StreamOptions { weight: 9, ..StreamOptions::default() };
        bench.scheduler.set_options(StreamId(1), options);
        bench.queue(1, 1000, 10);
        bench.queue(2, 100, 100);
        let sent = bench.send(55);
        assert_eq!(sent.iter().filter(|sent| **sent == 1).count(), 5);
    }
}
