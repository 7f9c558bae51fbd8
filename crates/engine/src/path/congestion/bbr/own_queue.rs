//! The queue that Startup and probes make. The draft ends ProbeBW_UP when three rounds in a row deliver no more,
//! by when a whole bandwidth-delay product may wait, and whatever else uses the path waits with it.
//! Round trips tell sooner: if the queue was short when the probe began, it is the probe's, and once it
//! is longer than the bound (`Config::queue_bound`, or an eighth of the round trip) the path is full.
//! If others fill the queue, it says nothing, and the probe goes on as in the draft.

use crate::time::Duration;

/// Round trips of which the shortest counts, so that jitter is no queue.
const SAMPLES: usize = 4;
/// The bound is at least this part of the shortest round trip.
const PART: u32 = 8;

/// What recent round trips tell of the queue.
#[derive(Debug, Default)]
pub(super) struct OwnQueue {
    bound: Duration,
    recent: [Duration; SAMPLES],
    next: usize,
    /// The round trip that shows that the probe has filled the path.
    most: Option<Duration>,
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

    /// A probe begins.
    pub(super) fn on_probe(&mut self, min_rtt: Option<Duration>) {
        let is_short = self.is_watched() && !self.is_half_full(min_rtt);
        let min_rtt = min_rtt.unwrap_or_default();
        let bound = self.bound.max(min_rtt / PART);
        // It goes on growing by a quarter of a round trip until the end of the probe tells.
        let limit = bound.saturating_sub(min_rtt / 4).max(bound / 2);
        self.most = is_short.then_some(min_rtt + limit);
    }

    /// Whether the probe has made the queue too long.
    pub(super) fn is_long(&self) -> bool {
        self.most.is_some_and(|most| self.low() > most)
    }
}
