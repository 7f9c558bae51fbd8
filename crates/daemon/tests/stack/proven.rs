//! What a peer only says of its addresses and ours counts for nothing.

use crate::common::peer::{Answer, Peer};
use crate::common::{Host, Launcher, Network, Table, counter, echo, service};
use manypath_control::status::{FallbackReason, StackStatus};
use manypath_control::{Listener, Reply, Request};
use manypath_daemon::{DEFAULT_UDP_PORT, StackConfig};
use manypath_engine::Config;
use manypath_flow::{ADAPTATION, Refusal, SCTP_PORT};
use manypath_net::UdpPort;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc;

const BUSY: Answer = Answer::Refused(Refusal::Busy);

fn door(network: Network) -> SocketAddr {
    SocketAddr::new(network.server()[0], DEFAULT_UDP_PORT)
}

/// A program of the host listens at one of its addresses, and peers may come to it.
fn announce(launcher: &Launcher, addr: IpAddr) -> TcpListener {
    let listener = TcpListener::bind((addr, 0)).unwrap();
    let inode = File::from(OwnedFd::from(listener.try_clone().unwrap())).metadata().unwrap().ino();
    let (addr, program) = (listener.local_addr().unwrap(), "test".to_owned());
    let said = Listener { addr, v6_only: false, inode, program };
    launcher.send(&Request::Listen { id: 1, listener: said });
    assert_eq!(launcher.receive(), Reply::Offered { id: 1 });
    listener
}

/// Takes the word of a client that is to come: its address.
fn client_told(launcher: &Launcher) -> SocketAddr {
    match launcher.receive() {
        Reply::Arriving { client, .. } => client,
        other => panic!("nobody arrives: {other:?}"),
    }
}

fn states(status: &StackStatus) -> Vec<&str> {
    let paths = status.associations.iter().flat_map(|one| &one.paths);
    paths.map(|path| path.state.as_str()).collect()
}

fn state_towards(status: &StackStatus, remote: IpAddr) -> String {
    let mut paths = status.associations.iter().flat_map(|one| &one.paths);
    let path = paths.find(|path| path.remote.ip() == remote);
    path.map_or_else(String::new, |path| path.state.clone())
}

#[test]
fn a_client_at_an_address_that_it_only_lists_is_not_told_by_it() {
    let network = Network::new();
    let ([own, victim], [_, second]) = (network.client(), network.server());
    let (say, heard) = mpsc::channel();
    let open = service(second, move |mut stream: TcpStream| {
        let mut line = [0; 256];
        let length = stream.read(&mut line).unwrap();
        say.send(String::from_utf8_lossy(&line[..length]).into_owned()).unwrap();
    });
    // The rule names the address: no path to it need be confirmed.
    let rule = format!("local enable host {} port {} proxy=on\n", open.ip(), open.port());
    let table = Table::new(network, &rule);
    let config = StackConfig { rules: table.file(), ..network.server_config(&[]) };
    let (_server, launcher) = Host::with_launcher(config);
    let mut peer = Peer::liar(own, victim);
    let id = peer.establish(door(network));
    assert_eq!(peer.open(id, open).1, Answer::Opened);
    let line = heard.recv_timeout(crate::common::LIMIT).unwrap();
    assert_eq!(line, format!("PROXY TCP4 {own} {second} 1234 {}\r\n", open.port()));
    let status = launcher.status();
    assert_eq!(state_towards(&status, victim), "unconfirmed", "{status:#?}");
}

#[test]
fn an_address_of_ours_that_the_peer_has_not_reached_is_out_of_its_reach() {
    let network = Network::new();
    let ([own, victim], [first, second]) = (network.client(), network.server());
    let (_server, launcher) = Host::with_launcher(network.server_config(&[]));
    let inner = announce(&launcher, second);
    let mut peer = Peer::liar(own, victim);
    let id = peer.establish(door(network));
    let inner_at = inner.local_addr().unwrap();
    assert_eq!(peer.open(id, inner_at).1, BUSY, "plain TCP may reach it, and is to be asked again");
    // By a name that a NAT could have translated.
    let elsewhere = SocketAddr::from(([198, 51, 100, 7], inner_at.port()));
    assert_ne!(peer.open(id, elsewhere).1, Answer::Opened);
    inner.set_nonblocking(true).unwrap();
    assert!(inner.accept().is_err(), "nobody has come");
    let status = launcher.status();
    assert_eq!(counter(&status, "stack_dial_denied_unconfirmed_address"), 1);
    let outer = announce(&launcher, first);
    assert_eq!(peer.open(id, outer.local_addr().unwrap()).1, Answer::Opened);
}

/// Both ends probe the second path while the first flow is on its way.
#[test]
fn the_first_flow_may_name_an_address_that_is_confirmed_a_moment_later() {
    let network = Network::new();
    let (_server, launcher) = Host::with_launcher(network.server_config(&[]));
    let listener = announce(&launcher, network.server()[1]);
    for _ in 0..10 {
        let mut peer = Peer::client_at(&network.client());
        let id = peer.establish(door(network));
        assert_eq!(peer.open(id, listener.local_addr().unwrap()).1, Answer::Opened);
        peer.abort(id);
    }
}

/// Another host may have it by now.
#[test]
fn a_client_is_not_told_by_an_address_that_does_not_answer_any_more() {
    let network = Network::new();
    let [first, second] = network.client();
    let (_server, launcher) = Host::with_launcher(network.server_config(&[]));
    let listener = announce(&launcher, network.server()[0]);
    let service = listener.local_addr().unwrap();
    let mut peer = Peer::client_at(&network.client());
    let id = peer.establish(door(network));
    peer.turn_until("both paths", || states(&launcher.status()) == ["active"; 2]);
    let said = SocketAddr::new(first, 1234);
    assert_eq!(peer.open_from(id, service, said), Answer::Opened);
    assert_eq!(client_told(&launcher), said);
    let (mut accepted, _) = listener.accept().unwrap();
    peer.leave(0, first);
    peer.turn_until("the silence", || {
        accepted.write_all(&[0; 100]).unwrap();
        state_towards(&launcher.status(), first) != "active"
    });
    assert_eq!(peer.open_from(id, service, said), Answer::Opened);
    assert_eq!(client_told(&launcher), SocketAddr::new(second, 1234));
}

#[test]
fn connections_to_an_address_that_has_failed_are_not_given_to_who_had_it() {
    let network = Network::new();
    let [first, second] = network.server();
    let (port, adaptation) = (SCTP_PORT, Some(ADAPTATION));
    let config = Config { port, accept: true, adaptation, ..Config::default() };
    let mut peer = Peer::at(&[first, second], UdpPort::Fixed(DEFAULT_UDP_PORT), config, 7);
    let mut client = network.client_config();
    client.limits.path_rtx_max = 1;
    let (_client, mut launcher) = Host::with_launcher(client);
    // It is not answered: the client asks on every path whether the peer is there.
    let (id, reply) = launcher.open(SocketAddr::new(first, 8080), true);
    assert_eq!(reply, Reply::Pending { id });
    peer.turn_until("both paths", || states(&launcher.status()) == ["active"; 2]);
    peer.leave(1, second);
    let failed = || state_towards(&launcher.status(), second) == "inactive";
    peer.turn_until("the failure", failed);
    let asked = std::thread::spawn(move || launcher.direct(SocketAddr::new(second, 8080)).0);
    peer.turn_until("an answer", || asked.is_finished());
    assert_eq!(asked.join().unwrap(), FallbackReason::Refused, "nobody is there");
}

#[test]
fn a_service_that_rules_open_is_dialled_for_who_is_known_alone() {
    let network = Network::new();
    let open = service(network.server()[0], echo);
    let (_server, launcher) = Host::with_launcher(network.server_config(&[open]));
    let mut peer = Peer::client(network.client()[0]);
    let id = peer.establish(door(network));
    assert_eq!(peer.open(id, open).1, Answer::Opened);
    let status = launcher.status();
    let flow = &status.associations[0].flows[0];
    let client = SocketAddr::new(network.client()[0], 1234);
    assert_eq!(flow.client, Some(client), "{flow:?}");
}
