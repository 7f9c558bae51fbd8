//! Every parameter of an endpoint, with its default and the source of the default.

mod authentication;
mod buffer_split;
mod congestion_controller;
mod experiment;
mod key_management;
mod path;
mod path_scheduler;
mod stream_mapping;
mod stream_options;
mod transfer;

pub use authentication::HmacAlgorithms;
pub use buffer_split::{BufferSplit, SplitMeasure, SplitShares, SplitSides};
pub use congestion_controller::{
    AckView, CongestionController, CongestionControllers, CongestionEvent, CongestionView,
    CongestionWindow, PathSums,
};
pub use experiment::Experiment;
pub use key_management::{Announce, KeyManagement, KeyRoles};
pub use path::{
    BurstLimit, CongestionControl, EcnUse, InitialWindow, LossRecovery, Pacing, PathMtu,
    PathSuspicion, ProbeOrder, SharedBottleneck,
};
pub use path_scheduler::{Demand, PathScheduler, PathSchedulers, PathView, SchedulerView};
pub use stream_mapping::StreamMapping;
pub use stream_options::{Reliability, StreamClass, StreamOptions};
pub use transfer::{
    CwndUpdate, FastRecoveryScope, NrSack, PathScheduling, Redundancy, RetransmissionPolicy,
    SackPath, SplitFastRetransmit, StreamScheduling, WindowProbing,
};

use crate::time::Duration;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// Largest IP packet assumed where a local address does not tell: that of Ethernet.
pub(crate) const DEFAULT_MTU: u16 = 1500;

/// A local transport address that an endpoint may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalAddress {
    /// Address and UDP encapsulation port (RFC 6951). Port 0 means native SCTP over IP.
    pub addr: SocketAddr,
    /// Length of the network prefix; pairs local with remote addresses of one network.
    pub prefix_len: u8,
    /// Number of the interface that has the address, 0 if that is not known. Both families on one
    /// interface share its link: only one of them makes a path.
    pub interface: u32,
    /// Largest IP packet on the interface, in bytes.
    pub mtu: u16,
}

impl LocalAddress {
    /// Whether `remote` is in its network.
    #[must_use]
    pub fn is_on_link(&self, remote: IpAddr) -> bool {
        self.matching_prefix(remote).is_some()
    }

    /// The length of its prefix if `remote` lies in it.
    pub(crate) fn matching_prefix(&self, remote: IpAddr) -> Option<u8> {
        let (differing, bits) = match (self.addr.ip(), remote) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits() ^ b.to_bits()) << 96, 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits(), 128),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return None,
        };
        let prefix = self.prefix_len.min(bits);
        (differing.leading_zeros() >= u32::from(prefix)).then_some(prefix)
    }
}

/// Parameters of an endpoint and of the associations it makes.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// SCTP port of this endpoint inside the encapsulation.
    pub port: u16,
    /// The addresses of this host that associations use, if not all: packets come from no others, and no
    /// others are told to the peer. Addresses that are added later (RFC 5061) need not be among them.
    pub local_addresses: Vec<IpAddr>,
    /// Whether INITs from peers are answered with INIT ACK; otherwise they are refused by ABORT.
    pub accept: bool,
    /// Whether packets of no association are answered (RFC 9260 section 8.4), and INITs are refused where
    /// `accept` says no. Not where others share the address: raw sockets get the packets of all stacks
    /// of a host, and an answer would end an association of another one.
    pub respond_to_ootb: bool,
    /// Streams asked for in each direction.
    pub streams: u16,
    /// Most streams taken from the peer (MIS), if that is not the same number.
    pub inbound_streams: Option<u16>,
    /// Adaptation layer indication to announce (RFC 5061 section 4.2.6).
    pub adaptation: Option<u32>,
    /// Bytes of an SCTP packet with an INIT, to which it is padded (RFC 4820 section 4) if it is smaller; 0: it is not.
    /// Peers answer with three times as many bytes at most: a larger INIT lets them list more addresses.
    pub init_size: u16,
    /// How many bytes are sent at most to addresses that are not verified for each that has come; RFC 9000 section 8.1:
    /// 3. More lets others use this endpoint to hit a victim (RFC 5062).
    pub amplification_limit: u32,
    /// Bytes that leave in a second, at most, in answer to sources that have proven nothing: INIT ACKs and answers to packets out
    /// of the blue. Shared fairly by the prefixes of the sources; `u32::MAX`: no limit. More lets a flood of INITs fill the uplink.
    pub unverified_reply_rate: u32,
    /// Give up an association that we begin if the INIT ACK does not announce exactly `adaptation`:
    /// ABORT instead of COOKIE ECHO, so that no data reaches a peer that speaks something else.
    pub require_adaptation: bool,
    /// Receive buffer of an association in bytes: the largest a_rwnd it announces.
    pub receive_buffer: u32,
    /// What the receive buffer may grow to, in bytes; less than it: it stays as it is. It doubles when half of
    /// it arrives within one round trip.
    pub receive_buffer_max: u32,
    /// From how many bytes on a message that is not complete is delivered in parts (`Message::more`,
    /// RFC 6458 section 8.1.21). One that fills nearly all of the receive buffer is in any case: it could not
    /// become complete.
    pub partial_delivery_point: u32,
    /// Send buffer of an association in bytes: accepted from the user and not yet acknowledged.
    pub send_buffer: u32,
    /// What the send buffer may grow to, in bytes; less than it: it stays as it is. It is twice what the congestion windows of all
    /// paths allow to be in flight.
    pub send_buffer_max: u32,
    /// RTO.Initial. RFC 9260 section 16 says 1 s.
    pub rto_initial: Duration,
    /// RTO.Min. RFC 9260 says 1 s; 200 ms here, because loss recovery at today's TCP pace needs it.
    pub rto_min: Duration,
    /// RTO.Max. RFC 9260 section 16 says 60 s.
    pub rto_max: Duration,
    /// The largest RTO for INIT and COOKIE ECHO, if RTO.Max is not (`sinit_max_init_timeo`, RFC 6458
    /// section 5.3.1).
    pub rto_max_init: Option<Duration>,
    /// Max.Init.Retransmits, RFC 9260 section 16.
    pub max_init_retransmits: u32,
    /// Association.Max.Retrans, RFC 9260 section 16.
    pub association_max_retransmits: u32,
    /// How long a peer may be silent while data waits for its acknowledgement, even if that are more errors than
    /// Association.Max.Retrans; zero: no longer.
    pub data_patience: Duration,
    /// The same while nothing does.
    pub idle_patience: Duration,
    /// Path.Max.Retrans, RFC 9260 section 16.
    pub path_max_retransmits: u32,
    /// Errors after which a path is potentially failed (PFMR, RFC 7829 section 3); 0 by default.
    pub potentially_failed_retransmits: u32,
    /// What makes a path potentially failed before T3-rtx does. `silence` by default: in the simulator
    /// a path that is lost in mid-transfer then stops a stream for less than 0.25 s, with T3-rtx alone
    /// for 0.28 s and more.
    pub path_suspicion: PathSuspicion,
    /// Whether confirmed paths are probed by HEARTBEATs (SPP_HB_DISABLE of RFC 6458 section 8.1.12).
    /// Without them a failed path is found working again only if the peer uses it.
    pub heartbeats: bool,
    /// HB.interval, RFC 9260 section 16.
    pub heartbeat_interval: Duration,
    /// The longest pause between two probes of a path that has failed while others work, so that a
    /// restored path is used again soon.
    pub failed_path_probe_interval: Duration,
    /// Where the size of the packets on a path comes from.
    pub path_mtu: PathMtu,
    /// In which order the search asks for sizes, which RFC 8899 section 5.3.2 leaves open. `common` by
    /// default: most paths are found with one probe.
    pub plpmtu_order: ProbeOrder,
    /// Whether the search probes the sizes that routers report (ICMP), RFC 8899 section 4.6.
    pub plpmtu_reports: bool,
    /// MIN_PLPMTU of the search (RFC 8899 section 5.1.2): IP packets that every path takes, 576 bytes and
    /// over IPv6 1280 at least.
    pub plpmtu_min: u16,
    /// BASE_PLPMTU of the search: SCTP packets that most paths take. RFC 8899 section 5.1.2: 1200
    /// bytes, but over IPv6 no less than what its smallest MTU leaves.
    pub plpmtu_base: u16,
    /// MAX_PROBES of the search, RFC 8899 section 5.1.2.
    pub plpmtu_max_probes: u32,
    /// PROBE_TIMER of the search (RFC 8899 section 5.1.1), but no less than the RTO of the path.
    pub plpmtu_probe_timer: Duration,
    /// PMTU_RAISE_TIMER of the search, RFC 8899 section 5.1.1.
    pub plpmtu_raise_timer: Duration,
    /// Delayed acknowledgement time. RFC 9260 says 200 ms; 50 ms here (production profile).
    pub sack_delay: Duration,
    /// DATA packets after which a SACK is sent at once, RFC 9260 section 6.2.
    pub sack_frequency: u32,
    /// The same while many packets come in a round trip: each has at least eight SACKs. 8 by default; no more than `sack_frequency`:
    /// that alone counts.
    pub sack_frequency_max: u32,
    /// Whether a path with a window of less than four packets asks for acknowledgements without
    /// delay (I bit, RFC 7053).
    pub immediate_sacks: bool,
    /// Max.Burst, RFC 9260 section 16: packets per path and transmission opportunity.
    pub max_burst: u32,
    /// How Max.Burst is applied.
    pub burst_limit: BurstLimit,
    /// Whether packets are spread over the round trip instead. Off by default: in the simulator it
    /// changes the goodput by no more than 3 %, and it costs timers.
    pub pacing: Pacing,
    /// How the congestion window of a path moves. BBR by default: it keeps its rate where packets are lost at
    /// random, and queues short. Each path is by itself, as in RFC 9260; what paths
    /// through one bottleneck take together is the matter of [`Self::shared_bottleneck`].
    pub congestion: CongestionControl,
    /// What happens on paths that share a bottleneck.
    pub shared_bottleneck: SharedBottleneck,
    /// For how long data of ours may wait in the queue of a path, as long as nobody else fills it; an
    /// eighth of the round trip if that is more; zero: as much as fits.
    pub queue_bound: Duration,
    /// Whether the first slow start of a path ends when round-trip times begin to grow (HyStart++,
    /// RFC 9406) instead of by loss.
    pub hystart: bool,
    /// The same in packets of full size, instead of the rule that `initial_window` names.
    pub initial_packets: Option<u32>,
    /// With whom packets are ECN-capable, and marks of congestion answered (RFC 3168; ECNE and CWR of RFC
    /// 4960 appendix A).
    pub ecn: EcnUse,
    /// What finds lost chunks: by default their time of transmission, with a probe of silent tails
    /// (RACK-TLP); otherwise missing reports (RFC 9260).
    pub loss_recovery: LossRecovery,
    /// Whether a message that does not fill a packet waits while anything is in flight, as Nagle's
    /// algorithm does (`SCTP_NODELAY` of RFC 6458 section 8.1.5 off). Off by default: the users of this
    /// engine hand it all that they have. `Endpoint::set_nagle` changes it for one association.
    pub nagle: bool,
    /// Valid.Cookie.Life, RFC 9260 section 16.
    pub cookie_life: Duration,
    /// Whether the handshake ends over the fastest of several paths. Each INIT leaves at once over all ways to the peer that
    /// are as near and as much wanted as the first one, from interfaces of their own, and the first answer counts. The first
    /// COOKIE ECHO leaves over all paths, with a HEARTBEAT on those that are not confirmed, as section 5.4 allows. Otherwise
    /// only repetitions of either take other paths. Only with `multipath`, and for peers that refuse used cookies. Cookies
    /// made here are encrypted in part, because copies may reach others.
    pub handshake_race: bool,
    /// Use every active path at once (concurrent multipath transfer); otherwise only the primary.
    pub multipath: bool,
    /// Whether messages may be interleaved with those of other streams (I-DATA, RFC 8260) where the
    /// peer can do that too. Off by default: it costs 4 bytes per chunk, and helps only with messages
    /// of many packets on several streams.
    pub interleaving: bool,
    /// Whether messages of which a part was sent may be given up, here and by the peer, where the peer
    /// can do that too (RFC 3758; with `interleaving` RFC 8260 section 2.3.1). Off by default, as RFC
    /// 3758 section 4.2 recommends. Messages of which nothing was sent are given up without it as well.
    pub partial_reliability: bool,
    /// Whether streams may be reset and added while the association is in use, where the peer can do
    /// that too (RE-CONFIG, RFC 6525). Off by default. What the peer requests is denied unless it is
    /// allowed by the three options that follow (section 6.3.1).
    pub reconfiguration: bool,
    /// Whether the peer may reset streams, its own and ours.
    pub accept_stream_resets: bool,
    /// Whether the peer may reset all streams and the TSNs.
    pub accept_association_resets: bool,
    /// Whether the peer may add streams, its own and ours, up to `max_streams`.
    pub accept_added_streams: bool,
    /// Most streams in each direction that the peer can make out of `streams` by adding some (RFC 6525
    /// sections 5.2.5 and 5.2.6). A stream that is used takes some hundred bytes.
    pub max_streams: u16,
    /// Whether chunks are authenticated (AUTH, RFC 4895) where the peer can do that too. Off by default:
    /// without shared keys it protects only against those who have not seen the handshake, and each
    /// packet costs an HMAC. `Endpoint::set_shared_key` sets keys.
    pub authentication: bool,
    /// Types of the chunks that the peer must authenticate (`SCTP_AUTH_CHUNK`, RFC 6458 section 8.3.2):
    /// without it they are dropped. INIT, INIT ACK, SHUTDOWN COMPLETE and AUTH are left out. A peer
    /// without authentication is not asked for it, unless `require_authentication` says so.
    pub authenticated_chunks: Vec<u8>,
    /// Algorithms that the peer may use. SHA-256 first: SHA-1 is there because RFC 4895 section 6.1 wants
    /// it. `Endpoint::configure` does not change them.
    pub hmac_algorithms: HmacAlgorithms,
    /// Refuse peers that cannot authenticate chunks, instead of going on without.
    pub require_authentication: bool,
    /// What is offered about key management for DTLS chunks, which protect whole packets
    /// (draft-ietf-tsvwg-sctp-dtls-chunk). None by default: keys come from outside of the engine
    /// ([`Endpoint::install_sending_key`](crate::Endpoint::install_sending_key)). Chunks are not authenticated by AUTH where DTLS chunks are agreed on;
    /// in strict mode that is not even offered.
    pub key_management: Option<KeyManagement>,
    /// To which peers our addresses are announced. `all` by default: a handshake that lists them has all paths at once, also
    /// with peers of which nothing is known.
    pub announce: Announce,
    /// Whether addresses may be added to an association that is in use, and removed from it, where the
    /// peer can do that too (ASCONF, RFC 5061). Off by default. Such chunks are always authenticated, so
    /// this implies `authentication`; peers that know ASCONF without AUTH are refused (section 6).
    pub address_reconfiguration: bool,
    /// Whether the peer may do that with its addresses.
    pub accept_address_changes: bool,
    /// Largest fragment of a message in bytes (`SCTP_MAXSEG`, RFC 6458 section 8.1.16), if the size of the
    /// packets is not to decide alone. `Endpoint::set_fragment_limit` changes it.
    pub fragment_limit: Option<u16>,
    /// Whether messages that have not got across are handed back when an association ends
    /// (`Event::Undelivered`). Off by default: they are as much as the send buffer holds.
    pub report_undelivered: bool,
    /// What is done for messages of which nothing else is said. They are reliable by default.
    /// `Endpoint::set_reliability` changes it.
    pub reliability: Reliability,
    /// Which stream goes next when several have something to send (RFC 8260 section 3). Sparse
    /// streams before bulk data by default, otherwise first come, first served.
    pub stream_scheduling: StreamScheduling,
    /// Wishes for the outbound streams, in the order of their numbers; streams beyond the list have
    /// the default ones. `Endpoint::set_stream_options` changes them.
    pub stream_options: Vec<StreamOptions>,
    /// Which path the messages of a stream take. Any by default.
    pub stream_mapping: StreamMapping,
    /// What is sent on several paths at once, beside what `path_scheduling` says. Nothing by default;
    /// `Endpoint::set_redundancy` changes it. From the first copy on, losses of the association are found by
    /// missing reports in place of RACK.
    pub redundancy: Redundancy,
    /// Acknowledgement of what the receiver never throws away (NR-SACK, draft-tuexen-tsvwg-
    /// sctp-multipath section 4), with peers that know it. Off by default.
    pub nr_sack: NrSack,
    /// Most associations that the endpoint keeps; INITs beyond it are refused.
    pub max_associations: usize,
    /// Most associations that are taken from one address of peers, with IPv6 from one network of 64
    /// bits. Translators put many hosts behind one address.
    pub max_associations_per_address: usize,
    /// Received data that all associations together may hold, in bytes. Beyond it each may still
    /// hold an equal part of it, and as much again to fill gaps, so that those that hoard do not stop
    /// the others. Only messages larger than such a part may have to wait.
    pub receive_memory: usize,
    /// What papers compare, which products leave as it is.
    pub experiment: Experiment,
}

/// The smallest receive window that may be announced (RFC 9260 sections 3.3.2 and 3.3.3).
pub(crate) const MIN_A_RWND: u32 = 1500;

impl Config {
    /// With the least values that an INIT may announce instead of smaller ones.
    pub(crate) fn in_bounds(mut self) -> Self {
        self.receive_buffer = self.receive_buffer.max(MIN_A_RWND);
        self.streams = self.streams.max(1);
        self.inbound_streams = self.inbound_streams.map(|streams| streams.max(1));
        self
    }

    /// With what `like` says of sending that the peer need not know.
    pub(crate) fn sending_like(self, like: &Self) -> Self {
        Self {
            congestion: like.congestion,
            hystart: like.hystart,
            queue_bound: like.queue_bound,
            pacing: like.pacing,
            stream_scheduling: like.stream_scheduling,
            stream_mapping: like.stream_mapping.clone(),
            ..self
        }
    }

    /// Whether associations may use this address of ours.
    pub(crate) fn allows(&self, local: IpAddr) -> bool {
        self.local_addresses.is_empty() || self.local_addresses.contains(&local)
    }

    /// Those of `locals` that associations may use.
    pub(crate) fn allowed<'a>(&self, locals: &'a [LocalAddress]) -> Cow<'a, [LocalAddress]> {
        if locals.iter().all(|local| self.allows(local.addr.ip())) {
            return Cow::Borrowed(locals);
        }
        let allowed = |local: &&LocalAddress| self.allows(local.addr.ip());
        Cow::Owned(locals.iter().filter(allowed).copied().collect())
    }

    /// Most streams taken from the peer.
    pub(crate) fn max_inbound_streams(&self) -> u16 {
        self.inbound_streams.unwrap_or(self.streams)
    }

    /// Whether chunks may have to be authenticated.
    pub(crate) fn authenticates(&self) -> bool {
        let strict = self.key_management.as_ref().is_some_and(|it| it.required);
        (self.authentication || self.address_reconfiguration) && !strict
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            port: 0,
            local_addresses: Vec::new(),
            accept: false,
            respond_to_ootb: true,
            streams: 1024,
            inbound_streams: None,
            adaptation: None,
            init_size: 0,
            amplification_limit: 3,
            unverified_reply_rate: 1 << 20,
            require_adaptation: false,
            receive_buffer: 8 << 20,
            receive_buffer_max: 0,
            partial_delivery_point: u32::MAX,
            send_buffer: 8 << 20,
            send_buffer_max: 0,
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(60),
            rto_max_init: None,
            max_init_retransmits: 8,
            association_max_retransmits: 10,
            data_patience: Duration::ZERO,
            idle_patience: Duration::ZERO,
            path_max_retransmits: 5,
            potentially_failed_retransmits: 0,
            path_suspicion: PathSuspicion::Silence,
            heartbeats: true,
            heartbeat_interval: Duration::from_secs(30),
            failed_path_probe_interval: Duration::from_secs(2),
            path_mtu: PathMtu::Search,
            plpmtu_order: ProbeOrder::Common,
            plpmtu_reports: true,
            plpmtu_min: 576,
            plpmtu_base: 1200,
            plpmtu_max_probes: 3,
            plpmtu_probe_timer: Duration::from_secs(1),
            plpmtu_raise_timer: Duration::from_secs(600),
            sack_delay: Duration::from_millis(50),
            sack_frequency: 2,
            sack_frequency_max: 8,
            immediate_sacks: true,
            max_burst: 4,
            burst_limit: BurstLimit::Acknowledged,
            pacing: Pacing::Off,
            congestion: CongestionControl::Bbr,
            shared_bottleneck: SharedBottleneck::Detect,
            queue_bound: Duration::from_millis(10),
            hystart: true,
            initial_packets: None,
            ecn: EcnUse::WhereSeen,
            loss_recovery: LossRecovery::Rack,
            nagle: false,
            cookie_life: Duration::from_secs(60),
            handshake_race: true,
            multipath: true,
            interleaving: false,
            partial_reliability: false,
            reconfiguration: false,
            accept_stream_resets: false,
            accept_association_resets: false,
            accept_added_streams: false,
            max_streams: 4096,
            authentication: false,
            authenticated_chunks: Vec::new(),
            fragment_limit: None,
            report_undelivered: false,
            hmac_algorithms: HmacAlgorithms::Sha256Sha1,
            require_authentication: false,
            key_management: None,
            announce: Announce::All,
            address_reconfiguration: false,
            accept_address_changes: true,
            reliability: Reliability::Reliable,
            stream_scheduling: StreamScheduling::SparseFirst,
            stream_options: Vec::new(),
            stream_mapping: StreamMapping::Any,
            redundancy: Redundancy::Off,
            nr_sack: NrSack::Off,
            max_associations: 4096,
            max_associations_per_address: 1024,
            receive_memory: 1 << 30,
            experiment: Experiment::default(),
        }
    }
}
