//! When events are due, and what the stack does until then.

use super::World;
use crate::language::ast::When;
use manypath_engine::{Duration, Instant};

/// The time in which a packet must be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    /// The earliest.
    pub from: Instant,
    /// The latest.
    pub to: Instant,
}

/// How long a packet that may come at any time is waited for.
const ANY: Duration = Duration::from_secs(3600);

/// So many timers in a row at one instant are too many.
const MOST_STALLS: u32 = 10_000;

impl World {
    /// Whether the stack asks to be called at one instant again and again.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalls > MOST_STALLS
    }

    /// When an event without a range is due, if it comes now.
    pub(crate) fn due(&self, when: When) -> Instant {
        match when {
            When::At(time) | When::Between(time, _) => Instant::ZERO + time,
            When::After(time) | When::AfterBetween(time, _) => self.now + time,
            When::Any => self.now,
        }
    }

    /// When an expected packet must be sent.
    pub(crate) fn window(&self, when: When) -> Window {
        let (from, to) = match when {
            When::Any => return Window { from: Instant::ZERO, to: self.now + ANY },
            When::At(_) | When::After(_) => (self.due(when), self.due(when)),
            When::Between(from, to) => (Instant::ZERO + from, Instant::ZERO + to),
            When::AfterBetween(from, to) => (self.now + from, self.now + to),
        };
        let tolerance = self.network.tolerance;
        Window { from: Instant::ZERO + from.since(Instant::ZERO + tolerance), to: to + tolerance }
    }

    /// Lets time pass up to `until`, with every timer on the way.
    pub(crate) fn advance(&mut self, until: Instant) {
        while self.advance_to_timer(until) {}
        self.now = self.now.max(until);
    }

    /// Lets time pass up to the next timer, if it expires until then. A timer that does not move on
    /// would keep the world at one instant for ever: it is not waited for again.
    pub(crate) fn advance_to_timer(&mut self, until: Instant) -> bool {
        let timers = self.stacks.iter().filter_map(|stack| stack.endpoint.poll_timeout());
        let Some(next) = timers.min().filter(|next| *next <= until) else { return false };
        self.stalls = if next <= self.now { self.stalls + 1 } else { 0 };
        if self.is_stalled() {
            return false;
        }
        self.now = self.now.max(next);
        for stack in &mut self.stacks {
            stack.endpoint.handle_timeout(self.now);
        }
        self.drain();
        true
    }
}
