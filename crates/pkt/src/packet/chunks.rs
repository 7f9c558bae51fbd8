//! The chunks (RFC 9260 section 3.3, RFC 8260, RFC 3758, RFC 6525, RFC 4820, RFC 4895, RFC 5061,
//! draft-tuexen-tsvwg-sctp-multipath,
//! draft-ietf-tsvwg-sctp-dtls-chunk).

use super::layout::{Class, Layout, Piece, Space, Width, plain};

/// I, U, B and E of DATA and I-DATA.
const DATA_FLAGS: &[(char, u8)] = &[('I', 8), ('U', 4), ('B', 2), ('E', 1)];
/// R of DTLS.
const RESTART_FLAGS: &[(char, u8)] = &[('R', 1)];
/// T of ABORT and SHUTDOWN COMPLETE.
const TAG_FLAGS: &[(char, u8)] = &[('T', 1)];

const SENT: Width = Width(4, Space::Sent);
const ACKED: Width = Width(4, Space::Acked);
const BLOCK: &[Width] = &[plain(2), plain(2)];

/// INIT and INIT ACK.
const SETUP: &[Piece] = &[
    Piece::Number("tag", Width(4, Space::Tag)),
    Piece::Number("a_rwnd", plain(4)),
    Piece::Number("os", plain(2)),
    Piece::Number("is", plain(2)),
    Piece::Number("tsn", SENT),
    Piece::Unordered,
];

const fn chunk(
    name: &'static str,
    code: u16,
    flags: &'static [(char, u8)],
    pieces: &'static [Piece],
) -> Layout {
    Layout { name, code: Some(code), flags, pieces }
}

/// All of them.
pub(super) const CHUNKS: &[Layout] = &[
    Layout { name: "CHUNK", code: None, flags: &[], pieces: &[Piece::Bytes("val")] },
    chunk(
        "DATA",
        0,
        DATA_FLAGS,
        &[
            Piece::Number("tsn", SENT),
            Piece::Number("sid", plain(2)),
            Piece::Number("ssn", plain(2)),
            Piece::Number("ppid", plain(4)),
            Piece::Payload,
        ],
    ),
    chunk("INIT", 1, &[], SETUP),
    chunk("INIT_ACK", 2, &[], SETUP),
    chunk(
        "SACK",
        3,
        &[],
        &[
            Piece::Number("cum_tsn", ACKED),
            Piece::Number("a_rwnd", plain(4)),
            Piece::Count("gaps", 2),
            Piece::Count("dups", 2),
            Piece::List("gaps", BLOCK),
            Piece::List("dups", &[ACKED]),
        ],
    ),
    chunk("HEARTBEAT", 4, &[], &[Piece::Items(Class::Parameter)]),
    chunk("HEARTBEAT_ACK", 5, &[], &[Piece::Items(Class::Parameter)]),
    chunk("ABORT", 6, TAG_FLAGS, &[Piece::Items(Class::Cause)]),
    chunk("SHUTDOWN", 7, &[], &[Piece::Number("cum_tsn", ACKED)]),
    chunk("SHUTDOWN_ACK", 8, &[], &[]),
    chunk("ERROR", 9, &[], &[Piece::Items(Class::Cause)]),
    chunk("COOKIE_ECHO", 10, &[], &[Piece::Bytes("val")]),
    chunk("COOKIE_ACK", 11, &[], &[]),
    chunk("ECNE", 12, &[], &[Piece::Number("tsn", ACKED)]),
    // The longer form.
    chunk(
        "ECNE_COUNT",
        12,
        &[],
        &[Piece::Number("tsn", ACKED), Piece::Number("packets", plain(4))],
    ),
    chunk("CWR", 13, &[], &[Piece::Number("tsn", SENT)]),
    chunk("SHUTDOWN_COMPLETE", 14, TAG_FLAGS, &[]),
    chunk(
        "AUTH",
        15,
        &[],
        &[
            Piece::Number("key_id", plain(2)),
            Piece::Number("hmac_id", plain(2)),
            Piece::Bytes("val"),
        ],
    ),
    chunk(
        "NR_SACK",
        16,
        &[],
        &[
            Piece::Number("cum_tsn", ACKED),
            Piece::Number("a_rwnd", plain(4)),
            Piece::Count("gaps", 2),
            Piece::Count("nr_gaps", 2),
            Piece::Count("dups", 2),
            Piece::Reserved(2),
            Piece::List("gaps", BLOCK),
            Piece::List("nr_gaps", BLOCK),
            Piece::List("dups", &[ACKED]),
        ],
    ),
    chunk(
        "I_DATA",
        64,
        DATA_FLAGS,
        &[
            Piece::Number("tsn", SENT),
            Piece::Number("sid", plain(2)),
            Piece::Reserved(2),
            Piece::Number("mid", plain(4)),
            Piece::Either("ppid", "fsn"),
            Piece::Payload,
        ],
    ),
    chunk("DTLS", 0x41, RESTART_FLAGS, &[Piece::Reserved(1), Piece::Bytes("val")]),
    chunk(
        "ASCONF_ACK",
        128,
        &[],
        &[Piece::Number("serial", ACKED), Piece::Items(Class::Parameter)],
    ),
    chunk("RECONFIG", 130, &[], &[Piece::Items(Class::Parameter)]),
    chunk("PAD", 132, &[], &[Piece::Bytes("val")]),
    chunk("FORWARD_TSN", 192, &[], &[Piece::Number("cum_tsn", SENT), Piece::Set("ids", BLOCK)]),
    chunk("ASCONF", 193, &[], &[Piece::Number("serial", SENT), Piece::Items(Class::Parameter)]),
    chunk(
        "I_FORWARD_TSN",
        194,
        &[],
        &[Piece::Number("cum_tsn", SENT), Piece::Set("ids", &[plain(2), plain(2), plain(4)])],
    ),
];
