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
