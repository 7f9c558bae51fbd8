//! Parameters about addresses: IPv4 Address, IPv6 Address, Host Name Address, Supported Address
//! Types (RFC 9260 section 3.3.2.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Type = 5            |          Length = 8           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                         IPv4 Address                          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Type = 6            |          Length = 20          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! |                         IPv6 Address                          |
//! |                                                               |
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Type = 11           |            Length             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! /                           Host Name                           /
//! \                                                               \
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Type = 12           |            Length             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        Address Type #1        |        Address Type #2        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                            ......                             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::unrecognized::length_error;
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::list::List;
use crate::tlv::Tlv;
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

/// Types of address parameters ([`types::IPV4_ADDRESS`](super::types::IPV4_ADDRESS) and
/// [`types::IPV6_ADDRESS`](super::types::IPV6_ADDRESS)).
pub type AddressTypes<'a> = List<'a, u16>;

pub(super) fn parse_ipv4(tlv: Tlv<'_>) -> Result<Ipv4Addr, ParseError> {
    let octets: [u8; 4] = tlv.value.try_into().map_err(|_| length_error(&tlv))?;
    Ok(octets.into())
}

pub(super) fn parse_ipv6(tlv: Tlv<'_>) -> Result<Ipv6Addr, ParseError> {
    let octets: [u8; 16] = tlv.value.try_into().map_err(|_| length_error(&tlv))?;
    Ok(octets.into())
}

pub(super) fn parse_types(tlv: Tlv<'_>) -> Result<AddressTypes<'_>, ParseError> {
    match tlv.value.as_chunks() {
        (types, []) => Ok(List::from_wire(types)),
        _ => Err(length_error(&tlv)),
    }
}

pub(super) fn emit_types(out: &mut Output<'_>, types: AddressTypes<'_>) -> Result<(), NoRoom> {
    types.iter().try_for_each(|address_type| out.u16(address_type))
}

pub(super) fn fmt_types(f: &mut fmt::Formatter<'_>, types: AddressTypes<'_>) -> fmt::Result {
    write!(f, "supported_address_types={types:?}")
}

pub(super) fn fmt_host_name(f: &mut fmt::Formatter<'_>, name: &[u8]) -> fmt::Result {
    write!(f, "host_name=\"{}\"", name.escape_ascii())
}
