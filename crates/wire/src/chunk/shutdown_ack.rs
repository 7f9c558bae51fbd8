//! Shutdown Acknowledgement (SHUTDOWN ACK, type 8; RFC 9260 section 3.3.9).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Type = 8    |  Chunk Flags  |          Length = 4           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! It has no fields, so it is [`Chunk::ShutdownAck`](super::Chunk::ShutdownAck) and no more.

use super::types;
use crate::bytes::Output;
use crate::error::NoRoom;

pub(super) const NAME: &str = "SHUTDOWN ACK";

pub(super) fn emit(out: &mut Output<'_>) -> Result<(), NoRoom> {
    out.block([types::SHUTDOWN_ACK, 0], |_| Ok(()))
}
