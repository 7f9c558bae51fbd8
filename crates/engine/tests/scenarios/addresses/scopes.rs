//! Addresses that are not there for every peer: private ones, which peers at public addresses are not told, and
//! isolated ones, which associations elsewhere neither announce nor use.

use super::{ip, local, willing};
use crate::pair::{PORT_A, Pair, Side, address, config, endpoint, millis};
use manypath_engine::{AssociationId, Config, PathAddr, PathState, Scope};
use manypath_wire::chunk::Chunk;
use manypath_wire::packet::Packet;
use manypath_wire::parameter::Parameters;
use std::net::IpAddr;

/// Where Z reaches A: behind NATs that change nothing about Z's addresses.
const ONE: (u8, &str) = (1, "192.0.2.1:9899");

/// Z, with `of_z` addresses of these scopes, and A at a public address.
fn pair(of_z: u8, scopes: &[(u8, Scope)]) -> Pair {
    let called = Config { accept: true, ..willing(Side::A) };
    let mut pair = Pair::with(3, called.clone(), willing(Side::Z));
    pair.a.endpoint = endpoint(Side::A, 1, called, 1);
    pair.z.endpoint = endpoint(Side::Z, of_z, willing(Side::Z), 2);
    pair.nat = [(address(Side::A, ONE.0), ONE.1.parse().unwrap())].into();
    pair.record = true;
    let scopes = scopes.iter().map(|(path, scope)| (ip(Side::Z, *path), *scope)).collect();
    pair.z.endpoint.set_local_scopes(scopes);
    pair
}

fn connect(pair: &mut Pair, config: Config) -> AssociationId {
    let remote = ONE.1.parse().unwrap();
    let id = pair.z.endpoint.connect_with(pair.now, remote, PORT_A, config, None).unwrap();
    pair.drive(millis(4000));
    id
}

/// Z's addresses that carry.
fn working(pair: &Pair, id: AssociationId) -> Vec<IpAddr> {
    let paths = pair.z.endpoint.status(pair.now, id).unwrap().paths;
    let active = paths.iter().filter(|path| path.state == PathState::Active);
    active.map(|path| path.addr.local.ip()).collect()
}

/// Whether Z has told one of its addresses to A: cookies and HEARTBEAT ACKs repeat what A knows.
fn has_told(pair: &Pair, path: u8) -> bool {
    let IpAddr::V4(v4) = ip(Side::Z, path) else { panic!("not IPv4") };
    let told = |parameters: Parameters<'_>, own: Option<IpAddr>| {
        let bytes = parameters.as_bytes();
        own == Some(v4.into()) || bytes.windows(4).any(|window| window == v4.octets())
    };
    let tells = |chunk: Chunk<'_>| match chunk {
        Chunk::Init(init) => told(init.parameters, None),
        Chunk::Asconf(asconf) => told(asconf.parameters, Some(asconf.address)),
        _ => false,
    };
    let sent = pair.recorded.iter().filter(|(from, ..)| *from == Side::Z);
    let packets = sent.map(|(_, _, bytes)| Packet::parse(bytes).unwrap());
    packets.flat_map(|packet| packet.chunks()).filter_map(Result::ok).any(tells)
}

#[test]
fn private_uplinks_carry_to_a_public_peer_that_is_not_told_them() {
    let private = [(1, Scope::Private), (2, Scope::Private)];
    let mut pair = pair(2, &private);
    let id = connect(&mut pair, willing(Side::Z));
    assert_eq!(working(&pair, id), [ip(Side::Z, 1), ip(Side::Z, 2)]);
    assert!(![1, 2].into_iter().any(|path| has_told(&pair, path)));
    pair.send(Side::Z, id, 0, &[7; 300_000]);
    pair.drive(millis(5000));
    assert_eq!(pair.a.received.len(), 1);
}

#[test]
fn a_private_peer_is_told_private_addresses() {
    let mut pair = Pair::with(2, config(Side::A), config(Side::Z));
    pair.record = true;
    let scopes = [1, 2].map(|path| (ip(Side::A, path), Scope::Private));
    pair.a.endpoint.set_local_scopes(scopes.to_vec());
    pair.connect();
    pair.drive(millis(1000));
    let (_, _, init) = &pair.recorded[0];
    let IpAddr::V4(second) = ip(Side::A, 2) else { panic!("not IPv4") };
    assert!(init.windows(4).any(|window| window == second.octets()));
}

#[test]
fn a_private_address_that_comes_later_introduces_itself() {
    let mut pair = pair(1, &[(1, Scope::Private), (2, Scope::Private)]);
    let id = connect(&mut pair, willing(Side::Z));
    let now = pair.now;
    pair.z.endpoint.announce_local_address(now, local(Side::Z, 2));
    pair.drive(millis(4000));
    assert_eq!(working(&pair, id), [ip(Side::Z, 1), ip(Side::Z, 2)]);
    assert!(!has_told(&pair, 2));
    let now = pair.now;
    pair.z.endpoint.remove_local_address(now, ip(Side::Z, 2));
    pair.drive(millis(4000));
    assert_eq!(working(&pair, id), [ip(Side::Z, 1)]);
    assert!(!has_told(&pair, 2));
}

#[test]
fn an_association_moves_from_one_private_address_to_another() {
    let mut pair = pair(1, &[(1, Scope::Private), (2, Scope::Private)]);
    let id = connect(&mut pair, willing(Side::Z));
    let now = pair.now;
    pair.gone.push(ip(Side::Z, 1));
    pair.z.endpoint.remove_local_address(now, ip(Side::Z, 1));
    pair.drive(millis(100));
    let now = pair.now;
    pair.z.endpoint.announce_local_address(now, local(Side::Z, 2));
    pair.drive(millis(4000));
    assert_eq!(working(&pair, id), [ip(Side::Z, 2)]);
    assert!(!has_told(&pair, 1) && !has_told(&pair, 2));
    pair.send(Side::Z, id, 0, &[7; 30_000]);
    pair.drive(millis(4000));
    assert_eq!(pair.a.received.len(), 1);
}

#[test]
fn an_isolated_address_is_neither_told_nor_used() {
    let mut pair = pair(2, &[(2, Scope::Isolated(7))]);
    let id = connect(&mut pair, willing(Side::Z));
    let now = pair.now;
    pair.z.endpoint.announce_local_address(now, local(Side::Z, 2));
    pair.drive(millis(4000));
    assert_eq!(working(&pair, id), [ip(Side::Z, 1)]);
    assert_eq!(pair.z.endpoint.realm(id), None);
    assert!(!has_told(&pair, 2));
    let from_there = |(from, addr, _): &(Side, PathAddr, Vec<u8>)| {
        *from == Side::Z && addr.local.ip() == ip(Side::Z, 2)
    };
    assert!(!pair.recorded.iter().any(from_there));
}

#[test]
fn an_association_of_a_realm_uses_its_addresses_alone() {
    let mut pair = pair(3, &[(2, Scope::Isolated(7)), (3, Scope::Isolated(8))]);
    let named = Config { local_addresses: vec![ip(Side::Z, 2)], ..willing(Side::Z) };
    let id = connect(&mut pair, named);
    assert_eq!(working(&pair, id), [ip(Side::Z, 2)]);
    assert_eq!(pair.z.endpoint.realm(id), Some(7));
    let now = pair.now;
    for path in [1, 3] {
        pair.z.endpoint.announce_local_address(now, local(Side::Z, path));
    }
    pair.drive(millis(4000));
    assert_eq!(working(&pair, id), [ip(Side::Z, 2)]);
    assert!(!has_told(&pair, 1) && !has_told(&pair, 3));
}

#[test]
fn a_server_keeps_to_the_realm_at_which_it_was_called() {
    let mut pair = Pair::with(2, config(Side::A), config(Side::Z));
    pair.z.endpoint.set_local_scopes(vec![(ip(Side::Z, 1), Scope::Isolated(7))]);
    pair.connect();
    pair.drive(millis(4000));
    let z = pair.z.endpoint.associations()[0];
    let paths = pair.z.endpoint.status(pair.now, z).unwrap().paths;
    assert!(paths.iter().all(|path| path.addr.local.ip() == ip(Side::Z, 1)), "{paths:#?}");
}
