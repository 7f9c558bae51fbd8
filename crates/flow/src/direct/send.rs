//! The sending direction.

use crate::byte_queue::ByteQueue;
use bytes::Bytes;

/// Bytes that are held for the association at most.
pub(super) const BOUND: usize = 256 << 10;

/// How far the end of the direction has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum End {
    #[default]
    None,
    /// It follows the queued bytes.
    Wanted,
    /// It was told, or nobody is there who could be told.
    Done,
}

#[derive(Debug, Default)]
pub(super) struct Send {
    queue: ByteQueue,
    sent: u64,
    end: End,
    /// A `Writable` event is owed.
    owes_writable: bool,
}

impl Send {
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Bytes that could leave now; a full queue says that the writer has more.
    pub(super) fn backlog(&self) -> usize {
        if self.room() == 0 && self.end == End::None { usize::MAX } else { self.queue.len() }
    }

    /// Bytes that it takes now.
    pub(super) fn room(&self) -> usize {
        if self.end == End::None { BOUND.saturating_sub(self.queue.len()) } else { 0 }
    }

    pub(super) fn is_ending(&self) -> bool {
        self.end != End::None
    }

    pub(super) fn is_ended(&self) -> bool {
        self.end == End::Done
    }

    pub(super) fn push(&mut self, bytes: Bytes) {
        self.queue.push(bytes);
        self.owes_writable |= self.queue.len() > BOUND / 2;
    }

    /// The first bytes, which stay.
    pub(super) fn head<const N: usize>(&self) -> Option<[u8; N]> {
        self.queue.head()
    }

    pub(super) fn take(&mut self, max: usize) -> Option<Bytes> {
        let bytes = self.queue.take(max)?;
        self.sent += bytes.len() as u64;
        Some(bytes)
    }

    /// Whether the writer is to be told that there is room again.
    pub(super) fn should_tell(&mut self) -> bool {
        let tell = self.owes_writable && self.queue.len() <= BOUND / 2 && self.end == End::None;
        self.owes_writable &= !tell;
        tell
    }

    pub(super) fn finish(&mut self) {
        if self.end == End::None {
            self.end = End::Wanted;
        }
    }

    /// Whether the end is all that is left to be told; it counts as told from now on.
    pub(super) fn take_end(&mut self) -> bool {
        let due = self.end == End::Wanted && self.queue.is_empty();
        if due {
            self.end = End::Done;
        }
        due
    }

    /// Drops what was not sent; how much it was.
    pub(super) fn drop_rest(&mut self) -> usize {
        core::mem::take(&mut self.queue).len()
    }

    /// Drops what was not sent, and the direction is over; how much it was.
    pub(super) fn clear(&mut self) -> usize {
        self.end = End::Done;
        self.drop_rest()
    }
}
