//! Listeners that launchers announce, and a peer that keeps no rules.

use crate::common::peer::{Answer, Peer};
use crate::common::{Host, Launcher, Network, counter};
use manypath_control::{Listener, Reply, Request};
use manypath_daemon::{DEFAULT_UDP_PORT, Locals, StackConfig};
use manypath_flow::Refusal;
use manypath_rules::RulesFile;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

const NOT_ALLOWED: Answer = Answer::Refused(Refusal::NotAllowed);

struct Site {
    network: Network,
    _server: Host,
    launcher: Launcher,
    remote: SocketAddr,
}

impl Site {
    fn new(change: impl FnOnce(&mut StackConfig)) -> Self {
        let network = Network::new();
        let mut config = network.server_config(&[]);
        change(&mut config);
        let (server, launcher) = Host::with_launcher(config);
        let remote = SocketAddr::new(network.server()[0], DEFAULT_UDP_PORT);
        Self { network, _server: server, launcher, remote }
    }

    fn listener(&self) -> TcpListener {
        TcpListener::bind((self.network.server()[0], 0)).unwrap()
    }

    /// Says that a socket listens, and returns the stack's word.
    fn announce(&self, id: u64, listener: &TcpListener) -> Reply {
        let addr = listener.local_addr().unwrap();
        let copy = OwnedFd::from(listener.try_clone().unwrap());
        let inode = File::from(copy).metadata().unwrap().ino();
        let listener = Listener { addr, v6_only: false, inode, program: "test".to_owned() };
        self.launcher.send(&Request::Listen { id, listener });
        self.launcher.receive()
    }

    fn peer(&self) -> (Peer, manypath_engine::AssociationId) {
        let mut peer = Peer::client(self.network.client()[0]);
        let id = peer.establish(self.remote);
        (peer, id)
    }
}

#[test]
fn a_client_is_told_by_its_verified_address_before_it_comes() {
    let site = Site::new(|_| {});
    let listener = site.listener();
    assert_eq!(site.announce(7, &listener), Reply::Offered { id: 7 });
    let service = listener.local_addr().unwrap();
    let (mut peer, id) = site.peer();
    // The peer says that it is 192.0.2.7, port 1234.
    assert_eq!(peer.open(id, service).1, Answer::Opened);
    let Reply::Arriving { from, to, client } = site.launcher.receive() else { unreachable!() };
    assert_eq!(client, SocketAddr::new(site.network.client()[0], 1234));
    assert_eq!(to, service);
    let (_accepted, seen) = listener.accept().unwrap();
    assert_eq!(seen, from, "who comes is who was told of");
    assert_eq!(seen.ip(), service.ip(), "at the address that the peer used");
    peer.abort(id);
    assert_eq!(site.launcher.receive(), Reply::Left { from, to });
}

#[test]
fn a_listener_that_was_closed_is_refused_and_forgotten() {
    let site = Site::new(|_| {});
    let listener = site.listener();
    site.announce(1, &listener);
    let service = listener.local_addr().unwrap();
    drop(listener);
    let (mut peer, id) = site.peer();
    let refused = Answer::Refused(Refusal::Errno(libc::ECONNREFUSED as u16));
    assert_eq!(peer.open(id, service).1, refused);
    assert_eq!(site.launcher.receive(), Reply::Gone { id: 1 });
    assert_eq!(peer.open(id, service).1, NOT_ALLOWED);
}

#[test]
fn a_port_that_another_program_has_taken_over_is_out_of_reach() {
    let site = Site::new(|_| {});
    let listener = site.listener();
    site.announce(1, &listener);
    let service = listener.local_addr().unwrap();
    drop(listener);
    let other = TcpListener::bind(service).unwrap();
    other.set_nonblocking(true).unwrap();
    let (mut peer, id) = site.peer();
    assert_eq!(peer.open(id, service).1, NOT_ALLOWED);
    assert!(other.accept().is_err());
    assert_eq!(counter(&site.launcher.status(), "stack_dial_denied_not_covered"), 1);
}

#[test]
fn a_listener_that_its_launcher_cannot_vouch_for_any_more_is_out_of_reach() {
    let site = Site::new(|_| {});
    let listener = site.listener();
    site.announce(1, &listener);
    site.launcher.send(&Request::Withdraw { id: 1 });
    let (mut peer, id) = site.peer();
    assert_eq!(peer.open(id, listener.local_addr().unwrap()).1, NOT_ALLOWED);
    assert_eq!(counter(&site.launcher.status(), "stack_listeners_withdrawn"), 1);
}

#[test]
fn a_rule_closes_a_listener_at_one_address() {
    let site = Site::new(|config| {
        let Locals::List(locals) = &config.locals else { unreachable!() };
        let addr = locals[0];
        let name = format!("manypath-rules-{}-{}", std::process::id(), addr);
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, format!("local disable host {addr}\n")).unwrap();
        config.rules = Some(RulesFile::named(path));
    });
    let listener = site.listener();
    let reply = site.announce(1, &listener);
    assert!(matches!(reply, Reply::NotOffered { id: 1, retry: false, .. }), "{reply:?}");
    let (mut peer, id) = site.peer();
    assert_eq!(peer.open(id, listener.local_addr().unwrap()).1, NOT_ALLOWED);
}

#[test]
fn a_stack_that_accepts_nobody_says_so() {
    let site = Site::new(|config| {
        config.accept = false;
        config.udp_port = 0;
    });
    let listener = site.listener();
    let reply = site.announce(1, &listener);
    assert!(matches!(reply, Reply::NotOffered { id: 1, retry: true, .. }), "{reply:?}");
}
