//! What is wrong with this host as a whole.

use super::super::findings::{
    FileFault, Findings, Launcher, Remembered, RuleFinding, ScopeFinding, Taken,
};
use super::cause::{Cause, Weight};
use super::service::is_near;
use crate::shell;
use std::fs::Metadata;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;

pub(super) fn causes(findings: &Findings) -> Vec<Cause> {
    let mut causes: Vec<Cause> = findings.files.iter().map(file).collect();
    if !findings.loopback {
        let text = "the loopback interface is down: programs cannot be joined to their stack";
        causes
            .push(Cause::new("loopback-down", Weight::Broken, text).mend("ip link set dev lo up"));
    }
    causes.extend(launcher(&findings.launcher));
    causes.extend(findings.ruled.rule.as_ref().map(rule));
    let against = findings.remembered.iter().filter(|entry| !is_near(entry));
    causes.extend(against.map(remembered));
    let uplinks = findings.scopes.iter().filter(|it| it.used).count();
    if findings.host.is_some() && findings.paths.is_empty()
        || findings.host.is_none() && uplinks == 0
    {
        let text = "no interface of this host has an address from which a peer could be reached";
        causes.push(Cause::new("no-uplink", Weight::Broken, text));
    }
    causes.extend(findings.taken.iter().map(taken));
    causes.extend(kernel_sctp(findings));
    if findings.kernel.mptcp == Some(false) {
        let text = "the kernel's MPTCP is disabled; manypath does not need it";
        causes.push(
            Cause::new("mptcp-off", Weight::Note, text).mend("sysctl -w net.mptcp.enabled=1"),
        );
    }
    causes.extend(
        findings.scopes.iter().filter(|it| !it.used && findings.host.is_some()).map(unused),
    );
    for interface in &findings.without_address {
        let text = format!("{interface} has a link but no address, so it carries nothing");
        causes.push(Cause::new("no-address", Weight::Note, text));
    }
    causes
}

/// What keeps `manypath run` from carrying programs of this machine.
fn launcher(launcher: &Launcher) -> Option<Cause> {
    let name = "run-plain-tcp";
    match launcher {
        Launcher::Everything | Launcher::Nested => None,
        Launcher::Clients => {
            let text = "`manypath run` carries clients; peers reach its servers by plain TCP only: \
                        Linux 5.9 or newer is needed";
            Some(Cause::new(name, Weight::Degraded, text))
        }
        Launcher::Linked { servers, text } => {
            let programs = if *servers { "static programs" } else { "servers and static programs" };
            let text = format!("{programs} under `manypath run` are plain TCP here: {text}");
            Some(Cause::new(name, Weight::Degraded, text))
        }
        Launcher::Nothing { text, command, .. } => {
            let text = format!("programs under `manypath run` are plain TCP here: {text}");
            let cause = Cause::new(name, Weight::Broken, text);
            Some(match command {
                Some(command) => cause.mend(*command),
                None => cause,
            })
        }
    }
}

/// An address that the scope rules keep out.
fn unused(local: &ScopeFinding) -> Cause {
    let ScopeFinding { addr, interface, reason, cure, .. } = local;
    match cure {
        Some(cure) => {
            let text = format!("{addr} ({interface}) is not used for this peer: {reason}");
            Cause::new("isolated", Weight::Note, text).mend(cure)
        }
        None => {
            let text =
                format!("{addr} ({interface}) is not used: the peer is routed into a tunnel");
            Cause::new("tunnelled", Weight::Note, text)
        }
    }
}

fn file(fault: &FileFault) -> Cause {
    let FileFault { kind, file, line, message } = fault;
    if *kind == "keys" {
        let text = format!(
            "stacks have a new key each time, and peers that connect are not encrypted: {}: {message}",
            file.display()
        );
        let cause = Cause::new("key-not-kept", Weight::Note, text);
        let is_open = |about: Metadata| about.mode() & 0o077 != 0;
        return match file.metadata().is_ok_and(is_open) {
            true => cause.mend(format!("chmod go= {}", shell::word(&file.display().to_string()))),
            false => cause,
        };
    }
    let name = match *kind {
        "rules" => "bad-rules",
        "settings" => "bad-settings",
        _ => "bad-paths",
    };
    let file = file.display().to_string();
    let place = line.map_or_else(String::new, |line| format!(" line {line}"));
    let text = format!("no stack starts with this file of {kind}: {file}{place}: {message}");
    let cause = Cause::new(name, Weight::Broken, text);
    let file = shell::word(&file);
    match line {
        Some(line) => cause.mend(format!("sed -i '{line}s/^/# /' {file}")),
        None => cause.mend(format!("chmod +r {file}")),
    }
}

fn rule(rule: &RuleFinding) -> Cause {
    let text = match &rule.rule {
        Some(rule) => format!("a rule keeps connections to this peer on plain TCP: {rule}"),
        None => "connections are left to plain TCP unless a rule says otherwise".to_owned(),
    };
    let cause = Cause::new("rule-disables", Weight::Broken, text);
    match &rule.place {
        Some(place) => cause.mend(format!("manypath rules delete {place}")),
        None => cause.mend("manypath rules default remote enable"),
    }
}

fn remembered(entry: &Remembered) -> Cause {
    let peer = entry.port.map_or_else(
        || entry.addr.to_string(),
        |port| SocketAddr::new(entry.addr, port).to_string(),
    );
    let text = format!(
        "{peer} goes on as plain TCP for {} s more, because of an earlier attempt: {}",
        entry.remaining_s, entry.reason
    );
    let cause = Cause::new("remembered-plain", Weight::Broken, text);
    cause.mend(format!("manypath cache flush {peer}"))
}

/// Programs of users are served so, too; but it may be in the way of the host's own service.
fn taken(taken: &Taken) -> Cause {
    let Taken { port, by } = taken;
    let text = format!(
        "UDP port {port} of this host belongs to {by}: peers reach that program there, for ports above 1023 alone"
    );
    Cause::new("port-taken", Weight::Note, text)
}

fn kernel_sctp(findings: &Findings) -> Option<Cause> {
    let kernel = &findings.kernel;
    if kernel.sctp_udp_port != 0 && kernel.sctp_udp_port == findings.udp_port {
        let port = kernel.sctp_udp_port;
        let text = format!("the kernel's SCTP uses UDP port {port}, so `manypath serve` cannot");
        let cause = Cause::new("kernel-sctp", Weight::Degraded, text);
        return Some(cause.mend("sysctl -w net.sctp.udp_port=0"));
    }
    if !kernel.sctp {
        return None;
    }
    if kernel.native {
        let text = "the kernel's SCTP is loaded and aborts associations of stacks without UDP";
        return Some(Cause::new("kernel-sctp", Weight::Degraded, text).mend("modprobe -r sctp"));
    }
    let text = "the kernel's SCTP is loaded; it is in the way only without UDP encapsulation";
    Some(Cause::new("kernel-sctp", Weight::Note, text))
}
