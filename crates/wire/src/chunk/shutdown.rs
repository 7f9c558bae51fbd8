//! Shutdown Association (SHUTDOWN, type 7).

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::numbers::Tsn;
use core::fmt;

/// Shutdown Association (RFC 9260 section 3.3.8).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Type = 7    |  Chunk Flags  |          Length = 8           |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                      Cumulative TSN Ack                       |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shutdown {
    /// Cumulative TSN Ack: all TSNs up to this one have been received. It says nothing of TSNs
    /// beyond a gap.
    pub cum_tsn: Tsn,
}

impl Shutdown {
    pub(super) fn parse(raw: RawChunk<'_>) -> Result<Self, ParseError> {
        let cum_tsn = raw.reader().u32().ok_or(raw.length_error())?;
        Ok(Self { cum_tsn: Tsn(cum_tsn) })
    }

    pub(super) fn value_len(&self) -> usize {
        size_of::<Tsn>()
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::SHUTDOWN, 0], |out| out.u32(self.cum_tsn.0))
    }
}

impl fmt::Display for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHUTDOWN cum_tsn={}", self.cum_tsn.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk};
    use std::string::ToString;

    /// The SHUTDOWN of usrsctp.
    const CAPTURE: &[u8] = b"\x07\x00\x00\x08\x65\x08\x92\x56";

    #[test]
    fn reads_and_writes_the_capture() {
        let chunk = Shutdown { cum_tsn: Tsn(0x6508_9256) };
        assert_eq!(parse_chunk(CAPTURE), Ok(Chunk::Shutdown(chunk)));
        assert_round_trip(Chunk::Shutdown(chunk), CAPTURE);
        assert_eq!(chunk.to_string(), "SHUTDOWN cum_tsn=1695060566");
    }

    #[test]
    fn a_chunk_without_its_field_is_refused() {
        assert_minimum_length(CAPTURE, 8);
    }
}
