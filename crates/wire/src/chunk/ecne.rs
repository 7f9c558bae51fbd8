//! Explicit Congestion Notification Echo (ECNE, type 12).

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::numbers::Tsn;
use core::fmt;

/// Explicit Congestion Notification Echo. RFC 9260 reserves the type; the format is that of
/// RFC 4960 appendix A, to which draft-stewart-tsvwg-sctpecn adds the second field.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// | Chunk Type=12 | Flags=00000000|    Chunk Length = 8 or 12     |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                      Lowest TSN Number                        |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |     Number of CE marked packets since the last CWR (or no)    |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ecne {
    /// Lowest TSN in the packet that was marked.
    pub lowest_tsn: Tsn,
    /// Marked packets since the last CWR, in the longer form.
    pub packets: Option<u32>,
}

impl Ecne {
    pub(super) fn parse(raw: RawChunk<'_>) -> Result<Self, ParseError> {
        let mut reader = raw.reader();
        let lowest_tsn = reader.u32().ok_or(raw.length_error())?;
        Ok(Self { lowest_tsn: Tsn(lowest_tsn), packets: reader.u32() })
    }

    pub(super) const fn value_len(&self) -> usize {
        if self.packets.is_some() { 8 } else { 4 }
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::ECNE, 0], |out| {
            out.u32(self.lowest_tsn.0)?;
            self.packets.map_or(Ok(()), |packets| out.u32(packets))
        })
    }
}

impl fmt::Display for Ecne {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ECNE lowest_tsn={}", self.lowest_tsn.0)?;
        self.packets.map_or(Ok(()), |packets| write!(f, " packets={packets}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk};
    use std::string::ToString;

    const CAPTURE: &[u8] = b"\x0c\x00\x00\x08\x65\x08\x92\x56";

    #[test]
    fn reads_and_writes_the_capture() {
        let chunk = Ecne { lowest_tsn: Tsn(0x6508_9256), packets: None };
        assert_eq!(parse_chunk(CAPTURE), Ok(Chunk::Ecne(chunk)));
        assert_round_trip(Chunk::Ecne(chunk), CAPTURE);
        assert_eq!(chunk.to_string(), "ECNE lowest_tsn=1695060566");
    }

    #[test]
    fn the_longer_form_tells_how_many_packets_were_marked() {
        let bytes = b"\x0c\x00\x00\x0c\x65\x08\x92\x56\x00\x00\x00\x03";
        let chunk = Ecne { lowest_tsn: Tsn(0x6508_9256), packets: Some(3) };
        assert_eq!(parse_chunk(bytes), Ok(Chunk::Ecne(chunk)));
        assert_round_trip(Chunk::Ecne(chunk), bytes);
        assert_eq!(chunk.to_string(), "ECNE lowest_tsn=1695060566 packets=3");
    }

    #[test]
    fn a_chunk_without_its_field_is_refused() {
        assert_minimum_length(CAPTURE, 8);
    }
}
