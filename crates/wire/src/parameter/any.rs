//! The dispatcher: any parameter.

use super::address::{self, AddressTypes};
use super::address_configuration::{self as configuration, AddressRequest, ErrorIndication};
use super::authentication::{self, HmacIds};
use super::key_management::{self, KeyManagement};
use super::reconfiguration::{
    self, AddStreams, IncomingSsnReset, OutgoingSsnReset, ReConfigResponse,
};
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
    /// Outgoing SSN Reset Request (13).
    OutgoingSsnReset(OutgoingSsnReset<'a>),
    /// Incoming SSN Reset Request (14).
    IncomingSsnReset(IncomingSsnReset<'a>),
    /// SSN/TSN Reset Request (15).
    SsnTsnReset {
        /// Re-configuration Request Sequence Number.
        request: u32,
    },
    /// Re-configuration Response (16).
    ReConfigResponse(ReConfigResponse),
    /// Add Outgoing Streams Request (17).
    AddOutgoingStreams(AddStreams),
    /// Add Incoming Streams Request (18).
    AddIncomingStreams(AddStreams),
    /// ECN Capable (0x8000).
    EcnCapable,
    /// Zero Checksum Acceptable (0x8001): an Error Detection Method Identifier.
    ZeroChecksumAcceptable(u32),
    /// Random (0x8002): a random number, of 32 bytes if it is to be of use.
    Random(&'a [u8]),
    /// Chunk List (0x8003): chunk types that the sender wants to be authenticated.
    Chunks(&'a [u8]),
    /// Requested HMAC Algorithm (0x8004).
    HmacAlgo(HmacIds<'a>),
    /// DTLS Key Management (0x8006).
    KeyManagement(KeyManagement<'a>),
    /// Supported Extensions (0x8008): chunk types.
    SupportedExtensions(&'a [u8]),
    /// Resumption (0x9092, not registered): a ticket, or nothing (see [`types::RESUMPTION`]).
    Resumption(&'a [u8]),
    /// Forward-TSN-Supported (0xC000).
    ForwardTsnSupported,
    /// Add IP Address (0xC001).
    AddIpAddress(AddressRequest),
    /// Delete IP Address (0xC002).
    DeleteIpAddress(AddressRequest),
    /// Error Cause Indication (0xC003).
    ErrorIndication(ErrorIndication<'a>),
    /// Set Primary Address (0xC004).
    SetPrimaryAddress(AddressRequest),
    /// Success Indication (0xC005): ASCONF-Response Correlation ID.
    SuccessIndication(u32),
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
            types::OUTGOING_SSN_RESET..=types::ADD_INCOMING_STREAMS => {
                Self::parse_reconfiguration(tlv)
            }
            types::ECN_CAPABLE => capability::parse_flag(tlv).map(|()| Self::EcnCapable),
            types::ZERO_CHECKSUM_ACCEPTABLE => {
                unrecognized::parse_u32(tlv).map(Self::ZeroChecksumAcceptable)
            }
            types::RANDOM => Ok(Self::Random(tlv.value)),
            types::CHUNKS => Ok(Self::Chunks(tlv.value)),
            types::HMAC_ALGO => authentication::parse_hmac_ids(tlv).map(Self::HmacAlgo),
            types::KEY_MANAGEMENT => key_management::parse(tlv).map(Self::KeyManagement),
            types::SUPPORTED_EXTENSIONS => Ok(Self::SupportedExtensions(tlv.value)),
            types::RESUMPTION => Ok(Self::Resumption(tlv.value)),
            types::FORWARD_TSN_SUPPORTED => {
                capability::parse_flag(tlv).map(|()| Self::ForwardTsnSupported)
            }
            types::ADD_IP_ADDRESS => configuration::parse_request(tlv).map(Self::AddIpAddress),
            types::DELETE_IP_ADDRESS => {
                configuration::parse_request(tlv).map(Self::DeleteIpAddress)
            }
            types::ERROR_CAUSE_INDICATION => {
                configuration::parse_error(tlv).map(Self::ErrorIndication)
            }
            types::SET_PRIMARY_ADDRESS => {
                configuration::parse_request(tlv).map(Self::SetPrimaryAddress)
            }
            types::SUCCESS_INDICATION => unrecognized::parse_u32(tlv).map(Self::SuccessIndication),
            types::ADAPTATION_INDICATION => {
                capability::parse_adaptation(tlv).map(Self::AdaptationIndication)
            }
            _ => Ok(Self::Unknown(UnknownParameter::parse(tlv))),
        }
    }

    fn parse_reconfiguration(tlv: Tlv<'a>) -> Result<Self, ParseError> {
        match tlv.kind {
            types::OUTGOING_SSN_RESET => {
                reconfiguration::parse_outgoing(tlv).map(Self::OutgoingSsnReset)
            }
            types::INCOMING_SSN_RESET => {
                reconfiguration::parse_incoming(tlv).map(Self::IncomingSsnReset)
            }
            types::SSN_TSN_RESET => {
                unrecognized::parse_u32(tlv).map(|request| Self::SsnTsnReset { request })
            }
            types::RECONFIG_RESPONSE => {
                reconfiguration::parse_response(tlv).map(Self::ReConfigResponse)
            }
            types::ADD_OUTGOING_STREAMS => {
                reconfiguration::parse_add(tlv).map(Self::AddOutgoingStreams)
            }
            _ => reconfiguration::parse_add(tlv).map(Self::AddIncomingStreams),
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
            Self::OutgoingSsnReset(_) => types::OUTGOING_SSN_RESET,
            Self::IncomingSsnReset(_) => types::INCOMING_SSN_RESET,
            Self::SsnTsnReset { .. } => types::SSN_TSN_RESET,
            Self::ReConfigResponse(_) => types::RECONFIG_RESPONSE,
            Self::AddOutgoingStreams(_) => types::ADD_OUTGOING_STREAMS,
            Self::AddIncomingStreams(_) => types::ADD_INCOMING_STREAMS,
            Self::EcnCapable => types::ECN_CAPABLE,
            Self::ZeroChecksumAcceptable(_) => types::ZERO_CHECKSUM_ACCEPTABLE,
            Self::Random(_) => types::RANDOM,
            Self::Chunks(_) => types::CHUNKS,
            Self::HmacAlgo(_) => types::HMAC_ALGO,
            Self::KeyManagement(_) => types::KEY_MANAGEMENT,
            Self::SupportedExtensions(_) => types::SUPPORTED_EXTENSIONS,
            Self::Resumption(_) => types::RESUMPTION,
            Self::ForwardTsnSupported => types::FORWARD_TSN_SUPPORTED,
            Self::AddIpAddress(_) => types::ADD_IP_ADDRESS,
            Self::DeleteIpAddress(_) => types::DELETE_IP_ADDRESS,
            Self::ErrorIndication(_) => types::ERROR_CAUSE_INDICATION,
            Self::SetPrimaryAddress(_) => types::SET_PRIMARY_ADDRESS,
            Self::SuccessIndication(_) => types::SUCCESS_INDICATION,
            Self::AdaptationIndication(_) => types::ADAPTATION_INDICATION,
            Self::Unknown(parameter) => parameter.parameter_type,
        }
    }

    pub(crate) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
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
            | Self::Random(bytes)
            | Self::Chunks(bytes)
            | Self::SupportedExtensions(bytes)
            | Self::Resumption(bytes) => out.bytes(bytes),
            Self::SupportedAddressTypes(types) => address::emit_types(out, *types),
            Self::CookiePreservative(number)
            | Self::SsnTsnReset { request: number }
            | Self::ZeroChecksumAcceptable(number)
            | Self::SuccessIndication(number)
            | Self::AdaptationIndication(number) => out.u32(*number),
            Self::OutgoingSsnReset(reset) => reconfiguration::emit_outgoing(out, reset),
            Self::IncomingSsnReset(reset) => reconfiguration::emit_incoming(out, reset),
            Self::ReConfigResponse(response) => reconfiguration::emit_response(out, response),
            Self::AddOutgoingStreams(add) | Self::AddIncomingStreams(add) => {
                reconfiguration::emit_add(out, *add)
            }
            Self::KeyManagement(parameter) => key_management::emit(out, parameter),
            Self::HmacAlgo(ids) => authentication::emit_hmac_ids(out, *ids),
            Self::AddIpAddress(request)
            | Self::DeleteIpAddress(request)
            | Self::SetPrimaryAddress(request) => configuration::emit_request(out, *request),
            Self::ErrorIndication(error) => configuration::emit_error(out, error),
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
            Self::OutgoingSsnReset(reset) => reset.fmt(f),
            Self::IncomingSsnReset(reset) => reset.fmt(f),
            Self::SsnTsnReset { request } => write!(f, "ssn_tsn_reset request={request}"),
            Self::ReConfigResponse(response) => response.fmt(f),
            Self::AddOutgoingStreams(add) => write!(f, "add_outgoing_streams {add}"),
            Self::AddIncomingStreams(add) => write!(f, "add_incoming_streams {add}"),
            Self::EcnCapable => f.write_str("ecn_capable"),
            Self::ZeroChecksumAcceptable(method) => {
                write!(f, "zero_checksum_acceptable method={method:#010x}")
            }
            Self::Random(random) => authentication::fmt_random(f, random),
            Self::Chunks(types) => authentication::fmt_chunks(f, types),
            Self::HmacAlgo(ids) => authentication::fmt_hmac_ids(f, *ids),
            Self::AddIpAddress(request) => write!(f, "add_ip_address {request}"),
            Self::DeleteIpAddress(request) => write!(f, "delete_ip_address {request}"),
            Self::ErrorIndication(error) => error.fmt(f),
            Self::SetPrimaryAddress(request) => write!(f, "set_primary_address {request}"),
            Self::SuccessIndication(correlation) => {
                write!(f, "success correlation={correlation}")
            }
            Self::KeyManagement(parameter) => parameter.fmt(f),
            Self::SupportedExtensions(types) => capability::fmt_extensions(f, types),
            Self::Resumption(ticket) => key_management::fmt_ticket(f, ticket),
            Self::ForwardTsnSupported => f.write_str("forward_tsn_supported"),
            Self::AdaptationIndication(code) => capability::fmt_adaptation(f, *code),
            Self::Unknown(parameter) => parameter.fmt(f),
        }
    }
}
