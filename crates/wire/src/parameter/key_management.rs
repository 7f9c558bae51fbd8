//! DTLS Key Management (draft-ietf-tsvwg-sctp-dtls-chunk section 4.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    Parameter Type = 0x8006    |       Parameter Length        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          Tie Breaker                          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Reserved |R|S|C| DTLS KMId #1  | DTLS KMId #2  | DTLS KMId #3  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! :                                                               :
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::unrecognized::length_error;
use crate::bytes::{Output, Reader};
use crate::error::{NoRoom, ParseError};
use crate::tlv::Tlv;
use core::fmt;

/// What an endpoint says about key management for DTLS chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyManagement<'a> {
    /// Random number that decides who is the server if both ends can be either.
    pub tie_breaker: u32,
    /// [`Self::RESTART`], [`Self::SERVER`] and [`Self::CLIENT`]. The reserved bits are kept as they
    /// came: keys are derived from the bytes of the parameter.
    pub flags: u8,
    /// DTLS Key Management Identifiers in descending order of preference.
    pub methods: &'a [u8],
}

impl KeyManagement<'_> {
    /// R bit: restart is supported.
    pub const RESTART: u8 = 4;
    /// S bit: the server role is supported.
    pub const SERVER: u8 = 2;
    /// C bit: the client role is supported.
    pub const CLIENT: u8 = 1;
}

pub(super) fn parse(tlv: Tlv<'_>) -> Result<KeyManagement<'_>, ParseError> {
    let mut reader = Reader::new(tlv.value);
    let (Some(tie_breaker), Some(&[flags])) = (reader.u32(), reader.bytes(1)) else {
        return Err(length_error(&tlv));
    };
    Ok(KeyManagement { tie_breaker, flags, methods: reader.rest() })
}

pub(super) fn emit(out: &mut Output<'_>, parameter: &KeyManagement<'_>) -> Result<(), NoRoom> {
    out.u32(parameter.tie_breaker)?;
    out.bytes(&[parameter.flags])?;
    out.bytes(parameter.methods)
}

impl fmt::Display for KeyManagement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tie_breaker, flags, methods } = self;
        write!(
            f,
            "key_management tie_breaker={tie_breaker:#010x} flags={flags:#04x} methods={methods:?}"
        )
    }
}

/// The value of a Resumption parameter.
pub(super) fn fmt_ticket(f: &mut fmt::Formatter<'_>, ticket: &[u8]) -> fmt::Result {
    match ticket.len() {
        0 => f.write_str("resumption"),
        len => write!(f, "resumption ticket={len} bytes"),
    }
}
