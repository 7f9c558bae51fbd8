//! A file of known size, message by message, its messages going over the streams in turn.

use super::{Application, Desk, Way};
use crate::scenario::AppSpec;

#[derive(Debug)]
pub(super) struct File {
    first: u16,
    streams: u16,
    message: usize,
    total: u64,
    left: u64,
    next: u16,
}

impl File {
    pub(super) fn new(spec: &AppSpec, bytes: u64) -> Self {
        let AppSpec { first_stream: first, streams, message, .. } = *spec;
        Self { first, streams, message, total: bytes, left: bytes, next: 0 }
    }
}

impl Application for File {
    fn on_space(&mut self, desk: &mut dyn Desk) {
        let now = desk.now();
        while self.left > 0 {
            let len = self.left.min(self.message as u64);
            if !desk.send(Way::Forth, self.first + self.next, len as usize, now) {
                return;
            }
            self.left -= len;
            self.next = (self.next + 1) % self.streams;
        }
    }

    fn total(&self) -> Option<u64> {
        Some(self.total)
    }
}
