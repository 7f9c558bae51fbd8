//! What the path carries, and the bounds that losses put on it (draft-ietf-ccwg-bbr, section
//! "Updating Network Path Model Parameters").

use super::delivery::RateSample;
use super::own_queue::{Advice, REFUTED_TO};
use super::states::State;
use super::{Ack, Bbr, INFINITE, MIN_PIPE_PACKETS, Window, bytes_in, scaled};

/// LossThresh: the loss rate of a round, in percent, that is too much.
pub(super) const LOSS_THRESH: u64 = 2;
/// Beta: what a round with losses leaves at least, in percent.
const BETA: u64 = 70;
/// What is left free below `inflight_longterm` for other flows, in percent (Headroom).
pub(super) const HEADROOM: u64 = 15;
/// How many percent of `inflight_longterm` a quiet round must deliver to raise it: nearly all that Cruise leaves of it, if
/// round trips are watched for a queue, and more if nothing but losses would tell of one.
pub(super) const REFUTED_BY: u64 = 80;
const REFUTED_BLINDLY_BY: u64 = 90;

impl Bbr {
    /// UpdateLatestDeliverySignals().
    pub(super) fn update_latest(&mut self, ack: &Ack) {
        self.losses.round_started = false;
        let Some(sample) = ack.sample else { return };
        self.bw_latest = self.bw_latest.max(sample.rate);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        if sample.sent.delivered >= self.losses.round_delivered {
            self.losses.round_delivered = self.delivery.delivered();
            self.losses.round_started = true;
        }
    }

    /// AdvanceLatestDeliverySignals().
    pub(super) fn advance_latest(&mut self, ack: &Ack) {
        if let Some(sample) = ack.sample.filter(|_| self.losses.round_started) {
            self.recent.add(self.bw_latest, self.inflight_latest);
            (self.bw_latest, self.inflight_latest) = (sample.rate, sample.delivered);
        }
    }

    /// UpdateMaxBw(). A sample that the application has limited counts only if it is the highest.
    pub(super) fn update_max_bw(&mut self, ack: &Ack) {
        let prior = ack.sample.map(|sample| sample.sent.delivered);
        self.rounds.update(prior, self.delivery.delivered());
        let rate = ack.rate();
        if rate > 0 && (rate >= self.max_bw.get() || !ack.is_app_limited()) {
            self.max_bw.add(rate);
        }
    }

    /// UpdateCongestionSignals(): once per round with congestion, what was delivered is what the path is
    /// trusted with, unless the state probes for more; a round without it gives some of that back.
    pub(super) fn adapt_lower_bounds(&mut self, ack: &Ack, window: &Window) {
        if !self.losses.round_started {
            return;
        }
        let before = core::mem::replace(&mut self.losses.before, self.delivery.lost());
        let lost = self.delivery.lost() - before;
        let congested = self.is_congestion(lost, self.inflight_latest, window.chunk_limit as u64);
        let in_round = core::mem::take(&mut self.losses.in_round);
        self.losses.saved = false;
        if in_round && congested && !self.state.is_probing() {
            let max_bw = self.max_bw.get();
            let bounds = &mut self.bounds;
            let bw = if bounds.bw_shortterm == INFINITE { max_bw } else { bounds.bw_shortterm };
            let inflight = match bounds.inflight_shortterm {
                INFINITE => window.cwnd as u64,
                inflight => inflight,
            };
            let (bw_recent, inflight_recent) = self.recent.most();
            bounds.bw_shortterm = self.bw_latest.max(bw_recent).max(scaled(bw, BETA));
            bounds.inflight_shortterm =
                self.inflight_latest.max(inflight_recent).max(scaled(inflight, BETA));
        } else if self.state == State::Cruise
            // What an application has to send says nothing about the path.
            && ack.rate() > 0
            && !ack.is_app_limited()
            && let advice @ (Advice::Keep | Advice::Slow) =
                self.own_queue.judge_round(self.min_rtt.get())
        {
            if advice == Advice::Slow {
                // One sample may be far off.
                let bw = self.bounds.bw_shortterm.min(self.max_bw.get());
                self.bounds.bw_shortterm = scaled(ack.rate(), REFUTED_TO).max(scaled(bw, BETA));
            }
        } else if !congested {
            // Beside others that fill the queue, a quiet round tells of their pause.
            let is_queue = self.own_queue.is_half_full(self.min_rtt.get());
            let proven = if is_queue { 0 } else { self.inflight_latest };
            let enough = if self.own_queue.is_watched() { REFUTED_BY } else { REFUTED_BLINDLY_BY };
            self.bounds.relax(self.max_bw.get(), proven, enough);
        }
    }

    /// ResetCongestionSignals().
    pub(super) fn reset_congestion_signals(&mut self) {
        self.losses.in_round = false;
        (self.bw_latest, self.inflight_latest) = (0, 0);
    }

    /// IsInflightTooHigh().
    pub(super) fn is_inflight_too_high(&self, sample: &RateSample, packet: u64) -> bool {
        self.is_too_much(sample.lost, sample.sent.in_flight, packet)
    }

    /// InflightAtLoss(): what was in flight when losses exceeded the threshold, `size` bytes being
    /// the chunk that was lost last.
    pub(super) fn inflight_at_loss(sample: &RateSample, size: u64) -> u64 {
        let before = sample.sent.in_flight.saturating_sub(size);
        let lost = sample.lost.saturating_sub(size);
        let prefix = scaled(before, LOSS_THRESH).saturating_sub(lost) * 100 / (100 - LOSS_THRESH);
        before + prefix
    }

    /// HandleInflightTooHigh() without its change of state.
    pub(super) fn lower_inflight_longterm(&mut self, sample: &RateSample, window: &Window) {
        self.probe_bw.prev_too_high = true;
        self.probe_bw.is_sample = false;
        if !sample.sent.app_limited {
            let least = scaled(self.target_inflight(window), BETA);
            self.bounds.inflight_longterm = sample.sent.in_flight.max(least);
        }
    }

    /// BDPMultiple(): `gain` percent of the bandwidth-delay product.
    pub(super) fn bdp(&self, gain: u64) -> u64 {
        match self.min_rtt.get() {
            Some(min_rtt) => scaled(bytes_in(self.bw, min_rtt), gain),
            None => self.initial_cwnd,
        }
    }

    /// TargetInflight().
    pub(super) fn target_inflight(&self, window: &Window) -> u64 {
        self.bdp(100).min(window.cwnd as u64)
    }

    /// InflightWithHeadroom().
    pub(super) fn inflight_with_headroom(&self, packet: u64) -> u64 {
        let most = self.bounds.inflight_longterm;
        if most == INFINITE {
            return INFINITE;
        }
        let headroom = scaled(most, HEADROOM).max(packet);
        most.saturating_sub(headroom).max(MIN_PIPE_PACKETS * packet)
    }
}
