//! Shutdown Complete (SHUTDOWN COMPLETE, type 14).

use super::abort::FLAG_TAG_REFLECTED;
use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use core::fmt;

/// Shutdown Complete (RFC 9260 section 3.3.13).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Type = 14   |  Reserved   |T|          Length = 4           |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShutdownComplete {
    /// T: the packet's verification tag is the one that the sender received, not the one that the
    /// receiver expects.
    pub tag_reflected: bool,
}

impl ShutdownComplete {
    pub(super) const fn parse(raw: RawChunk<'_>) -> Result<Self, ParseError> {
        Ok(Self { tag_reflected: raw.flags() & FLAG_TAG_REFLECTED != 0 })
    }

    /// A flag is all that it has.
    pub(super) const fn value_len(&self) -> usize {
        0
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        let flags = if self.tag_reflected { FLAG_TAG_REFLECTED } else { 0 };
        out.block([types::SHUTDOWN_COMPLETE, flags], |_| Ok(()))
    }
}

impl fmt::Display for ShutdownComplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reflected = if self.tag_reflected { " (tag reflected)" } else { "" };
        write!(f, "SHUTDOWN COMPLETE{reflected}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk};
    use std::string::ToString;

    const CAPTURE: &[u8] = b"\x0e\x00\x00\x04";
    const REFLECTED: &[u8] = b"\x0e\x01\x00\x04";

    #[test]
    fn reads_and_writes_the_capture() {
        let cases = [
            (CAPTURE, false, "SHUTDOWN COMPLETE"),
            (REFLECTED, true, "SHUTDOWN COMPLETE (tag reflected)"),
        ];
        for (bytes, tag_reflected, text) in cases {
            let chunk = ShutdownComplete { tag_reflected };
            assert_eq!(parse_chunk(bytes), Ok(Chunk::ShutdownComplete(chunk)));
            assert_round_trip(Chunk::ShutdownComplete(chunk), bytes);
            assert_eq!(chunk.to_string(), text);
        }
        assert_minimum_length(CAPTURE, 4);
    }
}
