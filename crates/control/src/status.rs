//! What a stack says about itself: the snapshot behind `manypath status`.
//!
//! Everything is plain data with units in the names, so that the JSON needs no second manual.

pub use crate::fallback::FallbackReason;
use crate::path::{IdleReason, PathPolicy};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// One stack as it stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StackStatus {
    /// Version of the program.
    pub version: String,
    /// Process that owns the associations.
    pub pid: u32,
    /// Which of the engine loops of the process this is: 0 for the first. Associations, counters and windows are those of
    /// this loop alone.
    #[serde(default)]
    pub loop_index: u32,
    /// The engine loops of the process.
    #[serde(flatten)]
    pub engine_loops: EngineLoops,
    /// Inode of the network namespace of the stack, so that stacks of other hosts can be told
    /// apart; 0 when it could not be read.
    pub network_namespace: u64,
    /// Milliseconds since the stack started.
    pub uptime_ms: u64,
    /// Whether associations from peers are accepted.
    pub accepting: bool,
    /// Whether the stack takes no new work and ends when its flows have ended.
    pub draining: bool,
    /// UDP port of the stack's own sockets.
    pub udp_port: u16,
    /// The UDP port beside it at which the stack answers for ports below 1024.
    #[serde(default)]
    pub privileged_port: Option<u16>,
    /// What peers may reach: `PORT` or `ADDR:PORT`.
    pub allow: Vec<String>,
    /// Listening sockets of programs under `manypath run` that have been announced to this stack.
    #[serde(default)]
    pub listeners: Vec<ListenerStatus>,
    /// The local addresses that carry paths.
    pub locals: Vec<LocalStatus>,
    /// Interfaces that have a budget.
    #[serde(default)]
    pub budgets: Vec<BudgetStatus>,
    /// Peers that have a quota.
    #[serde(default)]
    pub quotas: Vec<QuotaStatus>,
    /// The associations.
    pub associations: Vec<AssociationStatus>,
    /// Memory of the windows of all connections.
    #[serde(default)]
    pub receive_memory: MemoryStatus,
    /// Its key, if anything may be encrypted.
    #[serde(default)]
    pub identity: Option<IdentityStatus>,
    /// What the stack may do to its host.
    #[serde(default)]
    pub sandbox: SandboxStatus,
    /// What it has to do with relays.
    #[serde(flatten)]
    pub relaying: RelayingStatus,
    /// What each host behind the doors of a gateway has had.
    #[serde(default)]
    pub door_hosts: Vec<DoorHostStatus>,
    /// What is remembered about peers that did not speak SCTP, or refused a destination.
    pub peers: Vec<PeerStatus>,
    /// How often plain TCP was used instead, by reason.
    pub fallbacks: BTreeMap<FallbackReason, u64>,
    /// Everything else that was counted: drops, refusals, errors; by name.
    pub counters: BTreeMap<String, u64>,
}

/// The engine loops of a process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EngineLoops {
    /// How many there are.
    #[serde(default = "one")]
    pub loops: u32,
    /// Why there are not as many as were asked for.
    #[serde(default)]
    pub loops_reason: Option<String>,
}

const fn one() -> u32 {
    1
}

/// The key by which peers know a stack.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IdentityStatus {
    /// Its fingerprint.
    pub key: String,
    /// Why it is one for this stack alone, if it is: peers are known until the stack ends, and those that connect are not
    /// encrypted.
    #[serde(default)]
    pub unkept: Option<String>,
    /// Tickets of servers that it has, each for one further association.
    #[serde(default)]
    pub tickets: usize,
}

/// What a stack may do to its host, should a peer take it over.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SandboxStatus {
    /// The user id that it runs as.
    pub user: u32,
    /// Capabilities that it kept after root had started it.
    pub capabilities: Vec<String>,
    /// Whether it can gain no privileges by starting programs.
    pub no_new_privileges: bool,
    /// Whether system calls that it does not need are refused.
    pub seccomp: bool,
    /// Whether files that it does not need are out of its reach.
    pub landlock: bool,
    /// Measures that this host does not allow, each with the reason.
    pub missing: Vec<String>,
}

/// What a stack has to do with relays: as one, and as the client of others.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RelayingStatus {
    /// What the stack has relayed to other hosts, for each peer.
    #[serde(default)]
    pub relayed_peers: Vec<RelayedPeerStatus>,
    /// Hosts known by their keys, and what relays said that were asked for them in vain.
    #[serde(default)]
    pub searches: Vec<SearchStatus>,
}

/// What a relay has done for one peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RelayedPeerStatus {
    /// The fingerprint of its key.
    pub peer: String,
    /// Connections that are open or being made.
    pub open: u64,
    /// Connections that it has asked for, those that were denied for their number not included.
    pub opened: u64,
    /// Connections denied: too many at a time, or to destinations that are closed to relays.
    pub denied: u64,
    /// Connections that came to nothing: no such name, or the destination's side refused or did not answer.
    pub failed: u64,
    /// Bytes sent to destinations.
    pub to_destinations_bytes: u64,
    /// Bytes received from destinations.
    pub from_destinations_bytes: u64,
}

/// A host that was looked for at relays by the address of its key, not all of which led there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SearchStatus {
    /// The address.
    pub host: IpAddr,
    /// The relay that leads there; none if no relay does.
    pub relay: Option<IpAddr>,
    /// Those that were asked before, in this order.
    pub tried: Vec<RelayTried>,
}

/// A relay that does not lead to a host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RelayTried {
    /// The relay.
    pub relay: IpAddr,
    /// `not-registered`: the host has not registered there; `no-answer`; or the name of a [`FallbackReason`]: `refused`
    /// is also said of a host that does not want to, or is at a limit.
    pub outcome: String,
}

/// Connections of a host that come in at the doors of a gateway.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DoorHostStatus {
    /// The host; the unspecified address stands for all beyond the first 1024.
    pub host: IpAddr,
    /// Connections that are open.
    pub open: u64,
    /// Connections over SCTP that have ended.
    pub carried: u64,
    /// Connections over plain TCP that have ended.
    pub plain: u64,
    /// Connects that failed.
    pub failed: u64,
    /// Connects that the door refused.
    pub refused: u64,
    /// Bytes that the host has sent, on open connections, too.
    pub sent_bytes: u64,
    /// Bytes that the host has received.
    pub received_bytes: u64,
}

/// Memory for data that programs have not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// What there is (`receive_memory_mib`).
    pub limit_bytes: u64,
    /// What peers may fill: it is used only as far as programs do not keep up.
    pub promised_bytes: u64,
}

/// A listening socket of a program under `manypath run`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ListenerStatus {
    /// Where it is bound.
    pub addr: SocketAddr,
    /// Whether an IPv6 socket refuses IPv4.
    pub v6_only: bool,
    /// The program.
    pub program: String,
    /// Whether peers can reach it, as far as that does not depend on the address that they use.
    pub offered: bool,
    /// Connections that peers have made to it through this stack.
    pub sctp: u64,
    /// Other connections that its program has accepted, a second late at most.
    pub plain: u64,
}

/// An interface that may carry so much in a day or a month.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BudgetStatus {
    /// Its name.
    pub interface: String,
    /// What it may carry, in both directions together.
    pub limit_bytes: u64,
    /// `day` or `month`.
    pub period: String,
    /// Whether it carries nothing afterwards, not even where no other path is usable.
    pub hard: bool,
    /// What it has carried in this one, as the kernel counts.
    pub used_bytes: u64,
    /// Whether that is all that it may.
    pub used_up: bool,
}

/// A peer that may move so much in a day or a month, by rules with this quota.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QuotaStatus {
    /// The fingerprint of its key.
    pub key: String,
    /// Its name in the file of `--authorized`.
    pub name: Option<String>,
    /// What its connections may move, in both directions together.
    pub limit_bytes: u64,
    /// `day` or `month`.
    pub period: String,
    /// What they have moved in this one.
    pub used_bytes: u64,
    /// Whether that is all that they may: it gets no new connections.
    pub used_up: bool,
}

/// A local address that carries paths.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LocalStatus {
    /// The address and UDP port.
    pub addr: SocketAddr,
    /// The interface that has the address.
    pub interface: String,
    /// Largest IP packet of the interface, in bytes.
    pub mtu: u32,
    /// For which peers it is there: `open`, `private` or `isolated`.
    #[serde(default)]
    pub scope: String,
}

/// One association.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AssociationStatus {
    /// Its number in this stack.
    pub id: u64,
    /// Whether this side began it.
    pub initiated: bool,
    /// `mux`, many connections in one, or `direct`, one in each.
    #[serde(default)]
    pub form: String,
    /// The parameters with which this side began it, or which a rule gives the key of the peer that did.
    #[serde(default)]
    pub profile: Option<String>,
    /// What it has not of these, because that had to be agreed on before the key was known.
    #[serde(default)]
    pub profile_lacks: Option<String>,
    /// How the congestion windows of its paths move, by the name of the option `congestion`.
    #[serde(default)]
    pub congestion: String,
    /// Which uplinks it may use, in words of a rule, if not all.
    #[serde(default)]
    pub path_limits: Option<String>,
    /// State as RFC 9260 section 4 names it, in lower case with hyphens.
    pub state: String,
    /// Milliseconds since it was begun.
    pub age_ms: u64,
    /// Bytes queued and not yet sent.
    pub unsent_bytes: u64,
    /// Bytes sent and not yet acknowledged.
    pub outstanding_bytes: u64,
    /// The peer's receive window as last known.
    pub peer_rwnd_bytes: u64,
    /// Bytes received that wait for a gap to be filled or for their reader.
    pub receive_queued_bytes: u64,
    /// Its keys and its peer's, if it is encrypted.
    #[serde(default)]
    pub encryption: Option<EncryptionStatus>,
    /// Why its peer is told no addresses of this host but that of the handshake, if it is not: it has one path from here.
    #[serde(default)]
    pub withheld_addresses: Option<Withheld>,
    /// The paths.
    pub paths: Vec<PathStatus>,
    /// The flows.
    pub flows: Vec<FlowStatus>,
    /// The flows of datagrams.
    #[serde(default)]
    pub datagrams: Vec<DatagramStatus>,
}

/// Why a peer is told no addresses with the setting `announce=authenticated`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Withheld {
    /// Keys are being made.
    KeyExchange,
    /// The key of the peer that was called is new.
    NewKey,
    /// The key of the peer that has called is in no list of authorized ones.
    NotAuthorized,
    /// The association is not encrypted.
    NotEncrypted,
    /// What another version says.
    #[serde(other)]
    Unknown,
}

impl Withheld {
    /// What it means and what changes it, for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::KeyExchange => "other addresses are announced when the key exchange is complete",
            Self::NewKey => {
                "other addresses are not announced, because the peer's key is new: compare it \
                 (`manypath key show ADDRESS`); the next association announces them"
            }
            Self::NotAuthorized => {
                "other addresses are not announced, because the peer's key is not authorized: \
                 add it to the file of `--authorized`; the next association announces them"
            }
            Self::NotEncrypted => {
                "other addresses are not announced, because the association is not encrypted: \
                 `manypath config set encrypt=opportunistic` at both ends, or announce=all here"
            }
            Self::Unknown => "other addresses are not announced",
        }
    }
}

/// How an association is encrypted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct EncryptionStatus {
    /// `key-exchange` while messages wait for keys, then `encrypted`.
    pub state: String,
    /// Whether its first keys follow from an earlier association with the peer.
    #[serde(default)]
    pub resumed: bool,
    /// As TLS 1.3 names it.
    pub cipher_suite: Option<String>,
    /// The epoch of the key for sending; 3 for the first one.
    pub epoch: u64,
    /// The fingerprint of the peer's key.
    pub peer: Option<String>,
    /// The peer's name in the file of `--authorized`.
    #[serde(default)]
    pub name: Option<String>,
    /// `known` and `new` keys of peers that were called; `authorized` and `unknown` ones of those that have called.
    pub standing: Option<String>,
    /// Packets sent in this epoch.
    pub packets_sealed: u64,
    /// Packets received with the keys that are in use.
    pub packets_opened: u64,
    /// Packets that were not authentic.
    pub packets_dropped: u64,
}

/// Round trips over a path.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RoundTripStatus {
    /// Smoothed round-trip time in microseconds, once measured.
    pub srtt_us: Option<u64>,
    /// Retransmission timeout in microseconds.
    pub rto_us: u64,
    /// By how many microseconds round trips have lately exceeded the shortest one, over TCP and TLS: queues, and
    /// packets that wait for those before them. None over UDP.
    #[serde(default)]
    pub hold_up_us: Option<u64>,
}

/// One path of an association.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PathStatus {
    /// Its number in the association.
    pub id: u8,
    /// Our address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The interface that has our address.
    pub interface: String,
    /// What carries it, `udp:PORT`, `tcp:PORT`, `tls:PORT` or `proxy:PORT`, if that is not UDP at the usual port.
    #[serde(default)]
    pub carrier: Option<String>,
    /// `active`, `unconfirmed`, `potentially-failed` or `inactive`.
    pub state: String,
    /// Whether it is the primary path.
    pub primary: bool,
    /// How long round trips take.
    #[serde(flatten)]
    pub round_trip: RoundTripStatus,
    /// Congestion window in bytes.
    pub cwnd_bytes: u64,
    /// Slow start threshold in bytes.
    pub ssthresh_bytes: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// SCTP packets sent.
    pub packets_sent: u64,
    /// SCTP bytes sent.
    pub bytes_sent: u64,
    /// SCTP packets received.
    pub packets_received: u64,
    /// SCTP bytes received.
    pub bytes_received: u64,
    /// DATA chunks sent again after a fast retransmit.
    pub fast_retransmits: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Times that nothing was heard of the path in time and a chunk was sent again to find out why.
    #[serde(default)]
    pub probes: u64,
    /// Probes after which the path was heard of after all.
    #[serde(default)]
    pub spurious_probes: u64,
    /// Times that the path was taken for potentially failed because of its silence.
    #[serde(default)]
    pub suspicions: u64,
    /// Suspicions that were wrong.
    #[serde(default)]
    pub spurious_suspicions: u64,
    /// Packets sent into a silence, in which losses would not have shown.
    #[serde(default)]
    pub tail_probes: u64,
    /// DATA chunks that were sent again although they had arrived, as far as is known.
    #[serde(default)]
    pub spurious_retransmits: u64,
    /// What ECN does on the path: `off`, `testing`, `on`, `black-hole` or `always-marked`.
    #[serde(default)]
    pub ecn: String,
    /// Packets with new data that arrived with CE.
    #[serde(default)]
    pub ce_received: u64,
    /// ECNE chunks received about the path.
    #[serde(default)]
    pub ecne_received: u64,
    /// Times that the congestion window was made smaller because of them.
    #[serde(default)]
    pub ecn_reductions: u64,
    /// Consecutive errors.
    pub error_count: u32,
    /// What this end wants of the path.
    #[serde(default)]
    pub policy: PathPolicy,
    /// What the peer wants of it, as far as it has said.
    #[serde(default)]
    pub peer_policy: PathPolicy,
    /// Milliseconds since data was sent on it last, if ever.
    #[serde(default)]
    pub since_data_sent_ms: Option<u64>,
    /// Milliseconds since data came over it last, if ever.
    #[serde(default)]
    pub since_data_received_ms: Option<u64>,
    /// Why nothing is sent on the path now, for people.
    pub idle: Option<String>,
    /// The same for programs.
    #[serde(default)]
    pub idle_reason: Option<IdleReason>,
}

/// One carried TCP connection.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlowStatus {
    /// The stream that carries it, in both directions.
    pub stream: u16,
    /// How many flows its opener has opened on the stream, this one included.
    pub generation: u32,
    /// Whether this side opened it.
    pub initiated: bool,
    /// `opening`, `incoming`, `open`, `half-closed-local`, `half-closed-remote` or `closing`.
    pub state: String,
    /// The address that the program connected to.
    pub destination: SocketAddr,
    /// The address that the program connected from, as its side gave it.
    pub source: SocketAddr,
    /// The client of a service here, by an address at which its association was verified.
    #[serde(default)]
    pub client: Option<SocketAddr>,
    /// Bytes received from the peer.
    pub bytes_in: u64,
    /// Bytes sent to the peer.
    pub bytes_out: u64,
    /// Bytes from the peer that the local socket has not taken yet.
    pub waiting_in_bytes: u64,
    /// Bytes for the peer that wait in this stack.
    pub waiting_out_bytes: u64,
    /// Bytes that the peer still allows us to send.
    pub credit_bytes: u64,
    /// `bulk` or `interactive`, for what this side sends.
    #[serde(default)]
    pub class: String,
    /// Its share beside others of its class, for what this side sends.
    #[serde(default)]
    pub weight: u16,
    /// Whether what this side sends goes over every path.
    #[serde(default)]
    pub redundant: bool,
    /// The destination, an address or a name with a port, if the side that accepted the flow relays it there.
    #[serde(default)]
    pub beyond: Option<String>,
}

/// Datagrams of one socket to one address.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DatagramStatus {
    /// Its number among those of the side that opened it.
    pub number: u32,
    /// Whether this side opened it.
    pub initiated: bool,
    /// Whether the other side has accepted it.
    pub accepted: bool,
    /// Where the program sends to.
    pub destination: SocketAddr,
    /// The address of the program, as its side gave it.
    pub source: SocketAddr,
    /// Milliseconds for which a datagram that is sent here is worth something.
    pub lifetime_ms: u64,
    /// Whether datagrams that are sent here go over every path.
    #[serde(default)]
    pub redundant: bool,
    /// Datagrams sent to the peer.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Datagrams given up because they were worth nothing any more, sent before or not.
    pub expired: u64,
    /// Datagrams dropped because too many newer ones waited.
    pub dropped_for_newer: u64,
    /// Datagrams that the kernel dropped because this stack did not take them in time.
    pub dropped_by_kernel: u64,
    /// Datagrams dropped because they were longer than a UDP datagram may be.
    pub dropped_too_long: u64,
    /// Datagrams that wait in this stack.
    pub waiting: u64,
    /// Datagrams received from the peer.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Datagrams handed to the local socket.
    pub delivered: u64,
    /// Datagrams that the local socket had no room for, or refused.
    pub undelivered: u64,
}

/// What is remembered about a peer or about one of its services.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PeerStatus {
    /// The peer.
    pub addr: IpAddr,
    /// The service, if only that one is reached by plain TCP.
    pub port: Option<u16>,
    /// Why plain TCP is used.
    pub reason: FallbackReason,
    /// Milliseconds until it is tried again.
    pub expires_ms: u64,
}
