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

#[cfg(test)]
mod tests {
    use crate::chunk::Chunk;
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk};
    use std::string::ToString;

    const CAPTURE: &[u8] = b"\x08\x00\x00\x04";

    #[test]
    fn reads_and_writes_the_capture() {
        assert_eq!(parse_chunk(CAPTURE), Ok(Chunk::ShutdownAck));
        assert_round_trip(Chunk::ShutdownAck, CAPTURE);
        assert_eq!(Chunk::ShutdownAck.to_string(), "SHUTDOWN ACK");
        assert_minimum_length(CAPTURE, 4);
    }

    #[test]
    fn flags_and_value_are_ignored() {
        assert_eq!(parse_chunk(b"\x08\xff\x00\x05x"), Ok(Chunk::ShutdownAck));
    }
}
