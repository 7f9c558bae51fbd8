//! Arguments of `manypath-lab sim`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Simulate networks in virtual time, with the same protocol engine.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath-lab sim run scenario.toml --output results\n  manypath-lab sim run scenario.toml --shard 0/8 --output results --resume\n  manypath-lab sim merge results --output merged\n  manypath-lab sim compare before after"
)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    pub(crate) action: SimAction,
}

#[derive(Subcommand, Debug)]
pub(crate) enum SimAction {
    /// Run a scenario file: cases x sweep x seeds.
    #[command(
        after_help = "Example:\n  manypath-lab sim run scenario.toml --output results --jobs 2\n  manypath-lab sim run scenario.toml --set measure=60s --seeds 4 --series 100ms"
    )]
    Run(SimRunArgs),
    /// List the runs of a scenario file or figure, and the command that does each one alone.
    ///
    /// A job scheduler starts one command a task; `manypath-lab sim merge` puts the results together,
    /// `manypath-lab sim figure NAME --resume` those of a figure.
    #[command(
        after_help = "Example:\n  manypath-lab sim plan scenario.toml\n  manypath-lab sim plan scenario.toml --output results --json | jq -r '.runs[].command' | parallel\n  manypath-lab sim plan --figure manypath-dynamic --grid-seed 7"
    )]
    Plan(SimPlanArgs),
    /// Run a scenario file on real sockets, and compare with the simulation.
    ///
    /// Each run gets a lab of its own with the paths of the scenario; a sender and a receiver
    /// process on its hosts drive the live stack with the scenario's engine options and
    /// applications (saturated, on-off). Each run takes warmup + measure of real time.
    #[command(
        after_help = "Example:\n  manypath-lab sim live papers/dreibholz2010/live/fig7.toml --seeds 1\n  manypath-lab sim live scenario.toml --set measure=20s --jobs 2 --tolerance 0.07"
    )]
    Live(SimLiveArgs),
    /// Simulate a published figure: SVG, CSV, and a table that compares it with the publication.
    #[command(
        after_help = "Example:\n  manypath-lab sim figure dreibholz2010-fig7 --output figures\n  manypath-lab sim figure --all --seeds 2 --set measure=30s\n  manypath-lab sim figure manypath-dynamic --grid-seed 7"
    )]
    Figure(SimFigureArgs),
    /// List the published figures that can be simulated.
    #[command(after_help = "Example:\n  manypath-lab sim list\n  manypath-lab sim list --json")]
    List {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Merge the results of shards into one results.csv.
    #[command(after_help = "Example:\n  manypath-lab sim merge shard0 shard1 --output merged")]
    Merge {
        /// Directories with results, or journals (runs*.jsonl).
        #[arg(required = true)]
        results: Vec<PathBuf>,
        /// Output directory.
        #[arg(long = "output", alias = "out", value_name = "DIR")]
        out: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Compare two results point by point, with 95 % confidence intervals.
    #[command(
        after_help = "Example:\n  manypath-lab sim compare before after --figure throughput_mbps,delay_ms"
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
    #[command(flatten)]
    pub(crate) changes: Changes,
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

/// Which runs to list.
#[derive(Args, Debug)]
pub(crate) struct SimPlanArgs {
    /// Scenario file (TOML).
    #[arg(required_unless_present = "figure")]
    pub(crate) file: Option<PathBuf>,
    /// List the runs of this figure instead of those of a scenario file.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["file", "setups", "cases"])]
    pub(crate) figure: Option<String>,
    /// Output directory that the commands name (default: that of `sim run` or `sim figure`).
    #[arg(long = "output", value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Use the seeds 1 to N.
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<u32>,
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// List the runs of a fresh grid of networks with this seed, as `sim figure --grid-seed` draws it
    /// (manypath-dynamic).
    #[arg(long, value_name = "SEED", requires = "figure", conflicts_with = "file")]
    pub(crate) grid_seed: Option<u64>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the command line changes in a scenario, and which setups and cases to run.
#[derive(Args, Debug)]
pub(crate) struct Changes {
    /// Set a key of the scenario, such as `path.B.delay=50ms`; repeat for more.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Leave out all setups but this one; repeat for more.
    #[arg(long = "setup", value_name = "NAME")]
    pub(crate) setups: Vec<String>,
    /// Leave out all cases but this one; repeat for more.
    #[arg(long = "case", value_name = "NAME")]
    pub(crate) cases: Vec<String>,
}

impl Changes {
    /// The options that say so, as words of a command.
    pub(crate) fn options(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Self { set, setups, cases } = self;
        let all = [("--set", set), ("--setup", setups), ("--case", cases)];
        all.into_iter()
            .flat_map(|(name, values)| values.iter().map(move |value| (name, value.as_str())))
    }
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
    #[arg(long = "output", alias = "out", value_name = "DIR", default_value = "target/live")]
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
    #[command(flatten)]
    pub(crate) changes: Changes,
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
    #[command(flatten)]
    pub(crate) changes: Changes,
}

/// Which figures, and how thoroughly.
#[derive(Args, Debug)]
pub(crate) struct SimFigureArgs {
    /// Names of figures, as shown by `manypath-lab sim list`.
    #[arg(required_unless_present_any = ["all", "page"])]
    pub(crate) names: Vec<String>,
    /// Simulate all figures, and write a page about them, README.md.
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// Only rewrite README.md from the figures in --output and its subdirectories, without simulating.
    #[arg(long, conflicts_with_all = ["names", "all", "shard", "resume", "from"])]
    pub(crate) page: bool,
    /// Output directory for pictures, tables and verdicts; the runs are kept in it too.
    #[arg(long = "output", alias = "out", value_name = "DIR", default_value = "target/figures")]
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
    /// Draw the runs in this directory, without simulating; repeat for more, later ones replace
    /// earlier ones.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["resume", "shard"])]
    pub(crate) from: Vec<PathBuf>,
    /// Draw a fresh grid of networks with this seed in place of the figure's own setups
    /// (manypath-dynamic), and print each network where the figure's scheduler loses.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["all", "page"])]
    pub(crate) grid_seed: Option<u64>,
    /// Print the verdicts as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How many runs are done, where and with what.
#[derive(Args, Debug)]
pub(crate) struct CampaignOptions {
    /// Output directory for results.csv, manifest.json and the journal.
    #[arg(long = "output", alias = "out", value_name = "DIR", default_value = "target/sim")]
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
