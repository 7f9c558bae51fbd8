//! ProbeBW: the cycle of Down, Cruise, Refill and Up, and what it learns about how much the path
//! holds (draft-ietf-ccwg-bbr, sections "ProbeBW" and "ProbeBW Algorithm Details").

use super::recovery::Probing;
use super::states::State;
use super::{Ack, Bbr, INFINITE, Window};
use crate::time::{Duration, Instant};

/// A probe follows another one after so long and up to a second more.
const MIN_PROBE_WAIT: Duration = Duration::from_secs(2);
/// Rounds after which a flow of Reno in the same place would have grown by a packet as often.
const MAX_RENO_ROUNDS: u64 = 63;
/// The increase per round stops doubling here.
const MAX_UP_ROUNDS: u32 = 30;

/// What acknowledgements tell of: ACKS_INIT and so on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum AckPhase {
    /// Nothing about probing.
    #[default]
    Init,
    Refilling,
    /// The probe has begun, its first packets are on their way.
    ProbeStarting,
    ProbeFeedback,
    /// The probe is over, its last packets are on their way.
    ProbeStopping,
}

/// The cycle.
#[derive(Debug)]
pub(super) struct ProbeBw {
    pub(super) ack_phase: AckPhase,
    /// The SACKs tell of packets that probed for bandwidth.
    pub(super) is_sample: bool,
    /// The last probe had too many losses.
    pub(super) prev_too_high: bool,
    /// The last probe ended where losses had begun in the one before.
    prev_precautionary: bool,
    cycle_stamp: Instant,
    wait: Duration,
    up_acked: u64,
    /// Bytes acknowledged for which `inflight_longterm` grows by a packet.
    up_acked_per_inc: u64,
    up_rounds: u32,
}

impl Default for ProbeBw {
    fn default() -> Self {
        Self {
            ack_phase: AckPhase::default(),
            is_sample: false,
            prev_too_high: false,
            prev_precautionary: false,
            cycle_stamp: Instant::ZERO,
            wait: Duration::ZERO,
            up_acked: 0,
            up_acked_per_inc: INFINITE,
            up_rounds: 0,
        }
    }
}

impl Bbr {
    /// StartProbeBW_DOWN().
    pub(super) fn start_down(&mut self, now: Instant) {
        self.reset_congestion_signals();
        self.probe_bw.up_acked_per_inc = INFINITE;
        self.pick_probe_wait(now);
        self.probe_bw.cycle_stamp = now;
        self.stop_probing();
        self.start_round();
        self.state = State::Down;
    }

    /// What is acknowledged from the next round on tells nothing about probing.
    pub(super) fn stop_probing(&mut self) {
        self.probe_bw.ack_phase = AckPhase::ProbeStopping;
    }

    /// PickProbeWait(). Time and progress of the flow are random enough to keep flows apart.
    fn pick_probe_wait(&mut self, now: Instant) {
        let random = mixed(now.as_nanos() ^ self.delivery.delivered().rotate_left(32));
        self.rounds.since_probe_up = random & 1;
        self.probe_bw.wait = MIN_PROBE_WAIT + Duration::from_nanos((random >> 1) % 1_000_000_000);
    }

    /// StartProbeBW_CRUISE().
    pub(super) fn start_cruise(&mut self) {
        self.own_queue.on_cruise(self.min_rtt.get());
        self.state = State::Cruise;
    }

    /// StartProbeBW_REFILL().
    pub(super) fn start_refill(&mut self) {
        self.bounds.reset_short_term();
        self.probe_bw.up_rounds = 0;
        self.probe_bw.up_acked = 0;
        self.probe_bw.prev_precautionary = false;
        self.probe_bw.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::Refill;
    }

    /// StartProbeBW_UP().
    fn start_up(&mut self, ack: &Ack, window: &Window) {
        self.probe_bw.is_sample = true;
        self.probe_bw.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.full_pipe.restart(ack.rate());
        self.own_queue.on_probe(self.min_rtt.get());
        self.state = State::Up;
        self.raise_inflight_slope(ack, window);
    }

    /// UpdateProbeBWCyclePhase().
    pub(super) fn update_probe_bw(&mut self, ack: &Ack, window: &Window) {
        if !self.full_pipe.reached || self.adapt_long_term_model(ack, window) {
            return;
        }
        let goes_down = self.state == State::Up && self.is_time_to_go_down(ack, window);
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe(ack, window) => {
                self.start_refill();
            }
            State::Down if self.is_time_to_cruise(ack) => self.start_cruise(),
            State::Refill if self.rounds.started => self.start_up(ack, window),
            State::Up if goes_down => {
                self.probe_bw.prev_too_high = false;
                self.start_down(ack.now);
            }
            State::Startup
            | State::Drain
            | State::Down
            | State::Cruise
            | State::Refill
            | State::Up
            | State::ProbeRtt => {}
        }
    }

    /// IsTimeToProbeBW().
    fn is_time_to_probe(&self, ack: &Ack, window: &Window) -> bool {
        let packets = self.target_inflight(window) / ack.packet.max(1);
        ack.now.since(self.probe_bw.cycle_stamp) > self.probe_bw.wait
            || self.rounds.since_probe_up >= packets.min(MAX_RENO_ROUNDS)
    }

    /// IsTimeToCruise().
    fn is_time_to_cruise(&self, ack: &Ack) -> bool {
        ack.in_flight <= self.inflight_with_headroom(ack.packet)
            && ack.in_flight <= self.inflight(100, ack.packet)
    }

    /// IsTimeToGoDown().
    fn is_time_to_go_down(&mut self, ack: &Ack, window: &Window) -> bool {
        let most = self.bounds.inflight_longterm;
        if self.probe_bw.prev_too_high && ack.in_flight >= most {
            self.probe_bw.prev_precautionary = true;
            return true;
        }
        if ack.cwnd_limited && window.cwnd as u64 >= most {
            // The bound limits what is delivered, so a plateau shows nothing.
            self.full_pipe.restart(ack.rate());
            return false;
        }
        self.full_pipe.now || self.own_queue.is_long()
    }

    /// AdaptLongTermModel(). Returns whether it has changed the state.
    fn adapt_long_term_model(&mut self, ack: &Ack, window: &Window) -> bool {
        match self.probe_bw.ack_phase {
            AckPhase::ProbeStarting if self.rounds.started => {
                self.probe_bw.ack_phase = AckPhase::ProbeFeedback;
            }
            AckPhase::ProbeStopping if self.rounds.started => {
                if self.end_probe(ack) {
                    return true;
                }
            }
            AckPhase::Init
            | AckPhase::Refilling
            | AckPhase::ProbeStarting
            | AckPhase::ProbeFeedback
            | AckPhase::ProbeStopping => {}
        }
        if let Some(sample) =
            ack.sample.filter(|sample| !self.is_inflight_too_high(sample, ack.packet))
            && self.bounds.inflight_longterm != INFINITE
        {
            let most = &mut self.bounds.inflight_longterm;
            *most = (*most).max(sample.sent.in_flight);
            if self.state == State::Up {
                self.probe_inflight_upward(ack, window);
            }
        }
        false
    }

    /// The last packets of a probe were acknowledged. Returns whether the next one follows at once.
    fn end_probe(&mut self, ack: &Ack) -> bool {
        self.probe_bw.is_sample = false;
        self.probe_bw.ack_phase = AckPhase::Init;
        if self.state.is_probe_bw() && !ack.is_app_limited() {
            self.max_bw.advance();
        }
        let again = self.state.is_probe_bw()
            && self.probe_bw.prev_precautionary
            && !self.probe_bw.prev_too_high;
        if again {
            self.start_refill();
        }
        again
    }

    /// RaiseInflightLongtermSlope().
    fn raise_inflight_slope(&mut self, ack: &Ack, window: &Window) {
        let growth = 1 << self.probe_bw.up_rounds;
        self.probe_bw.up_rounds = (self.probe_bw.up_rounds + 1).min(MAX_UP_ROUNDS);
        self.probe_bw.up_acked_per_inc = (window.cwnd as u64 / growth).max(ack.packet);
    }

    /// ProbeInflightLongtermUpward().
    fn probe_inflight_upward(&mut self, ack: &Ack, window: &Window) {
        if !ack.cwnd_limited || (window.cwnd as u64) < self.bounds.inflight_longterm {
            return;
        }
        let probe = &mut self.probe_bw;
        probe.up_acked += ack.acked;
        let packets = probe.up_acked / probe.up_acked_per_inc.max(1);
        probe.up_acked -= packets * probe.up_acked_per_inc;
        self.bounds.inflight_longterm += packets * ack.packet;
        if self.rounds.started {
            self.raise_inflight_slope(ack, window);
        }
    }

    /// More was in flight than the path takes: HandleInflightTooHigh().
    pub(super) fn on_inflight_too_high(&mut self, now: Instant) {
        if self.state == State::Up {
            self.undo.probing = Some(Probing::Up);
            self.start_down(now);
        }
    }
}

/// The finalizer of SplitMix64: a number that looks random.
fn mixed(seed: u64) -> u64 {
    let x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
