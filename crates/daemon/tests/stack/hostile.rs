//! Peers that send rubbish, or speak something else.

use crate::common::peer::Peer;
use crate::common::{Host, Network, counter, echo, exchange, pattern, service};
use manypath_control::status::FallbackReason;
use manypath_control::{Reply, Request};
use manypath_daemon::DEFAULT_UDP_PORT;
use manypath_engine::Config;
use manypath_flow::{ADAPTATION, SCTP_PORT};
use manypath_net::UdpPort;
use std::net::{SocketAddr, UdpSocket};

#[test]
fn a_caller_that_reads_late_is_told_everything() {
    const QUESTIONS: u64 = 3000;
    let network = Network::new();
    let (_client, launcher) = Host::with_launcher(network.client_config());
    // More answers than its socket takes, none of which is read before all questions are asked.
    (1..=QUESTIONS).for_each(|id| launcher.send(&Request::Way { id }));
    for id in 1..=QUESTIONS {
        assert_eq!(launcher.receive(), Reply::Way { id, way: None });
    }
}

#[test]
fn garbage_on_the_udp_port_is_counted_and_harmless() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let (_server, server) = Host::with_launcher(network.server_config(&[destination]));
    let socket = UdpSocket::bind((network.client()[0], 0)).unwrap();
    let remote = (network.server()[0], DEFAULT_UDP_PORT);
    for length in 0..200 {
        socket.send_to(&pattern(length * 7, length as u64 + 1), remote).unwrap();
    }
    let status = server.wait_for("counted garbage", |status| {
        let names = ["sctp_malformed_packets", "sctp_bad_checksum", "sctp_out_of_the_blue"];
        names.iter().map(|name| counter(status, name)).sum::<u64>() > 150
    });
    assert!(status.associations.is_empty());
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let stream = launcher.connect_sctp(destination);
    assert_eq!(exchange(stream, vec![8; 100]), vec![8; 100]);
}

#[test]
fn a_peer_that_breaks_the_flow_protocol_loses_its_association_only() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let (_server, server) = Host::with_launcher(network.server_config(&[destination]));
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let stream = launcher.connect_sctp(destination);
    let mut peer = Peer::client(network.client()[1]);
    let id = peer.establish(SocketAddr::new(network.server()[1], DEFAULT_UDP_PORT));
    peer.send_raw(id, 0x6d50_0100, &[0xff; 3]);
    peer.wait_closed();
    assert_eq!(counter(&server.status(), "stack_flow_protocol_errors"), 1);
    assert_eq!(exchange(stream, vec![8; 100]), vec![8; 100]);
}

#[test]
fn a_client_that_does_not_carry_flows_is_sent_away() {
    let network = Network::new();
    let (_server, server) = Host::with_launcher(network.server_config(&[]));
    let config = Config { port: 40_000, ..Config::default() };
    let mut peer = Peer::new(network.client()[0], UdpPort::Ephemeral, config);
    peer.connect(SocketAddr::new(network.server()[0], DEFAULT_UDP_PORT));
    peer.wait_closed();
    let status = server.wait_for("its end", |status| status.associations.is_empty());
    assert_eq!(counter(&status, "stack_associations_without_flows_aborted"), 1);
}

/// A server that answers SCTP and announces `adaptation`.
fn foreign_server(network: Network, adaptation: Option<u32>) -> Peer {
    let config = Config { port: SCTP_PORT, accept: true, adaptation, ..Config::default() };
    Peer::new(network.server()[0], UdpPort::Fixed(DEFAULT_UDP_PORT), config)
}

#[test]
fn a_server_that_does_not_carry_flows_means_plain_tcp_at_once() {
    for adaptation in [None, Some(ADAPTATION + 1)] {
        let network = Network::new();
        let mut peer = foreign_server(network, adaptation);
        let (_client, mut launcher) = Host::with_launcher(network.client_config());
        let destination = SocketAddr::new(network.server()[0], 8080);
        let thread = std::thread::spawn(move || (launcher.direct(destination), launcher));
        peer.run_until("the client's decision", |_| thread.is_finished().then_some(()));
        let ((reason, _), launcher) = thread.join().unwrap();
        assert_eq!(reason, FallbackReason::NotManypath);
        assert_eq!(launcher.status().peers[0].reason, FallbackReason::NotManypath);
        assert!(peer.seen.is_empty(), "nothing was established: {:?}", peer.seen);
    }
}

#[test]
fn a_flood_of_opens_that_are_given_up_at_once_leaves_nothing_behind() {
    const ROUNDS: usize = 200;
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let (_server, server) = Host::with_launcher(network.server_config(&[destination]));
    let mut peer = Peer::client(network.client()[1]);
    let id = peer.establish(SocketAddr::new(network.server()[1], DEFAULT_UDP_PORT));
    let source = SocketAddr::from(([192, 0, 2, 7], 1234));
    let mut opened = 0;
    for _ in 0..ROUNDS {
        let flows: Vec<_> =
            std::iter::from_fn(|| peer.mux.open(destination, source).ok()).take(64).collect();
        opened += flows.len();
        peer.send_all(id);
        flows.into_iter().for_each(|flow| peer.mux.reset(flow));
        peer.serve(id);
    }
    println!("{opened} flows");
    assert!(opened >= 2 * ROUNDS, "streams come free again: {opened}");
    let begun = std::time::Instant::now();
    loop {
        peer.serve(id);
        let status = server.status();
        let flows: usize = status.associations.iter().map(|one| one.flows.len()).sum();
        if flows == 0 && peer.mux.is_drained() {
            break;
        }
        assert!(begun.elapsed() < crate::common::LIMIT, "{flows} flows are left");
    }
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let stream = launcher.connect_sctp(destination);
    assert_eq!(exchange(stream, vec![8; 100]), vec![8; 100]);
    // Those of other tests count, too: each flow that is left would have one.
    assert!(descriptors < opened / 2, "{descriptors} descriptors are open, {opened} flows were");
}
