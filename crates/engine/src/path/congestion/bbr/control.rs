//! Pacing rate and congestion window (draft-ietf-ccwg-bbr, section "Updating Control Parameters").

use super::bursts::MAX_BURST;
use super::states::State;
use super::{Ack, Bbr, INFINITE, MIN_PIPE_PACKETS, Window, bytes_in, rate, scaled};
use crate::time::Duration;

/// The rate is so many percent less than the gain says (PacingMarginPercent).
const PACING_MARGIN: u64 = 1;
/// What leaves at once lasts for so long at the pacing rate, but is at least
/// [`MIN_QUANTUM_PACKETS`] and at most [`MAX_BURST`] bytes. The model allows for that even where shorter bursts leave:
/// a host that gets the processor late makes up for it.
const QUANTUM: Duration = Duration::from_millis(1);
const MIN_QUANTUM_PACKETS: u64 = 2;

impl Bbr {
    /// UpdateControlParameters().
    pub(super) fn update_control(&mut self, ack: &Ack, window: &mut Window) {
        self.init_pacing_rate(ack);
        self.set_pacing_rate(self.state.pacing_gain(), ack.packet);
        self.set_cwnd(ack, window);
        if self.full_pipe.reached {
            // Slow start is over. What reads the threshold takes it for what the path holds.
            let product = usize::try_from(self.bdp(100)).unwrap_or(usize::MAX);
            window.ssthresh = product.min(window.cwnd - 1);
        }
    }

    /// InitPacingRate(), once a round trip was measured. A chunk that was repeated at once has none, and the few bytes of it
    /// may be all that the first rate is made of.
    fn init_pacing_rate(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt.filter(|_| self.pacing_rate == 0) {
            let nominal = rate(self.initial_cwnd, rtt);
            self.pacing_rate = scaled(nominal, State::Startup.pacing_gain());
        }
    }

    /// SetPacingRateWithGain().
    pub(super) fn set_pacing_rate(&mut self, gain: u64, packet: u64) {
        let gross = self.random_loss.gross(self.bw, packet);
        let rate = scaled(scaled(gross, gain), 100 - PACING_MARGIN);
        let is_begun = self.pacing_rate > 0;
        if is_begun && rate > 0 && (self.full_pipe.reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// SetSendQuantum().
    fn send_quantum(&self, packet: u64) -> u64 {
        let quantum = bytes_in(self.pacing_rate, QUANTUM).min(MAX_BURST);
        quantum.max(MIN_QUANTUM_PACKETS * packet)
    }

    /// How long what leaves at once takes.
    pub(super) fn quantum_time(&self, packet: u64) -> Duration {
        let nanos = self.send_quantum(packet).saturating_mul(1_000_000_000);
        Duration::from_nanos(nanos / self.pacing_rate.max(1))
    }

    /// QuantizationBudget().
    fn with_budget(&self, inflight: u64, packet: u64) -> u64 {
        let least = self.send_quantum(packet).max(MIN_PIPE_PACKETS * packet);
        let probe = if self.state == State::Up { 2 * packet } else { 0 };
        inflight.max(least).saturating_add(probe)
    }

    /// Inflight().
    pub(super) fn inflight(&self, gain: u64, packet: u64) -> u64 {
        self.with_budget(self.bdp(gain), packet)
    }

    fn max_inflight(&self, packet: u64) -> u64 {
        let inflight = self.bdp(self.state.cwnd_gain()).saturating_add(self.extra_acked.get());
        self.with_budget(inflight, packet)
    }

    /// SetCwnd().
    fn set_cwnd(&self, ack: &Ack, window: &mut Window) {
        let (cwnd, most) = (window.cwnd as u64, self.max_inflight(ack.packet));
        let grown = cwnd.saturating_add(ack.acked);
        let cwnd = if self.full_pipe.reached {
            grown.min(most)
        } else if cwnd < most || self.delivery.delivered() < self.initial_cwnd {
            grown
        } else {
            cwnd
        };
        let cwnd = self.bound_cwnd(cwnd.max(MIN_PIPE_PACKETS * ack.packet), ack);
        window.cwnd = usize::try_from(cwnd).unwrap_or(usize::MAX);
    }

    /// BoundCwndForProbeRTT() and BoundCwndForModel().
    fn bound_cwnd(&self, cwnd: u64, ack: &Ack) -> u64 {
        let packet = ack.packet;
        let cap = match self.state {
            State::Down | State::Refill | State::Up => self.bounds.inflight_longterm,
            State::Cruise => self.inflight_with_headroom(packet),
            State::ProbeRtt => self.inflight_with_headroom(packet).min(self.probe_rtt_cwnd(packet)),
            State::Startup => self.overshoot_bound(),
            State::Drain => INFINITE,
        };
        let cap = cap.min(self.bounds.inflight_shortterm).max(MIN_PIPE_PACKETS * packet);
        cwnd.min(cap)
    }

    /// How far Startup may go ahead of what the path has shown to deliver, once a queue begins to grow.
    fn overshoot_bound(&self) -> u64 {
        let most = self.overshoot.most() as u64;
        let grows = self.own_queue.grows(self.min_rtt.get());
        if grows { most.max(self.initial_cwnd) } else { INFINITE }
    }

    /// ProbeRTTCwnd().
    pub(super) fn probe_rtt_cwnd(&self, packet: u64) -> u64 {
        self.bdp(State::ProbeRtt.cwnd_gain()).max(MIN_PIPE_PACKETS * packet)
    }
}
