//! What happened: the notifications that an association gives to its user.

use crate::config::Reliability;
use crate::path::{PathId, PathPolicy, PathState};
use crate::send::{Outgoing, ReliabilityPolicy};
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::IpAddr;
use manypath_wire::{Ppid, StreamId, Tsn};

/// Names an association of one endpoint. Never used again after the association is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AssociationId(pub u64);

/// One notification, in the order in which things happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The association is established (RFC 9260 COMMUNICATION UP).
    Connected {
        /// Whether this endpoint sent the INIT.
        initiated: bool,
        /// The peer's adaptation layer indication (RFC 5061 section 4.2.6), if it gave one.
        adaptation: Option<u32>,
        /// Streams usable towards the peer.
        outbound_streams: u16,
        /// Streams the peer may use towards us.
        inbound_streams: u16,
    },
    /// Messages, or parts of them, wait to be read.
    Readable,
    /// The rest of a message will not come of which parts have been read: it was given up, or the
    /// association has ended (`SCTP_PARTIAL_DELIVERY_EVENT`, RFC 6458 section 6.1.7). No more of it can be
    /// read.
    PartialDeliveryAborted(PartialMessage),
    /// Send buffer space has become free after `SendError::BufferFull`.
    Writable,
    /// All that was to be sent has been delivered; said once after [`Endpoint::tell_when_dry`]
    /// (`SCTP_SENDER_DRY_EVENT`, RFC 6458 section 6.1.9).
    ///
    /// [`Endpoint::tell_when_dry`]: crate::Endpoint::tell_when_dry
    SenderDry,
    /// A message that was not to be sent at all costs was given up (`SCTP_SEND_FAILED_EVENT`, RFC 6458
    /// section 6.1.11).
    SendFailed {
        /// The message. If a part of it was sent, its payload is what is still held of it: that is all
        /// unless the peer has acknowledged something.
        message: Outgoing,
        /// Why it was given up.
        policy: ReliabilityPolicy,
        /// Whether a part of it was sent: the peer may have it, whole or in part.
        sent: bool,
    },
    /// The association has ended or the peer has restarted, and it is not known that this message has
    /// arrived as a whole (`SCTP_SEND_FAILED_EVENT`, RFC 6458 section 6.1.11). Only with
    /// `Config::report_undelivered`.
    Undelivered {
        /// What is still held of the message: all that the peer has not acknowledged.
        message: Outgoing,
        /// Whether a part of it was sent: the peer may have it, whole or in part.
        sent: bool,
        /// How long it was still to be sent, had the association not ended.
        reliability: Reliability,
    },
    /// The peer has reported errors (`SCTP_REMOTE_ERROR`, RFC 6458 section 6.1.3; COMMUNICATION ERROR of
    /// RFC 9260 section 11.2).
    PeerError {
        /// The error causes as they came in the ERROR chunk (RFC 9260 section 3.3.10).
        causes: Bytes,
    },
    /// Streams have been reset: their messages are numbered from the beginning again (RFC 6525 section
    /// 6.1.1).
    StreamsReset {
        /// Whose streams.
        direction: StreamDirection,
        /// The streams; none stand for all.
        streams: Vec<StreamId>,
        /// What became of it.
        outcome: ReconfigurationOutcome,
    },
    /// All streams and the TSNs of both directions have been reset (RFC 6525 section 6.1.2).
    AssociationReset {
        /// What became of it.
        outcome: ReconfigurationOutcome,
        /// Our next TSN.
        local_tsn: Tsn,
        /// The peer's next TSN.
        peer_tsn: Tsn,
    },
    /// Streams have been added (RFC 6525 section 6.1.3).
    StreamsAdded {
        /// What became of it.
        outcome: ReconfigurationOutcome,
        /// Streams usable towards the peer now.
        outbound_streams: u16,
        /// Streams the peer may use towards us now.
        inbound_streams: u16,
    },
    /// A shared key is used differently from now on, or chunks cannot be authenticated with this peer
    /// (`SCTP_AUTHENTICATION_EVENT`, RFC 6458 section 6.1.8).
    Authentication {
        /// What happened.
        change: KeyChange,
        /// Number of the key.
        key: u16,
    },
    /// Both ends have agreed on key management (draft-ietf-tsvwg-sctp-dtls-chunk section 5.1): it can begin, and
    /// begins anew if it had begun. The end that connects hears it before [`Event::Connected`], so that the
    /// first message travels with the COOKIE ECHO.
    KeysWanted,
    /// The keys of the association should be replaced: half of what the cipher suite allows is used, or as much
    /// as any key should protect. Said once for each key for sending
    /// (draft-ietf-tsvwg-sctp-dtls-chunk section 10.2).
    RekeyDue,
    /// A packet without protection says that the peer has lost a protected association, or a cookie of a restart
    /// does. Anybody may have sent it: the peer is asked under the keys, and the association ends only if it stays
    /// silent ([`KeyUse::doubted`](crate::protection::KeyUse::doubted)).
    PeerDoubted,
    /// The peer has answered a request to add, remove or prefer one of our addresses (RFC 5061).
    LocalAddress {
        /// The address.
        address: IpAddr,
        /// What was requested.
        change: AddressChange,
        /// What became of it.
        outcome: ReconfigurationOutcome,
    },
    /// The peer has added, removed or preferred one of its addresses (`SCTP_PEER_ADDR_CHANGE`, RFC 6458
    /// section 6.1.2). An added one is used when it has been confirmed.
    PeerAddress {
        /// The address.
        address: IpAddr,
        /// What has changed.
        change: AddressChange,
    },
    /// A path has changed its state.
    PathChanged {
        /// The path.
        path: PathId,
        /// Its new state.
        state: PathState,
    },
    /// Something else is wanted of a path than before, by us or by the peer.
    PathPolicy {
        /// The path.
        path: PathId,
        /// What holds on it now: the wishes of both ends together.
        policy: PathPolicy,
    },
    /// The peer has restarted (RFC 9260 section 5.2.4 action A): all that was in flight is lost.
    Restarted,
    /// The peer asked for a graceful shutdown: no more new data is accepted.
    PeerShutdown,
    /// The association is gone. It is the last event of an association.
    Closed(CloseReason),
}

crate::names::named! {
    /// The direction of streams, as seen from here.
    pub enum StreamDirection as "direction of streams" {
        /// From us to the peer.
        Outgoing = "outgoing",
        /// From the peer to us.
        Incoming = "incoming",
    }
}

crate::names::named! {
    /// What became of a re-configuration (RFC 6525 section 6.1).
    pub enum ReconfigurationOutcome as "outcome of a re-configuration" {
        /// It was done.
        Performed = "performed",
        /// The peer does not want it.
        Denied = "denied",
        /// It could not be done.
        Failed = "failed",
    }
}

crate::names::named! {
    /// What has become of a shared key.
    pub enum KeyChange as "change of a shared key" {
        /// The peer has used it for the first time (`SCTP_AUTH_NEW_KEY`).
        New = "new",
        /// It is used for nothing that is sent any more (`SCTP_AUTH_FREE_KEY`).
        Free = "free",
        /// The peer does not authenticate chunks (`SCTP_AUTH_NO_AUTH`).
        NoAuthentication = "no-authentication",
    }
}

crate::names::named! {
    /// A change of the addresses of an association.
    pub enum AddressChange as "change of an address" {
        /// It belongs to the association.
        Added = "added",
        /// It does not any more.
        Removed = "removed",
        /// It is the first to be sent to.
        MadePrimary = "made-primary",
    }
}

/// Why an association ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// Graceful shutdown, everything delivered.
    Graceful,
    /// No answer to INIT or COOKIE ECHO after Max.Init.Retransmits.
    NoAnswer,
    /// The network said that nobody listens there (ICMP), during setup.
    Unreachable,
    /// The INIT ACK did not announce our adaptation layer (`Config::require_adaptation`).
    NoAdaptation,
    /// The peer cannot authenticate chunks (`Config::require_authentication`).
    NoAuthentication,
    /// Nothing could be agreed on with the peer about key management (`Config::key_management`).
    NoProtection,
    /// The peer answered the INIT with an ABORT, or aborted later. The error cause code, if any.
    PeerAborted(Option<u16>),
    /// `abort` was called here.
    LocalAbort,
    /// Association.Max.Retrans was exceeded (RFC 9260 section 8.1).
    TooManyFailures,
    /// The peer broke the protocol; the text says how.
    ProtocolViolation(&'static str),
}

/// A user message, or a part of it: see `Config::partial_delivery_point`. Parts of several messages may
/// be interleaved; those of one have the same `tsn`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Stream it came on.
    pub stream: StreamId,
    /// Payload protocol identifier given by the sender.
    pub ppid: Ppid,
    /// Whether it was sent unordered.
    pub unordered: bool,
    /// Its stream sequence number, or its message identifier where I-DATA is used.
    pub number: u32,
    /// The TSN of its first fragment.
    pub tsn: Tsn,
    /// The bytes, or the next of them.
    pub payload: Bytes,
    /// Whether more of the message follows (the partial flag of RFC 9260 section 11.1.6; the opposite of
    /// `MSG_EOR`).
    pub more: bool,
}

/// A message that did not become complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartialMessage {
    /// Stream it came on.
    pub stream: StreamId,
    /// Whether it was sent unordered.
    pub unordered: bool,
    /// Its stream sequence number, or its message identifier where I-DATA is used.
    pub number: u32,
    /// The TSN of its first fragment.
    pub tsn: Tsn,
}

impl PartialMessage {
    /// The message of which `part` is a part.
    pub(crate) fn of(part: &Message) -> Self {
        let Message { stream, unordered, number, tsn, .. } = *part;
        Self { stream, unordered, number, tsn }
    }
}

/// An event and the association that it belongs to.
pub type EndpointEvent = (AssociationId, Event);
