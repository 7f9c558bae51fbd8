//! DTLS chunk (DTLS, type 0x41).

use super::{RawChunk, types};
use crate::bytes::{Output, padded};
use crate::error::{NoRoom, ParseError};
use core::fmt;

/// R: protected by a restart key context.
const RESTART: u8 = 1;

/// DTLS chunk (draft-ietf-tsvwg-sctp-dtls-chunk section 4.2): one DTLS 1.3 record that holds all other
/// chunks of its packet. The byte before the record aligns its encrypted part.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// | Type = 0x41   | reserved    |R|         Chunk Length          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// | Pre-Padding   |                                               |
/// +-+-+-+-+-+-+-+-+                                               |
/// |                            Payload                            |
/// |                               +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                               |       Post-Padding            |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dtls<'a> {
    /// R bit: the record is protected by a restart key context.
    pub restart: bool,
    /// The record (`DTLSCiphertext`, RFC 9147 section 4).
    pub record: &'a [u8],
}

impl<'a> Dtls<'a> {
    /// Bytes of the chunk before the record: chunk header and pre-padding.
    pub const HEADER_LEN: usize = RawChunk::HEADER_LEN + 1;
    /// Bytes of a record before the chunks in it.
    pub const RECORD_HEADER_LEN: usize = 3;
    /// Bytes of a record behind the chunks in it: content type and tag.
    pub const RECORD_TRAILER_LEN: usize = 1 + 16;
    /// Bytes of a packet before the chunks in a record, beyond the common header.
    pub(crate) const BEFORE: usize = Self::HEADER_LEN + Self::RECORD_HEADER_LEN;
    /// Bytes of a packet behind the chunks in a record, padding included.
    pub(crate) const BEHIND: usize = padded(Self::RECORD_TRAILER_LEN);
    /// Bytes by which a packet is larger whose chunks are in a record.
    pub const OVERHEAD: usize = Self::BEFORE + Self::BEHIND;

    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let (_padding, record) = raw.value().split_first().ok_or(raw.length_error())?;
        Ok(Self { restart: raw.flags() & RESTART != 0, record })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::DTLS, self.flags()], |out| {
            out.bytes(&[0])?;
            out.bytes(self.record)
        })
    }

    const fn flags(&self) -> u8 {
        if self.restart { RESTART } else { 0 }
    }

    pub(super) const fn value_len(&self) -> usize {
        Self::HEADER_LEN - RawChunk::HEADER_LEN + self.record.len()
    }
}

impl fmt::Display for Dtls<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let restart = if self.restart { " restart" } else { "" };
        write!(f, "DTLS{restart} record={} bytes", self.record.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk};
    use std::string::ToString;
    use std::vec::Vec;

    const BYTES: &[u8] = b"\x41\x01\x00\x0a\x00\x2fABCD";

    #[test]
    fn reads_and_writes_the_layout() {
        let dtls = Dtls { restart: true, record: b"\x2fABCD" };
        assert_eq!(parse_chunk(BYTES), Ok(Chunk::Dtls(dtls)));
        assert_round_trip(Chunk::Dtls(dtls), BYTES);
        assert_eq!(dtls.to_string(), "DTLS restart record=5 bytes");
        assert_eq!(Dtls { restart: false, ..dtls }.to_string(), "DTLS record=5 bytes");
        assert_minimum_length(BYTES, 5);
    }

    #[test]
    fn reserved_bits_and_pre_padding_are_ignored() {
        let mut bytes = Vec::from(BYTES);
        (bytes[1], bytes[4]) = (0xFE, 0xFF);
        let dtls = Dtls { restart: false, record: b"\x2fABCD" };
        assert_eq!(parse_chunk(&bytes), Ok(Chunk::Dtls(dtls)));
    }
}
