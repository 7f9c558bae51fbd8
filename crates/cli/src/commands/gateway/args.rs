//! The options of `manypath gateway`.

use crate::commands::stack_options::StackOptions;
use clap::{ArgGroup, Args, ValueEnum};
use manypath_daemon::Framing;
use manypath_rules::Network;
use std::net::IpAddr;
use std::path::PathBuf;

/// Carry proxy clients or a whole network, or join SCTP and TCP programs.
///
/// For programs and hosts that cannot be intercepted.
/// `--socks` takes in clients of SOCKS5 and HTTP CONNECT on one port, `--lan` all TCP connections,
/// and with `--via` or `--udp` all UDP datagrams, of the hosts behind an interface of this host,
/// which need not be configured. Either way each
/// connection goes on as one of a program under `manypath run` does: over SCTP where the destination
/// has manypath, otherwise as plain TCP.
///
/// `--sctp PORT --tcp HOST:PORT` lets native SCTP clients reach a TCP service, `--tcp PORT --sctp
/// HOST[,HOST]:PORT` lets TCP clients reach a native SCTP server: each TCP connection becomes one
/// association. Several addresses, of this host or of the server, become paths of the same
/// association. FIN maps to SHUTDOWN and RST to ABORT, in both directions. SCTP has no half-close:
/// whichever side ends first ends both directions. Bytes travel in order on stream 0; with
/// `--framing` each message of the protocol becomes one SCTP message.
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("what").required(true).multiple(true).args(["sctp", "socks", "lan"]),
    after_help = "Example:\n  manypath gateway --socks 127.0.0.1\n  manypath gateway --socks 192.168.1.1:1080 --clients 192.168.1.0/24\n  manypath gateway --lan br-lan\n  manypath gateway --lan br-lan --via relay.example --dns 9.9.9.9\n  manypath gateway --sctp 3868 --tcp diameter.example:3868 --framing diameter --encapsulation native\n  manypath gateway --tcp 2905 --sctp 192.0.2.1,198.51.100.1:2905 --framing m3ua --json"
)]
pub(crate) struct GatewayArgs {
    /// Accept SOCKS5 and HTTP CONNECT clients on these addresses, separated by commas (default port:
    /// 1080). Other than loopback addresses need --clients or --password-file.
    #[arg(long, value_name = "ADDR[:PORT]", value_delimiter = ',')]
    pub(crate) socks: Vec<String>,
    /// Carry the TCP connections that hosts behind these interfaces make to other hosts; with --via
    /// or --udp, their UDP datagrams too. Needs root and nft; its rules are removed on exit.
    #[arg(long, value_name = "INTERFACE", value_delimiter = ',', conflicts_with = "sctp")]
    pub(crate) lan: Vec<String>,
    /// Carry the network's UDP datagrams, too. With --via, which implies this, they go through the
    /// relay unless a rule decides otherwise; without it, only those that a rule enables are carried,
    /// and others leave this host as plain UDP.
    #[arg(long, requires = "lan")]
    pub(crate) udp: bool,
    /// Create this TUN device, and send what is neither TCP nor UDP through the relay, which takes
    /// pings and returns the answers and errors. Needs --via.
    #[arg(long, value_name = "NAME", requires_all = ["lan", "via"])]
    pub(crate) tun: Option<String>,
    /// Forward DNS queries that the network sends to this host's own addresses to this resolver
    /// (default port: 53) instead of one on this host. Implies --udp.
    #[arg(long, value_name = "ADDR[:PORT]", requires = "lan")]
    pub(crate) dns: Option<String>,
    /// Serve the hosts of these networks only. With --lan, those of others are routed as before.
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', conflicts_with = "sctp")]
    pub(crate) clients: Vec<Network>,
    /// Serve only SOCKS5 and HTTP clients that know a user and password of this file: a USER:PASSWORD
    /// on each line, readable by its owner alone.
    #[arg(long, value_name = "FILE", requires = "socks")]
    pub(crate) password_file: Option<PathBuf>,
    /// Remove the rules that a `gateway --lan` has left which could not do so itself.
    #[arg(long, requires = "lan", conflicts_with = "socks")]
    pub(crate) remove: bool,
    /// PORT on which to accept SCTP clients, or HOST[,HOST]:PORT of the SCTP server.
    #[arg(long, value_name = "PORT|HOST:PORT", requires = "tcp", conflicts_with_all = [
        "socks", "lan", "profile", "mode", "step_aside", "encrypt", "via", "carriers", "tls_name", "identity", "fallback_timeout", "tcp_head_start",
        "negative_cache", "rules", "loopback_paths",
    ])]
    pub(crate) sctp: Option<String>,
    /// PORT on which to accept TCP clients, or HOST:PORT of the TCP service.
    #[arg(long, value_name = "PORT|HOST:PORT", requires = "sctp")]
    pub(crate) tcp: Option<String>,
    /// Accept TCP clients on these addresses only (default: all addresses of this host).
    #[arg(long, value_name = "ADDR", value_delimiter = ',', requires = "sctp")]
    pub(crate) listen: Vec<IpAddr>,
    /// How to split the TCP byte stream into SCTP messages (default: pieces).
    #[arg(long, value_enum, value_name = "HOW", requires = "sctp")]
    pub(crate) framing: Option<FramingArg>,
    /// Local UDP port (default: 9899 when accepting SCTP clients, else any).
    #[arg(long = "port", alias = "udp-port", value_name = "PORT", value_parser = clap::value_parser!(u16).range(..65535))]
    pub(crate) udp_port: Option<u16>,
    /// Maximum number of concurrent clients; further ones are refused (default: 10000, with --sctp
    /// 1000).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_clients: Option<u32>,
    /// Print the state as JSON lines on standard output, periodically and on exit.
    #[arg(long, requires = "sctp")]
    pub(crate) json: bool,
    /// Seconds between two lines of --json.
    #[arg(long, value_name = "S", default_value_t = 10, requires = "json",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) interval: u64,
    #[command(flatten)]
    pub(crate) stack: StackOptions,
}

/// Keep the packet filter's rules of a `gateway --lan` for as long as standard input is open. Started by that gateway.
#[derive(Args, Clone, Debug)]
pub(crate) struct LanRulesArgs {
    /// An interface.
    #[arg(long = "lan", value_name = "INTERFACE", required = true)]
    pub(crate) lan: Vec<String>,
    /// A network whose hosts are carried.
    #[arg(long = "client", value_name = "NETWORK")]
    pub(crate) clients: Vec<Network>,
    /// The port to which connections are led.
    #[arg(long, value_name = "PORT")]
    pub(crate) port: u16,
    /// The port to which datagrams are led.
    #[arg(long, value_name = "PORT")]
    pub(crate) udp_port: Option<u16>,
    /// The TUN device to which other packets are led.
    #[arg(long, value_name = "NAME")]
    pub(crate) tun: Option<String>,
    /// Whether questions to this host's own resolver are led there, too.
    #[arg(long)]
    pub(crate) dns: bool,
}

/// How the TCP byte stream is split into SCTP messages.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FramingArg {
    /// No framing: pieces of any size, without a payload protocol identifier.
    Pieces,
    /// Diameter messages (RFC 6733), payload protocol identifier 46.
    Diameter,
    /// M3UA messages (RFC 4666), payload protocol identifier 3; those of class Transfer on stream
    /// 1.
    M3ua,
}

impl From<FramingArg> for Framing {
    fn from(arg: FramingArg) -> Self {
        match arg {
            FramingArg::Pieces => Self::Pieces,
            FramingArg::Diameter => Self::Diameter,
            FramingArg::M3ua => Self::M3ua,
        }
    }
}
