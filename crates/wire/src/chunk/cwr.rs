//! Congestion Window Reduced (CWR, type 13).

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::numbers::Tsn;
use core::fmt;

/// Congestion Window Reduced. RFC 9260 reserves the type; the format is that of RFC 4960
/// appendix A, to which draft-stewart-tsvwg-sctpecn adds the O bit.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// | Chunk Type=13 | Flags=000000-O|    Chunk Length = 8           |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                      Lowest TSN Number                        |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cwr {
    /// The TSN of the ECNE that is answered.
    pub lowest_tsn: Tsn,
    /// O bit: it answers every ECNE up to this TSN, whatever path the marked packets took. The sender
    /// does not know that any more.
    pub all_paths: bool,
}

/// The O bit. The bit beside it only says that the window was reduced before.
const ALL_PATHS: u8 = 1;

impl Cwr {
    pub(super) fn parse(raw: RawChunk<'_>) -> Result<Self, ParseError> {
        let lowest_tsn = raw.reader().u32().ok_or(raw.length_error())?;
        Ok(Self { lowest_tsn: Tsn(lowest_tsn), all_paths: raw.flags() & ALL_PATHS != 0 })
    }

    pub(super) fn value_len(&self) -> usize {
        size_of::<Tsn>()
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        let flags = if self.all_paths { ALL_PATHS } else { 0 };
        out.block([types::CWR, flags], |out| out.u32(self.lowest_tsn.0))
    }
}

impl fmt::Display for Cwr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CWR lowest_tsn={}", self.lowest_tsn.0)?;
        if self.all_paths { f.write_str(" all_paths") } else { Ok(()) }
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
        let chunk = Cwr { lowest_tsn: Tsn(0x6508_9256), all_paths: false };
        assert_eq!(parse_chunk(CAPTURE), Ok(Chunk::Cwr(chunk)));
        assert_round_trip(Chunk::Cwr(chunk), CAPTURE);
        assert_eq!(chunk.to_string(), "CWR lowest_tsn=1695060566");
    }

    #[test]
    fn the_o_bit_is_the_lowest_flag() {
        let bytes = b"\x0d\x01\x00\x08\x65\x08\x92\x56";
        let chunk = Cwr { lowest_tsn: Tsn(0x6508_9256), all_paths: true };
        assert_eq!(parse_chunk(bytes), Ok(Chunk::Cwr(chunk)));
        assert_round_trip(Chunk::Cwr(chunk), bytes);
        assert_eq!(chunk.to_string(), "CWR lowest_tsn=1695060566 all_paths");
    }

    #[test]
    fn a_chunk_without_its_field_is_refused() {
        assert_minimum_length(CAPTURE, 8);
    }
}
