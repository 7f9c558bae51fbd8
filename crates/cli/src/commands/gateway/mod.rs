//! `manypath gateway`: doors for programs and hosts that cannot be intercepted; SCTP programs and TCP programs, joined.

pub(crate) mod args;
mod doors;
mod lan;
mod place;

pub(crate) use lan::lan_rules;

use super::stack;
use super::stack_options::EncapsulationArg;
use crate::failure::Failure;
use args::GatewayArgs;
use manypath_daemon::{
    Carrying, DEFAULT_UDP_PORT, Framing, Gateway, Level, Locals, ProcessConfig, SCTP_PORT,
    StackConfig, Way,
};
use place::Place;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Clients at a time, unless told otherwise.
const MAX_CLIENTS: u32 = 1000;

/// Runs until interrupted.
pub(crate) fn gateway(args: &GatewayArgs) -> Result<u8, Failure> {
    match (&args.sctp, &args.tcp) {
        (Some(sctp), Some(tcp)) => join(args, way(args, sctp, tcp)?),
        _ => doors::run(args),
    }
}

/// Joins SCTP programs with TCP programs.
fn join(args: &GatewayArgs, way: Way) -> Result<u8, Failure> {
    let max_clients = args.max_clients.unwrap_or(MAX_CLIENTS);
    let gateway = Gateway {
        way,
        framing: args.framing.map_or(Framing::Pieces, Into::into),
        max_clients: usize::try_from(max_clients).unwrap_or(usize::MAX),
        status_every: args.json.then(|| Duration::from_secs(args.interval)),
    };
    if args.stack.encapsulation == EncapsulationArg::Native {
        manypath_net::check_native().map_err(|e| {
            Failure::new(e.to_string()).hint("as root, or in UDP: --encapsulation udp")
        })?;
    }
    let mut config = config(args, gateway);
    match manypath_control::runtime::directory() {
        Ok(dir) => config.process.runtime_dir = Some(dir),
        Err(error) => eprintln!("manypath: `manypath status` will not find this gateway: {error}"),
    }
    stack::run(vec![config], stack::log_to(args.stack.log.as_deref()), "--port")
}

fn config(args: &GatewayArgs, gateway: Gateway) -> StackConfig {
    let accept = matches!(gateway.way, Way::ToTcp { .. });
    let locals = match args.stack.locals.is_empty() {
        true => Locals::Auto,
        false => Locals::Named(args.stack.locals.clone()),
    };
    let level = if args.stack.verbose > 0 { Level::Verbose } else { Level::Info };
    StackConfig {
        locals,
        encapsulation: args.stack.encapsulation.into(),
        udp_port: args.udp_port.unwrap_or(if accept { DEFAULT_UDP_PORT } else { 0 }),
        peer_udp_port: args.stack.peer_port,
        accept,
        gateway: Some(gateway),
        carrying: Carrying { peer_cache: false, ..Carrying::default() },
        process: ProcessConfig { handle_signals: true, ..ProcessConfig::default() },
        log: level.into(),
        ..StackConfig::default()
    }
}

/// From where to where.
fn way(args: &GatewayArgs, sctp: &str, tcp: &str) -> Result<Way, Failure> {
    let (sctp, tcp) = (Place::parse("--sctp", sctp)?, Place::parse("--tcp", tcp)?);
    match (sctp, tcp) {
        (Place::Here(port), Place::There(hosts, service)) => {
            if !args.listen.is_empty() {
                let message = "--listen is for TCP clients, and SCTP clients come in here";
                return Err(Failure::usage(message).hint("addresses for SCTP: --local ADDR[,ADDR]"));
            }
            if port == SCTP_PORT {
                let message = format!("--sctp: {port} is the port of manypath's own associations");
                return Err(Failure::usage(message).hint("another port"));
            }
            let ips = place::addresses("--tcp", &hosts)?;
            let service = ips.into_iter().map(|ip| SocketAddr::new(ip, service)).collect();
            Ok(Way::ToTcp { port, service })
        }
        (Place::There(hosts, server), Place::Here(port)) => {
            let peers = place::addresses("--sctp", &hosts)?;
            let all = [IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
            let listen = if args.listen.is_empty() { &all[..] } else { &args.listen };
            let listen = listen.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
            Ok(Way::ToSctp { listen, peers, port: server })
        }
        (Place::Here(_), Place::Here(_)) => Err(Failure::usage("no server given")
            .hint("one of --sctp and --tcp is HOST:PORT, the other a PORT of this host")),
        (Place::There(..), Place::There(..)) => Err(Failure::usage("no port for clients given")
            .hint("one of --sctp and --tcp is a PORT of this host; where it is: --listen ADDR")),
    }
}
