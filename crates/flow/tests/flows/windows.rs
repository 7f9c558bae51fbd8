//! Flows through a pipe of a given rate and delay, in virtual time: what is lost to credit.

use crate::pair::*;
use manypath_engine::{Instant, Message};
use manypath_flow::{FlowConfig, FlowId};
use std::collections::VecDeque;

/// A pipe that A's data goes through at a rate, and everything else of another flow without waiting its
/// turn. Time goes in steps of one full message of A. The association below is in slow start: it begins with
/// ten messages in flight and doubles them each round trip.
struct Pipe {
    pair: Pair,
    /// Messages that may be in flight, and when those that are will be acknowledged.
    cwnd: usize,
    in_flight: VecDeque<u64>,
    /// One-way delay in steps.
    delay: u64,
    /// Nanoseconds of a step.
    step: u64,
    now: u64,
    to_z: VecDeque<(u64, Message)>,
    to_a: VecDeque<(u64, Message)>,
}

struct Outcome {
    /// Steps in which A had nothing to send though there was more to write and the association could
    /// have sent it.
    idle: u64,
    window: u32,
}

impl Pipe {
    fn new(mbit_per_second: u64, delay_ms: u64) -> Self {
        let messages_per_second = mbit_per_second * 1_000_000 / 8 / FRAGMENT as u64;
        let delay = messages_per_second * delay_ms / 1000;
        let (to_z, to_a, in_flight) = Default::default();
        let step = 1_000_000_000 / messages_per_second;
        Self { pair: Pair::new(4), cwnd: 10, in_flight, delay, step, now: 0, to_z, to_a }
    }

    fn arrive(&mut self) {
        while self.in_flight.front().is_some_and(|at| *at <= self.now) {
            self.in_flight.pop_front();
            self.cwnd += 1;
        }
        while self.to_z.front().is_some_and(|(at, _)| *at <= self.now) {
            let (_, message) = self.to_z.pop_front().unwrap();
            self.pair.z.handle_message(message).unwrap();
        }
        while self.to_a.front().is_some_and(|(at, _)| *at <= self.now) {
            let (_, message) = self.to_a.pop_front().unwrap();
            self.pair.a.handle_message(message).unwrap();
        }
    }

    /// Sends for one step; false if A could have sent data and had none.
    fn send(&mut self) -> bool {
        let at = self.now + self.delay;
        while let Some(sent) = self.pair.z.poll_message(FRAGMENT) {
            self.to_a.push_back((at, message(sent)));
        }
        while self.in_flight.len() < self.cwnd {
            let Some(sent) = self.pair.a.poll_message(FRAGMENT) else { return false };
            let is_data = sent.ppid != manypath_flow::PPID_CONTROL;
            self.to_z.push_back((at, message(sent)));
            if is_data {
                self.in_flight.push_back(at + self.delay);
                break;
            }
        }
        true
    }

    fn write(&mut self, flow: FlowId) {
        let room = self.pair.a.writable(flow);
        if room >= 64 << 10 {
            self.pair.a.write(flow, pattern(0, 0, 64 << 10)).unwrap();
        }
    }

    /// A transfer of `bytes` to a reader that takes everything `lag` steps after it came, in the
    /// manner of a loop that does other things in between.
    fn transfer(&mut self, bytes: u64, lag: u64) -> Outcome {
        let (a, z) = self.pair.flow();
        let mut idle = 0;
        while self.pair.a.status(a).unwrap().bytes_out < bytes {
            self.now += 1;
            let now = Instant::from_nanos(self.now * self.step);
            self.pair.a.advance_time(now);
            self.pair.z.advance_time(now);
            self.arrive();
            if self.now.is_multiple_of(lag) {
                read_all(&mut self.pair.z, z);
            }
            self.write(a);
            idle += u64::from(!self.send());
        }
        Outcome { idle, window: self.pair.z.status(z).unwrap().receive_window }
    }
}

/// The pipes that the windows were chosen for. Windows grow as fast as slow start does, from further
/// up, so that a young association never waits for them.
#[test]
fn windows_grow_ahead_of_slow_start() {
    for (rate, round_trip_ms) in
        [(30, 300), (30, 600), (500, 20), (500, 100), (500, 300), (1000, 50)]
    {
        for lag in [1, 16, 64] {
            let mut pipe = Pipe::new(rate, round_trip_ms / 2);
            let outcome = pipe.transfer(40_000_000, lag);
            let lost = outcome.idle as f64 / (2 * pipe.delay) as f64;
            println!(
                "{rate} Mbit/s, {round_trip_ms} ms, lag {lag}: {lost} round trips {}",
                outcome.window >> 10
            );
            assert!(lost <= 0.05, "{lost} round trips");
            let product = rate * 125 * round_trip_ms;
            assert!(u64::from(outcome.window) <= (4 * product).max(512 << 10));
        }
    }
}

/// A window is not larger than it needs to be, so that a reader that stops holds little memory.
#[test]
fn short_pipes_need_no_larger_window() {
    let mut pipe = Pipe::new(30, 10);
    let outcome = pipe.transfer(20_000_000, 4);
    assert_eq!(outcome.window, FlowConfig::default().first_window);
    assert!(outcome.idle <= 2 * pipe.delay);
}
