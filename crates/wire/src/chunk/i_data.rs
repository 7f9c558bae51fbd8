//! Payload Data supporting Interleaving (I-DATA, type 64).

use super::data::{flag_letters, flags, is_set};
use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::numbers::{Fsn, Mid, Ppid, StreamId, Tsn};
use core::fmt;

/// Payload Data supporting Interleaving (RFC 8260 section 2.1). To be used instead of DATA, and only
/// if both ends list the type in their Supported Extensions parameter.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Type = 64   |  Res  |I|U|B|E|       Length = Variable       |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                              TSN                              |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |        Stream Identifier      |           Reserved            |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                      Message Identifier                       |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |    Payload Protocol Identifier / Fragment Sequence Number     |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// \                                                               \
/// /                           User Data                           /
/// \                                                               \
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IData<'a> {
    /// Transmission sequence number.
    pub tsn: Tsn,
    /// Stream the message belongs to.
    pub stream: StreamId,
    /// Number of the message among the ordered or among the unordered ones of its stream.
    pub mid: Mid,
    /// Which fragment of the message it is.
    pub place: FragmentPlace,
    /// U: deliver without regard to the order of the stream.
    pub unordered: bool,
    /// E: last fragment of a message.
    pub end: bool,
    /// I: acknowledge without delay.
    pub immediate: bool,
    /// User data. Empty data is a protocol violation, as in DATA.
    pub payload: &'a [u8],
}

/// The place of a fragment in its message: the B bit and the field that depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FragmentPlace {
    /// The first, whose number is 0 implicitly; it carries the payload protocol identifier.
    First(Ppid),
    /// The one with this number.
    Later(Fsn),
}

impl<'a> IData<'a> {
    /// Bytes before the user data.
    pub const HEADER_LEN: usize = 20;

    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let mut reader = raw.reader();
        let (Some(tsn), Some(stream), Some(_reserved), Some(mid), Some(field)) =
            (reader.u32(), reader.u16(), reader.u16(), reader.u32(), reader.u32())
        else {
            return Err(raw.length_error());
        };
        let is_set = |flag| is_set(&raw, flag);
        let first = is_set(flags::BEGIN);
        Ok(Self {
            tsn: Tsn(tsn),
            stream: StreamId(stream),
            mid: Mid(mid),
            place: if first {
                FragmentPlace::First(Ppid(field))
            } else {
                FragmentPlace::Later(Fsn(field))
            },
            unordered: is_set(flags::UNORDERED),
            end: is_set(flags::END),
            immediate: is_set(flags::IMMEDIATE),
            payload: reader.rest(),
        })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        let flags = flags::of(self.immediate, self.unordered, self.begin(), self.end);
        out.block([types::I_DATA, flags], |out| {
            out.u32(self.tsn.0)?;
            out.u16(self.stream.0)?;
            out.u16(0)?;
            out.u32(self.mid.0)?;
            out.u32(match self.place {
                FragmentPlace::First(ppid) => ppid.0,
                FragmentPlace::Later(fsn) => fsn.0,
            })?;
            out.bytes(self.payload)
        })
    }

    pub(super) const fn value_len(&self) -> usize {
        Self::HEADER_LEN - RawChunk::HEADER_LEN + self.payload.len()
    }

    /// B: whether it is the first fragment of a message.
    pub const fn begin(&self) -> bool {
        matches!(self.place, FragmentPlace::First(_))
    }
}

impl fmt::Display for IData<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "I-DATA tsn={} stream={} mid={}", self.tsn.0, self.stream.0, self.mid.0)?;
        match self.place {
            FragmentPlace::First(ppid) => write!(f, " ppid={}", ppid.0)?,
            FragmentPlace::Later(fsn) => write!(f, " fsn={}", fsn.0)?,
        }
        f.write_str(" flags=")?;
        flag_letters(f, [self.immediate, self.unordered, self.begin(), self.end])?;
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

    /// The layout of the RFC, filled by hand.
    const BYTES: &[u8] =
        b"\x40\x03\x00\x17\xd5\x4a\x7b\xa4\x00\x03\x00\x00\x00\x00\x01\x02\x00\x00\x00\x33abc";

    fn whole() -> IData<'static> {
        IData {
            tsn: Tsn(0xD54A_7BA4),
            stream: StreamId(3),
            mid: Mid(0x102),
            place: FragmentPlace::First(Ppid(51)),
            unordered: false,
            end: true,
            immediate: false,
            payload: b"abc",
        }
    }

    #[test]
    fn reads_and_writes_the_layout() {
        assert_eq!(parse_chunk(BYTES), Ok(Chunk::IData(whole())));
        assert_round_trip(Chunk::IData(whole()), BYTES);
        assert_eq!(
            whole().to_string(),
            "I-DATA tsn=3578428324 stream=3 mid=258 ppid=51 flags=--BE len=3"
        );
    }

    #[test]
    fn later_fragments_carry_their_number() {
        let later = IData { place: FragmentPlace::Later(Fsn(51)), unordered: true, ..whole() };
        let mut expected = Vec::from(BYTES);
        expected[1] = 0x05;
        assert_round_trip(Chunk::IData(later), &expected);
        assert!(later.to_string().contains("fsn=51 flags=-U-E"));
        let urgent = IData { immediate: true, end: false, ..later };
        expected[1] = 0x0C;
        assert_round_trip(Chunk::IData(urgent), &expected);
    }

    #[test]
    fn reserved_bits_are_ignored() {
        let mut bytes = Vec::from(BYTES);
        bytes[1] |= 0xF0;
        bytes[10] = 0xFF;
        bytes[11] = 0xFF;
        assert_eq!(parse_chunk(&bytes), Ok(Chunk::IData(whole())));
        assert_minimum_length(BYTES, 20);
    }
}
