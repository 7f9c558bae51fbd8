//! Links of our own that go down and come up, and associations whose addresses have all gone.

use super::{Stage, asked, ip, local, stage, told};
use crate::pair::{Pair, Side, millis};
use manypath_engine::{AddressChange, IdleReason, PathState};

impl Stage {
    /// Nothing leaves or reaches these addresses of A any more.
    fn lose(&mut self, paths: &[u8]) {
        self.pair.gone.extend(paths.iter().map(|path| ip(Side::A, *path)));
    }

    /// Sizes of the messages that Z has got.
    fn received(&self) -> Vec<usize> {
        self.pair.z.received.iter().map(|(_, message)| message.len()).collect()
    }
}

/// States of the paths of A by our own address.
fn paths_of_a(
    pair: &Pair,
    a: manypath_engine::AssociationId,
) -> Vec<(std::net::IpAddr, PathState)> {
    let status = pair.a.endpoint.status(pair.now, a).unwrap();
    status.paths.iter().map(|path| (path.addr.local.ip(), path.state)).collect()
}

#[test]
fn what_was_in_flight_when_a_link_goes_down_is_sent_elsewhere_at_once() {
    let mut stage = stage(2, 2);
    stage.pair.send(Side::A, stage.a, 0, &[7; 400_000]);
    stage.pair.drive(millis(60));
    let before = stage.sent_from(1, "DATA");
    assert!(stage.sent_from(2, "DATA") > 0);
    let now = stage.pair.now;
    stage.pair.a.endpoint.suspend_local_address(now, ip(Side::A, 2));
    stage.lose(&[2]);
    stage.pair.drive(millis(1));
    assert!(stage.sent_from(1, "DATA") > before, "without waiting for T3-rtx");
    assert!(paths_of_a(&stage.pair, stage.a).contains(&(ip(Side::A, 2), PathState::Inactive)));
    let status = stage.pair.a.endpoint.status(stage.pair.now, stage.a).unwrap();
    let second = status.paths.iter().find(|path| path.addr.local.ip() == ip(Side::A, 2)).unwrap();
    assert_eq!(second.idle, Some(IdleReason::NoLink));
    assert!(second.since_data_sent.unwrap() < millis(60), "{second:?}");
    assert_eq!(second.since_data_received, None);
    stage.pair.recorded.clear();
    stage.pair.drive(millis(3000));
    assert_eq!(stage.sent_from(2, ""), 0, "not even HEARTBEATs");
    assert_eq!(stage.received(), [400_000]);
    stage.pair.gone.clear();
    let now = stage.pair.now;
    stage.pair.a.endpoint.announce_local_address(now, local(Side::A, 2));
    assert!(paths_of_a(&stage.pair, stage.a).contains(&(ip(Side::A, 2), PathState::Active)));
    stage.pair.send(Side::A, stage.a, 0, &[8; 100_000]);
    stage.pair.drive(millis(1));
    assert!(stage.sent_from(2, "DATA") > 0, "without waiting for the answer to a HEARTBEAT");
    stage.pair.drive(millis(3000));
    assert_eq!(stage.pair.z.received.len(), 2);
}

#[test]
fn an_address_that_comes_back_before_the_peer_heard_that_it_went_is_used() {
    let mut stage = stage(2, 2);
    stage.lose(&[1, 2]);
    stage.remove(1);
    stage.remove(2);
    stage.pair.drive(millis(10_000));
    stage.pair.gone.clear();
    stage.lose(&[2]);
    stage.announce(1);
    stage.pair.send(Side::A, stage.a, 0, b"over the first");
    stage.pair.drive(millis(1_000));
    assert_eq!(stage.received(), [14], "{:?}", paths_of_a(&stage.pair, stage.a));
}

#[test]
fn without_any_link_an_association_waits_without_counting_errors() {
    let mut stage = stage(1, 1);
    let now = stage.pair.now;
    stage.lose(&[1]);
    stage.pair.a.endpoint.configure(|config| config.association_max_retransmits = 1);
    stage.pair.a.endpoint.suspend_local_address(now, ip(Side::A, 1));
    stage.pair.send(Side::A, stage.a, 0, b"while there is no link");
    stage.pair.recorded.clear();
    stage.pair.drive(millis(120_000));
    assert_eq!(stage.sent_from(1, ""), 0);
    assert_eq!(stage.pair.a.endpoint.associations(), [stage.a]);
    stage.pair.gone.clear();
    stage.announce(1);
    stage.pair.drive(millis(100));
    assert_eq!(stage.pair.z.received, [(0, "while there is no link".into())]);
}

#[test]
fn an_association_moves_when_its_only_address_has_gone_before_another_comes() {
    let mut stage = stage(1, 1);
    stage.pair.send(Side::A, stage.a, 0, &[7; 200_000]);
    stage.pair.drive(millis(40));
    stage.lose(&[1]);
    stage.remove(1);
    stage.pair.drive(millis(5000));
    stage.announce(2);
    stage.pair.drive(millis(8000));
    assert_eq!(stage.received(), [200_000]);
    let expected = [asked(AddressChange::Added, 2), asked(AddressChange::Removed, 1)];
    assert!(expected.iter().all(|event| stage.pair.a.heard().contains(&event)));
    assert!(stage.pair.z.heard().contains(&&told(AddressChange::Removed, 1)));
    assert_eq!(stage.paths_of_z(), [(ip(Side::A, 2), PathState::Active)]);
}

#[test]
fn an_association_moves_when_both_its_addresses_have_gone_at_once() {
    let mut stage = stage(2, 2);
    stage.pair.send(Side::A, stage.a, 0, &[7; 200_000]);
    stage.pair.drive(millis(40));
    stage.lose(&[1, 2]);
    stage.remove(1);
    stage.remove(2);
    stage.pair.drive(millis(5000));
    stage.announce(3);
    stage.pair.drive(millis(10_000));
    assert_eq!(stage.received(), [200_000]);
    let active = |(remote, _): &&(std::net::IpAddr, _)| *remote == ip(Side::A, 3);
    assert!(stage.paths_of_z().iter().all(|path| active(&path)), "{:?}", stage.paths_of_z());
}

/// The request that the second address is removed is under way when the first one goes, too.
#[test]
fn a_request_under_way_goes_on_from_the_address_that_comes() {
    let mut stage = stage(2, 2);
    stage.pair.drive(millis(100));
    stage.lose(&[1, 2]);
    stage.remove(2);
    stage.pair.drive(millis(300));
    assert!(stage.sent_from(1, "ASCONF") > 0);
    stage.remove(1);
    stage.pair.send(Side::A, stage.a, 0, b"from the new address");
    stage.pair.drive(millis(2000));
    stage.announce(3);
    stage.pair.drive(millis(5000));
    assert_eq!(stage.pair.z.received, [(0, "from the new address".into())]);
    let there = |path: &(_, _)| *path == (ip(Side::A, 3), PathState::Active);
    assert!(stage.paths_of_z().iter().all(there), "{:?}", stage.paths_of_z());
}

/// The address that has just come goes before the peer has heard of it, or before its answer is here,
/// and the old one is back.
#[test]
fn a_change_that_is_taken_back_while_it_is_under_way_ends_where_it_began() {
    for (after, is_lost) in [(9, true), (9, false), (19, true), (19, false)] {
        let mut stage = stage(1, 1);
        stage.announce(2);
        stage.remove(1);
        stage.pair.drive(millis(after));
        stage.announce(1);
        stage.remove(2);
        if is_lost {
            stage.lose(&[2]);
        }
        stage.pair.send(Side::A, stage.a, 0, &[7; 50_000]);
        stage.pair.drive(millis(8000));
        assert_eq!(stage.received(), [50_000], "{after} {is_lost}");
        assert_eq!(stage.paths_of_z(), [(ip(Side::A, 1), PathState::Active)], "{after} {is_lost}");
    }
}
