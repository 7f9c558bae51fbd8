//! Authentication (AUTH, type 15).

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use core::fmt;

/// Authentication (RFC 4895 section 5.1): covers itself, its HMAC taken as zero, and all chunks that
/// follow it in the packet.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// | Type = 0x0F   |   Flags=0     |             Length            |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |    Shared Key Identifier      |        HMAC Identifier        |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                                                               |
/// \                             HMAC                              /
/// /                                                               \
/// /                               +-------------------------------\
/// |                               |           Padding             |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Auth<'a> {
    /// Shared Key Identifier: which endpoint pair shared key is used.
    pub key: u16,
    /// HMAC Identifier (see [`hmac_ids`](crate::parameter::hmac_ids)).
    pub hmac_id: u16,
    /// The HMAC. Zeros of its length while it is computed.
    pub hmac: &'a [u8],
}

impl<'a> Auth<'a> {
    /// Bytes of the chunk before the HMAC.
    pub const HEADER_LEN: usize = 8;

    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let mut reader = raw.reader();
        let (Some(key), Some(hmac_id)) = (reader.u16(), reader.u16()) else {
            return Err(raw.length_error());
        };
        Ok(Self { key, hmac_id, hmac: reader.rest() })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::AUTH, 0], |out| {
            out.u16(self.key)?;
            out.u16(self.hmac_id)?;
            out.bytes(self.hmac)
        })
    }

    pub(super) const fn value_len(&self) -> usize {
        Self::HEADER_LEN - RawChunk::HEADER_LEN + self.hmac.len()
    }
}

impl fmt::Display for Auth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, hmac_id, hmac } = self;
        write!(f, "AUTH key={key} hmac_id={hmac_id} hmac={} bytes", hmac.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk};
    use std::string::ToString;

    const BYTES: &[u8] = b"\x0f\x00\x00\x1c\x00\x02\x00\x01twenty bytes of HMAC";

    #[test]
    fn reads_and_writes_the_layout() {
        let auth = Auth { key: 2, hmac_id: 1, hmac: b"twenty bytes of HMAC" };
        assert_eq!(parse_chunk(BYTES), Ok(Chunk::Auth(auth)));
        assert_round_trip(Chunk::Auth(auth), BYTES);
        assert_eq!(auth.to_string(), "AUTH key=2 hmac_id=1 hmac=20 bytes");
        assert_minimum_length(BYTES, 8);
    }
}
