//! Payload Data (DATA, type 0).

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::numbers::{Ppid, Ssn, StreamId, Tsn};
use core::fmt;

const FLAG_IMMEDIATE: u8 = 0x08;
const FLAG_UNORDERED: u8 = 0x04;
const FLAG_BEGIN: u8 = 0x02;
const FLAG_END: u8 = 0x01;

/// Payload Data (RFC 9260 section 3.3.1; the I bit is RFC 7053).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Type = 0    |  Res  |I|U|B|E|            Length             |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                              TSN                              |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |      Stream Identifier S      |   Stream Sequence Number n    |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                  Payload Protocol Identifier                  |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// \                                                               \
/// /                 User Data (seq n of Stream S)                 /
/// \                                                               \
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data<'a> {
    /// Transmission sequence number.
    pub tsn: Tsn,
    /// Stream the message belongs to.
    pub stream: StreamId,
    /// Place of the message in its stream; without meaning if `unordered`.
    pub ssn: Ssn,
    /// Payload protocol identifier.
    pub ppid: Ppid,
    /// U: deliver without regard to the order of the stream.
    pub unordered: bool,
    /// B: first fragment of a message.
    pub begin: bool,
    /// E: last fragment of a message.
    pub end: bool,
    /// I: acknowledge without delay.
    pub immediate: bool,
    /// User data. Empty data is a protocol violation, answered by the No User Data cause.
    pub payload: &'a [u8],
}

impl<'a> Data<'a> {
    /// Bytes before the user data.
    pub const HEADER_LEN: usize = 16;

    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let mut reader = raw.reader();
        let (Some(tsn), Some(stream), Some(ssn), Some(ppid)) =
            (reader.u32(), reader.u16(), reader.u16(), reader.u32())
        else {
            return Err(raw.length_error());
        };
        let is_set = |flag| raw.flags() & flag != 0;
        Ok(Self {
            tsn: Tsn(tsn),
            stream: StreamId(stream),
            ssn: Ssn(ssn),
            ppid: Ppid(ppid),
            unordered: is_set(FLAG_UNORDERED),
            begin: is_set(FLAG_BEGIN),
            end: is_set(FLAG_END),
            immediate: is_set(FLAG_IMMEDIATE),
            payload: reader.rest(),
        })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::DATA, self.flags()], |out| {
            out.u32(self.tsn.0)?;
            out.u16(self.stream.0)?;
            out.u16(self.ssn.0)?;
            out.u32(self.ppid.0)?;
            out.bytes(self.payload)
        })
    }

    pub(super) const fn value_len(&self) -> usize {
        Self::HEADER_LEN - RawChunk::HEADER_LEN + self.payload.len()
    }

    const fn flags(&self) -> u8 {
        let mut flags = 0;
        if self.immediate {
            flags |= FLAG_IMMEDIATE;
        }
        if self.unordered {
            flags |= FLAG_UNORDERED;
        }
        if self.begin {
            flags |= FLAG_BEGIN;
        }
        if self.end {
            flags |= FLAG_END;
        }
        flags
    }
}

impl fmt::Display for Data<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DATA tsn={} stream={} ssn={}", self.tsn.0, self.stream.0, self.ssn.0)?;
        write!(f, " ppid={} flags=", self.ppid.0)?;
        let letters =
            [(self.immediate, 'I'), (self.unordered, 'U'), (self.begin, 'B'), (self.end, 'E')];
        for (set, letter) in letters {
            write!(f, "{}", if set { letter } else { '-' })?;
        }
        write!(f, " len={}", self.payload.len())
    }
}
