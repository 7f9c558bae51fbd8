//! Nagle's algorithm (RFC 896) for messages: `SCTP_NODELAY` of RFC 6458 section 8.1.5 switches it off.
//!
//! While anything is in flight, what the user queues waits until it fills a packet, or until the peer
//! is heard of or a timer expires. A message that was begun is ended, and a packet that is made anyway
//! is bundled as full as it gets.

use super::Sender;
use super::opportunity::Opportunity;
use manypath_wire::StreamId;

/// Whether messages may wait for more, and whether they do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nagle {
    on: bool,
    /// Something was queued since the peer was heard of.
    waits: bool,
}

impl Nagle {
    pub(super) fn new(on: bool) -> Self {
        Self { on, waits: false }
    }

    pub(super) fn is_on(self) -> bool {
        self.on
    }

    /// Whether small messages are to wait while anything is in flight.
    pub(crate) fn set(&mut self, on: bool) {
        self.on = on;
    }

    /// A packet has arrived, or a timer has expired: nothing waits for more any longer.
    pub(crate) fn end_waiting(&mut self) {
        self.waits = false;
    }

    /// A message was queued.
    pub(super) fn on_queued(&mut self) {
        self.waits = true;
    }
}

impl Opportunity<'_> {
    /// Whether what is queued waits for more, of which `stream` is next. Not if the packet has new chunks already.
    pub(super) fn waits_for_more(&self, stream: StreamId) -> bool {
        let Sender { nagle: Nagle { on, waits }, queue, outstanding, .. } = self.sender;
        let is_bundled = self.path.in_flight() != self.flight;
        let begins = || queue.stream(stream).is_some_and(|stream| stream.to_begin() > 0);
        let is_small = || queue.bytes() < self.sender.fragment_size(self.paths);
        *on && *waits && outstanding.in_flight() > 0 && !is_bundled && is_small() && begins()
    }
}
