//! Everything for measuring: emulated networks, simulations, benchmarks, the demo.
#![forbid(unsafe_code)]

mod bench;
mod columns;
mod demo;
mod lab;
mod sim;

use clap::{CommandFactory, Parser, Subcommand};
use manypath_cli::texts::Texts;
use manypath_cli::{failure, shell};
use std::ffi::OsString;
use std::process::ExitCode;

/// Measure manypath: emulate two hosts joined by paths of any rate, delay and loss, simulate, benchmark.
#[derive(Parser, Debug)]
#[command(
    name = "manypath-lab",
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "Example:\n  manypath-lab up --path 20mbit,10ms,queue=100 --path 10mbit,40ms\n  manypath-lab exec left -- ping -c 3 10.77.1.2\n  manypath-lab path A down\n  manypath-lab down"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    #[command(flatten)]
    Lab(lab::LabAction),
    Sim(sim::args::SimArgs),
    Bench(bench::args::BenchArgs),
    Demo(demo::args::DemoArgs),
    #[command(flatten)]
    Texts(Texts),
    #[command(hide = true)]
    BenchWorker(bench::args::BenchWorkerArgs),
    #[command(hide = true)]
    BenchGuard(bench::args::BenchGuardArgs),
    #[command(hide = true)]
    SimLiveHost(sim::args::SimLiveHostArgs),
}

fn main() -> ExitCode {
    let cli: Cli = match manypath_cli::parse(Cli::command(), arguments(), 2) {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    manypath_cli::finish(match &cli.command {
        Command::Lab(action) => lab::lab(action),
        Command::Sim(args) => sim::sim(args),
        Command::Bench(args) => bench::bench(args),
        Command::Demo(args) => demo::demo(args),
        Command::Texts(texts) => texts.write(Cli::command(), "manypath-lab"),
        Command::BenchWorker(args) => bench::worker(args),
        Command::BenchGuard(args) => Ok(bench::guard(args)),
        Command::SimLiveHost(args) => sim::live::host(args),
    })
}

/// The command line; `--name NAME ACTION`, as `manypath lab` had it, is `ACTION --name NAME`.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.len() > 3 && arguments[1] == "--name" {
        arguments[1..4].rotate_right(1);
    }
    arguments
}

#[test]
fn commands_keep_the_conventions() {
    let broken = manypath_cli::conventions::broken(Cli::command(), &["exec", "capture", "down"]);
    assert!(broken.is_empty(), "{broken:#?}");
}
