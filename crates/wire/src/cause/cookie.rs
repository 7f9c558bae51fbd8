//! Causes about cookies and about setup as a whole: Stale Cookie (RFC 9260 section 3.3.10.3), Out
//! of Resource (section 3.3.10.4), Cookie Received While Shutting Down (section 3.3.10.10).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        Cause Code = 3         |       Cause Length = 8        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                 Measure of Staleness (usec.)                  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Cause Code = 4 or 10      |       Cause Length = 4        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::data::parse_u32;
use crate::error::ParseError;
use crate::tlv::Tlv;
use core::fmt;

pub(super) fn parse_staleness(tlv: Tlv<'_>) -> Result<u32, ParseError> {
    parse_u32(tlv)
}

pub(super) fn fmt_staleness(f: &mut fmt::Formatter<'_>, staleness_us: u32) -> fmt::Result {
    write!(f, "stale cookie by {staleness_us} us")
}
