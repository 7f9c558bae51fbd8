//! What was found and what is wrong, for people and for programs.

use super::diagnosis::{Cause, Place, Weight, is_well};
use super::findings::{
    Ecn, Findings, Gso, Launcher, LinkState, OtherPort, PathFinding, Rebinding, StackPath, Trial,
    Udp,
};
use crate::commands::status::last_data;
use serde::Serialize;
use std::fmt::Write;

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    well: bool,
    #[serde(flatten)]
    findings: &'a Findings,
    causes: &'a [Cause],
}

impl<'a> Report<'a> {
    pub(super) fn new(findings: &'a Findings, causes: &'a [Cause]) -> Self {
        Self { well: is_well(causes), findings, causes }
    }
}

/// Everything in lines; the commands that fix it come last.
pub(super) fn text(findings: &Findings, causes: &[Cause]) -> String {
    let mut out = String::new();
    let port = findings.port.map_or(String::new(), |port| format!(", service {port}"));
    // Writing to a string cannot fail, here and below.
    let _ = match &findings.host {
        Some(host) => writeln!(out, "{host} (manypath at UDP port {}{port})", findings.udp_port),
        None => writeln!(out, "this machine (`manypath doctor HOST` checks the paths to a host)"),
    };
    findings.paths.iter().for_each(|it| path(&mut out, it));
    if findings.host.is_some() {
        let _ = writeln!(out, "  host and service");
    }
    for it in &findings.scopes {
        let used = if it.used { "used" } else { "not used" };
        let value = format!("{} ({}): {}, {used}: {}", it.addr, it.interface, it.scope, it.reason);
        line(&mut out, "address", &value);
    }
    for (name, value) in host(findings) {
        line(&mut out, name, &value);
    }
    let _ = writeln!(out);
    causes.iter().for_each(|it| cause(&mut out, it));
    if is_well(causes) {
        let _ = writeln!(out, "all is well");
    }
    commands(&mut out, causes);
    out
}

fn line(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "    {name:<11} {value}");
}

fn path(out: &mut String, path: &PathFinding) {
    let _ = writeln!(out, "  path {} {} -> {}", path.interface, path.local, path.remote);
    let mut say = |name, value: String| line(out, name, &value);
    say("link", link(path.link).to_owned());
    say("route", route(path));
    say("answer", udp(&path.udp));
    if path.udp.is_answered() {
        say("nat", nat(path));
        let mtu = path.mtu.map_or("not known".to_owned(), |mtu| mtu.to_string());
        say("path MTU", format!("{mtu} bytes, interface {}", path.interface_mtu));
        say("ECN", ecn(path.ecn));
        say("GSO", gso(path.gso).to_owned());
    }
    if let Some(wish) = &path.wanted.wish {
        say("policy", wish.words.clone());
    }
    for stack in &path.stacks {
        say("idle", idle(stack));
    }
}

const fn link(state: LinkState) -> &'static str {
    match state {
        LinkState::Up => "up",
        LinkState::NoCarrier => "no carrier",
        LinkState::Off => "down",
    }
}

fn route(path: &PathFinding) -> String {
    let route = &path.route;
    match (&route.error, route.gateway) {
        (Some(error), _) => format!("none: {error}"),
        (None, Some(gateway)) => format!("via {gateway} dev {}", path.interface),
        (None, None) if route.on_link => format!("on the link of {}", path.interface),
        (None, None) => format!("none over {}", path.interface),
    }
}

fn udp(udp: &Udp) -> String {
    match udp {
        Udp::Answered { rtt_ms, manypath: true } => format!("manypath, after {rtt_ms:.1} ms"),
        Udp::Answered { rtt_ms, manypath: false } => {
            format!("SCTP, not manypath, after {rtt_ms:.1} ms")
        }
        Udp::Aborted { wants_encryption: true } => "refused: encryption is required".to_owned(),
        Udp::Aborted { wants_encryption: false } => "refused by SCTP".to_owned(),
        Udp::PortClosed => "none: nothing listens on the port".to_owned(),
        Udp::Unreachable => "none: the network says that there is no way".to_owned(),
        Udp::Refused { why, .. } => format!("not asked: {why}"),
        Udp::Silent => "none".to_owned(),
    }
}

fn nat(path: &PathFinding) -> String {
    let seen = match (path.nat, path.outside) {
        (Some(true), Some(outside)) => format!("the peer sees {outside}"),
        (Some(false), _) => return "none".to_owned(),
        _ => "not known: the peer does not tell what it sees".to_owned(),
    };
    let kept = match &path.rebinding {
        None => "how long it is kept: --nat".to_owned(),
        Some(Rebinding::Longer { than_s }) => format!("kept for more than {than_s} s"),
        Some(Rebinding::Between { kept_s, lost_s }) => format!("kept for {kept_s} to {lost_s} s"),
        Some(Rebinding::Unknown { why }) => format!("how long it is kept is not known: {why}"),
    };
    format!("{seen}, {kept}")
}

fn ecn(ecn: Ecn) -> String {
    let peer = match ecn.peer {
        Some(true) => "the peer takes part",
        Some(false) => "the peer takes no part",
        None => "not known of the peer",
    };
    let passes = match ecn.passes {
        Some(true) => "marked packets get through",
        Some(false) => "marked packets vanish",
        None => "not known of the path",
    };
    format!("{peer}, {passes}")
}

const fn gso(gso: Gso) -> &'static str {
    match (gso.kernel, gso.passes) {
        (true, Some(true)) => "yes",
        (true, Some(false)) => "refused by the interface, or lost on the way",
        (true, None) => "offered by the kernel",
        (false, _) => "no",
    }
}

fn idle(stack: &StackPath) -> String {
    let StackPath { pid, association, state, idle, .. } = stack;
    let why = idle.as_deref().unwrap_or("it is not: data is being sent");
    let last = last_data(stack.since_data_sent_ms, stack.since_data_received_ms);
    format!("stack {pid}/{association}, {state}: {why}; {last}")
}

/// What is not about a single path.
fn host(findings: &Findings) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(OtherPort { port, answers }) = findings.other_port {
        let services = if port < 1024 { "below 1024" } else { "above 1023" };
        let said = if answers { "a" } else { "no" };
        let text =
            format!("{said} manypath answers at UDP port {port}, for services at ports {services}");
        lines.push(("other port", text));
    }
    let run = match &findings.launcher {
        Launcher::Everything => "carries clients and servers",
        Launcher::Clients => "carries clients, not servers",
        Launcher::Linked { servers: false, .. } => {
            "carries clients of the C library, not static ones, and no servers"
        }
        Launcher::Linked { servers: true, .. } => {
            "carries programs of the C library, not static ones"
        }
        Launcher::Nested => "is served by the one around it",
        Launcher::Nothing { .. } => "leaves programs to plain TCP",
    };
    lines.push(("run", format!("manypath run {run}")));
    let own = match findings.kernel.mptcp {
        Some(true) => "usable here",
        Some(false) => "disabled here",
        None => "not in this kernel",
    };
    let peers = match findings.peer.mptcp {
        Some(true) => ", the service speaks it",
        Some(false) => ", the service does not speak it",
        None if findings.host.is_none() => "",
        None => ", not known of the service",
    };
    lines.push(("MPTCP", format!("{own}{peers}")));
    let sctp = if findings.kernel.sctp { "loaded" } else { "not loaded" };
    lines.push(("kernel SCTP", sctp.to_owned()));
    if findings.kernel.stacks.is_empty() {
        lines.push(("stacks", "none is running: no path is in use".to_owned()));
    }
    let service = findings.trial.as_ref().map(|trial| match trial {
        Trial::Carried => "carried over SCTP".to_owned(),
        Trial::Plain { reason } => format!("plain TCP: {reason}"),
        Trial::Failed { errno } => std::io::Error::from_raw_os_error(*errno).to_string(),
        Trial::Unknown { why } => format!("not known: {why}"),
    });
    lines.extend(service.map(|text| ("service", text)));
    lines
}

fn cause(out: &mut String, cause: &Cause) {
    let weight = match cause.weight {
        Weight::Broken => "broken",
        Weight::Degraded => "degraded",
        Weight::Note => "note",
    };
    let path = cause.path.as_ref().map_or(String::new(), |path| {
        format!(" ({} {} -> {})", path.interface, path.local, path.remote.ip())
    });
    // What is wrong has its command at the end.
    let note = cause.command.as_ref().filter(|_| cause.weight == Weight::Note);
    let command = note.map_or(String::new(), |command| format!(" (`{command}`)"));
    let _ = writeln!(out, "{weight}: {}{path}: {}{command}", cause.name, cause.text);
}

/// What to do about all that is wrong.
fn commands(out: &mut String, causes: &[Cause]) {
    let heads =
        [(Place::Here, "fix it on this host with:"), (Place::Peer, "fix it on the peer with:")];
    for (place, head) in heads {
        let wrong = |it: &&Cause| it.weight != Weight::Note && it.place == place;
        let mut all: Vec<_> =
            causes.iter().filter(wrong).filter_map(|it| it.command.as_ref()).collect();
        all.dedup();
        if !all.is_empty() {
            let _ = writeln!(out, "\n{head}");
        }
        for command in all {
            let _ = writeln!(out, "  {command}");
        }
    }
}
