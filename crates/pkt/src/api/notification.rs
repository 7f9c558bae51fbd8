//! Notifications (RFC 6458 section 6) and who wants them.

use super::constants::constant;
use super::filled::Filled;
use super::reconfigured::{added, reset, streams_reset};
use bytes::Bytes;
use manypath_engine::{
    CloseReason, KeyChange, Outgoing, PartialMessage, PathState, ReconfigurationOutcome,
    StreamDirection, StreamId, Tsn,
};
use std::collections::BTreeSet;

/// The association id that scripts know: FreeBSD's first one.
pub(crate) const ASSOCIATION: i64 = 3;

/// E and B of the chunk that was given up, as FreeBSD tells them.
const DATA_LAST_FRAG: i64 = 1;
const DATA_FIRST_FRAG: i64 = 2;

/// Something that happened to an association.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Notification {
    /// All that was to be sent is acknowledged.
    Dry,
    /// A message was given up.
    SendFailed {
        /// What is still held of it.
        message: Outgoing,
        /// Whether a part of it was sent.
        sent: bool,
    },
    /// The rest of a message will not come.
    PartialDelivery(PartialMessage),
    /// The peer has reported errors.
    PeerError(Bytes),
    /// A shared key is used differently, or chunks cannot be authenticated with the peer.
    Authentication {
        /// What happened.
        change: KeyChange,
        /// Number of the key.
        key: u16,
    },
    /// Streams were reset, or not.
    StreamsReset {
        /// Whose.
        direction: StreamDirection,
        /// Which; none stand for all.
        streams: Vec<StreamId>,
        /// Whether.
        outcome: ReconfigurationOutcome,
    },
    /// All streams and the TSNs were reset, or not.
    Reset {
        /// Whether.
        outcome: ReconfigurationOutcome,
        /// Our next TSN.
        local_tsn: Tsn,
        /// The peer's next TSN.
        peer_tsn: Tsn,
    },
    /// Streams were added, or not.
    Added {
        /// Whether.
        outcome: ReconfigurationOutcome,
        /// Streams to the peer now.
        outbound_streams: u16,
        /// Streams from the peer now.
        inbound_streams: u16,
    },
    /// It is established.
    Up {
        /// Streams to the peer.
        outbound_streams: u16,
        /// Streams from the peer.
        inbound_streams: u16,
    },
    /// The peer has said what it speaks.
    Adaptation(u32),
    /// A path has changed.
    Path {
        /// Its new state.
        state: PathState,
        /// Whether it has changed before: an address is confirmed only once.
        again: bool,
    },
    /// The peer has begun anew.
    Restart,
    /// The peer sends no more.
    PeerShutdown,
    /// It is over.
    Closed {
        /// Why.
        reason: CloseReason,
        /// Its streams to and from the peer, if it was established.
        streams: Option<(u16, u16)>,
    },
}

/// What a socket wants to be told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscriptions {
    /// Types of notifications.
    pub events: BTreeSet<&'static str>,
    /// Whether messages come with sctp_sndrcvinfo (sctp_data_io_event).
    pub data_io: bool,
    /// Whether messages come with sctp_rcvinfo.
    pub receive_info: bool,
    /// Whether sctp_sndrcvinfo is a sctp_extrcvinfo.
    pub extended_info: bool,
    /// Whether messages come with sctp_nxtinfo.
    pub next_info: bool,
}

impl Subscriptions {
    /// Whether what comes after a message is told with it.
    pub(crate) fn looks_ahead(&self) -> bool {
        self.next_info || self.extended_info
    }
}

impl Notification {
    /// Whether somebody with these subscriptions is told of it.
    pub(crate) fn is_wanted(&self, subscriptions: &Subscriptions) -> bool {
        let old = matches!(self, Self::SendFailed { .. }).then_some("SCTP_SEND_FAILED");
        let mut kinds = std::iter::once(self.kind()).chain(old);
        kinds.any(|kind| subscriptions.events.contains(kind))
    }

    /// The name under which it is subscribed to. What failed to be sent has an old one, too.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Dry => "SCTP_SENDER_DRY_EVENT",
            Self::SendFailed { .. } => "SCTP_SEND_FAILED_EVENT",
            Self::PartialDelivery(_) => "SCTP_PARTIAL_DELIVERY_EVENT",
            Self::PeerError(_) => "SCTP_REMOTE_ERROR",
            Self::Authentication { .. } => "SCTP_AUTHENTICATION_EVENT",
            Self::StreamsReset { .. } => "SCTP_STREAM_RESET_EVENT",
            Self::Reset { .. } => "SCTP_ASSOC_RESET_EVENT",
            Self::Added { .. } => "SCTP_STREAM_CHANGE_EVENT",
            Self::Up { .. } | Self::Restart | Self::Closed { .. } => "SCTP_ASSOC_CHANGE",
            Self::Adaptation(_) => "SCTP_ADAPTATION_INDICATION",
            Self::Path { .. } => "SCTP_PEER_ADDR_CHANGE",
            Self::PeerShutdown => "SCTP_SHUTDOWN_EVENT",
        }
    }

    /// Whether messages that came before it are read before it.
    pub(crate) fn is_after_data(&self) -> bool {
        matches!(self, Self::PeerShutdown | Self::Closed { .. })
    }

    /// The structure that a user with these subscriptions gets, and its length. `own` is how the script
    /// knows a TSN of ours.
    pub(crate) fn filled(
        &self,
        subscriptions: &Subscriptions,
        own: impl Fn(Tsn) -> u32,
    ) -> (Filled, usize) {
        match self {
            Self::SendFailed { message, sent } if !subscriptions.events.contains(self.kind()) => {
                failed_of_old(message, *sent)
            }
            Self::Dry => {
                let fields = [
                    ("sender_dry_type", 10),
                    ("sender_dry_flags", 0),
                    ("sender_dry_length", 12),
                    ("sender_dry_assoc_id", ASSOCIATION),
                ];
                (Filled::numbers(fields), 12)
            }
            Self::SendFailed { message, sent } => failed(message, *sent),
            Self::PartialDelivery(message) => {
                let fields = [
                    ("pdapi_type", 7),
                    ("pdapi_flags", 0),
                    ("pdapi_length", 28),
                    ("pdapi_indication", 1),
                    ("pdapi_stream", message.stream.0.into()),
                    ("pdapi_seq", message.number.into()),
                    ("pdapi_assoc_id", ASSOCIATION),
                ];
                (Filled::numbers(fields), 28)
            }
            Self::PeerError(causes) => peer_error(causes),
            Self::Authentication { change, key } => authentication(*change, *key),
            Self::StreamsReset { direction, streams, outcome } => {
                streams_reset(*direction, streams, *outcome)
            }
            Self::Reset { outcome, local_tsn, peer_tsn } => {
                reset(*outcome, own(*local_tsn), peer_tsn.0)
            }
            Self::Added { outcome, outbound_streams, inbound_streams } => {
                added(*outcome, *outbound_streams, *inbound_streams)
            }
            Self::Up { outbound_streams, inbound_streams } => {
                change(1, (*outbound_streams, *inbound_streams))
            }
            Self::Restart => change(3, (0, 0)),
            Self::Closed { streams: None, .. } => change(5, (0, 0)),
            Self::Closed { reason: CloseReason::Graceful, streams: Some(streams) } => {
                change(4, *streams)
            }
            Self::Closed { streams: Some(streams), .. } => change(2, *streams),
            Self::Adaptation(indication) => {
                let fields = [
                    ("sai_type", 6),
                    ("sai_flags", 0),
                    ("sai_length", 16),
                    ("sai_adaptation_ind", i64::from(*indication)),
                    ("sai_assoc_id", ASSOCIATION),
                ];
                (Filled::numbers(fields), 16)
            }
            Self::Path { state, again } => {
                let state = match state {
                    PathState::Active if *again => 1,
                    PathState::Active => 6,
                    PathState::Unconfirmed => 4,
                    PathState::PotentiallyFailed | PathState::Inactive => 2,
                };
                let fields = [
                    ("spc_type", 2),
                    ("spc_flags", 0),
                    ("spc_length", 152),
                    ("spc_state", state),
                    ("spc_error", 0),
                    ("spc_assoc_id", ASSOCIATION),
                ];
                (Filled::numbers(fields), 152)
            }
            Self::PeerShutdown => {
                let fields = [
                    ("sse_type", 5),
                    ("sse_flags", 0),
                    ("sse_length", 12),
                    ("sse_assoc_id", ASSOCIATION),
                ];
                (Filled::numbers(fields), 12)
            }
        }
    }
}

/// A sctp_send_failed_event.
fn failed(message: &Outgoing, sent: bool) -> (Filled, usize) {
    let length = 32 + message.payload.len();
    let unordered = if message.unordered { constant("SCTP_UNORDERED").unwrap_or(0) } else { 0 };
    let info = Filled::numbers([
        ("snd_sid", message.stream.0.into()),
        ("snd_flags", unordered | DATA_LAST_FRAG | DATA_FIRST_FRAG),
        ("snd_ppid", message.ppid.0.swap_bytes().into()),
        ("snd_context", 0),
        ("snd_assoc_id", ASSOCIATION),
    ]);
    let fields = vec![
        ("ssfe_type", Filled::Int(14)),
        ("ssfe_flags", Filled::Int(if sent { 2 } else { 1 })),
        ("ssfe_length", Filled::Int(i64::try_from(length).unwrap_or(i64::MAX))),
        ("ssfe_error", Filled::Int(0)),
        ("ssfe_info", info),
        ("ssfe_assoc_id", Filled::Int(ASSOCIATION)),
        ("ssfe_data", Filled::Asked),
    ];
    (Filled::Struct(fields), length)
}

/// A sctp_send_failed, which RFC 6458 section 6.1.4 calls deprecated.
fn failed_of_old(message: &Outgoing, sent: bool) -> (Filled, usize) {
    const HEADER: usize = 144;
    let length = HEADER + message.payload.len();
    let unordered = if message.unordered { constant("SCTP_UNORDERED").unwrap_or(0) } else { 0 };
    let info = Filled::numbers([
        ("sinfo_stream", message.stream.0.into()),
        ("sinfo_ssn", 0),
        ("sinfo_flags", unordered | DATA_LAST_FRAG | DATA_FIRST_FRAG),
        ("sinfo_ppid", message.ppid.0.swap_bytes().into()),
        ("sinfo_context", 0),
        ("sinfo_timetolive", 0),
        ("sinfo_tsn", 0),
        ("sinfo_cumtsn", 0),
        ("sinfo_assoc_id", ASSOCIATION),
    ]);
    let fields = vec![
        ("ssf_type", Filled::Int(4)),
        ("ssf_flags", Filled::Int(if sent { 2 } else { 1 })),
        ("ssf_length", Filled::Int(i64::try_from(length).unwrap_or(i64::MAX))),
        ("ssf_error", Filled::Int(0)),
        ("ssf_info", info),
        ("ssf_assoc_id", Filled::Int(ASSOCIATION)),
        ("ssf_data", Filled::Asked),
    ];
    (Filled::Struct(fields), length)
}

/// A sctp_remote_error with the ERROR chunk as it came.
fn peer_error(causes: &Bytes) -> (Filled, usize) {
    const HEADER: usize = 20;
    let len = u16::try_from(causes.len() + 4).unwrap_or(u16::MAX);
    let chunk = [&[9, 0][..], &len.to_be_bytes(), causes].concat();
    let code = chunk.get(4..6).map_or(0, |code| i64::from(code[0]) << 8 | i64::from(code[1]));
    let length = HEADER + chunk.len();
    let fields = vec![
        ("sre_type", Filled::Int(3)),
        ("sre_flags", Filled::Int(0)),
        ("sre_length", Filled::Int(i64::try_from(length).unwrap_or(i64::MAX))),
        ("sre_error", Filled::Int(code)),
        ("sre_assoc_id", Filled::Int(ASSOCIATION)),
        ("sre_data", Filled::List(chunk.iter().map(|byte| Filled::Int((*byte).into())).collect())),
    ];
    (Filled::Struct(fields), length)
}

/// A sctp_authkey_event.
fn authentication(change: KeyChange, key: u16) -> (Filled, usize) {
    let indication = match change {
        KeyChange::New => "SCTP_AUTH_NEW_KEY",
        KeyChange::Free => "SCTP_AUTH_FREE_KEY",
        KeyChange::NoAuthentication => "SCTP_AUTH_NO_AUTH",
    };
    let fields = [
        ("auth_type", 8),
        ("auth_flags", 0),
        ("auth_length", 20),
        ("auth_keynumber", key.into()),
        ("auth_indication", constant(indication).unwrap_or(0)),
        ("auth_assoc_id", ASSOCIATION),
    ];
    (Filled::numbers(fields), 20)
}

/// A sctp_assoc_change. Of the extensions that it lists, this stack has the use of several buffers.
fn change(state: i64, (outbound, inbound): (u16, u16)) -> (Filled, usize) {
    let features = if state == 1 { vec![Filled::Int(4)] } else { Vec::new() };
    let length = 20 + features.len();
    let fields = vec![
        ("sac_type", Filled::Int(1)),
        ("sac_flags", Filled::Int(0)),
        ("sac_length", Filled::Int(i64::try_from(length).unwrap_or(0))),
        ("sac_state", Filled::Int(state)),
        ("sac_error", Filled::Int(0)),
        ("sac_outbound_streams", Filled::Int(outbound.into())),
        ("sac_inbound_streams", Filled::Int(inbound.into())),
        ("sac_assoc_id", Filled::Int(ASSOCIATION)),
        ("sac_info", Filled::List(features)),
    ];
    (Filled::Struct(fields), length)
}
