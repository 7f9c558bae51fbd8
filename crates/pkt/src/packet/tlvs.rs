//! The parameters (RFC 9260 sections 3.3.2 and 3.3.3 and the extensions) and error causes (section
//! 3.3.10).

use super::layout::{Class, Layout, Piece, Space, Width, plain};

const SENT: Width = Width(4, Space::Sent);
const ACKED: Width = Width(4, Space::Acked);

const fn tlv(name: &'static str, code: u16, pieces: &'static [Piece]) -> Layout {
    Layout { name, code: Some(code), flags: &[], pieces }
}

const fn generic(name: &'static str, pieces: &'static [Piece]) -> Layout {
    Layout { name, code: None, flags: &[], pieces }
}

/// All parameters.
pub(super) const PARAMETERS: &[Layout] = &[
    generic("PARAMETER", &[Piece::Bytes("val")]),
    tlv("HEARTBEAT_INFORMATION", 1, &[Piece::Bytes("val")]),
    tlv("IPV4_ADDRESS", 5, &[Piece::Address("addr")]),
    tlv("IPV6_ADDRESS", 6, &[Piece::Address("addr")]),
    tlv("STATE_COOKIE", 7, &[Piece::Bytes("val")]),
    tlv("UNRECOGNIZED_PARAMETER", 8, &[Piece::Under("params", Class::Parameter)]),
    tlv("COOKIE_PRESERVATIVE", 9, &[Piece::Number("incr", plain(4))]),
    tlv("HOSTNAME_ADDRESS", 11, &[Piece::Bytes("addr")]),
    tlv("SUPPORTED_ADDRESS_TYPES", 12, &[Piece::Types("types", 2)]),
    tlv(
        "OUTGOING_SSN_RESET",
        13,
        &[
            Piece::Number("req_sn", SENT),
            Piece::Number("resp_sn", ACKED),
            Piece::Number("last_tsn", SENT),
            Piece::List("sids", &[plain(2)]),
        ],
    ),
    tlv(
        "INCOMING_SSN_RESET",
        14,
        &[Piece::Number("req_sn", SENT), Piece::List("sids", &[plain(2)])],
    ),
    tlv("SSN_TSN_RESET", 15, &[Piece::Number("req_sn", SENT)]),
    tlv(
        "RECONFIG_RESPONSE",
        16,
        &[
            Piece::Number("resp_sn", ACKED),
            Piece::Number("result", plain(4)),
            // Both or none: see `build::optional`.
            Piece::Number("sender_next_tsn", SENT),
            Piece::Number("receiver_next_tsn", ACKED),
        ],
    ),
    tlv(
        "ADD_OUTGOING_STREAMS",
        17,
        &[
            Piece::Number("req_sn", SENT),
            Piece::Number("number_of_new_streams", plain(2)),
            Piece::Reserved(2),
        ],
    ),
    tlv(
        "ADD_INCOMING_STREAMS",
        18,
        &[
            Piece::Number("req_sn", SENT),
            Piece::Number("number_of_new_streams", plain(2)),
            Piece::Reserved(2),
        ],
    ),
    generic("RECONFIG_REQUEST_GENERIC", &[Piece::Number("req_sn", SENT), Piece::Bytes("val")]),
    tlv("ECN_CAPABLE", 0x8000, &[]),
    tlv("ZERO_CHECKSUM_ACCEPTABLE", 0x8001, &[Piece::Number("edmid", plain(4))]),
    tlv("RANDOM", 0x8002, &[Piece::Bytes("val")]),
    tlv("CHUNKS", 0x8003, &[Piece::Types("types", 1)]),
    tlv("HMAC_ALGO", 0x8004, &[Piece::List("ids", &[plain(2)])]),
    tlv("PAD", 0x8005, &[Piece::Bytes("val")]),
    tlv(
        "KEY_MANAGEMENT",
        0x8006,
        &[
            Piece::Number("tie_breaker", plain(4)),
            Piece::Number("roles", plain(1)),
            Piece::List("methods", &[plain(1)]),
        ],
    ),
    tlv("SUPPORTED_EXTENSIONS", 0x8008, &[Piece::Types("types", 1)]),
    tlv("RESUMPTION", 0x9092, &[Piece::Bytes("val")]),
    tlv("FORWARD_TSN_SUPPORTED", 0xC000, &[]),
    tlv("ADAPTATION_INDICATION", 0xC006, &[Piece::Number("adaptation_code_point", plain(4))]),
];

/// All error causes.
pub(super) const CAUSES: &[Layout] = &[
    generic("CAUSE", &[Piece::Bytes("info")]),
    tlv("INVALID_STREAM_IDENTIFIER", 1, &[Piece::Number("sid", plain(2)), Piece::Reserved(2)]),
    tlv(
        "MISSING_MANDATORY_PARAMETER",
        2,
        &[Piece::Count("types", 4), Piece::List("types", &[plain(2)])],
    ),
    tlv("STALE_COOKIE_ERROR", 3, &[Piece::Number("staleness", plain(4))]),
    tlv("OUT_OF_RESOURCE", 4, &[]),
    tlv("UNRESOLVABLE_ADDRESS", 5, &[Piece::Under("param", Class::Parameter)]),
    tlv("UNRECOGNIZED_CHUNK_TYPE", 6, &[Piece::Under("chk", Class::Chunk)]),
    tlv("INVALID_MANDATORY_PARAMETER", 7, &[]),
    tlv("UNRECOGNIZED_PARAMETERS", 8, &[Piece::Under("params", Class::Parameter)]),
    tlv("NO_USER_DATA", 9, &[Piece::Number("tsn", ACKED)]),
    tlv("COOKIE_RECEIVED_WHILE_SHUTDOWN", 10, &[]),
    tlv("RESTART_WITH_NEW_ADDRESSES", 11, &[Piece::Under("params", Class::Parameter)]),
    tlv("USER_INITIATED_ABORT", 12, &[Piece::Bytes("info")]),
    tlv("PROTOCOL_VIOLATION", 13, &[Piece::Bytes("info")]),
    tlv("MISSING_DTLS_SUPPORT", 100, &[]),
    tlv("NO_COMMON_KEY_MANAGEMENT", 101, &[]),
    tlv("TIE_BREAKER_COLLISION", 102, &[]),
    tlv("INCOMPATIBLE_ROLES", 103, &[]),
];
