//! Payload Data (DATA, type 0).

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::numbers::{Ppid, Ssn, StreamId, Tsn};
use core::fmt;

/// The flags of DATA and I-DATA.
pub(super) mod flags {
    pub(crate) const IMMEDIATE: u8 = 0x08;
    pub(crate) const UNORDERED: u8 = 0x04;
    pub(crate) const BEGIN: u8 = 0x02;
    pub(crate) const END: u8 = 0x01;

    /// The byte with these bits set.
    pub(crate) const fn of(immediate: bool, unordered: bool, begin: bool, end: bool) -> u8 {
        (if immediate { IMMEDIATE } else { 0 })
            | (if unordered { UNORDERED } else { 0 })
            | (if begin { BEGIN } else { 0 })
            | (if end { END } else { 0 })
    }
}

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
        let is_set = |flag| is_set(&raw, flag);
        Ok(Self {
            tsn: Tsn(tsn),
            stream: StreamId(stream),
            ssn: Ssn(ssn),
            ppid: Ppid(ppid),
            unordered: is_set(flags::UNORDERED),
            begin: is_set(flags::BEGIN),
            end: is_set(flags::END),
            immediate: is_set(flags::IMMEDIATE),
            payload: reader.rest(),
        })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        let flags = flags::of(self.immediate, self.unordered, self.begin, self.end);
        out.block([types::DATA, flags], |out| {
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
}

/// Whether the chunk has this flag.
pub(super) fn is_set(raw: &RawChunk<'_>, flag: u8) -> bool {
    raw.flags() & flag != 0
}

/// `-UBE`
pub(super) fn flag_letters(f: &mut fmt::Formatter<'_>, set: [bool; 4]) -> fmt::Result {
    for (set, letter) in set.into_iter().zip(['I', 'U', 'B', 'E']) {
        write!(f, "{}", if set { letter } else { '-' })?;
    }
    Ok(())
}

impl fmt::Display for Data<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DATA tsn={} stream={} ssn={}", self.tsn.0, self.stream.0, self.ssn.0)?;
        write!(f, " ppid={} flags=", self.ppid.0)?;
        flag_letters(f, [self.immediate, self.unordered, self.begin, self.end])?;
        write!(f, " len={}", self.payload.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk};
    use std::string::ToString;
    use std::vec::Vec;

    /// An unordered message as usrsctp sends it.
    const CAPTURE: &[u8] = b"\x00\x07\x00\x15\xd5\x4a\x7b\xa4\x00\x03\x00\x00\x00\x00\x00\x33lossy";

    fn lossy() -> Data<'static> {
        Data {
            tsn: Tsn(0xD54A_7BA4),
            stream: StreamId(3),
            ssn: Ssn(0),
            ppid: Ppid(51),
            unordered: true,
            begin: true,
            end: true,
            immediate: false,
            payload: b"lossy",
        }
    }

    #[test]
    fn reads_and_writes_the_capture() {
        assert_eq!(parse_chunk(CAPTURE), Ok(Chunk::Data(lossy())));
        assert_round_trip(Chunk::Data(lossy()), CAPTURE);
        assert_eq!(
            lossy().to_string(),
            "DATA tsn=3578428324 stream=3 ssn=0 ppid=51 flags=-UBE len=5"
        );
    }

    #[test]
    fn each_flag_has_its_own_bit() {
        let plain = Data { unordered: false, begin: false, end: false, ..lossy() };
        let cases = [
            (Data { immediate: true, ..plain }, 0x08),
            (Data { unordered: true, ..plain }, 0x04),
            (Data { begin: true, ..plain }, 0x02),
            (Data { end: true, ..plain }, 0x01),
            (plain, 0x00),
        ];
        for (data, flags) in cases {
            let mut expected = Vec::from(CAPTURE);
            expected[1] = flags;
            assert_round_trip(Chunk::Data(data), &expected);
        }
    }

    #[test]
    fn reserved_flags_are_ignored() {
        let mut bytes = Vec::from(CAPTURE);
        bytes[1] |= 0xF0;
        assert_eq!(parse_chunk(&bytes), Ok(Chunk::Data(lossy())));
    }

    #[test]
    fn a_chunk_without_user_data_parses() {
        assert_minimum_length(CAPTURE, 16);
        let empty = Data { payload: b"", ..lossy() };
        assert_eq!(Chunk::Data(empty).encoded_len(), Data::HEADER_LEN);
        let mut expected = Vec::from(&CAPTURE[..Data::HEADER_LEN]);
        expected[3] = 16;
        assert_round_trip(Chunk::Data(empty), &expected);
    }
}
