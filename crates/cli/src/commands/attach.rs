//! `manypath attach`: programs in a cgroup carried without being touched.

use super::{run, stack};
use crate::args::StackOptions;
use crate::failure::Failure;
use crate::say::{say, say_line};
use clap::{ArgGroup, Args};
use manypath_cgroup::{Error, Options, Report, Rival, group};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Carry the connections of the programs in a cgroup, until interrupted.
///
/// Needs root and cgroup version 2. Programs need no restart and are not modified: running
/// programs, static and setuid programs and those that use io_uring are carried too, and peers can
/// reach their listening sockets. Datagrams of UDP sockets created from now on are carried where a
/// udp rule names their destination. On exit, programs fall back to plain TCP and UDP at once.
/// Prints READY (and notifies a service manager) once it is set up. Use `manypath enable` to make
/// it permanent.
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("which").required(true).args(["cgroup", "unit"]),
    after_help = "Example:\n  manypath attach --cgroup /sys/fs/cgroup/system.slice/nginx.service\n  manypath attach --unit nginx.service --client-only --report"
)]
pub(crate) struct AttachArgs {
    /// Directory of the cgroup.
    #[arg(long, value_name = "DIR")]
    pub(crate) cgroup: Option<PathBuf>,
    /// systemd unit whose cgroup to attach to. The cgroup is created if the unit is not running
    /// yet, so that manypath is in place before the unit's first program, and found again when the
    /// unit restarts.
    #[arg(long, value_name = "UNIT")]
    pub(crate) unit: Option<String>,
    /// Do not accept connections over SCTP: listening sockets stay plain TCP.
    #[arg(long)]
    pub(crate) client_only: bool,
    /// UDP port on which peers reach listening sockets (RFC 6951), shared by all programs of this
    /// host.
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub(crate) port: u16,
    /// Print a summary of the programs' connections on exit, to standard error.
    #[arg(long)]
    pub(crate) report: bool,
    /// Print the summary as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) stack: StackOptions,
}

/// What `--json` prints.
#[derive(Serialize)]
struct ReportJson<'a> {
    opened: u64,
    sctp: u64,
    tcp_relay: u64,
    failed: u64,
    given_up: u64,
    left_to_the_kernel: &'a BTreeMap<&'static str, u64>,
    refused_as_sctp_only: u64,
    listeners: u64,
    accepted_sctp: u64,
    datagrams: DatagramsJson<'a>,
}

/// The part of it about UDP sockets.
#[derive(Serialize)]
struct DatagramsJson<'a> {
    asked: u64,
    sctp: u64,
    given_up: u64,
    dropped: u64,
    left_to_the_kernel: &'a BTreeMap<&'static str, u64>,
}

/// Serves the cgroup.
pub(crate) fn attach(args: &AttachArgs) -> Result<u8, Failure> {
    let options = Options {
        group: place(args)?,
        make: args.unit.is_some(),
        stack: run::embedded_stack(&args.stack)?,
        server: if args.client_only { None } else { run::door(&args.stack, args.port)? },
        rules: stack::rules(&args.stack)?,
        answer_limit: Duration::from_secs(1),
        ready: || {
            println!("READY");
            // Who waits for the line reads a pipe.
            let _ = std::io::stdout().flush();
        },
        notice: |line| say(line),
    };
    let report = manypath_cgroup::run(&options).map_err(failure)?;
    if args.json {
        say_line(json(&report)?);
    } else if args.report {
        say(&report);
    }
    Ok(0)
}

fn place(args: &AttachArgs) -> Result<PathBuf, Failure> {
    let Some(unit) = &args.unit else { return Ok(args.cgroup.clone().unwrap_or_default()) };
    of_unit(unit)
}

/// The folder of a unit's cgroup, which need not be there.
pub(super) fn of_unit(unit: &str) -> Result<PathBuf, Failure> {
    let root = group::mount().map_err(|_| no_cgroup2())?;
    Ok(root.join(group::of_unit(unit, slice_of(unit).as_deref())))
}

/// There is nothing to attach to.
pub(super) fn no_cgroup2() -> Failure {
    Failure::new("cgroup version 2 is not mounted on this host")
        .hint("mount -t cgroup2 none /sys/fs/cgroup; or carry single programs: manypath run")
}

/// The slice of a unit, as systemd says, where there is one to ask.
fn slice_of(unit: &str) -> Option<String> {
    let mut ask = Command::new("systemctl");
    ask.args(["show", "--property=Slice", "--value", unit]);
    let said = ask.output().ok().filter(|output| output.status.success())?;
    let slice = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    (!slice.is_empty()).then_some(slice)
}

/// What mends it that somebody else carries the programs already.
pub(super) fn rival_failure(rival: &Rival) -> Failure {
    let end = match &rival.unit {
        Some(unit) => format!("systemctl stop {unit}, or for good: `manypath disable`"),
        None => format!("kill {}", rival.pid),
    };
    Failure::new(rival.to_string())
        .hint(format!("one is enough for a cgroup and all below it; to end that one: {end}"))
}

fn failure(error: Error) -> Failure {
    let failure = Failure::new(error.to_string());
    match &error {
        Error::Rival(rival) => rival_failure(rival),
        Error::Setup(_, io) if io.kind() == std::io::ErrorKind::PermissionDenied => {
            failure.hint("as root; without root: manypath run -- CMD")
        }
        Error::Setup("cgroup", io) if io.kind() == std::io::ErrorKind::NotFound => {
            failure.hint("start the program first, or name its unit: --unit UNIT")
        }
        Error::Setup("cgroup", _) if !Path::new("/sys/fs/cgroup/cgroup.controllers").exists() => {
            failure.hint("`grep cgroup2 /proc/mounts` shows where cgroup version 2 is")
        }
        Error::Setup(..) | Error::StackLost(_) | Error::Kernel(_) => failure,
    }
}

fn json(report: &Report) -> Result<String, Failure> {
    let json = ReportJson {
        opened: report.opened,
        sctp: report.sctp,
        tcp_relay: report.tcp_relay,
        failed: report.failed,
        given_up: report.given_up,
        left_to_the_kernel: &report.left,
        refused_as_sctp_only: report.refused,
        listeners: report.listeners,
        accepted_sctp: report.accepted_sctp,
        datagrams: DatagramsJson {
            asked: report.datagrams.asked,
            sctp: report.datagrams.sctp,
            given_up: report.datagrams.given_up,
            dropped: report.datagrams.dropped,
            left_to_the_kernel: &report.datagrams.left,
        },
    };
    serde_json::to_string(&json).map_err(|e| Failure::new(e.to_string()))
}
