//! Stacks in processes of their own, and what their deaths do to others.
//!
//! This program is both: with `--server` it is the stack that is killed, else it runs the tests.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test that meets the unexpected has failed"
)]

mod common;

use common::{Host, Launcher, Network, counter, echo, service};
use manypath_control::Reply;
use manypath_control::status::FallbackReason;
use manypath_daemon::{Allow, KeyFiles, Level, Limits, Locals, Stack, StackConfig};
use manypath_trust::{IdentitySource, KnownPeersFile, load_or_create_identity};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a busy machine may add. Without the answers of the host, or its silence, a peer is waited for for many seconds.
const SOON: Duration = Duration::from_secs(1);
/// After so long a silence of a peer a new connect is plain TCP.
const SILENCE: Duration = Duration::from_millis(600);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, locals, allow, key] = &arguments[..]
        && flag == "--server"
    {
        return serve(locals, allow, Path::new(key));
    }
    killed_server_resets_its_relays();
    println!("ok: killed_server_resets_its_relays");
    connects_after_a_kill_fall_back_soon();
    println!("ok: connects_after_a_kill_fall_back_soon");
    who_only_waits_hears_of_the_death();
    println!("ok: who_only_waits_hears_of_the_death");
    restarted_server_is_found_again();
    println!("ok: restarted_server_is_found_again");
    terminated_server_ends_in_good_order();
    println!("ok: terminated_server_ends_in_good_order");
}

/// The child: a server until it is killed.
fn serve(locals: &str, allow: &str, key: &Path) {
    load_or_create_identity(key).unwrap();
    let allow: Allow = allow.parse().unwrap();
    let locals = locals.split(',').map(|addr| addr.parse().unwrap()).collect();
    let config = StackConfig {
        locals: Locals::List(locals),
        loopback_paths: true,
        limits: Limits { exit_timeout: Duration::from_millis(200), ..Limits::default() },
        log: Level::Silent.into(),
        keys: Some(KeyFiles {
            identity: IdentitySource::File(key.to_owned()),
            known_peers: KnownPeersFile::named(key.with_extension("known_peers")),
            ssh_hosts: false,
            authorized_peers: None,
        }),
        ..StackConfig::server(vec![allow])
    };
    let stack = Stack::new(config).unwrap();
    println!("ready");
    stack.run().unwrap();
}

/// A server process, killed at the latest when the test is done with it.
struct Server {
    child: Child,
    /// By which its clients know it, also when it is started anew.
    key: PathBuf,
}

impl Server {
    fn start(network: Network, allow: SocketAddr) -> Self {
        let locals = network.server().map(|addr| addr.to_string()).join(",");
        let key = std::env::temp_dir().join(format!("manypath-test-key-{locals}"));
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program)
            .args(["--server", &locals, &allow.to_string()])
            .arg(&key)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child, key }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.key);
    }
}

fn connected(launcher: &mut Launcher, destination: SocketAddr) -> TcpStream {
    let mut stream = launcher.connect_sctp(destination);
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    stream
}

/// Writes until the connection breaks; how it broke, and how soon.
fn write_until_broken(stream: &mut TcpStream) -> (ErrorKind, Duration) {
    let begun = Instant::now();
    loop {
        let result = stream.write_all(b"x").and_then(|()| {
            stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            stream.read(&mut [0; 64])
        });
        match result {
            Ok(0) => panic!("ended in good order"),
            Err(error) if error.kind() != ErrorKind::WouldBlock => {
                return (error.kind(), begun.elapsed());
            }
            _ => assert!(begun.elapsed() < common::LIMIT, "still connected"),
        }
    }
}

/// A client that waits no longer than necessary for a peer whose host says that nobody listens.
fn impatient(network: Network) -> StackConfig {
    let mut config = network.client_config();
    config.limits.unreachable_patience = Duration::from_secs(2);
    config
}

fn killed_server_resets_its_relays() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let mut server = Server::start(network, destination);
    let (_client, mut launcher) = Host::with_launcher(impatient(network));
    let mut stream = connected(&mut launcher, destination);
    launcher.wait_for("the second path", |status| {
        status.associations[0].paths.iter().filter(|path| path.state == "active").count() == 2
    });
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let (error, after) = write_until_broken(&mut stream);
    assert!(matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error:?}");
    assert!(after < Duration::from_secs(5), "{after:?}");
    assert_eq!(launcher.receive(), Reply::Closed { id: 1 });
    let status = launcher.status();
    assert!(status.associations.is_empty());
    assert_eq!(counter(&status, "stack_peers_gone"), 1);
    let (reason, after) = launcher.direct(destination);
    assert_eq!(reason, FallbackReason::Refused);
    assert!(after < SOON, "{after:?}");
}

/// Nothing waits for an answer of the server when it is killed: its death shows when the next
/// connection is wanted.
fn connects_after_a_kill_fall_back_soon() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let mut server = Server::start(network, destination);
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    drop(connected(&mut launcher, destination));
    launcher.wait_for("the second path", |status| {
        status.associations[0].paths.iter().filter(|path| path.state == "active").count() == 2
    });
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    // Of the one that finds it out, and of those while the association is being given up.
    for _ in 0..3 {
        let (_, after) = launcher.direct(destination);
        assert!(after < SILENCE + SOON, "{after:?}");
    }
    launcher.wait_for("the end of the association", |status| status.associations.is_empty());
}

/// Nothing is on its way to the server, so nothing comes back.
fn who_only_waits_hears_of_the_death() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let mut server = Server::start(network, destination);
    let (_client, mut launcher) = Host::with_launcher(impatient(network));
    let mut stream = connected(&mut launcher, destination);
    std::thread::sleep(Duration::from_millis(500));
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let begun = Instant::now();
    stream.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

fn restarted_server_is_found_again() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let mut first = Server::start(network, destination);
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let mut stream = connected(&mut launcher, destination);
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let _second = Server::start(network, destination);
    let (error, after) = write_until_broken(&mut stream);
    assert!(matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error:?}");
    assert!(after < Duration::from_secs(5), "{after:?}");
    assert_eq!(launcher.receive(), Reply::Closed { id: 1 });
    connected(&mut launcher, destination);
}

fn terminated_server_ends_in_good_order() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let mut server = Server::start(network, destination);
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let mut stream = connected(&mut launcher, destination);
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let (error, _) = write_until_broken(&mut stream);
    assert!(matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error:?}");
    assert!(server.child.wait().unwrap().success());
}
