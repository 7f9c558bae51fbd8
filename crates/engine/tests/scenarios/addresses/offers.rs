//! Ways to the peer of which a third host tells: neither end could know them by itself.

use super::{ip, local, willing};
use crate::pair::{PORT_A, Pair, Side, address, endpoint, millis};
use manypath_engine::{AssociationId, Config, PathAddr, PathOffer, PathState, Scope};
use std::net::IpAddr;

/// Both ends have an address in a realm, where the association begins, and another one outside.
fn apart() -> (Pair, AssociationId, AssociationId) {
    let called = Config { accept: true, ..willing(Side::A) };
    let mut pair = Pair::with(3, called.clone(), willing(Side::Z));
    pair.a.endpoint = endpoint(Side::A, 2, called, 1);
    pair.z.endpoint = endpoint(Side::Z, 2, willing(Side::Z), 2);
    pair.a.endpoint.set_local_scopes(vec![(ip(Side::A, 1), Scope::Isolated(9))]);
    pair.z.endpoint.set_local_scopes(vec![(ip(Side::Z, 1), Scope::Isolated(9))]);
    let own = Config { local_addresses: vec![ip(Side::Z, 1)], ..willing(Side::Z) };
    let (now, remote) = (pair.now, address(Side::A, 1));
    let z = pair.z.endpoint.connect_with(now, remote, PORT_A, own, None).unwrap();
    pair.drive(millis(1000));
    let a = pair.a.endpoint.associations()[0];
    (pair, a, z)
}

fn working(pair: &Pair, side: Side, id: AssociationId) -> Vec<IpAddr> {
    let end = if side == Side::A { &pair.a } else { &pair.z };
    let paths = end.endpoint.status(pair.now, id).unwrap().paths;
    let active = paths.iter().filter(|path| path.state == PathState::Active);
    active.map(|path| path.addr.local.ip()).collect()
}

/// Tells one end of a way from its second address to that of the other.
fn offer(pair: &mut Pair, side: Side, association: AssociationId) -> bool {
    let other = if side == Side::A { Side::Z } else { Side::A };
    let path = PathAddr { local: address(side, 2), remote: address(other, 2) };
    let now = pair.now;
    let end = if side == Side::A { &mut pair.a } else { &mut pair.z };
    PathOffer { association, path }.make(&mut end.endpoint, now)
}

#[test]
fn a_way_that_both_ends_are_told_of_carries_what_is_under_way() {
    let (mut pair, a, z) = apart();
    assert_eq!(working(&pair, Side::Z, z), [ip(Side::Z, 1)], "the realm");
    assert!(offer(&mut pair, Side::Z, z));
    pair.drive(millis(2000));
    assert_eq!(working(&pair, Side::Z, z), [ip(Side::Z, 1)], "the other end knows nothing of it");
    assert!(offer(&mut pair, Side::A, a) && offer(&mut pair, Side::Z, z));
    pair.drive(millis(2000));
    assert_eq!(working(&pair, Side::Z, z), [ip(Side::Z, 1), ip(Side::Z, 2)]);
    assert_eq!(working(&pair, Side::A, a), [ip(Side::A, 1), ip(Side::A, 2)]);
    pair.send(Side::Z, z, 0, &[7; 300_000]);
    pair.drive(millis(5000));
    assert_eq!(pair.a.received.len(), 1);
}

#[test]
fn ways_that_cannot_be_are_refused() {
    let (mut pair, _, z) = apart();
    let now = pair.now;
    let mut refuses = |local, remote| {
        let path = PathAddr { local, remote };
        !PathOffer { association: z, path }.make(&mut pair.z.endpoint, now)
    };
    let (ours, theirs) = (address(Side::Z, 2), address(Side::A, 2));
    assert!(refuses(local(Side::Z, 3).addr, theirs), "not an address of this host");
    assert!(refuses(ours, "[2001:db8::1]:9899".parse().unwrap()), "another family");
    assert!(refuses(ours, "127.0.0.1:9899".parse().unwrap()), "loopback");
    for host in 1..40 {
        let remote = format!("198.51.100.{host}:9899").parse().unwrap();
        refuses(ours, remote);
    }
    let paths = pair.z.endpoint.status(now, z).unwrap().paths;
    assert!(paths.len() <= 17, "{}", paths.len());
}

/// Whoever tells of ways may be after somebody else (RFC 5062 section 4).
#[test]
fn victims_of_offers_get_three_times_the_bytes_of_the_peer_at_most() {
    let (mut pair, _, z) = apart();
    pair.record = true;
    for round in 0..600_u32 {
        for victim in 0..8 {
            let remote = format!("10.9.{}.{}:9899", round % 40, victim + 1).parse().unwrap();
            let path = PathAddr { local: address(Side::Z, 2), remote };
            let now = pair.now;
            PathOffer { association: z, path }.make(&mut pair.z.endpoint, now);
        }
        pair.drive(millis(100));
    }
    let is_victim = |addr: &PathAddr| addr.remote.to_string().starts_with("10.9.");
    let bytes_of = |side, victims| {
        let of = pair
            .recorded
            .iter()
            .filter(|(from, addr, _)| *from == side && is_victim(addr) == victims);
        // With the headers of IPv4 and UDP.
        of.map(|(.., bytes)| bytes.len() + 28).sum::<usize>()
    };
    // What had come before the packets were recorded may be used up, too.
    let (bytes, paid) = (bytes_of(Side::Z, true), bytes_of(Side::A, false) + 4096);
    assert!(bytes > 0 && bytes <= 3 * paid, "{bytes} bytes for {paid}");
    assert!(pair.z.endpoint.counters().unverified_drops > 0);
    assert!(pair.z.endpoint.status(pair.now, z).unwrap().paths.len() <= 17);
}
