//! Operation Error (ERROR, type 9).

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::cause::Causes;
use crate::error::{NoRoom, ParseError};
use core::fmt;

/// Operation Error (RFC 9260 section 3.3.10).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Type = 9    |  Chunk Flags  |            Length             |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// \                                                               \
/// /                   one or more Error Causes                    /
/// \                                                               \
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error<'a> {
    /// What happened.
    pub causes: Causes<'a>,
}

impl<'a> Error<'a> {
    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        Ok(Self { causes: Causes::from_bytes(raw.value()) })
    }

    pub(super) fn value_len(&self) -> usize {
        self.causes.encoded_len()
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::ERROR, 0], |out| out.bytes(self.causes.unpadded()))
    }
}

impl fmt::Display for Error<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ERROR {}", self.causes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::{Cause, CauseWriter};
    use crate::chunk::Chunk;
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk};
    use std::string::ToString;

    /// Stale Cookie by one second, and a chunk of unknown type 192 with 3 bytes.
    const CAPTURE: &[u8] = b"\x09\x00\x00\x17\x00\x03\x00\x08\x00\x0f\x42\x40\
        \x00\x06\x00\x0b\xc0\x00\x00\x07abc";

    #[test]
    fn reads_and_writes_the_capture() {
        let mut buffer = [0xFF; 64];
        let mut writer = CauseWriter::new(&mut buffer);
        writer.push(&Cause::StaleCookie { staleness_us: 1_000_000 }).unwrap();
        writer.push(&Cause::UnrecognizedChunkType(b"\xc0\x00\x00\x07abc")).unwrap();
        let len = writer.finish();
        assert_eq!(len, 20);
        let error = Error { causes: Causes::from_bytes(&buffer[..len]) };
        assert_eq!(parse_chunk(CAPTURE), Ok(Chunk::Error(error)));
        assert_round_trip(Chunk::Error(error), CAPTURE);
        assert_eq!(
            error.to_string(),
            "ERROR {stale cookie by 1000000 us, unrecognized chunk type 192}"
        );
    }

    #[test]
    fn an_empty_chunk_parses() {
        assert_minimum_length(b"\x09\x00\x00\x04", 4);
    }
}
