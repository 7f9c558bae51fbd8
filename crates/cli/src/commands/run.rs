//! `manypath run`: a program with its connections carried over every path.

use super::outcome::{Plain, plain_by_destination};
use super::preload::PreloadArgs;
use super::stack_options::{EncapsulationArg, StackOptions};
use crate::failure::Failure;
use crate::say::{say, say_line};
use clap::Args;
use manypath_control::{ControlClient, Role, runtime};
use manypath_daemon::{Level, StackConfig, check_locals};
use manypath_rules::{Chain, Policy, Protocol, StepAside};
use manypath_shim::{Outcome, RunOptions, ServerChoice, ShimState, StackChoice};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

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

/// How long a stack behind `--stack` may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// What `--json` prints (docs/status.md).
#[derive(Serialize)]
struct ReportJson<'a> {
    schema: u32,
    status: u8,
    shim: &'static str,
    /// What keeps the program out of the shim.
    obstacle: Option<&'static str>,
    opened: u64,
    sctp: u64,
    datagrams: u64,
    tcp_relay: u64,
    failed: u64,
    given_up: u64,
    left_to_the_kernel: &'a BTreeMap<&'static str, u64>,
    refused_as_sctp_only: &'a BTreeMap<&'static str, u64>,
    io_uring_hidden: u64,
    listeners: u64,
    accepted_sctp: u64,
    accepted_tcp: u64,
    listeners_not_offered: &'a BTreeMap<&'static str, u64>,
    stack_lost: bool,
    stacks_replaced: u64,
    traffic: Option<TrafficJson<'a>>,
    plain_tcp: Vec<Plain<'a>>,
}

/// What was carried over SCTP.
#[derive(Serialize)]
struct TrafficJson<'a> {
    connections: u64,
    open: u64,
    sent_bytes: u64,
    received_bytes: u64,
    path_bytes: &'a BTreeMap<String, u64>,
}

/// What the exit status is when the command has failed before the program was run, as of env and timeout.
pub(crate) const FAILED: u8 = 125;

/// Runs the program; the exit status is the program's, or else 125, 126 or 127.
pub(crate) fn run(args: &RunArgs) -> Result<u8, Failure> {
    run_program(args).map_err(|failure| match failure.status {
        1 | 2 => failure.with_status(FAILED),
        _ => failure,
    })
}

fn run_program(args: &RunArgs) -> Result<u8, Failure> {
    if args.sctp {
        return super::preload::preload(&PreloadArgs::of(args));
    }
    let stack = match &args.existing {
        Some(socket) => system_stack(socket)?,
        None => {
            super::stack::warn_of_wrong_settings()?;
            super::shared::stack(embedded_stack(&args.stack)?, args.own_stack)
        }
    };
    let mut options = RunOptions::new(args.command.clone(), stack);
    options.rules = Some(super::stack::rules(&args.stack)?);
    options.server = server(args)?;
    options.hide_io_uring = !args.allow_io_uring;
    options.datagrams = carries_datagrams(args)?;
    options.loopback_paths = args.stack.loopback_paths;
    options.handover = super::preload::handover();
    options.count_traffic = args.report || args.json;
    options.notice = |line| say(line);
    let outcome = manypath_shim::run(&options)
        .map_err(|e| Failure::new(e.to_string()).with_status(e.exit_status()))?;
    if args.json {
        say_line(json(&outcome)?);
    } else if args.report {
        match &outcome.shim {
            ShimState::Unavailable(obstacle) => {
                say(format_args!("all connections were plain TCP ({})", obstacle.name()));
            }
            ShimState::Nested => {
                say("all connections are in the report of the outer `manypath run`")
            }
            ShimState::Active => {
                super::outcome::sentences(&outcome.report).iter().for_each(say);
                say(&outcome.report);
            }
        }
    }
    Ok(outcome.status)
}

/// Whether a rule says that datagrams are to be carried: otherwise their calls are not touched.
fn carries_datagrams(args: &RunArgs) -> Result<bool, Failure> {
    let file = super::stack::rules(&args.stack)?.read().map_err(super::rules::failure)?;
    let table = file.table();
    let mut enabled = table.list(Chain::Remote, Policy::Enable);
    Ok(enabled.any(|(_, rule)| rule.protocol == Protocol::Udp))
}

/// The stack behind a control socket, if it answers.
fn system_stack(socket: &Path) -> Result<StackChoice, Failure> {
    ControlClient::connect(socket, Role::Cli, ANSWER_LIMIT).map_err(|e| {
        Failure::new(format!("no stack answers at {}: {e}", socket.display()))
            .hint("leave out --stack, or give the socket of a running `manypath serve` (in its runtime directory)")
    })?;
    Ok(StackChoice::System { socket: socket.to_owned() })
}

/// A stack of its own: this program once more.
pub(super) fn embedded_stack(options: &StackOptions) -> Result<StackChoice, Failure> {
    check(options)?;
    if options.encapsulation == EncapsulationArg::Native {
        manypath_net::check_native().map_err(|e| {
            Failure::new(e.to_string()).hint("as root, or in UDP: --encapsulation udp")
        })?;
    }
    let log = super::stack::log_to(options.log.as_deref());
    log.check().map_err(|e| super::stack::cannot_log(&log, &e))?;
    // Without /proc programs run as plain TCP, and no stack is started.
    let exe = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    // Only on request: a stack that drains would keep the caller's pipe open after the program's end.
    let asked = options.verbose > 0 && options.log.is_none();
    let tells = asked || options.log.as_deref() == Some(Path::new("stderr"));
    Ok(StackChoice::Embedded { exe, args: stack_args(options), tells })
}

/// Nobody would read what the stack says about files and options that it cannot take.
fn check(options: &StackOptions) -> Result<(), Failure> {
    super::stack::check_rules_and_paths(&super::stack::rules(options)?)?;
    let mut config = StackConfig::server(Vec::new());
    super::stack::configure(&mut config, options, Level::Warn)?;
    if options.locals.is_empty() {
        // Where addresses cannot be read at all, programs run as plain TCP.
        return Ok(());
    }
    check_locals(&config).map_err(|e| {
        Failure::new(format!("--local: {e}")).hint("`ip address` shows the addresses of this host")
    })
}

/// Who leads peers to the program's listening sockets. Where a program may accept connections unseen,
/// nobody does: it would take peers for local clients.
fn server(args: &RunArgs) -> Result<Option<ServerChoice>, Failure> {
    if args.client_only || args.allow_io_uring {
        return Ok(None);
    }
    door(&args.stack, args.port)
}

/// The stack that leads peers to listening sockets: the door that all programs of the host share.
pub(super) fn door(options: &StackOptions, port: u16) -> Result<Option<ServerChoice>, Failure> {
    let places = runtime::directory().ok().zip(runtime::network_namespace().ok());
    let Some((directory, namespace)) = places else { return Ok(None) };
    let name = runtime::find_door(&directory, namespace, port);
    let StackChoice::Embedded { exe, args: mut options, tells } = embedded_stack(options)? else {
        return Ok(None);
    };
    options.extend(["--door".into(), port.to_string().into()]);
    Ok(Some(ServerChoice { name, start: StackChoice::Embedded { exe, args: options, tells } }))
}

/// The options of the stack, as arguments for it.
pub(super) fn stack_args(options: &StackOptions) -> Vec<OsString> {
    let mut args = vec!["stack".into()];
    let mut option = |name: &str, value: OsString| args.extend([format!("--{name}").into(), value]);
    option("profile", options.profile.clone().into());
    option("peer-port", options.peer_port.to_string().into());
    option("encapsulation", options.encapsulation.name().into());
    if let Some(mode) = options.mode {
        option("mode", mode.name().into());
    }
    if let Some(step_aside) = options.step_aside {
        option("step-aside", StepAside::from(step_aside).name().into());
    }
    if options.identity != "own" {
        option("identity", options.identity.clone().into());
    }
    if let Some(encrypt) = &options.encrypt {
        option("encrypt", encrypt.into());
    }
    if !options.via.is_empty() {
        option("via", options.via.join(",").into());
    }
    if !options.carriers.is_empty() {
        option("carriers", options.carriers.join(",").into());
    }
    if let Some(name) = &options.tls_name {
        option("tls-name", name.into());
    }
    for (name, _, value) in options.settings() {
        option(name, value.to_string().into());
    }
    for local in &options.locals {
        option("local", local.to_string().into());
    }
    if let Some(rules) = &options.rules {
        let rules = std::path::absolute(rules).unwrap_or_else(|_| rules.clone());
        option("rules", rules.into());
    }
    if let Some(log) = &options.log {
        args.extend(["--log".into(), absolute_log(log)]);
    }
    args.extend((0..options.verbose).map(|_| "-v".into()));
    args.extend(options.loopback_paths.then(|| "--loopback-paths".into()));
    args
}

/// The stack works in another directory.
fn absolute_log(log: &Path) -> OsString {
    match log.to_str() {
        Some("stderr" | "journal") => log.into(),
        _ => std::path::absolute(log).unwrap_or_else(|_| log.to_owned()).into(),
    }
}

fn json(outcome: &Outcome) -> Result<String, Failure> {
    let shim = match outcome.shim {
        ShimState::Active => "active",
        ShimState::Nested => "nested",
        ShimState::Unavailable(_) => "unavailable",
    };
    let obstacle = match &outcome.shim {
        ShimState::Unavailable(obstacle) => Some(obstacle.name()),
        ShimState::Active | ShimState::Nested => None,
    };
    let report = &outcome.report;
    let json = ReportJson {
        schema: super::SCHEMA,
        status: outcome.status,
        shim,
        obstacle,
        opened: report.opened,
        sctp: report.sctp,
        datagrams: report.datagrams,
        tcp_relay: report.tcp_relay,
        failed: report.failed,
        given_up: report.given_up,
        left_to_the_kernel: &report.left,
        refused_as_sctp_only: &report.refused,
        io_uring_hidden: report.io_uring_hidden,
        listeners: report.listeners,
        accepted_sctp: report.accepted_sctp,
        accepted_tcp: report.accepted_plain,
        listeners_not_offered: &report.listeners_left,
        stack_lost: report.stack_lost,
        stacks_replaced: report.stacks_replaced,
        traffic: report.traffic.as_ref().map(|traffic| TrafficJson {
            connections: traffic.connections,
            open: traffic.open,
            sent_bytes: traffic.sent_bytes,
            received_bytes: traffic.received_bytes,
            path_bytes: &traffic.path_bytes,
        }),
        plain_tcp: plain_by_destination(report),
    };
    serde_json::to_string(&json).map_err(|e| Failure::new(e.to_string()))
}
