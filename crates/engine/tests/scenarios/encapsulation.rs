//! UDP encapsulation ports of paths, and paths without encapsulation (RFC 6951 sections 5.1 to 5.6).

use crate::craft::packet;
use crate::pair::{PORT_Z, Pair, Side, address, config, millis};
use manypath_engine::{AssociationId, Config, PathAddr, PathMtu, PathStatus};
use manypath_wire::chunk::{Chunk, Heartbeat};
use std::net::SocketAddr;

const HEARTBEAT: Chunk<'_> = Chunk::Heartbeat(Heartbeat { info: &[1, 2, 3, 4] });

fn paths(pair: &Pair, id: AssociationId) -> Vec<PathStatus> {
    pair.z.endpoint.status(pair.now, id).unwrap().paths
}

fn with_port(mut addr: SocketAddr, port: u16) -> SocketAddr {
    addr.set_port(port);
    addr
}

/// A packet of A with this tag arrives on a path from and to these ports.
fn arrives(pair: &mut Pair, path: u8, tag: u32, (from, to): (u16, u16)) {
    let local = with_port(address(Side::A, path), from);
    let remote = with_port(address(Side::Z, path), to);
    pair.inject_from(Side::A, PathAddr { local, remote }, &packet(Side::A, tag, &[HEARTBEAT]));
    pair.drive(millis(11));
}

#[test]
fn each_path_has_the_port_from_which_packets_came_there_last() {
    let (mut pair, _, z) = Pair::established(2);
    let tag = pair.tag_of(Side::Z);
    arrives(&mut pair, 2, tag, (41_000, 9899));
    let ports: Vec<_> = paths(&pair, z).iter().map(|path| path.addr.remote.port()).collect();
    assert_eq!(ports, [9899, 41_000]);
    arrives(&mut pair, 1, tag, (42_000, 9899));
    let ports: Vec<_> = paths(&pair, z).iter().map(|path| path.addr.remote.port()).collect();
    assert_eq!(ports, [42_000, 41_000]);
}

#[test]
fn a_packet_without_the_right_tag_changes_no_port() {
    let (mut pair, _, z) = Pair::established(1);
    let tag = pair.tag_of(Side::Z);
    for wrong in [0, 1, tag ^ 1] {
        arrives(&mut pair, 1, wrong, (41_000, 9899));
        arrives(&mut pair, 1, wrong, (0, 0));
    }
    assert_eq!(paths(&pair, z)[0].addr.remote, address(Side::A, 1));
    assert_eq!(paths(&pair, z)[0].addr.local, address(Side::Z, 1));
}

#[test]
fn a_native_packet_ends_the_encapsulation_of_its_path_and_its_mtu_grows() {
    let (mut pair, _, z) = Pair::established(2);
    let tag = pair.tag_of(Side::Z);
    assert_eq!(pair.z.endpoint.fragment_size(z), 1500 - 28 - 12 - 16);
    for path in [1, 2] {
        arrives(&mut pair, path, tag, (0, 0));
    }
    for path in paths(&pair, z) {
        assert_eq!((path.addr.local.port(), path.addr.remote.port()), (0, 0));
    }
    assert_eq!(pair.z.endpoint.fragment_size(z), 1500 - 20 - 12 - 16);
    arrives(&mut pair, 1, tag, (9899, 9899));
    assert_eq!(paths(&pair, z)[0].addr.remote, address(Side::A, 1), "and back");
    assert_eq!(pair.z.endpoint.fragment_size(z), 1500 - 28 - 12 - 16);
}

#[test]
fn the_answer_to_an_init_goes_to_the_port_that_it_came_from() {
    let mut pair = Pair::new(1);
    pair.record = true;
    pair.connect();
    let local = with_port(address(Side::A, 1), 41_000);
    pair.drain();
    let (_, _, init) = pair.recorded[0].clone();
    pair.recorded.clear();
    pair.inject_from(Side::A, PathAddr { local, remote: address(Side::Z, 1) }, &init);
    pair.drive(millis(15));
    let answers: Vec<_> = pair.recorded.iter().filter(|(from, ..)| *from == Side::Z).collect();
    assert!(answers.iter().any(|(_, addr, _)| addr.remote == local));
}

#[test]
fn an_association_without_encapsulation_needs_no_udp_header_on_any_path() {
    for path_mtu in [PathMtu::Interface, PathMtu::Search] {
        let config = |side| Config { path_mtu, ..config(side) };
        let mut pair = Pair::with(2, config(Side::A), config(Side::Z));
        let (now, remote) = (pair.now, with_port(address(Side::Z, 1), 0));
        let a = pair.a.endpoint.connect(now, remote, PORT_Z).unwrap();
        pair.drive(millis(1000));
        let z = pair.z.endpoint.associations()[0];
        assert_eq!(paths(&pair, z).len(), 2);
        for path in paths(&pair, z) {
            assert_eq!((path.addr.local.port(), path.addr.remote.port()), (0, 0));
        }
        assert_eq!(pair.a.endpoint.fragment_size(a), 1500 - 20 - 12 - 16);
        pair.send(Side::A, a, 0, &[5; 5000]);
        pair.drive(millis(500));
        assert_eq!(pair.z.received.len(), 1);
    }
}
