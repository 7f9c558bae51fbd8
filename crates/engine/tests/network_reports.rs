//! What the network and the local system report: unreachable destinations, sockets that are full.

use bytes::Bytes;
use manypath_engine::{
    AssociationId, CloseReason, Config, Endpoint, Event, Instant, LocalAddress, Outgoing,
    PacketBatch, PathAddr, Ppid, StreamId, Transmit,
};
use std::net::SocketAddr;

const NOW: Instant = Instant::ZERO;

fn address(host: u8, path: u8) -> SocketAddr {
    SocketAddr::from(([10, path, 0, host], 9899))
}

/// The way from A to Z on a path.
fn path(path: u8) -> PathAddr {
    PathAddr { local: address(1, path), remote: address(2, path) }
}

fn endpoint(host: u8, paths: u8) -> Endpoint {
    endpoint_at(host, 7, paths)
}

fn endpoint_at(host: u8, port: u16, paths: u8) -> Endpoint {
    let config = Config { port, accept: host == 2, ..Config::default() };
    let mut endpoint = Endpoint::new(config, [host; 32]);
    for path in 0..paths {
        let addr = address(host, path);
        endpoint.add_local_address(LocalAddress { addr, prefix_len: 24, interface: 0, mtu: 1500 });
    }
    endpoint
}

fn poll(endpoint: &mut Endpoint) -> Option<(Transmit, Vec<u8>)> {
    let mut batch = PacketBatch::new(8);
    let transmit = endpoint.poll_transmit(NOW, &mut batch)?;
    Some((transmit, batch.bytes().to_vec()))
}

/// Carries everything that `from` sends to `to`, and returns where it went.
fn carry(from: &mut Endpoint, to: &mut Endpoint) -> Vec<PathAddr> {
    let mut paths = Vec::new();
    while let Some((transmit, bytes)) = poll(from) {
        let arrival = PathAddr { local: transmit.path.remote, remote: transmit.path.local };
        for packet in bytes.chunks(transmit.segment_size) {
            to.handle_packet(NOW, arrival, packet);
        }
        paths.push(transmit.path);
    }
    paths
}

fn exchange(a: &mut Endpoint, z: &mut Endpoint) {
    while carry(a, z).len() + carry(z, a).len() > 0 {}
}

fn connected(paths: u8) -> (Endpoint, Endpoint, AssociationId) {
    let (mut a, mut z) = (endpoint(1, paths), endpoint(2, paths));
    let id = a.connect(NOW, address(2, 0), 7).expect("a local address");
    exchange(&mut a, &mut z);
    (a, z, id)
}

fn closed(endpoint: &mut Endpoint) -> Option<CloseReason> {
    std::iter::from_fn(|| endpoint.poll_event()).find_map(|(_, event)| match event {
        Event::Closed(reason) => Some(reason),
        Event::Connected { .. }
        | Event::Readable
        | Event::Writable
        | Event::PathChanged { .. }
        | Event::Restarted
        | Event::SendFailed { .. }
        | Event::PartialDeliveryAborted(_)
        | Event::Undelivered { .. }
        | Event::PeerError { .. }
        | Event::StreamsReset { .. }
        | Event::AssociationReset { .. }
        | Event::StreamsAdded { .. }
        | Event::Authentication { .. }
        | Event::KeysWanted
        | Event::RekeyDue
        | Event::PeerDoubted
        | Event::SenderDry
        | Event::LocalAddress { .. }
        | Event::PathPolicy { .. }
        | Event::PeerAddress { .. }
        | Event::PeerShutdown => None,
    })
}

#[test]
fn icmp_that_quotes_our_init_ends_the_attempt() {
    let mut a = endpoint(1, 1);
    a.connect(NOW, address(2, 0), 7).unwrap();
    let (transmit, init) = poll(&mut a).unwrap();
    assert!(a.handle_icmp_unreachable(NOW, transmit.path, &init[..20]));
    assert_eq!(closed(&mut a), Some(CloseReason::Unreachable));
    assert_eq!(a.counters().unproven_reports, 0);
}

#[test]
fn a_host_without_sctp_ends_the_association_but_not_by_a_late_report_about_the_init() {
    let (mut a, _, id) = connected(1);
    a.shutdown(NOW, id);
    let (_, shutdown) = poll(&mut a).expect("a SHUTDOWN");
    let mut foreign = shutdown.clone();
    foreign[4] ^= 1;
    assert!(!a.handle_icmp_no_protocol(NOW, &foreign[..8]));
    assert!(a.handle_icmp_no_protocol(NOW, &shutdown[..8]));
    assert!(a.associations().is_empty());
    let (mut a, mut z) = (endpoint(1, 1), endpoint(2, 1));
    a.connect(NOW, address(2, 0), 7).expect("a local address");
    let (transmit, init) = poll(&mut a).expect("an INIT");
    let arrival = PathAddr { local: transmit.path.remote, remote: transmit.path.local };
    z.handle_packet(NOW, arrival, &init);
    exchange(&mut a, &mut z);
    assert!(a.handle_icmp_no_protocol(NOW, &init[..20]));
    assert_eq!(a.associations().len(), 1);
    let mut b = endpoint(1, 1);
    b.connect(NOW, address(2, 0), 7).expect("a local address");
    let (_, init) = poll(&mut b).expect("an INIT");
    assert!(b.handle_icmp_no_protocol(NOW, &init[..20]));
    assert!(b.associations().is_empty());
    assert_eq!(closed(&mut b), Some(CloseReason::Unreachable));
}

#[test]
fn icmp_that_proves_nothing_is_counted_and_ignored() {
    let mut a = endpoint(1, 1);
    a.connect(NOW, address(2, 0), 7).unwrap();
    let (transmit, init) = poll(&mut a).unwrap();
    let altered = |at: usize| {
        let mut quote = init[..20].to_vec();
        quote[at] ^= 1;
        quote
    };
    // Too short for the Initiate Tag; other ports; another tag; not an INIT; another Initiate Tag.
    let quotes = [init[..19].to_vec(), vec![], altered(1), altered(3), altered(7), altered(12)];
    for quote in quotes.iter().chain([&altered(19)]) {
        assert!(!a.handle_icmp_unreachable(NOW, transmit.path, quote));
    }
    assert_eq!(closed(&mut a), None);
    let counters = a.counters();
    assert_eq!((counters.unreachable_reports, counters.unproven_reports), (7, 7));
}

#[test]
fn icmp_counts_as_an_error_of_the_path_if_it_knows_the_tag() {
    let (mut a, _, id) = connected(1);
    a.send(NOW, id, message(100)).unwrap();
    let (_, packet) = poll(&mut a).unwrap();
    let errors = |a: &Endpoint| a.status(NOW, id).unwrap().paths[0].error_count;
    assert_eq!(errors(&a), 0);
    assert!(a.handle_icmp_unreachable(NOW, path(0), &packet[..8]));
    assert_eq!(errors(&a), 1);
    let mut foreign = packet[..8].to_vec();
    foreign[4] ^= 1;
    assert!(!a.handle_icmp_unreachable(NOW, path(0), &foreign));
    assert_eq!(errors(&a), 1);
}

#[test]
fn a_blocked_socket_gets_no_data_and_stops_no_other_path() {
    let (mut a, mut z, id) = connected(2);
    a.handle_backpressure(NOW, address(1, 0), true);
    for _ in 0..3 {
        a.send(NOW, id, message(1000)).unwrap();
    }
    let used = carry(&mut a, &mut z);
    assert!(!used.is_empty() && used.iter().all(|used| *used == path(1)), "{used:?}");
    exchange(&mut a, &mut z);

    a.handle_backpressure(NOW, address(1, 1), true);
    a.send(NOW, id, message(1000)).unwrap();
    assert!(poll(&mut a).is_none(), "both are full");
    a.handle_backpressure(NOW, address(1, 0), false);
    assert_eq!(carry(&mut a, &mut z), [path(0)], "nothing was forgotten");
}

#[test]
fn every_association_that_waited_for_a_socket_goes_on_when_it_takes_packets_again() {
    let (mut a, mut z) = (endpoint_at(1, 0, 2), endpoint(2, 2));
    let ids = [(); 4].map(|()| {
        let id = a.connect(NOW, address(2, 0), 7).expect("a port of its own");
        exchange(&mut a, &mut z);
        id
    });
    for local in [address(1, 0), address(1, 1)] {
        a.handle_backpressure(NOW, local, true);
    }
    for id in [ids[0], ids[3]] {
        a.send(NOW, id, message(1000)).unwrap();
    }
    assert!(poll(&mut a).is_none());
    a.send(NOW, ids[2], message(1000)).unwrap();
    a.handle_backpressure(NOW, address(1, 1), false);
    assert_eq!(carry(&mut a, &mut z), [path(1); 3], "whether it was asked meanwhile or not");
}

fn message(size: usize) -> Outgoing {
    let payload = Bytes::from(vec![1; size]);
    Outgoing { stream: StreamId(0), ppid: Ppid(0), unordered: false, payload }
}

#[test]
fn a_peer_that_has_ended_is_not_waited_for_when_only_its_confirmation_is_missing() {
    let (mut a, mut z, id) = connected(2);
    let there = z.associations()[0];
    z.shutdown(NOW, there);
    // SHUTDOWN, SHUTDOWN ACK; what follows is lost with the peer.
    carry(&mut z, &mut a);
    let (_, sent) = poll(&mut a).expect("a SHUTDOWN ACK");
    assert!(a.handle_icmp_unreachable(NOW, path(0), &sent));
    assert_eq!(a.associations(), [id], "another path may still work");
    assert!(a.handle_icmp_unreachable(NOW, path(1), &sent));
    assert!(a.associations().is_empty());
    let closed = std::iter::from_fn(|| a.poll_event()).map(|(_, event)| event);
    assert!(closed.into_iter().any(|event| event == Event::Closed(CloseReason::Graceful)));
}
