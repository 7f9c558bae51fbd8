//! Finding what is lost: missing reports (RFC 9260 section 7.2.4, split per path), T3-rtx
//! (section 6.3.3) and paths that are given up.

use super::Sender;
use super::outstanding::{ChunkState, Outstanding};
use super::rules::Rules;
use super::sack_processing::Facts;
use crate::path::congestion::CongestionEvent;
use crate::path::{LossRecovery, Path, PathId, Paths, Sent, SentOrder};
use crate::time::Instant;
use crate::tsn::Tsn64;

impl Sender {
    /// T3-rtx of `id` has expired. Returns true if that is no sign of a failing path: a zero-window
    /// probe that the peer goes on answering, so no error is to be counted.
    pub(crate) fn handle_t3(&mut self, id: PathId, paths: &mut Paths) -> bool {
        let Some(path) = paths.get_mut(id) else { return true };
        path.t3 = None;
        let awaits_forward = self.repeat_forward();
        if path.flight + path.hidden == 0 {
            if awaits_forward {
                path.rtt.back_off();
                return false;
            }
            self.distrust(paths);
            return true;
        }
        if let Some(probe) = self.answered_probe(id) {
            self.lose(probe, paths, Loss::Reported);
            return true;
        }
        self.window.on_timeout();
        let group = paths.couple(self.usable(paths));
        let unknown = self.drop_copies(id, paths);
        let Some(path) = paths.get_mut(id) else { return true };
        path.stats.timeouts += 1;
        path.rtt.back_off();
        path.congestion.on_timeout(&CongestionEvent { used: path.flight }, &group);
        path.cmt.recovery.leave();
        self.recovery.leave();
        path.cmt.fast_packet = false;
        path.cmt.one_packet = true;
        path.cmt.silence.settle();
        path.cmt.tail_probe.on_timeout();
        path.cmt.rack.set_timer(None);
        self.give_up_flight(id, paths);
        unknown
    }

    /// Path `id` is not used any more: what is in flight on it goes to the others, if there are
    /// any, without waiting for T3-rtx.
    pub(crate) fn path_lost(&mut self, id: PathId, paths: &mut Paths) {
        let usable = self.usable(paths);
        if usable.contains(id) {
            return;
        }
        self.give_up_flight(id, paths);
        self.drop_copies(id, paths);
        self.hand_over_t3(id, usable.iter().next().unwrap_or(id), paths);
    }

    /// Counts missing reports for what was sent on `path` before what the SACK newly acknowledges.
    /// Returns whether chunks were found lost.
    pub(super) fn strike(&mut self, facts: &Facts<'_>, path: &mut Path) -> bool {
        let rule = self.rules.split_fast_retransmit;
        let Some(reach) = rule.reach(&path.cmt.news, facts.newly_acked) else { return false };
        let mut first = core::mem::take(&mut path.cmt.first);
        let mut again = core::mem::take(&mut path.cmt.again);
        let mut any = false;
        for (order, in_tsn_order) in [(&mut first, true), (&mut again, false)] {
            order.retain_reached(reach, in_tsn_order, |sent| {
                let reports = facts.reports.against(sent, reach);
                let strike = self.strike_one(facts, sent, reports, path);
                let Some(strike) = strike else { return false };
                any |= strike;
                !strike
            });
        }
        path.cmt.first = first;
        path.cmt.again = again;
        any
    }

    /// `None` if the transmission is over, otherwise whether the chunk is lost now.
    fn strike_one(
        &mut self,
        facts: &Facts<'_>,
        sent: Sent,
        reports: u8,
        path: &mut Path,
    ) -> Option<bool> {
        let round_trip = path.rtt.smoothed().unwrap_or(path.rtt.rto());
        let Rules { loss_recovery, missing_reports, .. } = self.rules;
        let repeat = loss_recovery != LossRecovery::Rfc9260;
        let chunk = self.outstanding.get_mut(sent.tsn)?;
        if chunk.path != path.id || chunk.number != sent.number {
            return None;
        }
        if chunk.state != ChunkState::InFlight {
            return None;
        }
        if sent.tsn > facts.highest {
            return Some(false);
        }
        chunk.missing = chunk.missing.saturating_add(reports);
        // Rule 5 makes a chunk ineligible for a second fast retransmit. A lost retransmission
        // would then wait for T3-rtx; here it may be repeated once it is older than a round trip.
        let eligible =
            chunk.transmissions == 1 || (repeat && facts.now.since(chunk.last_sent) >= round_trip);
        if chunk.missing < missing_reports || !eligible {
            return Some(false);
        }
        self.mark_lost(facts.now, sent.tsn, path);
        Some(true)
    }

    /// Chunk `tsn`, in flight on `path`, is lost as far as what arrived after it tells.
    pub(super) fn mark_lost(&mut self, now: Instant, tsn: Tsn64, path: &mut Path) {
        let Some(chunk) = self.outstanding.get_mut(tsn) else { return };
        chunk.state = ChunkState::Lost;
        let (data, large) = (chunk.data_len(), chunk.large);
        let (number, wire) = (chunk.number, chunk.wire_len());
        chunk.land(path);
        if large {
            path.on_large_lost();
        }
        if chunk.capable {
            path.ecn.on_lost();
        }
        path.congestion.on_chunk_lost(now, number, wire);
        path.cmt.lost.reported.insert(tsn);
        path.cmt.loss_rate.on_lost();
        path.cmt.tail_probe.settle(tsn);
        self.on_lost(data);
    }

    /// The probe of a closed window, if it is what is in flight on `id` and SACKs have answered it.
    fn answered_probe(&self, id: PathId) -> Option<Tsn64> {
        let probe = self.window.probe().filter(|_| self.window.is_answered())?;
        let chunk = self.outstanding.get(probe)?;
        let alone = chunk.path == id && self.in_flight == chunk.data_len();
        (alone && chunk.state == ChunkState::InFlight).then_some(probe)
    }

    /// All that is in flight on `id` is to be sent again.
    pub(super) fn give_up_flight(&mut self, id: PathId, paths: &mut Paths) {
        let Some(path) = paths.get_mut(id) else { return };
        let mut first = core::mem::take(&mut path.cmt.first);
        let mut again = core::mem::take(&mut path.cmt.again);
        for order in [&mut first, &mut again] {
            while let Some(sent) = order.pop() {
                if is_live(&self.outstanding, id, sent) {
                    self.lose(sent.tsn, paths, Loss::TimedOut);
                }
            }
        }
    }

    /// Everything seems to be acknowledged but the cumulative TSN does not move: the peer has
    /// thrown away what it had acknowledged, and the SACK that said so was lost. Its gap reports
    /// are not believed any more.
    fn distrust(&mut self, paths: &mut Paths) {
        let first = self.outstanding.cum().next();
        let reneged =
            self.outstanding.get(first).is_some_and(|chunk| chunk.state == ChunkState::Acked);
        if !reneged || self.in_flight > 0 || self.lost > 0 {
            return;
        }
        let acked = core::mem::replace(&mut self.acked, self.released.clone());
        for tsn in acked.iter().flat_map(crate::ranges::Range::iter) {
            self.lose(tsn, paths, Loss::TimedOut);
        }
    }

    /// Chunk `tsn`, in flight or acknowledged in vain, is to be sent again.
    pub(super) fn lose(&mut self, tsn: Tsn64, paths: &mut Paths, loss: Loss) {
        let held = self.outstanding.get_mut(tsn);
        let Some(chunk) = held.filter(|chunk| !chunk.state.is_empty()) else { return };
        let Some(path) = paths.get_mut(chunk.path) else { return };
        let (data, large) = (chunk.data_len(), chunk.large);
        let was = core::mem::replace(&mut chunk.state, ChunkState::Lost);
        chunk.reneged |= was == ChunkState::Acked;
        path.cmt.loss_rate.on_lost();
        let lost = &mut path.cmt.lost;
        match loss {
            Loss::Reported => lost.reported.insert(tsn),
            Loss::TimedOut => lost.timed_out.insert(tsn),
        };
        match was {
            ChunkState::InFlight => {
                chunk.land(path);
                if large {
                    path.on_large_lost();
                }
                if chunk.capable {
                    path.ecn.on_lost();
                }
                self.on_lost(data);
            }
            ChunkState::Acked => self.lost += data,
            ChunkState::Lost | ChunkState::Released | ChunkState::Abandoned => {}
        }
    }

    fn on_lost(&mut self, data: usize) {
        self.in_flight = self.in_flight.saturating_sub(data);
        self.lost += data;
        self.window.on_lost(data);
    }
}

/// How a chunk was found to be lost; decides which path repeats it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Loss {
    /// By missing reports.
    Reported,
    /// By T3-rtx, or with its path.
    TimedOut,
}

/// Whether a transmission on path `id` is still under way.
pub(super) fn is_live(outstanding: &Outstanding, id: PathId, sent: Sent) -> bool {
    outstanding.get(sent.tsn).is_some_and(|chunk| {
        chunk.state == ChunkState::InFlight && chunk.path == id && chunk.number == sent.number
    })
}

/// The TSN of the earliest transmission of `order` that is under way.
pub(super) fn earliest_live(
    outstanding: &Outstanding,
    id: PathId,
    order: &mut SentOrder,
) -> Option<Tsn64> {
    order.earliest(|sent| is_live(outstanding, id, sent)).map(|sent| sent.tsn)
}
