//! Chunks of a type that this crate does not know.

use super::RawChunk;
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::unknown_action::UnknownAction;
use core::fmt;

/// A chunk of unknown type, kept as it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unknown<'a> {
    /// Chunk type.
    pub type_byte: u8,
    /// Chunk flags.
    pub flags: u8,
    /// What follows the chunk header, without padding.
    pub value: &'a [u8],
    raw: &'a [u8],
}

impl<'a> Unknown<'a> {
    /// The chunk at the beginning of `bytes`, whatever its type. For writing chunks of which this
    /// crate knows nothing.
    ///
    /// # Errors
    /// Those of [`RawChunk::split`].
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, ParseError> {
        RawChunk::split(bytes).map(|(raw, _)| Self::parse(raw))
    }

    /// What the receiver of the chunk has to do.
    pub const fn action(&self) -> UnknownAction {
        UnknownAction::of(self.type_byte)
    }

    /// The whole chunk with its header and without padding: what the Unrecognized Chunk Type cause
    /// carries.
    pub const fn raw(&self) -> &'a [u8] {
        self.raw
    }

    pub(super) fn parse(raw: RawChunk<'a>) -> Self {
        let (type_byte, flags) = (raw.type_byte(), raw.flags());
        Self { type_byte, flags, value: raw.value(), raw: raw.bytes() }
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([self.type_byte, self.flags], |out| out.bytes(self.value))
    }
}

impl fmt::Display for Unknown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { type_byte, flags, value, .. } = self;
        write!(f, "UNKNOWN type={type_byte} flags={flags:#04x} value={} bytes", value.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::testing::{assert_round_trip, parse_chunk};
    use std::string::ToString;

    /// A type nobody has defined, with five bytes and three more as padding.
    const CAPTURE: &[u8] = b"\x8f\x00\x00\x09abcde\x00\x00\x00";

    #[test]
    fn reads_and_writes_the_capture() {
        let chunk = Unknown::from_bytes(CAPTURE).unwrap();
        assert_eq!((chunk.type_byte, chunk.flags, chunk.value), (0x8F, 0, &b"abcde"[..]));
        assert_eq!(chunk.raw(), &CAPTURE[..9]);
        assert_eq!(parse_chunk(CAPTURE), Ok(Chunk::Unknown(chunk)));
        assert_round_trip(Chunk::Unknown(chunk), &CAPTURE[..9]);
        assert_eq!(chunk.to_string(), "UNKNOWN type=143 flags=0x00 value=5 bytes");
    }

    #[test]
    fn the_two_highest_bits_say_what_to_do() {
        let cases = [(0x0F, true, false), (0x4F, true, true), (0x8F, false, false)];
        for (type_byte, stop, report) in cases.into_iter().chain([(0xCF, false, true)]) {
            let bytes = [type_byte, 0, 0, 4];
            let chunk = Unknown::from_bytes(&bytes).unwrap();
            assert_eq!(chunk.action(), UnknownAction { stop, report });
        }
    }

    #[test]
    fn malformed_headers_are_refused() {
        let error = ParseError::ChunkLength { type_byte: 0x84, length: 3 };
        assert_eq!(Unknown::from_bytes(b"\x84\x00\x00\x03"), Err(error));
        let error = ParseError::ChunkTruncated { type_byte: 0x84, length: 5 };
        assert_eq!(Unknown::from_bytes(b"\x84\x00\x00\x05"), Err(error));
        assert_eq!(Unknown::from_bytes(b"\x84\x00\x00"), Err(ParseError::ChunkHeader));
    }
}
