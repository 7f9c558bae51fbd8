//! How often paths of an association that exists are probed and when they have failed, changed by the user
//! (`SCTP_PEER_ADDR_PARAMS`, RFC 6458 section 8.1.12; `SCTP_ASSOCINFO`, section 8.1.2).

use crate::pair::{Pair, Side, address, config, message, millis};
use manypath_engine::{AssociationId, Config, Duration, PathState, SackPath, SupervisionChange};
use std::net::IpAddr;

fn single(side: Side) -> Config {
    Config { multipath: false, ..config(side) }
}

fn established(paths: u8) -> (Pair, AssociationId) {
    let (mut pair, id, _) = Pair::established_with(paths, single(Side::A), single(Side::Z));
    pair.drive(millis(1000));
    pair.take_ladder();
    (pair, id)
}

fn remote(pair: &Pair, id: AssociationId, index: usize) -> IpAddr {
    pair.a.endpoint.status(pair.now, id).unwrap().paths[index].addr.remote.ip()
}

/// How often A probes within `time`.
fn probes(pair: &mut Pair, time: Duration) -> usize {
    pair.take_ladder();
    pair.drive(time);
    pair.take_ladder().lines().filter(|line| line.contains("A -> HEARTBEAT ")).count()
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn heartbeats_end_and_begin_again_for_an_association_that_exists() {
    let (mut pair, id) = established(1);
    let off = SupervisionChange { heartbeats: Some(false), ..SupervisionChange::default() };
    assert!(pair.a.endpoint.set_supervision(pair.now, id, None, off));
    assert_eq!(probes(&mut pair, MINUTE * 5), 0);
    let interval = Some(Duration::from_secs(1));
    let on = SupervisionChange {
        heartbeats: Some(true),
        heartbeat_interval: interval,
        ..SupervisionChange::default()
    };
    assert!(pair.a.endpoint.set_supervision(pair.now, id, None, on));
    let seen = probes(&mut pair, MINUTE);
    assert!((30..=60).contains(&seen), "{seen} in a minute");
}

#[test]
fn one_path_is_left_alone_while_another_is_probed() {
    let silent = Config { heartbeats: false, ..single(Side::Z) };
    let (mut pair, id, _) = Pair::established_with(2, single(Side::A), silent);
    pair.drive(MINUTE);
    let (to, other) = (remote(&pair, id, 0), remote(&pair, id, 1));
    let off = SupervisionChange { heartbeats: Some(false), ..SupervisionChange::default() };
    assert!(pair.a.endpoint.set_supervision(pair.now, id, Some(to), off));
    let told = |to| pair.a.endpoint.supervision(id, Some(to)).unwrap().heartbeats;
    assert_eq!([told(to), told(other)], [false, true]);
    let sent = |pair: &Pair| {
        let paths = pair.a.endpoint.status(pair.now, id).unwrap().paths;
        [paths[0].packets_sent, paths[1].packets_sent]
    };
    let before = sent(&pair);
    pair.drive(MINUTE * 5);
    let after = sent(&pair);
    assert_eq!(after[0], before[0]);
    assert!(after[1] >= before[1] + 5, "{before:?} {after:?}");
    let stranger: IpAddr = "203.0.113.9".parse().unwrap();
    assert!(!pair.a.endpoint.set_supervision(pair.now, id, Some(stranger), off));
}

#[test]
fn a_path_fails_after_as_many_errors_as_the_user_wants() {
    let (mut pair, id) = established(2);
    let limits = SupervisionChange {
        max_retransmits: Some(1),
        heartbeat_interval: Some(Duration::from_secs(1)),
        ..SupervisionChange::default()
    };
    assert!(pair.a.endpoint.set_supervision(pair.now, id, None, limits));
    pair.cut(1);
    pair.drive(Duration::from_secs(12));
    let paths = pair.a.endpoint.status(pair.now, id).unwrap().paths;
    let failed = paths.iter().filter(|path| path.state == PathState::Inactive).count();
    assert_eq!(failed, 1, "two errors are more than one: {paths:?}");
}

#[test]
fn a_peer_is_given_up_after_as_many_errors_as_the_user_wants() {
    let (mut pair, id) = established(1);
    pair.a.endpoint.set_max_retransmits(pair.now, id, 1);
    assert_eq!(pair.a.endpoint.max_retransmits(id), Some(1));
    pair.cut(1);
    pair.send(Side::A, id, 0, b"lost");
    pair.drive(Duration::from_secs(5));
    assert!(pair.a.endpoint.status(pair.now, id).is_none(), "one retransmission is enough");
}

/// All HEARTBEATs of Z are lost, also one that has left on the idle path 1, so that it has measured none, and its SACKs are
/// to go over the fastest.
fn unmeasured(paths: u8) -> (Pair, AssociationId, AssociationId) {
    let by_srtt = |side| {
        let heartbeat_interval = Duration::from_secs(1);
        let mut config = Config { handshake_race: false, heartbeat_interval, ..config(side) };
        config.experiment.sack_path = SackPath::SmallestSrtt;
        config
    };
    let mut pair = Pair::with(paths, by_srtt(Side::A), by_srtt(Side::Z));
    pair.lose(Side::Z, "HEARTBEAT", usize::MAX);
    let a = pair.connect();
    pair.drive(Duration::from_secs(3));
    let z = pair.z.endpoint.associations()[0];
    (pair, a, z)
}

/// HEARTBEATs that Z sends while data comes to it for two seconds, over path 1 and over path 2.
fn probes_beside_data(pair: &mut Pair, a: AssociationId) -> [usize; 2] {
    pair.take_ladder();
    for _ in 0..200 {
        for _ in 0..4 {
            pair.a.endpoint.send(pair.now, a, message(0, &[7; 1400])).unwrap();
        }
        pair.drive(millis(10));
        while pair.z.endpoint.read(pair.z.endpoint.associations()[0]).is_some() {}
    }
    let ladder = pair.take_ladder();
    let probes = |sign| ladder.lines().filter(|line| line.contains(sign)).count();
    [probes("<- HEARTBEAT "), probes("<2- HEARTBEAT ")]
}

#[test]
fn a_path_whose_heartbeats_are_switched_off_is_not_measured_for_data_either() {
    let (mut pair, a, z) = unmeasured(1);
    let off = SupervisionChange { heartbeats: Some(false), ..SupervisionChange::default() };
    assert!(pair.z.endpoint.set_supervision(pair.now, z, None, off));
    assert_eq!(probes_beside_data(&mut pair, a)[0], 0);
}

#[test]
fn a_path_whose_address_cannot_be_used_is_not_measured_for_data() {
    let (mut pair, a, _) = unmeasured(2);
    assert!(probes_beside_data(&mut pair, a)[1] > 0);
    pair.z.endpoint.suspend_local_address(pair.now, address(Side::Z, 2).ip());
    assert_eq!(probes_beside_data(&mut pair, a)[1], 0);
}
