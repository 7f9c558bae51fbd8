//! A client with several uplinks and a server with one address: INITs leave over all of them at once.

use crate::craft::packet;
use crate::pair::{PORT_Z, Pair, Side, address, config, millis};
use manypath_engine::{
    Announce, AssociationId, AssociationState, CloseReason, Config, Duration, Event, LocalAddress,
    PathAddr, PathPolicy, PathRole, PathRule, PathState,
};
use manypath_wire::cause::{Cause, CauseWriter, Causes};
use manypath_wire::chunk::{Abort, Chunk};
use std::net::SocketAddr;

/// Uplinks with these one-way delays in ms, and what the client is configured to.
fn uplinks(delays: &[u64], a: Config) -> Pair {
    Pair::uplinks(delays, a, config(Side::Z))
}

fn inits(pair: &Pair) -> Vec<&str> {
    pair.ladder.iter().map(|line| &**line).filter(|line| line.contains("INIT ")).collect()
}

fn state(pair: &Pair, id: AssociationId) -> AssociationState {
    pair.a.endpoint.status(pair.now, id).unwrap().state
}

/// The locals of A's paths in the order of their numbers, with round trips in ms.
fn paths(pair: &Pair, id: AssociationId) -> Vec<(SocketAddr, Option<u128>)> {
    let paths = pair.a.endpoint.status(pair.now, id).unwrap().paths;
    let srtt = |srtt: Option<Duration>| srtt.map(|srtt| srtt.as_millis());
    paths.iter().map(|path| (path.addr.local, srtt(path.srtt))).collect()
}

#[test]
fn an_init_goes_over_each_uplink_and_the_first_answer_counts() {
    let mut pair = uplinks(&[300, 10], config(Side::A));
    let a = pair.connect_to_server();
    pair.send(Side::A, a, 0, b"get");
    pair.drive(millis(50));
    pair.expect(
        "A -> INIT -> Z
         A -2> INIT -> Z
         A <2- INIT_ACK <- Z
         A -2> COOKIE_ECHO DATA -> Z
         A -> COOKIE_ECHO HEARTBEAT -> Z
         A <2- COOKIE_ACK SACK <- Z
         A <- HEARTBEAT <- Z",
    );
    assert_eq!(state(&pair, a), AssociationState::Established);
    assert_eq!(pair.z.received, [(0, "get".into())]);
    let z = pair.z.endpoint.associations()[0];
    pair.send(Side::Z, z, 0, b"answer");
    pair.drive(millis(15));
    assert_eq!(pair.a.received, [(0, "answer".into())], "over the way that the COOKIE ECHO came");
    pair.drive(millis(1500));
    let expected = [(address(Side::A, 2), Some(20)), (address(Side::A, 1), Some(600))];
    assert_eq!(paths(&pair, a), expected);
    let counters = pair.a.endpoint.counters();
    assert_eq!((counters.late_init_acks, counters.unexpected_chunks), (1, 0));
    assert_eq!(pair.z.endpoint.associations(), [z]);
    assert_eq!(pair.z.endpoint.counters().unexpected_chunks, 0);
}

#[test]
fn packets_of_the_handshake_count_on_the_paths_that_they_take() {
    let mut pair = uplinks(&[300, 10], config(Side::A));
    let a = pair.connect_to_server();
    pair.drive(millis(25));
    let paths = pair.a.endpoint.status(pair.now, a).unwrap().paths;
    let counts: Vec<_> = paths.iter().map(|it| (it.packets_sent, it.packets_received)).collect();
    assert_eq!(counts, [(2, 1), (2, 0)], "INIT and COOKIE ECHO over both, one INIT ACK");
}

#[test]
fn over_equal_uplinks_the_first_one_carries_the_handshake() {
    let mut pair = uplinks(&[10, 10], config(Side::A));
    let a = pair.connect_to_server();
    pair.drive(millis(100));
    let paths = pair.a.endpoint.status(pair.now, a).unwrap().paths;
    let seen: Vec<_> = paths.iter().map(|path| (path.addr.local, path.state)).collect();
    assert_eq!(seen, [1, 2].map(|number| (address(Side::A, number), PathState::Active)));
    assert_eq!(pair.a.endpoint.counters().late_init_acks, 1);
}

#[test]
fn a_dead_uplink_holds_nothing_up() {
    for dead in [1, 2] {
        let mut pair = uplinks(&[10, 10], config(Side::A));
        pair.cut(dead);
        let a = pair.connect_to_server();
        pair.drive(millis(50));
        assert_eq!(state(&pair, a), AssociationState::Established, "uplink {dead} is dead");
    }
}

#[test]
fn t1_init_repeats_all_of_them() {
    let mut pair = uplinks(&[10, 10], config(Side::A));
    pair.lose(Side::A, "INIT", 2);
    let a = pair.connect_to_server();
    pair.drive(millis(999));
    assert_eq!(inits(&pair), ["A -> INIT /lost/ -> Z", "A -2> INIT /lost/ -> Z"]);
    pair.drive(millis(50));
    assert_eq!(inits(&pair)[2..], ["A -> INIT -> Z", "A -2> INIT -> Z"]);
    assert_eq!(state(&pair, a), AssociationState::Established);
}

#[test]
fn copies_are_no_attempts_of_their_own() {
    let mut pair = uplinks(&[10, 10], Config { max_init_retransmits: 2, ..config(Side::A) });
    pair.cut(1);
    pair.cut(2);
    pair.connect_to_server();
    pair.drive(Duration::from_secs(8));
    assert_eq!(inits(&pair).len(), 6);
    assert_eq!(pair.a.heard(), [&Event::Closed(CloseReason::NoAnswer)]);
}

/// The network says of one uplink that it leads nowhere: the INIT over the other one is under way already.
#[test]
fn an_uplink_without_a_route_costs_nothing() {
    let mut pair = uplinks(&[10, 40], config(Side::A));
    pair.cut(1);
    let a = pair.connect_to_server();
    pair.drive(millis(1));
    let [first, second] =
        [1, 2].map(|number| PathAddr { local: address(Side::A, number), remote: Pair::server() });
    pair.a.endpoint.handle_unreachable(pair.now, first);
    pair.drive(millis(20));
    assert_eq!(inits(&pair).len(), 2);
    pair.drive(millis(150));
    assert_eq!(state(&pair, a), AssociationState::Established);
    let mut pair = uplinks(&[10, 40], config(Side::A));
    pair.connect_to_server();
    for addr in [second, first] {
        assert!(pair.a.heard().is_empty());
        pair.a.endpoint.handle_unreachable(pair.now, addr);
        pair.drive(Duration::ZERO);
    }
    assert_eq!(pair.a.heard(), [&Event::Closed(CloseReason::Unreachable)]);
}

#[test]
fn only_ways_that_are_as_good_get_copies() {
    let alone = ["A -> INIT -> Z"];
    for unlike in [
        Config { handshake_race: false, ..config(Side::A) },
        Config { multipath: false, ..config(Side::A) },
        Config { announce: Announce::Authenticated, ..config(Side::A) },
    ] {
        let mut pair = uplinks(&[10, 10], unlike);
        pair.connect_to_server();
        pair.drive(millis(1));
        assert_eq!(inits(&pair), alone);
    }
    for role in [PathRole::Backup, PathRole::Disabled] {
        let mut pair = uplinks(&[10, 10], config(Side::A));
        let policy = PathPolicy { role, ..PathPolicy::default() };
        let local = Some(address(Side::A, 2).ip());
        let rules = vec![PathRule { local, remote: None, policy }];
        pair.a.endpoint.set_path_policies(pair.now, rules);
        pair.connect_to_server();
        pair.drive(millis(1));
        assert_eq!(inits(&pair), alone, "{role:?}");
    }
    // A private address may be that of another host in the other network.
    let mut pair = uplinks(&[10, 10], config(Side::A));
    pair.a.endpoint.connect(pair.now, address(Side::Z, 9), PORT_Z).unwrap();
    pair.drive(millis(1));
    assert_eq!(inits(&pair), alone);
    let mut pair = uplinks(&[10, 10, 10], config(Side::A));
    for (number, interface) in [(1, 7), (2, 7), (3, 8)] {
        let addr = address(Side::A, number);
        let local = LocalAddress { addr, prefix_len: 24, interface, mtu: 1500 };
        pair.a.endpoint.add_local_address(local);
    }
    pair.connect_to_server();
    pair.drive(millis(1));
    assert_eq!(inits(&pair), ["A -> INIT -> Z", "A -3> INIT -> Z"]);
}

/// An ABORT of the server for what came by an uplink of A.
fn refuse(pair: &mut Pair, uplink: u8, cause: &Cause<'_>) {
    let (_, _, init) = pair.recorded.iter().find(|(from, _, _)| *from == Side::A).unwrap();
    let tag = u32::from_be_bytes(init[16..20].try_into().unwrap());
    let mut buffer = [0; 32];
    let mut causes = CauseWriter::new(&mut buffer);
    assert!(causes.push(cause).is_ok());
    let len = causes.finish();
    let causes = Causes::from_bytes(&buffer[..len]);
    let abort = packet(Side::Z, tag, &[Chunk::Abort(Abort { tag_reflected: false, causes })]);
    let from_server = PathAddr { local: Pair::server(), remote: address(Side::A, uplink) };
    pair.inject_from(Side::Z, from_server, &abort);
}

const CROWDED: Cause<'_> = Cause::OutOfResource;

/// A NAT makes an address of an uplink that the server has never heard of. One without this extension takes the copy of the
/// INIT for a restart with further addresses, another has no place left for an address that it does not know.
#[test]
fn the_refusal_of_a_late_copy_ends_nothing() {
    for cause in [CROWDED, Cause::RestartWithNewAddresses(&[0, 5, 0, 8, 192, 0, 2, 1])] {
        let mut pair = uplinks(&[300, 10], config(Side::A));
        pair.record = true;
        let a = pair.connect_to_server();
        pair.drive(millis(100));
        refuse(&mut pair, 1, &cause);
        pair.drive(millis(400));
        assert_eq!(state(&pair, a), AssociationState::Established);
        assert_eq!(pair.a.endpoint.counters().refused_init_copies, 1);
        // Over the way that carries the association it is what it was.
        refuse(&mut pair, 2, &cause);
        pair.drive(millis(20));
        assert!(matches!(pair.a.heard()[..], [.., Event::Closed(CloseReason::PeerAborted(_))]));
    }
}

#[test]
fn an_uplink_whose_address_is_refused_costs_nothing_while_another_is_left() {
    for (refused, left) in [(1, 2), (2, 1)] {
        let mut pair = uplinks(&[40, 40], config(Side::A));
        pair.record = true;
        pair.cut(refused);
        let a = pair.connect_to_server();
        pair.drive(millis(1));
        refuse(&mut pair, refused, &CROWDED);
        pair.drive(millis(200));
        assert_eq!(state(&pair, a), AssociationState::Established, "over {left}");
        assert_eq!(inits(&pair).len(), 2);
    }
    let mut pair = uplinks(&[300, 300], config(Side::A));
    pair.record = true;
    pair.connect_to_server();
    pair.drive(millis(1));
    refuse(&mut pair, 1, &CROWDED);
    pair.drive(millis(10));
    refuse(&mut pair, 2, &CROWDED);
    pair.drive(millis(295));
    assert!(pair.a.heard().is_empty());
    pair.drive(millis(10));
    assert_eq!(pair.a.heard(), [&Event::Closed(CloseReason::PeerAborted(Some(4)))]);
}

#[test]
fn the_rules_of_the_association_hold_whichever_uplink_wins() {
    let mut pair = uplinks(&[300, 10, 20], config(Side::A));
    let policy = PathPolicy { role: PathRole::Disabled, ..PathPolicy::default() };
    let rule = PathRule { local: Some(address(Side::A, 3).ip()), remote: None, policy };
    let own = config(Side::A);
    let a = pair.a.endpoint.connect_with(pair.now, Pair::server(), PORT_Z, own, Some(vec![rule]));
    let a = a.unwrap();
    pair.drive(millis(1500));
    let paths = pair.a.endpoint.status(pair.now, a).unwrap().paths;
    let third = paths.iter().find(|path| path.addr.local == address(Side::A, 3)).unwrap();
    assert_eq!(third.policy.role, PathRole::Disabled);
    assert!(
        !pair
            .ladder
            .iter()
            .any(|line| line.contains("A -3> COOKIE") || line.contains("A -3> INIT"))
    );
    assert_eq!(paths[0].addr.local, address(Side::A, 2));
}
