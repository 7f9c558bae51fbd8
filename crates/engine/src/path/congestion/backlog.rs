//! A bound on what a path queues of ours: a loss-based window fills the queue of the bottleneck, however
//! long that is, and everything beside it waits there too.
//!
//! What waits is estimated once per round trip, as Vegas and YeAH-TCP do (Brakmo, Peterson 1995; Baiocchi,
//! Castellani, Vacirca: "YeAH-TCP: Yet Another Highspeed TCP", PFLDnet 2007). If a window of `w` bytes
//! takes `low` at least, and a round trip takes `base` when nothing waits, the path carries `w / low`; its
//! bandwidth-delay product is `w base / low`, and the rest of `w` waits for `low - base`.
//!
//! ```text
//!   waits longer than the goal:                      cwnd = w (base + goal / 2) / low, once per round trip
//!   slow start, the first of a round wait for long:  the window stays until the round is over
//!   slow start, ahead of what the path carries:      the window stays
//!   cuts in a row that hardly shorten round trips:   cwnd as before them; a truce, without the bound
//! ```
//!
//! Beside a flow that fills the queue (CUBIC, Reno) the bound would starve its path: the window shrinks,
//! the queue does not. If all that waits were ours, round trips would become shorter by the part that
//! the window has lost. If they do so by less than five eighths of that, somebody else fills the queue:
//! the path does what its algorithm says, and more and more rarely the bound is tried again. And if
//! they stay the same to the millisecond, nothing waits: the route is a longer one.
//!
//! The least time of the last minute or so stands for `base` (as in LEDBAT, RFC 6817), so that nothing
//! is taken for a queue for ever. Where something of ours always waits, that time would never be seen
//! again: once per half a minute the queue is emptied.

use super::overshoot::Overshoot;
use super::{Acked, Window};
use crate::time::{Duration, Instant};

/// Times that are a smaller part of the round trip are no sign of a queue.
const PART: u32 = 8;
/// Samples that say what a round trip takes at least.
const SAMPLES: u32 = 8;
/// A round lasts so long at least: pauses of the processors are shorter.
const LEAST_ROUND: Duration = Duration::from_millis(30);
/// Chunks that may wait in any case, and that a cut leaves.
const LEAST: usize = 4;
/// Cuts in a row that are in vain before a truce; after a truce one is enough.
const PATIENCE: u32 = 2;
/// For how long the path competes before it tries the bound again.
const TRUCE: Duration = Duration::from_secs(5);
/// The same at most.
const LONGEST_TRUCE: Duration = Duration::from_secs(80);
/// And for at least so many round trips.
const TRUCE_ROUNDS: u32 = 30;
/// Rounds in a row without a queue that end a truce.
const CLEAR: u32 = 8;
/// The base is the least of the current span of time and of the one before.
const SPAN: Duration = Duration::from_secs(30);

/// What is known about the queue of one path.
#[derive(Clone, Debug)]
pub(super) struct Backlog {
    target: Duration,
    base: Base,
    round: Round,
    /// Slow start does not go on before it is known whether something waits.
    paused: bool,
    overshoot: Overshoot,
    /// The next round says nothing: it was under way when the window was cut.
    skip: bool,
    trial: Option<Trial>,
    /// Until when the path competes.
    truce: Option<Instant>,
    next_truce: Duration,
    /// Rounds in a row without a queue.
    clear: u32,
    /// The window to go back to when the queue has been emptied.
    emptying: Option<usize>,
}

/// What a round trip takes when nothing waits.
#[derive(Clone, Debug, Default)]
struct Base {
    current: Option<Duration>,
    before: Option<Duration>,
    since: Option<Instant>,
}

/// The round trip under way.
#[derive(Clone, Debug, Default)]
struct Round {
    /// Transmission number that ends it.
    end: u64,
    since: Instant,
    low: Option<Duration>,
    samples: u32,
    /// Whether the window was used up.
    used: bool,
}

/// Cuts whose effect is waited for.
#[derive(Clone, Debug)]
struct Trial {
    /// The window before the first of them.
    before: usize,
    /// What a round trip took then.
    low: Duration,
    /// How many in a row were in vain.
    failures: u32,
}

/// What has become of what waited, after cuts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    /// It is less, as it should be.
    Full,
    /// It is hardly less: somebody else fills the queue.
    Part,
    /// Nothing.
    None,
}

/// What is to be done with the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Advice {
    /// Nothing.
    Keep,
    /// It is too large, and this is enough.
    Cut(usize),
    /// It was smaller than this for no good.
    Restore(usize),
}

impl Backlog {
    /// No more than `target` is to wait.
    pub(super) fn new(target: Duration) -> Self {
        Self {
            target,
            base: Base::default(),
            round: Round::default(),
            paused: false,
            overshoot: Overshoot::default(),
            skip: false,
            trial: None,
            truce: None,
            next_truce: TRUCE,
            clear: 0,
            emptying: None,
        }
    }

    /// Data was acknowledged.
    pub(super) fn on_acked(&mut self, acked: &Acked, window: &Window) -> Advice {
        if let Some(rtt) = acked.rtt {
            self.base.add(acked.now, rtt);
            self.round.add(rtt);
            let first = self.round.samples == SAMPLES && !self.skip && self.is_bound(acked.now);
            self.paused |= first && window.is_starting() && self.is_queue(self.round.low, window);
        }
        if window.is_starting() {
            let span = self.target.max(self.base.get());
            self.overshoot.on_acked(acked.now, acked.bytes, span);
        }
        self.round.used |= acked.window_used;
        let all = acked.newest.is_some_and(|newest| newest >= self.round.end);
        let long = acked.now.since(self.round.since) >= LEAST_ROUND;
        if all && long && self.round.samples >= SAMPLES {
            self.end_round(acked, window)
        } else {
            Advice::Keep
        }
    }

    /// The window was cut for a loss: what is under way now says nothing.
    pub(super) fn on_loss(&mut self) {
        (self.trial, self.emptying, self.skip, self.paused) = (None, None, true, false);
    }

    /// Whether slow start is to wait.
    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    /// How much of what slow start has added to a window of `before` bytes it may have.
    pub(super) fn within(&self, now: Instant, before: usize, window: usize) -> usize {
        let most = self.overshoot.most().max(before);
        if self.is_bound(now) { window.min(most) } else { window }
    }

    /// Whether no truce is on.
    fn is_bound(&self, now: Instant) -> bool {
        self.truce.is_none_or(|until| until <= now)
    }

    fn goal(&self) -> Duration {
        self.target.max(self.base.get() / PART)
    }

    /// Whether so much waits that it is too long and could be less.
    fn is_queue(&self, low: Option<Duration>, window: &Window) -> bool {
        let Some(low) = low else { return false };
        let waits = low.saturating_sub(self.base.get());
        waits > self.goal() && scale(window.cwnd, waits, low) > LEAST * window.chunk_limit
    }

    fn end_round(&mut self, acked: &Acked, window: &Window) -> Advice {
        let next = Round { end: acked.sent, since: acked.now, ..Round::default() };
        let round = core::mem::replace(&mut self.round, next);
        if core::mem::take(&mut self.skip) {
            return Advice::Keep;
        }
        self.paused = false;
        if let Some(back) = self.emptying.take() {
            self.base.renew(acked.now);
            return Advice::Restore(back);
        }
        let low = round.low.unwrap_or_default();
        if round.used && self.is_queue(round.low, window) {
            self.on_queue(acked.now, low, window)
        } else {
            self.on_short_queue(acked.now, (low, round.used), window)
        }
    }

    fn on_queue(&mut self, now: Instant, low: Duration, window: &Window) -> Advice {
        self.clear = 0;
        if !self.is_bound(now) {
            self.base.renew_if_due(now);
            return Advice::Keep;
        }
        let (base, same) = (self.base.get(), self.goal() / 8);
        let effect = self
            .trial
            .as_ref()
            .map_or(Effect::Full, |trial| trial.effect(low, (base, same), window));
        let failures = self.trial.as_ref().map_or(0, |trial| trial.failures);
        let failures = if effect == Effect::Full { 0 } else { failures + 1 };
        let patience = if self.truce.is_some() { 1 } else { PATIENCE };
        match self.trial.take_if(|_| failures >= patience) {
            Some(trial) => self.give_way(now, low, (effect, trial.before)),
            None => self.cut(low, failures, window),
        }
    }

    /// Cuts were in vain; the window was `before`.
    fn give_way(
        &mut self,
        now: Instant,
        low: Duration,
        (effect, before): (Effect, usize),
    ) -> Advice {
        if effect == Effect::None {
            self.base = Base { current: Some(low), before: None, since: Some(now) };
        }
        self.truce = Some(now + self.next_truce.max(low * TRUCE_ROUNDS));
        self.next_truce = (self.next_truce * 2).min(LONGEST_TRUCE);
        Advice::Restore(before)
    }

    fn cut(&mut self, low: Duration, failures: u32, window: &Window) -> Advice {
        // Nothing leaves until the rest has drained: not for long, except after slow start, which may
        // have made the window twice as large as it should be.
        let most = if window.is_starting() { window.cwnd / 2 } else { window.cwnd / 4 };
        let least = (window.cwnd - most).max(LEAST * window.chunk_limit);
        let left = self.enough(low, window).max(least);
        if left >= window.cwnd {
            return Advice::Keep;
        }
        // In slow start the window has grown since what is acknowledged now has left: nothing can be
        // said of what the cut is to change.
        if !window.is_starting() {
            let trial = self.trial.take();
            let trial = trial.unwrap_or(Trial { before: window.cwnd, low, failures: 0 });
            self.trial = Some(Trial { failures, ..trial });
        }
        self.skip = true;
        Advice::Cut(left)
    }

    fn on_short_queue(
        &mut self,
        now: Instant,
        (low, used): (Duration, bool),
        window: &Window,
    ) -> Advice {
        if low > self.base.get() + self.goal() {
            // Something waits, but there is nothing to cut.
            return Advice::Keep;
        }
        if self.trial.take().is_some() {
            // That has helped.
            self.next_truce = TRUCE;
        }
        self.clear = self.clear.saturating_add(1);
        self.truce = self.truce.filter(|_| self.clear < CLEAR);
        let waits = low > self.base.get() + self.goal() / 8;
        if self.base.is_due(now) && used && waits && !window.is_starting() && self.truce.is_none() {
            self.emptying = Some(self.enough(low, window).min(window.cwnd));
            self.skip = true;
            return Advice::Cut(scale(window.cwnd, self.base.get() * 3 / 4, low));
        }
        self.base.renew_if_due(now);
        Advice::Keep
    }

    /// The window of which half of the goal waits.
    fn enough(&self, low: Duration, window: &Window) -> usize {
        scale(window.cwnd, self.base.get() + self.goal() / 2, low)
    }
}

impl Base {
    fn add(&mut self, now: Instant, rtt: Duration) {
        self.since = self.since.or(Some(now));
        self.current = Some(self.current.map_or(rtt, |current| current.min(rtt)));
    }

    fn get(&self) -> Duration {
        self.current.into_iter().chain(self.before).min().unwrap_or_default()
    }

    /// Whether a span is over.
    fn is_due(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.since(since) >= SPAN)
    }

    fn renew_if_due(&mut self, now: Instant) {
        if self.is_due(now) {
            self.renew(now);
        }
    }

    fn renew(&mut self, now: Instant) {
        *self = Self { current: None, before: self.current, since: Some(now) };
    }
}

impl Trial {
    /// What the cuts have done if round trips take `low` now.
    /// Times that differ by `same` are the same.
    fn effect(&self, low: Duration, (base, same): (Duration, Duration), window: &Window) -> Effect {
        let nanos = self.low.as_nanos() * window.cwnd as u128 / self.before.max(1) as u128;
        let ours = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).max(base);
        let (hoped, got) = (self.low.saturating_sub(ours), self.low.saturating_sub(low));
        if got * 8 >= hoped * 5 {
            Effect::Full
        } else if low.abs_diff(self.low) <= same {
            Effect::None
        } else {
            Effect::Part
        }
    }
}

impl Round {
    fn add(&mut self, rtt: Duration) {
        self.low = Some(self.low.map_or(rtt, |low| low.min(rtt)));
        self.samples += 1;
    }
}

/// `value * up / down`.
fn scale(value: usize, up: Duration, down: Duration) -> usize {
    let scaled = value as u128 * up.as_nanos() / down.as_nanos().max(1);
    usize::try_from(scaled).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[path = "backlog_tests.rs"]
mod tests;
