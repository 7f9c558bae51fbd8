//! Causes about DATA chunks: Invalid Stream Identifier (RFC 9260 section 3.3.10.1) and No User Data
//! (section 3.3.10.9).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        Cause Code = 1         |       Cause Length = 8        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |       Stream Identifier       |          (Reserved)           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        Cause Code = 9         |       Cause Length = 8        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                              TSN                              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::bytes::{Output, Reader};
use crate::error::{NoRoom, ParseError};
use crate::numbers::{StreamId, Tsn};
use crate::tlv::Tlv;

pub(super) fn parse_stream(tlv: Tlv<'_>) -> Result<StreamId, ParseError> {
    // The stream and the reserved half: both must be there.
    parse_u32(tlv).map(|word| StreamId((word >> 16) as u16))
}

pub(super) fn emit_stream(out: &mut Output<'_>, stream: StreamId) -> Result<(), NoRoom> {
    out.u16(stream.0)?;
    out.u16(0)
}

pub(super) fn parse_tsn(tlv: Tlv<'_>) -> Result<Tsn, ParseError> {
    parse_u32(tlv).map(Tsn)
}

/// A value that begins with 32 bits.
pub(super) fn parse_u32(tlv: Tlv<'_>) -> Result<u32, ParseError> {
    Reader::new(tlv.value).u32().ok_or(length_error(&tlv))
}

/// A value that begins with 16 bits.
pub(super) fn parse_u16(tlv: Tlv<'_>) -> Result<u16, ParseError> {
    Reader::new(tlv.value).u16().ok_or(length_error(&tlv))
}

/// The error of a cause that is too short for its fields.
pub(super) const fn length_error(tlv: &Tlv<'_>) -> ParseError {
    ParseError::CauseLength { code: tlv.kind, length: tlv.length() }
}
