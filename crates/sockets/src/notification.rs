//! Notifications (RFC 6458 section 6) and who wants them.

use crate::address::storage;
use crate::constants::*;
use crate::layout::Structure;
use crate::structures::*;
use bytes::Bytes;
use manypath_engine::{
    KeyChange, Outgoing, PartialMessage, PathState, ReconfigurationOutcome, StreamDirection,
    StreamId,
};
use std::net::SocketAddr;

/// Something that a socket is told, as it stands in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Notification {
    /// Its type.
    pub(crate) kind: i32,
    pub(crate) bytes: Bytes,
}

/// What a socket wants to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Subscriptions(u32);

impl Subscriptions {
    pub(crate) fn has(self, kind: i32) -> bool {
        bit(kind).is_some_and(|bit| self.0 & bit != 0)
    }

    /// False if there is no such notification.
    pub(crate) fn set(&mut self, kind: i32, on: bool) -> bool {
        let Some(bit) = bit(kind) else { return false };
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
        true
    }
}

fn bit(kind: i32) -> Option<u32> {
    let known = (SCTP_DATA_IO_EVENT..=SCTP_SEND_FAILED_EVENT).contains(&kind);
    known.then(|| 1 << (kind - SCTP_DATA_IO_EVENT))
}

impl Notification {
    fn new<S: Structure>(kind: i32, structure: &S) -> Self {
        Self::with_end(kind, structure, &[])
    }

    /// Every one of them begins with type, flags and length. The length is filled in here.
    fn with_end<S: Structure>(kind: i32, structure: &S, end: &[u8]) -> Self {
        let mut bytes = structure.encode();
        bytes.extend_from_slice(end);
        bytes[..2].copy_from_slice(&number(kind).to_ne_bytes());
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        bytes[4..8].copy_from_slice(&len.to_ne_bytes());
        Self { kind, bytes: bytes.into() }
    }

    /// Whether messages that came before it are read before it.
    pub(crate) fn is_after_data(&self) -> bool {
        self.kind == SCTP_SHUTDOWN_EVENT || self.is_end()
    }

    fn is_end(&self) -> bool {
        let state = self.bytes.get(8..10).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]));
        let ends = [SCTP_COMM_LOST, SCTP_SHUTDOWN_COMP, SCTP_CANT_STR_ASSOC];
        self.kind == SCTP_ASSOC_CHANGE && ends.contains(&i32::from(state))
    }

    /// The association has changed. `info` is what is told of that.
    pub(crate) fn change(
        state: i32,
        error: u16,
        streams: (u16, u16),
        info: &[u8],
        id: sctp_assoc_t,
    ) -> Self {
        let change = sctp_assoc_change {
            sac_state: number(state),
            sac_error: error,
            sac_outbound_streams: streams.0,
            sac_inbound_streams: streams.1,
            sac_assoc_id: id,
            ..Default::default()
        };
        Self::with_end(SCTP_ASSOC_CHANGE, &change, info)
    }

    /// An address of the peer has changed.
    pub(crate) fn address(address: SocketAddr, mapped: bool, state: i32, id: sctp_assoc_t) -> Self {
        let change = sctp_paddr_change {
            spc_aaddr: storage(address, mapped),
            spc_state: state,
            spc_assoc_id: id,
            ..Default::default()
        };
        Self::new(SCTP_PEER_ADDR_CHANGE, &change)
    }

    /// The peer sends no more.
    pub(crate) fn shutdown(id: sctp_assoc_t) -> Self {
        let event = sctp_shutdown_event { sse_assoc_id: id, ..Default::default() };
        Self::new(SCTP_SHUTDOWN_EVENT, &event)
    }

    /// The peer has said what it speaks.
    pub(crate) fn adaptation(indication: u32, id: sctp_assoc_t) -> Self {
        let event = sctp_adaptation_event {
            sai_adaptation_ind: indication,
            sai_assoc_id: id,
            ..Default::default()
        };
        Self::new(SCTP_ADAPTATION_INDICATION, &event)
    }

    /// Nothing is left to be delivered.
    pub(crate) fn dry(id: sctp_assoc_t) -> Self {
        let event = sctp_sender_dry_event { sender_dry_assoc_id: id, ..Default::default() };
        Self::new(SCTP_SENDER_DRY_EVENT, &event)
    }

    /// The rest of a message will not come.
    pub(crate) fn partial(message: &PartialMessage, id: sctp_assoc_t) -> Self {
        let event = sctp_pdapi_event {
            pdapi_indication: number(SCTP_PARTIAL_DELIVERY_ABORTED).into(),
            pdapi_stream: message.stream.0.into(),
            pdapi_seq: message.number,
            pdapi_assoc_id: id,
            ..Default::default()
        };
        Self::new(SCTP_PARTIAL_DELIVERY_EVENT, &event)
    }

    /// A message was given up. It comes in the new form if that is subscribed to. `place` is added to its flags.
    pub(crate) fn failed(
        message: &Outgoing,
        sent: bool,
        new: bool,
        place: u16,
        id: sctp_assoc_t,
    ) -> Self {
        let flags = number(if sent { SCTP_DATA_SENT } else { SCTP_DATA_UNSENT });
        let how = place | if message.unordered { number(SCTP_UNORDERED) } else { 0 };
        let (stream, ppid) = (message.stream.0, message.ppid.0.to_be());
        if new {
            let info = sctp_sndinfo {
                snd_sid: stream,
                snd_flags: how,
                snd_ppid: ppid,
                snd_assoc_id: id,
                ..Default::default()
            };
            let event = sctp_send_failed_event {
                ssfe_flags: flags,
                ssfe_info: info,
                ssfe_assoc_id: id,
                ..Default::default()
            };
            return Self::with_end(SCTP_SEND_FAILED_EVENT, &event, &message.payload);
        }
        let info = sctp_sndrcvinfo {
            sinfo_stream: stream,
            sinfo_flags: how,
            sinfo_ppid: ppid,
            sinfo_assoc_id: id,
            ..Default::default()
        };
        let event = sctp_send_failed {
            ssf_flags: flags,
            ssf_info: info,
            ssf_assoc_id: id,
            ..Default::default()
        };
        Self::with_end(SCTP_SEND_FAILED, &event, &message.payload)
    }

    /// The peer has reported errors: the first of them.
    pub(crate) fn peer_error(causes: &Bytes, id: sctp_assoc_t) -> Self {
        let code = causes.get(..2).map_or(0, |code| u16::from_ne_bytes([code[0], code[1]]));
        let event = sctp_remote_error { sre_error: code, sre_assoc_id: id, ..Default::default() };
        Self::with_end(SCTP_REMOTE_ERROR, &event, causes)
    }

    /// A key is used differently.
    pub(crate) fn key(change: KeyChange, key: u16, id: sctp_assoc_t) -> Self {
        let indication = match change {
            KeyChange::New => SCTP_AUTH_NEW_KEY,
            KeyChange::Free => SCTP_AUTH_FREE_KEY,
            KeyChange::NoAuthentication => SCTP_AUTH_NO_AUTH,
        };
        let event = sctp_authkey_event {
            auth_keynumber: key,
            auth_indication: number(indication).into(),
            auth_assoc_id: id,
            ..Default::default()
        };
        Self::new(SCTP_AUTHENTICATION_EVENT, &event)
    }

    /// Streams were reset, or not.
    pub(crate) fn streams_reset(
        direction: StreamDirection,
        streams: &[StreamId],
        outcome: ReconfigurationOutcome,
        id: sctp_assoc_t,
    ) -> Self {
        let direction = match direction {
            StreamDirection::Incoming => SCTP_STREAM_RESET_INCOMING_SSN,
            StreamDirection::Outgoing => SCTP_STREAM_RESET_OUTGOING_SSN,
        };
        let event = sctp_stream_reset_event {
            strreset_flags: number(direction) | denied(outcome),
            strreset_assoc_id: id,
            ..Default::default()
        };
        let list: Vec<u8> = streams.iter().flat_map(|stream| stream.0.to_ne_bytes()).collect();
        Self::with_end(SCTP_STREAM_RESET_EVENT, &event, &list)
    }

    /// All streams and TSNs were reset, or not.
    pub(crate) fn reset(
        outcome: ReconfigurationOutcome,
        local: u32,
        remote: u32,
        id: sctp_assoc_t,
    ) -> Self {
        let event = sctp_assoc_reset_event {
            assocreset_flags: denied(outcome),
            assocreset_assoc_id: id,
            assocreset_local_tsn: local,
            assocreset_remote_tsn: remote,
            ..Default::default()
        };
        Self::new(SCTP_ASSOC_RESET_EVENT, &event)
    }

    /// Streams were added, or not. `streams`: to the peer and from it.
    pub(crate) fn added(
        outcome: ReconfigurationOutcome,
        streams: (u16, u16),
        id: sctp_assoc_t,
    ) -> Self {
        let event = sctp_stream_change_event {
            strchange_flags: denied(outcome),
            strchange_assoc_id: id,
            strchange_instrms: streams.1,
            strchange_outstrms: streams.0,
            ..Default::default()
        };
        Self::new(SCTP_STREAM_CHANGE_EVENT, &event)
    }
}

/// What `SCTP_PEER_ADDR_CHANGE` says of a path. An address is confirmed only once.
pub(crate) fn path_state(state: PathState, again: bool) -> Option<i32> {
    match state {
        PathState::Active if again => Some(SCTP_ADDR_AVAILABLE),
        PathState::Active => Some(SCTP_ADDR_CONFIRMED),
        // Linux tells of addresses that are potentially failed only those who have asked for it.
        PathState::Unconfirmed | PathState::PotentiallyFailed => None,
        PathState::Inactive => Some(SCTP_ADDR_UNREACHABLE),
    }
}

fn denied(outcome: ReconfigurationOutcome) -> u16 {
    match outcome {
        ReconfigurationOutcome::Performed => 0,
        ReconfigurationOutcome::Denied => number(SCTP_STREAM_RESET_DENIED),
        ReconfigurationOutcome::Failed => number(SCTP_STREAM_RESET_FAILED),
    }
}

/// A constant where the structure has 16 bits.
pub(crate) fn number(constant: i32) -> u16 {
    u16::try_from(constant).unwrap_or(u16::MAX)
}
