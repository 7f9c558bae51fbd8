//! `manypath serve`: a stack that accepts associations.

use super::stack;
use crate::args::ServeArgs;
use crate::failure::Failure;
use manypath_control::anchor::anchor;
use manypath_control::{manager, runtime};
use manypath_daemon::{Allow, Certificate, Encapsulation, Level, RelayConfig, Server, StackConfig};
use manypath_rules::{Chain, Encrypt, Policy, Via};
use std::process::Command;

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
