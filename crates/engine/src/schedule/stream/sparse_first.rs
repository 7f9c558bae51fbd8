//! Sparse streams first: what a stream sends that has little waiting leaves before bulk data, and
//! otherwise messages leave in the order in which they were queued.
//!
//! ```text
//! sparse: e.g. a keystroke          before all others, but after a run of them the others have one turn
//! bulk:   more waits than a packet  first come, first served
//! ```
//!
//! As the new flows of FQ-CoDel (RFC 8290 section 4.2), whose byte counts end the precedence of a flow: here it ends
//! when more than a quantum waits on the stream. A stream is bulk until nothing of it waits.

use super::fcfs::Fcfs;
use super::{Departure, Head, Lane, StreamScheduler};
use alloc::collections::BTreeSet;
use manypath_wire::StreamId;

/// What may wait on a stream that goes first: a large packet.
const QUANTUM: usize = 1500;
/// Messages of sparse streams between two of the others: however much these have to send, the others keep a
/// ninth of the messages.
const RUN: u32 = 8;

/// The streams that have something to send.
#[derive(Debug, Default)]
pub(crate) struct SparseFirst {
    sparse: Fcfs,
    /// Those of `sparse`.
    members: BTreeSet<StreamId>,
    bulk: Fcfs,
    /// Messages of sparse streams since the last one of the others.
    run: u32,
}

impl StreamScheduler for SparseFirst {
    fn add(&mut self, stream: StreamId, head: Head) {
        if head.len <= QUANTUM {
            self.sparse.add(stream, head);
            self.members.insert(stream);
        } else {
            self.bulk.add(stream, head);
        }
    }

    fn next(&self, lane: Lane, may: &dyn Fn(StreamId) -> bool) -> Option<StreamId> {
        if self.members.is_empty() {
            return self.bulk.next(lane, may);
        }
        let due = if self.run >= RUN { self.bulk.next(lane, may) } else { None };
        due.or_else(|| self.sparse.next(lane, may)).or_else(|| self.bulk.next(lane, may))
    }

    fn is_sparse(&self, stream: StreamId) -> bool {
        self.members.contains(&stream)
    }

    fn sparse(&self) -> usize {
        self.members.len()
    }

    fn on_sent(&mut self, stream: StreamId, departure: Departure) {
        if !self.members.contains(&stream) {
            self.run = 0;
            return self.bulk.on_sent(stream, departure);
        }
        self.run += 1;
        self.sparse.on_sent(stream, departure);
        if departure.next.is_none() {
            self.members.remove(&stream);
        }
    }

    fn on_more(&mut self, stream: StreamId, head: Head, waiting: usize) {
        if waiting > QUANTUM && self.members.remove(&stream) {
            self.sparse.remove(stream);
            self.bulk.add(stream, head);
        }
    }

    fn remove(&mut self, stream: StreamId) {
        self.members.remove(&stream);
        self.sparse.remove(stream);
        self.bulk.remove(stream);
    }

    fn release_memory(&mut self) {
        self.sparse.release_memory();
        self.bulk.release_memory();
        self.run = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::{RUN, SparseFirst, StreamScheduler};
    use alloc::vec;
    use manypath_wire::StreamId;

    #[test]
    fn a_short_message_passes_what_waits_of_others() {
        let mut bench = Bench::new(SparseFirst::default());
        bench.queue(1, 1400, 5);
        bench.queue(2, 1400, 2);
        bench.queue(7, 64, 1);
        let is_sparse = |bench: &Bench<SparseFirst>, id| bench.scheduler.is_sparse(StreamId(id));
        assert!(is_sparse(&bench, 7) && !is_sparse(&bench, 1) && !is_sparse(&bench, 8));
        assert_eq!(bench.send(3), [7, 1, 1]);
        assert!(!is_sparse(&bench, 7), "nothing of it waits");
        bench.queue(8, 100, 2);
        assert_eq!(bench.send(99), [8, 8, 1, 1, 1, 2, 2]);
    }

    #[test]
    fn a_stream_with_more_than_a_packet_waits_its_turn_until_it_is_empty() {
        let mut bench = Bench::new(SparseFirst::default());
        bench.queue(1, 1400, 3);
        // 20 messages of 100 bytes: the first of them came after the bulk.
        bench.queue(2, 100, 20);
        assert_eq!(bench.send(4), [1, 1, 1, 2]);
        bench.queue(3, 1400, 2);
        assert_eq!(bench.send(1), [2], "in the order of arrival");
        bench.send(18);
        bench.queue(2, 100, 1);
        assert_eq!(bench.send(2), [2, 3]);
    }

    #[test]
    fn a_message_of_many_packets_is_bulk_at_once() {
        let mut bench = Bench::new(SparseFirst::default());
        bench.queue(1, 1400, 2);
        bench.queue(2, 16_384, 1);
        assert_eq!(bench.send(9), [1, 1, 2]);
    }

    #[test]
    fn sparse_streams_leave_the_others_a_ninth() {
        let mut bench = Bench::new(SparseFirst::default());
        bench.queue(100, 1400, 4);
        for stream in 0..20 {
            bench.queue(stream, 64, 1);
        }
        let sent = bench.send(18);
        let run = RUN as usize;
        assert_eq!(sent.iter().filter(|stream| **stream == 100).count(), 2);
        assert_eq!((sent[run], sent[2 * run + 1]), (100, 100));
    }

    #[test]
    fn who_may_not_send_holds_up_no_other() {
        let mut bench = Bench::new(SparseFirst::default());
        bench.queue(1, 1400, 3);
        bench.queue(2, 64, 1);
        let may = |stream: StreamId| stream.0 != 2;
        assert_eq!(bench.send_for(None, &may), Some(1));
        bench.drop_stream(2);
        assert_eq!(bench.send(9), vec![1, 1]);
    }
}
