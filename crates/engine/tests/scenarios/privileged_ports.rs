//! Associations with a peer that was asked at a UDP port below 1024: that port proves who answers, so other users of
//! the peer's host, who have other ports, must not get into them.

use crate::craft::packet;
use crate::pair::{PORT_Z, Pair, Side, address, millis};
use manypath_engine::{AssociationId, AssociationState, Event, PathAddr, PathStatus};
use manypath_wire::chunk::{Chunk, Heartbeat, Init};
use manypath_wire::parameter::Parameters;
use manypath_wire::{Tsn, VerificationTag};
use std::net::SocketAddr;

/// Port of the service of root, and that of anybody.
const PORTS: [u16; 2] = [899, 9899];

fn at_port(path: u8, port: u16) -> SocketAddr {
    SocketAddr::new(address(Side::Z, path).ip(), port)
}

/// A has begun an association with Z at `port`.
fn asked(paths: u8, port: u16) -> (Pair, AssociationId) {
    let mut pair = Pair::new(paths);
    pair.record = true;
    let id = pair.a.endpoint.connect(pair.now, at_port(1, port), PORT_Z).unwrap();
    (pair, id)
}

fn paths(pair: &Pair, side: Side) -> Vec<PathStatus> {
    let endpoint = if side == Side::A { &pair.a.endpoint } else { &pair.z.endpoint };
    endpoint.status(pair.now, endpoint.associations()[0]).unwrap().paths
}

/// Sends a packet to A from UDP port 9899 of Z's host, and counts the packets that A sends there.
fn answers(pair: &mut Pair, path: u8, bytes: &[u8]) -> usize {
    let sent = pair.recorded.len();
    let addr = PathAddr { local: at_port(path, 9899), remote: address(Side::A, path) };
    pair.inject_from(Side::Z, addr, bytes);
    pair.drive(millis(15));
    let to = |addr: &PathAddr| addr.remote == at_port(path, 9899);
    pair.recorded[sent..].iter().filter(|(from, addr, _)| *from == Side::A && to(addr)).count()
}

fn init() -> Vec<u8> {
    let init = Init {
        tag: VerificationTag(77),
        a_rwnd: 100_000,
        outbound_streams: 16,
        inbound_streams: 16,
        initial_tsn: Tsn(77),
        parameters: Parameters::from_bytes(&[]),
    };
    packet(Side::Z, 0, &[Chunk::Init(init)])
}

#[test]
fn both_ends_keep_to_the_privileged_port_on_every_path() {
    let (mut pair, a) = asked(2, 899);
    pair.drive(millis(4000));
    let ports = |side| paths(&pair, side).into_iter().map(|path| path.addr).collect::<Vec<_>>();
    assert_eq!(ports(Side::A).len(), 2);
    assert!(ports(Side::A).iter().all(|addr| addr.remote.port() == 899));
    assert!(ports(Side::Z).iter().all(|addr| addr.local.port() == 899));
    let left = pair.recorded.iter().filter(|(from, ..)| *from == Side::Z);
    assert!(left.into_iter().all(|(_, addr, _)| addr.local.port() == 899));
    pair.cut(1);
    pair.send(Side::A, a, 0, &[5; 100_000]);
    assert!(pair.drive_until(millis(9000), |pair| !pair.z.received.is_empty()));
}

#[test]
fn a_packet_from_another_port_is_not_the_peers() {
    for port in PORTS {
        let (mut pair, _) = asked(2, port);
        pair.drive(millis(4000));
        let tag = pair.tag_of(Side::A);
        let heartbeat =
            packet(Side::Z, tag, &[Chunk::Heartbeat(Heartbeat { info: &[1, 2, 3, 4] })]);
        let unknown = pair.a.endpoint.counters().unknown_addresses;
        for path in [1, 2] {
            assert_eq!(answers(&mut pair, path, &heartbeat), usize::from(port == 9899));
        }
        let dropped = pair.a.endpoint.counters().unknown_addresses - unknown;
        assert_eq!(dropped, if port == 9899 { 0 } else { 2 });
        assert!(paths(&pair, Side::A).iter().all(|path| path.addr.remote.port() == port));
    }
}

/// They would make an association with the sender of the one that the program has asked for.
#[test]
fn an_init_from_another_port_neither_restarts_an_association_nor_becomes_its_peer() {
    for port in PORTS {
        let (mut pair, id) = asked(1, port);
        pair.drive(millis(200));
        assert_eq!(answers(&mut pair, 1, &init()), usize::from(port == 9899), "a restart");
        let status = pair.a.endpoint.status(pair.now, id).unwrap();
        assert_eq!(status.state, AssociationState::Established);

        let (mut pair, _) = asked(1, port);
        pair.lose(Side::A, "INIT", 1);
        pair.drive(millis(15));
        assert_eq!(answers(&mut pair, 1, &init()), usize::from(port == 9899), "a collision");
        pair.drive(millis(9000));
        let up = |event: &&Event| matches!(event, Event::Connected { .. });
        assert_eq!(pair.a.heard().into_iter().filter(up).count(), 1);
    }
}
