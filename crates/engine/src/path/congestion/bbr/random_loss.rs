//! Telling losses at random from congestion, where the draft does not: it takes more than 2 % of
//! losses in a round for congestion, and a radio link that always loses 3 % for one that is always
//! overloaded.
//!
//! Congestion fills a queue before it loses packets. A round whose round trips are all but the
//! shortest shows an empty queue, and what it has lost was lost at random. That share of a flight, and
//! twice its standard deviation, is allowed for wherever the draft asks whether too much was lost. Most
//! of it is added to the pacing rate as well, because the path carries more than it delivers. Not all of
//! it: behind a policer, which drops without a queue what exceeds its rate, the share would explain
//! itself.
//!
//! What is lost beyond that counts as the draft has it, in a round with a queue, and if it is more than
//! 2 % in any round: where the queue is too short to be seen, sending faster loses more.

use super::bursts::Bursts;
use super::probe_bw::AckPhase;
use super::states::State;
use super::{Ack, Bbr, scaled};
use crate::time::Duration;

/// Bytes over which the share of losses is averaged.
const SPAN: u64 = 1_500_000;
/// Packets before which nothing is said.
const MIN_PACKETS: u64 = 20;
/// The share, in 1 / [`PARTS`], that is believed at most.
const MAX_SHARE: u64 = PARTS / 5;
const PARTS: u64 = 1 << 10;
/// A queue is seen when it makes round trips longer by this part of the shortest.
const SEEN_PART: u32 = 16;

/// What is lost without congestion.
#[derive(Debug, Default)]
pub(super) struct RandomLoss {
    delivered: u64,
    lost: u64,
    round: Round,
    /// Whether the last round has shown a queue.
    queue_seen: bool,
    /// Limits bursts where a short queue drops their ends.
    pub(super) bursts: Bursts,
}

/// The round under way.
#[derive(Debug, Default)]
struct Round {
    /// Bytes delivered and lost before it.
    delivered: u64,
    lost: u64,
    rtts: Duration,
    samples: u32,
}

impl RandomLoss {
    fn add(&mut self, delivered: u64, lost: u64) {
        self.delivered += delivered;
        self.lost += lost;
        while self.delivered + self.lost > SPAN.max(delivered + lost) {
            self.delivered /= 2;
            self.lost /= 2;
        }
    }

    /// The share of what is sent that is lost, in 1 / [`PARTS`].
    fn share(&self, packet: u64) -> u64 {
        let sent = self.delivered + self.lost;
        if sent < MIN_PACKETS * packet { 0 } else { (self.lost * PARTS / sent).min(MAX_SHARE) }
    }

    /// Bytes of a flight that chance may take.
    pub(super) fn allowance(&self, in_flight: u64, packet: u64) -> u64 {
        let expected = in_flight * self.share(packet) / PARTS;
        // The standard deviation of n packets is no more than their root.
        expected + 2 * (expected * packet).isqrt()
    }

    /// What is to be sent for `rate` to arrive.
    pub(super) fn gross(&self, rate: u64, packet: u64) -> u64 {
        let share = self.share(packet) * 7 / 8;
        rate + rate.saturating_mul(share) / (PARTS - share)
    }
}

impl Bbr {
    /// Learns from each round without a queue in which no probe was under way.
    pub(super) fn update_random_loss(&mut self, ack: &Ack) {
        let round = &mut self.random_loss.round;
        if let Some(rtt) = ack.rtt {
            round.rtts += rtt;
            round.samples += 1;
        }
        if !self.rounds.started {
            return;
        }
        let (delivered, lost) = (self.delivery.delivered(), self.delivery.lost());
        let next = Round { delivered, lost, ..Round::default() };
        let round = core::mem::replace(&mut self.random_loss.round, next);
        let waited = (round.samples > 0).then(|| self.queue(round.rtts / round.samples));
        let seen = waited.is_none_or(|waited| waited > self.visible_queue(ack.packet));
        let exceeds_burst = waited.is_none_or(|waited| waited > self.quantum_time(ack.packet));
        self.random_loss.queue_seen = seen;
        self.random_loss.bursts.on_round(exceeds_burst);
        let quiet = self.probe_bw.ack_phase == AckPhase::Init && self.state != State::ProbeRtt;
        if !seen && quiet {
            self.random_loss.add(delivered - round.delivered, lost - round.lost);
        }
    }

    /// How long a packet has waited whose round trip took `rtt`.
    pub(super) fn queue(&self, rtt: Duration) -> Duration {
        rtt.saturating_sub(self.min_rtt.get().unwrap_or(rtt))
    }

    /// The shortest queue that is told from the packets that we send together.
    fn visible_queue(&self, packet: u64) -> Duration {
        self.quantum_time(packet) + self.min_rtt.get().unwrap_or_default() / SEEN_PART
    }

    /// Whether `lost` bytes of a flight tell of congestion.
    pub(super) fn is_congestion(&self, lost: u64, in_flight: u64, packet: u64) -> bool {
        let by_chance = lost <= self.random_loss.allowance(in_flight, packet);
        (self.random_loss.queue_seen && !by_chance) || self.is_too_much(lost, in_flight, packet)
    }

    /// Whether `lost` bytes of a flight are too much: IsInflightTooHigh().
    pub(super) fn is_too_much(&self, lost: u64, in_flight: u64, packet: u64) -> bool {
        lost > scaled(in_flight, super::model::LOSS_THRESH)
            + self.random_loss.allowance(in_flight, packet)
    }
}
