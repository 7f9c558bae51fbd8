//! Congestion Window Reduced (CWR, type 13).

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::numbers::Tsn;
use core::fmt;

/// Congestion Window Reduced. RFC 9260 reserves the type; the format is that of RFC 4960
/// appendix A.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// | Chunk Type=13 | Flags=00000000|    Chunk Length = 8           |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                      Lowest TSN Number                        |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cwr {
    /// The TSN of the ECNE that is answered.
    pub lowest_tsn: Tsn,
}

impl Cwr {
    pub(super) fn parse(raw: RawChunk<'_>) -> Result<Self, ParseError> {
        let lowest_tsn = raw.reader().u32().ok_or(raw.length_error())?;
        Ok(Self { lowest_tsn: Tsn(lowest_tsn) })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::CWR, 0], |out| out.u32(self.lowest_tsn.0))
    }
}

impl fmt::Display for Cwr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CWR lowest_tsn={}", self.lowest_tsn.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk};
    use std::string::ToString;

    const CAPTURE: &[u8] = b"\x0d\x00\x00\x08\x65\x08\x92\x56";

    #[test]
    fn reads_and_writes_the_capture() {
        let chunk = Cwr { lowest_tsn: Tsn(0x6508_9256) };
        assert_eq!(parse_chunk(CAPTURE), Ok(Chunk::Cwr(chunk)));
        assert_round_trip(Chunk::Cwr(chunk), CAPTURE);
        assert_eq!(chunk.to_string(), "CWR lowest_tsn=1695060566");
    }

    #[test]
    fn a_chunk_without_its_field_is_refused() {
        assert_minimum_length(CAPTURE, 8);
    }
}
