//! The state machine: Startup and Drain, and ProbeRTT. ProbeBW is in `probe_bw`
//! (draft-ietf-ccwg-bbr, section "State Machine Operation").

use super::recovery::Probing;
use super::{Ack, Bbr, Window};
use crate::time::{Duration, Instant};

/// Rounds after which Drain ends although more is in flight than it should.
const MAX_DRAIN_ROUNDS: u64 = 3;
/// Runs of lost chunks in a round that end Startup (StartupFullLossCnt).
const STARTUP_FULL_LOSS_RANGES: u32 = 6;
/// How long little stays in flight (ProbeRTTDuration).
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);

/// What BBR is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum State {
    /// Doubles the rate each round until the pipe is full.
    #[default]
    Startup,
    /// Lets the queue drain that Startup has made.
    Drain,
    /// Sends a little slower than the path delivers, so that queues drain.
    Down,
    /// Sends as fast as the path delivers.
    Cruise,
    /// Fills the pipe for a round before it looks for more.
    Refill,
    /// Sends faster to see whether the path delivers more.
    Up,
    /// Has little in flight, to see how short a round trip can be.
    ProbeRtt,
}

impl State {
    /// In percent of the bandwidth.
    pub(super) fn pacing_gain(self) -> u64 {
        match self {
            Self::Startup => 277,
            Self::Drain => 50,
            Self::Down => 90,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 100,
            Self::Up => 125,
        }
    }

    /// In percent of the bandwidth-delay product.
    pub(super) fn cwnd_gain(self) -> u64 {
        match self {
            Self::Startup | Self::Drain | Self::Down | Self::Cruise | Self::Refill => 200,
            Self::Up => 225,
            Self::ProbeRtt => 50,
        }
    }

    /// IsInAProbeBWState().
    pub(super) fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// IsProbingBW(): losses do not slow it down.
    pub(super) fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// ProbeRTT under way.
#[derive(Debug, Default)]
pub(super) struct ProbeRtt {
    done: Option<Instant>,
    round_done: bool,
}

impl Bbr {
    /// CheckStartupDone().
    pub(super) fn check_startup_done(&mut self, ack: &Ack) {
        if self.state == State::Startup {
            self.check_startup_high_loss(ack);
            if self.full_pipe.reached {
                self.state = State::Drain;
                self.drain_start_round = self.rounds.count;
            }
        }
        if self.losses.round_started {
            self.losses.ranges = 0;
        }
    }

    /// CheckStartupHighLoss(): a round in recovery with many losses.
    fn check_startup_high_loss(&mut self, ack: &Ack) {
        let due = self.losses.round_started
            && ack.recovering
            && self.losses.ranges >= STARTUP_FULL_LOSS_RANGES;
        if due && ack.sample.is_some_and(|sample| self.is_inflight_too_high(&sample, ack.packet)) {
            self.leave_startup();
        }
    }

    /// Startup has filled the path with more than it takes.
    pub(super) fn leave_startup(&mut self) {
        self.undo.probing = Some(Probing::Startup);
        self.full_pipe.reached = true;
        self.bounds.inflight_longterm = self.bdp(100).max(self.inflight_latest);
    }

    /// CheckDrainDone().
    pub(super) fn check_drain_done(&mut self, ack: &Ack) {
        let is_over = || {
            ack.in_flight <= self.inflight(100, ack.packet)
                || self.rounds.count > self.drain_start_round + MAX_DRAIN_ROUNDS
        };
        if self.state == State::Drain && is_over() {
            self.start_down(ack.now);
        }
    }

    pub(super) fn start_round(&mut self) {
        self.rounds.start(self.delivery.delivered());
    }

    /// CheckProbeRTT().
    pub(super) fn check_probe_rtt(&mut self, ack: &Ack, window: &mut Window) {
        let due = self.min_rtt.is_expired() && !self.idle_restart;
        if self.state != State::ProbeRtt && due {
            self.save_cwnd(window);
            self.state = State::ProbeRtt;
            self.probe_rtt = ProbeRtt::default();
            self.stop_probing();
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(ack, window);
        }
        if ack.sample.is_some_and(|sample| sample.delivered > 0) {
            self.idle_restart = false;
        }
    }

    /// HandleProbeRTT(). What is delivered meanwhile says nothing about the path.
    fn handle_probe_rtt(&mut self, ack: &Ack, window: &mut Window) {
        self.delivery.mark_app_limited(ack.in_flight);
        if self.probe_rtt.done.is_none() {
            if ack.in_flight <= self.probe_rtt_cwnd(ack.packet) {
                let done = Some(ack.now + PROBE_RTT_DURATION);
                self.probe_rtt = ProbeRtt { done, round_done: false };
                self.start_round();
            }
            return;
        }
        self.probe_rtt.round_done |= self.rounds.started;
        if self.probe_rtt.round_done {
            self.check_probe_rtt_done(ack.now, window);
        }
    }

    /// CheckProbeRTTDone().
    fn check_probe_rtt_done(&mut self, now: Instant, window: &mut Window) {
        if self.probe_rtt.done.is_some_and(|done| now > done) {
            self.min_rtt.on_probed(now);
            self.restore_cwnd(window);
            self.exit_probe_rtt(now);
        }
    }

    /// ExitProbeRTT().
    fn exit_probe_rtt(&mut self, now: Instant) {
        self.bounds.reset_short_term();
        if self.full_pipe.reached {
            self.start_down(now);
            self.start_cruise();
        } else {
            self.state = State::Startup;
        }
    }

    /// HandleRestartFromIdle().
    pub(super) fn restart_from_idle(&mut self, now: Instant, window: &mut Window) {
        self.idle_restart = true;
        self.extra_acked.restart(now);
        if self.state.is_probe_bw() {
            self.set_pacing_rate(100, window.chunk_limit as u64);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now, window);
        }
    }
}
