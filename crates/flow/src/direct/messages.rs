//! Bytes in and out.

use super::framing::Frame;
use super::send;
use super::{DirectFlow, DirectPeer, FLOW, Framing, Phase};
use crate::error::{FlowError, WriteError};
use crate::event::FlowEvent;
use crate::id::FlowId;
use crate::{PPID_DIRECT, PPID_END};
use bytes::Bytes;
use manypath_engine::{Message, Outgoing, Ppid, StreamId};

impl DirectFlow {
    /// Bytes that `write` takes now.
    pub fn writable(&self, id: FlowId) -> usize {
        if self.is(id) { self.send.room() } else { 0 }
    }

    /// Bytes that would leave now if the association took them.
    pub fn backlog(&self) -> usize {
        self.send.backlog()
    }

    /// Queues bytes: all of them or none.
    pub fn write(&mut self, id: FlowId, bytes: Bytes) -> Result<(), WriteError> {
        if !self.is(id) {
            return Err(WriteError::UnknownFlow);
        }
        if self.phase == Phase::Incoming {
            return Err(WriteError::NotAccepted);
        }
        if self.send.is_ending() {
            return Err(WriteError::Finished);
        }
        if bytes.len() > self.send.room() {
            return Err(WriteError::Full);
        }
        self.send.push(bytes);
        Ok(())
    }

    /// Ends our direction in order. Towards a native peer this ends the association as soon as what
    /// was written has arrived; what the peer has under way until then is still delivered.
    pub fn finish(&mut self, id: FlowId) {
        if self.is(id) {
            self.send.finish();
        }
    }

    /// The next bytes, in order. Tell [`Self::consumed`] when they are done with. `Finished` and
    /// `Closed` come after the first call at the earliest.
    pub fn read(&mut self, id: FlowId) -> Option<Bytes> {
        if !self.is(id) {
            return None;
        }
        self.has_reader = true;
        let bytes = self.receive.read();
        self.report_end();
        bytes
    }

    /// `bytes` of what was read need no memory any more.
    pub fn consumed(&mut self, id: FlowId, bytes: usize) {
        if self.is(id) {
            self.receive.consume(bytes);
        }
    }

    /// Whether messages are to be taken from the association now. What stays there closes its receive
    /// window, so that the peer waits.
    pub fn wants_messages(&self) -> bool {
        self.receive.room() > 0
    }

    /// Takes a message that the association received. Native programs may use other streams and
    /// identifiers; what they say is a sequence of bytes all the same.
    ///
    /// # Errors
    /// Another manypath has sent something after its end.
    pub fn handle_message(&mut self, message: Message) -> Result<(), FlowError> {
        if self.peer == DirectPeer::Manypath {
            if self.receive.has_end() {
                self.counters.protocol_errors += 1;
                return Err(FlowError::AfterEnd(message.stream.0));
            }
            if message.ppid == PPID_END {
                self.end_of_input();
                return Ok(());
            }
        }
        if !self.is_alive() {
            self.counters.discarded_bytes += message.payload.len() as u64;
        } else if self.receive.receive(message.payload) {
            self.events.push_back(FlowEvent::Readable(FLOW));
        }
        Ok(())
    }

    /// The peer sends no more, and everything was taken from the association.
    pub fn end_of_input(&mut self) {
        self.receive.end();
        self.report_end();
    }

    /// Whether the peer's end has come.
    pub fn has_input_end(&self) -> bool {
        self.receive.has_end()
    }

    /// The association takes nothing more: the peer ends it, or has ended it. What has come can still
    /// be read.
    pub fn end_of_output(&mut self) {
        if !self.send.is_ended() {
            self.counters.unsent_bytes += self.send.clear() as u64;
        }
        self.report_end();
    }

    /// The next message for the association: of at most `fragment_size` bytes, or a whole one of the
    /// protocol that it carries. It ends with [`DirectEnd::Malformed`](super::DirectEnd::Malformed)
    /// where the bytes are not of that protocol; one that has not come whole when its sender ends is
    /// dropped.
    pub fn poll_message(&mut self, fragment_size: usize) -> Option<Outgoing> {
        if self.phase != Phase::Open {
            return None;
        }
        if let Some(message) = self.next_piece(fragment_size.max(1)) {
            if self.send.should_tell() {
                self.events.push_back(FlowEvent::Writable(FLOW));
            }
            return Some(message);
        }
        if !self.send.take_end() {
            return None;
        }
        self.report_end();
        let end = Bytes::from_static(&[0]);
        (self.peer == DirectPeer::Manypath).then(|| message(PPID_END, end))
    }
}

impl DirectFlow {
    fn next_piece(&mut self, fragment_size: usize) -> Option<Outgoing> {
        if self.framing == Framing::Pieces {
            return self.send.take(fragment_size).map(|payload| message(PPID_DIRECT, payload));
        }
        match self.next_frame() {
            Ok(frame) => {
                let payload = self.send.take(frame.len)?;
                let stream = if frame.stream.0 < self.streams { frame.stream } else { StreamId(0) };
                Some(Outgoing { stream, ..message(frame.ppid, payload) })
            }
            Err(None) => {
                if self.send.is_ending() {
                    self.counters.unsent_bytes += self.send.drop_rest() as u64;
                }
                None
            }
            Err(Some(fault)) => {
                self.fault = Some(fault);
                self.counters.unsent_bytes += self.send.clear() as u64;
                None
            }
        }
    }

    /// The next message if it is there as a whole; else what is wrong with it, if anything is.
    fn next_frame(&self) -> Result<Frame, Option<&'static str>> {
        let frame = self.framing.frame(self.send.head().ok_or(None)?)?;
        if frame.len > send::BOUND {
            return Err(Some("a message longer than 262144 bytes"));
        }
        if self.send.queued() < frame.len { Err(None) } else { Ok(frame) }
    }
}

const fn message(ppid: Ppid, payload: Bytes) -> Outgoing {
    Outgoing { stream: StreamId(0), ppid, unordered: false, payload }
}
