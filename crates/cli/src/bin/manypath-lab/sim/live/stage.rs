//! The lab of a live run, and the processes on its hosts.

use super::report::Report;
use super::sender::STAMP;
use crate::failure::Failure;
use crate::sim::args::{LiveTransport, SimLiveArgs};
use clap::ValueEnum;
use manypath_engine::PathPolicy;
use manypath_lab::{DirectionStatus, Host, Lab, LabSpec, MTU, PathSpec};
use manypath_net::Clock;
use manypath_sim::Instant;
use manypath_sim::link::LinkConfig;
use manypath_sim::scenario::{self, AppKind, Run, Scenario};
use manypath_sim::simulation::Outcome;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

/// From both hosts being ready until the association begins.
const LEAD: Duration = Duration::from_millis(100);

/// Whether a scenario can be run live.
pub(super) fn check(scenario: &Scenario, transport: LiveTransport) -> Result<(), Failure> {
    let kernel = transport != LiveTransport::Manypath;
    let saturated = |app: &scenario::AppSpec| matches!(app.kind, AppKind::Saturated { .. });
    let lives = |app: &scenario::AppSpec| match app.kind {
        AppKind::Saturated { .. } | AppKind::OnOff { .. } => true,
        AppKind::File { .. }
        | AppKind::RequestResponse { .. }
        | AppKind::Channel { .. }
        | AppKind::Connection { .. } => false,
    };
    let not_live = [
        (!scenario.udp, "udp = false", "the live stack speaks SCTP in UDP; set udp = true"),
        (
            scenario.single_homed_server,
            "single_homed_server",
            "each path of a lab has an address of its own at both ends",
        ),
        (!scenario.background.is_empty(), "[[background]]", "the lab has no background traffic"),
        (!scenario.competitors.is_empty(), "[[competitor]]", "the lab has one sender"),
        (scenario.paths.len() > 26, "[[path]]", "a lab has at most 26 paths"),
        (
            scenario.paths.iter().any(|path| path.mtu != MTU),
            "mtu",
            "packets in the lab have up to 1500 bytes",
        ),
        (
            scenario.paths.iter().any(|path| !path.changes.is_empty() || path.shares.is_some()),
            "[[path.change]] and shares",
            "paths of a lab have links of their own that stay as they are",
        ),
        (
            scenario.paths.iter().any(|path| path.policy != PathPolicy::default()),
            "role, cost, metered and primary",
            "what a path is there for is said to a stack by `manypath path`",
        ),
        (!scenario.apps.iter().all(lives), "kind", "only saturated and on-off run live"),
        (
            kernel && (scenario.apps.len() > 1 || !scenario.apps.iter().all(saturated)),
            "[[app]]",
            "MPTCP runs have one saturated application",
        ),
        (
            scenario.apps.iter().any(|app| app.message < STAMP),
            "message",
            "live messages carry the time of their making: at least 8 bytes",
        ),
    ];
    let wrong = not_live.iter().find(|(wrong, ..)| *wrong);
    wrong.map_or(Ok(()), |(_, what, why)| {
        Err(Failure::usage(format!("{}: {what} cannot be run live: {why}", scenario.name)))
    })
}

/// Does one run.
pub(super) fn perform(args: &SimLiveArgs, index: usize, run: &Run) -> Result<Outcome, String> {
    let paths = run.scenario.paths.iter().map(path_spec).collect();
    let lab = Lab::start(LabSpec::new(paths)).map_err(|e| e.to_string())?;
    if args.transport != LiveTransport::Manypath {
        lab.enable_mptcp().map_err(|e| e.to_string())?;
    }
    let mut receiver = Process::start(&lab, Host::Right, args, index)?;
    let mut sender = Process::start(&lab, Host::Left, args, index)?;
    receiver.wait_until_ready()?;
    sender.wait_until_ready()?;
    let start = Clock::of_machine().now() + LEAD;
    receiver.begin(start)?;
    sender.begin(start)?;
    outcome(&run.scenario, &lab, &sender.report()?, receiver.report()?)
}

/// The path of the scenario as the lab can have it: the delay of the access networks is added to that
/// of the bottleneck; their rate, far above it, and their jitter are left to the machine's own.
fn path_spec(path: &scenario::PathSpec) -> PathSpec {
    let lengthen =
        |link: &LinkConfig| LinkConfig { delay: link.delay + path.access.delay, ..link.clone() };
    PathSpec { towards_right: lengthen(&path.forth), towards_left: lengthen(&path.back) }
}

/// The figures of both ends and of the lab, in the order of the simulation's.
fn outcome(
    scenario: &Scenario,
    lab: &Lab,
    sent: &Report,
    received: Report,
) -> Result<Outcome, String> {
    let status = lab.status().map_err(|e| e.to_string())?;
    let value = |(name, value): &(String, Option<f64>)| match name.as_str() {
        "rwnd_blocked" => (name.clone(), sent.figure(name)),
        _ => (name.clone(), value.unwrap_or(f64::NAN)),
    };
    let mut figures: Vec<_> = received.figures.iter().map(value).collect();
    for (spec, path) in scenario.paths.iter().zip(&status.paths) {
        for name in ["packets_sent", "fast_retransmits", "timeouts"] {
            let name = format!("{}_{name}", spec.name);
            let value = sent.figure(&name);
            figures.push((name, value));
        }
        let DirectionStatus { dropped_queue, dropped_loss, dropped_overrun, .. } =
            path.towards_right;
        let dropped =
            [("queue", dropped_queue), ("loss", dropped_loss), ("overrun", dropped_overrun)];
        let dropped = dropped.map(|(why, n)| (format!("{}_dropped_{why}", spec.name), n as f64));
        figures.extend(dropped);
    }
    // The sender tells them; without packets they say nothing but the names.
    figures.extend(scenario.modules.figures(0).map(|(name, _)| {
        let value = sent.figure(&name);
        (name, value)
    }));
    Ok(Outcome {
        figures,
        trace_hash: 0,
        failure: sent.failure.clone().or(received.failure),
        series: None,
        capture: None,
        packets: sent.packets,
        simulated_s: 0.0,
    })
}

/// A process on a host; ended when dropped.
struct Process {
    host: Host,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(lab: &Lab, host: Host, args: &SimLiveArgs, run: usize) -> Result<Self, String> {
        Self::spawn(lab, host, args, run).map_err(|e| format!("{host}: {e}"))
    }

    fn spawn(lab: &Lab, host: Host, args: &SimLiveArgs, run: usize) -> std::io::Result<Self> {
        let mut command = lab.command(host, std::env::current_exe()?);
        command.arg("sim-live-host").arg(&args.file).args(["--run", &run.to_string()]);
        for (name, value) in args.changes.options() {
            command.args([name, value]);
        }
        if let Some(seeds) = args.seeds {
            command.args(["--seeds", &seeds.to_string()]);
        }
        let transport = args.transport.to_possible_value();
        command.arg("--transport").arg(transport.as_ref().map_or("", |value| value.get_name()));
        if host == Host::Left {
            command.arg("--sender");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        Ok(Self { host, child, output: BufReader::new(output) })
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let line = self.line()?;
        if line == "ready" { Ok(()) } else { Err(format!("{}: it said '{line}'", self.host)) }
    }

    fn begin(&mut self, start: Instant) -> Result<(), String> {
        let input = self.child.stdin.as_mut();
        let told = input.map(|input| writeln!(input, "{}", start.as_nanos()));
        let told = told.unwrap_or_else(|| Err(std::io::ErrorKind::BrokenPipe.into()));
        told.map_err(|e| format!("{}: {e}", self.host))
    }

    fn report(&mut self) -> Result<Report, String> {
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|e| format!("{}: {e} in '{line}'", self.host))
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err(format!("the process on {} exited without a result", self.host)),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(format!("{}: {error}", self.host)),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
