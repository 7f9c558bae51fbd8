//! Parameters by which an endpoint says what it can do: ECN Capable, Supported Extensions (RFC
//! 5061 section 4.2.7), Forward-TSN-Supported (RFC 3758 section 3.1), Adaptation Layer Indication
//! (RFC 5061 section 4.2.6).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Type = 0x8000 or 0xC000     |          Length = 4           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Parameter Type = 0x8008   |      Parameter Length         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | CHUNK TYPE 1  |  CHUNK TYPE 2 |  CHUNK TYPE 3 |  CHUNK TYPE 4 |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                             ....                              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |          Type =0xC006         |         Length = 8            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                     Adaptation Code point                     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::unrecognized::{length_error, parse_u32};
use crate::error::ParseError;
use crate::tlv::Tlv;
use core::fmt;

/// A parameter that says all by being there.
pub(super) fn parse_flag(tlv: Tlv<'_>) -> Result<(), ParseError> {
    if tlv.value.is_empty() { Ok(()) } else { Err(length_error(&tlv)) }
}

pub(super) fn parse_adaptation(tlv: Tlv<'_>) -> Result<u32, ParseError> {
    parse_u32(tlv)
}

pub(super) fn fmt_extensions(f: &mut fmt::Formatter<'_>, chunk_types: &[u8]) -> fmt::Result {
    write!(f, "supported_extensions={chunk_types:?}")
}

pub(super) fn fmt_adaptation(f: &mut fmt::Formatter<'_>, code: u32) -> fmt::Result {
    write!(f, "adaptation={code:#010x}")
}
