//! The dispatcher: any error cause.

use super::unrecognized::{self, ParameterTypes};
use super::{abort, address, codes, cookie, data};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::numbers::{StreamId, Tsn};
use crate::tlv::Tlv;
use core::fmt;

/// An error cause of any code. Bytes beyond the last field of a cause of fixed length are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause<'a> {
    /// DATA on a stream that does not exist (1).
    InvalidStreamIdentifier(StreamId),
    /// An INIT or INIT ACK lacks parameters of these types (2).
    MissingMandatoryParameter(ParameterTypes<'a>),
    /// The cookie is valid but too old (3).
    StaleCookie {
        /// Microseconds since it expired, zero if not told.
        staleness_us: u32,
    },
    /// The sender cannot serve the association (4).
    OutOfResource,
    /// The address parameter, complete, is of no use to the sender (5).
    UnresolvableAddress(&'a [u8]),
    /// The chunk, complete, is of unknown type (6).
    UnrecognizedChunkType(&'a [u8]),
    /// A fixed field of INIT or INIT ACK has an impossible value (7).
    InvalidMandatoryParameter,
    /// Parameters of an INIT ACK, complete, that are of unknown type (8).
    UnrecognizedParameters(&'a [u8]),
    /// The DATA chunk with this TSN carries no data (9).
    NoUserData(Tsn),
    /// A COOKIE ECHO came in the SHUTDOWN-ACK-SENT state (10).
    CookieReceivedWhileShuttingDown,
    /// An INIT on an association names these address parameters, complete, that are new (11).
    RestartWithNewAddresses(&'a [u8]),
    /// The user aborted, with this reason (12).
    UserInitiatedAbort(&'a [u8]),
    /// The peer broke the protocol; the bytes may say how (13).
    ProtocolViolation(&'a [u8]),
    /// The INIT or INIT ACK has no DTLS Key Management parameter (100).
    MissingDtlsSupport,
    /// No DTLS key management method is known to both ends (101).
    NoCommonKeyManagement,
    /// Both ends chose the same tie breaker (102).
    TieBreakerCollision,
    /// Both ends can only be client, or only server (103).
    IncompatibleRoles,
    /// The request, complete, would delete the last address (0xA0).
    DeleteLastAddress(&'a [u8]),
    /// There are no resources for the request, complete (0xA1).
    ResourceShortage(&'a [u8]),
    /// The request, complete, would delete the source of its packet (0xA2).
    DeleteSourceAddress(&'a [u8]),
    /// An ASCONF-ACK acknowledges what was never sent (0xA3).
    IllegalAsconfAck,
    /// The request, complete, is not allowed (0xA4).
    NoAuthorization(&'a [u8]),
    /// An AUTH chunk has an HMAC Identifier that was not offered (0x105).
    UnsupportedHmac(u16),
    /// A cause of another code.
    Unknown {
        /// Cause code.
        code: u16,
        /// Cause-specific information.
        value: &'a [u8],
    },
}

impl<'a> Cause<'a> {
    pub(super) fn parse(tlv: Tlv<'a>) -> Result<Self, ParseError> {
        match tlv.kind {
            codes::INVALID_STREAM_IDENTIFIER => {
                data::parse_stream(tlv).map(Self::InvalidStreamIdentifier)
            }
            codes::MISSING_MANDATORY_PARAMETER => {
                unrecognized::parse_missing(tlv).map(Self::MissingMandatoryParameter)
            }
            codes::STALE_COOKIE => {
                cookie::parse_staleness(tlv).map(|staleness_us| Self::StaleCookie { staleness_us })
            }
            codes::OUT_OF_RESOURCE => Ok(Self::OutOfResource),
            codes::UNRESOLVABLE_ADDRESS => Ok(Self::UnresolvableAddress(tlv.value)),
            codes::UNRECOGNIZED_CHUNK_TYPE => Ok(Self::UnrecognizedChunkType(tlv.value)),
            codes::INVALID_MANDATORY_PARAMETER => Ok(Self::InvalidMandatoryParameter),
            codes::UNRECOGNIZED_PARAMETERS => Ok(Self::UnrecognizedParameters(tlv.value)),
            codes::NO_USER_DATA => data::parse_tsn(tlv).map(Self::NoUserData),
            codes::COOKIE_RECEIVED_WHILE_SHUTTING_DOWN => Ok(Self::CookieReceivedWhileShuttingDown),
            codes::RESTART_WITH_NEW_ADDRESSES => Ok(Self::RestartWithNewAddresses(tlv.value)),
            codes::USER_INITIATED_ABORT => Ok(Self::UserInitiatedAbort(tlv.value)),
            codes::PROTOCOL_VIOLATION => Ok(Self::ProtocolViolation(tlv.value)),
            codes::MISSING_DTLS_SUPPORT => Ok(Self::MissingDtlsSupport),
            codes::NO_COMMON_KEY_MANAGEMENT => Ok(Self::NoCommonKeyManagement),
            codes::TIE_BREAKER_COLLISION => Ok(Self::TieBreakerCollision),
            codes::INCOMPATIBLE_ROLES => Ok(Self::IncompatibleRoles),
            codes::DELETE_LAST_ADDRESS => Ok(Self::DeleteLastAddress(tlv.value)),
            codes::RESOURCE_SHORTAGE => Ok(Self::ResourceShortage(tlv.value)),
            codes::DELETE_SOURCE_ADDRESS => Ok(Self::DeleteSourceAddress(tlv.value)),
            codes::ILLEGAL_ASCONF_ACK => Ok(Self::IllegalAsconfAck),
            codes::NO_AUTHORIZATION => Ok(Self::NoAuthorization(tlv.value)),
            codes::UNSUPPORTED_HMAC => data::parse_u16(tlv).map(Self::UnsupportedHmac),
            code => Ok(Self::Unknown { code, value: tlv.value }),
        }
    }

    /// Cause code.
    pub const fn code(&self) -> u16 {
        match self {
            Self::InvalidStreamIdentifier(_) => codes::INVALID_STREAM_IDENTIFIER,
            Self::MissingMandatoryParameter(_) => codes::MISSING_MANDATORY_PARAMETER,
            Self::StaleCookie { .. } => codes::STALE_COOKIE,
            Self::OutOfResource => codes::OUT_OF_RESOURCE,
            Self::UnresolvableAddress(_) => codes::UNRESOLVABLE_ADDRESS,
            Self::UnrecognizedChunkType(_) => codes::UNRECOGNIZED_CHUNK_TYPE,
            Self::InvalidMandatoryParameter => codes::INVALID_MANDATORY_PARAMETER,
            Self::UnrecognizedParameters(_) => codes::UNRECOGNIZED_PARAMETERS,
            Self::NoUserData(_) => codes::NO_USER_DATA,
            Self::CookieReceivedWhileShuttingDown => codes::COOKIE_RECEIVED_WHILE_SHUTTING_DOWN,
            Self::RestartWithNewAddresses(_) => codes::RESTART_WITH_NEW_ADDRESSES,
            Self::UserInitiatedAbort(_) => codes::USER_INITIATED_ABORT,
            Self::ProtocolViolation(_) => codes::PROTOCOL_VIOLATION,
            Self::MissingDtlsSupport => codes::MISSING_DTLS_SUPPORT,
            Self::NoCommonKeyManagement => codes::NO_COMMON_KEY_MANAGEMENT,
            Self::TieBreakerCollision => codes::TIE_BREAKER_COLLISION,
            Self::IncompatibleRoles => codes::INCOMPATIBLE_ROLES,
            Self::DeleteLastAddress(_) => codes::DELETE_LAST_ADDRESS,
            Self::ResourceShortage(_) => codes::RESOURCE_SHORTAGE,
            Self::DeleteSourceAddress(_) => codes::DELETE_SOURCE_ADDRESS,
            Self::IllegalAsconfAck => codes::ILLEGAL_ASCONF_ACK,
            Self::NoAuthorization(_) => codes::NO_AUTHORIZATION,
            Self::UnsupportedHmac(_) => codes::UNSUPPORTED_HMAC,
            Self::Unknown { code, .. } => *code,
        }
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block(self.code().to_be_bytes(), |out| self.emit_value(out))
    }

    fn emit_value(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        match self {
            Self::InvalidStreamIdentifier(stream) => data::emit_stream(out, *stream),
            Self::MissingMandatoryParameter(types) => unrecognized::emit_missing(out, *types),
            Self::StaleCookie { staleness_us } => out.u32(*staleness_us),
            Self::NoUserData(tsn) => out.u32(tsn.0),
            Self::UnsupportedHmac(id) => out.u16(*id),
            Self::UnresolvableAddress(bytes)
            | Self::UnrecognizedChunkType(bytes)
            | Self::UnrecognizedParameters(bytes)
            | Self::RestartWithNewAddresses(bytes)
            | Self::UserInitiatedAbort(bytes)
            | Self::ProtocolViolation(bytes)
            | Self::DeleteLastAddress(bytes)
            | Self::ResourceShortage(bytes)
            | Self::DeleteSourceAddress(bytes)
            | Self::NoAuthorization(bytes)
            | Self::Unknown { value: bytes, .. } => out.bytes(bytes),
            Self::OutOfResource
            | Self::InvalidMandatoryParameter
            | Self::IllegalAsconfAck
            | Self::MissingDtlsSupport
            | Self::NoCommonKeyManagement
            | Self::TieBreakerCollision
            | Self::IncompatibleRoles
            | Self::CookieReceivedWhileShuttingDown => Ok(()),
        }
    }
}

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidStreamIdentifier(stream) => {
                write!(f, "invalid stream identifier {}", stream.0)
            }
            Self::MissingMandatoryParameter(types) => {
                write!(f, "missing mandatory parameters {types:?}")
            }
            Self::StaleCookie { staleness_us } => cookie::fmt_staleness(f, *staleness_us),
            Self::OutOfResource => f.write_str("out of resource"),
            Self::UnresolvableAddress(bytes) => address::fmt(f, "unresolvable address", bytes),
            Self::UnrecognizedChunkType(chunk) => unrecognized::fmt_chunk(f, chunk),
            Self::InvalidMandatoryParameter => f.write_str("invalid mandatory parameter"),
            Self::UnrecognizedParameters(bytes) => unrecognized::fmt_parameters(f, bytes),
            Self::NoUserData(tsn) => write!(f, "no user data in tsn {}", tsn.0),
            Self::CookieReceivedWhileShuttingDown => {
                f.write_str("cookie received while shutting down")
            }
            Self::RestartWithNewAddresses(bytes) => {
                address::fmt(f, "restart with new addresses", bytes)
            }
            Self::UserInitiatedAbort(reason) => abort::fmt(f, "user-initiated abort", reason),
            Self::ProtocolViolation(text) => abort::fmt(f, "protocol violation", text),
            Self::MissingDtlsSupport => f.write_str("missing DTLS chunk support"),
            Self::NoCommonKeyManagement => f.write_str("no common DTLS key management method"),
            Self::TieBreakerCollision => f.write_str("DTLS key management tie breaker collision"),
            Self::IncompatibleRoles => f.write_str("incompatible DTLS key management roles"),
            Self::DeleteLastAddress(request) => {
                address::fmt(f, "request to delete the last address", request)
            }
            Self::ResourceShortage(request) => address::fmt(f, "resource shortage", request),
            Self::DeleteSourceAddress(request) => {
                address::fmt(f, "request to delete the source address", request)
            }
            Self::IllegalAsconfAck => f.write_str("illegal ASCONF-ACK"),
            Self::NoAuthorization(request) => address::fmt(f, "no authorization", request),
            Self::UnsupportedHmac(id) => write!(f, "unsupported HMAC identifier {id}"),
            Self::Unknown { code, value } => {
                write!(f, "unknown cause {code}, {} bytes", value.len())
            }
        }
    }
}
