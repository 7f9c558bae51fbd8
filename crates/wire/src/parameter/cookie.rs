//! Parameters about the cookie: State Cookie (RFC 9260 section 3.3.3.1.1) and Cookie Preservative
//! (section 3.3.2.1.3).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Type = 7            |            Length             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! /                            Cookie                             /
//! \                                                               \
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Type = 9            |          Length = 8           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |         Suggested Cookie Life-Span Increment (msec.)          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::unrecognized::parse_u32;
use crate::error::ParseError;
use crate::tlv::Tlv;
use core::fmt;

pub(super) fn parse_preservative(tlv: Tlv<'_>) -> Result<u32, ParseError> {
    parse_u32(tlv)
}

pub(super) fn fmt_preservative(f: &mut fmt::Formatter<'_>, increment: u32) -> fmt::Result {
    write!(f, "cookie_preservative={increment} ms")
}

pub(super) fn fmt_state_cookie(f: &mut fmt::Formatter<'_>, cookie: &[u8]) -> fmt::Result {
    write!(f, "state_cookie={} bytes", cookie.len())
}
