//! Parameter types, as they stand in a parameter's first two bytes and in lists of types.

/// Heartbeat Info (RFC 9260 section 3.3.5).
pub const HEARTBEAT_INFO: u16 = 1;
/// IPv4 Address (RFC 9260 section 3.3.2.1.1).
pub const IPV4_ADDRESS: u16 = 5;
/// IPv6 Address (RFC 9260 section 3.3.2.1.2).
pub const IPV6_ADDRESS: u16 = 6;
/// State Cookie (RFC 9260 section 3.3.3.1.1).
pub const STATE_COOKIE: u16 = 7;
/// Unrecognized Parameter (RFC 9260 section 3.3.3.1.2).
pub const UNRECOGNIZED_PARAMETER: u16 = 8;
/// Cookie Preservative (RFC 9260 section 3.3.2.1.3).
pub const COOKIE_PRESERVATIVE: u16 = 9;
/// Host Name Address, deprecated (RFC 9260 section 3.3.2.1.4).
pub const HOST_NAME_ADDRESS: u16 = 11;
/// Supported Address Types (RFC 9260 section 3.3.2.1.5).
pub const SUPPORTED_ADDRESS_TYPES: u16 = 12;
/// ECN Capable (reserved by RFC 9260 section 3.3.2).
pub const ECN_CAPABLE: u16 = 0x8000;
/// Supported Extensions (RFC 5061 section 4.2.7).
pub const SUPPORTED_EXTENSIONS: u16 = 0x8008;
/// Forward-TSN-Supported (RFC 3758 section 3.1).
pub const FORWARD_TSN_SUPPORTED: u16 = 0xC000;
/// Adaptation Layer Indication (RFC 5061 section 4.2.6).
pub const ADAPTATION_INDICATION: u16 = 0xC006;
