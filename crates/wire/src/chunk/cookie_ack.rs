//! Cookie Acknowledgement (COOKIE ACK, type 11; RFC 9260 section 3.3.12).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Type = 11   |  Chunk Flags  |          Length = 4           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! It has no fields, so it is [`Chunk::CookieAck`](super::Chunk::CookieAck) and no more.

use super::types;
use crate::bytes::Output;
use crate::error::NoRoom;

pub(super) const NAME: &str = "COOKIE ACK";

pub(super) fn emit(out: &mut Output<'_>) -> Result<(), NoRoom> {
    out.block([types::COOKIE_ACK, 0], |_| Ok(()))
}
