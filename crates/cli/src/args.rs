//! The command line as data: one definition gives parsing, help and the man pages.

use crate::commands::attach::AttachArgs;
use crate::commands::cache::CacheArgs;
use crate::commands::config::{ConfigArgs, ReloadArgs, SysctlArgs};
use crate::commands::doctor::args::DoctorArgs;
use crate::commands::enable::{DisableArgs, EnableArgs};
use crate::commands::gateway::args::{GatewayArgs, LanRulesArgs};
use crate::commands::key::args::KeyArgs;
use crate::commands::metrics::MetricsArgs;
use crate::commands::path::args::PathArgs;
use crate::commands::preload::PreloadArgs;
use crate::commands::rules::args::{RulesArgs, ShimrulesArgs};
use crate::commands::status::watch::{TopArgs, WatchArgs};
use crate::failure::Failure;
use crate::mode::Mode;
use crate::step_aside::StepAsideArg;
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use manypath_cli::texts::Texts;
use manypath_daemon::{Behind, Encapsulation, LocalName, RelayConfig, RelayTo};
use manypath_engine::Profile;
use manypath_rules::paths::Budget;
use manypath_rules::{Encrypt, Via};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Use every network path between two hosts, with the TCP programs you already have.
///
/// Carries the connections of unmodified programs as streams of one multipath SCTP association, in
/// userland, and falls back to plain TCP where the peer has no manypath. Associations are encrypted,
/// plain TCP is not: keep SSH or TLS inside.
#[derive(Parser, Debug)]
#[command(name = "manypath", version, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Run(RunArgs),
    #[command(hide = true)]
    Attach(AttachArgs),
    Enable(EnableArgs),
    Disable(DisableArgs),
    #[command(hide = true)]
    Preload(PreloadArgs),
    Serve(ServeArgs),
    Gateway(GatewayArgs),
    Rules(RulesArgs),
    #[command(hide = true)]
    Shimrules(ShimrulesArgs),
    Config(ConfigArgs),
    #[command(hide = true)]
    Sysctl(SysctlArgs),
    Path(PathArgs),
    #[command(hide = true)]
    Reload(ReloadArgs),
    #[command(alias = "peers")]
    Cache(CacheArgs),
    Key(KeyArgs),
    Status(StatusArgs),
    Doctor(DoctorArgs),
    #[command(hide = true)]
    Top(TopArgs),
    Metrics(MetricsArgs),
    #[command(flatten)]
    Texts(Texts),
    #[command(hide = true)]
    Stack(StackArgs),
    #[command(hide = true)]
    Keeper(KeeperArgs),
    #[command(hide = true)]
    LanRules(LanRulesArgs),
}

/// Run a program and carry its TCP connections over every path.
///
/// Connections to peers that have manypath use every path; all others are plain TCP. Both manypath
/// clients and plain TCP clients can reach the program's listening sockets, and the program sees
/// each client's true address.
///
/// Needs no privileges. Ignores loopback, MPTCP connections, sockets bound to a device, and UDP
/// unless a rule enables it.
///
/// Exit status: that of the program, or 128 plus the signal number if a signal killed it; 127 if
/// the program is not found, 126 if it cannot be executed, 125 if manypath itself fails.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath run -- scp big.iso me@server.example:\n  manypath run -- nginx -g 'daemon off;'\n  manypath run --sctp -- sctp_test -H 0.0.0.0 -P 5001 -l\n  manypath run --report -- curl -O http://server.example/big.iso"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) stack: StackOptions,
    /// Print a summary of the program's connections on exit, to standard error.
    #[arg(long)]
    pub(crate) report: bool,
    /// Print the summary as one JSON object. With --sctp, do not run the program: print the library
    /// and the environment it would get.
    #[arg(long)]
    pub(crate) json: bool,
    /// Use an existing stack, given its control socket.
    #[arg(long = "stack", alias = "daemon", value_name = "SOCKET")]
    pub(crate) existing: Option<PathBuf>,
    /// Start a stack for this program alone, instead of sharing the one of your programs that run
    /// with the same options (also: the environment variable MANYPATH_OWN_STACK).
    #[arg(long, conflicts_with = "existing")]
    pub(crate) own_stack: bool,
    /// Let the program use io_uring. Connections made through io_uring bypass manypath, and its
    /// listening sockets stay plain TCP.
    #[arg(long)]
    pub(crate) allow_io_uring: bool,
    /// Do not accept connections over SCTP: the program's listening sockets stay plain TCP.
    #[arg(long)]
    pub(crate) client_only: bool,
    /// Serve the program's SCTP sockets (IPPROTO_SCTP, with or without libsctp) inside its process,
    /// without SCTP in the kernel, and leave its TCP alone. Of the options only --port, --peer-port
    /// and --encapsulation apply. The program must be linked dynamically and must not be setuid.
    #[arg(long, conflicts_with_all = [
        "report", "existing", "own_stack", "allow_io_uring", "client_only", "locals", "profile", "mode", "step_aside", "encrypt", "via", "carriers", "tls_name", "identity",
        "fallback_timeout", "tcp_head_start", "negative_cache", "rules", "verbose", "log",
    ])]
    pub(crate) sctp: bool,
    /// UDP port on which peers reach the program's listening sockets (RFC 6951), shared by all
    /// programs of this host.
    #[arg(long, value_name = "PORT", default_value_t = 9899, value_parser = clap::value_parser!(u16).range(..65535))]
    pub(crate) port: u16,
    /// Program and arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// Options of the stack that owns the associations.
#[derive(Args, Debug, Clone)]
pub(crate) struct StackOptions {
    /// Use only these local addresses or interfaces, separated by commas (default: the addresses of
    /// all interfaces that are up; those of tunnels and of bridges without a gateway only for
    /// destinations routed through them).
    #[arg(long = "local", value_name = "ADDR|INTERFACE", value_delimiter = ',')]
    pub(crate) locals: Vec<LocalName>,
    /// Parameters of the engine; `dynamic` assigns each connection to its best path.
    #[arg(long, value_name = "NAME", default_value = Profile::Production.name(),
          value_parser = PossibleValuesParser::new(Profile::LIVE.map(Profile::name)))]
    pub(crate) profile: String,
    /// Send each packet over one path, or duplicate data on all paths (the setting redundancy has
    /// more modes, see `manypath config`).
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
    /// Use plain TCP to peers that are reached over a single short path, where SCTP has nothing to
    /// gain (default: the setting step_aside, auto).
    #[arg(long, value_enum, value_name = "WHEN")]
    pub(crate) step_aside: Option<StepAsideArg>,
    /// Encrypt associations and authenticate peers by their keys: with those that can do it, or with
    /// all; then connections that would be plain SCTP or TCP are refused (default: the setting
    /// encrypt, opportunistic).
    #[arg(long, value_name = "WHEN", value_parser = PossibleValuesParser::new(Encrypt::NAMES))]
    pub(crate) encrypt: Option<String>,
    /// Send connections to any destination through a relay (`manypath serve --relay`), and on from there by TCP.
    /// The first relay that answers is used; without one, connections are plain TCP, or refused where a rule or
    /// encrypt=require says so (default: the setting via, off).
    #[arg(long, value_name = "HOST[:PORT]", value_delimiter = ',')]
    pub(crate) via: Vec<String>,
    /// Where UDP at the usual port gets no answer, get packets to peers by these carriers instead, on each path what gets
    /// through: UDP, TCP or TLS at other ports, or what the port speaks by the HTTP proxy that HTTPS_PROXY names, as
    /// `udp:443,tls:443,proxy:443`. A server also listens at the ports (default: the setting carriers, off).
    #[arg(long, value_name = "udp|tcp|tls|proxy:PORT", value_delimiter = ',')]
    pub(crate) carriers: Vec<String>,
    /// Host name to ask for in TLS (SNI) with the carrier `tls:PORT`, which whoever looks on sees, and the one in a
    /// server's certificate if that is made by manypath (default: none, and localhost).
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_name: Option<String>,
    /// Key that peers know this host by: `own` (~/.config/manypath/identity, made on first use), `ssh` (the
    /// host key of SSH, as root), `secret` (a secret that both ends have), or the path of a private
    /// key of OpenSSH.
    #[arg(long, value_name = "own|ssh|secret|FILE", default_value = "own")]
    pub(crate) identity: String,
    /// Carry SCTP in UDP (RFC 6951) or directly over IP (protocol 132). Directly over IP needs root
    /// or CAP_NET_RAW at both ends, and no NAT between them.
    #[arg(long, value_enum, value_name = "HOW", default_value = "udp")]
    pub(crate) encapsulation: EncapsulationArg,
    /// UDP port of the peer's manypath (RFC 6951). Services on ports below 1024 are requested on
    /// another one (the setting privileged_port, 899), unless this port is itself below 1024.
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub(crate) peer_port: u16,
    /// How long a silent peer may delay the fallback to TCP, in milliseconds (default: the setting
    /// fallback_timeout_ms, 300).
    #[arg(long, value_name = "MS")]
    pub(crate) fallback_timeout: Option<u64>,
    /// How long to hold back TCP so that SCTP can answer first, in milliseconds (default: the
    /// setting tcp_head_start_ms, 150).
    #[arg(long, value_name = "MS")]
    pub(crate) tcp_head_start: Option<u64>,
    /// How long to remember that a peer has no manypath, in seconds (default: the setting
    /// negative_cache_s, 60).
    #[arg(long, value_name = "S")]
    pub(crate) negative_cache: Option<u64>,
    /// Use this rules file (see `manypath rules`).
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// Increase verbosity: log every step of a connection, and the reason of every fallback.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Log destination: `stderr`, `journal`, or a file to append to. `manypath config set log_level=LEVEL`
    /// sets the level of each subsystem.
    #[arg(long, value_name = "stderr|journal|FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Treat loopback addresses as paths: for tests and the demo without privileges only.
    #[arg(long, hide = true)]
    pub(crate) loopback_paths: bool,
}

/// What carries SCTP.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EncapsulationArg {
    /// In UDP.
    Udp,
    /// Directly over IP.
    Native,
}

impl EncapsulationArg {
    /// As it is written.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Native => "native",
        }
    }
}

impl From<EncapsulationArg> for Encapsulation {
    fn from(arg: EncapsulationArg) -> Self {
        match arg {
            EncapsulationArg::Udp => Self::Udp,
            EncapsulationArg::Native => Self::Native,
        }
    }
}

impl StackOptions {
    /// The relays by which connections go, if the user has said that.
    pub(crate) fn via(&self) -> Result<Option<Via>, Failure> {
        parse_via(&self.via)
    }

    /// The settings that the user has given here: the option, its setting, the value.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let all = [
            ("fallback-timeout", "fallback_timeout_ms", self.fallback_timeout),
            ("tcp-head-start", "tcp_head_start_ms", self.tcp_head_start),
            ("negative-cache", "negative_cache_s", self.negative_cache),
        ];
        all.into_iter().filter_map(|(option, setting, value)| Some((option, setting, value?)))
    }
}

/// The value of `--via`.
pub(crate) fn parse_via(words: &[String]) -> Result<Option<Via>, Failure> {
    let said = (!words.is_empty()).then(|| words.join(",").parse());
    said.transpose().map_err(|e| Failure::usage(format!("--via: {e}")))
}

/// Accept connections from peers and forward them to local services.
///
/// Nothing is reachable unless you allow it. A service is dialled at the exact address that the
/// peer used, never at loopback.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath serve --allow 22,443\n  manypath serve --allow 192.0.2.7:8080 --port 9899 -v\n  manypath serve --allow 5004/udp\n  manypath serve --relay --authorized /etc/manypath/authorized_peers\n  manypath serve --allow 22 --register relay.example"
)]
pub(crate) struct ServeArgs {
    /// Let peers reach these ports, separated by commas, in addition to those that local rules
    /// open. PORT/udp opens a port for datagrams. A port is open on the addresses by which peers
    /// reach this host.
    #[arg(long, value_name = "PORT|ADDR:PORT", value_delimiter = ',')]
    pub(crate) allow: Vec<String>,
    /// UDP port to listen on (RFC 6951). As root, manypath also listens on the one that clients use
    /// for services on ports below 1024 (the setting privileged_port, 899).
    #[arg(long, value_name = "PORT", default_value_t = 9899, value_parser = clap::value_parser!(u16).range(..65535))]
    pub(crate) port: u16,
    /// Take over from the `manypath serve` of this user that has the port: it keeps its connections until they end, and
    /// new ones are accepted here. Under a service manager, keep connections across restarts of the service.
    #[arg(long)]
    pub(crate) replace: bool,
    /// Share the work among this many engine loops, up to 16, each with associations and a processor of its own. Programs
    /// under `manypath run` cannot offer their listening sockets to a server with several loops.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) loops: u8,
    /// Also carry the connections of programs that this user or root starts with `manypath run`, without a stack of their own.
    #[arg(long)]
    pub(crate) programs: bool,
    /// Accept only peers whose keys are in this file, one on each line, as `manypath key show` prints
    /// them; implies --encrypt require.
    #[arg(long, value_name = "FILE")]
    pub(crate) authorized: Option<PathBuf>,
    /// Relay connections of the peers in --authorized to any destination (`manypath run --via`). Private and
    /// special networks, and those of this host, are closed unless --relay-to names them.
    #[arg(long)]
    pub(crate) relay: bool,
    /// Also relay to these networks, or to some of their ports, separated by commas.
    #[arg(long, value_name = "NETWORK[:PORTS]", value_delimiter = ',', requires = "relay")]
    pub(crate) relay_to: Vec<RelayTo>,
    /// Connections that each peer may have through the relay at a time.
    #[arg(long, value_name = "N", default_value_t = RelayConfig::CONNECTIONS, requires = "relay")]
    pub(crate) relay_connections: usize,
    /// What each peer may move through the relay in a day or a month, in both directions together, such as 10GB/month
    /// (default: no limit).
    #[arg(long, value_name = "SIZE/PERIOD", value_parser = parse_quota, requires = "relay")]
    pub(crate) relay_quota: Option<Budget>,
    /// Pass connections to the ports of TLS carriers that do not name manypath's protocol on to this web server, as they
    /// are: both share the port. With `,proxy` it is told its clients' addresses by a line of the PROXY protocol.
    #[arg(long, value_name = "ADDR:PORT[,proxy]", value_parser = parse_behind)]
    pub(crate) behind: Option<Behind>,
    /// Certificate to show in TLS with the carrier `tls:PORT`, with its chain, as PEM (default: one that signs itself).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Private key of that certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Register at this relay (HOST or HOST:PORT), so that its peers reach this host although a NAT or a firewall lets nobody
    /// in: `manypath run --via RELAY`, and the address that `manypath key` shows here. Give it again for relays that
    /// are used when the one before does not answer.
    #[arg(long, value_name = "RELAY")]
    pub(crate) register: Vec<String>,
    /// The service manager's main process is another one.
    #[arg(long, hide = true)]
    pub(crate) anchored: bool,
    #[command(flatten)]
    pub(crate) stack: StackOptions,
}

fn parse_quota(text: &str) -> Result<Budget, String> {
    Budget::parse(text).ok_or_else(|| "expected a size and a period, such as 10GB/month".to_owned())
}

fn parse_behind(text: &str) -> Result<Behind, String> {
    let (addr, proxy_line) = match text.strip_suffix(",proxy") {
        Some(addr) => (addr, true),
        None => (text, false),
    };
    let addr: SocketAddr =
        addr.parse().map_err(|_| "expected ADDRESS:PORT or ADDRESS:PORT,proxy".to_owned())?;
    // ::ffff:127.0.0.1 is this host, too.
    let addr = SocketAddr::new(addr.ip().to_canonical(), addr.port());
    if addr.port() == 0 || addr.ip().is_unspecified() || addr.ip().is_multicast() {
        return Err("no server can be at that address".to_owned());
    }
    Ok(Behind { addr, proxy_line })
}

/// The embedded stack of `manypath run`.
#[derive(Args, Debug)]
pub(crate) struct StackArgs {
    /// Descriptor of the launcher's control connection.
    #[arg(long)]
    pub(crate) control_fd: i32,
    /// Serve the listening sockets of programs at this UDP port.
    #[arg(long, value_name = "PORT")]
    pub(crate) door: Option<u16>,
    /// Serve other launchers, too, which find the stack here, and outlive them all for a while.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) shared: Option<PathBuf>,
    /// Do not use the cache of peers.
    #[arg(long)]
    pub(crate) no_memory: bool,
    #[command(flatten)]
    pub(crate) stack: StackOptions,
}

/// Open files for a stack without rights, which is at standard input. Started by that stack.
#[derive(Args, Clone, Debug)]
pub(crate) struct KeeperArgs {
    /// A file that the stack may read.
    #[arg(long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// A control socket that the stack may bind.
    #[arg(long = "socket", value_name = "SOCKET")]
    pub(crate) sockets: Vec<PathBuf>,
    /// The peers cache.
    #[arg(long, value_name = "FILE")]
    pub(crate) peers: Option<PathBuf>,
    /// What interfaces with a budget have carried.
    #[arg(long, value_name = "FILE")]
    pub(crate) budgets: Option<PathBuf>,
    /// The keys of peers.
    #[arg(long, value_name = "FILE")]
    pub(crate) known_peers: Option<PathBuf>,
    /// The log.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

/// Show associations, paths and connections.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath status\n  manypath status --watch\n  manypath status --json | jq '.stacks[].associations[].paths'"
)]
pub(crate) struct StatusArgs {
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Include stacks in other network namespaces.
    #[arg(long)]
    pub(crate) all: bool,
    /// Show counters of all drops, refusals and fallbacks.
    #[arg(long)]
    pub(crate) counters: bool,
    /// Show every figure of associations, paths and connections.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_web_server_behind_a_port_is_one_address() {
        let at = |text: &str| parse_behind(text).map(|it| (it.addr.to_string(), it.proxy_line));
        assert_eq!(at("127.0.0.1:8443,proxy"), Ok(("127.0.0.1:8443".to_owned(), true)));
        assert_eq!(at("[::ffff:127.0.0.1]:443"), Ok(("127.0.0.1:443".to_owned(), false)));
        for wrong in
            ["web.example:443", "127.0.0.1", "0.0.0.0:443", "[::ffff:0.0.0.0]:1", "[::1]:0"]
        {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }
}
