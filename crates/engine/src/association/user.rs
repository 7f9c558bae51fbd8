//! What the user of an association asks for.

use super::tcb::Association;
use crate::event::Message;
use crate::{Outgoing, SendError};

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

    /// Takes the next complete message.
    pub(crate) fn read(&mut self) -> Option<Message> {
        self.peer.as_mut()?.receiver.read()
    }

    /// Bytes that [`Self::send`] would accept.
    pub(crate) fn send_space(&self) -> usize {
        if self.state.accepts_messages() && !self.shutdown_wanted { self.sender.space() } else { 0 }
    }

    /// Bytes accepted and not sent yet.
    pub(crate) fn unsent(&self) -> usize {
        self.sender.unsent()
    }

    /// Largest payload of an unfragmented message.
    pub(crate) fn fragment_size(&self) -> usize {
        self.paths.fragment_size()
    }
}
