//! Which flow each stream carries.
//!
//! A stream has two lanes: one for flows opened here, one for flows opened by the peer. So the two
//! sides never compete for a stream, whoever began the association. A lane is busy from the OPEN of
//! its flow until both sides have ended it; then its opener may use it again, with the next
//! generation.

use crate::id::FlowId;
use alloc::vec::Vec;
use core::ops::Range;

/// Which side opened a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opener {
    Us,
    Peer,
}

/// Names a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LaneKey {
    pub(crate) opener: Opener,
    pub(crate) stream: u16,
}

/// One lane of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lane {
    /// Generation of the latest flow: how many there were.
    pub(crate) generation: u32,
    /// The flow, as long as its messages matter. A busy lane without one discards.
    pub(crate) flow: Option<FlowId>,
    busy: bool,
    sent_end: bool,
    got_end: bool,
}

/// How a generation relates to the flow of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Age {
    /// Of a flow that has ended.
    Late,
    /// Of the flow that the lane carries.
    Current,
    /// Of a flow that has not been opened yet.
    Early,
}

impl Lane {
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    pub(crate) fn has_got_end(&self) -> bool {
        self.got_end
    }

    pub(crate) fn age(&self, generation: u32) -> Age {
        if generation > self.generation {
            Age::Early
        } else if generation == self.generation && self.busy {
            Age::Current
        } else {
            Age::Late
        }
    }

    pub(crate) fn begin(&mut self, flow: Option<FlowId>) {
        let generation = self.generation.wrapping_add(1);
        *self = Self { generation, flow, busy: true, sent_end: false, got_end: false };
    }
}

/// The lanes of all streams and the streams that are free for flows of ours.
#[derive(Debug)]
pub(crate) struct Lanes {
    streams: u16,
    /// Streams that were added to the association later.
    added: Range<u16>,
    initiated: bool,
    ours: Vec<Lane>,
    theirs: Vec<Lane>,
    /// Streams in order of preference that were never used.
    fresh: u16,
    freed: Vec<u16>,
}

impl Lanes {
    pub(crate) fn new(initiated: bool, streams: u16) -> Self {
        let (ours, theirs, freed) = (Vec::new(), Vec::new(), Vec::new());
        Self { streams, added: streams..streams, initiated, ours, theirs, fresh: 0, freed }
    }

    pub(crate) fn shrink(&mut self, streams: u16) {
        // The order of preference depends on the number of streams, so what was never used is
        // collected anew.
        let unused = (0..streams).filter(|&s| !self.is_used(s)).map(|s| (self.is_second(s), s));
        let mut free: Vec<_> = unused.collect();
        free.sort_unstable_by(|a, b| b.cmp(a));
        self.freed = free.into_iter().map(|(_, s)| s).collect();
        self.fresh = streams;
        self.streams = streams;
        self.added = streams..streams;
    }

    /// The association has the streams up to `end`, too; those below `first` that it did not have before are not
    /// for flows. What there was goes first.
    pub(crate) fn grow(&mut self, first: u16, end: u16) {
        let (first, start) = match self.added.is_empty() {
            true => (first.max(self.streams), first.max(self.streams)),
            false => (self.added.start, self.added.end),
        };
        if end <= start {
            return;
        }
        let fresh: Vec<_> = core::iter::from_fn(|| self.take_fresh()).collect();
        let mut new: Vec<_> = (start..end).map(|s| (self.is_second(s), s)).collect();
        new.sort_unstable();
        let mut order: Vec<_> = core::mem::take(&mut self.freed);
        order.reverse();
        order.extend(fresh);
        order.extend(new.into_iter().map(|(_, s)| s));
        order.reverse();
        (self.freed, self.added) = (order, first..end);
    }

    /// Whether the association has the stream, for flows.
    fn has(&self, stream: u16) -> bool {
        stream < self.streams || self.added.contains(&stream)
    }

    /// Streams that may carry flows.
    pub(crate) fn count(&self) -> u16 {
        self.streams + (self.added.end - self.added.start)
    }

    fn is_used(&self, stream: u16) -> bool {
        self.ours.get(usize::from(stream)).is_some_and(Lane::is_busy)
    }

    /// Whether a stream is of the parity that the peer prefers.
    fn is_second(&self, stream: u16) -> bool {
        stream.is_multiple_of(2) != self.initiated
    }

    /// A stream for a flow of ours. The initiator takes even streams first, the other side odd
    /// ones, so that two flows meet on one stream (and wait for each other's losses) only when
    /// more than half of the streams are in use.
    pub(crate) fn free_stream(&mut self) -> Option<u16> {
        self.freed.pop().or_else(|| self.take_fresh())
    }

    fn take_fresh(&mut self) -> Option<u16> {
        let position = self.fresh;
        if position >= self.streams {
            return None;
        }
        self.fresh += 1;
        let (first, offset) =
            if self.initiated { (self.streams.div_ceil(2), 0) } else { (self.streams / 2, 1) };
        Some(if position < first {
            position * 2 + offset
        } else {
            (position - first) * 2 + (1 - offset)
        })
    }

    /// The lane, if the association has the stream.
    pub(crate) fn get_mut(&mut self, key: LaneKey) -> Option<&mut Lane> {
        if !self.has(key.stream) {
            return None;
        }
        let lanes = match key.opener {
            Opener::Us => &mut self.ours,
            Opener::Peer => &mut self.theirs,
        };
        let index = usize::from(key.stream);
        if lanes.len() <= index {
            lanes.resize(index + 1, Lane::default());
        }
        lanes.get_mut(index)
    }

    pub(crate) fn end_sent(&mut self, key: LaneKey) {
        if let Some(lane) = self.get_mut(key) {
            lane.sent_end = true;
        }
        self.close(key);
    }

    pub(crate) fn end_received(&mut self, key: LaneKey) {
        if let Some(lane) = self.get_mut(key) {
            lane.got_end = true;
        }
        self.close(key);
    }

    fn close(&mut self, key: LaneKey) {
        let Some(lane) = self.get_mut(key) else { return };
        if lane.busy && lane.sent_end && lane.got_end {
            lane.busy = false;
            lane.flow = None;
            if key.opener == Opener::Us {
                self.freed.push(key.stream);
            }
        }
    }

    /// Lanes whose flow has not ended on both sides.
    pub(crate) fn busy(&self) -> usize {
        self.ours.iter().chain(&self.theirs).filter(|lane| lane.busy).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(initiated: bool, streams: u16) -> Vec<u16> {
        let mut lanes = Lanes::new(initiated, streams);
        core::iter::from_fn(|| lanes.free_stream()).collect()
    }

    #[test]
    fn own_parity_first_then_the_rest() {
        assert_eq!(all(true, 5), [0, 2, 4, 1, 3]);
        assert_eq!(all(false, 5), [1, 3, 0, 2, 4]);
        assert_eq!(all(true, 1), [0]);
        assert_eq!(all(false, 1), [0]);
    }

    #[test]
    fn lane_is_free_after_both_ends_and_counts_generations() {
        let mut lanes = Lanes::new(true, 1);
        let stream = lanes.free_stream().unwrap();
        let key = LaneKey { opener: Opener::Us, stream };
        lanes.get_mut(key).unwrap().begin(None);
        assert_eq!(lanes.get_mut(key).unwrap().age(1), Age::Current);
        lanes.end_sent(key);
        assert_eq!(lanes.free_stream(), None);
        lanes.end_received(key);
        assert_eq!(lanes.get_mut(key).unwrap().age(1), Age::Late);
        assert_eq!(lanes.free_stream(), Some(stream));
        lanes.get_mut(key).unwrap().begin(None);
        assert_eq!(lanes.get_mut(key).unwrap().age(1), Age::Late);
        assert_eq!(lanes.get_mut(key).unwrap().age(2), Age::Current);
        assert_eq!(lanes.get_mut(key).unwrap().age(3), Age::Early);
    }

    #[test]
    fn added_streams_come_last_and_leave_out_those_between() {
        let mut lanes = Lanes::new(true, 3);
        assert_eq!(lanes.free_stream(), Some(0));
        lanes.grow(5, 8);
        let rest: Vec<_> = core::iter::from_fn(|| lanes.free_stream()).collect();
        assert_eq!(rest, [2, 1, 6, 5, 7]);
        for stream in [3, 4, 8] {
            assert!(lanes.get_mut(LaneKey { opener: Opener::Peer, stream }).is_none());
        }
        lanes.grow(5, 10);
        assert_eq!(lanes.count(), 8);
        let rest: Vec<_> = core::iter::from_fn(|| lanes.free_stream()).collect();
        assert_eq!(rest, [8, 9]);
    }

    #[test]
    fn shrinking_keeps_the_order_and_the_used() {
        let mut lanes = Lanes::new(true, 8);
        let stream = lanes.free_stream().unwrap();
        lanes.get_mut(LaneKey { opener: Opener::Us, stream }).unwrap().begin(None);
        lanes.shrink(4);
        let rest: Vec<_> = core::iter::from_fn(|| lanes.free_stream()).collect();
        assert_eq!(rest, [2, 1, 3]);
        assert!(lanes.get_mut(LaneKey { opener: Opener::Us, stream: 4 }).is_none());
    }
}
