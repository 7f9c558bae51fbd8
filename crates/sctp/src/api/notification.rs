//! Notifications (RFC 6458 section 6.1; RFC 6525 section 6.1).

use super::Association;
use super::message::NOWHERE;
use bytes::Bytes;
use manypath_sockets::address;
use manypath_sockets::constants::*;
use manypath_sockets::layout::Structure;
use manypath_sockets::structures::*;
use std::net::SocketAddr;

/// What a socket can be told of (`SCTP_EVENT`, RFC 6458 section 6.2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// [`Notification::Association`].
    Association,
    /// [`Notification::Address`].
    Address,
    /// [`Notification::PeerError`].
    PeerError,
    /// [`Notification::SendFailed`].
    SendFailed,
    /// [`Notification::PeerShutdown`].
    PeerShutdown,
    /// [`Notification::Adaptation`].
    Adaptation,
    /// [`Notification::PartialDeliveryAborted`].
    PartialDelivery,
    /// [`Notification::SenderDry`].
    SenderDry,
    /// [`Notification::StreamsReset`].
    StreamsReset,
    /// [`Notification::StreamsAdded`].
    StreamsAdded,
}

impl Kind {
    /// Its `se_type`.
    pub fn number(self) -> i32 {
        match self {
            Self::Association => SCTP_ASSOC_CHANGE,
            Self::Address => SCTP_PEER_ADDR_CHANGE,
            Self::PeerError => SCTP_REMOTE_ERROR,
            Self::SendFailed => SCTP_SEND_FAILED_EVENT,
            Self::PeerShutdown => SCTP_SHUTDOWN_EVENT,
            Self::Adaptation => SCTP_ADAPTATION_INDICATION,
            Self::PartialDelivery => SCTP_PARTIAL_DELIVERY_EVENT,
            Self::SenderDry => SCTP_SENDER_DRY_EVENT,
            Self::StreamsReset => SCTP_STREAM_RESET_EVENT,
            Self::StreamsAdded => SCTP_STREAM_CHANGE_EVENT,
        }
    }
}

/// What has become of an association (`sac_state`, RFC 6458 section 6.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssociationState {
    /// It is established.
    Up,
    /// It has failed: the peer has aborted it, or is not reached any more.
    Lost,
    /// The peer has begun it anew; what was under way may be lost.
    Restarted,
    /// It was shut down; everything has been delivered.
    ShutDown,
    /// It has not come about.
    NotStarted,
}

/// What has become of an address of the peer (`spc_state`, RFC 6458 section 6.1.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressState {
    /// It is reached again.
    Available,
    /// It is not reached.
    Unreachable,
    /// The peer does not have it any more.
    Removed,
    /// The peer has it now.
    Added,
    /// It is the primary one now.
    MadePrimary,
    /// It was reached for the first time.
    Confirmed,
}

/// What has become of a request to change streams (RFC 6525 section 6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was carried out.
    Done,
    /// The peer does not want it.
    Denied,
    /// It could not be carried out.
    Failed,
}

/// Something that a socket is told.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Notification {
    /// An association has come, gone or begun anew (`SCTP_ASSOC_CHANGE`).
    Association {
        /// Which one.
        association: Association,
        /// What has become of it.
        state: AssociationState,
        /// The cause that the peer gave (RFC 9260 section 3.3.10), or 0.
        error: u16,
        /// Streams to the peer.
        outbound_streams: u16,
        /// Streams from the peer.
        inbound_streams: u16,
    },
    /// An address of the peer has changed (`SCTP_PEER_ADDR_CHANGE`).
    Address {
        /// Whose address.
        association: Association,
        /// The address, and the peer's port.
        address: SocketAddr,
        /// What has become of it.
        state: AddressState,
    },
    /// The peer has reported an error (`SCTP_REMOTE_ERROR`).
    PeerError {
        /// Who.
        association: Association,
        /// The cause (RFC 9260 section 3.3.10).
        error: u16,
        /// The causes as they came.
        causes: Bytes,
    },
    /// A message was given up, or not delivered before the association ended (`SCTP_SEND_FAILED_EVENT`).
    SendFailed {
        /// To whom it was to go.
        association: Association,
        /// Its stream.
        stream: u16,
        /// Its payload protocol identifier.
        ppid: u32,
        /// Whether a part of it was sent.
        sent: bool,
        /// What is still held of it.
        data: Bytes,
    },
    /// The peer sends no more (`SCTP_SHUTDOWN_EVENT`).
    PeerShutdown(Association),
    /// What the peer speaks (`SCTP_ADAPTATION_INDICATION`).
    Adaptation {
        /// Who.
        association: Association,
        /// The indication.
        indication: u32,
    },
    /// The rest of a message will not come (`SCTP_PARTIAL_DELIVERY_EVENT`).
    PartialDeliveryAborted {
        /// From whom.
        association: Association,
        /// The stream of the message.
        stream: u32,
    },
    /// Everything that was sent has been delivered (`SCTP_SENDER_DRY_EVENT`).
    SenderDry(Association),
    /// Streams begin anew with the numbers of their messages (`SCTP_STREAM_RESET_EVENT`).
    StreamsReset {
        /// Of which association.
        association: Association,
        /// Whether it is those from the peer.
        incoming: bool,
        /// The streams; none stand for all.
        streams: Vec<u16>,
        /// What became of it.
        outcome: Outcome,
    },
    /// There are more streams, or would be (`SCTP_STREAM_CHANGE_EVENT`).
    StreamsAdded {
        /// Of which association.
        association: Association,
        /// Streams to the peer now.
        outbound_streams: u16,
        /// Streams from the peer now.
        inbound_streams: u16,
        /// What became of it.
        outcome: Outcome,
    },
    /// Another one, as it stands in memory.
    Other(Bytes),
}

impl Notification {
    pub(super) fn decode(bytes: &Bytes) -> Self {
        let kind = bytes.get(..2).map_or(0, |kind| u16::from_ne_bytes([kind[0], kind[1]]));
        Self::of_association(i32::from(kind), bytes)
            .or_else(|| Self::of_messages(i32::from(kind), bytes))
            .or_else(|| Self::of_streams(i32::from(kind), bytes))
            .unwrap_or_else(|| Self::Other(bytes.clone()))
    }

    fn of_association(kind: i32, bytes: &Bytes) -> Option<Self> {
        Some(match kind {
            SCTP_ASSOC_CHANGE => {
                let it = sctp_assoc_change::decode(bytes)?;
                Self::Association {
                    association: Association(it.sac_assoc_id),
                    state: association_state(it.sac_state.into())?,
                    error: u16::from_be(it.sac_error),
                    outbound_streams: it.sac_outbound_streams,
                    inbound_streams: it.sac_inbound_streams,
                }
            }
            SCTP_PEER_ADDR_CHANGE => {
                let it = sctp_paddr_change::decode(bytes)?;
                Self::Address {
                    association: Association(it.spc_assoc_id),
                    address: address::decode(&it.spc_aaddr).unwrap_or(NOWHERE),
                    state: address_state(it.spc_state)?,
                }
            }
            SCTP_SHUTDOWN_EVENT => {
                let it = sctp_shutdown_event::decode(bytes)?;
                Self::PeerShutdown(Association(it.sse_assoc_id))
            }
            SCTP_ADAPTATION_INDICATION => {
                let it = sctp_adaptation_event::decode(bytes)?;
                let association = Association(it.sai_assoc_id);
                Self::Adaptation { association, indication: it.sai_adaptation_ind }
            }
            SCTP_REMOTE_ERROR => {
                let it = sctp_remote_error::decode(bytes)?;
                Self::PeerError {
                    association: Association(it.sre_assoc_id),
                    error: u16::from_be(it.sre_error),
                    causes: bytes.slice(sctp_remote_error::DESCRIPTION.size..),
                }
            }
            _ => return None,
        })
    }

    fn of_messages(kind: i32, bytes: &Bytes) -> Option<Self> {
        Some(match kind {
            SCTP_SEND_FAILED_EVENT => {
                let it = sctp_send_failed_event::decode(bytes)?;
                Self::SendFailed {
                    association: Association(it.ssfe_assoc_id),
                    stream: it.ssfe_info.snd_sid,
                    ppid: u32::from_be(it.ssfe_info.snd_ppid),
                    sent: i32::from(it.ssfe_flags) & SCTP_DATA_SENT != 0,
                    data: bytes.slice(sctp_send_failed_event::DESCRIPTION.size..),
                }
            }
            SCTP_SENDER_DRY_EVENT => {
                let it = sctp_sender_dry_event::decode(bytes)?;
                Self::SenderDry(Association(it.sender_dry_assoc_id))
            }
            SCTP_PARTIAL_DELIVERY_EVENT => {
                let it = sctp_pdapi_event::decode(bytes)?;
                let association = Association(it.pdapi_assoc_id);
                Self::PartialDeliveryAborted { association, stream: it.pdapi_stream }
            }
            _ => return None,
        })
    }

    fn of_streams(kind: i32, bytes: &Bytes) -> Option<Self> {
        Some(match kind {
            SCTP_STREAM_RESET_EVENT => {
                let it = sctp_stream_reset_event::decode(bytes)?;
                let list = bytes.slice(sctp_stream_reset_event::DESCRIPTION.size..);
                let number = |two: &[u8]| u16::from_ne_bytes([two[0], two[1]]);
                Self::StreamsReset {
                    association: Association(it.strreset_assoc_id),
                    incoming: i32::from(it.strreset_flags) & SCTP_STREAM_RESET_INCOMING_SSN != 0,
                    streams: list.chunks_exact(2).map(number).collect(),
                    outcome: outcome(it.strreset_flags),
                }
            }
            SCTP_STREAM_CHANGE_EVENT => {
                let it = sctp_stream_change_event::decode(bytes)?;
                Self::StreamsAdded {
                    association: Association(it.strchange_assoc_id),
                    outbound_streams: it.strchange_outstrms,
                    inbound_streams: it.strchange_instrms,
                    outcome: outcome(it.strchange_flags),
                }
            }
            _ => return None,
        })
    }
}

fn association_state(number: i32) -> Option<AssociationState> {
    Some(match number {
        SCTP_COMM_UP => AssociationState::Up,
        SCTP_COMM_LOST => AssociationState::Lost,
        SCTP_RESTART => AssociationState::Restarted,
        SCTP_SHUTDOWN_COMP => AssociationState::ShutDown,
        SCTP_CANT_STR_ASSOC => AssociationState::NotStarted,
        _ => return None,
    })
}

fn address_state(number: i32) -> Option<AddressState> {
    Some(match number {
        SCTP_ADDR_AVAILABLE => AddressState::Available,
        SCTP_ADDR_UNREACHABLE => AddressState::Unreachable,
        SCTP_ADDR_REMOVED => AddressState::Removed,
        SCTP_ADDR_ADDED => AddressState::Added,
        SCTP_ADDR_MADE_PRIM => AddressState::MadePrimary,
        SCTP_ADDR_CONFIRMED => AddressState::Confirmed,
        _ => return None,
    })
}

fn outcome(flags: u16) -> Outcome {
    match i32::from(flags) {
        flags if flags & SCTP_STREAM_RESET_DENIED != 0 => Outcome::Denied,
        flags if flags & SCTP_STREAM_RESET_FAILED != 0 => Outcome::Failed,
        _ => Outcome::Done,
    }
}
