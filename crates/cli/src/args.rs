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

/// Let any TCP program use every network path between two hosts.
///
/// Connections of unmodified programs travel as streams of one multipath SCTP association in
/// userland; where the other side has no manypath they are plain TCP.
/// manypath does not encrypt: use SSH or TLS inside, or WireGuard below.
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

/// Run a program with its TCP connections carried over every path.
///
/// A client's connections go over every path to servers that have manypath, and are plain TCP to
/// all others. A server's listening sockets are reached by both kinds of clients, and it sees the
/// true address of each.
///
/// Needs no privilege. Loopback, MPTCP connections and sockets bound to a device are left alone, and UDP
/// unless a rule enables it.
///
/// Exit status: the program's, 128 and the signal's number where a signal has ended it; 127 if there is no such
/// program, 126 if it cannot be executed, 125 if manypath has failed before.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath run -- scp big.iso me@server.example:\n  manypath run -- nginx -g 'daemon off;'\n  manypath run --report -- curl -O http://server.example/big.iso"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) stack: StackOptions,
    /// Print what became of the program's connections, on standard error, at its end.
    #[arg(long)]
    pub(crate) report: bool,
    /// Print the report as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Use the stack behind this control socket instead of an own one.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) daemon: Option<PathBuf>,
    /// Leave io_uring to the program; connections that it makes with it bypass manypath, and its
    /// listening sockets are left alone.
    #[arg(long)]
    pub(crate) allow_io_uring: bool,
    /// Leave the program's listening sockets alone: peers reach them by plain TCP only.
    #[arg(long)]
    pub(crate) client_only: bool,
    /// UDP port at which peers reach the program's listening sockets (RFC 6951); all programs of this
    /// host share it.
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub(crate) port: u16,
    /// Program and arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// Options of the stack that owns the associations.
#[derive(Args, Debug, Clone)]
pub(crate) struct StackOptions {
    /// Use only these local addresses or those of these interfaces, with commas between them (default: all
    /// addresses of interfaces that are up; those of tunnels and of bridges without a gateway only for what is
    /// routed into them).
    #[arg(long = "local", value_name = "ADDR|INTERFACE", value_delimiter = ',')]
    pub(crate) locals: Vec<LocalName>,
    /// The engine's parameters; `dynamic` maps connections to paths as suits them.
    #[arg(long, value_name = "NAME", default_value = Profile::Production.name(),
          value_parser = PossibleValuesParser::new(Profile::LIVE.map(Profile::name)))]
    pub(crate) profile: String,
    /// Send everything over one path or another (normal), or over every path at once (redundant): what one
    /// path loses another one brings (as redundancy of `manypath sysctl`, which knows more modes).
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
    /// Use plain TCP where a single short path leads to the peer, so that SCTP has nothing to gain (auto), or
    /// nowhere (never) (as step_aside of `manypath sysctl`: auto).
    #[arg(long, value_enum, value_name = "WHEN")]
    pub(crate) step_aside: Option<StepAsideArg>,
    /// What carries SCTP: UDP (RFC 6951), or nothing: directly over IP, as protocol 132, which needs
    /// root or CAP_NET_RAW at both ends, and no NAT between them.
    #[arg(long, value_enum, value_name = "HOW", default_value = "udp")]
    pub(crate) encapsulation: EncapsulationArg,
    /// UDP port of the peer's manypath (RFC 6951); services at ports below 1024 are asked for at another one
    /// (privileged_port of `manypath sysctl`: 899), unless this one is below 1024 itself.
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub(crate) peer_port: u16,
    /// How long a silent peer may delay the fallback to plain TCP, in milliseconds (as
    /// fallback_timeout_ms of `manypath sysctl`: 300).
    #[arg(long, value_name = "MS")]
    pub(crate) fallback_timeout: Option<u64>,
    /// How long TCP is held back for SCTP to answer first, in milliseconds (as tcp_head_start_ms of
    /// `manypath sysctl`: 150).
    #[arg(long, value_name = "MS")]
    pub(crate) tcp_head_start: Option<u64>,
    /// How long a peer without manypath is remembered, in seconds (as negative_cache_s of `manypath
    /// sysctl`: 60).
    #[arg(long, value_name = "S")]
    pub(crate) negative_cache: Option<u64>,
    /// Go by this table of rules instead of the usual one (see `manypath rules`).
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// Say more: every step of a connection, and every fallback with its reason.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Where to say it: `stderr`, `journal`, or a file that is added to. How much is said of what:
    /// `manypath sysctl log_level`.
    #[arg(long, value_name = "stderr|journal|FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Treat loopback addresses as paths: for tests and the demo without privileges only.
    #[arg(long, hide = true)]
    pub(crate) loopback_paths: bool,
}

/// What carries SCTP.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EncapsulationArg {
    /// UDP.
    Udp,
    /// Nothing.
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

/// Accept connections from peers and hand them to services of this host.
///
/// Nothing is reachable that was not allowed. Services are dialled at the exact address that the
/// peer used, never at loopback.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath serve --allow 22,443\n  manypath serve --allow 192.0.2.7:8080 --port 9899 -v\n  manypath serve --allow 5004/udp"
)]
pub(crate) struct ServeArgs {
    /// Ports (or address and port) that peers may reach, with commas between them, besides those that local
    /// rules open; `/udp` behind it for datagrams. A port is open at the addresses at which a peer reaches this host.
    #[arg(long, value_name = "PORT|ADDR:PORT", value_delimiter = ',')]
    pub(crate) allow: Vec<String>,
    /// UDP port to listen on (RFC 6951); as root also on the one that clients ask for ports below 1024
    /// (privileged_port of `manypath sysctl`: 899).
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub(crate) port: u16,
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

/// Show associations, their paths and flows.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath status\n  manypath status --json | jq '.stacks[].associations[].paths'"
)]
pub(crate) struct StatusArgs {
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Ask also stacks in other network namespaces.
    #[arg(long)]
    pub(crate) all: bool,
    /// Show the counters of everything dropped, refused or fallen back.
    #[arg(long)]
    pub(crate) counters: bool,
}

/// Simulate: the same protocol engine in virtual time, with the same result on any machine.
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
    /// Do the runs of a scenario file: cases x sweep x seeds.
    #[command(
        after_help = "Example:\n  manypath sim run scenario.toml --out results --jobs 2\n  manypath sim run scenario.toml --set measure=60s --seeds 4 --series 100ms"
    )]
    Run(SimRunArgs),
    /// Do the runs of a scenario file on real sockets, and compare them with the simulation.
    ///
    /// Each run has a lab of its own with the scenario's paths; a sender and a receiver process on
    /// its hosts drive the live stack with the scenario's engine options and applications (saturated,
    /// on-off). Times are real: each run takes warmup + measure.
    #[command(
        after_help = "Example:\n  manypath sim live papers/dreibholz2010/live/fig7.toml --seeds 1\n  manypath sim live scenario.toml --set measure=20s --jobs 2 --tolerance 0.07"
    )]
    Live(SimLiveArgs),
    /// Simulate a published figure: SVG, PNG, CSV and a table that compares with the publication.
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
    /// Put the results of shards together: one results.csv.
    #[command(after_help = "Example:\n  manypath sim merge shard0 shard1 --out merged")]
    Merge {
        /// Folders with results, or journals (runs*.jsonl).
        #[arg(required = true)]
        results: Vec<PathBuf>,
        /// Folder to write to.
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
        /// Folder with results.
        a: PathBuf,
        /// Folder with results.
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
    /// Set a key of the scenario, as `path.B.delay=50ms`; repeat for more.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Only the runs of this setup; repeat for more.
    #[arg(long = "setup", value_name = "NAME")]
    pub(crate) setups: Vec<String>,
    /// Only the runs of this case; repeat for more.
    #[arg(long = "case", value_name = "NAME")]
    pub(crate) cases: Vec<String>,
    /// Keep a time series of each run with this period, as 100ms.
    #[arg(long, value_name = "PERIOD")]
    pub(crate) series: Option<String>,
    /// Keep every packet of each run as a pcapng file.
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
    /// What carries the messages. MPTCP is the kernel's, with CUBIC, one connection; it needs
    /// iproute2 and, unless autotuned, root. Nothing is simulated for it.
    #[arg(long, value_enum, default_value = "manypath")]
    pub(crate) transport: LiveTransport,
    /// Folder for the results, live and simulated.
    #[arg(long, value_name = "DIR", default_value = "target/live")]
    pub(crate) out: PathBuf,
    /// Labs at a time. More than one needs processors that are idle otherwise.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
    /// Use the seeds 1 to N: as many repetitions.
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<u32>,
    /// Do only this part of the runs: 0/8 is the first of eight.
    #[arg(long, value_name = "I/N", default_value = "0/1")]
    pub(crate) shard: String,
    /// Leave out runs that an earlier call has finished.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Run only this case; repeat for more.
    #[arg(long = "case", value_name = "NAME")]
    pub(crate) cases: Vec<String>,
    /// Set a key of the scenario, as `path.B.delay=50ms`; repeat for more.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Fail if a mean goodput differs from the simulated one by a larger part than this.
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
    /// The kernel's MPTCP, send and receive buffer of the scenario's sizes.
    Mptcp,
    /// The kernel's MPTCP, which chooses its buffer sizes.
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
    /// Names, as `manypath sim list` shows them.
    #[arg(required_unless_present_any = ["all", "page"])]
    pub(crate) names: Vec<String>,
    /// All figures; one page about them, README.md, is written too.
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// Simulate nothing: write README.md anew, of the figures that --out and its folders have.
    #[arg(long, conflicts_with_all = ["names", "all", "shard", "resume", "from"])]
    pub(crate) page: bool,
    /// Folder for pictures, tables and verdicts; the runs are kept in it too.
    #[arg(long, value_name = "DIR", default_value = "target/figures")]
    pub(crate) out: PathBuf,
    /// Runs at a time; by default one per processor.
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Use the seeds 1 to N instead of those of the publication.
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<u32>,
    /// Set a key of the scenario, as `measure=60s`; repeat for more.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Do only this part of the runs and draw nothing; a call with --resume finds the parts and draws.
    #[arg(long, value_name = "I/N", default_value = "0/1")]
    pub(crate) shard: String,
    /// Leave out runs that an earlier call has finished.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Simulate nothing: draw the runs in this folder; repeat for more, later ones replace earlier ones.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["resume", "shard"])]
    pub(crate) from: Vec<PathBuf>,
    /// Print the verdicts as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How many runs are done, where and with what.
#[derive(Args, Debug)]
pub(crate) struct CampaignOptions {
    /// Folder for results.csv, manifest.json and the journal.
    #[arg(long, value_name = "DIR", default_value = "target/sim")]
    pub(crate) out: PathBuf,
    /// Runs at a time; by default one per processor.
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Use the seeds 1 to N.
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<u32>,
    /// Do only this part of the runs: 0/8 is the first of eight.
    #[arg(long, value_name = "I/N", default_value = "0/1")]
    pub(crate) shard: String,
    /// Leave out runs that an earlier call has finished.
    #[arg(long)]
    pub(crate) resume: bool,
}

/// Move a file with stock scp and curl: plain TCP, kernel MPTCP, manypath, manypath with a cut path.
///
/// Writes `report.html` and `.pcapng` captures to the output folder.
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
    /// Only these programs.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Program>,
    /// Only these transports.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) transport: Vec<TransportChoice>,
    /// Folder for report and captures.
    #[arg(long, default_value = "target/demo", value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Emulate the paths on loopback, as where there are neither root nor user namespaces.
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
    Manypath,
    ManypathCut,
}

/// Write the man pages to a folder.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  manypath man target/man && man target/man/manypath-run.1")]
pub(crate) struct ManArgs {
    /// Folder to write to; it is made if it does not exist.
    pub(crate) dir: PathBuf,
}
