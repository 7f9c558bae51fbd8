//! A chunk before its type is looked at.

use crate::bytes::{Reader, padded};
use crate::error::ParseError;

/// Type, flags and value of a chunk, borrowed (RFC 9260 section 3.2).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |  Chunk Type   |  Chunk Flags  |         Chunk Length          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// \                                                               \
/// /                          Chunk Value                          /
/// \                                                               \
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawChunk<'a> {
    type_byte: u8,
    flags: u8,
    bytes: &'a [u8],
}

impl<'a> RawChunk<'a> {
    /// Bytes of type, flags and Length.
    pub const HEADER_LEN: usize = 4;

    /// Takes the first chunk off `bytes`, with what follows its padding. The padding of the last
    /// chunk of a packet may be missing.
    ///
    /// # Errors
    /// [`ParseError::ChunkHeader`], [`ParseError::ChunkLength`], [`ParseError::ChunkTruncated`].
    pub fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), ParseError> {
        let &[type_byte, flags, high, low, ..] = bytes else {
            return Err(ParseError::ChunkHeader);
        };
        let length = u16::from_be_bytes([high, low]);
        let len = usize::from(length);
        if len < Self::HEADER_LEN {
            return Err(ParseError::ChunkLength { type_byte, length });
        }
        let chunk = bytes.get(..len).ok_or(ParseError::ChunkTruncated { type_byte, length })?;
        let rest = bytes.get(padded(len)..).unwrap_or_default();
        Ok((Self { type_byte, flags, bytes: chunk }, rest))
    }

    /// Chunk type.
    pub const fn type_byte(&self) -> u8 {
        self.type_byte
    }

    /// Chunk flags.
    pub const fn flags(&self) -> u8 {
        self.flags
    }

    /// What follows the chunk header, without padding.
    pub fn value(&self) -> &'a [u8] {
        self.bytes.get(Self::HEADER_LEN..).unwrap_or_default()
    }

    /// The whole chunk with its header, without padding.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn reader(&self) -> Reader<'a> {
        Reader::new(self.value())
    }

    /// The error of a chunk that is too short for its fields.
    pub(super) const fn length_error(&self) -> ParseError {
        ParseError::ChunkLength { type_byte: self.type_byte, length: self.length() }
    }

    /// The Length field.
    pub(super) const fn length(&self) -> u16 {
        // `split` took as many bytes as a 16-bit Length said.
        self.bytes.len() as u16
    }
}
