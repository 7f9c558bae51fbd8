//! Heartbeat Acknowledgement (HEARTBEAT ACK, type 5).

use super::heartbeat::{emit_info, info_len, parse_info};
use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use core::fmt;

/// Heartbeat Acknowledgement (RFC 9260 section 3.3.6).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Type = 5    |  Chunk Flags  |     Heartbeat Ack Length      |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// \                                                               \
/// /          Heartbeat Information TLV (Variable-Length)          /
/// \                                                               \
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeartbeatAck<'a> {
    /// Sender-Specific Heartbeat Info of the HEARTBEAT that is answered.
    pub info: &'a [u8],
}

impl<'a> HeartbeatAck<'a> {
    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        parse_info(&raw).map(|info| Self { info })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::HEARTBEAT_ACK, 0], |out| emit_info(out, self.info))
    }

    pub(super) const fn value_len(&self) -> usize {
        info_len(self.info)
    }
}

impl fmt::Display for HeartbeatAck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HEARTBEAT ACK info={} bytes", self.info.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk};
    use std::string::ToString;
    use std::vec::Vec;

    /// usrsctp's answer to a HEARTBEAT, its information cut to 5 bytes.
    const CAPTURE: &[u8] = b"\x05\x00\x00\x0d\x00\x01\x00\x09\x6c\x61\x01\x6b\xee";

    #[test]
    fn reads_and_writes_the_capture() {
        let ack = HeartbeatAck { info: b"\x6c\x61\x01\x6b\xee" };
        assert_eq!(parse_chunk(CAPTURE), Ok(Chunk::HeartbeatAck(ack)));
        assert_round_trip(Chunk::HeartbeatAck(ack), CAPTURE);
        assert_eq!(ack.to_string(), "HEARTBEAT ACK info=5 bytes");
    }

    #[test]
    fn information_must_not_be_missing() {
        assert_minimum_length(b"\x05\x00\x00\x08\x00\x01\x00\x04", 8);
        let mut bytes = Vec::from(CAPTURE);
        bytes[5] = 7;
        assert_eq!(parse_chunk(&bytes), Err(ParseError::NoHeartbeatInfo { type_byte: 5 }));
    }
}
