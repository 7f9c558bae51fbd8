//! What a peer that keeps no rules can reach: it speaks the protocol directly.

use crate::common::peer::{Answer, Peer};
use crate::common::{Host, Launcher, Network, counter, echo, service, unused_port};
use manypath_daemon::{DEFAULT_UDP_PORT, StackConfig};
use manypath_flow::Refusal;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

const NOT_ALLOWED: Answer = Answer::Refused(Refusal::NotAllowed);

/// A service that nobody may ever reach.
struct Secret(TcpListener);

impl Secret {
    fn at(addr: IpAddr) -> Self {
        let listener = TcpListener::bind((addr, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn addr(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    fn assert_untouched(&self) {
        assert_eq!(self.0.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

fn start(network: Network, config: StackConfig) -> (Host, Launcher, SocketAddr) {
    let (server, launcher) = Host::with_launcher(config);
    (server, launcher, SocketAddr::new(network.server()[0], DEFAULT_UDP_PORT))
}

#[test]
fn a_service_on_localhost_is_out_of_reach_even_if_somebody_lists_it() {
    let network = Network::new();
    let secret = Secret::at(Ipv4Addr::LOCALHOST.into());
    let open = service(network.server()[0], echo);
    let (_server, launcher, remote) = start(network, network.server_config(&[open, secret.addr()]));
    let mut peer = Peer::client(network.client()[0]);
    let id = peer.establish(remote);
    assert_eq!(peer.open(id, secret.addr()).1, NOT_ALLOWED);
    let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
    assert_eq!(peer.open(id, SocketAddr::new(mapped, secret.addr().port())).1, NOT_ALLOWED);
    assert_eq!(peer.open(id, open).1, Answer::Opened);
    secret.assert_untouched();
    assert_eq!(counter(&launcher.status(), "stack_dial_denied_foreign_address"), 2);
}

#[test]
fn without_loopback_paths_no_loopback_address_is_ever_dialled() {
    let network = Network::new();
    let secret = Secret::at(network.server()[0]);
    let (_server, launcher, remote) = start(network, network.server_config(&[secret.addr()]));
    let mut peer = Peer::client(network.client()[0]);
    let id = peer.establish(remote);
    for addr in [IpAddr::V6(Ipv6Addr::LOCALHOST), Ipv4Addr::UNSPECIFIED.into()] {
        let destination = SocketAddr::new(addr, secret.addr().port());
        assert_eq!(peer.open(id, destination).1, NOT_ALLOWED);
    }
    secret.assert_untouched();
    let status = launcher.status();
    let denied = counter(&status, "stack_dial_denied_not_reachable")
        + counter(&status, "stack_dial_denied_foreign_address");
    assert_eq!(denied, 2);
}

#[test]
fn a_port_that_is_not_allowed_is_out_of_reach() {
    let network = Network::new();
    let secret = Secret::at(network.server()[0]);
    let open = service(network.server()[0], echo);
    let (_server, launcher, remote) = start(network, network.server_config(&[open]));
    let mut peer = Peer::client(network.client()[0]);
    let id = peer.establish(remote);
    assert_eq!(peer.open(id, secret.addr()).1, NOT_ALLOWED);
    assert_eq!(peer.open(id, open).1, Answer::Opened);
    secret.assert_untouched();
    assert_eq!(counter(&launcher.status(), "stack_dial_denied_not_listed"), 1);
}

#[test]
fn an_allowed_port_at_another_address_is_out_of_reach() {
    let network = Network::new();
    let [first, second] = network.server();
    let secret = Secret::at(second);
    let port = secret.addr().port();
    let (_server, _launcher, remote) =
        start(network, network.server_config(&[SocketAddr::new(first, port)]));
    let mut peer = Peer::client(network.client()[0]);
    let id = peer.establish(remote);
    assert_eq!(peer.open(id, secret.addr()).1, NOT_ALLOWED);
    secret.assert_untouched();
    // Allowed, and dialled exactly: nobody listens at that address.
    let refused = Answer::Refused(Refusal::Errno(libc::ECONNREFUSED as u16));
    assert_eq!(peer.open(id, SocketAddr::new(first, port)).1, refused);
}

#[test]
fn a_bare_port_never_opens_a_loopback_address() {
    let network = Network::new();
    let secret = Secret::at(network.server()[0]);
    let mut config = network.server_config(&[secret.addr()]);
    config.allow[0].addr = None;
    let (_server, _launcher, remote) = start(network, config);
    let mut peer = Peer::client(network.client()[0]);
    let id = peer.establish(remote);
    assert_eq!(peer.open(id, secret.addr()).1, NOT_ALLOWED);
    secret.assert_untouched();
}

#[test]
fn a_client_lets_nobody_in() {
    let network = Network::new();
    let secret = Secret::at(network.server()[0]);
    let config = StackConfig { accept: false, ..network.server_config(&[secret.addr()]) };
    let (_client, launcher, remote) = start(network, config);
    let mut peer = Peer::client(network.client()[0]);
    peer.connect(remote);
    peer.wait_closed();
    secret.assert_untouched();
    assert!(launcher.status().associations.is_empty());
}

#[test]
fn an_unused_but_allowed_port_tells_why_it_fails() {
    let network = Network::new();
    let closed = unused_port(network.server()[0]);
    let (_server, launcher, remote) = start(network, network.server_config(&[closed]));
    let mut peer = Peer::client(network.client()[0]);
    let id = peer.establish(remote);
    let refused = Answer::Refused(Refusal::Errno(libc::ECONNREFUSED as u16));
    assert_eq!(peer.open(id, closed).1, refused);
    assert_eq!(counter(&launcher.status(), "stack_dials_failed"), 1);
}

/// What a NAT in front of the server may have translated.
#[test]
fn naming_the_address_of_somebody_else_reaches_our_services_alone() {
    let network = Network::new();
    let secret = Secret::at(network.server()[0]);
    let open = service(network.server()[0], echo);
    let closed = unused_port(network.server()[0]);
    let (_server, launcher, remote) = start(network, network.server_config(&[open, closed]));
    let mut peer = Peer::client(network.client()[0]);
    let id = peer.establish(remote);
    let elsewhere = |service: SocketAddr| SocketAddr::from(([198, 51, 100, 7], service.port()));
    assert_eq!(peer.open(id, elsewhere(secret.addr())).1, NOT_ALLOWED);
    assert_eq!(peer.open(id, elsewhere(open)).1, Answer::Opened);
    // Its port may lead to another host behind the same NAT: plain TCP is to find out.
    assert_eq!(peer.open(id, elsewhere(closed)).1, Answer::Refused(Refusal::Busy));
    secret.assert_untouched();
    assert_eq!(counter(&launcher.status(), "stack_destinations_translated"), 3);
}

#[test]
fn an_address_of_another_family_than_the_paths_is_nobodys() {
    let network = Network::new();
    let open = service(network.server()[0], echo);
    let (_server, launcher, remote) = start(network, network.server_config(&[open]));
    let mut peer = Peer::client(network.client()[0]);
    let id = peer.establish(remote);
    let elsewhere = SocketAddr::new("2001:db8::7".parse().unwrap(), open.port());
    assert_eq!(peer.open(id, elsewhere).1, NOT_ALLOWED);
    assert_eq!(counter(&launcher.status(), "stack_dial_denied_foreign_address"), 1);
}
