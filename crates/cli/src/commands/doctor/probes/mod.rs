//! How things are found out: one file each. Nothing here judges or prints.

mod acceptor;
mod capture;
mod exchange;
mod files;
mod firewall;
mod init;
mod kernel;
mod launcher;
mod mtu;
pub(super) mod name;
mod nat;
mod presence;
mod reach;
mod routes;
pub(super) mod scopes;
mod stacks;
pub(super) mod trial;
pub(super) mod uplinks;

use super::args::DoctorArgs;
use super::findings::{Findings, Launcher, LinkState, OtherPort, PathFinding, Udp};
use crate::failure::Failure;

/// Finds out all that can be known; tells `progress` what it does.
pub(super) fn collect(
    args: &DoctorArgs,
    progress: &mut dyn FnMut(&str),
) -> Result<Findings, Failure> {
    // Before there are threads: it forks.
    let launcher = launcher::look();
    let Some(host) = &args.host else { return this_machine(args, launcher) };
    let named = name::resolve(host)?;
    let stacks = crate::commands::stacks::query(false)?;
    let ports = acceptor::Ports::read(args.peer_port);
    let service = named.port.zip(named.addresses.first());
    let udp_port = ports.asked(service.map(|(port, address)| (*address, port).into()));
    let mut findings = Findings {
        host: Some(named.host),
        port: named.port,
        udp_port,
        taken: ports.taken(),
        loopback: uplinks::loopback_works()?,
        without_address: uplinks::without_address()?,
        kernel: kernel::look(&stacks),
        launcher,
        unrouted: named.addresses.first().is_some_and(|address| routes::is_unrouted(*address)),
        ..Findings::default()
    };
    progress("asking the peer over every path");
    let mut uplinks = uplinks::uplinks()?;
    findings.scopes = scopes::look(&named.addresses, &mut uplinks)?;
    let keys = named
        .addresses
        .first()
        .is_none_or(|address| files::encrypts((*address, named.port.unwrap_or(0)).into()));
    let reached = reach::reach(&named.addresses, (udp_port, keys), &uplinks)?;
    let low = named.port.is_some_and(|port| port < acceptor::FIRST_FREE_PORT);
    let answered = reached.paths.iter().any(|path| path.udp.is_answered());
    let tells = named.port.is_none() || low && !answered;
    if let Some(other) = ports.other(udp_port).filter(|_| tells) {
        let answers = reach::answers(&named.addresses, (other, keys), &uplinks)?;
        findings.other_port = Some(OtherPort { port: other, answers });
    }
    findings.addresses = reached.addresses;
    findings.behind_nat = reached.behind_nat;
    findings.paths = reached.paths;
    files::look(&mut findings);
    for path in &mut findings.paths {
        path.stacks = stacks::about(path, &stacks);
    }
    files::remembered(&mut findings, &stacks);
    look_at_failures(&mut findings, progress);
    if args.nat {
        measure_nats(&mut findings, progress);
    }
    try_service(&mut findings, args.peer_port, progress);
    Ok(findings)
}

/// What can be known without a peer.
fn this_machine(args: &DoctorArgs, launcher: Launcher) -> Result<Findings, Failure> {
    let stacks = crate::commands::stacks::query(false)?;
    let mut findings = Findings {
        udp_port: args.peer_port,
        taken: acceptor::Ports::read(args.peer_port).taken(),
        loopback: uplinks::loopback_works()?,
        without_address: uplinks::without_address()?,
        kernel: kernel::look(&stacks),
        launcher,
        scopes: scopes::look(&[], &mut uplinks::uplinks()?)?,
        ..Findings::default()
    };
    files::look(&mut findings);
    Ok(findings)
}

/// What is worth knowing only where something does not work.
fn look_at_failures(findings: &mut Findings, progress: &mut dyn FnMut(&str)) {
    let behind_nat = findings.behind_nat.clone();
    let fails =
        |path: &PathFinding| !path.udp.is_answered() && !behind_nat.contains(&path.remote.ip());
    if !findings.paths.iter().any(fails) {
        return;
    }
    progress("looking for what is in the way");
    for path in findings.paths.iter_mut().filter(|path| fails(path)) {
        routes::look_for_gateways(path);
        if matches!(path.udp, Udp::Silent | Udp::Unreachable) && path.link == LinkState::Up {
            path.tcp = Some(presence::answers_tcp(path, findings.port));
        }
    }
    findings.open_output = firewall::open_output(findings.udp_port);
    findings.open_input = firewall::open_input(findings.udp_port);
}

fn measure_nats(findings: &mut Findings, progress: &mut dyn FnMut(&str)) {
    progress("leaving NATs alone to see when they forget (two minutes at most)");
    nat::measure(&mut findings.paths);
}

/// A connection as programs make it, where nothing that is known already stands in its way.
fn try_service(findings: &mut Findings, usual_port: u16, progress: &mut dyn FnMut(&str)) {
    let Some(port) = findings.port else { return };
    let Some(address) = findings.addresses.first().copied() else { return };
    let hopeful = findings.files.is_empty()
        && findings.ruled.rule.is_none()
        && findings.loopback
        && findings.paths.iter().any(|path| path.udp.is_answered());
    if hopeful {
        progress("connecting to the service");
        findings.trial = Some(trial::try_out((address, port).into(), usual_port));
    }
    if findings.kernel.mptcp == Some(true) {
        findings.peer.mptcp = presence::speaks_mptcp((address, port).into());
    }
}
