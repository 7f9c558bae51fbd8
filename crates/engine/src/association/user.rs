//! What the user of an association asks for.

use super::tcb::Association;
use crate::event::Message;
use crate::status::SenderQueueInfo;
use crate::{Outgoing, SendError, StreamOptions};
use manypath_wire::StreamId;

impl Association {
    /// Queues a message.
    pub(crate) fn send(&mut self, message: Outgoing) -> Result<(), SendError> {
        if !self.state.accepts_messages() || self.shutdown_wanted {
            return Err(SendError::ShuttingDown);
        }
        let len = message.payload.len();
        let result = self.sender.enqueue(message);
        if result == Err(SendError::BufferFull) {
            self.blocked = Some(len);
        }
        result
    }

    /// The user has other wishes for a stream. False if there is no such stream.
    pub(crate) fn set_stream_options(&mut self, stream: StreamId, options: StreamOptions) -> bool {
        self.sender.set_stream_options(stream, options)
    }

    /// Takes the next complete message.
    pub(crate) fn read(&mut self) -> Option<Message> {
        self.peer.as_mut()?.receiver.read()
    }

    /// Whether a SACK is due whatever the time.
    pub(crate) fn owes_sack(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.receiver.owes_sack())
    }

    /// Bytes that [`Self::send`] would accept.
    pub(crate) fn send_space(&self) -> usize {
        if self.state.accepts_messages() && !self.shutdown_wanted { self.sender.space() } else { 0 }
    }

    /// Bytes accepted and not sent yet.
    pub(crate) fn unsent(&self) -> usize {
        self.sender.unsent()
    }

    /// Whether the user holds back more than it has queued.
    pub(crate) fn set_more_to_come(&mut self, more: bool) {
        self.sender.set_more_to_come(more);
    }

    /// What is held to be sent, per stream.
    pub(crate) fn sender_queue_info(&self) -> SenderQueueInfo {
        self.sender.queue_info(&self.paths)
    }

    /// Bytes of one stream accepted and not acknowledged for good.
    pub(crate) fn queued_on(&self, stream: StreamId) -> usize {
        self.sender.queued_on(stream)
    }

    /// Largest payload of an unfragmented message.
    pub(crate) fn fragment_size(&self) -> usize {
        self.sender.fragment_size(&self.paths)
    }
}
