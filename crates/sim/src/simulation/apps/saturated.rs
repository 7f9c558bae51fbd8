//! The saturated sender of the papers (NetPerfMeter in the INET model): whenever there is room, one
//! message per stream in turn, beginning with the next stream each time. With sender queue
//! information a stream is left out while it holds its share of the send buffer.

use super::{Application, Desk, Way};
use crate::scenario::AppSpec;

#[derive(Debug)]
pub(super) struct Saturated {
    first: u16,
    streams: u16,
    message: usize,
    queue_info: bool,
    last: u16,
}

impl Saturated {
    pub(super) fn new(spec: &AppSpec, queue_info: bool) -> Self {
        let AppSpec { first_stream: first, streams, message, .. } = *spec;
        Self { first, streams, message, queue_info, last: streams - 1 }
    }

    fn wants(&self, desk: &dyn Desk, stream: u16) -> bool {
        let (queued, buffer) = desk.queued(stream);
        !self.queue_info || queued < buffer / usize::from(self.streams)
    }
}

impl Application for Saturated {
    fn on_space(&mut self, desk: &mut dyn Desk) {
        let now = desk.now();
        self.last = (self.last + 1) % self.streams;
        let (mut stream, mut left_out) = (self.last, 0);
        while left_out < self.streams {
            let number = self.first + stream;
            if !self.wants(desk, number) {
                left_out += 1;
            } else if desk.send(Way::Forth, number, self.message, now) {
                left_out = 0;
            } else {
                return;
            }
            stream = (stream + 1) % self.streams;
        }
    }
}
