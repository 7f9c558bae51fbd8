//! Parameters of ASCONF and ASCONF-ACK (RFC 5061 section 4.2).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | Type = 0xC001, 0xC002, 0xC004 |    Length = Variable          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |               ASCONF-Request Correlation ID                   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       Address Parameter                       |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    Type = 0xC003              |      Length = Variable        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |             ASCONF-Response Correlation ID                    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |             Error Cause(s) or Success Indication              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        Type = 0xC005          |      Length = 8               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |               ASCONF-Response Correlation ID                  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::address::{parse_ipv4, parse_ipv6};
use super::unrecognized::length_error;
use super::{Parameter, types};
use crate::bytes::{Output, Reader};
use crate::error::{NoRoom, ParseError};
use crate::tlv::{Causes, Tlv, Tlvs};
use core::fmt;
use core::net::IpAddr;

/// A request about an address (RFC 5061 sections 4.2.1, 4.2.2 and 4.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressRequest {
    /// ASCONF-Request Correlation ID.
    pub correlation: u32,
    /// The address; an unspecified one stands for the source of the packet.
    pub address: IpAddr,
}

/// Error Cause Indication (RFC 5061 section 4.2.3): why a request was not fulfilled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorIndication<'a> {
    /// ASCONF-Response Correlation ID: that of the request.
    pub correlation: u32,
    /// The reasons.
    pub causes: Causes<'a>,
}

/// The parameter that lists `address`.
pub const fn address_parameter(address: IpAddr) -> Parameter<'static> {
    match address {
        IpAddr::V4(v4) => Parameter::Ipv4Address(v4),
        IpAddr::V6(v6) => Parameter::Ipv6Address(v6),
    }
}

pub(super) fn parse_request(tlv: Tlv<'_>) -> Result<AddressRequest, ParseError> {
    let mut reader = Reader::new(tlv.value);
    let correlation = reader.u32().ok_or(length_error(&tlv))?;
    let inner = reader.rest();
    let first = Tlvs::new(inner).next().and_then(Result::ok);
    let Some(address) = first.filter(|first| first.raw.len() == inner.len()) else {
        return Err(length_error(&tlv));
    };
    let address = match address.kind {
        types::IPV4_ADDRESS => IpAddr::V4(parse_ipv4(address)?),
        types::IPV6_ADDRESS => IpAddr::V6(parse_ipv6(address)?),
        _ => return Err(length_error(&tlv)),
    };
    Ok(AddressRequest { correlation, address })
}

pub(super) fn parse_error(tlv: Tlv<'_>) -> Result<ErrorIndication<'_>, ParseError> {
    let mut reader = Reader::new(tlv.value);
    let correlation = reader.u32().ok_or(length_error(&tlv))?;
    Ok(ErrorIndication { correlation, causes: Causes::from_bytes(reader.rest()) })
}

pub(super) fn emit_request(out: &mut Output<'_>, request: AddressRequest) -> Result<(), NoRoom> {
    out.u32(request.correlation)?;
    address_parameter(request.address).emit(out)
}

pub(super) fn emit_error(out: &mut Output<'_>, error: &ErrorIndication<'_>) -> Result<(), NoRoom> {
    out.u32(error.correlation)?;
    out.bytes(error.causes.unpadded())
}

impl fmt::Display for AddressRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} correlation={}", self.address, self.correlation)
    }
}

impl fmt::Display for ErrorIndication<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Codes alone: causes hold parameters, which may hold causes, to any depth.
        write!(f, "error correlation={} causes=[", self.correlation)?;
        for (index, cause) in self.causes.iter().map_while(Result::ok).enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}", cause.code())?;
        }
        f.write_str("]")
    }
}
