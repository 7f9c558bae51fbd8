//! Notifications about reset and added streams (RFC 6525 section 6.1).

use super::filled::Filled;
use super::notification::ASSOCIATION;
use manypath_engine::{ReconfigurationOutcome, StreamDirection, StreamId};

/// What every one of them says of its outcome.
fn denied(outcome: ReconfigurationOutcome) -> i64 {
    match outcome {
        ReconfigurationOutcome::Performed => 0,
        ReconfigurationOutcome::Denied => 4,
        ReconfigurationOutcome::Failed => 8,
    }
}

/// A sctp_stream_reset_event.
pub(crate) fn streams_reset(
    direction: StreamDirection,
    streams: &[StreamId],
    outcome: ReconfigurationOutcome,
) -> (Filled, usize) {
    let direction = match direction {
        StreamDirection::Incoming => 1,
        StreamDirection::Outgoing => 2,
    };
    let length = 12 + 2 * streams.len();
    let list = streams.iter().map(|stream| Filled::Int(stream.0.into())).collect();
    let fields = vec![
        ("strreset_type", Filled::Int(9)),
        ("strreset_flags", Filled::Int(direction | denied(outcome))),
        ("strreset_length", Filled::Int(i64::try_from(length).unwrap_or(i64::MAX))),
        ("strreset_assoc_id", Filled::Int(ASSOCIATION)),
        ("strreset_stream_list", Filled::List(list)),
    ];
    (Filled::Struct(fields), length)
}

/// A sctp_assoc_reset_event.
pub(crate) fn reset(outcome: ReconfigurationOutcome, local: u32, peer: u32) -> (Filled, usize) {
    let fields = [
        ("assocreset_type", 12),
        ("assocreset_flags", denied(outcome)),
        ("assocreset_length", 20),
        ("assocreset_assoc_id", ASSOCIATION),
        ("assocreset_local_tsn", local.into()),
        ("assocreset_remote_tsn", peer.into()),
    ];
    (Filled::numbers(fields), 20)
}

/// A sctp_stream_change_event.
pub(crate) fn added(
    outcome: ReconfigurationOutcome,
    outbound: u16,
    inbound: u16,
) -> (Filled, usize) {
    let fields = [
        ("strchange_type", 13),
        ("strchange_flags", denied(outcome)),
        ("strchange_length", 16),
        ("strchange_assoc_id", ASSOCIATION),
        ("strchange_instrms", inbound.into()),
        ("strchange_outstrms", outbound.into()),
    ];
    (Filled::numbers(fields), 16)
}
