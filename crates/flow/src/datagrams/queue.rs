//! Datagrams of one flow that wait for the association: a bounded number, the oldest dropped first.

use alloc::collections::VecDeque;
use bytes::Bytes;
use core::time::Duration;

/// Most datagrams of a flow that wait.
pub(super) const MAX_WAITING: usize = 256;
/// Most bytes of a flow that wait, but for a single datagram.
pub(super) const MAX_BYTES: usize = 256 << 10;

/// Each with the time until which it is worth something.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<(Duration, Bytes)>,
    bytes: usize,
    /// Dropped to make room for newer ones.
    pub(super) dropped: u64,
}

impl Queue {
    /// Takes one; returns how many older ones had to go.
    pub(super) fn push(&mut self, until: Duration, payload: Bytes) -> u64 {
        let mut dropped = 0;
        while !self.has_room(payload.len()) && self.pop().is_some() {
            dropped += 1;
        }
        self.bytes += payload.len();
        self.waiting.push_back((until, payload));
        self.dropped += dropped;
        dropped
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.waiting.len() < MAX_WAITING && self.bytes + bytes <= MAX_BYTES
    }

    pub(super) fn pop(&mut self) -> Option<(Duration, Bytes)> {
        let (until, payload) = self.waiting.pop_front()?;
        self.bytes -= payload.len();
        Some((until, payload))
    }

    /// Drops what is worth nothing any more at the head; says how many that were.
    pub(super) fn drop_expired(&mut self, now: Duration) -> u64 {
        let mut dropped = 0;
        while self.waiting.front().is_some_and(|(until, _)| *until <= now) {
            self.pop();
            dropped += 1;
        }
        dropped
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
