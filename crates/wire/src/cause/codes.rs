//! Cause codes (RFC 9260 section 3.3.10, table 11).

/// Invalid Stream Identifier.
pub const INVALID_STREAM_IDENTIFIER: u16 = 1;
/// Missing Mandatory Parameter.
pub const MISSING_MANDATORY_PARAMETER: u16 = 2;
/// Stale Cookie.
pub const STALE_COOKIE: u16 = 3;
/// Out of Resource.
pub const OUT_OF_RESOURCE: u16 = 4;
/// Unresolvable Address.
pub const UNRESOLVABLE_ADDRESS: u16 = 5;
/// Unrecognized Chunk Type.
pub const UNRECOGNIZED_CHUNK_TYPE: u16 = 6;
/// Invalid Mandatory Parameter.
pub const INVALID_MANDATORY_PARAMETER: u16 = 7;
/// Unrecognized Parameters.
pub const UNRECOGNIZED_PARAMETERS: u16 = 8;
/// No User Data.
pub const NO_USER_DATA: u16 = 9;
/// Cookie Received While Shutting Down.
pub const COOKIE_RECEIVED_WHILE_SHUTTING_DOWN: u16 = 10;
/// Restart of an Association with New Addresses.
pub const RESTART_WITH_NEW_ADDRESSES: u16 = 11;
/// User-Initiated Abort.
pub const USER_INITIATED_ABORT: u16 = 12;
/// Protocol Violation.
pub const PROTOCOL_VIOLATION: u16 = 13;
/// Missing DTLS Chunk Support (draft-ietf-tsvwg-sctp-dtls-chunk section 4.3.1).
pub const MISSING_DTLS_SUPPORT: u16 = 100;
/// No Common DTLS Key Management Method (draft-ietf-tsvwg-sctp-dtls-chunk section 4.3.2).
pub const NO_COMMON_KEY_MANAGEMENT: u16 = 101;
/// DTLS Key Management Tie Breaker Collision (draft-ietf-tsvwg-sctp-dtls-chunk section 4.3.3).
pub const TIE_BREAKER_COLLISION: u16 = 102;
/// Incompatible DTLS Key Management Roles (draft-ietf-tsvwg-sctp-dtls-chunk section 4.3.4).
pub const INCOMPATIBLE_ROLES: u16 = 103;
/// Request to Delete Last Remaining IP Address (RFC 5061 section 4.3.1).
pub const DELETE_LAST_ADDRESS: u16 = 0xA0;
/// Operation Refused Due to Resource Shortage (RFC 5061 section 4.3.2).
pub const RESOURCE_SHORTAGE: u16 = 0xA1;
/// Request to Delete Source IP Address (RFC 5061 section 4.3.3).
pub const DELETE_SOURCE_ADDRESS: u16 = 0xA2;
/// Association Aborted Due to Illegal ASCONF-ACK (RFC 5061 section 4.3.4).
pub const ILLEGAL_ASCONF_ACK: u16 = 0xA3;
/// Request Refused - No Authorization (RFC 5061 section 4.3.5).
pub const NO_AUTHORIZATION: u16 = 0xA4;
/// Unsupported HMAC Identifier (RFC 4895 section 4.1).
pub const UNSUPPORTED_HMAC: u16 = 0x105;
