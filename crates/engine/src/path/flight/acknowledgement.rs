//! What is acknowledged, and what a path concludes from a SACK before it looks for losses.

use super::dac::Reports;
use super::rack::Arrival;
use super::{ChunkRecord, ChunkState, Extent, Flight, PathAckSummary, Sent, Tracked};
use crate::config::CwndUpdate;
use crate::path::congestion::{Acked, Group};
use crate::path::{Path, PathId, Subflow};
use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;

/// What a SACK says about all paths, while conclusions are drawn for each.
#[derive(Debug)]
pub(crate) struct SackSummary<'a> {
    pub(crate) now: Instant,
    /// The path over which it came.
    pub(crate) via: PathId,
    /// The cumulative TSN.
    pub(crate) cum: Tsn64,
    /// The highest TSN that it reports.
    pub(crate) highest: Tsn64,
    /// TSNs newly acknowledged on all paths (RFC 9260's HTNA).
    pub(crate) newly_acked: Option<Extent<Tsn64>>,
    /// How many missing reports it counts for.
    pub(crate) reports: Reports,
    /// Whether the association was in fast recovery when it came.
    pub(crate) recovering: bool,
    /// What lets a window grow. `None`: any acknowledgement.
    pub(crate) cwnd_update: Option<CwndUpdate>,
    pub(crate) group: &'a Group,
}

/// What a SACK proves about a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conclusion {
    /// Something of it was newly acknowledged.
    pub(crate) newly_acked: bool,
    /// It works.
    pub(crate) works: bool,
}

impl Flight {
    /// A SACK is about to be worked in. `is_live`: whether a transmission is under way.
    pub(crate) fn begin_sack(&mut self, is_live: impl Fn(Sent) -> bool) {
        self.news = PathAckSummary { flight_before: self.bytes, ..PathAckSummary::default() };
        self.cuc.begin();
        self.look_for_earliest(is_live);
    }

    /// Finds the chunks whose acknowledgement will be a pseudo-cumulative one.
    fn look_for_earliest(&mut self, is_live: impl Fn(Sent) -> bool) {
        let (first, again) = self.cuc.wants();
        if first {
            self.cuc.found_first(self.originals.earliest(&is_live).map(|sent| sent.tsn));
        }
        if again {
            self.cuc.found_again(self.retransmissions.earliest(&is_live).map(|sent| sent.tsn));
        }
    }

    /// The cumulative TSN has passed a chunk that was not acknowledged before.
    pub(crate) fn on_passed_by(&mut self) {
        self.news.cum_advanced = true;
    }

    /// Whether the cumulative TSN has passed a chunk of the path.
    pub(crate) fn was_passed(&self) -> bool {
        self.news.cum_advanced
    }

    /// What the SACK under work newly acknowledges.
    pub(crate) fn newly_acked(&self) -> Option<Extent<Tsn64>> {
        self.news.tsns
    }

    /// How much of `window` was in use when what is acknowledged now was under way. It counts as full also if it was so
    /// within the last `round_trip`: what is acknowledged now left when it was, even if another SACK of the same batch
    /// came first.
    pub(super) fn used_window(&self, now: Instant, round_trip: Duration, window: usize) -> usize {
        let full = self.window_filled.is_some_and(|filled| now.since(filled) <= round_trip);
        let before = self.news.flight_before;
        if full { before.max(window) } else { before }
    }

    fn note_news(
        &mut self,
        now: Instant,
        tsn: Tsn64,
        record: &ChunkRecord,
        once: bool,
        sure: bool,
    ) {
        let news = &mut self.news;
        news.earliest_acked |= self.cuc.on_acked(tsn);
        news.proves_path |= !record.moved;
        if once {
            let age = now.since(record.last_sent);
            news.rtt = Some(news.rtt.map_or(age, |rtt| rtt.min(age)));
        }
        // Of a chunk that was sent more than once it is not known which transmission has arrived. Too
        // early an acknowledgement cannot be for the last one, which then says nothing about others.
        if sure {
            let (number, sent) = (record.number, record.last_sent);
            news.numbers = Extent::with(news.numbers, number);
            news.count = news.count.saturating_add(1);
            news.sent = Extent::with(news.sent, sent);
            self.rack.on_arrival(now, Arrival { number, tsn, sent, once });
        }
        news.tsns = Extent::with(news.tsns, tsn);
        if !record.timed_out {
            news.sure_tsns = Extent::with(news.sure_tsns, tsn);
        }
    }
}

impl Path {
    /// A chunk that was sent last on the path, and is in flight or waits to be sent again, is acknowledged.
    #[inline]
    pub(crate) fn on_acked(&mut self, now: Instant, tsn: Tsn64, chunk: Tracked<'_>) {
        let large = chunk.record.large;
        if self.subflow.on_acked(now, tsn, chunk) {
            self.search.on_passed(large);
        }
    }
}

impl Subflow {
    /// As [`Path::on_acked`]. Returns whether the last transmission of the chunk is sure to have arrived.
    #[inline]
    fn on_acked(&mut self, now: Instant, tsn: Tsn64, mut chunk: Tracked<'_>) -> bool {
        if chunk.record.state == ChunkState::InFlight {
            self.flight.land(&mut chunk);
        } else if self.flight.lost.remove(tsn) {
            self.congestion.on_spurious();
        }
        let Tracked { record, wire, .. } = chunk;
        record.state = ChunkState::Acked;
        record.missing = 0;
        let record = &*record;
        // An acknowledgement that comes a second time says nothing about the round trip.
        let once = record.transmissions == 1 && !record.reneged;
        let earlier = record.is_too_early(now, &self.rtt);
        let sure = once || (self.rtt.least().is_some() && !earlier);
        self.flight.loss_rate.on_acked();
        // What was acknowledged before has widened the window then: a receiver that takes reports back and
        // gives them again must not widen it each time.
        if !record.reneged {
            // Otherwise the path that it was sent on before has delivered it.
            if !earlier || record.from == self.id {
                self.congestion.on_chunk_acked(now, sure.then_some(record.number), wire);
            }
            self.flight.news.acked += wire;
        }
        if sure {
            match record.capable {
                true => self.ecn.on_capable_passed(),
                false => self.ecn.on_plain_passed(),
            }
        }
        self.flight.note_news(now, tsn, record, once, sure);
        sure
    }

    /// The peer has thrown a chunk away that it had acknowledged.
    pub(crate) fn on_reneged(&mut self, now: Instant, tsn: Tsn64, chunk: Tracked<'_>) {
        let Tracked { record, wire, .. } = chunk;
        record.state = ChunkState::InFlight;
        record.reneged = true;
        record.missing = 1;
        let flight = &mut self.flight;
        flight.bytes += wire;
        let is_first = record.transmissions == 1;
        let order = if is_first { &mut flight.originals } else { &mut flight.retransmissions };
        order.restore(Sent { number: record.number, tsn });
        if flight.t3.is_none() {
            self.restart_t3(now);
        }
    }

    /// Draws the conclusions of the SACK under work, but for losses: see [`Self::end_sack`].
    #[inline]
    pub(crate) fn conclude(
        &mut self,
        summary: &SackSummary<'_>,
        is_live: impl Fn(Sent) -> bool,
    ) -> Conclusion {
        self.flight.look_for_earliest(is_live);
        self.flight.leave_recovery(summary.cum);
        let news = self.flight.news;
        self.stats.bytes_acked += news.acked as u64;
        let newly_acked = news.acked > 0 || news.tsns.is_some();
        if newly_acked {
            self.flight.one_packet = false;
            self.flight.tail_probe.on_heard(summary.now);
        }
        let (silence, elsewhere) = (&mut self.flight.silence, summary.via != self.id);
        let works = news.proves_path && !(elsewhere && silence.refute_elsewhere());
        if let Some(rtt) = news.rtt.filter(|_| !(elsewhere && silence.is_in_question())) {
            self.rtt.on_data_sample(summary.now, rtt);
        }
        self.widen(summary, &news);
        Conclusion { newly_acked, works }
    }

    /// The SACK has been worked in, and losses were looked for. `smart`: a chunk of the path that was
    /// blocked by another path's loss restarts T3-rtx as well as one that the cumulative TSN passes (rule R3
    /// of section 6.3.2), or every path would time out behind the blocked cumulative TSN.
    pub(crate) fn end_sack(&mut self, now: Instant, smart: bool) {
        let news = &self.flight.news;
        if !self.flight.awaits_acknowledgement() {
            self.flight.t3 = None;
        } else if news.cum_advanced || (news.earliest_acked && smart) {
            self.restart_t3(now);
        }
    }

    /// Widens the window (section 7.2.1, 7.2.2; CUC), and Max.Burst with it.
    fn widen(&mut self, summary: &SackSummary<'_>, news: &PathAckSummary) {
        let (now, window, srtt) = (summary.now, self.congestion.window(), self.rtt.smoothed());
        let (flight, cuc) = (&self.flight, &self.flight.cuc);
        let acked = Acked {
            now,
            bytes: news.acked,
            advanced: summary.cwnd_update.is_none_or(|update| update.advances(news, cuc)),
            window_used: flight.used_window(now, srtt.unwrap_or_default(), window) >= window,
            recovering: summary.recovering || flight.is_recovering(),
            in_flight: flight.bytes,
            newest: news.numbers.map(|numbers| numbers.most),
            sent: flight.transmissions,
            rtt: news.rtt,
            srtt,
            least_rtt: self.rtt.least(),
        };
        self.congestion.on_acked(&acked, summary.group);
        let opened = self.congestion.window().saturating_sub(window);
        let limit = self.congestion.chunk_limit();
        self.burst.on_sack(now, (self.flight.bytes, news.acked + opened), limit, srtt);
    }
}
