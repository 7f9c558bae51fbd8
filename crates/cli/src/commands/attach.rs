//! `manypath attach`: programs in a cgroup carried without being touched.

use super::stack_options::StackOptions;
use super::{run, serve, stack};
use crate::failure::Failure;
use crate::say::{say, say_line};
use clap::{ArgGroup, Args};
use manypath_cgroup::{Containers, Error, Options, Report, Rival, group};
use manypath_control::manager;
use manypath_shim::{ServerChoice, StackChoice};
use std::ffi::OsString;
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
    after_help = "Example:\n  manypath attach --cgroup /sys/fs/cgroup/system.slice/nginx.service\n  manypath attach --unit nginx.service --client-only --report\n  manypath attach --unit machine.slice --containers\n  manypath attach --unit nginx.service --replace"
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
    /// Also carry programs in network namespaces of their own, such as those of containers: each
    /// namespace gets a stack of its own, with the addresses, routes and packet filters of the
    /// container.
    #[arg(long)]
    pub(crate) containers: bool,
    /// Serve one network namespace for another `manypath attach`.
    #[arg(long, hide = true, conflicts_with = "containers")]
    pub(crate) inner: bool,
    /// Take over from another `manypath attach` of this cgroup: it keeps its connections until they
    /// end, and new ones are carried by this one.
    #[arg(long)]
    pub(crate) replace: bool,
    /// The service manager's main process is another one.
    #[arg(long, hide = true)]
    pub(crate) anchored: bool,
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

/// Serves the cgroup.
pub(crate) fn attach(args: &AttachArgs) -> Result<u8, Failure> {
    if args.replace && manager::is_present() && !args.anchored {
        return serve::under_anchor();
    }
    // Copies of the manager's lines to processes before this one: they hear of it when the manager drops its own.
    drop(manager::passed(args.anchored));
    let options = Options {
        group: place(args)?,
        // A scope is made by whoever starts its container.
        make: args.unit.as_ref().is_some_and(|unit| !unit.ends_with(".scope")),
        stack: stack_of(args)?,
        server: if args.client_only { None } else { door(args)? },
        containers: args.containers.then(|| containers(args)),
        inner: args.inner,
        replace: args.replace,
        anchored: args.anchored,
        rules: stack::rules(&args.stack)?,
        answer_limit: Duration::from_secs(1),
        // The anchor's line is no place for words.
        ready: if args.anchored { || {} } else { say_ready },
        notice: |line| say(line),
    };
    let report = manypath_cgroup::run(&options).map_err(failure)?;
    if args.inner {
        // Nobody reads it if the process that has started this one is dead.
        let _ = writeln!(std::io::stdout(), "{}", json(&report)?);
    } else if args.json {
        say_line(json(&report)?);
    } else if args.report {
        say(&report);
    }
    Ok(0)
}

fn say_ready() {
    println!("READY");
    // Who waits for the line reads a pipe.
    let _ = std::io::stdout().flush();
}

/// The stack. What is remembered of this host's peers says nothing of those that a container reaches at the same
/// addresses.
fn stack_of(args: &AttachArgs) -> Result<StackChoice, Failure> {
    super::stack::warn_of_wrong_settings()?;
    let stack = run::embedded_stack(&args.stack)?;
    Ok(if args.inner { without_memory(stack) } else { stack })
}

fn door(args: &AttachArgs) -> Result<Option<ServerChoice>, Failure> {
    let door = run::door(&args.stack, args.port)?;
    Ok(door.map(|door| match args.inner {
        true => ServerChoice { start: without_memory(door.start), ..door },
        false => door,
    }))
}

fn without_memory(mut stack: StackChoice) -> StackChoice {
    if let StackChoice::Embedded { args, .. } = &mut stack {
        args.push("--no-memory".into());
    }
    stack
}

/// This program once more, for each network. Addresses of this host are none of a container's.
fn containers(args: &AttachArgs) -> Containers {
    let options = StackOptions { locals: Vec::new(), ..args.stack.clone() };
    let mut words: Vec<OsString> = vec!["attach".into(), "--inner".into()];
    words.extend(args.client_only.then(|| "--client-only".into()));
    words.extend(args.replace.then(|| "--replace".into()));
    words.extend(["--port".into(), args.port.to_string().into()]);
    words.extend(run::stack_args(&options).into_iter().skip(1));
    let exe = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    Containers { exe, args: words }
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

/// How to resolve that another process already carries the programs.
pub(super) fn rival_failure(rival: &Rival) -> Failure {
    let end = match &rival.unit {
        Some(unit) => format!("systemctl stop {unit}, or for good: `manypath disable`"),
        None => format!("kill {}; to take over from it: attach --replace", rival.pid),
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
        Error::Setup("eBPF" | "network namespace", _) => failure.hint(
            "needs Linux 5.14 or newer with CONFIG_CGROUP_BPF; `manypath run -- CMD` works from Linux 5.6 on",
        ),
        Error::Setup("tcp_diag", _) => failure.hint(
            "`modprobe tcp_diag` (CONFIG_INET_TCP_DIAG); without it: manypath run -- CMD",
        ),
        Error::Setup("cgroup", io) if io.kind() == std::io::ErrorKind::NotFound => {
            failure.hint("start the program first, or name its unit: --unit UNIT")
        }
        Error::Setup("cgroup", io) if io.kind() == std::io::ErrorKind::ResourceBusy => failure.hint(
            "name one that it is not in; inside a container: manypath run -- CMD, or on its host: manypath attach --containers",
        ),
        Error::Setup("cgroup", _) if !Path::new("/sys/fs/cgroup/cgroup.controllers").exists() => {
            failure.hint("`grep cgroup2 /proc/mounts` shows where cgroup version 2 is")
        }
        Error::Setup(..) | Error::StackLost(_) | Error::Kernel(_) => failure,
    }
}

fn json(report: &Report) -> Result<String, Failure> {
    serde_json::to_string(report).map_err(|e| Failure::new(e.to_string()))
}
