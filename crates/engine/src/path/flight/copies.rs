//! Second transmissions of chunks that are accounted on another path (redundant transmission).

use super::Extent;
use crate::path::Path;
use crate::time::Instant;
use crate::tsn::Tsn64;

impl Path {
    /// A copy of chunk `tsn` has been written into a packet. Returns the number of its transmission.
    pub(crate) fn on_copy_sent(&mut self, now: Instant, tsn: Tsn64, wire: usize) -> u64 {
        self.flight.transmissions += 1;
        self.flight.highest_tsn = self.flight.highest_tsn.max(Some(tsn));
        self.stats.copies += 1;
        self.occupy(now, wire);
        self.flight.transmissions
    }

    /// The copy was first: the chunk, with `data` bytes of user data, is accounted here from now on.
    pub(crate) fn on_copy_first(&mut self, data: usize) {
        self.flight.booked += data;
        self.flight.news.earliest_acked = true;
    }

    /// A copy on another path was first.
    pub(crate) fn on_copy_first_elsewhere(&mut self, data: usize) {
        self.release(data);
        self.flight.cuc.forget();
    }

    /// The copy that left at `sent` as transmission `number` has arrived.
    pub(crate) fn on_copy_acked(&mut self, now: Instant, number: u64, sent: Instant, wire: usize) {
        self.drop_copies(wire);
        self.flight.loss_rate.on_acked();
        self.congestion.on_chunk_acked(now, Some(number), wire);
        let age = now.since(sent);
        let news = &mut self.flight.news;
        news.acked += wire;
        news.earliest_acked = true;
        news.proves_path = true;
        news.rtt = Some(news.rtt.map_or(age, |rtt| rtt.min(age)));
        news.numbers = Extent::with(news.numbers, number);
        news.sent = Extent::with(news.sent, sent);
    }

    /// The latest transmission that the SACK under work acknowledges.
    pub(crate) fn latest_acked(&self) -> Option<u64> {
        self.flight.news.numbers.map(|numbers| numbers.most)
    }

    /// A copy is lost.
    pub(crate) fn on_copy_lost(&mut self, now: Instant, number: u64, wire: usize) {
        self.drop_copies(wire);
        self.flight.loss_rate.on_lost();
        self.congestion.on_chunk_lost(now, number, wire);
    }

    /// Nothing more is expected of copies with `wire` bytes.
    pub(crate) fn drop_copies(&mut self, wire: usize) {
        self.flight.bytes = self.flight.bytes.saturating_sub(wire);
    }
}
