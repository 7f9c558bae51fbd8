//! Servers under `manypath run`: one process serves clients of TCP and of manypath, and sees the
//! true address of each.

use crate::common;

use common::machines::{DOCKER, handing_over};
use common::{Finished, MANYPATH, Site, find, finish, wait_for};
use manypath_lab::Host;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/peers_server.py");

/// Connects, tells its own address and what the server has said, and echoes so many bytes.
const CLIENT: &str = "import socket,sys
s=socket.create_connection((sys.argv[1],int(sys.argv[2])),timeout=20)
f=s.makefile('rb')
told=f.readline().decode().split()
n=int(sys.argv[3]); s.sendall(b'x'*n)
assert len(f.read(n))==n
print(*s.getsockname()[:2],*told)
";

/// What a client has seen: its own address, and the server's words.
#[derive(Debug)]
struct Seen {
    own: (String, String),
    accepted: (String, String),
    peername: (String, String),
    local: String,
    process: String,
}

fn seen(finished: &Finished) -> Seen {
    let words: Vec<&str> = finished.stdout.split_whitespace().collect();
    assert_eq!(words.len(), 8, "{finished:?}");
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    let pair = |at| (plain(word(at)), word(at + 1).to_owned());
    let (local, process) = (plain(word(6)), word(7).to_owned());
    Seen { own: pair(0), accepted: pair(2), peername: pair(4), local, process }
}

/// An IPv4 address without its IPv6 coat.
fn plain(address: &str) -> String {
    address.trim_start_matches("::ffff:").to_owned()
}

/// A client of the server at `address`, through manypath or not.
fn client(site: &Site, through: bool, address: &str, port: &str) -> Seen {
    let args = ["-c", CLIENT, address, port, "100000"];
    let finished = match through {
        true => site.through("python3", &args),
        false => site.direct("python3", &args),
    };
    seen(&finished)
}

/// The addresses of the server: IPv4 and IPv6 of both paths.
fn addresses(site: &Site) -> Vec<String> {
    let four = (0..2).map(|path| site.lab.address(Host::Right, path).to_string());
    four.chain((0..2).map(|path| site.lab.address_v6(Host::Right, path).to_string())).collect()
}

/// Clients ask anew each time.
fn site() -> Site {
    let site = Site::new();
    std::fs::write(site.dir.join("sysctl.conf"), "peer_cache = 0\ntcp_race = off\n")
        .expect("settings");
    site
}

/// How often a client may be told by an address that is not the one it connects from.
const TRIES: u64 = 3;

/// A server that ends with the test.
struct Server(Child);

impl Server {
    /// Through `manypath run`, with options for it.
    fn run(site: &Site, options: &[&str], kind: &str, port: u16) -> Self {
        let mut command = site.command(Host::Right, MANYPATH);
        command.arg("run").args(options).arg("--").arg(find("python3"));
        Self::spawn(command, kind, port)
    }

    fn spawn(mut command: Command, kind: &str, port: u16) -> Self {
        command.args([SERVER, kind, &port.to_string()]).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the server starts");
        let mut line = [0; 3];
        let output = child.stdout.as_mut().expect("its output");
        output.read_exact(&mut line).expect("the server is up");
        Self(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The launcher takes its command with it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn kill(pid: &str) {
    let killed = Command::new("kill").args(["-9", pid]).status().expect("kill");
    assert!(killed.success());
}

/// Connections that came over SCTP, and others, as `manypath status` of the server's host has it.
fn accepted(site: &Site) -> (u64, u64) {
    let status = site.door_status(Host::Right);
    let listeners = status["listeners"].as_array().cloned().unwrap_or_default();
    let sum = |key: &str| listeners.iter().filter_map(|one| one[key].as_u64()).sum();
    (sum("sctp"), sum("plain"))
}

/// A client that is told by the address it connects from, and how many it took: where a busy machine has let a path fail
/// for a moment, one is told by another of its addresses.
fn client_told_by_its_own(site: &Site, through: bool, address: &str, port: &str) -> (Seen, u64) {
    let tries = if through { TRIES } else { 1 };
    let mut clients = (1..=tries).map(|tries| (client(site, through, address, port), tries));
    let told = clients.find(|(seen, _)| seen.accepted.0 == seen.own.0);
    told.expect("a client that is told by its own address")
}

/// Every address, each kind of client in turn: each must be seen as what it is.
fn both_kinds_are_seen(kind: &str) {
    let site = site();
    let _server = Server::run(&site, &[], kind, 7000);
    let mut carried = 0;
    for address in &addresses(&site) {
        for through in [false, true] {
            let (seen, tries) = client_told_by_its_own(&site, through, address, "7000");
            carried += if through { tries } else { 0 };
            assert_eq!(seen.accepted, seen.peername, "{seen:?}");
            assert_eq!(&seen.local, address, "{seen:?}");
            if !through {
                assert_eq!(seen.accepted.1, seen.own.1, "{seen:?}");
            }
        }
        assert_eq!(accepted(&site).0, carried, "carried over SCTP");
    }
    wait_for("the count of plain connections", || accepted(&site) == (carried, 4));
}

#[test]
fn blocking_threads_serve_both_kinds_of_clients_with_their_true_addresses() {
    both_kinds_are_seen("threads");
}

#[test]
fn an_event_loop_serves_both_kinds_of_clients_with_their_true_addresses() {
    both_kinds_are_seen("epoll");
}

#[test]
fn a_killed_worker_takes_no_client_with_it() {
    let site = site();
    let _server = Server::run(&site, &[], "prefork", 7000);
    let first = client(&site, true, &site.server(), "7000");
    kill(&first.process);
    let (mut workers, mut carried) = (std::collections::BTreeSet::new(), 1);
    for through in [true, false, true, false] {
        let (seen, tries) = client_told_by_its_own(&site, through, &site.server(), "7000");
        carried += if through { tries } else { 0 };
        workers.insert(seen.process);
    }
    assert!(!workers.contains(&first.process), "{workers:?}");
    assert!(workers.len() > 1, "one after the other: {workers:?}");
    assert_eq!(accepted(&site).0, carried);
}

#[test]
fn a_server_on_loopback_alone_is_never_offered() {
    let site = site();
    let _server = Server::run(&site, &[], "loopback", 7000);
    assert_eq!(site.door_status(Host::Right), serde_json::Value::Null, "nothing is served");
    // Nor when something else is: the address that the peer uses decides.
    let _other = Server::run(&site, &[], "threads", 7001);
    for address in addresses(&site) {
        let args = ["-c", CLIENT, &address, "7000", "1"];
        let refused = site.through("python3", &args);
        assert!(refused.stderr.contains("ConnectionRefusedError"), "{refused:?}");
        client_told_by_its_own(&site, true, &address, "7001");
    }
    let status = site.door_status(Host::Right);
    assert_eq!(status["listeners"].as_array().map(Vec::len), Some(1), "{status}");
    assert_eq!(status["counters"]["stack_dial_denied_not_listed"], 4, "{status}");
}

#[test]
fn a_killed_stack_leaves_tcp_alone_and_comes_back() {
    let site = site();
    let _server = Server::run(&site, &[], "threads", 7000);
    client(&site, true, &site.server(), "7000");
    let pid = site.door_status(Host::Right)["pid"].clone();
    kill(&pid.to_string());
    for through in [false, true] {
        client_told_by_its_own(&site, through, &site.server(), "7000");
    }
    wait_for("a new stack", || {
        let status = site.door_status(Host::Right);
        status["pid"] != pid && status["listeners"][0]["offered"] == true
    });
    let before = accepted(&site).0;
    let (_, tries) = client_told_by_its_own(&site, true, &site.server(), "7000");
    assert_eq!(accepted(&site).0, before + tries);
}

#[test]
fn servers_share_the_port_of_the_first_and_outlive_it() {
    let site = site();
    let first = Server::run(&site, &[], "threads", 7000);
    let _second = Server::run(&site, &[], "threads", 7001);
    let pid = site.door_status(Host::Right)["pid"].clone();
    for port in ["7000", "7001"] {
        client(&site, true, &site.server(), port);
    }
    assert_eq!(accepted(&site).0, 2);
    drop(first);
    let refused = site.through("python3", &["-c", CLIENT, &site.server(), "7000", "1"]);
    assert!(refused.stderr.contains("ConnectionRefusedError"), "{refused:?}");
    client(&site, true, &site.server(), "7001");
    let status = site.door_status(Host::Right);
    assert_eq!(status["pid"], pid);
    wait_for("the first to be forgotten", || accepted(&site).0 == 2);
    let _third = Server::run(&site, &[], "epoll", 7000);
    client(&site, true, &site.server(), "7000");
    assert_eq!(accepted(&site).0, 3);
}

#[test]
fn a_server_joins_the_stack_that_serves_already() {
    let mut site = site();
    site.web();
    site.random_file("small", 1000);
    site.serve("8080");
    let _server = Server::run(&site, &[], "threads", 7000);
    let (_, tries) = client_told_by_its_own(&site, true, &site.server(), "7000");
    let status = site.door_status(Host::Right);
    assert_eq!(status["listeners"][0]["sctp"], tries, "{status}");
    assert_eq!(status["allow"][0], "8080", "{status}");
    let url = format!("http://{}:8080/small", site.server());
    let done = site.through("curl", &["-sS", "-f", "-o", "/dev/null", &url]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(site.door_status(Host::Right)["counters"]["stack_relays_started"], 2);
}

#[test]
fn a_rule_closes_a_listener_and_opens_it_again() {
    let site = site();
    std::fs::write(site.dir.join("rules"), "local disable port 7000\n").expect("rules");
    let _server = Server::run(&site, &[], "threads", 7000);
    let status = site.door_status(Host::Right);
    assert_eq!(status["locals"].as_array().map(Vec::len), Some(0), "no port is open: {status}");
    let seen = client(&site, true, &site.server(), "7000");
    assert_eq!(seen.own, seen.accepted, "by plain TCP");
    let mut flush = site.command(Host::Right, MANYPATH);
    flush.args(["rules", "flush"]);
    let flushed = finish(flush);
    assert_eq!(flushed.code, Some(0), "{flushed:?}");
    client(&site, true, &site.server(), "7000");
    wait_for("the counts", || accepted(&site) == (1, 1));
}

#[test]
fn a_program_that_was_not_told_of_its_clients_gets_none() {
    let site = site();
    let _server = Server::run(&site, &[], "shared", 7000);
    client(&site, true, &site.server(), "7000");
    // It would take a peer for a local client, and half of the connections are its own.
    let outside = site.command(Host::Right, find("python3"));
    let outside = Server::spawn(outside, "shared", 7000);
    for _ in 0..4 {
        let seen = client(&site, true, &site.server(), "7000");
        assert_eq!(seen.own, seen.accepted, "by plain TCP");
    }
    let status = site.door_status(Host::Right);
    assert_eq!(status["counters"]["stack_dial_denied_not_covered"], 4, "{status}");
    drop(outside);
    client(&site, true, &site.server(), "7000");
    assert_eq!(accepted(&site).0, 2);
}

#[test]
fn listening_sockets_can_be_left_alone() {
    let site = site();
    let _server = Server::run(&site, &["--client-only"], "threads", 7000);
    let seen = client(&site, true, &site.server(), "7000");
    assert_eq!(seen.own, seen.accepted, "by plain TCP");
    assert_eq!(site.door_status(Host::Right), serde_json::Value::Null);
}

/// Another user's program has the port of the stack that would lead peers here.
#[test]
fn a_listening_socket_that_no_stack_offers_is_in_the_report() {
    let site = site();
    let program = "import socket,sys,time
taken = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
taken.bind(('::', 9899))
server = socket.create_server(('', 7000))
time.sleep(0.5)";
    let mut command = site.command(Host::Right, MANYPATH);
    command.args(["run", "--report", "--"]).arg(find("python3")).args(["-c", program]);
    let done = common::finish(command);
    assert!(done.stderr.contains("not offered: no-door=1"), "{done:?}");
}

/// Connects six times to a port and once to the next, and waits each time until it is served.
const KNOCK: &str = "import socket,sys
for port in [int(sys.argv[2])]*6+[int(sys.argv[2])+1]:
 with socket.create_connection((sys.argv[1],port),timeout=20) as s: assert s.recv(1)==b'k'
";

/// What a server gets to know by accept(), in words.
fn probe(site: &Site, launcher: Option<Command>, client_through: bool) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/accept_probe.py");
    let mut command = match launcher {
        Some(mut launcher) => {
            launcher.args(["run", "--"]).arg(find("python3"));
            launcher
        }
        None => site.command(Host::Right, find("python3")),
    };
    command.args([script, "7000"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = command.spawn().expect("the server starts");
    let mut output = BufReader::new(server.stdout.take().expect("its output"));
    let mut text = String::new();
    while !text.ends_with("up\n") {
        assert!(output.read_line(&mut text).expect("a line") > 0, "the server ended: {text}");
    }
    let args = ["-c", KNOCK, &site.server(), "7000"];
    let client = match client_through {
        true => site.through("python3", &args),
        false => site.direct("python3", &args),
    };
    assert_eq!(client.code, Some(0), "{client:?} {text}");
    output.read_to_string(&mut text).expect("the rest");
    let ended = server.wait().expect("the server ends");
    assert!(ended.success(), "{text}");
    text
}

#[test]
fn accept_does_the_same_as_without_manypath() {
    let site = site();
    let plain = probe(&site, None, false);
    assert_eq!(plain.lines().count(), 18, "{plain}");
    for client_through in [false, true] {
        let shimmed = probe(&site, Some(site.command(Host::Right, MANYPATH)), client_through);
        assert_eq!(shimmed, plain, "client through manypath: {client_through}");
        // Where the launcher may not copy the program's sockets.
        let contained =
            probe(&site, Some(handing_over(&site, Host::Right, &DOCKER)), client_through);
        assert_eq!(contained, plain, "client through manypath: {client_through}, in a container");
    }
}

#[test]
fn a_server_in_the_background_is_served_on() {
    let site = site();
    let mut command = site.command(Host::Right, MANYPATH);
    command.args(["run", "--", "sh", "-c"]);
    let python = find("python3").display().to_string();
    command.arg(format!("setsid {python} {SERVER} threads 7000 >/dev/null 2>&1 & echo $!"));
    let pid = finish(command).stdout.trim().to_owned();
    wait_for("the listener", || site.door_status(Host::Right)["listeners"][0]["offered"] == true);
    let clients = |through| client_told_by_its_own(&site, through, &site.server(), "7000").1;
    let tries = [false, true].map(clients);
    wait_for("the counts", || accepted(&site) == (tries[1], 1));
    kill(&pid);
    wait_for("the end of the stack that served it", || {
        site.door_status(Host::Right) == serde_json::Value::Null
    });
}
