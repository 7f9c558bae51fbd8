//! What the user gives to be sent.

use bytes::Bytes;
use manypath_wire::{Ppid, StreamId};

/// A message to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// Stream to send on.
    pub stream: StreamId,
    /// Payload protocol identifier, carried unchanged to the peer.
    pub ppid: Ppid,
    /// Deliver without regard to the order of the stream.
    pub unordered: bool,
    /// The bytes; at least one (RFC 9260 section 6.2: DATA must carry user data).
    pub payload: Bytes,
}

/// Whether a part of a message is the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageEnd {
    /// Another part follows.
    Open,
    /// It is.
    Last,
    /// It is, and the peer is to acknowledge it without delay: the last DATA chunk has the I bit (RFC 9260 section
    /// 11.1.5, the flag `sack-immediately`).
    LastPrompt,
}

/// Why a message was not accepted. Nothing was queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// The association does not exist (any more).
    UnknownAssociation,
    /// The association is shutting down.
    ShuttingDown,
    /// The stream is not one of the association's outbound streams.
    InvalidStream,
    /// A message carries at least one byte.
    Empty,
    /// The send buffer is full; `Event::Writable` will tell when there is room.
    BufferFull,
    /// The message is larger than the send buffer ever gets, and may be given in parts
    /// ([`Endpoint::send_part`](crate::Endpoint::send_part)).
    TooLarge,
    /// A message of the stream has no end yet ([`Endpoint::send_part`](crate::Endpoint::send_part)).
    Unfinished,
}
