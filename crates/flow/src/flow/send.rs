//! The sending direction of a flow.

use crate::byte_queue::ByteQueue;
use bytes::Bytes;

/// How far the end of the direction has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// More may be written.
    None,
    /// FINISH follows the queued data.
    Wanted,
    /// FINISH was sent.
    Sent,
}

/// What was said to the user about writing more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Invitation {
    /// Nothing that it does not know.
    None,
    /// It is to be asked when the turn is near, and not to write before.
    Later,
    /// The event is on its way.
    OnTheWay,
}

/// The sending direction of a flow: bytes written here, on their way to the association.
#[derive(Debug)]
pub(crate) struct Send {
    queue: ByteQueue,
    sent: u64,
    /// Largest cumulative grant received.
    granted: u64,
    /// Cumulative credit given back.
    returned: u64,
    /// The window that came with the latest grant.
    window: u32,
    /// A larger window was asked for since the latest grant.
    asked: bool,
    /// Data waits for credit; said once until credit comes.
    stalled: bool,
    stalls: u64,
    /// A `Writable` event is owed.
    pub(crate) owes_writable: bool,
    pub(crate) invitation: Invitation,
    /// The latest write took all the room that there was: there is more where it came from.
    filled: bool,
    pub(crate) end: End,
}

impl Send {
    pub(crate) fn new(window: u32) -> Self {
        Self {
            queue: ByteQueue::default(),
            sent: 0,
            granted: window.into(),
            returned: 0,
            window,
            asked: false,
            stalled: false,
            stalls: 0,
            owes_writable: false,
            invitation: Invitation::None,
            filled: false,
            end: End::None,
        }
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn stalls(&self) -> u64 {
        self.stalls
    }

    pub(crate) fn returned(&self) -> u64 {
        self.returned
    }

    pub(crate) fn window(&self) -> u32 {
        self.window
    }

    /// Bytes that may be sent now. Never negative: credit is returned only while it is unused.
    pub(crate) fn credit(&self) -> u64 {
        self.granted - self.returned - self.sent
    }

    /// Whether there is data that may be sent, or FINISH.
    pub(crate) fn is_ready(&self) -> bool {
        if self.queue.is_empty() { self.end == End::Wanted } else { self.credit() > 0 }
    }

    /// Bytes that could leave now: all that credit allows where the writer has more than fits.
    pub(crate) fn backlog(&self) -> usize {
        let credit = usize::try_from(self.credit()).unwrap_or(usize::MAX);
        if self.has_more() { credit } else { credit.min(self.queue.len()) }
    }

    /// Takes bytes that `filled` all the room that there was, or not.
    pub(crate) fn push(&mut self, bytes: Bytes, filled: bool) {
        self.queue.push(bytes);
        (self.filled, self.invitation) = (filled, Invitation::None);
    }

    /// Whether the user is likely to have more than it has written.
    pub(crate) fn has_more(&self) -> bool {
        self.filled && self.end == End::None
    }

    /// Whether it has a turn to wait for although nothing is written for it yet.
    pub(crate) fn expects_more(&self) -> bool {
        self.invitation == Invitation::Later && self.end == End::None && self.credit() > 0
    }

    /// The next message: at most `max` bytes of it and no more than credit allows.
    pub(crate) fn take(&mut self, max: usize) -> Option<Bytes> {
        let allowed = usize::try_from(self.credit()).unwrap_or(usize::MAX);
        let bytes = self.queue.take(max.min(allowed))?;
        self.sent += bytes.len() as u64;
        Some(bytes)
    }

    /// A grant has come; false if it is older than one seen before.
    pub(crate) fn grant(&mut self, granted: u64, window: u32) -> bool {
        if granted < self.granted {
            return false;
        }
        if granted > self.granted {
            self.granted = granted;
            self.asked = false;
            self.stalled = false;
        }
        self.window = window;
        true
    }

    /// Gives back what an idle direction holds beyond the window; true if that was anything.
    pub(crate) fn give_back(&mut self) -> bool {
        let unneeded = self.credit().saturating_sub(self.window.into());
        if unneeded == 0 || !self.queue.is_empty() {
            return false;
        }
        self.returned += unneeded;
        true
    }

    /// Whether to ask for a larger window now: less than a quarter is left, and data waits. Once
    /// per grant.
    pub(crate) fn should_ask(&mut self) -> bool {
        let short = self.credit() < u64::from(self.window / 4);
        let ask = short && !self.asked && !self.queue.is_empty();
        self.asked |= ask;
        ask
    }

    /// Whether data has just begun to wait for credit.
    pub(crate) fn has_stalled(&mut self) -> bool {
        let new = !self.stalled && self.credit() == 0 && !self.queue.is_empty();
        self.stalled |= new;
        self.stalls += u64::from(new);
        new
    }

    /// Drops what was not sent; how much it was.
    pub(crate) fn clear(&mut self) -> usize {
        let dropped = self.queue.len();
        self.queue = ByteQueue::default();
        dropped
    }
}
