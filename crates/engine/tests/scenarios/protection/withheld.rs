//! Peers that have not shown who they are know one address of this host (`Config::announce`).

use super::{Protected, is_record, loose, offering, types_of};
use crate::pair::{Pair, Side, address, endpoint, millis};
use manypath_aead::CipherSuite;
use manypath_engine::{
    AddressError, Announce, AssociationId, Config, LocalAddress, PathAddr, PathOffer, PathState,
};
use manypath_wire::chunk::types;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

fn withholding(side: Side) -> Config {
    let announce = Announce::Authenticated;
    Config { announce, address_reconfiguration: true, ..offering(side, loose()) }
}

/// Both ends have two addresses, and every packet is kept from the first one on.
fn begun(a: Config, z: Config) -> Protected {
    let mut pair = Pair::with(2, a, z);
    pair.record = true;
    let a = pair.connect();
    pair.drive(millis(1500));
    let z = pair.z.endpoint.associations()[0];
    Protected { pair, a, z, suite: CipherSuite::Aes128Gcm }
}

/// The keys are there, at both ends at once.
fn protect(it: &mut Protected) {
    it.rekey(3);
    let now = it.pair.now;
    for side in [Side::A, Side::Z] {
        let id = it.id(side);
        it.pair.node(side).endpoint.require_protection(now, id).unwrap();
    }
}

fn reveal(it: &mut Protected, side: Side) {
    let (now, id) = (it.pair.now, it.id(side));
    it.pair.node(side).endpoint.reveal_addresses(now, id);
}

/// The addresses of `side` that carry.
fn working(it: &mut Protected, side: Side) -> BTreeSet<IpAddr> {
    let (now, id) = (it.pair.now, it.id(side));
    let paths = it.pair.node(side).endpoint.status(now, id).unwrap().paths;
    let active = paths.iter().filter(|path| path.state == PathState::Active);
    active.map(|path| path.addr.local.ip()).collect()
}

fn ip(side: Side, path: u8) -> IpAddr {
    address(side, path).ip()
}

/// Whether `side` has let others see its second address: by a packet that comes from there or goes there and is not
/// protected, or by the bytes of one.
fn has_shown(it: &Protected, side: Side) -> bool {
    let second = address(side, 2);
    let IpAddr::V4(v4) = second.ip() else { panic!("not IPv4") };
    let uses = |addr: &SocketAddr| addr.ip() == second.ip();
    it.pair.recorded.iter().filter(|(_, _, bytes)| !is_record(bytes)).any(|(_, path, bytes)| {
        let written = bytes.windows(4).any(|window| window == v4.octets());
        uses(&path.local) || uses(&path.remote) || written
    })
}

fn shows_nothing(it: &Protected) {
    assert!(!has_shown(it, Side::A) && !has_shown(it, Side::Z));
}

#[test]
fn addresses_leave_under_protection_alone_and_both_paths_carry_afterwards() {
    let mut it = begun(withholding(Side::A), withholding(Side::Z));
    shows_nothing(&it);
    for side in [Side::A, Side::Z] {
        reveal(&mut it, side);
    }
    it.pair.drive(millis(500));
    shows_nothing(&it);
    assert_eq!(working(&mut it, Side::A), [ip(Side::A, 1)].into(), "not before there are keys");
    protect(&mut it);
    it.pair.send(Side::A, it.a, 0, b"keys are there");
    it.pair.drive(millis(5_000));
    for side in [Side::A, Side::Z] {
        assert_eq!(working(&mut it, side), [ip(side, 1), ip(side, 2)].into());
    }
    it.pair.send(Side::A, it.a, 0, &[7; 600_000]);
    it.pair.drive(millis(5_000));
    let sent = it.pair.recorded.iter().filter(|(from, path, bytes)| {
        (*from, path.local.ip()) == (Side::A, ip(Side::A, 2)) && bytes.len() > 1000
    });
    assert!(sent.count() > 50, "the second path carries data");
    shows_nothing(&it);
}

#[test]
fn a_peer_that_is_not_revealed_anything_has_one_path_under_protection_too() {
    let mut it = begun(withholding(Side::A), withholding(Side::Z));
    protect(&mut it);
    it.pair.send(Side::A, it.a, 0, &[7; 100_000]);
    it.pair.drive(millis(5_000));
    for side in [Side::A, Side::Z] {
        assert_eq!(working(&mut it, side), [ip(side, 1)].into());
        let second = ip(side, 2);
        let used = |(from, path, _): &(Side, PathAddr, Vec<u8>)| {
            *from == side && path.local.ip() == second
        };
        assert!(!it.pair.recorded.iter().any(used), "nothing comes from the second address");
    }
    let now = it.pair.now;
    let refused = it.pair.a.endpoint.add_address(now, it.a, ip(Side::A, 2));
    assert_eq!(refused, Err(AddressError::Withheld));
    let addr = LocalAddress { addr: address(Side::A, 2), prefix_len: 24, interface: 0, mtu: 1500 };
    it.pair.a.endpoint.announce_local_address(now, addr);
    it.pair.drive(millis(1_000));
    assert_eq!(working(&mut it, Side::A), [ip(Side::A, 1)].into());
}

#[test]
fn one_end_may_reveal_its_addresses_and_the_other_not() {
    let mut it = begun(withholding(Side::A), withholding(Side::Z));
    protect(&mut it);
    reveal(&mut it, Side::A);
    it.pair.send(Side::A, it.a, 0, b"keys are there");
    it.pair.drive(millis(5_000));
    assert_eq!(working(&mut it, Side::A), [ip(Side::A, 1), ip(Side::A, 2)].into());
    assert_eq!(working(&mut it, Side::Z), [ip(Side::Z, 1)].into());
    shows_nothing(&it);
}

#[test]
fn a_peer_without_keys_has_one_path_and_an_association_that_loses_it_shows_no_other_address() {
    let plain = |side| Config { key_management: None, ..withholding(side) };
    let mut it = begun(plain(Side::A), plain(Side::Z));
    reveal(&mut it, Side::A);
    let now = it.pair.now;
    it.pair.a.endpoint.remove_local_address(now, ip(Side::A, 1));
    let addr = LocalAddress { addr: address(Side::A, 2), prefix_len: 24, interface: 0, mtu: 1500 };
    it.pair.a.endpoint.announce_local_address(now, addr);
    it.pair.drive(millis(5_000));
    shows_nothing(&it);
}

#[test]
fn a_way_of_which_a_third_host_tells_shows_no_address_that_is_withheld() {
    let mut it = begun(withholding(Side::A), withholding(Side::Z));
    let path = PathAddr { local: address(Side::A, 2), remote: address(Side::Z, 1) };
    let offer = PathOffer { association: it.a, path };
    let now = it.pair.now;
    assert!(!offer.make(&mut it.pair.a.endpoint, now));
    it.pair.drive(millis(1_000));
    shows_nothing(&it);
    protect(&mut it);
    reveal(&mut it, Side::A);
    let now = it.pair.now;
    assert!(offer.make(&mut it.pair.a.endpoint, now));
}

#[test]
fn an_init_that_is_not_answered_is_repeated_from_the_same_address() {
    let mut pair = Pair::with(2, withholding(Side::A), withholding(Side::Z));
    pair.a.endpoint = endpoint(Side::A, 2, withholding(Side::A), 1);
    pair.record = true;
    pair.cut(1);
    let _id: AssociationId = pair.connect();
    pair.drive(millis(10_000));
    let inits: Vec<_> = pair.recorded.iter().filter(|(from, ..)| *from == Side::A).collect();
    assert!(inits.len() > 2);
    for (_, path, bytes) in inits {
        assert_eq!((path.local.ip(), &types_of(bytes)[..]), (ip(Side::A, 1), &[types::INIT][..]));
    }
}
