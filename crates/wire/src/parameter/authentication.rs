//! Parameters by which endpoints agree on authentication: RANDOM, CHUNKS and HMAC-ALGO (RFC 4895
//! section 3).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Parameter Type = 0x8002   |       Parameter Length        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! \                          Random Number                        /
//! /                               +-------------------------------\
//! |                               |           Padding             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Parameter Type = 0x8003   |       Parameter Length        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | Chunk Type 1  | Chunk Type 2  | Chunk Type 3  | Chunk Type 4  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! /                              ...                              /
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Parameter Type = 0x8004   |       Parameter Length        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |          HMAC Identifier 1    |      HMAC Identifier 2        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! /                              ...                              /
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::unrecognized::length_error;
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::list::List;
use crate::tlv::Tlv;
use core::fmt;

/// HMAC Identifiers in the order of the sender's preference.
pub type HmacIds<'a> = List<'a, u16>;

/// HMAC Identifiers (RFC 4895 section 3.3, table 2).
pub mod hmac_ids {
    /// SHA-1: 20 bytes.
    pub const SHA_1: u16 = 1;
    /// SHA-256: 32 bytes.
    pub const SHA_256: u16 = 3;
}

pub(super) fn parse_hmac_ids(tlv: Tlv<'_>) -> Result<HmacIds<'_>, ParseError> {
    match tlv.value.as_chunks() {
        (ids, []) => Ok(List::from_wire(ids)),
        _ => Err(length_error(&tlv)),
    }
}

pub(super) fn emit_hmac_ids(out: &mut Output<'_>, ids: HmacIds<'_>) -> Result<(), NoRoom> {
    ids.iter().try_for_each(|id| out.u16(id))
}

pub(super) fn fmt_random(f: &mut fmt::Formatter<'_>, random: &[u8]) -> fmt::Result {
    write!(f, "random={} bytes", random.len())
}

pub(super) fn fmt_chunks(f: &mut fmt::Formatter<'_>, chunk_types: &[u8]) -> fmt::Result {
    write!(f, "chunks={chunk_types:?}")
}

pub(super) fn fmt_hmac_ids(f: &mut fmt::Formatter<'_>, ids: HmacIds<'_>) -> fmt::Result {
    write!(f, "hmac_algo={ids:?}")
}
