//! Losses as they are found, T3-rtx, and what is undone when they prove spurious
//! (draft-ietf-ccwg-bbr, sections "Updating the Model Upon Packet Loss", "Spurious Loss Recovery"
//! and "Modulating cwnd in Loss Recovery").

use super::filters::Bounds;
use super::states::State;
use super::{Ack, Bbr, Window};
use crate::time::Instant;

/// A search for more that losses have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Probing {
    Startup,
    Up,
}

/// What there was before the losses of this round.
#[derive(Debug, Default)]
pub(super) struct Undo {
    pub(super) probing: Option<Probing>,
    bounds: Bounds,
    /// Chunks found lost since, less those that were not.
    lost: u32,
    /// The path is in fast recovery.
    recovering: bool,
    /// T3-rtx has expired, and nothing has come back that left after that: so much was delivered.
    timed_out: Option<u64>,
}

impl Bbr {
    /// HandleLostPacket(): transmission `number` of `bytes` was found lost.
    pub(in super::super) fn on_chunk_lost(
        &mut self,
        now: Instant,
        number: u64,
        bytes: usize,
        window: &Window,
    ) {
        let sample = self.delivery.on_lost(number, bytes as u64);
        self.note_loss(window);
        let (bursts, packet) = (&mut self.random_loss.bursts, window.chunk_limit as u64);
        bursts.on_lost((number, bytes as u64), packet, &self.delivery);
        self.undo.lost += 1;
        if self.losses.last + 1 != number {
            self.losses.ranges += 1;
        }
        self.losses.last = number;
        let Some(mut sample) = sample.filter(|_| self.probe_bw.is_sample) else { return };
        if self.is_inflight_too_high(&sample, window.chunk_limit as u64) {
            sample.sent.in_flight = Self::inflight_at_loss(&sample, bytes as u64);
            self.lower_inflight_longterm(&sample, window);
            self.on_inflight_too_high(now);
        }
    }

    /// NoteLoss().
    fn note_loss(&mut self, window: &Window) {
        if !self.losses.in_round {
            self.losses.round_delivered = self.delivery.delivered();
        }
        self.losses.in_round = true;
        // A probe that ends with the first loss of a round begins to count anew, but what is to be
        // restored is what there was before.
        if !core::mem::replace(&mut self.losses.saved, true) {
            self.save_state(window);
        }
    }

    /// The path enters fast recovery. Each loss has been told by itself.
    pub(in super::super) fn on_recovery(&mut self, window: &Window) {
        self.save_cwnd(window);
        self.undo.recovering = true;
    }

    /// The peer has got a packet with CE: as much as a loss, once in a round. In Startup and
    /// during a probe it shows that too much is in flight.
    pub(in super::super) fn on_marked(&mut self, now: Instant, in_flight: u64, window: &Window) {
        self.note_loss(window);
        if self.state == State::Startup {
            self.leave_startup();
        } else if self.probe_bw.is_sample {
            let mut sample = super::RateSample::default();
            sample.sent.in_flight = in_flight;
            self.lower_inflight_longterm(&sample, window);
            self.on_inflight_too_high(now);
        }
    }

    /// T3-rtx has expired, `bytes` in flight are given up: OnEnterRTO().
    pub(in super::super) fn on_timeout(&mut self, bytes: usize, window: &mut Window) {
        self.save_cwnd(window);
        self.note_loss(window);
        self.delivery.on_timeout(bytes as u64);
        self.undo.recovering = false;
        self.undo.timed_out = Some(self.delivery.delivered());
        window.cwnd = window.chunk_limit;
    }

    /// Restores the window when recovery is over.
    pub(super) fn end_recovery(&mut self, ack: &Ack, window: &mut Window) {
        let prior = ack.sample.map(|sample| sample.sent.delivered);
        let answered = |at: &u64| prior.is_some_and(|prior| prior > *at);
        let after_timeout = self.undo.timed_out.take_if(|at| answered(at)).is_some();
        let recovered = self.undo.recovering && !ack.recovering;
        self.undo.recovering &= ack.recovering;
        if after_timeout || recovered {
            self.restore_cwnd(window);
        }
    }

    /// SaveStateUponLoss().
    fn save_state(&mut self, window: &Window) {
        self.save_cwnd(window);
        self.undo.probing = None;
        self.undo.bounds = self.bounds;
        self.undo.lost = 0;
    }

    /// SaveCwnd().
    pub(super) fn save_cwnd(&mut self, window: &Window) {
        let in_recovery = self.undo.recovering || self.undo.timed_out.is_some();
        self.prior_cwnd = if in_recovery || self.state == State::ProbeRtt {
            self.prior_cwnd.max(window.cwnd)
        } else {
            window.cwnd
        };
    }

    /// RestoreCwnd().
    pub(super) fn restore_cwnd(&self, window: &mut Window) {
        window.cwnd = window.cwnd.max(self.prior_cwnd);
    }

    /// A chunk that was found lost was not. When that is true of all chunks of the round, so is what
    /// was concluded from them: HandleSpuriousLossDetection().
    pub(in super::super) fn on_spurious(&mut self, window: &mut Window) {
        self.undo.lost = self.undo.lost.saturating_sub(1);
        if self.undo.lost == 0 {
            self.undo_losses(window);
        }
    }

    fn undo_losses(&mut self, window: &mut Window) {
        self.restore_cwnd(window);
        self.losses.in_round = false;
        self.full_pipe.restart(0);
        self.bounds.raise_to(&self.undo.bounds);
        let in_probe_rtt = self.state == State::ProbeRtt;
        match self.undo.probing.take() {
            Some(Probing::Startup) if self.state != State::Startup => {
                self.full_pipe.reached = false;
                if !in_probe_rtt {
                    self.state = State::Startup;
                }
            }
            Some(Probing::Up) if self.state != State::Up && !in_probe_rtt => self.start_refill(),
            Some(Probing::Startup | Probing::Up) | None => {}
        }
    }
}
