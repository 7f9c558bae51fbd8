//! Causes about chunks and parameters that are unknown, missing or wrong: Missing Mandatory
//! Parameter (RFC 9260 section 3.3.10.2), Unrecognized Chunk Type (section 3.3.10.6), Invalid
//! Mandatory Parameter (section 3.3.10.7), Unrecognized Parameters (section 3.3.10.8).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        Cause Code = 2         |   Cause Length = 8 + N * 2    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                 Number of missing params = N                  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Missing Param Type #1     |     Missing Param Type #2     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    Missing Param Type #N-1    |     Missing Param Type #N     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        Cause Code = 6         |         Cause Length          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! /                      Unrecognized Chunk                       /
//! \                                                               \
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        Cause Code = 7         |       Cause Length = 4        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        Cause Code = 8         |         Cause Length          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! /                    Unrecognized Parameters                    /
//! \                                                               \
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::data::length_error;
use crate::bytes::{Output, Reader};
use crate::error::{NoRoom, ParseError};
use crate::list::List;
use crate::parameter::Parameters;
use crate::tlv::Tlv;
use core::fmt;

/// Parameter types.
pub type ParameterTypes<'a> = List<'a, u16>;

pub(super) fn parse_missing(tlv: Tlv<'_>) -> Result<ParameterTypes<'_>, ParseError> {
    take_missing(tlv.value).ok_or(length_error(&tlv))
}

fn take_missing(value: &[u8]) -> Option<ParameterTypes<'_>> {
    let mut reader = Reader::new(value);
    let count = usize::try_from(reader.u32()?).ok()?;
    let types = reader.bytes(count.checked_mul(size_of::<u16>())?)?;
    Some(List::from_wire(types.as_chunks().0))
}

pub(super) fn emit_missing(out: &mut Output<'_>, types: ParameterTypes<'_>) -> Result<(), NoRoom> {
    out.u32(u32::try_from(types.len()).map_err(|_| NoRoom)?)?;
    types.iter().try_for_each(|parameter_type| out.u16(parameter_type))
}

pub(super) fn fmt_chunk(f: &mut fmt::Formatter<'_>, chunk: &[u8]) -> fmt::Result {
    match chunk.first() {
        Some(type_byte) => write!(f, "unrecognized chunk type {type_byte}"),
        None => f.write_str("unrecognized chunk type"),
    }
}

pub(super) fn fmt_parameters(f: &mut fmt::Formatter<'_>, parameters: &[u8]) -> fmt::Result {
    write!(f, "unrecognized parameters {}", Parameters::from_bytes(parameters))
}
