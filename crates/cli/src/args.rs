//! The command line as data: one definition gives parsing, help and the man pages.

use crate::commands::attach::AttachArgs;
use crate::commands::bench::args::{BenchArgs, BenchGuardArgs, BenchWorkerArgs};
use crate::commands::completion::CompletionArgs;
use crate::commands::doctor::args::DoctorArgs;
use crate::commands::enable::{DisableArgs, EnableArgs};
use crate::commands::gateway::args::GatewayArgs;
use crate::commands::lab::LabArgs;
use crate::commands::metrics::MetricsArgs;
use crate::commands::path::args::PathArgs;
use crate::commands::peers::PeersArgs;
use crate::commands::preload::PreloadArgs;
use crate::commands::reload::ReloadArgs;
use crate::commands::rules::args::{RulesArgs, ShimrulesArgs};
use crate::commands::ssh::args::SshArgs;
use crate::commands::sysctl::SysctlArgs;
use crate::commands::top::TopArgs;
use crate::mode::Mode;
use crate::step_aside::StepAsideArg;
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use manypath_daemon::{Encapsulation, LocalName};
use manypath_engine::Profile;
use std::path::PathBuf;

/// Use every network path between two hosts, with the TCP programs you already have.
///
/// Carries the connections of unmodified programs as streams of one multipath SCTP association, in
/// userland, and falls back to plain TCP where the peer has no manypath. manypath does not encrypt:
/// use SSH or TLS inside, or WireGuard below.
#[derive(Parser, Debug)]
#[command(name = "manypath", version, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Run(RunArgs),
    Attach(AttachArgs),
    Enable(EnableArgs),
    Disable(DisableArgs),
    Preload(PreloadArgs),
    Serve(ServeArgs),
    Gateway(GatewayArgs),
    Rules(RulesArgs),
    Shimrules(ShimrulesArgs),
    Sysctl(SysctlArgs),
    Path(PathArgs),
    Reload(ReloadArgs),
    Peers(PeersArgs),
    Status(StatusArgs),
    Doctor(DoctorArgs),
    Top(TopArgs),
    Metrics(MetricsArgs),
    Lab(LabArgs),
    Sim(SimArgs),
    Ssh(SshArgs),
    Demo(DemoArgs),
    Bench(BenchArgs),
    Man(ManArgs),
    Completion(CompletionArgs),
    #[command(hide = true)]
    Stack(StackArgs),
    #[command(hide = true)]
    Keeper(KeeperArgs),
    #[command(hide = true)]
    BenchWorker(BenchWorkerArgs),
    #[command(hide = true)]
    BenchGuard(BenchGuardArgs),
    #[command(hide = true)]
    SimLiveHost(SimLiveHostArgs),
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
    after_help = "Example:\n  manypath run -- scp big.iso me@server.example:\n  manypath run -- nginx -g 'daemon off;'\n  manypath run --report -- curl -O http://server.example/big.iso"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) stack: StackOptions,
    /// Print a summary of the program's connections on exit, to standard error.
    #[arg(long)]
    pub(crate) report: bool,
    /// Print the summary as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Use an existing stack, given its control socket.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) daemon: Option<PathBuf>,
    /// Let the program use io_uring. Connections made through io_uring bypass manypath, and its
    /// listening sockets stay plain TCP.
    #[arg(long)]
    pub(crate) allow_io_uring: bool,
    /// Do not accept connections over SCTP: the program's listening sockets stay plain TCP.
    #[arg(long)]
    pub(crate) client_only: bool,
    /// UDP port on which peers reach the program's listening sockets (RFC 6951), shared by all
    /// programs of this host.
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
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
    /// more modes, see `manypath sysctl`).
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
    /// Use plain TCP to peers that are reached over a single short path, where SCTP has nothing to
    /// gain (default: the setting step_aside, auto).
    #[arg(long, value_enum, value_name = "WHEN")]
    pub(crate) step_aside: Option<StepAsideArg>,
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
    /// Log destination: `stderr`, `journal`, or a file to append to. `manypath sysctl log_level`
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

/// Accept connections from peers and forward them to local services.
///
/// Nothing is reachable unless you allow it. A service is dialled at the exact address that the
/// peer used, never at loopback.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath serve --allow 22,443\n  manypath serve --allow 192.0.2.7:8080 --port 9899 -v\n  manypath serve --allow 5004/udp"
)]
pub(crate) struct ServeArgs {
    /// Let peers reach these ports, separated by commas, in addition to those that local rules
    /// open. PORT/udp opens a port for datagrams. A port is open on the addresses by which peers
    /// reach this host.
    #[arg(long, value_name = "PORT|ADDR:PORT", value_delimiter = ',')]
    pub(crate) allow: Vec<String>,
    /// UDP port to listen on (RFC 6951). As root, manypath also listens on the one that clients use
    /// for services on ports below 1024 (the setting privileged_port, 899).
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub(crate) port: u16,
    /// Take over from the `manypath serve` of this user that has the port: its connections go on until they end, and
    /// everything new is served here. Under a service manager, let connections go on when the service is started anew.
    #[arg(long)]
    pub(crate) replace: bool,
    /// The service manager's main process is another one.
    #[arg(long, hide = true)]
    pub(crate) anchored: bool,
    #[command(flatten)]
    pub(crate) stack: StackOptions,
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
    /// Neither go by what is remembered of peers, nor add to it.
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
    /// The log.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

/// Show associations, paths and connections.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath status\n  manypath status --json | jq '.stacks[].associations[].paths'"
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
}

/// Simulate networks in virtual time, with the same protocol engine.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath sim run scenario.toml --out results\n  manypath sim run scenario.toml --shard 0/8 --out results --resume\n  manypath sim merge results --out merged\n  manypath sim compare before after"
)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    pub(crate) action: SimAction,
}

#[derive(Subcommand, Debug)]
pub(crate) enum SimAction {
    /// Run a scenario file: cases x sweep x seeds.
    #[command(
        after_help = "Example:\n  manypath sim run scenario.toml --out results --jobs 2\n  manypath sim run scenario.toml --set measure=60s --seeds 4 --series 100ms"
    )]
    Run(SimRunArgs),
    /// Run a scenario file on real sockets, and compare with the simulation.
    ///
    /// Each run gets a lab of its own with the paths of the scenario; a sender and a receiver
    /// process on its hosts drive the live stack with the scenario's engine options and
    /// applications (saturated, on-off). Each run takes warmup + measure of real time.
    #[command(
        after_help = "Example:\n  manypath sim live papers/dreibholz2010/live/fig7.toml --seeds 1\n  manypath sim live scenario.toml --set measure=20s --jobs 2 --tolerance 0.07"
    )]
    Live(SimLiveArgs),
    /// Simulate a published figure: SVG, PNG, CSV, and a table that compares it with the
    /// publication.
    #[command(
        after_help = "Example:\n  manypath sim figure dreibholz2010-fig7 --out figures\n  manypath sim figure --all --seeds 2 --set measure=30s"
    )]
    Figure(SimFigureArgs),
    /// List the published figures that can be simulated.
    #[command(after_help = "Example:\n  manypath sim list\n  manypath sim list --json")]
    List {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Merge the results of shards into one results.csv.
    #[command(after_help = "Example:\n  manypath sim merge shard0 shard1 --out merged")]
    Merge {
        /// Directories with results, or journals (runs*.jsonl).
        #[arg(required = true)]
        results: Vec<PathBuf>,
        /// Output directory.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Compare two results point by point, with 95 % confidence intervals.
    #[command(
        after_help = "Example:\n  manypath sim compare before after --figure throughput_mbps,delay_ms"
    )]
    Compare {
        /// Directory with results.
        a: PathBuf,
        /// Directory with results.
        b: PathBuf,
        /// Figures to compare: columns of results.csv.
        #[arg(long, value_delimiter = ',', default_values_t = ["throughput_mbps".to_owned(), "delay_ms".to_owned()])]
        figure: Vec<String>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// What to simulate and where to put it.
#[derive(Args, Debug)]
pub(crate) struct SimRunArgs {
    /// Scenario file (TOML).
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) campaign: CampaignOptions,
    /// Set a key of the scenario, such as `path.B.delay=50ms`; repeat for more.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Run only this setup; repeat for more.
    #[arg(long = "setup", value_name = "NAME")]
    pub(crate) setups: Vec<String>,
    /// Run only this case; repeat for more.
    #[arg(long = "case", value_name = "NAME")]
    pub(crate) cases: Vec<String>,
    /// Record a time series of each run with this period, such as 100ms.
    #[arg(long, value_name = "PERIOD")]
    pub(crate) series: Option<String>,
    /// Capture every packet of each run to a pcapng file.
    #[arg(long)]
    pub(crate) pcapng: bool,
    /// Print the means as one JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to run live and where to put it.
#[derive(Args, Debug)]
pub(crate) struct SimLiveArgs {
    /// Scenario file (TOML).
    pub(crate) file: PathBuf,
    /// Transport to run. MPTCP is the kernel's, with CUBIC and one connection; it needs iproute2
    /// and, unless autotuned, root. It is not simulated.
    #[arg(long, value_enum, default_value = "manypath")]
    pub(crate) transport: LiveTransport,
    /// Output directory for live and simulated results.
    #[arg(long, value_name = "DIR", default_value = "target/live")]
    pub(crate) out: PathBuf,
    /// Labs to run in parallel. More than one needs idle processors.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
    /// Use the seeds 1 to N, one repetition each.
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<u32>,
    /// Do only this part of the runs: 0/8 is the first of eight.
    #[arg(long, value_name = "I/N", default_value = "0/1")]
    pub(crate) shard: String,
    /// Skip runs that an earlier call has finished.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Run only this case; repeat for more.
    #[arg(long = "case", value_name = "NAME")]
    pub(crate) cases: Vec<String>,
    /// Set a key of the scenario, such as `path.B.delay=50ms`; repeat for more.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Fail if a mean goodput differs from the simulated one by more than this fraction.
    #[arg(long, value_name = "PART")]
    pub(crate) tolerance: Option<f64>,
    /// Print the means as one JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LiveTransport {
    /// The live stack.
    Manypath,
    /// The kernel's MPTCP, with the scenario's buffer sizes.
    Mptcp,
    /// The kernel's MPTCP, with autotuned buffers.
    MptcpAutotuned,
}

/// Which host of which run.
#[derive(Args, Debug)]
pub(crate) struct SimLiveHostArgs {
    pub(crate) file: PathBuf,
    #[arg(long)]
    pub(crate) run: usize,
    #[arg(long)]
    pub(crate) sender: bool,
    #[arg(long, value_enum)]
    pub(crate) transport: LiveTransport,
    #[arg(long)]
    pub(crate) seeds: Option<u32>,
    #[arg(long = "case")]
    pub(crate) cases: Vec<String>,
    #[arg(long = "set")]
    pub(crate) set: Vec<String>,
}

/// Which figures, and how thoroughly.
#[derive(Args, Debug)]
pub(crate) struct SimFigureArgs {
    /// Names of figures, as shown by `manypath sim list`.
    #[arg(required_unless_present_any = ["all", "page"])]
    pub(crate) names: Vec<String>,
    /// Simulate all figures, and write a page about them, README.md.
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// Simulate nothing: only rewrite README.md from the figures in --out and its subdirectories.
    #[arg(long, conflicts_with_all = ["names", "all", "shard", "resume", "from"])]
    pub(crate) page: bool,
    /// Output directory for pictures, tables and verdicts; the runs are kept in it too.
    #[arg(long, value_name = "DIR", default_value = "target/figures")]
    pub(crate) out: PathBuf,
    /// Parallel runs (default: one per processor).
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Use the seeds 1 to N instead of those of the publication.
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<u32>,
    /// Set a key of the scenario, such as `measure=60s`; repeat for more.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Do only this part of the runs and draw nothing; a call with --resume collects the parts and
    /// draws.
    #[arg(long, value_name = "I/N", default_value = "0/1")]
    pub(crate) shard: String,
    /// Skip runs that an earlier call has finished.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Simulate nothing: draw the runs in this directory; repeat for more, later ones replace
    /// earlier ones.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["resume", "shard"])]
    pub(crate) from: Vec<PathBuf>,
    /// Print the verdicts as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How many runs are done, where and with what.
#[derive(Args, Debug)]
pub(crate) struct CampaignOptions {
    /// Output directory for results.csv, manifest.json and the journal.
    #[arg(long, value_name = "DIR", default_value = "target/sim")]
    pub(crate) out: PathBuf,
    /// Parallel runs (default: one per processor).
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Use the seeds 1 to N.
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<u32>,
    /// Do only this part of the runs: 0/8 is the first of eight.
    #[arg(long, value_name = "I/N", default_value = "0/1")]
    pub(crate) shard: String,
    /// Skip runs that an earlier call has finished.
    #[arg(long)]
    pub(crate) resume: bool,
}

/// Transfer a file with stock scp and curl over plain TCP, kernel MPTCP and manypath, and with a
/// path cut.
///
/// Writes `report.html` and `.pcapng` captures to the output directory.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath demo\n  manypath demo --json > demo.json\n  manypath demo --bytes 5000000 --only curl"
)]
pub(crate) struct DemoArgs {
    /// Print one JSON object instead of progress and table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Size of the file, in bytes.
    #[arg(long, default_value_t = 25_000_000)]
    pub(crate) bytes: u64,
    /// Run only these programs.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Program>,
    /// Run only these transports.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) transport: Vec<TransportChoice>,
    /// Output directory for report and captures.
    #[arg(long, default_value = "target/demo", value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Emulate the paths on loopback, which needs neither root nor user namespaces.
    #[arg(long)]
    pub(crate) loopback: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Program {
    Curl,
    Scp,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TransportChoice {
    Tcp,
    Mptcp,
    MptcpCut,
    Manypath,
    ManypathCut,
}

/// Write the man pages to a directory.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  manypath man target/man && man target/man/manypath-run.1")]
pub(crate) struct ManArgs {
    /// Output directory; created if missing.
    pub(crate) dir: PathBuf,
}
