//! A queue with nothing but lengths, to test schedulers with.

use super::{Departure, Head, Lane, StreamScheduler};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use manypath_wire::StreamId;

/// Messages waiting per stream.
#[derive(Debug)]
pub(crate) struct Bench<S> {
    pub(crate) scheduler: S,
    waiting: BTreeMap<StreamId, VecDeque<Head>>,
    arrivals: u64,
}

impl<S: StreamScheduler> Bench<S> {
    pub(crate) fn new(scheduler: S) -> Self {
        Self { scheduler, waiting: BTreeMap::new(), arrivals: 0 }
    }

    /// Queues messages of `len` bytes.
    pub(crate) fn queue(&mut self, stream: u16, len: usize, count: usize) {
        let stream = StreamId(stream);
        for _ in 0..count {
            let head = Head { arrival: self.arrivals, len };
            self.arrivals += 1;
            let waiting = self.waiting.entry(stream).or_default();
            waiting.push_back(head);
            match waiting.len() {
                1 => self.scheduler.add(stream, head),
                _ => {
                    let bytes = waiting.iter().map(|head| head.len).sum();
                    self.scheduler.on_more(stream, waiting[0], bytes);
                }
            }
        }
    }

    /// Sends one message of a stream that `may`.
    pub(crate) fn send_for(&mut self, lane: Lane, may: &dyn Fn(StreamId) -> bool) -> Option<u16> {
        let stream = self.scheduler.next(lane, may)?;
        assert!(may(stream));
        let waiting = self.waiting.get_mut(&stream).unwrap();
        let bytes = waiting.pop_front().unwrap().len;
        let next = waiting.front().copied();
        self.scheduler.on_sent(stream, Departure { lane, bytes, next });
        Some(stream.0)
    }

    /// Sends `count` messages of any stream.
    pub(crate) fn send(&mut self, count: usize) -> Vec<u16> {
        (0..count).map_while(|_| self.send_for(None, &|_| true)).collect()
    }

    /// Drops what waits on a stream.
    pub(crate) fn drop_stream(&mut self, stream: u16) {
        self.waiting.remove(&StreamId(stream));
        self.scheduler.remove(StreamId(stream));
    }
}
