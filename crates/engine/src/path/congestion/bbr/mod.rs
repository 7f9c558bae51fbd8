//! BBRv3 (draft-ietf-ccwg-bbr): a model of the path - the rate that it delivers, the shortest round
//! trip - sets how fast data leaves and how much of it may be in flight. Losses bound the model; they
//! do not halve a window.
//!
//! ```text
//!   chunks sent, acknowledged, lost ──> delivery: rate samples
//!                                          │
//!                   filters: max_bw, min_rtt, extra_acked, rounds, full pipe
//!                                          │
//!   model: bounds learned from losses ──> states: Startup, Drain, ProbeBW, ProbeRTT
//!                                          │
//!                                       control: pacing rate, send quantum, cwnd
//! ```
//!
//! Where it is not the draft:
//!
//! * `random_loss` - what a path loses at random is told from congestion.
//! * `bursts` - fewer packets leave at once where a short queue drops the end of each burst.
//! * `own_queue` - a probe, and Startup, end when they have made a queue, not three rounds later; Cruise slows down
//!   when it has made one.
//! * `overshoot` - Startup keeps one and a half bandwidth-delay products in flight, not two to three, as slow start does.
//! * `filters::MinRtt` - a round trip that shows an empty queue puts ProbeRTT off.
//! * `filters::RecentRounds`, `Bounds::relax` - the short-term bounds are no less than what the last two
//!   rounds have delivered, and rise again in rounds without congestion, not with the next probe alone: the
//!   rate of a radio link varies from round to round.
//! * `Bounds::relax`, too - a round without congestion and with a short queue that has delivered most of `inflight_longterm`
//!   raises that bound: it tells how much the path held when it was slower.
//! * A mark (ECN) counts as a loss, once in a round; in Startup and during a probe it ends these.
//!
//! T3-rtx is the draft's RTO. Losses are those of `flight::rack`, chunk by chunk.
//!
//! Bytes are those of DATA chunks with header and padding, rates are bytes per second, gains are
//! percentages. Names are those of the draft without its `BBR.` and `C.`.

mod bursts;
mod control;
mod delivery;
mod filters;
mod model;
mod own_queue;
mod probe_bw;
mod random_loss;
mod recovery;
mod states;
#[cfg(test)]
mod tests;

use super::overshoot::Overshoot;
use super::{Acked, Departure, Window};
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use delivery::{Delivery, RateSample};
use filters::{Bounds, ExtraAcked, FullPipe, MaxBandwidth, MinRtt, RecentRounds, Rounds};
use own_queue::OwnQueue;
use probe_bw::ProbeBw;
use random_loss::RandomLoss;
use recovery::Undo;
use states::{ProbeRtt, State};

/// No bound.
const INFINITE: u64 = u64::MAX;
/// Packets that may always be in flight (MinPipeCwnd).
const MIN_PIPE_PACKETS: u64 = 4;

/// The state of BBR on one path.
#[derive(Debug, Default)]
pub(crate) struct Bbr {
    delivery: Delivery,
    state: State,
    /// Whether anything was sent.
    begun: bool,
    rounds: Rounds,
    full_pipe: FullPipe,
    max_bw: MaxBandwidth,
    min_rtt: MinRtt,
    extra_acked: ExtraAcked,
    bounds: Bounds,
    /// `max_bw` within its short-term bound.
    bw: u64,
    /// Until when it may not rise, and the most that it is.
    held: Option<Box<(Instant, u64)>>,
    /// Most that was delivered per second, and in one sample, in this round of losses.
    bw_latest: u64,
    inflight_latest: u64,
    recent: RecentRounds,
    losses: Losses,
    random_loss: RandomLoss,
    own_queue: OwnQueue,
    overshoot: Overshoot,
    probe_bw: ProbeBw,
    probe_rtt: ProbeRtt,
    drain_start_round: u64,
    idle_restart: bool,
    /// The last window that no recovery and no ProbeRTT had cut.
    prior_cwnd: usize,
    initial_cwnd: u64,
    undo: Undo,
    pacing_rate: u64,
}

/// Losses of this round.
#[derive(Debug, Default)]
struct Losses {
    in_round: bool,
    /// What there was before them is saved.
    saved: bool,
    /// The round ends when something is acknowledged that left when so much was delivered.
    round_delivered: u64,
    round_started: bool,
    /// Bytes lost before it.
    before: u64,
    /// Runs of lost chunks.
    ranges: u32,
    last: u64,
}

/// One SACK as the model sees it.
#[derive(Clone, Copy, Debug)]
struct Ack {
    now: Instant,
    acked: u64,
    in_flight: u64,
    cwnd_limited: bool,
    recovering: bool,
    rtt: Option<Duration>,
    /// Without one, the state machine goes on as if nothing was measured.
    sample: Option<RateSample>,
    /// The largest DATA chunk.
    packet: u64,
}

impl Ack {
    fn rate(&self) -> u64 {
        self.sample.map_or(0, |sample| sample.rate)
    }

    fn is_app_limited(&self) -> bool {
        self.sample.is_some_and(|sample| sample.sent.app_limited)
    }
}

impl Bbr {
    /// Whether it is still looking for the rate of the path.
    pub(super) fn is_starting(&self) -> bool {
        self.state == State::Startup
    }

    /// A probe is to make no more data wait than lasts for `bound`; zero: as the draft says.
    pub(super) fn set_queue_bound(&mut self, bound: Duration) {
        self.own_queue.set_bound(bound);
    }

    /// Nothing is in flight: gives memory back.
    pub(super) fn release_memory(&mut self) {
        self.delivery.release_memory();
    }

    /// A chunk leaves.
    pub(super) fn on_sent(&mut self, sent: &Departure, window: &mut Window) {
        if !self.begun {
            self.begin(sent.now, window);
        }
        self.delivery.on_sent(sent);
        if sent.in_flight == 0 && self.delivery.is_app_limited() {
            self.restart_from_idle(sent.now, window);
        }
    }

    /// OnInit().
    fn begin(&mut self, now: Instant, window: &Window) {
        self.begun = true;
        self.min_rtt.begin(now);
        self.extra_acked.restart(now);
        self.initial_cwnd = window.cwnd as u64;
    }

    /// Whether [`Self::on_starved`] was called since something was sent last.
    pub(super) fn is_starved(&self) -> bool {
        self.delivery.is_starved()
    }

    /// The path could send at `now`, but there is nothing to send on it.
    pub(super) fn on_starved(&mut self, now: Instant) {
        self.delivery.on_starved(now);
    }

    /// The bandwidth is at most what it is now, until `until`.
    pub(super) fn hold(&mut self, until: Instant) {
        self.held = (self.bw > 0).then(|| Box::new((until, self.bw)));
    }

    /// Something else than the model bounds what is in flight: what is delivered says nothing about the path.
    pub(super) fn on_bounded(&mut self, in_flight: usize) {
        self.delivery.mark_app_limited(in_flight as u64);
    }

    /// A chunk of `bytes` was acknowledged: transmission `number`, if that is known.
    pub(super) fn on_chunk_acked(&mut self, now: Instant, number: Option<u64>, bytes: usize) {
        match number {
            Some(number) => self.delivery.on_acked(now, number, bytes as u64),
            None => self.delivery.on_ambiguous(now, bytes as u64),
        }
    }

    /// UpdateOnACK(): the SACK was taken in chunk by chunk.
    pub(super) fn on_acked(&mut self, acked: &Acked, window: &mut Window) {
        if acked.bytes == 0 {
            return;
        }
        // This round trip may be the shortest.
        let min_rtt = [self.min_rtt.get(), acked.rtt].into_iter().flatten().min();
        let ack = Ack {
            now: acked.now,
            acked: acked.bytes as u64,
            in_flight: acked.in_flight as u64,
            cwnd_limited: acked.window_used,
            recovering: acked.recovering,
            rtt: acked.rtt,
            sample: self.delivery.finish(min_rtt),
            packet: window.chunk_limit as u64,
        };
        self.update_signals(&ack, window);
        self.update_state(&ack, window);
        self.advance_latest(&ack);
        self.held.take_if(|held| held.0 <= ack.now);
        let most = self.held.as_ref().map_or(INFINITE, |held| held.1);
        self.bw = self.max_bw.get().min(self.bounds.bw_shortterm).min(most);
        self.end_recovery(&ack, window);
        self.update_control(&ack, window);
    }

    /// UpdateLatestDeliverySignals() to CheckFullBWReached().
    fn update_signals(&mut self, ack: &Ack, window: &Window) {
        self.own_queue.add(ack.rtt);
        if self.state == State::Startup {
            self.overshoot.on_acked(
                ack.now,
                ack.acked as usize,
                self.min_rtt.get().unwrap_or_default(),
            );
        }
        self.update_latest(ack);
        self.update_max_bw(ack);
        self.update_random_loss(ack);
        self.adapt_lower_bounds(ack, window);
        let rounds = filters::extra_acked_rounds(self.full_pipe.reached);
        self.extra_acked.add(ack.now, ack.acked, self.bw, (self.rounds.count, rounds));
        if self.rounds.started && ack.rate() > 0 && !ack.is_app_limited() {
            let is_queue = self.own_queue.is_beyond(self.min_rtt.get());
            self.full_pipe.on_round(ack.rate(), is_queue);
        }
    }

    /// CheckStartupDone() to CheckProbeRTT().
    fn update_state(&mut self, ack: &Ack, window: &mut Window) {
        self.check_startup_done(ack);
        self.check_drain_done(ack);
        self.update_probe_bw(ack, window);
        let quantum = self.quantum_time(ack.packet);
        self.min_rtt.add(ack.now, ack.rtt, quantum);
        self.check_probe_rtt(ack, window);
    }

    /// Bytes per second at which data is to leave, and how many of them may leave at once, as soon as there is
    /// something to say.
    pub(super) fn pace(&self) -> Option<(u64, usize)> {
        let burst = usize::try_from(self.random_loss.bursts.max_burst()).unwrap_or(usize::MAX);
        (self.pacing_rate > 0).then_some((self.pacing_rate, burst))
    }

    /// Bytes per second that the path delivers, once measured.
    pub(super) fn bandwidth(&self) -> Option<u64> {
        (self.bw > 0).then_some(self.bw)
    }
}

/// `bytes` per second, delivered in `time`.
fn rate(bytes: u64, time: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / time.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// What `rate` bytes per second deliver in `time`.
fn bytes_in(rate: u64, time: Duration) -> u64 {
    let bytes = u128::from(rate).saturating_mul(time.as_nanos()) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// `percent` of `value`.
fn scaled(value: u64, percent: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(percent) / 100;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
