//! Requests and their answers, one at a time on each stream: what a person waits for.

use super::{Application, Desk, Way};
use crate::scenario::AppSpec;
use manypath_engine::{Duration, Instant};

#[derive(Debug)]
pub(super) struct RequestResponse {
    first: u16,
    request: usize,
    response: usize,
    think: Duration,
    streams: Vec<State>,
}

/// What a stream waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// To send the request that exists since then.
    Request(Option<Instant>),
    /// For the request to arrive and the answer to leave.
    Answer,
    /// For the answer to arrive.
    Delivery,
    /// Until then.
    Thinking(Instant),
}

impl RequestResponse {
    pub(super) fn new(spec: &AppSpec, response: usize, think: Duration) -> Self {
        let streams = vec![State::Request(None); spec.streams.into()];
        Self { first: spec.first_stream, request: spec.message, response, think, streams }
    }

    fn stream(&mut self, stream: u16) -> Option<&mut State> {
        self.streams.get_mut(usize::from(stream.checked_sub(self.first)?))
    }
}

impl Application for RequestResponse {
    fn on_space(&mut self, desk: &mut dyn Desk) {
        let now = desk.now();
        for (stream, state) in (self.first..).zip(&mut self.streams) {
            if let State::Request(since) = state {
                let generated = *since.get_or_insert(now);
                if desk.send(Way::Forth, stream, self.request, generated) {
                    *state = State::Answer;
                }
            }
        }
    }

    fn on_delivered(&mut self, desk: &mut dyn Desk, way: Way, stream: u16) {
        let (now, response, think) = (desk.now(), self.response, self.think);
        let Some(state) = self.stream(stream) else { return };
        match (*state, way) {
            // The answering side's buffer holds one answer per stream: there is always room.
            (State::Answer, Way::Forth) if desk.send(Way::Back, stream, response, now) => {
                *state = State::Delivery;
            }
            (State::Delivery, Way::Back) => *state = State::Thinking(now + think),
            _ => {}
        }
    }

    fn on_timer(&mut self, desk: &mut dyn Desk) {
        let now = desk.now();
        for state in &mut self.streams {
            if matches!(state, State::Thinking(until) if *until <= now) {
                *state = State::Request(None);
            }
        }
        self.on_space(desk);
    }

    fn next_timer(&self) -> Option<Instant> {
        let until = |state: &State| match state {
            State::Thinking(until) => Some(*until),
            State::Request(_) | State::Answer | State::Delivery => None,
        };
        self.streams.iter().filter_map(until).min()
    }
}
