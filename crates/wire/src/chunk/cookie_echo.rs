//! Cookie Echo (COOKIE ECHO, type 10).

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use core::fmt;

/// Cookie Echo (RFC 9260 section 3.3.11).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Type = 10   |  Chunk Flags  |            Length             |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// /                            Cookie                             /
/// \                                                               \
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CookieEcho<'a> {
    /// The value of the State Cookie parameter of the INIT ACK.
    pub cookie: &'a [u8],
}

impl<'a> CookieEcho<'a> {
    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        Ok(Self { cookie: raw.value() })
    }

    pub(super) fn value_len(&self) -> usize {
        self.cookie.len()
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::COOKIE_ECHO, 0], |out| out.bytes(self.cookie))
    }
}

impl fmt::Display for CookieEcho<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "COOKIE ECHO cookie={} bytes", self.cookie.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk};
    use std::string::ToString;

    /// usrsctp's COOKIE ECHO, its cookie of 324 bytes cut to 15.
    const CAPTURE: &[u8] = b"\x0a\x00\x00\x13KAME-BSD 1.1\x00\x00\x00";

    #[test]
    fn reads_and_writes_the_capture() {
        let echo = CookieEcho { cookie: b"KAME-BSD 1.1\0\0\0" };
        assert_eq!(parse_chunk(CAPTURE), Ok(Chunk::CookieEcho(echo)));
        assert_round_trip(Chunk::CookieEcho(echo), CAPTURE);
        assert_eq!(echo.to_string(), "COOKIE ECHO cookie=15 bytes");
    }

    #[test]
    fn the_cookie_may_be_empty() {
        assert_minimum_length(CAPTURE, 4);
        assert_round_trip(Chunk::CookieEcho(CookieEcho { cookie: b"" }), b"\x0a\x00\x00\x04");
    }
}
