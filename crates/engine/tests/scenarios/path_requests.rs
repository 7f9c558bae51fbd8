//! What a user asks of paths: SETPRIMARY, REQUESTHEARTBEAT (RFC 9260 section 11.1) and the search for
//! the MTU (RFC 6458 section 8.1.12).

use crate::pair::{Pair, Side, config, millis};
use manypath_engine::{AssociationId, Config, PathMtu, PathStatus};
use std::net::IpAddr;

fn single(side: Side) -> Config {
    Config { multipath: false, ..config(side) }
}

fn paths(pair: &Pair, id: AssociationId) -> Vec<PathStatus> {
    pair.a.endpoint.status(pair.now, id).unwrap().paths
}

fn remote(pair: &Pair, id: AssociationId, index: usize) -> IpAddr {
    paths(pair, id)[index].addr.remote.ip()
}

#[test]
fn the_user_chooses_the_primary_path_and_data_follows() {
    let (mut pair, id, _) = Pair::established_with(2, single(Side::A), single(Side::Z));
    pair.drive(millis(1000));
    let other = paths(&pair, id).iter().position(|path| !path.primary).unwrap();
    let to = remote(&pair, id, other);
    assert!(pair.a.endpoint.set_primary(pair.now, id, to));
    assert!(paths(&pair, id)[other].primary);
    let before = paths(&pair, id)[other].packets_sent;
    pair.send(Side::A, id, 0, b"over there");
    pair.drive(millis(1000));
    assert_eq!(pair.z.received.len(), 1);
    assert!(paths(&pair, id)[other].packets_sent > before);
    let stranger: IpAddr = "203.0.113.9".parse().unwrap();
    assert!(!pair.a.endpoint.set_primary(pair.now, id, stranger));
    assert!(paths(&pair, id)[other].primary, "nothing has changed");
}

#[test]
fn a_heartbeat_is_sent_when_the_user_asks_for_one() {
    let (mut pair, id, _) = Pair::established_with(1, single(Side::A), single(Side::Z));
    pair.drive(millis(1000));
    pair.take_ladder();
    assert!(pair.a.endpoint.request_heartbeat(pair.now, id, None));
    pair.drive(millis(100));
    pair.expect("A -> HEARTBEAT -> Z\nA <- HEARTBEAT_ACK <- Z");
    let to = remote(&pair, id, 0);
    assert!(pair.a.endpoint.request_heartbeat(pair.now, id, Some(to)));
    assert!(!pair.a.endpoint.request_heartbeat(pair.now, id, Some("203.0.113.9".parse().unwrap())));
}

#[test]
fn the_user_ends_the_search_for_the_mtu_with_a_size_and_begins_it_again() {
    let searching = |side| Config { path_mtu: PathMtu::Search, ..single(side) };
    let (mut pair, id, _) = Pair::established_with(1, searching(Side::A), searching(Side::Z));
    pair.drive(millis(1000));
    let (now, to) = (pair.now, remote(&pair, id, 0));
    assert_eq!(paths(&pair, id)[0].mtu, 1500);
    pair.a.endpoint.set_path_mtu(now, id, Some(to), PathMtu::Interface, Some(1000));
    assert_eq!(paths(&pair, id)[0].mtu, 1000);
    pair.record = true;
    pair.send(Side::A, id, 0, &[7; 5000]);
    pair.drive(millis(2000));
    assert_eq!(pair.z.received.len(), 1);
    assert!(pair.recorded.iter().all(|(_, _, bytes)| bytes.len() <= 1000 - 28));
    pair.a.endpoint.set_path_mtu(pair.now, id, None, PathMtu::Search, None);
    pair.drive(millis(1000));
    assert_eq!(paths(&pair, id)[0].mtu, 1500);
}
