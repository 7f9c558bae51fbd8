//! Several paths: verification, data on all of them, failure and return (RFC 9260 sections 5.4, 6.4
//! and 8, RFC 7829, RFC 6951 section 5.4).

use crate::craft::packet;
use crate::pair::{Pair, Side, address, config, endpoint, millis};
use manypath_engine::{
    AssociationId, CloseReason, Config, Duration, Endpoint, Event, LocalAddress, PathAddr, PathId,
    PathState, PathStatus,
};
use manypath_wire::chunk::{Chunk, Heartbeat, HeartbeatAck};
use std::net::SocketAddr;

fn path(pair: &Pair, id: AssociationId, number: usize) -> PathStatus {
    pair.a.endpoint.status(pair.now, id).unwrap().paths[number - 1].clone()
}

fn states(pair: &Pair, id: AssociationId) -> Vec<PathState> {
    let status = pair.a.endpoint.status(pair.now, id).unwrap();
    status.paths.iter().map(|path| path.state).collect()
}

fn changed(path: u8, state: PathState) -> Event {
    Event::PathChanged { path: PathId(path), state }
}

#[test]
fn the_second_path_is_verified_at_once() {
    let mut pair = Pair::new(2);
    let a = pair.connect();
    pair.drive(millis(45));
    assert_eq!(states(&pair, a), [PathState::Active, PathState::Unconfirmed]);
    pair.drive(millis(100));
    pair.expect(
        "A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO -> Z
         A -2> COOKIE_ECHO HEARTBEAT -> Z
         A <- COOKIE_ACK <- Z
         A <2- HEARTBEAT <- Z
         A <2- COOKIE_ACK HEARTBEAT HEARTBEAT_ACK <- Z
         A -2> HEARTBEAT_ACK -> Z
         A -2> HEARTBEAT -> Z
         A -2> HEARTBEAT_ACK -> Z
         A <2- HEARTBEAT <- Z
         A <2- HEARTBEAT_ACK <- Z
         A <2- HEARTBEAT <- Z
         A -2> HEARTBEAT_ACK -> Z
         A -2> HEARTBEAT_ACK -> Z",
    );
    assert_eq!(states(&pair, a), [PathState::Active; 2]);
    let addr = PathAddr { local: address(Side::A, 2), remote: address(Side::Z, 2) };
    assert_eq!(path(&pair, a, 2).addr, addr);
    assert!(path(&pair, a, 2).srtt.is_some_and(|srtt| srtt.as_millis() == 20));
    assert_eq!(pair.a.heard().last(), Some(&&changed(1, PathState::Active)));
    assert_eq!(pair.z.heard().last(), Some(&&changed(1, PathState::Active)));
}

#[test]
fn a_lost_heartbeat_of_full_size_does_not_keep_a_path_unused_for_an_rto() {
    let mut pair = Pair::new(2);
    let a = pair.connect();
    pair.drive(millis(30));
    pair.lose(Side::A, "HEARTBEAT", 1);
    let is_lost = |pair: &Pair| pair.last_lost.is_some();
    assert!(pair.drive_until(millis(20), is_lost));
    let confirmed = |pair: &Pair| states(pair, a) == [PathState::Active; 2];
    assert!(pair.drive_until(millis(150), confirmed), "{}", pair.take_ladder());
}

/// A server that is asked over the slow one of two paths.
fn slow_first() -> (Pair, AssociationId) {
    slow_first_with(config(Side::A))
}

fn slow_first_with(a: Config) -> (Pair, AssociationId) {
    let mut pair = Pair::with(2, a, config(Side::Z));
    pair.links.get_mut(&1).unwrap().delay = millis(300);
    let a = pair.connect();
    pair.send(Side::A, a, 0, b"get");
    (pair, a)
}

#[test]
fn the_first_cookie_echo_races_over_all_paths() {
    let (mut pair, a) = slow_first();
    pair.drive(millis(1300));
    pair.expect(
        "A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO DATA -> Z
         A -2> COOKIE_ECHO HEARTBEAT -> Z
         A <2- COOKIE_ACK HEARTBEAT HEARTBEAT_ACK <- Z
         A -2> HEARTBEAT -> Z
         A -2> HEARTBEAT_ACK -> Z
         A <2- HEARTBEAT_ACK <- Z
         A <2- HEARTBEAT <- Z
         A -2> DATA -> Z
         A -2> HEARTBEAT_ACK -> Z
         A <- SACK <- Z
         A -> DATA -> Z
         A <- COOKIE_ACK SACK <- Z
         A -2> HEARTBEAT -> Z
         A <2- HEARTBEAT_ACK <- Z
         A <- SACK <- Z",
    );
    let rtts = |endpoint: &Endpoint, id| -> Vec<_> {
        let status = endpoint.status(pair.now, id).unwrap();
        status.paths.iter().map(|path| path.srtt.unwrap().as_millis()).collect()
    };
    let z = pair.z.endpoint.associations()[0];
    assert_eq!(rtts(&pair.a.endpoint, a), [600, 20]);
    assert_eq!(rtts(&pair.z.endpoint, z), [600, 20]);
    assert_eq!(pair.a.endpoint.counters().unexpected_chunks, 0, "both copies are answered");
}

#[test]
fn what_left_with_the_cookie_echo_is_overtaken_by_a_faster_path() {
    let (mut pair, _) = slow_first();
    let arrived = |pair: &Pair| !pair.z.received.is_empty();
    assert!(pair.drive_until(millis(700), arrived));
    assert_eq!(pair.z.received, [(0, "get".into())]);
}

/// The answer may be to either INIT, so it is no sample of the round trip; it has taken longer than since the last one.
#[test]
fn what_left_with_the_cookie_echo_is_overtaken_after_a_repeated_init() {
    let (mut pair, _) = slow_first_with(Config { rto_initial: millis(350), ..config(Side::A) });
    let arrived = |pair: &Pair| !pair.z.received.is_empty();
    assert!(pair.drive_until(millis(700), arrived));
    assert_eq!(pair.z.received, [(0, "get".into())]);
}

#[test]
fn the_original_that_comes_when_all_is_over_begins_nothing() {
    let (mut pair, _) = slow_first();
    let arrived = |pair: &Pair| !pair.z.received.is_empty();
    assert!(pair.drive_until(millis(700), arrived));
    let (now, z) = (pair.now, pair.z.endpoint.associations()[0]);
    pair.z.endpoint.abort(now, z, b"enough");
    pair.drive(Duration::from_secs(1));
    assert!(pair.z.endpoint.associations().is_empty());
    assert_eq!(pair.z.received.len(), 1);
    assert_eq!(pair.z.endpoint.counters().used_cookie, 1);
}

/// An address that the server lists may be another host's in the network of the client.
#[test]
fn a_copy_of_the_cookie_echo_does_not_tell_the_tag_that_its_sender_expects() {
    let (mut pair, _) = slow_first();
    pair.record = true;
    pair.drive(millis(1300));
    let tag = pair.tag_of(Side::A).to_be_bytes();
    let echoes = pair.recorded.iter().filter(|(.., bytes)| bytes[12] == 10).count();
    let telling = |(from, addr, bytes): &&(Side, PathAddr, Vec<u8>)| {
        *from == Side::A
            && addr.local == address(Side::A, 2)
            && bytes.windows(tag.len()).any(|part| part == tag)
    };
    assert_eq!((echoes, pair.recorded.iter().find(telling)), (2, None));
}

#[test]
fn a_cookie_echo_that_is_lost_on_the_slow_path_is_not_missed() {
    let (mut pair, _) = slow_first();
    pair.lose(Side::A, "COOKIE_ECHO", 1);
    let arrived = |pair: &Pair| !pair.z.received.is_empty();
    assert!(pair.drive_until(millis(700), arrived));
}

#[test]
fn nothing_but_heartbeats_goes_to_an_unconfirmed_path() {
    let mut pair = Pair::new(2);
    pair.cut(2);
    let a = pair.connect();
    pair.send(Side::A, a, 0, &vec![1; 500_000]);
    pair.drive(Duration::from_secs(5));
    let on_second: Vec<_> =
        pair.ladder.iter().filter(|line| line.contains("2> ") || line.contains("<2-")).collect();
    assert!(on_second.len() > 4);
    assert!(on_second.iter().all(|line| line.contains(" HEARTBEAT /lost/")), "{on_second:#?}");
    assert_eq!(states(&pair, a), [PathState::Active, PathState::Unconfirmed]);
    assert_eq!(pair.z.received.len(), 1);
    pair.restore(2);
    pair.drive(millis(2100));
    assert_eq!(states(&pair, a), [PathState::Active; 2]);
}

#[test]
fn an_address_that_the_peer_only_lists_gets_little() {
    let mut pair = Pair::new(2);
    pair.cut(2);
    let a = pair.connect();
    pair.drive(Duration::from_secs(60));
    let first_minute = path(&pair, a, 2);
    pair.drive(Duration::from_secs(600));
    let (first, all) = (first_minute, path(&pair, a, 2));
    assert!(first.packets_sent > 10 && all.packets_sent > first.packets_sent);
    // HEARTBEATs, and a copy of the COOKIE ECHO.
    assert!(all.bytes_sent < 60 * all.packets_sent + 300, "{all:?}");
    assert!(all.packets_sent - first.packets_sent < 20, "{all:?} after {first:?}");
}

#[test]
fn data_goes_over_both_paths() {
    let slow = 20_000_000;
    let (mut pair, a, _) = Pair::established(2);
    pair.links.values_mut().for_each(|link| link.rate = slow);
    let text: Vec<u8> = (0..2_000_000_u32).map(|n| n as u8).collect();
    pair.send(Side::A, a, 0, &text);
    let start = pair.now;
    assert!(pair.drive_until(Duration::from_secs(3), |pair| !pair.z.received.is_empty()));
    assert!(pair.z.received[0].1 == text);
    let seconds = pair.now.since(start).as_secs_f64();
    let one_path = 2_000_000.0 * 8.0 / slow as f64;
    assert!(seconds < 0.65 * one_path, "{seconds} s, {one_path} s on one path");
    let sent = [1, 2].map(|number| path(&pair, a, number).bytes_sent);
    assert!(sent.iter().all(|bytes| *bytes > 800_000), "{sent:?}");
}

#[test]
fn without_multipath_only_the_primary_is_used() {
    let single = |side| Config { multipath: false, ..config(side) };
    let (mut pair, a, _) = Pair::established_with(2, single(Side::A), single(Side::Z));
    pair.send(Side::A, a, 0, &vec![1; 300_000]);
    pair.drive(Duration::from_secs(1));
    assert_eq!(pair.z.received.len(), 1);
    assert!(!pair.take_ladder().contains("-2> DATA"));
    pair.cut(1);
    pair.send(Side::A, a, 0, &vec![2; 300_000]);
    pair.drive(Duration::from_secs(2));
    assert_eq!(pair.z.received.len(), 2);
    assert!(pair.take_ladder().contains("-2> DATA"));
    pair.restore(1);
    pair.drive(Duration::from_secs(3));
    pair.ladder.clear();
    pair.send(Side::A, a, 0, b"back on the primary");
    pair.drive(millis(100));
    assert!(pair.take_ladder().starts_with("A -> DATA -> Z"));
}

#[test]
fn a_cut_path_is_left_and_found_again() {
    let (mut pair, a, _) = Pair::established(2);
    for link in pair.links.values_mut() {
        (link.rate, link.queue) = (10_000_000, millis(60));
    }
    pair.send(Side::A, a, 0, &vec![1; 3_000_000]);
    pair.drive(millis(500));
    pair.cut(1);
    pair.drive(Duration::from_secs(1));
    assert_eq!(path(&pair, a, 1).state, PathState::PotentiallyFailed);
    assert_eq!(pair.a.heard(), [&changed(0, PathState::PotentiallyFailed)]);
    assert!(pair.drive_until(Duration::from_secs(5), |pair| !pair.z.received.is_empty()));
    pair.drive(Duration::from_secs(60));
    assert_eq!(path(&pair, a, 1).state, PathState::Inactive);
    pair.restore(1);
    let restored = pair.now;
    let active = |pair: &Pair| path(pair, a, 1).state == PathState::Active;
    assert!(pair.drive_until(Duration::from_secs(10), active));
    assert!(pair.now.since(restored) <= millis(2100), "{:?}", pair.now.since(restored));
    assert_eq!(path(&pair, a, 1).error_count, 0);
    pair.ladder.clear();
    pair.send(Side::A, a, 0, &vec![2; 500_000]);
    pair.drive(Duration::from_secs(1));
    assert!(pair.take_ladder().contains("A -> DATA -> Z"), "the path carries data again");
    assert_eq!(pair.z.received.len(), 2);
}

#[test]
fn probing_a_dead_path_does_not_end_an_idle_association() {
    // Fewer errors than a dead path makes before the other one is probed again.
    let few = |multipath, potentially_failed_retransmits| Config {
        multipath,
        association_max_retransmits: 2,
        potentially_failed_retransmits,
        ..config(Side::A)
    };
    for strict in [few(true, 0), few(true, 5), few(false, 0)] {
        for dead in [1, 2] {
            let (mut pair, a, _) = Pair::established_with(2, strict.clone(), config(Side::Z));
            pair.cut(dead);
            pair.drive(Duration::from_secs(600));
            assert_eq!(path(&pair, a, dead.into()).state, PathState::Inactive);
            assert_eq!(path(&pair, a, 3 - usize::from(dead)).state, PathState::Active);
            pair.cut(3 - dead);
            pair.drive(Duration::from_secs(120));
            let last = Event::Closed(CloseReason::TooManyFailures);
            assert_eq!(pair.a.heard().last(), Some(&&last), "no path is left");
        }
    }
}

#[test]
fn an_idle_association_survives_seconds_without_its_last_path() {
    let (mut pair, a, _) = Pair::established(2);
    pair.cut(1);
    pair.drive(Duration::from_secs(600));
    pair.cut(2);
    pair.drive(Duration::from_secs(30));
    assert_eq!(pair.a.endpoint.associations(), [a]);
    pair.restore(2);
    pair.drive(Duration::from_secs(60));
    assert_eq!(states(&pair, a), [PathState::Inactive, PathState::Active]);
}

#[test]
fn a_total_outage_of_seconds_is_survived_and_of_minutes_is_not() {
    for (outage, survives) in [(20, true), (3600, false)] {
        for busy in [true, false] {
            let (mut pair, a, z) = Pair::established(2);
            if busy {
                pair.send(Side::A, a, 0, &vec![1; 3_000_000]);
                pair.drive(millis(15));
            }
            pair.cut(1);
            pair.cut(2);
            pair.drive(Duration::from_secs(outage));
            pair.restore(1);
            pair.restore(2);
            pair.drive(Duration::from_secs(30));
            if survives {
                assert_eq!(states(&pair, a), [PathState::Active; 2], "busy {busy}");
                assert_eq!(pair.z.received.len(), usize::from(busy));
            } else {
                assert!(pair.a.endpoint.associations().is_empty(), "busy {busy}");
                let last = Event::Closed(CloseReason::TooManyFailures);
                assert_eq!(pair.a.heard().last(), Some(&&last));
                let ended = pair.z.events.last().map(|(id, event)| (*id, event.clone()));
                assert_eq!(ended, Some((z, last)));
            }
        }
    }
}

#[test]
fn a_path_that_is_narrower_than_its_interface_is_not_used() {
    let mut pair = Pair::new(2);
    pair.links.get_mut(&2).unwrap().largest = 1400;
    let a = pair.connect();
    pair.send(Side::A, a, 0, &vec![1; 1_000_000]);
    pair.drive(Duration::from_secs(2));
    assert_eq!(states(&pair, a), [PathState::Active, PathState::Unconfirmed]);
    assert_eq!(pair.z.received.len(), 1);
    assert_eq!(path(&pair, a, 1).timeouts, 0);
}

#[test]
fn after_a_total_outage_data_moves_to_the_path_that_returns_first() {
    for returning in [1, 2] {
        let (mut pair, a, _) = Pair::established(2);
        pair.send(Side::A, a, 0, &vec![1; 1_000_000]);
        pair.drive(millis(15));
        pair.cut(1);
        pair.cut(2);
        pair.drive(Duration::from_secs(40));
        pair.restore(returning);
        let restored = pair.now;
        assert!(pair.drive_until(Duration::from_secs(60), |pair| !pair.z.received.is_empty()));
        let waited = pair.now.since(restored);
        assert!(waited < Duration::from_secs(3), "path {returning}: {waited:?}");
    }
}

#[test]
fn idle_paths_are_probed_every_heartbeat_interval() {
    let (mut pair, a, _) = Pair::established(2);
    pair.drive(Duration::from_secs(95));
    let ladder = pair.take_ladder();
    for heartbeat in ["A -> HEARTBEAT ->", "A -2> HEARTBEAT ->", "A <- HEARTBEAT <-"] {
        assert_eq!(ladder.matches(heartbeat).count(), 3, "{heartbeat}");
    }
    assert_eq!(states(&pair, a), [PathState::Active; 2]);
}

#[test]
fn forged_heartbeat_acks_confirm_nothing() {
    let mut pair = Pair::new(2);
    pair.cut(2);
    let a = pair.connect();
    pair.drive(millis(500));
    let tag = pair.tag_of(Side::A);
    let mut info = [0; 35];
    info[16] = 1;
    for info in [&info[..], &info[..34], &[]] {
        let ack = Chunk::HeartbeatAck(HeartbeatAck { info });
        pair.inject(Side::Z, 1, &packet(Side::Z, tag, &[ack]));
    }
    pair.drive(millis(50));
    assert_eq!(pair.a.endpoint.counters().bad_heartbeat_acks, 3);
    assert_eq!(states(&pair, a), [PathState::Active, PathState::Unconfirmed]);
}

#[test]
fn an_unreachable_report_makes_data_leave_the_path() {
    let (mut pair, a, _) = Pair::established(2);
    let addr = path(&pair, a, 1).addr;
    for _ in 0..20 {
        pair.a.endpoint.handle_unreachable(pair.now, addr);
    }
    assert_eq!(path(&pair, a, 1).error_count, 1, "a burst of reports is one error");
    assert_eq!(states(&pair, a), [PathState::PotentiallyFailed, PathState::Active]);
    pair.drive(millis(50));
    assert_eq!(states(&pair, a), [PathState::Active; 2], "the probe has refuted it");
}

#[test]
fn a_new_udp_port_of_the_peer_is_learned() {
    let (mut pair, a, z) = Pair::established(1);
    let tag = pair.tag_of(Side::Z);
    let elsewhere = SocketAddr::from(([10, 1, 0, 1], 41_000));
    let from = PathAddr { local: elsewhere, remote: address(Side::Z, 1) };
    let heartbeat = Chunk::Heartbeat(Heartbeat { info: &[1, 2, 3, 4] });
    pair.inject_from(Side::A, from, &packet(Side::A, tag, &[heartbeat]));
    pair.drive(millis(50));
    let paths = pair.z.endpoint.status(pair.now, z).unwrap().paths;
    assert_eq!(paths.len(), 1);
    assert_eq!(paths[0].addr.remote, elsewhere);
    pair.send(Side::A, a, 0, b"from the old port");
    pair.drive(millis(100));
    let paths = pair.z.endpoint.status(pair.now, z).unwrap().paths;
    assert_eq!(paths[0].addr.remote, address(Side::A, 1));
}

#[test]
fn a_peer_that_comes_to_another_port_of_ours_is_answered_from_there() {
    let (mut pair, _, z) = Pair::established(1);
    let tag = pair.tag_of(Side::Z);
    let other = SocketAddr::new(address(Side::Z, 1).ip(), 443);
    let from = PathAddr { local: address(Side::A, 1), remote: other };
    let heartbeat = Chunk::Heartbeat(Heartbeat { info: &[1, 2, 3, 4] });
    pair.inject_from(Side::A, from, &packet(Side::A, tag, &[heartbeat]));
    pair.drive(millis(50));
    let paths = pair.z.endpoint.status(pair.now, z).unwrap().paths;
    assert_eq!((paths.len(), paths[0].addr.local), (1, other));
}

#[test]
fn two_uplinks_to_a_server_with_one_address_are_two_paths() {
    let mut pair = Pair::new(1);
    pair.links.insert(9, pair.links[&1]);
    let second = SocketAddr::from(([10, 9, 0, 1], 9899));
    let second = LocalAddress { addr: second, prefix_len: 24, interface: 0, mtu: 1400 };
    pair.a.endpoint.add_local_address(second);
    let a = pair.connect();
    pair.drive(millis(200));
    let paths = pair.a.endpoint.status(pair.now, a).unwrap().paths;
    let pairs: Vec<_> = paths.iter().map(|path| (path.addr.local, path.addr.remote)).collect();
    let server = address(Side::Z, 1);
    assert_eq!(pairs, [(address(Side::A, 1), server), (second.addr, server)]);
    assert_eq!(states(&pair, a), [PathState::Active; 2]);
    assert_eq!(pair.a.endpoint.fragment_size(a), 1400 - 28 - 12 - 16);
}

#[test]
fn hundreds_of_associations_take_turns() {
    let mut pair = Pair::with(1, Config { port: 0, ..config(Side::A) }, config(Side::Z));
    let ids: Vec<_> = (0..200).map(|_| pair.connect()).collect();
    for id in &ids {
        pair.send(Side::A, *id, 0, &id.0.to_be_bytes());
    }
    pair.drive(millis(200));
    assert_eq!(pair.z.endpoint.associations().len(), 200);
    let order: Vec<_> = pair.z.received.iter().map(|(_, text)| text.clone()).collect();
    let expected: Vec<_> = ids.iter().map(|id| id.0.to_be_bytes().to_vec()).collect();
    assert_eq!(order, expected);
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let run = |seed| {
        let mut pair = Pair::new(2);
        pair.a.endpoint = endpoint(Side::A, 2, config(Side::A), seed);
        pair.record = true;
        let a = pair.connect();
        pair.send(Side::A, a, 0, &vec![5; 300_000]);
        pair.drive(millis(300));
        pair.cut(2);
        pair.drive(Duration::from_secs(3));
        pair.recorded
    };
    assert!(run(5) == run(5));
    assert!(run(5) != run(6));
}
