//! Snapshots for people and tools.

use crate::config::CongestionControl;
use crate::path::{EcnState, PathAddr, PathId, PathPolicy, PathState};
use crate::time::Duration;
use alloc::vec::Vec;
use manypath_wire::{StreamId, Tsn};

/// State of an association (RFC 9260 section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are the RFC's")]
pub enum AssociationState {
    CookieWait,
    CookieEchoed,
    Established,
    ShutdownPending,
    ShutdownSent,
    ShutdownReceived,
    ShutdownAckSent,
}

/// One association as it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AssociationStatus {
    /// Protocol state.
    pub state: AssociationState,
    /// Bytes queued and not yet sent.
    pub unsent: usize,
    /// Bytes sent and not yet acknowledged.
    pub outstanding: usize,
    /// The peer's receive window as last known, in bytes.
    pub peer_rwnd: u32,
    /// Whether messages of which a part was sent may be given up (RFC 3758).
    pub partial_reliability: bool,
    /// Whether chunks are authenticated where one side wants it (RFC 4895).
    pub authentication: bool,
    /// How the congestion windows of its paths move; none without a path, or by a control that is not the engine's own.
    pub congestion: Option<CongestionControl>,
    /// Whether the peer says what it never throws away (NR-SACK).
    pub nr_sack: bool,
    /// Received bytes that wait for a gap to be filled or for the reader.
    pub receive_queued: usize,
    /// The last TSN up to which everything has arrived, once the peer is known.
    pub cum_tsn: Option<Tsn>,
    /// Chunk types beyond RFC 9260 that the peer understands (RFC 5061 section 4.2.7).
    pub peer_extensions: Vec<u8>,
    /// The paths.
    pub paths: Vec<PathStatus>,
}

/// What an association has sent and received, since it is there (`SCTP_GET_ASSOC_STATS` of Linux).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AssociationStatistics {
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// SACKs and NR-SACKs sent.
    pub sacks_sent: u64,
    /// SACKs and NR-SACKs received.
    pub sacks_received: u64,
    /// Gap Ack Blocks received.
    pub gap_blocks_received: u64,
    /// DATA chunks sent again, or on a second path.
    pub chunks_repeated: u64,
    /// DATA chunks received ahead of the next TSN that was expected.
    pub chunks_ahead: u64,
    /// DATA chunks received that had come before.
    pub duplicates: u64,
    /// DATA chunks of ordered messages sent, each once.
    pub ordered_sent: u64,
    /// DATA chunks of unordered messages sent, each once.
    pub unordered_sent: u64,
    /// DATA chunks of ordered messages received, each once.
    pub ordered_received: u64,
    /// DATA chunks of unordered messages received, each once.
    pub unordered_received: u64,
    /// All other chunks sent, SACKs among them.
    pub control_sent: u64,
    /// All other chunks received, SACKs among them.
    pub control_received: u64,
    /// The path with the longest retransmission timeout since the last time this was asked for, and that timeout.
    pub longest_rto: Option<(PathAddr, Duration)>,
}

/// One path as it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathStatus {
    /// Its number in the association.
    pub id: PathId,
    /// Its addresses.
    pub addr: PathAddr,
    /// Its state.
    pub state: PathState,
    /// Whether it is the primary path.
    pub primary: bool,
    /// The path to which it gives way because both share a bottleneck.
    pub gives_way_to: Option<PathId>,
    /// Smoothed round-trip time, once measured.
    pub srtt: Option<Duration>,
    /// By how much round-trip times vary.
    pub rtt_spread: RttSpread,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Slow start threshold in bytes.
    pub ssthresh: u32,
    /// Bytes in flight.
    pub in_flight: usize,
    /// Largest packet, in bytes of IP packet.
    pub mtu: u16,
    /// Packets and SCTP bytes sent.
    pub packets_sent: u64,
    /// SCTP bytes sent.
    pub bytes_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// SCTP bytes received.
    pub bytes_received: u64,
    /// Bytes of DATA chunks sent, retransmissions included, and of received packets with DATA: what the path
    /// carries for users, without SACKs and HEARTBEATs.
    pub data_bytes: u64,
    /// DATA chunks retransmitted after a fast retransmit.
    pub fast_retransmits: u64,
    /// DATA chunks of the path sent again because they held up others (chunk rescheduling).
    pub rescheduled: u64,
    /// Times that nothing was heard of the path in time and a chunk was sent again on another one.
    pub probes: u64,
    /// Probes after which the path was heard of after all.
    pub spurious_probes: u64,
    /// Times that the path was taken for potentially failed because of its silence.
    pub suspicions: u64,
    /// Suspicions that were wrong.
    pub spurious_suspicions: u64,
    /// Packets sent into a silence of the path, in which losses would not have shown (TLP).
    pub tail_probes: u64,
    /// DATA chunks of the path that were sent again although they had arrived, as far as is known:
    /// their acknowledgement came too early to be for the last transmission, or the peer has reported
    /// a duplicate.
    pub spurious_retransmits: u64,
    /// Bytes of user data sent on the path that had been sent before, on it or on another one, for
    /// whatever reason.
    pub bytes_retransmitted: u64,
    /// DATA chunks that were sent on this path and on another one (redundant transmission).
    pub copies: u64,
    /// What ECN does on the path.
    pub ecn: EcnState,
    /// Packets with new data that arrived with CE (congestion experienced, RFC 3168).
    pub ce_received: u64,
    /// ECNE chunks received about the path.
    pub ecne_received: u64,
    /// Times that the congestion window was made smaller because of them.
    pub ecn_reductions: u64,
    /// Expiries of T3-rtx.
    pub timeouts: u64,
    /// Consecutive errors (RFC 9260 section 8.2).
    pub error_count: u32,
    /// What this end wants of the path.
    pub policy: PathPolicy,
    /// What the peer wants of it, as far as it has said.
    pub peer_policy: PathPolicy,
    /// Time since DATA was sent on it last.
    pub since_data_sent: Option<Duration>,
    /// Time since DATA came over it last.
    pub since_data_received: Option<Duration>,
    /// Why nothing is sent on the path now.
    pub idle: Option<IdleReason>,
}

/// By how much the round-trip times of a path vary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RttSpread {
    /// RTTVAR (RFC 9260 section 6.3.1), once measured.
    pub rttvar: Option<Duration>,
    /// Smallest round-trip time ever measured.
    pub min_rtt: Option<Duration>,
    /// By how much round-trip times have exceeded the smallest one lately; none unless packets are delivered in order
    /// ([`Delivery::in_order`](crate::Delivery::in_order)).
    pub hold_up: Option<Duration>,
}

/// Why a path sends nothing now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdleReason {
    /// Nothing is waiting to be sent.
    NoData,
    /// The congestion window is used up: acknowledgements are awaited.
    CongestionWindow,
    /// It shares a bottleneck with another path, to which it gives way.
    SharedBottleneck,
    /// Max.Burst is reached, or the packet waits for its time (pacing).
    Burst,
    /// The path's share of the send buffer or of the peer's window is used up.
    BufferShare,
    /// The peer's receive window is used up.
    ReceiveWindow,
    /// The peer's address is not confirmed yet (RFC 9260 section 5.4).
    Unconfirmed,
    /// It is taken for potentially failed (RFC 7829), until a HEARTBEAT is answered.
    Suspended,
    /// The path has failed: `error_count` losses in a row.
    Failed,
    /// What waits is of streams that are tied to other paths, or that wait to change theirs.
    OtherStreams,
    /// Another path is primary and multipath transfer is off.
    Standby,
    /// The little that is left arrives sooner over faster paths.
    FasterPath,
    /// It is a backup path, and a normal one is usable.
    Backup,
    /// Cheaper paths carry all that there is.
    Cost,
    /// It is metered: its allowance is used up or it has none, and another path is usable.
    Metered,
    /// The user of one end has disabled it.
    Disabled,
    /// Its local address has no link.
    NoLink,
}

/// How long the paths of an association take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RoundTrips {
    /// The shortest round trip that was ever measured, on any path.
    pub min_rtt: Option<Duration>,
    /// The longest smoothed one of the paths that may carry data now, if there are several and one is measured. Data in order
    /// is delivered no sooner than the slowest of them brings its part.
    pub slowest: Option<Duration>,
}

/// What an association holds to be sent, per stream: the `SCTP_SQINFO` of
/// draft-dreibholz-tsvwg-sctpsocket-sqinfo. With it an application can fill a send buffer that is
/// shared by streams on dissimilar paths.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SenderQueueInfo {
    /// Size of the send buffer in bytes.
    pub limit: usize,
    /// Bytes accepted and not acknowledged for good, of all streams.
    pub queued: usize,
    /// The streams that were ever used, in the order of their numbers.
    pub streams: Vec<StreamQueueInfo>,
}

/// What one stream holds to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamQueueInfo {
    /// Its number.
    pub stream: StreamId,
    /// Bytes not sent yet.
    pub unsent: usize,
    /// Bytes sent and not acknowledged for good.
    pub in_flight: usize,
    /// The path that the stream is tied to; `None`: any.
    pub path: Option<PathId>,
    /// What that path carries: its congestion window per round trip, in bytes per second. `None`
    /// without such a path, or before its first measurement.
    pub path_rate: Option<u64>,
}

impl StreamQueueInfo {
    /// Bytes accepted and not acknowledged for good. It must include what is under way: with what
    /// is unsent alone, an application could not keep a slow path's stream from filling the buffer.
    pub fn queued(&self) -> usize {
        self.unsent + self.in_flight
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts of everything that was dropped, refused or answered outside the normal course.
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct Counters { $($(#[$doc])* pub $name: u64),* }
        impl Counters {
            /// Every counter with its name, for printing.
            pub fn entries(&self) -> Vec<(&'static str, u64)> {
                alloc::vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

counters! {
    /// Packets shorter than a common header or otherwise not SCTP.
    malformed_packets,
    /// Packets with a wrong CRC32c.
    bad_checksum,
    /// Packets without a checksum whose record was opened (RFC 9653).
    zero_checksums,
    /// Chunks that could not be parsed.
    malformed_chunks,
    /// Packets of no association (RFC 9260 section 8.4).
    out_of_the_blue,
    /// Packets with a wrong verification tag (section 8.5).
    bad_tag,
    /// COOKIE ECHOs with a wrong MAC, port or tag (section 5.1.5).
    bad_cookie,
    /// COOKIE ECHOs that came too late (section 5.1.5).
    stale_cookie,
    /// COOKIE ECHOs whose cookie had made an association that was over.
    used_cookie,
    /// Associations of peers that were resumed by a ticket.
    resumptions,
    /// Tickets declined because they were changed, made before a restart, or so old that their key is gone.
    unknown_tickets,
    /// Tickets declined because their time was over.
    expired_tickets,
    /// Tickets declined because too many associations had been resumed in the life of a cookie.
    crowded_resumptions,
    /// INITs refused: not accepting, too many associations or invalid.
    refused_inits,
    /// INITs and COOKIE ECHOs refused because their address had too many associations.
    address_limit_refusals,
    /// Chunks of unknown type.
    unknown_chunks,
    /// INIT ACKs that answer another copy of the INIT than the first one that was answered.
    late_init_acks,
    /// ABORTs that refuse one of several copies of the INIT, where another one counts.
    refused_init_copies,
    /// Chunks that have no meaning in the state in which they arrived.
    unexpected_chunks,
    /// ERROR chunks received.
    errors_received,
    /// HEARTBEAT ACKs with a wrong nonce or address (section 8.3).
    bad_heartbeat_acks,
    /// Packets with the right tag from an address that the peer never named.
    unknown_addresses,
    /// HEARTBEAT ACKs and ERRORs not sent because too many waited already.
    control_drops,
    /// Answers outside of associations not sent because too many waited already.
    reply_drops,
    /// INITs and packets out of the blue that were not answered: with their answers, more bytes would have left in
    /// a second to sources that have proven nothing than the limit allows, or their prefix or address has its share of it.
    rate_limited_replies,
    /// Packets not sent because nobody has answered yet at their address, and three times as many bytes as have
    /// come had been sent to such addresses.
    unverified_drops,
    /// Ended associations whose unread messages were dropped because there were too many of them.
    unread_drops,
    /// Messages queued before the association was established, on streams that the peer then did
    /// not take.
    messages_without_stream,
    /// DATA chunks received twice.
    duplicate_data,
    /// DATA chunks dropped because the receive buffer was full.
    receive_buffer_drops,
    /// DATA chunks dropped because all associations together held too much.
    receive_memory_drops,
    /// DATA chunks dropped because their TSN was too far ahead to be acknowledged.
    tsns_too_far_ahead,
    /// DATA chunks dropped because the answer to a reset of the association was to be awaited: they are
    /// sent again (RFC 6525 section 5.2.7).
    data_before_reset,
    /// Messages delivered in part of which the rest did not come.
    partial_deliveries_aborted,
    /// DATA chunks on streams that do not exist (section 6.5).
    invalid_streams,
    /// Chunks dropped because they had to be authenticated and were not (RFC 4895 section 6.3).
    unauthenticated_chunks,
    /// Packets cut off at an AUTH chunk with a wrong HMAC (RFC 4895 section 6.3).
    wrong_hmacs,
    /// Packets cut off at an AUTH chunk with a shared key that we do not have.
    unknown_keys,
    /// Packets cut off at an AUTH chunk with an algorithm that we did not offer.
    unsupported_hmacs,
    /// Packets cut off at their second AUTH chunk (RFC 4895 section 5.1).
    repeated_auth,
    /// Packets dropped because they had to be protected by a DTLS chunk and were not
    /// (draft-ietf-tsvwg-sctp-dtls-chunk section 5.2), or held user data although keys for it were there.
    unprotected_packets,
    /// How often a packet without protection said that the peer of a protected association does not know it any more:
    /// the peer was asked under the keys, and the association ended only if it stayed silent.
    doubted_peers,
    /// Packets dropped because a DTLS chunk was not alone in them.
    bundled_records,
    /// Packets dropped because their record was too short or of another form.
    malformed_records,
    /// Packets dropped because there was no key for the epoch of their record.
    unknown_epochs,
    /// Packets dropped because their record had come before, or was too old to tell.
    replayed_records,
    /// Packets dropped because their record was not authentic.
    forged_records,
    /// ASCONFs and ASCONF-ACKs with another sequence number than the next one (RFC 5061 section 5.2).
    stale_asconfs,
    /// Requests of peers about their addresses that were refused.
    refused_addresses,
    /// ECNEs that name no TSN that was ever sent, or one of which the path is not known any more.
    strange_ecnes,
    /// Paths on which ECN was given up, because ECN-capable packets were lost where others arrived, or
    /// because every window was marked.
    ecn_failures,
    /// SACKs older than one already seen.
    stale_sacks,
    /// Associations aborted because the peer broke the protocol.
    protocol_violations,
    /// ICMP or send errors reported by the network.
    unreachable_reports,
    /// ICMP errors that quote no packet of an association (section 10), ignored.
    unproven_reports,
    /// ICMP messages that say that a packet was too big for a link further on.
    too_big_reports,
    /// Those among them from which nothing follows, because of the size that they name (RFC 8899 section
    /// 4.6.2), or because no MTU is searched for.
    ignored_too_big_reports,
    /// Probes sent to find the MTU of a path.
    mtu_probes,
    /// Those among them that were not answered.
    mtu_probes_lost,
    /// Times that a path was found to take no more packets as large as before.
    mtu_black_holes,
    /// Packets that IP may have had to fragment, because their chunk was made for a larger MTU.
    fragmented_packets,
}
