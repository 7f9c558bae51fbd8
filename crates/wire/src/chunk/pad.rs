//! Padding (PAD, type 0x84).

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use core::fmt;

/// Padding (RFC 4820 section 3). It makes a packet larger and says nothing.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// | Type = 0x84   |   Flags=0     |             Length            |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// \                         Padding Data                          /
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pad<'a> {
    /// Bytes without a meaning.
    pub data: &'a [u8],
}

impl<'a> Pad<'a> {
    /// Bytes of the chunk before its data.
    pub const HEADER_LEN: usize = RawChunk::HEADER_LEN;

    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        Ok(Self { data: raw.value() })
    }

    pub(super) fn value_len(&self) -> usize {
        self.data.len()
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::PAD, 0], |out| out.bytes(self.data))
    }
}

impl fmt::Display for Pad<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PAD data={} bytes", self.data.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{Chunk, Shutdown};
    use crate::numbers::Tsn;
    use crate::packet::{Packet, PacketWriter};
    use crate::testing::{HEADER, assert_round_trip, parse_chunk};
    use std::string::ToString;

    const CAPTURE: &[u8] = b"\x84\x00\x00\x09abcde\x00\x00\x00";

    #[test]
    fn padding_is_read_and_written_with_type_0x84_and_without_flags() {
        let chunk = Pad { data: b"abcde" };
        assert_eq!(parse_chunk(CAPTURE), Ok(Chunk::Pad(chunk)));
        assert_eq!(parse_chunk(b"\x84\xFF\x00\x09abcde\x00\x00\x00"), Ok(Chunk::Pad(chunk)));
        assert_round_trip(Chunk::Pad(chunk), &CAPTURE[..9]);
        assert_eq!(chunk.to_string(), "PAD data=5 bytes");
    }

    #[test]
    fn padding_ends_where_its_length_says_and_chunks_follow() {
        let shutdown = Chunk::Shutdown(Shutdown { cum_tsn: Tsn(7) });
        let pad = Chunk::Pad(Pad { data: &[0xEE; 70] });
        let mut buffer = [0xFF; 256];
        let mut writer = PacketWriter::new(&mut buffer, HEADER);
        writer.push(&pad).unwrap();
        writer.push(&shutdown).unwrap();
        let len = writer.finish();
        assert!(Packet::parse(&buffer[..len]).unwrap().chunks().eq([Ok(pad), Ok(shutdown)]));
    }
}
