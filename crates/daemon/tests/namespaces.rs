//! What a peer can reach on a host with real addresses: two network namespaces and a cable.
//!
//! The peer is made by hand and keeps no rules. The host has four services: one that is allowed,
//! one that is allowed but listens at 127.0.0.1 only, one that is not allowed, and one that is
//! allowed but listens at an address of another network only. A user to whom the
//! system gives no namespaces is told so, and the test is left out; root needs no user namespace.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test that meets the unexpected has failed"
)]

mod common;

use common::peer::{Answer, Peer};
use manypath_daemon::{Allow, DEFAULT_UDP_PORT, Level, Stack, StackConfig};
use manypath_engine::{AssociationId, Event};
use manypath_flow::Refusal;
use manypath_rules::Protocol;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// The host has it, too, but the client has no way there.
const INNER: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 2);
const CLIENT_LATER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const LATER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("--server") => server(),
        Some("--client") => client(),
        _ => start(),
    }
}

/// Goes on in a network namespace of its own, which vanishes with the process.
fn start() {
    // SAFETY: no pointers
    let is_root = unsafe { libc::geteuid() } == 0;
    let apart: &[&str] = if is_root { &["--net"] } else { &["--user", "--map-root-user", "--net"] };
    if let Err(why) = run("unshare", &[apart, &["ip", "link"]].concat()) {
        assert!(!is_root, "no network namespace, or no ip command: {why}");
        println!("SKIPPED: no network namespace, or no ip command: {why}");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let status = Command::new("unshare")
        .args(apart)
        .arg("--")
        .arg(program)
        .arg("--client")
        .status()
        .unwrap();
    assert!(status.success());
    println!("ok: only_what_is_allowed_can_be_reached");
    println!("ok: an_address_that_comes_later_is_used");
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(text) }
}

fn ip(arguments: &str) {
    run("ip", &arguments.split(' ').collect::<Vec<_>>()).expect(arguments);
}

/// The host under test, in the second namespace. It is told when its cable is plugged in, tells its
/// ports, and is told when it is all over.
fn server() {
    let mut lines = std::io::stdin().lines();
    assert_eq!(lines.next().unwrap().unwrap(), "plugged");
    ip("link set lo up");
    ip(&format!("addr add {SERVER}/24 dev vb"));
    ip(&format!("addr add {INNER}/24 dev vb"));
    ip("link set vb up");
    wait_for_link();
    let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
    let [open, local, hidden, inner] = [any, Ipv4Addr::LOCALHOST.into(), any, INNER.into()]
        .map(|addr| TcpListener::bind((addr, 0)).unwrap());
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let allow = [&open, &local, &inner].map(|listener| Allow {
        addr: None,
        port: port(listener),
        protocol: Protocol::Tcp,
    });
    let mut config = StackConfig::server(allow.to_vec());
    config.process.handle_signals = false;
    config.log = Level::Silent.into();
    let stack = Stack::new(config).unwrap();
    let stopper = stack.stopper();
    let thread = std::thread::spawn(move || stack.run().unwrap());
    println!("{} {} {} {}", port(&open), port(&local), port(&hidden), port(&inner));
    assert_eq!(lines.next().unwrap().unwrap(), "add an address");
    ip(&format!("addr add {LATER}/24 dev vb"));
    assert_eq!(lines.next().unwrap().unwrap(), "over");
    stopper.stop().unwrap();
    thread.join().unwrap();
    assert!(is_touched(&open), "the allowed service was dialled");
    let others = [local, hidden, inner];
    assert!(!others.iter().any(is_touched), "nothing else was");
}

/// The kernel takes a moment to notice that both ends of the cable are plugged.
fn wait_for_link() {
    let begun = std::time::Instant::now();
    while !manypath_net::interfaces().unwrap().iter().any(|one| one.addr == SERVER && one.up) {
        assert!(begun.elapsed() < common::LIMIT, "no link");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn is_touched(listener: &TcpListener) -> bool {
    listener.set_nonblocking(true).unwrap();
    match listener.accept() {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            false
        }
    }
}

/// The server's process and its standard input and output.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start() -> Self {
        let mut child = Command::new("unshare")
            .arg("--net")
            .arg("--")
            .arg(std::env::current_exe().unwrap())
            .arg("--server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn ports(&mut self) -> [u16; 4] {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let ports: Vec<u16> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        ports.try_into().unwrap()
    }
}

/// The cable's other end must be put into the server's namespace, which exists only once `unshare`
/// has become the server.
fn plug(server: &Server) {
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    let theirs = format!("/proc/{}/ns/net", server.child.id());
    let begun = std::time::Instant::now();
    while std::fs::read_link(&theirs).unwrap() == own {
        assert!(begun.elapsed() < common::LIMIT, "the server gets no namespace");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    ip(&format!("link add va type veth peer name vb netns {}", server.child.id()));
    ip(&format!("addr add {CLIENT}/24 dev va"));
    ip("link set va up");
}

/// An association with the server's second address, which it has to notice first.
fn establish_when_possible() -> (Peer, AssociationId) {
    let begun = std::time::Instant::now();
    loop {
        let mut peer = Peer::client(CLIENT_LATER.into());
        let id = peer.connect(SocketAddr::from((LATER, DEFAULT_UDP_PORT)));
        let decided = |peer: &Peer| peer.seen.first().map(|(_, event)| event.clone());
        if let Event::Connected { .. } = peer.run_until("an answer", decided) {
            return (peer, id);
        }
        assert!(begun.elapsed() < common::LIMIT, "the address is not used");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

fn client() {
    let mut server = Server::start();
    plug(&server);
    server.tell("plugged");
    let [open, local, hidden, inner] = server.ports();
    let mut peer = Peer::client(CLIENT.into());
    let id = peer.establish(SocketAddr::from((SERVER, DEFAULT_UDP_PORT)));
    let mut ask = |addr: IpAddr, port: u16| peer.open(id, SocketAddr::new(addr, port)).1;

    let denied = Answer::Refused(Refusal::NotAllowed);
    let localhost = IpAddr::from(Ipv4Addr::LOCALHOST);
    let mapped = IpAddr::from(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
    let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
    for addr in [localhost, mapped, any] {
        for port in [open, local] {
            assert_eq!(ask(addr, port), denied, "{addr} {port}");
        }
    }
    // Only the address that the association uses is ever dialled, where nobody listens at the second
    // port. A foreign address may be a NAT's for ours, and reaches what ours does; where that is nothing,
    // plain TCP finds who was meant.
    let nobody = Answer::Refused(Refusal::Errno(libc::ECONNREFUSED as u16));
    let elsewhere = Answer::Refused(Refusal::Busy);
    let foreign = IpAddr::from([10, 77, 0, 9]);
    assert_eq!(ask(INNER.into(), inner), elsewhere, "no path has led there");
    let named = [(SERVER.into(), nobody), (foreign, elsewhere), (IpAddr::from(CLIENT), elsewhere)];
    for (addr, refused) in named {
        assert_eq!(ask(addr, hidden), denied, "{addr}");
        assert_eq!(ask(addr, local), refused, "{addr}");
        assert_eq!(ask(addr, inner), refused, "{addr}");
        assert_eq!(ask(addr, open), Answer::Opened, "{addr}");
    }

    server.tell("add an address");
    ip(&format!("addr add {CLIENT_LATER}/24 dev va"));
    let (mut peer, id) = establish_when_possible();
    assert_eq!(peer.open(id, SocketAddr::from((LATER, open))).1, Answer::Opened);

    server.tell("over");
    assert!(server.child.wait().unwrap().success());
}
