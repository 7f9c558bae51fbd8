//! A launcher or a stack that is suspended between the peer's answer and the moment at which the program's connection is
//! handed over. The kernel carries TCP, so a program without manypath would notice nothing of it.

use crate::common::{Host, LIMIT, Network, VirtualHost, counter, echo, exchange, pattern, service};
use manypath_control::{Listener, Reply, Request, Role, Transport};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Virtual milliseconds: longer than anybody waits for a process of the same host.
const MINUTE: u64 = 60_000;
/// Of a turn while nothing is to happen.
const STRIDE: u64 = 20;

/// A client, and a server if there is one, in virtual time.
struct Hosts {
    client: VirtualHost,
    server: Option<VirtualHost>,
    now: u64,
    last: u64,
}

impl Hosts {
    fn new(network: Network, destination: SocketAddr) -> Self {
        let server = VirtualHost::new(network.server_config(&[destination]));
        Self { server: Some(server), ..Self::without_server(network) }
    }

    fn without_server(network: Network) -> Self {
        let client = VirtualHost::new(network.client_config());
        Self { client, server: None, now: 0, last: 0 }
    }

    /// A turn of both; what the client's stack says in it.
    fn turn(&mut self, stride: u64) -> Vec<Reply> {
        self.turn_server(stride);
        self.client.replies(self.now)
    }

    fn turn_server(&mut self, stride: u64) {
        self.now += stride;
        let now = self.now;
        self.server.iter_mut().for_each(|server| drop(server.replies(now)));
    }

    /// Connects as far as the stack goes: its launcher has not handed over anything yet.
    fn promised(&mut self, destination: SocketAddr) -> Transport {
        self.last += 1;
        self.client.open(self.last, destination);
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < LIMIT, "{:#?}", self.client.status());
            for reply in self.turn(1) {
                match reply {
                    Reply::Accepted { transport, .. } => return transport,
                    Reply::Pending { .. } => {}
                    other => panic!("not accepted: {other:?}"),
                }
            }
        }
    }

    /// Lets time pass in which the launcher does nothing; what the stack says meanwhile.
    fn suspend_launcher(&mut self, time: u64) -> Vec<Reply> {
        (0..time / STRIDE).flat_map(|_| self.turn(STRIDE)).collect()
    }

    /// The same if the stack says nothing.
    fn suspend_launcher_quietly(&mut self, time: u64) {
        let said = self.suspend_launcher(time);
        assert!(said.is_empty(), "{said:?}");
    }

    /// Lets time pass in which the client's stack does nothing.
    fn suspend_client(&mut self, time: u64) {
        (0..time / STRIDE).for_each(|_| self.turn_server(STRIDE));
    }

    /// What `program` comes to while both stacks are at work.
    fn run<T: Send>(&mut self, program: impl FnOnce() -> T + Send) -> T {
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let program = scope.spawn(program);
            while !program.is_finished() {
                assert!(begun.elapsed() < LIMIT, "{:#?}", self.client.status());
                self.turn(1);
                std::thread::sleep(Duration::from_millis(1));
            }
            program.join().unwrap()
        })
    }

    /// Whether everything arrives, in both directions.
    fn check(&mut self, stream: TcpStream) {
        let sent = pattern(200_000, self.last);
        let echoed = self.run(|| exchange(stream, sent.clone()));
        assert!(echoed == sent, "damaged");
        let status = self.client.status();
        assert_eq!(counter(&status, "stack_attaches_too_late"), 0);
    }
}

/// A service that says how its client's connection ends.
fn tell_end(tell: &mpsc::Sender<Result<usize, ErrorKind>>, mut stream: TcpStream) {
    let _ = tell.send(stream.read(&mut [0; 1]).map_err(|error| error.kind()));
}

#[test]
fn a_launcher_that_goes_on_after_a_minute_hands_its_connection_over() {
    for transport in [Transport::Sctp, Transport::TcpRelay] {
        let network = Network::new();
        let destination = service(network.server()[0], echo);
        let mut hosts = match transport {
            Transport::Sctp => Hosts::new(network, destination),
            Transport::TcpRelay => Hosts::without_server(network),
        };
        assert_eq!(hosts.promised(destination), transport);
        hosts.suspend_launcher_quietly(MINUTE);
        let stream = hosts.client.attach(hosts.last);
        hosts.check(stream);
    }
}

/// What the launcher and the program have done meanwhile waits for it.
#[test]
fn a_stack_that_goes_on_after_a_minute_takes_the_connection_that_waits_for_it() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let mut hosts = Hosts::new(network, destination);
    assert_eq!(hosts.promised(destination), Transport::Sctp);
    let mut stream = hosts.client.attach(hosts.last);
    stream.write_all(b"first").unwrap();
    hosts.suspend_client(MINUTE);
    let mut first = [0; 5];
    hosts.run(|| stream.read_exact(&mut first).unwrap());
    assert_eq!(&first, b"first");
    hosts.check(stream);
}

#[test]
fn what_a_service_says_and_ends_while_the_launcher_is_suspended_arrives() {
    let network = Network::new();
    let greet = |mut stream: TcpStream| {
        stream.write_all(b"welcome").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    };
    let destination = service(network.server()[0], greet);
    let mut hosts = Hosts::new(network, destination);
    assert_eq!(hosts.promised(destination), Transport::Sctp);
    hosts.suspend_launcher_quietly(MINUTE);
    let mut stream = hosts.client.attach(hosts.last);
    let mut said = Vec::new();
    hosts.run(|| stream.read_to_end(&mut said).unwrap());
    assert_eq!(said, b"welcome");
}

/// As one that is carried: for the 15 s of `unreachable_patience_s`.
#[test]
fn a_connection_that_waits_for_its_launcher_outlasts_reports_that_nobody_listens() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let mut hosts = Hosts::new(network, destination);
    assert_eq!(hosts.promised(destination), Transport::Sctp);
    hosts.suspend_launcher(2_000);
    hosts.server = None;
    hosts.suspend_launcher_quietly(10_000);
    let failed = Reply::Failed { id: hosts.last, errno: libc::ECONNRESET };
    assert_eq!(hosts.suspend_launcher(MINUTE), [failed]);
    assert_eq!(counter(&hosts.client.status(), "stack_peers_gone"), 1);
}

#[test]
fn a_connection_whose_socket_is_lost_on_the_way_ends_at_both_ends() {
    let network = Network::new();
    let (tell, told) = mpsc::channel();
    let destination = service(network.server()[0], move |stream| tell_end(&tell, stream));
    let mut hosts = Hosts::new(network, destination);
    assert_eq!(hosts.promised(destination), Transport::Sctp);
    hosts.client.attach_nothing(hosts.last);
    assert_eq!(hosts.suspend_launcher(1_000), [Reply::Closed { id: hosts.last }]);
    let end = hosts.run(move || told.recv_timeout(LIMIT));
    assert_eq!(end, Ok(Err(ErrorKind::ConnectionReset)));
    let status = hosts.client.status();
    assert_eq!(counter(&status, "stack_attaches_without_socket"), 1);
    assert_eq!(status.associations[0].flows.len(), 0);
}

#[test]
fn a_connection_that_waits_for_its_launcher_ends_with_it() {
    let network = Network::new();
    let (tell, told) = mpsc::channel();
    let destination = service(network.server()[0], move |stream| tell_end(&tell, stream));
    let _server = Host::start(network.server_config(&[destination]));
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let (id, _pending) = launcher.open(destination, true);
    assert!(matches!(launcher.answer(id), Reply::Accepted { .. }));
    drop(launcher);
    assert_eq!(told.recv_timeout(LIMIT), Ok(Err(ErrorKind::ConnectionReset)));
}

/// A server's stack leads a peer to a program as soon as whoever names clients has noted who comes. That has been said
/// when the stack goes on, so it is not late.
#[test]
fn a_stack_that_goes_on_after_a_minute_leads_a_peer_on_whose_name_was_noted_meanwhile() {
    let network = Network::new();
    let listener = TcpListener::bind((network.server()[0], 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let inode = File::from(OwnedFd::from(listener.try_clone().unwrap())).metadata().unwrap().ino();
    let mut server = VirtualHost::with_role(network.server_config(&[]), Role::Redirector);
    let listener = Listener { addr: to, v6_only: false, inode, program: "test".to_owned() };
    server.send(&Request::Listen { id: 1, listener });
    assert_eq!(server.replies(0), [Reply::Offered { id: 1 }]);
    let mut client = VirtualHost::new(network.client_config());
    client.open(1, to);
    let mut said = Vec::new();
    let arriving = |reply: Reply| match reply {
        Reply::Arriving { from, .. } => Some(from),
        _ => None,
    };
    let (now, from) = (1..300)
        .find_map(|now| {
            said.extend(client.replies(now));
            server.replies(now).into_iter().find_map(arriving).map(|from| (now, from))
        })
        .unwrap();
    server.send(&Request::Noted { from, to });
    for later in 0..10 {
        server.replies(now + MINUTE + later);
        said.extend(client.replies(now + 1 + later));
    }
    let is_carried = |reply: &Reply| matches!(reply, Reply::Accepted { transport, .. } if *transport == Transport::Sctp);
    assert!(said.iter().any(is_carried), "{said:?}");
}
