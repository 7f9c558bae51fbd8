//! The receiving direction of a flow.

use crate::byte_queue::ByteQueue;
use bytes::Bytes;

/// A grant is sent when it is worth this part of the window.
const GRANT_STEP: u32 = 8;

/// The receiving direction of a flow: bytes on their way to the reader, and the credit granted.
#[derive(Debug)]
pub(crate) struct Recv {
    queue: ByteQueue,
    received: u64,
    consumed: u64,
    /// Cumulative grant.
    granted: u64,
    /// Cumulative credit that the peer gave back.
    returned: u64,
    /// What may be granted beyond the consumed.
    window: u32,
    /// The peer wants a larger window than the present one.
    growth_wanted: bool,
    /// The peer's end has come.
    ended: bool,
    /// The reader knows that there is data.
    announced: bool,
    /// The reader knows that there is no more.
    finished: bool,
}

impl Recv {
    pub(crate) fn new(window: u32) -> Self {
        Self {
            queue: ByteQueue::default(),
            received: 0,
            consumed: 0,
            granted: window.into(),
            returned: 0,
            window,
            growth_wanted: false,
            ended: false,
            announced: false,
            finished: false,
        }
    }

    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    pub(crate) fn window(&self) -> u32 {
        self.window
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Bytes received and not consumed.
    pub(crate) fn buffered(&self) -> u64 {
        self.received - self.consumed
    }

    /// Bytes that may still come. Never negative: `receive` and `give_back` see to it.
    pub(crate) fn credit(&self) -> u64 {
        if self.ended { 0 } else { self.granted - self.returned - self.received }
    }

    /// Memory that this direction may come to need: its part of the receive budget.
    pub(crate) fn charge(&self) -> u64 {
        if self.ended { self.held() } else { self.held().max(self.window.into()) }
    }

    fn held(&self) -> u64 {
        self.buffered() + self.credit()
    }

    /// Whether what is promised has come down to the window since that was made smaller.
    pub(crate) fn has_shrunk(&self) -> bool {
        self.held() <= self.window.into()
    }

    /// Takes received bytes; false if there was no credit for them.
    pub(crate) fn receive(&mut self, bytes: Bytes) -> bool {
        if bytes.len() as u64 > self.credit() {
            return false;
        }
        self.received += bytes.len() as u64;
        self.queue.push(bytes);
        true
    }

    /// Whether the reader must be told of data now.
    pub(crate) fn should_announce(&mut self) -> bool {
        let tell = !self.announced && !self.queue.is_empty();
        self.announced |= tell;
        tell
    }

    pub(crate) fn read(&mut self) -> Option<Bytes> {
        let bytes = self.queue.pop();
        self.announced = bytes.is_some();
        bytes
    }

    /// The reader has taken `bytes` of what it has read.
    pub(crate) fn consume(&mut self, bytes: usize) {
        let read = self.buffered() - self.queue.len() as u64;
        debug_assert!(bytes as u64 <= read, "consumed more than was read");
        self.consumed += (bytes as u64).min(read);
    }

    /// The peer's end has come.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Whether the reader must be told now that there is no more.
    pub(crate) fn should_finish(&mut self) -> bool {
        let tell = self.ended && !self.finished && self.queue.is_empty();
        self.finished |= tell;
        tell
    }

    /// What the cumulative grant should be.
    fn target(&self) -> u64 {
        self.consumed + u64::from(self.window) + self.returned
    }

    /// Whether a grant is worth a message now. A peer without credit, all of whose data is
    /// consumed, always gets one: then the target is a whole window away.
    pub(crate) fn is_grant_due(&self) -> bool {
        !self.ended && self.target() >= self.granted + u64::from(self.window / GRANT_STEP).max(1)
    }

    /// Raises the cumulative grant to what it should be.
    pub(crate) fn grant(&mut self) -> u64 {
        self.granted = self.granted.max(self.target());
        self.granted
    }

    /// Raises the cumulative grant to `window` from the beginning of the flow.
    pub(crate) fn grant_at_least(&mut self, window: u32) {
        self.granted = self.granted.max(window.into());
    }

    pub(crate) fn set_window(&mut self, window: u32) {
        self.window = window;
        self.growth_wanted = false;
    }

    /// The peer is short of credit at the present window.
    pub(crate) fn want_growth(&mut self) {
        self.growth_wanted = true;
    }

    /// Whether the reader leaves no more than half a window waiting. A slow one does so only if the
    /// window is less than twice what it reads in a round trip: then it is too small for it, too.
    pub(crate) fn keeps_up(&self) -> bool {
        self.buffered() <= u64::from(self.window / 2)
    }

    /// Whether the window should grow now; says so once for each time the peer wants it.
    pub(crate) fn takes_growth(&mut self) -> bool {
        let now = self.growth_wanted && self.keeps_up() && !self.ended;
        self.growth_wanted &= !now;
        now
    }

    /// The peer has given credit back, `returned` bytes in all; how much of it is news. `None` if
    /// it did not have that much.
    pub(crate) fn give_back(&mut self, returned: u64) -> Option<u64> {
        if self.ended {
            return Some(0);
        }
        if returned > self.granted - self.received {
            return None;
        }
        let news = returned.saturating_sub(self.returned);
        self.returned += news;
        Some(news)
    }
}
