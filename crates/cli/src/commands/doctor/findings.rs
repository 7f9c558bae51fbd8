//! What was found out: plain data, without any judgement.

use manypath_control::path::{IdleReason, PathPolicy};
use manypath_control::status::{FallbackReason, Withheld};
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// All of it.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Findings {
    /// The peer as it was named; none if only this machine is looked at.
    pub(super) host: Option<String>,
    /// Its addresses: those of its name, then those that it tells itself.
    pub(super) addresses: Vec<IpAddr>,
    /// Those of them that it tells and that mean something behind its NAT alone, unless they answer.
    pub(super) behind_nat: Vec<IpAddr>,
    /// The service that is meant.
    pub(super) port: Option<u16>,
    /// UDP port of the peer's manypath, as a connection to the service would ask.
    pub(super) udp_port: u16,
    /// The port for services at the ports below 1024, or for the others.
    pub(super) other_port: Option<OtherPort>,
    /// Ports for peers that other users of this host have.
    pub(super) taken: Vec<Taken>,
    /// The paths that an association would have.
    pub(super) paths: Vec<PathFinding>,
    /// The addresses of this host, and for which peers they are there.
    pub(super) scopes: Vec<ScopeFinding>,
    /// Interfaces that could be uplinks and have no address.
    pub(super) without_address: Vec<String>,
    /// Files that stacks do not take.
    pub(super) files: Vec<FileFault>,
    #[serde(flatten)]
    pub(super) ruled: Ruled,
    /// What is remembered against the peer.
    pub(super) remembered: Vec<Remembered>,
    /// Whether the loopback interface works.
    pub(super) loopback: bool,
    /// Facts about the kernel.
    pub(super) kernel: Kernel,
    /// What `manypath run` does on this machine.
    pub(super) launcher: Launcher,
    /// Whether the kernel knows no way to the peer, so that connects of all programs fail.
    pub(super) unrouted: bool,
    /// What answers at the peer otherwise.
    pub(super) peer: Peer,
    /// What became of a connection to the service.
    pub(super) trial: Option<Trial>,
    /// Commands that open the local firewall for what leaves, and for what comes back; empty if it is not known.
    pub(super) open_output: Vec<String>,
    pub(super) open_input: Vec<String>,
}

impl Findings {
    /// What the peer is called in sentences.
    pub(super) fn peer_name(&self) -> &str {
        self.host.as_deref().unwrap_or("the peer")
    }
}

/// Another UDP port of the peer.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OtherPort {
    pub(super) port: u16,
    /// Whether a manypath answers there.
    pub(super) answers: bool,
}

/// A UDP port that a user has who is neither root nor the service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Taken {
    pub(super) port: u16,
    /// User and process, in words.
    pub(super) by: String,
}

/// For which peers an address of this host is there.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ScopeFinding {
    pub(super) addr: IpAddr,
    pub(super) interface: String,
    /// `open`, `private` or `isolated`.
    pub(super) scope: &'static str,
    pub(super) reason: String,
    /// Whether an association with the host would use it.
    pub(super) used: bool,
    /// The command that makes an isolated address an uplink as others.
    pub(super) cure: Option<String>,
}

/// One path.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PathFinding {
    /// The local address and its interface.
    pub(super) local: IpAddr,
    pub(super) interface: String,
    /// The peer's address.
    pub(super) remote: SocketAddr,
    /// State of the interface.
    pub(super) link: LinkState,
    /// The kernel's route for packets from the address through the interface.
    pub(super) route: RouteFinding,
    /// Whether the peer answers over UDP.
    pub(super) udp: Udp,
    /// Whether TCP gets an answer on the path, of whatever kind; absent if it was not asked.
    pub(super) tcp: Option<bool>,
    /// Whether an answer was seen to arrive that the socket did not get; absent without the right to look.
    pub(super) dropped_here: Option<bool>,
    /// The address that the peer sees; absent if it does not tell.
    pub(super) outside: Option<SocketAddr>,
    /// Whether that is another one than the local.
    pub(super) nat: Option<bool>,
    /// How long a NAT keeps an unused mapping (`--nat`).
    pub(super) rebinding: Option<Rebinding>,
    /// The largest IP packet that gets to the peer, in bytes, up to that of the interface.
    pub(super) mtu: Option<u16>,
    /// The largest IP packet that the interface takes.
    pub(super) interface_mtu: u16,
    /// What routers say that a link on the way takes.
    pub(super) mtu_told: Option<u16>,
    /// ECN.
    pub(super) ecn: Ecn,
    /// Segmentation by the kernel.
    pub(super) gso: Gso,
    #[serde(flatten)]
    pub(super) wanted: Wanted,
    /// Bytes of the receive buffer that a socket gets here.
    pub(super) receive_buffer: usize,
    /// Why sockets cannot be bound to the interface.
    pub(super) unbound: Option<String>,
    /// What running stacks say of it.
    pub(super) stacks: Vec<StackPath>,
}

/// State of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum LinkState {
    Up,
    NoCarrier,
    Off,
}

/// What the kernel says about the way.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct RouteFinding {
    /// The next hop; absent on the link itself.
    pub(super) gateway: Option<IpAddr>,
    /// Whether the peer is on the link: in the network of the address, or at the other end of it.
    pub(super) on_link: bool,
    /// Why there is none.
    pub(super) error: Option<String>,
    /// The rule or route that forbids it, as the command that takes it away.
    pub(super) unforbid: Option<String>,
    /// Routers of the interface, the likeliest first.
    pub(super) gateways: Vec<IpAddr>,
    /// The interface through which answers to the peer would leave, if it is another one.
    pub(super) reverse: Option<String>,
    /// What holds of rp_filter: 0 off, 1 strict, 2 loose.
    pub(super) rp_filter: u8,
}

/// What became of a question.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub(super) enum Udp {
    /// SCTP answers.
    Answered { rtt_ms: f64, manypath: bool },
    /// SCTP answers, and refuses associations: those that are not encrypted, or all.
    Aborted { wants_encryption: bool },
    /// The host says that nobody listens.
    PortClosed,
    /// The network says that there is no way.
    Unreachable,
    /// This host does not let it leave.
    Refused { errno: i32, why: String },
    /// Nothing is heard.
    Silent,
}

impl Udp {
    pub(super) const fn is_answered(&self) -> bool {
        matches!(self, Self::Answered { .. })
    }
}

/// What is known about ECN on a path.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Ecn {
    /// Whether the peer's SCTP takes part.
    pub(super) peer: Option<bool>,
    /// Whether packets that are marked as ECN-capable get to the peer.
    pub(super) passes: Option<bool>,
}

/// What is known about segmentation offload.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Gso {
    /// Whether the kernel offers it.
    pub(super) kernel: bool,
    /// Whether a run of packets has reached the peer.
    pub(super) passes: Option<bool>,
}

/// What was measured of a NAT.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub(super) enum Rebinding {
    /// After the longest pause that was tried packets still came in.
    Longer { than_s: f64 },
    /// After `kept_s` packets still came in, after `lost_s` none.
    Between { kept_s: f64, lost_s: f64 },
    /// Not known.
    Unknown { why: String },
}

/// What the user's files say of a path.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Wanted {
    /// What the user wants of the path, and the words that name it in the file.
    pub(super) wish: Option<Wish>,
    /// The rule that keeps the connections off the path.
    pub(super) excluded_by: Option<Exclusion>,
}

/// What the user wants of a path.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Wish {
    /// `normal`, `backup` or `disabled`.
    pub(super) role: String,
    /// All that is wanted, in words.
    pub(super) words: String,
    /// The paths that are meant, in words.
    pub(super) selector: String,
}

/// A rule that lets connections use other paths alone.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Exclusion {
    /// CHAIN POLICY N.
    pub(super) place: String,
    /// Which uplinks it lets them use, in its words.
    pub(super) words: String,
    /// Whether they never use others. Otherwise others are backups.
    pub(super) strict: bool,
}

/// What a running stack says of a path.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StackPath {
    pub(super) pid: u32,
    pub(super) association: u64,
    pub(super) state: String,
    pub(super) idle: Option<String>,
    pub(super) idle_reason: Option<IdleReason>,
    pub(super) since_data_sent_ms: Option<u64>,
    pub(super) since_data_received_ms: Option<u64>,
    pub(super) ecn: String,
    pub(super) mtu: u16,
    pub(super) peer_policy: PathPolicy,
    /// Why its association has no paths from other addresses of this host.
    pub(super) withheld: Option<Withheld>,
}

/// A file that stacks do not take.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FileFault {
    /// `rules`, `settings` or `paths`.
    pub(super) kind: &'static str,
    pub(super) file: PathBuf,
    /// The line, from 1; absent if the file cannot be read at all.
    pub(super) line: Option<usize>,
    pub(super) message: String,
}

/// What rules keep from connections to the peer.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Ruled {
    /// The rule by which they are left to the kernel.
    pub(super) rule: Option<RuleFinding>,
    /// The rule by which they are not encrypted.
    pub(super) unencrypted_by: Option<UnencryptedBy>,
}

/// A rule with `encrypt=off`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct UnencryptedBy {
    /// The rule.
    pub(super) rule: String,
    /// Where it stands.
    pub(super) file: PathBuf,
    pub(super) line: usize,
    /// The command that adds the same rule with encryption before it; absent if it stands in a file that the user's own
    /// follows.
    pub(super) cure: Option<String>,
}

/// Why rules leave the peer to the kernel.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RuleFinding {
    /// The rule's place, as `remote disable 1`; absent for the default.
    pub(super) place: Option<String>,
    /// The rule.
    pub(super) rule: Option<String>,
}

/// An entry about the peer, or about a service of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Remembered {
    pub(super) addr: IpAddr,
    pub(super) port: Option<u16>,
    pub(super) reason: FallbackReason,
    pub(super) remaining_s: u64,
}

/// Facts about the kernel.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Kernel {
    /// Whether MPTCP is switched on (net.mptcp.enabled); absent if the kernel has none.
    pub(super) mptcp: Option<bool>,
    /// Whether the kernel's SCTP is loaded.
    pub(super) sctp: bool,
    /// The UDP port at which the kernel's SCTP listens; 0 for none.
    pub(super) sctp_udp_port: u16,
    /// Whether a stack of this host uses SCTP without UDP.
    pub(super) native: bool,
    /// Processes that run a stack here.
    pub(super) stacks: Vec<u32>,
}

/// What `manypath run` does on this machine.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case", tag = "run")]
pub(super) enum Launcher {
    /// Clients and servers are carried.
    #[default]
    Everything,
    /// Listening sockets are reached by plain TCP only.
    Clients,
    /// Programs that hand over their sockets by the C library are carried, and no others.
    Linked {
        /// Whether their listening sockets are reached over SCTP, too.
        servers: bool,
        /// Why it is so, and what changes it, in a line.
        text: String,
    },
    /// An outer launcher carries what is started here.
    Nested,
    /// Programs are plain TCP.
    Nothing {
        /// The name of the cause.
        obstacle: &'static str,
        /// Cause and cure, in a line.
        text: String,
        /// The command that fixes it, if there is one.
        command: Option<&'static str>,
    },
}

/// What answers at the peer otherwise.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Peer {
    /// Whether the service speaks MPTCP; absent if it is not known.
    pub(super) mptcp: Option<bool>,
}

/// What became of a connection to the service.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub(super) enum Trial {
    /// It is carried.
    Carried,
    /// It would be plain TCP.
    Plain { reason: FallbackReason },
    /// The service does not take it.
    Failed { errno: i32 },
    /// It could not be tried.
    Unknown { why: String },
}
