//! Messages that the user gives in parts (`SCTP_EXPLICIT_EOR`, RFC 6458 section 8.1.26), so that they may be
//! larger than the send buffer.
//!
//! ```text
//! given:   part 1 ......  part 2 ...  part 3 (last)
//! chunks:  B    -    -    -    -      -    E
//! ```
//!
//! A part leaves when its turn comes, whether the next one is there or not. Without I-DATA the chunks of a message have
//! consecutive TSNs (RFC 9260 section 6.9): no other message leaves before its end.

use super::Sender;
use super::message::{MessageEnd, Outgoing, SendError};
use super::queue::SendQueue;
use super::reliability::Terms;
use alloc::collections::BTreeMap;
use manypath_wire::{Ppid, StreamId};

/// What a piece that was given is of its message. By default it is all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Part {
    /// Something of the message was given before.
    pub(super) continues: bool,
    /// Something of it will be given after this.
    pub(super) open: bool,
    /// The last chunk of the message has the I bit.
    pub(super) prompt: bool,
}

/// The streams with a message whose end the user has not given, and how that message is sent.
#[derive(Debug, Default)]
pub(super) struct Unfinished(BTreeMap<StreamId, (Ppid, bool)>);

impl Unfinished {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, stream: StreamId) -> bool {
        self.0.contains_key(&stream)
    }

    /// Streams from number `limit` on do not exist.
    pub(super) fn drop_from(&mut self, limit: u16) {
        self.0.retain(|stream, _| stream.0 < limit);
    }

    /// A part is given: what it is of its message.
    fn on_given(&mut self, message: &mut Outgoing, end: MessageEnd) -> Part {
        let begun = self.0.remove(&message.stream);
        if let Some((ppid, unordered)) = begun {
            (message.ppid, message.unordered) = (ppid, unordered);
        }
        let (open, prompt) = (end == MessageEnd::Open, end == MessageEnd::LastPrompt);
        if open {
            self.0.insert(message.stream, (message.ppid, message.unordered));
        }
        Part { continues: begun.is_some(), open, prompt }
    }
}

impl Sender {
    /// Queues a part of a message, which is reliable. The first one says how the whole is sent.
    pub(crate) fn enqueue_part(
        &mut self,
        mut message: Outgoing,
        end: MessageEnd,
    ) -> Result<(), SendError> {
        self.check(&message)?;
        self.buffer.take(message.payload.len());
        let part = self.queue.unfinished.on_given(&mut message, end);
        self.queue.push_part(message, Terms::Reliable, part);
        self.nagle.on_queued();
        Ok(())
    }
}

impl SendQueue {
    /// Whether the end of a message is missing that the user has given a part of: of one on `stream`, or of any.
    pub(crate) fn is_unfinished(&self, stream: Option<StreamId>) -> bool {
        stream.map_or(!self.unfinished.is_empty(), |stream| self.unfinished.has(stream))
    }

    /// The user gives nothing more (SHUTDOWN-PENDING): the end waits for acknowledgements alone.
    pub(crate) fn end(&mut self) {
        self.ending = true;
    }
}
