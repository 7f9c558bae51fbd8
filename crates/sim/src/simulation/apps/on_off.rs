//! Messages at a constant rate with pauses. What the send buffer does not take waits in the
//! application; its delay counts from when it was made.

use super::{Application, Desk, Way};
use crate::scenario::AppSpec;
use manypath_engine::{Duration, Instant};
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct OnOff {
    first: u16,
    streams: u16,
    message: usize,
    interval: Duration,
    on: Duration,
    off: Duration,
    /// End of the time on.
    until: Instant,
    next: Instant,
    turn: u16,
    waiting: VecDeque<(u16, Instant)>,
}

impl OnOff {
    pub(super) fn new(
        spec: &AppSpec,
        rate_bps: u64,
        (on, off): (Duration, Duration),
        now: Instant,
    ) -> Self {
        let nanos = spec.message as u64 * 8_000_000_000 / rate_bps.max(1);
        Self {
            first: spec.first_stream,
            streams: spec.streams,
            message: spec.message,
            interval: Duration::from_nanos(nanos.max(1)),
            on,
            off,
            until: now + on,
            next: now,
            turn: 0,
            waiting: VecDeque::new(),
        }
    }
}

impl Application for OnOff {
    fn on_space(&mut self, desk: &mut dyn Desk) {
        while let Some((stream, generated)) = self.waiting.front() {
            if !desk.send(Way::Forth, *stream, self.message, *generated) {
                return;
            }
            self.waiting.pop_front();
        }
    }

    fn on_timer(&mut self, desk: &mut dyn Desk) {
        while self.next <= desk.now() {
            self.waiting.push_back((self.first + self.turn, self.next));
            self.turn = (self.turn + 1) % self.streams;
            self.next = self.next + self.interval;
            if self.next >= self.until {
                self.next = self.until + self.off;
                self.until = self.next + self.on;
            }
        }
        self.on_space(desk);
    }

    fn next_timer(&self) -> Option<Instant> {
        Some(self.next)
    }
}
