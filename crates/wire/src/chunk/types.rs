//! Chunk types (RFC 9260 section 3.2, table 1), as they stand in a chunk's first byte and in the
//! Supported Extensions parameter.

/// Payload Data.
pub const DATA: u8 = 0;
/// Initiation.
pub const INIT: u8 = 1;
/// Initiation Acknowledgement.
pub const INIT_ACK: u8 = 2;
/// Selective Acknowledgement.
pub const SACK: u8 = 3;
/// Heartbeat Request.
pub const HEARTBEAT: u8 = 4;
/// Heartbeat Acknowledgement.
pub const HEARTBEAT_ACK: u8 = 5;
/// Abort Association.
pub const ABORT: u8 = 6;
/// Shutdown Association.
pub const SHUTDOWN: u8 = 7;
/// Shutdown Acknowledgement.
pub const SHUTDOWN_ACK: u8 = 8;
/// Operation Error.
pub const ERROR: u8 = 9;
/// State Cookie.
pub const COOKIE_ECHO: u8 = 10;
/// Cookie Acknowledgement.
pub const COOKIE_ACK: u8 = 11;
/// Explicit Congestion Notification Echo.
pub const ECNE: u8 = 12;
/// Congestion Window Reduced.
pub const CWR: u8 = 13;
/// Shutdown Complete.
pub const SHUTDOWN_COMPLETE: u8 = 14;
/// Authentication (RFC 4895 section 5.1).
pub const AUTH: u8 = 15;
/// Selective Acknowledgement with non-renegable blocks
/// (draft-tuexen-tsvwg-sctp-multipath section 3.2).
pub const NR_SACK: u8 = 16;
/// Payload Data supporting Interleaving (RFC 8260 section 2.1).
pub const I_DATA: u8 = 64;
/// DTLS chunk (draft-ietf-tsvwg-sctp-dtls-chunk section 4.2).
pub const DTLS: u8 = 0x41;
/// Address Configuration Acknowledgment (RFC 5061 section 4.1.2).
pub const ASCONF_ACK: u8 = 0x80;
/// Re-configuration (RFC 6525 section 3.1).
pub const RE_CONFIG: u8 = 130;
/// Padding (RFC 4820 section 3).
pub const PAD: u8 = 0x84;
/// Forward Cumulative TSN (RFC 3758 section 3.2).
pub const FORWARD_TSN: u8 = 192;
/// Address Configuration Change (RFC 5061 section 4.1.1).
pub const ASCONF: u8 = 0xC1;
/// Forward Cumulative TSN supporting Interleaving (RFC 8260 section 2.3.1).
pub const I_FORWARD_TSN: u8 = 194;
