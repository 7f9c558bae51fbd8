//! `manypath lab`: emulated hosts and paths from the command line.

use crate::failure::Failure;
use clap::{Args, Subcommand};
use manypath_lab::{Host, LabError, LabSpec, PathSpec, cli};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Two hosts in network namespaces, joined by emulated paths.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath lab up --path 20mbit,10ms,queue=100 --path 10mbit,40ms\n  manypath lab exec left -- ping -c 3 10.77.1.2\n  manypath lab path A down\n  manypath lab down"
)]
pub(crate) struct LabArgs {
    /// Name of the lab; several can be up at once.
    #[arg(long, default_value = "lab", global = true)]
    pub(crate) name: String,
    #[command(subcommand)]
    pub(crate) action: LabAction,
}

#[derive(Subcommand, Debug)]
pub(crate) enum LabAction {
    /// Build the hosts and paths; they stay until `lab down`.
    #[command(
        after_help = "Example:\n  manypath lab up --path 20mbit,10ms,queue=100 --path rate=10mbit,delay=40ms,loss=0.1%\n  manypath lab up --path trace=down.trace,trace_back=up.trace,20ms --path 10mbit,40ms"
    )]
    Up {
        /// A path: rate or trace=FILE, one-way delay, loss, queue in packets; repeat for more paths.
        #[arg(long = "path", value_name = "SPEC", required = true)]
        paths: Vec<String>,
        /// Stay in the foreground; the lab ends with the command.
        #[arg(long)]
        foreground: bool,
        /// Print the state of the lab as one JSON object.
        #[arg(long, conflicts_with = "foreground")]
        json: bool,
    },
    /// Run a command on a host (left or right).
    #[command(after_help = "Example:\n  manypath lab exec right -- ip addr")]
    Exec {
        /// left or right.
        host: String,
        /// Program and arguments.
        #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
        command: Vec<std::ffi::OsString>,
    },
    /// Change a path live: down, up, rate 5mbit, trace FILE, delay 40ms, loss 1%, queue 100.
    #[command(
        after_help = "Example:\n  manypath lab path A down\n  manypath lab path B rate 5mbit --towards right\n  manypath lab path B trace leo.trace"
    )]
    Path {
        /// Name of the path: A, B, ...
        path: String,
        /// What to change, and to what.
        #[arg(required = true, value_name = "CHANGE")]
        change: Vec<String>,
        /// Only the direction towards this host.
        #[arg(long, value_name = "HOST")]
        towards: Option<String>,
        /// Print the state of the lab as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show paths, counters and rates.
    #[command(
        after_help = "Example:\n  manypath lab status\n  manypath lab status --json | jq '.paths[].towards_right'"
    )]
    Status {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Write every packet of every path to a pcapng file until stopped.
    #[command(after_help = "Example:\n  manypath lab capture lab.pcapng\n  manypath lab capture -")]
    Capture {
        /// File to write; `-` stops a running capture.
        file: PathBuf,
    },
    /// Make a trace of a rate that varies, for --path trace=FILE.
    ///
    /// Prints a trace in Mahimahi's format, made by a model of a kind of link; the same arguments
    /// give the same trace on any machine. Models and format: docs/traces.md.
    #[command(
        after_help = "Example:\n  manypath lab trace --list\n  manypath lab trace leo --seed 1 --seconds 60 --rate 50mbit > leo.trace\n  manypath lab up --path trace=leo.trace,20ms --path 10mbit,40ms"
    )]
    Trace {
        /// The kind of link.
        #[arg(required_unless_present = "list")]
        model: Option<String>,
        /// Another number gives another trace.
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
        /// Length, after which the trace repeats.
        #[arg(long, value_name = "S", default_value_t = 60)]
        seconds: u64,
        /// Mean rate; the model has a usual one.
        #[arg(long, value_name = "R")]
        rate: Option<String>,
        /// List the models and their usual rates.
        #[arg(long, conflicts_with = "model")]
        list: bool,
        /// Print the list as one JSON array.
        #[arg(long, requires = "list")]
        json: bool,
    },
    /// Take the lab down; programs that still run inside are killed.
    #[command(after_help = "Example:\n  manypath lab down\n  manypath lab down --name other")]
    Down,
}

/// Does what was asked of the lab.
pub(crate) fn lab(args: &LabArgs) -> Result<u8, Failure> {
    let name = &args.name;
    let text = match &args.action {
        LabAction::Up { paths, foreground, json } => {
            up(name, paths, *foreground).and_then(|text| or_state(name, text, *json))
        }
        LabAction::Exec { host, command } => return Err(exec(name, host, command)),
        LabAction::Path { path, change, towards, json } => {
            change_path(name, path, towards.as_deref(), change)
                .and_then(|text| or_state(name, text, *json))
        }
        LabAction::Status { json } => cli::status(name, *json),
        LabAction::Capture { file } => {
            cli::capture(name, (file != Path::new("-")).then_some(file.as_path()))
        }
        LabAction::Trace { model: Some(model), seed, seconds, rate, .. } => {
            cli::trace(model, *seed, *seconds, rate.as_deref())
        }
        LabAction::Trace { json, .. } => cli::trace_models(*json),
        LabAction::Down => cli::down(name),
    };
    let text = text.map_err(|e| Failure::new(e.to_string()))?;
    super::print(format!("{}\n", text.trim_end()).as_bytes())
}

fn up(name: &str, paths: &[String], foreground: bool) -> Result<String, LabError> {
    let paths = paths.iter().map(|p| p.parse()).collect::<Result<Vec<PathSpec>, _>>()?;
    let spec = LabSpec::new(paths).named(name);
    if foreground { cli::run(spec).map(|()| String::new()) } else { cli::up(spec) }
}

/// What was done, for people; the state of the lab after it, for programs.
fn or_state(name: &str, text: String, json: bool) -> Result<String, LabError> {
    if json { cli::status(name, true) } else { Ok(text) }
}

/// Returns only if the command cannot be run: with the exit status that shells have for that.
fn exec(name: &str, host: &str, command: &[std::ffi::OsString]) -> Failure {
    let error = match host.parse::<Host>() {
        Ok(host) => cli::exec(name, host, command),
        Err(error) => error,
    };
    let why = if let LabError::Io { source, .. } = &error { Some(source.kind()) } else { None };
    let status = if why == Some(ErrorKind::NotFound) {
        127
    } else if why == Some(ErrorKind::PermissionDenied) {
        126
    } else {
        1
    };
    Failure::new(error.to_string()).with_status(status)
}

fn change_path(
    name: &str,
    path: &str,
    towards: Option<&str>,
    change: &[String],
) -> Result<String, LabError> {
    let towards = towards.map(str::parse::<Host>).transpose()?;
    cli::path(name, path, towards, change)
}
