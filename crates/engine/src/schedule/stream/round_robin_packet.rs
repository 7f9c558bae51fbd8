//! Round robin per packet (RFC 8260 section 3.3): a packet carries data of one stream only, so that
//! its loss holds up no other; the next packet is the next stream's.

use super::stream_set::StreamSet;
use super::{Departure, Head, Lane, StreamScheduler};
use alloc::collections::BTreeMap;
use manypath_wire::StreamId;

/// The streams that have something to send, and whose packet it is.
#[derive(Debug, Default)]
pub(crate) struct RoundRobinPacket {
    streams: StreamSet,
    last: BTreeMap<Lane, StreamId>,
    /// The stream of the packet that is being filled.
    packet_of: Option<StreamId>,
}

impl StreamScheduler for RoundRobinPacket {
    fn add(&mut self, stream: StreamId, _head: Head) {
        self.streams.insert(stream);
    }

    fn next(&self, lane: Lane, may: &dyn Fn(StreamId) -> bool) -> Option<StreamId> {
        match self.packet_of {
            Some(stream) => (self.streams.contains(stream) && may(stream)).then_some(stream),
            None => self.streams.next_after(self.last.get(&lane).copied(), may),
        }
    }

    fn on_sent(&mut self, stream: StreamId, departure: Departure) {
        self.last.insert(departure.lane, stream);
        self.packet_of = Some(stream);
        if departure.next.is_none() {
            self.streams.remove(stream);
        }
    }

    fn remove(&mut self, stream: StreamId) {
        self.streams.remove(stream);
    }

    fn on_packet_end(&mut self) {
        self.packet_of = None;
    }
}

#[cfg(test)]
mod tests {
    use super::super::StreamScheduler;
    use super::super::testing::Bench;
    use super::RoundRobinPacket;

    #[test]
    fn a_packet_is_of_one_stream() {
        let mut bench = Bench::new(RoundRobinPacket::default());
        bench.queue(1, 10, 5);
        bench.queue(2, 10, 2);
        bench.queue(4, 10, 9);
        let mut packet = |room| {
            let sent = bench.send(room);
            bench.scheduler.on_packet_end();
            sent
        };
        assert_eq!(packet(3), [1, 1, 1]);
        // What is left of the packet stays empty.
        assert_eq!(packet(3), [2, 2]);
        assert_eq!(packet(3), [4, 4, 4]);
        assert_eq!(packet(3), [1, 1]);
        assert_eq!(packet(3), [4, 4, 4]);
    }
}
