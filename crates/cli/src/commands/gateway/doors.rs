//! `manypath gateway --socks` and `--lan`.

use super::args::{GatewayArgs, LanRulesArgs};
use super::lan::{self, Lan};
use crate::commands::stack;
use crate::failure::Failure;
use manypath_daemon::{Doors, Level, Locals, ProcessConfig, StackConfig, Users};
use manypath_net::{TransparentUdp, Tun};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

/// The port of SOCKS (RFC 1928 section 3).
const SOCKS_PORT: u16 = 1080;
/// The port of DNS.
const DNS_PORT: u16 = 53;
/// What setsockopt(2) says of an interface that is not there (ENODEV).
const NO_DEVICE: i32 = 19;
/// A network has more connections than a gateway of signalling.
const MAX_CLIENTS: u32 = 10_000;

/// Runs until interrupted.
pub(super) fn run(args: &GatewayArgs) -> Result<u8, Failure> {
    if args.remove {
        lan::remove().map_err(lan_failure)?;
        return Ok(0);
    }
    let users = match &args.password_file {
        Some(file) => Some(
            Users::read(file).map_err(|why| Failure::usage(format!("--password-file {why}")))?,
        ),
        None => None,
    };
    let is_open = users.is_none() && args.clients.is_empty();
    let addresses = args.socks.iter().map(|text| socks_address(text, is_open));
    let addresses: Vec<SocketAddr> = addresses.collect::<Result<_, _>>()?;
    let proxies = addresses.iter().map(|address| {
        TcpListener::bind(address)
            .map_err(|error| Failure::new(format!("cannot accept clients at {address}: {error}")))
    });
    let proxies: Vec<TcpListener> = proxies.collect::<Result<_, _>>()?;
    let dns = args.dns.as_deref().map(resolver).transpose()?;
    let tun = args.tun.as_deref().map(tun).transpose()?;
    let (rules, lans, lan_datagrams) = network(args, dns.is_some())?;
    let max_clients = args.max_clients.unwrap_or(MAX_CLIENTS);
    let max_clients = usize::try_from(max_clients).unwrap_or(usize::MAX);
    let clients = args.clients.clone();
    let doors = Doors { proxies, lans, lan_datagrams, tun, dns, clients, users, max_clients };
    let mut config = config(args, doors)?;
    // Its rules lead connections to sockets that listen already.
    let rules = rules.map(|rules| Lan::start(&rules)).transpose().map_err(lan_failure)?;
    let lans = config.doors.iter_mut().flat_map(|doors| &mut doors.lans);
    for ((name, _), lan) in lans.zip(rules.iter().cycle()) {
        *name = format!("{name} ({})", lan.how);
    }
    let ended = stack::run(vec![config], stack::log_to(args.stack.log.as_deref()), "--port");
    drop(rules);
    ended
}

/// What leads the connections and datagrams of a network here, and the sockets to which they are led.
type NetworkDoors = (Option<LanRulesArgs>, Vec<(String, TcpListener)>, Vec<TransparentUdp>);

fn network(args: &GatewayArgs, dns: bool) -> Result<NetworkDoors, Failure> {
    if args.lan.is_empty() {
        return Ok((None, Vec::new(), Vec::new()));
    }
    let failed = |error: io::Error| cannot_listen(args, &error);
    let (port, lans) = manypath_daemon::listen_transparently(&args.lan).map_err(failed)?;
    let (udp_port, datagrams) = match carries_datagrams(args) {
        true => {
            let opened = manypath_daemon::receive_transparently(&args.lan).map_err(failed)?;
            (Some(opened.0), opened.1)
        }
        false => (None, Vec::new()),
    };
    let (lan, clients) = (args.lan.clone(), args.clients.clone());
    let rules = LanRulesArgs { lan, clients, port, udp_port, tun: args.tun.clone(), dns };
    Ok((Some(rules), lans, datagrams.into_iter().map(|(_, socket)| socket).collect()))
}

fn carries_datagrams(args: &GatewayArgs) -> bool {
    !args.lan.is_empty() && (args.udp || args.dns.is_some() || !args.stack.via.is_empty())
}

/// The TUN device that --tun names, for as long as this process lives.
fn tun(name: &str) -> Result<Tun, Failure> {
    Tun::create(name).map_err(|error| {
        let failure = Failure::new(format!("--tun {name}: {error}"));
        let hints = [
            (io::ErrorKind::PermissionDenied, "as root"),
            (io::ErrorKind::ResourceBusy, "there is such a device; another name"),
            (io::ErrorKind::NotFound, "a kernel with TUN devices: modprobe tun"),
        ];
        match hints.into_iter().find(|(kind, _)| *kind == error.kind()) {
            Some((_, hint)) => failure.hint(hint),
            None => failure,
        }
    })
}

/// The resolver that --dns names.
fn resolver(text: &str) -> Result<SocketAddr, Failure> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let alone = inner.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DNS_PORT));
    let address = alone.or_else(|_| text.parse::<SocketAddr>());
    let usable = |at: &SocketAddr| at.port() != 0 && !at.ip().is_unspecified();
    address.ok().filter(usable).ok_or_else(|| {
        Failure::usage(format!("--dns {text}: not the address of a resolver"))
            .hint("ADDR or ADDR:PORT; for example 9.9.9.9, [2620:fe::fe]:53")
    })
}

fn config(args: &GatewayArgs, doors: Doors) -> Result<StackConfig, Failure> {
    let mut config = StackConfig {
        doors: Some(doors),
        udp_port: args.udp_port.unwrap_or(0),
        process: ProcessConfig { handle_signals: true, service: true, ..ProcessConfig::default() },
        ignore_wrong_settings: true,
        ..StackConfig::default()
    };
    stack::check_rules_and_paths(&stack::rules(&args.stack)?)?;
    stack::warn_of_wrong_settings()?;
    stack::configure(&mut config, &args.stack, Level::Info)?;
    config.carrying.door_datagrams = carries_datagrams(args);
    // Where the hosts are that are served, no peer is.
    if args.stack.locals.is_empty() && !args.lan.is_empty() {
        config.locals = Locals::Except(args.lan.iter().chain(&args.tun).cloned().collect());
    }
    match manypath_control::runtime::directory() {
        Ok(dir) => config.process.runtime_dir = Some(dir),
        Err(error) => eprintln!("manypath: `manypath status` will not find this gateway: {error}"),
    }
    Ok(config)
}

/// Where clients come in. `is_open`: nothing says who they may be.
fn socks_address(text: &str, is_open: bool) -> Result<SocketAddr, Failure> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let alone = inner.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, SOCKS_PORT));
    let address = alone.or_else(|_| text.parse::<SocketAddr>()).map_err(|_| {
        Failure::usage(format!("--socks {text}: not an address"))
            .hint("ADDR or ADDR:PORT; for example 127.0.0.1, 127.0.0.1:1080, [::1]:1080")
    })?;
    if is_open && !address.ip().is_loopback() {
        let message =
            format!("--socks {text}: an open proxy: whoever reaches this address could use it");
        return Err(Failure::usage(message)
            .hint("--clients NETWORK, such as 192.168.1.0/24, or --password-file FILE"));
    }
    Ok(address)
}

fn cannot_listen(args: &GatewayArgs, error: &io::Error) -> Failure {
    let failure = Failure::new(format!("--lan {}: {error}", args.lan.join(",")));
    if error.kind() == io::ErrorKind::PermissionDenied {
        failure.hint("as root")
    } else if error.raw_os_error() == Some(NO_DEVICE) {
        failure.hint("`ip link` lists the interfaces")
    } else {
        failure
    }
}

fn lan_failure(error: lan::Error) -> Failure {
    let failure = Failure::new(format!("--lan: {error}"));
    match error {
        lan::Error::Busy => failure.hint("one is enough for several interfaces: --lan INTERFACE,INTERFACE; it removes its rules when it ends"),
        lan::Error::NoTool(_) => failure.hint("install nftables and iproute2"),
        lan::Error::Refused(_) => failure.hint("as root, on a kernel with nft_tproxy, nft_socket and nft_fib_inet (OpenWrt: opkg install kmod-nft-tproxy kmod-nft-socket kmod-nft-fib)"),
        lan::Error::Io(_) => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_that_is_open_to_others_is_refused() {
        let at = |text: &str, is_open| socks_address(text, is_open).ok().map(|at| at.to_string());
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1:1080"),
            ("127.0.0.1:3128", "127.0.0.1:3128"),
            ("::1", "[::1]:1080"),
            ("[::1]", "[::1]:1080"),
            ("[::1]:8", "[::1]:8"),
        ] {
            assert_eq!(at(text, true).as_deref(), Some(expected), "{text}");
        }
        for text in ["0.0.0.0", "::", "192.0.2.1:1080", "[2001:db8::1]:1080"] {
            assert_eq!(at(text, true), None, "{text}");
            assert!(at(text, false).is_some(), "{text}");
        }
        for text in ["", "1080", "localhost", "127.0.0.1:", "[::1", "127.0.0.1:70000"] {
            assert_eq!(at(text, false), None, "{text}");
        }
    }
}
