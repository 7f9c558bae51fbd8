//! First come, first served (RFC 8260 section 3.1): messages leave in the order in which they were
//! queued, whatever their stream.

use super::StreamScheduler;
use alloc::collections::VecDeque;
use manypath_wire::StreamId;

/// The streams of the queued messages in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Fcfs {
    order: VecDeque<StreamId>,
}

impl StreamScheduler for Fcfs {
    fn on_queued(&mut self, stream: StreamId) {
        self.order.push_back(stream);
    }

    fn next(&self) -> Option<StreamId> {
        self.order.front().copied()
    }

    fn on_sent(&mut self) {
        self.order.pop_front();
    }

    fn on_dropped(&mut self, gone: impl Fn(StreamId) -> bool) {
        self.order.retain(|stream| !gone(*stream));
    }
}

#[cfg(test)]
mod tests {
    use super::{Fcfs, StreamScheduler};
    use manypath_wire::StreamId;

    #[test]
    fn order_of_arrival() {
        let mut fcfs = Fcfs::default();
        for stream in [3, 1, 3, 2] {
            fcfs.on_queued(StreamId(stream));
        }
        fcfs.on_dropped(|stream| stream == StreamId(1));
        for stream in [3, 3, 2] {
            assert_eq!(fcfs.next(), Some(StreamId(stream)));
            fcfs.on_sent();
        }
        assert_eq!(fcfs.next(), None);
    }
}
