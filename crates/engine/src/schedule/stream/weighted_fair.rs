//! Weighted fair queueing (RFC 8260 section 3.6), self-clocked: every message gets the virtual time
//! at which it would be done if all streams sent at once at the speed of their weights, and the
//! earliest goes first.
//!
//! ```text
//! done = max(V, done of the stream's last message) + length / weight        V = done of what was sent last
//! ```
//!
//! While two streams have something to send, what they got differs, each divided by its weight, by
//! no more than one message of each divided by its weight. Streams that are tied to paths compete
//! on their path only, so each lane has its own V.
//!
//! Where paths may take over each other's streams all share one V. A path serves its own streams first, and
//! one of another path whose turn comes before theirs if that is [`OWED`] bytes behind the part that its weight
//! gives it: only what the weights ask for travels over more than one path. A stream that no path may help is
//! owed [`MOST_OWED`] bytes at most, or it would keep all others waiting when one may.

use super::{Departure, Head, Lane, StreamScheduler};
use crate::config::StreamOptions;
use alloc::collections::{BTreeMap, BTreeSet};
use manypath_wire::StreamId;

/// Bytes that a stream is behind before another path takes some of it.
const OWED: usize = 16 << 10;
/// Bytes that a stream gets later at most, of those that it was behind.
const MOST_OWED: usize = 512 << 10;

/// Virtual time: bytes per unit of weight, with 16 bits behind the point.
type Virtual = u128;

/// The streams by the virtual time at which their first message is done.
#[derive(Debug, Default)]
pub(crate) struct WeightedFair {
    order: BTreeSet<(Virtual, StreamId)>,
    now: BTreeMap<Lane, Virtual>,
    shares: BTreeMap<StreamId, Share>,
}

/// What a stream is entitled to and has got.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    weight: u16,
    lane: Lane,
    /// When what it has sent was done.
    sent: Virtual,
    /// Its entry in the order.
    queued: Option<(Virtual, Head)>,
}

impl Share {
    fn cost(&self, bytes: usize) -> Virtual {
        ((bytes as Virtual) << 16) / Virtual::from(self.weight.max(1))
    }
}

impl StreamScheduler for WeightedFair {
    fn add(&mut self, stream: StreamId, head: Head) {
        let share = self.shares.entry(stream).or_default();
        let now = self.now.get(&share.lane).copied().unwrap_or_default();
        share.sent = share.sent.max(now);
        let done = share.sent + share.cost(head.len);
        share.queued = Some((done, head));
        self.order.insert((done, stream));
    }

    fn next(&self, _lane: Lane, may: &dyn Fn(StreamId) -> bool) -> Option<StreamId> {
        self.order.iter().map(|(_, stream)| *stream).find(|stream| may(*stream))
    }

    fn on_sent(&mut self, stream: StreamId, departure: Departure) {
        let now = self.now.entry(departure.lane).or_default();
        let share = self.shares.entry(stream).or_default();
        if let Some((done, _)) = share.queued.take() {
            self.order.remove(&(done, stream));
        }
        if share.lane != departure.lane {
            // It competes with others now, whose time has gone on faster or slower.
            share.lane = departure.lane;
            share.sent = *now;
        }
        share.sent = share.sent.max(now.saturating_sub(share.cost(MOST_OWED)));
        share.sent += share.cost(departure.bytes);
        *now = share.sent.max(*now);
        if let Some(head) = departure.next {
            let done = share.sent + share.cost(head.len);
            share.queued = Some((done, head));
            self.order.insert((done, stream));
        }
    }

    fn has_common_parts(&self) -> bool {
        true
    }

    fn owed(&self, own: StreamId, may: &dyn Fn(StreamId) -> bool) -> Option<StreamId> {
        let turn = self.shares.get(&own)?;
        let (done, _) = turn.queued?;
        // Of up to a thousand streams those after `own` need not be asked: they have their turn after it in any case.
        let mut before = self.order.range(..(done, own)).map(|(_, stream)| *stream);
        let other = before.find(|stream| may(*stream))?;
        let share = self.shares.get(&other)?;
        (share.sent + share.cost(OWED) < turn.sent).then_some(other)
    }

    fn remove(&mut self, stream: StreamId) {
        let queued = self.shares.get_mut(&stream).and_then(|share| share.queued.take());
        if let Some((done, _)) = queued {
            self.order.remove(&(done, stream));
        }
    }

    fn set_options(&mut self, stream: StreamId, options: StreamOptions) {
        let share = self.shares.entry(stream).or_default();
        share.weight = options.weight;
        let queued = share.queued;
        self.remove(stream);
        if let Some((_, head)) = queued {
            self.add(stream, head);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::StreamScheduler;
    use super::super::testing::Bench;
    use super::WeightedFair;
    use crate::config::StreamOptions;
    use crate::path::PathId;
    use alloc::vec::Vec;
    use core::cell::Cell;
    use manypath_wire::StreamId;
    use proptest::prelude::*;

    fn set(bench: &mut Bench<WeightedFair>, stream: u16, weight: u16) {
        let options = StreamOptions { weight, ..StreamOptions::default() };
        bench.scheduler.set_options(StreamId(stream), options);
    }

    #[test]
    fn capacity_follows_the_weights() {
        let mut bench = Bench::new(WeightedFair::default());
        for (stream, weight) in [(1, 1), (2, 2), (3, 5)] {
            set(&mut bench, stream, weight);
            bench.queue(stream, 100, 1000);
        }
        let sent = bench.send(800);
        let count = |stream| sent.iter().filter(|sent| **sent == stream).count();
        assert_eq!([count(1), count(2), count(3)], [100, 200, 500]);
    }

    #[test]
    fn who_was_silent_has_saved_nothing() {
        let mut bench = Bench::new(WeightedFair::default());
        bench.queue(1, 100, 100);
        bench.send(50);
        bench.queue(2, 100, 100);
        let sent = bench.send(20);
        assert_eq!(sent.iter().filter(|sent| **sent == 2).count(), 10);
    }

    /// The time of a slow path's streams stands far behind.
    #[test]
    fn a_stream_that_changes_its_path_does_not_take_it_over() {
        let mut bench = Bench::new(WeightedFair::default());
        (1..=3).for_each(|stream| bench.queue(stream, 100, 500));
        let (fast, slow) = (Some(PathId(0)), Some(PathId(1)));
        let only = |allowed: u16| move |stream: StreamId| stream.0 == allowed;
        let sent = (0..200).filter_map(|_| bench.send_for(fast, &only(1))).count();
        let slowly = (0..2).filter_map(|_| bench.send_for(slow, &only(2))).count();
        assert_eq!((sent, slowly), (200, 2));
        let both = |stream: StreamId| stream.0 < 3;
        let sent: Vec<_> = (0..20).filter_map(|_| bench.send_for(fast, &both)).collect();
        assert!((10..=11).contains(&sent.iter().filter(|sent| **sent == 2).count()), "{sent:?}");
    }

    #[test]
    fn who_is_far_behind_is_owed_something_but_not_all_of_it() {
        let mut bench = Bench::new(WeightedFair::default());
        set(&mut bench, 2, 4);
        (1..=2).for_each(|stream| bench.queue(stream, 1000, 5000));
        let owed = |bench: &Bench<WeightedFair>, other, own| {
            bench.scheduler.owed(StreamId(own), &|id| id == StreamId(other)).is_some()
        };
        let first = |stream: StreamId| stream.0 == 1;
        // Its weight is 4 and it got nothing: it is 16,384 bytes behind when the other one has a fourth of that.
        let sent: Vec<_> = (0..4).filter_map(|_| bench.send_for(None, &first)).collect();
        assert_eq!((sent.len(), owed(&bench, 2, 1)), (4, false));
        bench.send_for(None, &first);
        assert!(owed(&bench, 2, 1) && !owed(&bench, 1, 2));
        // 2,000,000 bytes behind, of which it gets 524,288 before both take turns again.
        assert_eq!((0..500).filter_map(|_| bench.send_for(None, &first)).count(), 500);
        let alone = (0..1000).take_while(|_| bench.send(1) == [2]).count();
        assert!((524..=530).contains(&alone), "{alone}");
    }

    #[test]
    fn who_comes_later_is_not_asked_whether_it_is_owed_something() {
        let mut bench = Bench::new(WeightedFair::default());
        (1..=1000).for_each(|stream| bench.queue(stream, 1000, 2));
        bench.send(999);
        let asked = Cell::new(0);
        let may = |_: StreamId| {
            asked.set(asked.get() + 1);
            false
        };
        assert_eq!((bench.scheduler.owed(StreamId(1000), &may), asked.get()), (None, 0));
        assert_eq!((bench.scheduler.owed(StreamId(1), &may), asked.get()), (None, 1));
    }

    proptest! {
        #[test]
        fn shares_differ_by_no_more_than_a_message_of_each(
            streams in prop::collection::vec((1..=20u16, 1..=9000usize), 2..6),
        ) {
            let mut bench = Bench::new(WeightedFair::default());
            for (id, (weight, len)) in (0..).zip(&streams) {
                set(&mut bench, id, *weight);
                bench.queue(id, *len, 400);
            }
            let mut got = alloc::vec![0.0; streams.len()];
            for _ in 0..300 {
                let id = usize::from(bench.send(1)[0]);
                got[id] += streams[id].1 as f64 / f64::from(streams[id].0);
                for (a, (weight_a, len_a)) in streams.iter().enumerate() {
                    for (b, (weight_b, len_b)) in streams.iter().enumerate() {
                        let bound = *len_a as f64 / f64::from(*weight_a)
                            + *len_b as f64 / f64::from(*weight_b);
                        let apart: f64 = got[a] - got[b];
                        prop_assert!(apart <= bound + 0.1, "{got:?} {streams:?}");
                    }
                }
            }
        }
    }
}
