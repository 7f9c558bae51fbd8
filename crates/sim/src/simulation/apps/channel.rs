//! A channel with a window of its own, as SSH has it (RFC 4254 section 5.2): the sender always has data,
//! sends no more than it was granted, and the receiver, who takes everything at once, grants by the rules
//! of `manypath_window`. The round trip of the application is measured in band: the receiver asks and
//! the sender answers behind the data that it has sent before.

use super::{Application, Desk, Way};
use crate::scenario::AppSpec;
use manypath_engine::Instant;
use manypath_window::{Budget, Window, WindowConfig};
use std::collections::VecDeque;
use std::time::Duration;

/// A message that grants, asks or answers: such messages of SSH with their MAC and padding.
const CONTROL: usize = 48;
/// Memory for windows: more than any of them may have here.
const MEMORY: u64 = 1 << 30;

#[derive(Debug)]
pub(super) struct Channel {
    stream: u16,
    /// Largest packet of the channel, in bytes of data.
    packet: usize,
    window: Window,
    /// What the sender may still send.
    credit: u64,
    /// Messages under way to the receiver and to the sender.
    forth: VecDeque<Forth>,
    back: VecDeque<Back>,
    /// An answer that found no room yet: to the question of then.
    answer: Option<Instant>,
    asking: bool,
}

#[derive(Clone, Copy, Debug)]
enum Forth {
    Data(u64),
    /// The answer to the question that was asked then.
    Answer(Instant),
}

#[derive(Clone, Copy, Debug)]
enum Back {
    Grant(u64),
    Question(Instant),
}

impl Channel {
    /// `socket_buffer` is what the receiver's transport can hold, as far as it is told.
    pub(super) fn new(spec: &AppSpec, config: WindowConfig, socket_buffer: Option<u64>) -> Self {
        let mut window = Window::open(config, &Budget::new(MEMORY))
            .unwrap_or_else(|| unreachable!("no window has more than the memory"));
        if let Some(bytes) = socket_buffer {
            window.set_transport_window(bytes);
        }
        Self {
            stream: spec.first_stream,
            packet: spec.message,
            credit: window.granted(),
            window,
            forth: VecDeque::new(),
            back: VecDeque::new(),
            answer: None,
            asking: false,
        }
    }

    fn answer(&mut self, desk: &mut dyn Desk) -> bool {
        let Some(asked) = self.answer else { return true };
        let sent = desk.send(Way::Forth, self.stream, CONTROL, desk.now());
        if sent {
            self.answer = None;
            self.forth.push_back(Forth::Answer(asked));
        }
        sent
    }

    /// At the receiver: data has come and is consumed.
    fn on_data(&mut self, desk: &mut dyn Desk, len: u64) {
        let now = desk.now();
        self.window.on_received(len);
        self.window.on_consumed(time(now), len);
        if self.window.is_grant_due() {
            let grant = self.window.take_grant();
            self.send_back(desk, Back::Grant(grant));
        }
        if !self.asking {
            self.asking = self.send_back(desk, Back::Question(now));
        }
    }

    /// The receiver has a send buffer for itself, in which there is always room for so little.
    fn send_back(&mut self, desk: &mut dyn Desk, message: Back) -> bool {
        let sent = desk.send(Way::Back, self.stream, CONTROL, desk.now());
        if sent {
            self.back.push_back(message);
        }
        sent
    }
}

impl Application for Channel {
    fn on_space(&mut self, desk: &mut dyn Desk) {
        if !self.answer(desk) {
            return;
        }
        while self.credit > 0 {
            let len = self.credit.min(self.packet as u64);
            if !desk.send(Way::Forth, self.stream, len as usize, desk.now()) {
                return;
            }
            self.credit -= len;
            self.forth.push_back(Forth::Data(len));
        }
    }

    fn on_delivered(&mut self, desk: &mut dyn Desk, way: Way, _stream: u16) {
        match way {
            Way::Forth => match self.forth.pop_front() {
                Some(Forth::Data(len)) => self.on_data(desk, len),
                Some(Forth::Answer(asked)) => {
                    let now = desk.now();
                    self.window.on_round_trip(time(now), now.since(asked));
                    self.asking = false;
                }
                None => {}
            },
            Way::Back => {
                match self.back.pop_front() {
                    Some(Back::Grant(bytes)) => self.credit += bytes,
                    Some(Back::Question(asked)) => self.answer = Some(asked),
                    None => {}
                }
                self.on_space(desk);
            }
        }
    }
}

fn time(now: Instant) -> Duration {
    now.since(Instant::ZERO)
}
