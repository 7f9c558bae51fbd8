//! The receiving direction.

use crate::byte_queue::ByteQueue;
use bytes::Bytes;

/// Bytes that wait for their reader before no more are taken from the association.
pub(super) const BOUND: usize = 256 << 10;

#[derive(Debug, Default)]
pub(super) struct Receive {
    queue: ByteQueue,
    received: u64,
    consumed: u64,
    /// The peer sends no more.
    ended: bool,
    /// The reader knows that there is data.
    announced: bool,
    /// The reader knows that there is no more.
    finished: bool,
}

impl Receive {
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Bytes that the reader has not done with.
    pub(super) fn unconsumed(&self) -> usize {
        usize::try_from(self.received - self.consumed).unwrap_or(usize::MAX)
    }

    /// Bytes that may still be taken from the association.
    pub(super) fn room(&self) -> usize {
        BOUND.saturating_sub(self.unconsumed())
    }

    pub(super) fn has_end(&self) -> bool {
        self.ended
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Takes bytes of the peer; whether the reader is to be told.
    pub(super) fn receive(&mut self, bytes: Bytes) -> bool {
        self.received += bytes.len() as u64;
        self.queue.push(bytes);
        !core::mem::replace(&mut self.announced, true)
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn read(&mut self) -> Option<Bytes> {
        let bytes = self.queue.pop();
        self.announced = bytes.is_some();
        bytes
    }

    pub(super) fn consume(&mut self, bytes: usize) {
        self.consumed = self.received.min(self.consumed + bytes as u64);
    }

    /// Whether the reader has just come to the end.
    pub(super) fn should_finish(&mut self) -> bool {
        let finishes = self.ended && self.queue.is_empty() && !self.finished;
        self.finished |= finishes;
        finishes
    }
}
