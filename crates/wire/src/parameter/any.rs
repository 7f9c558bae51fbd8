//! The dispatcher: any parameter.

use super::address::{self, AddressTypes};
use super::unrecognized::{self, UnknownParameter};
use super::{capability, cookie, heartbeat, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::tlv::Tlv;
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

/// A parameter of any type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parameter<'a> {
    /// Heartbeat Info (1): opaque to all but its sender.
    HeartbeatInfo(&'a [u8]),
    /// IPv4 Address (5) of the sending endpoint.
    Ipv4Address(Ipv4Addr),
    /// IPv6 Address (6) of the sending endpoint.
    Ipv6Address(Ipv6Addr),
    /// State Cookie (7): opaque to all but its sender.
    StateCookie(&'a [u8]),
    /// Unrecognized Parameter (8): a parameter of the INIT, complete with type and Length.
    UnrecognizedParameter(&'a [u8]),
    /// Cookie Preservative (9): suggested increment of the cookie's life span in milliseconds.
    CookiePreservative(u32),
    /// Host Name Address (11), to be answered with an ABORT. The name ends with a zero byte.
    HostNameAddress(&'a [u8]),
    /// Supported Address Types (12): types of address parameters.
    SupportedAddressTypes(AddressTypes<'a>),
    /// ECN Capable (0x8000).
    EcnCapable,
    /// Supported Extensions (0x8008): chunk types.
    SupportedExtensions(&'a [u8]),
    /// Forward-TSN-Supported (0xC000).
    ForwardTsnSupported,
    /// Adaptation Layer Indication (0xC006): adaptation code point.
    AdaptationIndication(u32),
    /// A parameter of another type.
    Unknown(UnknownParameter<'a>),
}

impl<'a> Parameter<'a> {
    pub(super) fn parse(tlv: Tlv<'a>) -> Result<Self, ParseError> {
        match tlv.kind {
            types::HEARTBEAT_INFO => Ok(Self::HeartbeatInfo(tlv.value)),
            types::IPV4_ADDRESS => address::parse_ipv4(tlv).map(Self::Ipv4Address),
            types::IPV6_ADDRESS => address::parse_ipv6(tlv).map(Self::Ipv6Address),
            types::STATE_COOKIE => Ok(Self::StateCookie(tlv.value)),
            types::UNRECOGNIZED_PARAMETER => Ok(Self::UnrecognizedParameter(tlv.value)),
            types::COOKIE_PRESERVATIVE => {
                cookie::parse_preservative(tlv).map(Self::CookiePreservative)
            }
            types::HOST_NAME_ADDRESS => Ok(Self::HostNameAddress(tlv.value)),
            types::SUPPORTED_ADDRESS_TYPES => {
                address::parse_types(tlv).map(Self::SupportedAddressTypes)
            }
            types::ECN_CAPABLE => capability::parse_flag(tlv).map(|()| Self::EcnCapable),
            types::SUPPORTED_EXTENSIONS => Ok(Self::SupportedExtensions(tlv.value)),
            types::FORWARD_TSN_SUPPORTED => {
                capability::parse_flag(tlv).map(|()| Self::ForwardTsnSupported)
            }
            types::ADAPTATION_INDICATION => {
                capability::parse_adaptation(tlv).map(Self::AdaptationIndication)
            }
            _ => Ok(Self::Unknown(UnknownParameter::parse(tlv))),
        }
    }

    /// Parameter type as it stands in the parameter's first two bytes.
    pub const fn parameter_type(&self) -> u16 {
        match self {
            Self::HeartbeatInfo(_) => types::HEARTBEAT_INFO,
            Self::Ipv4Address(_) => types::IPV4_ADDRESS,
            Self::Ipv6Address(_) => types::IPV6_ADDRESS,
            Self::StateCookie(_) => types::STATE_COOKIE,
            Self::UnrecognizedParameter(_) => types::UNRECOGNIZED_PARAMETER,
            Self::CookiePreservative(_) => types::COOKIE_PRESERVATIVE,
            Self::HostNameAddress(_) => types::HOST_NAME_ADDRESS,
            Self::SupportedAddressTypes(_) => types::SUPPORTED_ADDRESS_TYPES,
            Self::EcnCapable => types::ECN_CAPABLE,
            Self::SupportedExtensions(_) => types::SUPPORTED_EXTENSIONS,
            Self::ForwardTsnSupported => types::FORWARD_TSN_SUPPORTED,
            Self::AdaptationIndication(_) => types::ADAPTATION_INDICATION,
            Self::Unknown(parameter) => parameter.parameter_type,
        }
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block(self.parameter_type().to_be_bytes(), |out| self.emit_value(out))
    }

    fn emit_value(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        match self {
            Self::Ipv4Address(address) => out.bytes(&address.octets()),
            Self::Ipv6Address(address) => out.bytes(&address.octets()),
            Self::HeartbeatInfo(bytes)
            | Self::StateCookie(bytes)
            | Self::UnrecognizedParameter(bytes)
            | Self::HostNameAddress(bytes)
            | Self::SupportedExtensions(bytes) => out.bytes(bytes),
            Self::SupportedAddressTypes(types) => address::emit_types(out, *types),
            Self::CookiePreservative(number) | Self::AdaptationIndication(number) => {
                out.u32(*number)
            }
            Self::EcnCapable | Self::ForwardTsnSupported => Ok(()),
            Self::Unknown(parameter) => out.bytes(parameter.value),
        }
    }
}

impl fmt::Display for Parameter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeartbeatInfo(info) => heartbeat::fmt(f, info),
            Self::Ipv4Address(address) => write!(f, "address={address}"),
            Self::Ipv6Address(address) => write!(f, "address={address}"),
            Self::StateCookie(bytes) => cookie::fmt_state_cookie(f, bytes),
            Self::UnrecognizedParameter(bytes) => unrecognized::fmt(f, bytes),
            Self::CookiePreservative(increment) => cookie::fmt_preservative(f, *increment),
            Self::HostNameAddress(name) => address::fmt_host_name(f, name),
            Self::SupportedAddressTypes(types) => address::fmt_types(f, *types),
            Self::EcnCapable => f.write_str("ecn_capable"),
            Self::SupportedExtensions(types) => capability::fmt_extensions(f, types),
            Self::ForwardTsnSupported => f.write_str("forward_tsn_supported"),
            Self::AdaptationIndication(code) => capability::fmt_adaptation(f, *code),
            Self::Unknown(parameter) => parameter.fmt(f),
        }
    }
}
