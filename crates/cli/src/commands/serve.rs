//! `manypath serve`: a stack that accepts associations.

use super::stack;
use super::stack_options::StackOptions;
use crate::failure::Failure;
use clap::Args;
use manypath_control::anchor::anchor;
use manypath_control::{manager, runtime};
use manypath_daemon::{
    Allow, Behind, Certificate, Encapsulation, Level, RelayConfig, RelayTo, Server, StackConfig,
};
use manypath_rules::paths::Budget;
use manypath_rules::{Chain, Encrypt, Policy, Via};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

/// Accept connections from peers and forward them to local services.
///
/// Nothing is reachable unless you allow it. A service is dialled at the exact address that the
/// peer used, never at loopback.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath serve --allow 22,443\n  manypath serve --allow 192.0.2.7:8080 --port 9899 -v\n  manypath serve --allow 5004/udp\n  manypath serve --relay --authorized /etc/manypath/authorized_peers\n  manypath serve --allow 22 --register relay.example"
)]
pub(crate) struct ServeArgs {
    /// Let peers reach these ports, separated by commas, in addition to those that local rules
    /// open. PORT/udp opens a port for datagrams. A port is open on the addresses by which peers
    /// reach this host.
    #[arg(long, value_name = "PORT|ADDR:PORT", value_delimiter = ',')]
    pub(crate) allow: Vec<String>,
    /// UDP port to listen on (RFC 6951). As root, manypath also listens on the one that clients use
    /// for services on ports below 1024 (the setting privileged_port, 899).
    #[arg(long, value_name = "PORT", default_value_t = 9899, value_parser = clap::value_parser!(u16).range(..65535))]
    pub(crate) port: u16,
    /// Take over from the `manypath serve` of this user that has the port: it keeps its connections until they end, and
    /// new ones are accepted here. Under a service manager, keep connections across restarts of the service.
    #[arg(long)]
    pub(crate) replace: bool,
    /// Share the work among this many engine loops, up to 16, each with associations and a processor of its own. Programs
    /// under `manypath run` cannot offer their listening sockets to a server with several loops.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) loops: u8,
    /// Also carry the connections of programs that this user or root starts with `manypath run`, without a stack of their own.
    #[arg(long)]
    pub(crate) programs: bool,
    /// Accept only peers whose keys are in this file, one on each line, as `manypath key show` prints
    /// them; implies --encrypt require.
    #[arg(long, value_name = "FILE")]
    pub(crate) authorized: Option<PathBuf>,
    /// Relay connections of the peers in --authorized to any destination (`manypath run --via`). Private and
    /// special networks, and those of this host, are closed unless --relay-to names them.
    #[arg(long)]
    pub(crate) relay: bool,
    /// Also relay to these networks, or to some of their ports, separated by commas.
    #[arg(long, value_name = "NETWORK[:PORTS]", value_delimiter = ',', requires = "relay")]
    pub(crate) relay_to: Vec<RelayTo>,
    /// Connections that each peer may have through the relay at a time.
    #[arg(long, value_name = "N", default_value_t = RelayConfig::CONNECTIONS, requires = "relay")]
    pub(crate) relay_connections: usize,
    /// What each peer may move through the relay in a day or a month, in both directions together, such as 10GB/month
    /// (default: no limit).
    #[arg(long, value_name = "SIZE/PERIOD", value_parser = parse_quota, requires = "relay")]
    pub(crate) relay_quota: Option<Budget>,
    /// Pass connections to the ports of TLS carriers that do not name manypath's protocol on to this web server, as they
    /// are: both share the port. With `,proxy` it is told its clients' addresses by a line of the PROXY protocol.
    #[arg(long, value_name = "ADDR:PORT[,proxy]", value_parser = parse_behind)]
    pub(crate) behind: Option<Behind>,
    /// Certificate to show in TLS with the carrier `tls:PORT`, with its chain, as PEM (default: one that signs itself).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Private key of that certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Register at this relay (HOST or HOST:PORT), so that its peers reach this host although a NAT or a firewall lets nobody
    /// in: `manypath run --via RELAY`, and the address that `manypath key` shows here. Give it again for relays that
    /// are used when the one before does not answer.
    #[arg(long, value_name = "RELAY")]
    pub(crate) register: Vec<String>,
    /// The service manager's main process is another one.
    #[arg(long, hide = true)]
    pub(crate) anchored: bool,
    #[command(flatten)]
    pub(crate) stack: StackOptions,
}

fn parse_quota(text: &str) -> Result<Budget, String> {
    Budget::parse(text).ok_or_else(|| "expected a size and a period, such as 10GB/month".to_owned())
}

fn parse_behind(text: &str) -> Result<Behind, String> {
    let (addr, proxy_line) = match text.strip_suffix(",proxy") {
        Some(addr) => (addr, true),
        None => (text, false),
    };
    let addr: SocketAddr =
        addr.parse().map_err(|_| "expected ADDRESS:PORT or ADDRESS:PORT,proxy".to_owned())?;
    // ::ffff:127.0.0.1 is this host, too.
    let addr = SocketAddr::new(addr.ip().to_canonical(), addr.port());
    if addr.port() == 0 || addr.ip().is_unspecified() || addr.ip().is_multicast() {
        return Err("no server can be at that address".to_owned());
    }
    Ok(Behind { addr, proxy_line })
}

/// Serves until interrupted.
pub(crate) fn serve(args: &ServeArgs) -> Result<u8, Failure> {
    if args.replace && manager::is_present() && !args.anchored {
        return under_anchor();
    }
    let mut configs = vec![configure(args)?];
    let (loops, reason) = loops(args, &configs[0])?;
    configs[0].process.loops_reason = reason;
    while configs.len() < loops {
        configs.push(configure(args)?);
    }
    if let Err(error) = Server::seat(&mut configs) {
        configs.truncate(1);
        configs[0].process.loops_reason =
            instead_of(loops, &format!("the kernel does not share a port: {error}"));
    }
    stack::run(configs, stack::log_to(args.stack.log.as_deref()), "--port")
}

/// How many engine loops there are to be, and why not as many as were asked for.
fn loops(args: &ServeArgs, config: &StackConfig) -> Result<(usize, Option<String>), Failure> {
    let asked = usize::from(args.loops);
    if asked > 1 && (args.port == 0 || config.encapsulation != Encapsulation::Udp) {
        let text = "--loops: several loops need UDP encapsulation and a fixed --port";
        return Err(Failure::usage(text));
    }
    if asked > 1 && !config.process.sockets.is_empty() {
        let why = "the service manager has opened one socket for each address";
        return Ok((1, instead_of(asked, why)));
    }
    match manypath_daemon::loops_to_replace(config) {
        Some(theirs) if theirs != asked => {
            let why = "the server before has another number: stop it first to change that";
            Ok((theirs, instead_of(asked, why)))
        }
        _ => Ok((asked, None)),
    }
}

fn instead_of(asked: usize, why: &str) -> Option<String> {
    Some(format!("instead of {asked}, because {why}"))
}

/// The configuration of a loop.
fn configure(args: &ServeArgs) -> Result<StackConfig, Failure> {
    let allow: Result<Vec<Allow>, _> = args.allow.iter().map(|text| text.parse()).collect();
    let allow = allow.map_err(|e| Failure::usage(format!("--allow: {e}")))?;
    let is_lost = |entry: &&Allow| !entry.is_reachable() && !args.stack.loopback_paths;
    if let Some(entry) = allow.iter().find(is_lost) {
        let text = format!("--allow {entry}: peers never reach loopback or unspecified addresses");
        return Err(Failure::usage(text).hint("--allow PORT opens it at each address of this host"));
    }
    let mut config = StackConfig::server(allow);
    stack::configure(&mut config, &args.stack, Level::Info)?;
    if let (Some(path), Some(keys)) = (&args.authorized, &mut config.keys) {
        if !path.exists() {
            return Err(Failure::usage(format!("--authorized {}: no such file", path.display())));
        }
        keys.authorized_peers = Some(std::path::absolute(path)?);
        config.encrypt = Encrypt::Require;
        config.fixed.push("encrypt");
    }
    relay(args, &mut config)?;
    tls(args, &mut config)?;
    register(args, &mut config)?;
    config.rules.iter().for_each(|rules| super::config::note_outdated(rules.sources()));
    check_that_something_is_open(&config)?;
    config.udp_port = args.port;
    let passed = manager::passed(args.anchored)
        .map_err(|e| Failure::new(format!("the service manager's sockets: {e}")))?;
    config.process.sockets = passed.sockets;
    config.process.replace = args.replace.then_some(passed.predecessors);
    config.process.anchored = args.anchored;
    match runtime::directory() {
        Ok(dir) => {
            let namespace = runtime::network_namespace().ok().filter(|_| args.programs);
            config.process.programs =
                namespace.map(|namespace| runtime::programs_path(&dir, namespace));
            config.process.runtime_dir = Some(dir);
        }
        Err(error) => eprintln!("manypath: `manypath status` will not find this server: {error}"),
    }
    Ok(config)
}

/// What TLS carriers show, and who is behind them.
fn tls(args: &ServeArgs, config: &mut StackConfig) -> Result<(), Failure> {
    let ports: Vec<u16> = config.carrying.carriers.tls_ports().collect();
    if let Some(behind) = &args.behind {
        // The setting may name one, too.
        if ports.is_empty() && !args.stack.carriers.is_empty() {
            return Err(Failure::usage("--behind needs a TLS carrier: --carriers tls:443"));
        }
        if ports.contains(&behind.addr.port()) && behind.addr.ip().is_loopback() {
            let text = format!("--behind {}: that is this server's own port", behind.addr);
            return Err(Failure::usage(text));
        }
    }
    config.carrying.behind = args.behind;
    if let Some((chain, key)) = args.tls_certificate.as_ref().zip(args.tls_key.as_ref()) {
        let read = Certificate::read(chain, key);
        let read = read.map_err(|why| Failure::usage(format!("--tls-certificate: {why}")))?;
        config.carrying.tls.certificate = Some(read);
    }
    Ok(())
}

/// What is relayed: nothing for peers that are not told apart.
fn relay(args: &ServeArgs, config: &mut StackConfig) -> Result<(), Failure> {
    if !args.relay {
        return Ok(());
    }
    if args.authorized.is_none() {
        let text =
            "--relay needs --authorized FILE: without it anybody could use this host as a relay";
        return Err(Failure::usage(text)
            .hint("FILE has a key in each line, as `manypath key` shows it on the client"));
    }
    if args.stack.encrypt.as_deref().is_some_and(|when| when != Encrypt::Require.name()) {
        return Err(Failure::usage("--relay needs --encrypt require, which --authorized implies"));
    }
    let (to, connections) = (args.relay_to.clone(), args.relay_connections);
    config.relay = Some(RelayConfig { to, connections, quota: args.relay_quota });
    Ok(())
}

/// At which relays this host is registered: only where it has a key to be known by.
fn register(args: &ServeArgs, config: &mut StackConfig) -> Result<(), Failure> {
    let said = (!args.register.is_empty()).then(|| args.register.join(",").parse::<Via>());
    let said = said.transpose().map_err(|e| Failure::usage(format!("--register: {e}")))?;
    config.carrying.register = said;
    let Some(via) = said else { return Ok(()) };
    if via.is_off() {
        return Err(Failure::usage("--register needs the address or the name of a relay"));
    }
    if args.loops > 1 {
        return Err(Failure::usage("--register is for servers with one engine loop: --loops 1"));
    }
    if config.encrypt == Encrypt::Off || config.encapsulation != Encapsulation::Udp {
        let text =
            "--register needs encryption and UDP: hosts behind a relay are known by their keys";
        return Err(Failure::usage(text).hint("--encrypt opportunistic"));
    }
    Ok(())
}

/// Runs this command in another process, which may outlive the service manager's main process.
pub(super) fn under_anchor() -> Result<u8, Failure> {
    let own = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let mut server = Command::new(own);
    server.args(std::env::args_os().skip(1)).arg("--anchored");
    anchor(&mut server).map_err(|e| Failure::new(format!("cannot start the server: {e}")))
}

/// A server that nobody can use was not meant.
fn check_that_something_is_open(config: &StackConfig) -> Result<(), Failure> {
    let unused = config.allow.is_empty() && config.relay.is_none();
    let Some(file) = config.rules.as_ref().filter(|_| unused) else {
        return Ok(());
    };
    let table = file.read().map_err(super::rules::failure)?.table();
    let opens = table.default_policy(Chain::Local) == Policy::Enable
        || table.list(Chain::Local, Policy::Enable).next().is_some();
    if opens {
        return Ok(());
    }
    if manager::is_present() {
        // A service that was just installed runs, and goes by the first rule as soon as there is one.
        eprintln!(
            "manypath: no service is open to peers yet: manypath rules add local enable port PORT"
        );
        return Ok(());
    }
    Err(Failure::usage("no service is open to peers")
        .hint("serve --allow PORT, or services = [PORT] in config.toml (manypath-config(5))"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_web_server_behind_a_port_is_one_address() {
        let at = |text: &str| parse_behind(text).map(|it| (it.addr.to_string(), it.proxy_line));
        assert_eq!(at("127.0.0.1:8443,proxy"), Ok(("127.0.0.1:8443".to_owned(), true)));
        assert_eq!(at("[::ffff:127.0.0.1]:443"), Ok(("127.0.0.1:443".to_owned(), false)));
        for wrong in
            ["web.example:443", "127.0.0.1", "0.0.0.0:443", "[::ffff:0.0.0.0]:1", "[::1]:0"]
        {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }
}
