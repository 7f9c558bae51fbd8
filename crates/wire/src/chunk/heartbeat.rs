//! Heartbeat Request (HEARTBEAT, type 4), and the value that it shares with HEARTBEAT ACK.

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::parameter::{self, Parameter, Parameters};
use core::fmt;

/// Heartbeat Request (RFC 9260 section 3.3.5).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Type = 4    |  Chunk Flags  |       Heartbeat Length        |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// \                                                               \
/// /          Heartbeat Information TLV (Variable-Length)          /
/// \                                                               \
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heartbeat<'a> {
    /// Sender-Specific Heartbeat Info: the value of the Heartbeat Info parameter, to be sent back
    /// as it is.
    pub info: &'a [u8],
}

impl<'a> Heartbeat<'a> {
    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        parse_info(&raw).map(|info| Self { info })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::HEARTBEAT, 0], |out| emit_info(out, self.info))
    }

    pub(super) const fn value_len(&self) -> usize {
        info_len(self.info)
    }
}

impl fmt::Display for Heartbeat<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HEARTBEAT info={} bytes", self.info.len())
    }
}

/// The value of the Heartbeat Info parameter that the chunk consists of.
pub(super) fn parse_info<'a>(raw: &RawChunk<'a>) -> Result<&'a [u8], ParseError> {
    if raw.value().len() < parameter::HEADER_LEN {
        return Err(raw.length_error());
    }
    match Parameters::from_bytes(raw.value()).iter().next() {
        Some(Ok(Parameter::HeartbeatInfo(info))) => Ok(info),
        Some(Err(error)) => Err(error),
        Some(Ok(_)) | None => Err(ParseError::NoHeartbeatInfo { type_byte: raw.type_byte() }),
    }
}

/// Writes the parameter without padding after it, which the chunk's Length does not count.
pub(super) fn emit_info(out: &mut Output<'_>, info: &[u8]) -> Result<(), NoRoom> {
    let length = u16::try_from(info_len(info)).map_err(|_| NoRoom)?;
    out.u16(parameter::types::HEARTBEAT_INFO)?;
    out.u16(length)?;
    out.bytes(info)
}

pub(super) const fn info_len(info: &[u8]) -> usize {
    parameter::HEADER_LEN + info.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk, with_length};
    use std::string::ToString;
    use std::vec::Vec;

    /// A HEARTBEAT of usrsctp, its 36 bytes of information cut to 6.
    const CAPTURE: &[u8] = b"\x04\x00\x00\x0e\x00\x01\x00\x0a\x6c\x61\x01\x6b\xee\x55";

    fn heartbeat() -> Heartbeat<'static> {
        Heartbeat { info: b"\x6c\x61\x01\x6b\xee\x55" }
    }

    #[test]
    fn reads_and_writes_the_capture() {
        assert_eq!(parse_chunk(CAPTURE), Ok(Chunk::Heartbeat(heartbeat())));
        assert_round_trip(Chunk::Heartbeat(heartbeat()), CAPTURE);
        assert_eq!(heartbeat().to_string(), "HEARTBEAT info=6 bytes");
    }

    #[test]
    fn a_length_that_counts_the_padding_reads_the_same() {
        let mut bytes = with_length(CAPTURE, 16);
        bytes.extend([0, 0]);
        assert_eq!(parse_chunk(&bytes), Ok(Chunk::Heartbeat(heartbeat())));
    }

    #[test]
    fn information_may_be_empty_but_not_missing() {
        let empty = b"\x04\x00\x00\x08\x00\x01\x00\x04";
        assert_round_trip(Chunk::Heartbeat(Heartbeat { info: b"" }), empty);
        assert_minimum_length(empty, 4 + 4);
    }

    #[test]
    fn another_parameter_is_no_information() {
        let mut bytes = Vec::from(CAPTURE);
        bytes[5] = 2;
        assert_eq!(parse_chunk(&bytes), Err(ParseError::NoHeartbeatInfo { type_byte: 4 }));
        let truncated = with_length(CAPTURE, 13);
        let error = ParseError::ParameterTruncated { parameter_type: 1, length: 10 };
        assert_eq!(parse_chunk(&truncated), Err(error));
    }
}
