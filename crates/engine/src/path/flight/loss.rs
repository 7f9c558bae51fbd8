//! What a path has lost: by what arrived after it (RFC 9260 section 7.2.4, split per path, or RACK), by
//! T3-rtx (section 6.3.3), and with the path itself.

use super::order::SentOrder;
use super::rack::Verdict;
use super::{
    ChunkRecord, ChunkState, Extent, Flight, Loss, Lost, Reach, Records, SackSummary, Sent, Tracked,
};
use crate::config::SplitFastRetransmit;
use crate::path::{Path, PathId, Subflow};
use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;
use alloc::vec::Vec;

/// By what losses are found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detection {
    pub(crate) split_fast_retransmit: SplitFastRetransmit,
    /// So many missing reports make a loss.
    pub(crate) missing_reports: u8,
    /// A retransmission that is older than a round trip may be found missing too.
    pub(crate) repeats: bool,
    /// What lies beyond may be missing from SACKs for lack of room.
    pub(crate) horizon: Option<Tsn64>,
}

impl Detection {
    /// Rule 5 makes a chunk ineligible for a second fast retransmit. A lost retransmission would then
    /// wait for T3-rtx; with `repeats` it may be repeated once it is older than a round trip.
    fn is_missing(&self, now: Instant, round_trip: Duration, record: &ChunkRecord) -> bool {
        let is_old = || self.repeats && now.since(record.last_sent) >= round_trip;
        record.missing >= self.missing_reports && (record.transmissions == 1 || is_old())
    }
}

/// What was found to be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Found {
    /// Something.
    pub(crate) any: bool,
    /// The latest retransmission among it.
    pub(crate) repeated: Option<u64>,
    /// User data of lost chunks.
    pub(crate) data: usize,
    /// A packet among it that was larger than every path should take.
    pub(crate) large: bool,
}

/// The circumstances under which chunks of a path are judged by time.
#[derive(Clone, Copy, Debug)]
struct Look {
    now: Instant,
    /// For how long they may be late.
    window: Duration,
    /// The SACK under work, if there is one, acknowledges these transmissions.
    arrived: Option<Extent<u64>>,
    /// So many.
    count: u8,
}

/// The transmissions of a path, taken out while it is walked over them.
type Orders = [SentOrder; 2];

/// The record of a chunk of which the transmission `sent` on path `id` is under way.
fn live(records: &mut impl Records, id: PathId, sent: Sent) -> Option<&mut ChunkRecord> {
    records.record(sent.tsn).filter(|record| record.is_live(id, sent))
}

impl Flight {
    /// What is lost on the path and waits to be sent again.
    pub(crate) fn lost(&self) -> &Lost {
        &self.lost
    }

    /// How much of what the path carries is lost, in parts of 2^20.
    pub(crate) fn loss_level(&self) -> u64 {
        self.loss_rate.level()
    }

    /// The lowest TSN of what was sent first. `is_live`: whether a transmission is under way.
    pub(crate) fn earliest(&mut self, is_live: impl Fn(Sent) -> bool) -> Option<Tsn64> {
        let first = self.originals.earliest(&is_live);
        let again = self.retransmissions.earliest(&is_live);
        first.into_iter().chain(again).map(|sent| sent.tsn).min()
    }

    /// The chunk that was sent last. `is_live`: whether a transmission is under way.
    pub(crate) fn latest(&self, is_live: impl Fn(Sent) -> bool) -> Option<Tsn64> {
        let orders = [&self.originals, &self.retransmissions];
        let latest = orders.into_iter().filter_map(|order| order.latest(&is_live));
        latest.max_by_key(|sent| sent.number).map(|sent| sent.tsn)
    }

    /// What was sent last, as far as `is_late` holds. `is_live`: whether a transmission is under way.
    pub(crate) fn late(
        &mut self,
        is_live: impl Fn(Sent) -> bool,
        is_late: impl Fn(Sent) -> bool,
    ) -> Vec<Sent> {
        let mut late = self.originals.late(&is_live, &is_late);
        late.extend(self.retransmissions.late(&is_live, &is_late));
        late
    }

    /// What was sent first, as far as `is_overdue` holds, and the first of the originals and of the retransmissions for which
    /// it does not. `is_live`: whether a transmission is under way.
    pub(crate) fn overdue(
        &mut self,
        is_live: impl Fn(Sent) -> bool,
        is_overdue: impl Fn(Sent) -> bool,
    ) -> (Vec<Sent>, [Option<Sent>; 2]) {
        let (mut overdue, first) = self.originals.overdue(&is_live, &is_overdue);
        let (again, second) = self.retransmissions.overdue(&is_live, &is_overdue);
        overdue.extend(again);
        (overdue, [first, second])
    }

    /// When losses must be looked for because chunks will have had their time.
    pub(crate) fn loss_timer(&self) -> Option<Instant> {
        self.rack.timer()
    }

    /// Takes over what another path leaves behind.
    pub(crate) fn inherit(&mut self, lost: Lost, booked: usize) {
        self.lost.extend(lost);
        self.cuc.forget();
        self.booked += booked;
    }

    /// The path leaves the association: what it has lost, and what is booked on it, go to an heir.
    pub(crate) fn take_estate(&mut self) -> (Lost, usize) {
        (core::mem::take(&mut self.lost), core::mem::take(&mut self.booked))
    }

    /// All that is under way is to be sent again: its transmissions, over or not.
    pub(crate) fn take_sent(&mut self) -> impl Iterator<Item = Sent> + use<> {
        self.take_orders().into_iter().flatten()
    }

    /// A chunk is given up (RFC 3758 section 3.4), with the record that it had before.
    pub(crate) fn on_abandoned(&mut self, tsn: Tsn64, mut chunk: Tracked<'_>) {
        self.release(chunk.data);
        self.cuc.forget();
        match chunk.record.state {
            ChunkState::InFlight => self.land(&mut chunk),
            ChunkState::Lost => {
                self.lost.remove(tsn);
            }
            ChunkState::Acked | ChunkState::Released | ChunkState::Abandoned => {}
        }
    }

    /// A chunk was in flight and is not any more.
    pub(super) fn land(&mut self, chunk: &mut Tracked<'_>) {
        let hidden = core::mem::take(&mut chunk.record.hidden);
        let of = if hidden { &mut self.hidden } else { &mut self.bytes };
        *of = of.saturating_sub(chunk.wire);
    }

    /// A chunk is not under way any more, whether it has arrived or not.
    fn hide(&mut self, tsn: Tsn64, records: &mut impl Records) {
        if let Some(mut chunk) = records.tracked(tsn).filter(|chunk| !chunk.record.hidden) {
            self.land(&mut chunk);
            chunk.record.hidden = true;
            self.hidden += chunk.wire;
        }
    }

    fn take_orders(&mut self) -> Orders {
        [core::mem::take(&mut self.originals), core::mem::take(&mut self.retransmissions)]
    }

    fn restore_orders(&mut self, orders: Orders) {
        [self.originals, self.retransmissions] = orders;
    }
}

impl Path {
    /// A chunk of the path, in flight or acknowledged in vain, is to be sent again.
    pub(crate) fn on_lost(&mut self, tsn: Tsn64, chunk: &mut Tracked<'_>, loss: Loss) {
        if self.subflow.on_lost(tsn, chunk, loss) {
            self.search.on_large_lost();
        }
    }
}

impl Subflow {
    /// How long the answer to a chunk may take: RACK would then take it for lost if anything that left later had arrived.
    /// At least twice what round trips vary by: what is only late is not to be repeated.
    /// `delay`: see [`Self::tail_probe_at`].
    pub(crate) fn ack_timeout(&self, delay: Duration) -> Duration {
        let rack = &self.flight.rack;
        let window = rack.window(&self.rtt, false).max(self.rtt.variation() * 2);
        rack.reorder_timeout(&self.rtt, window) + self.held_back_answer(delay)
    }

    /// Counts missing reports for what was sent on the path before what the SACK newly acknowledges.
    pub(crate) fn count_missing_reports(
        &mut self,
        summary: &SackSummary<'_>,
        rules: &Detection,
        records: &mut impl Records,
    ) -> Found {
        let mut found = Found::default();
        let reach = rules.split_fast_retransmit.reach(&self.flight.news, summary.newly_acked);
        let Some(reach) = reach else { return found };
        let round_trip = self.rtt.smoothed().unwrap_or(self.rtt.rto());
        let mut orders = self.flight.take_orders();
        for (order, in_tsn_order) in orders.iter_mut().zip([true, false]) {
            order.retain_reached(reach, in_tsn_order, |sent| {
                let Some(record) = live(records, self.id, sent) else { return false };
                if sent.tsn > summary.highest {
                    return true;
                }
                let reports = summary.reports.against(sent, reach);
                record.missing = record.missing.saturating_add(reports);
                if !rules.is_missing(summary.now, round_trip, record) {
                    return true;
                }
                self.lose(summary.now, sent.tsn, records, &mut found);
                false
            });
        }
        self.flight.restore_orders(orders);
        found
    }

    /// Looks for losses among what left before the newest transmission that has arrived, after a SACK
    /// (`by_sack`) or when the time of [`Self::loss_timer`] has come.
    pub(crate) fn find_late(
        &mut self,
        now: Instant,
        by_sack: bool,
        rules: &Detection,
        records: &mut impl Records,
    ) -> Found {
        let (mut found, mut timer) = (Found::default(), None);
        let news = &self.flight.news;
        let (arrived, count) = if by_sack { (news.numbers, news.count) } else { (None, 0) };
        if by_sack && arrived.is_none() {
            return found;
        }
        self.flight.rack.set_timer(None);
        let Some(newest) = self.flight.rack.newest() else { return found };
        let window = self.flight.rack.window(&self.rtt, self.flight.is_recovering());
        let look = Look { now, window, arrived, count };
        let reach = Reach::Numbers(Extent { least: newest, most: newest });
        let mut orders = self.flight.take_orders();
        for (order, again) in orders.iter_mut().zip([false, true]) {
            order.retain_reached(reach, true, |sent| {
                let Some(record) = live(records, self.id, sent) else { return false };
                let is_hidden = rules.horizon.is_some_and(|horizon| sent.tsn > horizon);
                match self.judge(&look, sent, record, rules, is_hidden) {
                    Verdict::Lost if is_hidden => self.flight.hide(sent.tsn, records),
                    Verdict::Lost => {
                        found.repeated = found.repeated.max(again.then_some(sent.number));
                        self.lose(now, sent.tsn, records, &mut found);
                        return false;
                    }
                    Verdict::At(at) => {
                        timer = Some(timer.map_or(at, |timer: Instant| timer.min(at)));
                    }
                    Verdict::Open => {}
                }
                true
            });
        }
        self.flight.restore_orders(orders);
        self.flight.rack.set_timer(timer);
        found
    }

    /// Whether a chunk in flight is lost, or when that is to be asked again. `is_hidden`: SACKs may have no room to report
    /// it.
    fn judge(
        &self,
        look: &Look,
        sent: Sent,
        record: &mut ChunkRecord,
        rules: &Detection,
        is_hidden: bool,
    ) -> Verdict {
        let rack = &self.flight.rack;
        let arrived = look.arrived.filter(|arrived| sent.number < arrived.most && !is_hidden);
        if let Some(Extent { least, most }) = arrived {
            debug_assert!(least <= most);
            let beyond = if sent.number < least { look.count } else { 1 };
            record.missing = record.missing.saturating_add(beyond);
            if record.missing >= rules.missing_reports && !rack.reorders() {
                return Verdict::Lost;
            }
        }
        rack.judge(look.now, (sent.number, record.last_sent), &self.rtt, look.window)
    }

    /// A chunk in flight is lost as far as what arrived after it tells.
    fn lose(&mut self, now: Instant, tsn: Tsn64, records: &mut impl Records, found: &mut Found) {
        let Some(mut chunk) = records.tracked(tsn) else { return };
        found.any = true;
        found.data += chunk.data;
        self.congestion.on_chunk_lost(now, chunk.record.number, chunk.wire);
        self.flight.tail_probe.forget(tsn);
        found.large |= self.on_lost(tsn, &mut chunk, Loss::Reported);
    }

    /// As [`Path::on_lost`]. Returns whether a packet was lost that was larger than every path should take.
    fn on_lost(&mut self, tsn: Tsn64, chunk: &mut Tracked<'_>, loss: Loss) -> bool {
        let record = &mut *chunk.record;
        let was = core::mem::replace(&mut record.state, ChunkState::Lost);
        record.reneged |= was == ChunkState::Acked;
        self.flight.loss_rate.on_lost();
        self.flight.lost.insert(tsn, loss);
        let (was_in_flight, large) = (was == ChunkState::InFlight, record.large);
        if was_in_flight {
            if record.capable {
                self.ecn.on_lost();
            }
            self.flight.land(chunk);
        }
        was_in_flight && large
    }

    /// A chunk that the path has lost is about to be repeated on path `to`, for good. Returns how it was
    /// lost, and whether it is the probe of a silent tail.
    pub(crate) fn on_repeated(&mut self, tsn: Tsn64, data: usize, to: PathId) -> (Loss, bool) {
        let flight = &mut self.flight;
        let reported = flight.lost.remove(tsn);
        let stats = &mut self.stats;
        stats.fast_retransmits += u64::from(reported);
        stats.timeout_retransmits += u64::from(!reported);
        let next = flight.transmissions + 1;
        let probe = to == self.id && flight.tail_probe.on_repeated(tsn, next);
        if to != self.id {
            flight.cuc.forget();
            self.flight.release(data);
        }
        (if reported { Loss::Reported } else { Loss::TimedOut }, probe)
    }

    /// A chunk was sent again for nothing, because the path was taken to have lost it. `reported`: by what
    /// arrived after it.
    pub(crate) fn on_spurious(&mut self, tsn: Tsn64, reported: bool) {
        self.stats.spurious_retransmits += 1;
        self.flight.tail_probe.forget(tsn);
        if reported {
            self.flight.rack.on_duplicate(self.flight.transmissions);
            self.congestion.on_spurious();
        }
    }
}
