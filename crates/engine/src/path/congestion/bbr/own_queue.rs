//! The queue that Startup and probes make. The draft ends ProbeBW_UP when three rounds in a row deliver no more,
//! by when a whole bandwidth-delay product may wait, and whatever else uses the path waits with it.
//! Round trips tell sooner: if the queue was short when the probe began, it is the probe's, and once it
//! is longer than the bound (`Config::queue_bound`, or an eighth of the round trip) the path is full.
//! If others fill the queue, it says nothing, and the probe goes on as in the draft.
//!
//! Cruise makes one, too: the highest of many samples of the rate is too high, by 2 % where SACKs come for several packets
//! and by 10 % where round trips of 20 ms vary by 4, so that the queue grows until the window is full. If it was short when
//! Cruise began, a round that ends with half of the bound waiting bounds the rate at [`REFUTED_TO`] percent of what was
//! delivered in it, until the queue is shorter. A queue that does not become shorter in [`PATIENCE`] rounds of that is made
//! by others, who would take what we leave: the rest of Cruise does not slow down for it. What these rounds deliver is what
//! we send, whoever makes the queue, so they do not lower the bound any further.

use crate::time::Duration;

/// Round trips of which the shortest counts, so that jitter is no queue.
const SAMPLES: usize = 4;
/// The bound is at least this part of the shortest round trip.
const PART: u32 = 8;
/// What a queue that Cruise has made leaves of the rate, in percent: it drains in a few rounds.
pub(super) const REFUTED_TO: u64 = 95;
/// Rounds at that rate after which the queue must be shorter by a part of the round trip, a third of what drains meanwhile:
/// round trips vary.
const PATIENCE: u32 = 3;
const DRAINED_PART: u32 = 20;

/// What Cruise takes the queue for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Cruise {
    /// Others make it.
    #[default]
    Foreign,
    /// Short, so that what grows is ours.
    Short,
    /// Ours, and slowed down for since `rounds`. `before`: the shortest of recent round trips when what left
    /// then began to come back.
    Draining { rounds: u32, before: Duration },
}

/// What is to become of the rate after a round of Cruise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Advice {
    /// It is not our queue, or it is short.
    Free,
    /// The queue drains already.
    Keep,
    Slow,
}

/// What recent round trips tell of the queue.
#[derive(Debug, Default)]
pub(super) struct OwnQueue {
    bound: Duration,
    recent: [Duration; SAMPLES],
    next: usize,
    /// The round trip that shows that the probe has filled the path.
    most: Option<Duration>,
    cruise: Cruise,
}

impl OwnQueue {
    /// No more than `bound` is to wait. Zero: no matter how much.
    pub(super) fn set_bound(&mut self, bound: Duration) {
        self.bound = bound;
    }

    /// Whether there is a bound.
    pub(super) fn is_watched(&self) -> bool {
        !self.bound.is_zero()
    }

    /// Whether there is a bound and a part of it waits already.
    pub(super) fn grows(&self, min_rtt: Option<Duration>) -> bool {
        let min_rtt = min_rtt.unwrap_or_default();
        let part = self.bound.max(min_rtt / PART) / PART;
        self.is_watched() && self.low() > min_rtt + part
    }

    pub(super) fn add(&mut self, rtt: Option<Duration>) {
        let Some(rtt) = rtt else { return };
        self.recent[self.next % SAMPLES] = rtt;
        self.next = (self.next + 1) % SAMPLES;
    }

    fn low(&self) -> Duration {
        self.recent.iter().copied().min().unwrap_or_default()
    }

    /// Whether more waits than the bound allows, whoever's it is.
    pub(super) fn is_beyond(&self, min_rtt: Option<Duration>) -> bool {
        let min_rtt = min_rtt.unwrap_or_default();
        !self.bound.is_zero() && self.low() > min_rtt + self.bound.max(min_rtt / PART)
    }

    /// Whether there is a bound and half of it waits already: more than a host that gets the processor late, or a radio
    /// link that sends in bursts, adds to round trips.
    pub(super) fn is_half_full(&self, min_rtt: Option<Duration>) -> bool {
        let min_rtt = min_rtt.unwrap_or_default();
        self.is_watched() && self.low() > min_rtt + self.bound.max(min_rtt / PART) / 2
    }

    /// Cruise begins.
    pub(super) fn on_cruise(&mut self, min_rtt: Option<Duration>) {
        let is_short = self.is_watched() && !self.is_half_full(min_rtt);
        self.cruise = if is_short { Cruise::Short } else { Cruise::Foreign };
    }

    /// A round of Cruise is over: what is to become of the rate.
    pub(super) fn judge_round(&mut self, min_rtt: Option<Duration>) -> Advice {
        let low = self.low();
        let drained = low + min_rtt.unwrap_or_default() / DRAINED_PART;
        let is_half_full = self.is_half_full(min_rtt);
        self.cruise = match self.cruise {
            Cruise::Foreign => return Advice::Free,
            Cruise::Short | Cruise::Draining { .. } if !is_half_full => Cruise::Short,
            Cruise::Short => Cruise::Draining { rounds: 0, before: low },
            Cruise::Draining { rounds, before } if (1..=PATIENCE).contains(&rounds) => {
                Cruise::Draining { rounds: rounds + 1, before }
            }
            Cruise::Draining { rounds, before } if rounds > 0 && drained > before => {
                Cruise::Foreign
            }
            // What came back in the first round had left before the rate was bounded.
            Cruise::Draining { .. } => Cruise::Draining { rounds: 1, before: low },
        };
        match self.cruise {
            Cruise::Foreign | Cruise::Short => Advice::Free,
            Cruise::Draining { rounds, .. } if rounds > 1 => Advice::Keep,
            Cruise::Draining { .. } => Advice::Slow,
        }
    }

    /// A probe begins.
    pub(super) fn on_probe(&mut self, min_rtt: Option<Duration>) {
        let is_own = self.is_watched() && !self.is_half_full(min_rtt)
            || self.cruise != Cruise::Foreign && !self.is_beyond(min_rtt);
        let min_rtt = min_rtt.unwrap_or_default();
        let bound = self.bound.max(min_rtt / PART);
        // It goes on growing by a quarter of a round trip until the end of the probe tells.
        let limit = bound.saturating_sub(min_rtt / 4).max(bound / 2);
        self.most = is_own.then_some((min_rtt + limit).max(self.low() + bound / 4));
    }

    /// Whether the probe has made the queue too long.
    pub(super) fn is_long(&self) -> bool {
        self.most.is_some_and(|most| self.low() > most)
    }
}
