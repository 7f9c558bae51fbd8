//! Copies: further transmissions of chunks that are accounted on another path (redundant transmission). They
//! occupy the window of their path until it is known what became of them:
//!
//! * The chunk is acknowledged by a SACK that came over the path of a copy. A peer answers over the path
//!   of the DATA, so this copy was first: it changes places with the first transmission.
//! * The peer reports the TSN as a duplicate: a second transmission has arrived.
//! * Something that left later on the same path has arrived and the copy is older than a round trip should
//!   take: it is lost, and the path's window is cut as for any loss.
//! * T3-rtx of the path expires.

use super::{ChunkState, Extent, Flight, Tracked};
use crate::path::Subflow;
use crate::time::Instant;
use crate::tsn::Tsn64;
use alloc::collections::VecDeque;

/// The copies of one path.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Chunks that were sent on another path and should be sent here too.
    wanted: VecDeque<Tsn64>,
    /// What is under way, in the order of transmission.
    pub(super) under_way: VecDeque<Copy>,
    /// The highest transmission number that has arrived.
    arrived: u64,
}

/// One transmission that is not the one that its chunk is accounted by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    tsn: Tsn64,
    number: u64,
    pub(super) wire: usize,
    sent: Instant,
}

impl Copies {
    fn take(&mut self, tsn: Tsn64) -> Option<Copy> {
        let at = self.under_way.iter().position(|copy| copy.tsn == tsn)?;
        self.under_way.remove(at)
    }
}

impl Flight {
    /// Chunk `tsn`, which has left on another path, is to leave on this one too.
    pub(crate) fn want_copy(&mut self, tsn: Tsn64) {
        self.copies.get_or_insert_default().wanted.push_back(tsn);
    }

    /// Nothing more is to be copied.
    pub(crate) fn want_no_copies(&mut self) {
        if let Some(copies) = &mut self.copies {
            copies.wanted.clear();
        }
    }

    /// Forgets chunks that need no copies any more.
    pub(crate) fn prune_copies(&mut self, is_over: impl Fn(Tsn64) -> bool) {
        let Some(Copies { wanted, .. }) = self.copies.as_deref_mut() else { return };
        while wanted.front().is_some_and(|tsn| is_over(*tsn)) {
            wanted.pop_front();
        }
    }

    /// The next chunk to be copied, of those that are in flight on another path.
    pub(crate) fn next_copy(&self, is_elsewhere: impl Fn(&Tsn64) -> bool) -> Option<Tsn64> {
        self.copies.as_ref()?.wanted.iter().copied().find(is_elsewhere)
    }

    /// Whether copies are under way.
    pub(crate) fn has_copies(&self) -> bool {
        self.copies.as_ref().is_some_and(|copies| !copies.under_way.is_empty())
    }

    /// When the copy of `tsn` left that is under way.
    pub(crate) fn copied_at(&self, tsn: Tsn64) -> Option<Instant> {
        let mut under_way = self.copies.as_ref()?.under_way.iter();
        under_way.find(|copy| copy.tsn == tsn).map(|copy| copy.sent)
    }

    /// A copy on another path was first: what left here counts as a copy.
    pub(crate) fn adopt_copy(&mut self, copy: Copy, data: usize) {
        self.copies.get_or_insert_default().under_way.push_back(copy);
        self.cuc.forget();
        self.release(data);
    }

    /// Nothing more is expected of the copies. Returns whether they were all that was in self.
    pub(crate) fn drop_copies(&mut self) -> bool {
        let Some(copies) = &mut self.copies else { return false };
        let bytes: usize = copies.under_way.drain(..).map(|copy| copy.wire).sum();
        let alone = bytes > 0 && bytes >= self.bytes;
        self.bytes = self.bytes.saturating_sub(bytes);
        alone
    }
}

impl Subflow {
    /// A copy of chunk `tsn` has been written into a packet.
    pub(crate) fn on_copy_sent(&mut self, now: Instant, tsn: Tsn64, wire: usize) {
        let flight = &mut self.flight;
        flight.transmissions += 1;
        flight.highest_tsn = flight.highest_tsn.max(Some(tsn));
        let copies = flight.copies.get_or_insert_default();
        copies.wanted.retain(|other| *other > tsn);
        copies.under_way.push_back(Copy { tsn, number: flight.transmissions, wire, sent: now });
        self.stats.copies += 1;
        self.occupy(now, wire);
    }

    /// A SACK that came over this path tells of `chunk`, which is accounted on another one. If a copy was
    /// first, the chunk is accounted here from now on; returns what is a copy there now.
    pub(crate) fn attribute(
        &mut self,
        now: Instant,
        tsn: Tsn64,
        chunk: Tracked<'_>,
    ) -> Option<Copy> {
        let Tracked { record, data, .. } = chunk;
        let copies = self.flight.copies.as_mut()?;
        let copy = copies.take(tsn)?;
        let possible = self.rtt.least().is_none_or(|least| now.since(copy.sent) >= least);
        if record.state != ChunkState::InFlight || !possible {
            // Either one may have been first: nothing is learned about paths from this chunk.
            record.moved = true;
            record.transmissions += 1;
            copies.under_way.push_front(copy);
            return None;
        }
        let first = Copy { number: record.number, sent: record.last_sent, ..copy };
        (record.path, record.number, record.last_sent) = (self.id, copy.number, copy.sent);
        record.capable = false;
        copies.arrived = copies.arrived.max(copy.number);
        self.flight.booked += data;
        self.flight.news.earliest_acked = true;
        Some(first)
    }

    /// The copy of `tsn` has arrived. False if there is none.
    pub(crate) fn on_copy_acked(&mut self, now: Instant, tsn: Tsn64) -> bool {
        let flight = &mut self.flight;
        let Some(copies) = &mut flight.copies else { return false };
        let Some(copy) = copies.take(tsn) else { return false };
        copies.arrived = copies.arrived.max(copy.number);
        flight.bytes = flight.bytes.saturating_sub(copy.wire);
        flight.loss_rate.on_acked();
        self.congestion.on_chunk_acked(now, Some(copy.number), copy.wire);
        let (news, age) = (&mut flight.news, now.since(copy.sent));
        news.acked += copy.wire;
        news.earliest_acked = true;
        news.proves_path = true;
        news.rtt = Some(news.rtt.map_or(age, |rtt| rtt.min(age)));
        news.numbers = Extent::with(news.numbers, copy.number);
        news.sent = Extent::with(news.sent, copy.sent);
        true
    }

    /// Gives up copies that are lost. Returns whether there were any.
    pub(crate) fn lose_copies(&mut self, now: Instant) -> bool {
        let flight = &mut self.flight;
        let Some(copies) = &mut flight.copies else { return false };
        let numbers = flight.news.numbers.map_or(0, |numbers| numbers.most);
        copies.arrived = copies.arrived.max(numbers);
        let Some(srtt) = self.rtt.smoothed() else { return false };
        let patience = srtt + (srtt / 4).max(self.rtt.variation() * 4);
        let (arrived, before) = (copies.arrived, copies.under_way.len());
        copies.under_way.retain(|copy| {
            let lost = copy.number < arrived && now.since(copy.sent) > patience;
            if lost {
                flight.bytes = flight.bytes.saturating_sub(copy.wire);
                flight.loss_rate.on_lost();
                self.congestion.on_chunk_lost(now, copy.number, copy.wire);
            }
            !lost
        });
        copies.under_way.len() < before
    }
}
