//! Initiation (INIT, type 1), and the fields that it shares with INIT ACK.

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::numbers::{Tsn, VerificationTag};
use crate::parameter::Parameters;
use core::fmt;

/// Bytes of the fixed fields, without the chunk header.
const FIXED_LEN: usize = 16;

/// Initiation (RFC 9260 section 3.3.2).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Type = 1    |  Chunk Flags  |      Chunk Length             |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                         Initiate Tag                          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |          Advertised Receiver Window Credit (a_rwnd)           |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |  Number of Outbound Streams   |   Number of Inbound Streams   |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                          Initial TSN                          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// \                                                               \
/// /              Optional/Variable-Length Parameters              /
/// \                                                               \
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Init<'a> {
    /// Initiate Tag: the verification tag of every packet to the sender of this chunk.
    pub tag: VerificationTag,
    /// Advertised receiver window credit in bytes.
    pub a_rwnd: u32,
    /// Number of streams that the sender wishes to send on.
    pub outbound_streams: u16,
    /// Largest number of streams that the receiver may send on.
    pub inbound_streams: u16,
    /// TSN of the sender's first DATA chunk.
    pub initial_tsn: Tsn,
    /// Optional and variable-length parameters.
    pub parameters: Parameters<'a>,
}

impl<'a> Init<'a> {
    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let mut reader = raw.reader();
        let (Some(tag), Some(a_rwnd), Some(outbound_streams), Some(inbound_streams), Some(tsn)) =
            (reader.u32(), reader.u32(), reader.u16(), reader.u16(), reader.u32())
        else {
            return Err(raw.length_error());
        };
        Ok(Self {
            tag: VerificationTag(tag),
            a_rwnd,
            outbound_streams,
            inbound_streams,
            initial_tsn: Tsn(tsn),
            parameters: Parameters::from_bytes(reader.rest()),
        })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::INIT, 0], |out| self.emit_value(out))
    }

    /// The fields without the chunk header: INIT ACK has the same.
    pub(super) fn emit_value(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.u32(self.tag.0)?;
        out.u32(self.a_rwnd)?;
        out.u16(self.outbound_streams)?;
        out.u16(self.inbound_streams)?;
        out.u32(self.initial_tsn.0)?;
        out.bytes(self.parameters.unpadded())
    }

    pub(super) fn value_len(&self) -> usize {
        FIXED_LEN + self.parameters.encoded_len()
    }

    /// The fields without the chunk's name.
    pub(super) fn fmt_fields(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tag={:#010x} a_rwnd={}", self.tag.0, self.a_rwnd)?;
        write!(f, " streams={}/{}", self.outbound_streams, self.inbound_streams)?;
        write!(f, " tsn={} {}", self.initial_tsn.0, self.parameters)
    }
}

impl fmt::Display for Init<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("INIT ")?;
        self.fmt_fields(f)
    }
}
