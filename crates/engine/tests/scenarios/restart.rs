//! Setup chunks for an association that exists: both ends at once, a reboot, copies
//! (RFC 9260 section 5.2).

use crate::pair::{Pair, Side, address, config, endpoint, message, millis};
use crate::parameters::{TAG, echo_cookie, first_chunk, init_ack, last};
use manypath_engine::{
    AssociationState, CloseReason, Config, Duration, Event, PathAddr, Reliability, SendError,
    StreamId, StreamOptions, SupervisionChange,
};
use manypath_wire::chunk::Chunk;
use manypath_wire::packet::Packet;

#[test]
fn both_ends_connect_at_once() {
    let mut pair = Pair::new(1);
    let a = pair.connect_from(Side::A);
    let z = pair.connect_from(Side::Z);
    pair.send(Side::A, a, 0, b"from a");
    pair.send(Side::Z, z, 0, b"from z");
    pair.drive(millis(500));
    assert_eq!(
        (pair.a.endpoint.associations(), pair.z.endpoint.associations()),
        (vec![a], vec![z])
    );
    for (node, id, text) in [(&pair.a, a, "from z"), (&pair.z, z, "from a")] {
        assert_eq!(node.received, [(0, text.into())], "{:#?}", pair.ladder);
        let status = node.endpoint.status(pair.now, id).unwrap();
        assert_eq!(status.state, AssociationState::Established);
        let ups = node.heard().iter().filter(|e| matches!(e, Event::Connected { .. })).count();
        assert_eq!(ups, 1);
    }
}

#[test]
fn both_ends_connect_and_every_chunk_of_one_is_lost_once() {
    for chunk in ["INIT", "INIT_ACK", "COOKIE_ECHO", "COOKIE_ACK"] {
        let mut pair = Pair::new(1);
        pair.lose(Side::A, chunk, 1);
        let a = pair.connect_from(Side::A);
        let z = pair.connect_from(Side::Z);
        pair.send(Side::A, a, 0, b"from a");
        pair.send(Side::Z, z, 0, b"from z");
        pair.drive(Duration::from_secs(4));
        assert_eq!(pair.a.received, [(0, "from z".into())], "{chunk}: {:#?}", pair.ladder);
        assert_eq!(pair.z.received, [(0, "from a".into())], "{chunk}: {:#?}", pair.ladder);
        assert_eq!(pair.a.endpoint.associations(), [a]);
        assert_eq!(pair.z.endpoint.associations(), [z]);
    }
}

#[test]
fn the_second_end_connects_while_the_first_is_half_way() {
    for delay in [5, 15, 25, 35, 45] {
        let mut pair = Pair::new(1);
        let a = pair.connect_from(Side::A);
        pair.drive(millis(delay));
        let (now, remote) = (pair.now, crate::pair::address(Side::A, 1));
        let second = pair.z.endpoint.connect(now, remote, crate::pair::PORT_A);
        pair.send(Side::A, a, 0, b"from a");
        pair.drive(Duration::from_secs(4));
        assert_eq!(pair.a.endpoint.associations(), [a], "{delay}");
        assert_eq!(pair.z.endpoint.associations().len(), 1, "{delay}");
        assert_eq!(pair.z.received, [(0, "from a".into())], "{delay}: {:#?}", pair.ladder);
        assert_eq!(second.is_err(), delay >= 35, "an association exists from the cookie on");
    }
}

#[test]
fn a_rebooted_peer_gets_the_association_anew() {
    let (mut pair, _, z) = Pair::established(2);
    pair.a.endpoint = endpoint(Side::A, 2, config(Side::A), 99);
    let again = pair.connect();
    pair.send(Side::A, again, 0, b"after the reboot");
    pair.drive(millis(200));
    pair.expect(
        "A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO DATA -> Z
         A -2> COOKIE_ECHO HEARTBEAT -> Z
         A <- COOKIE_ACK SACK <- Z
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
    assert_eq!(pair.z.endpoint.associations(), [z]);
    assert_eq!(pair.z.heard()[..2], [&Event::Restarted, &Event::Readable]);
    assert_eq!(pair.z.received, [(0, "after the reboot".into())]);
    pair.send(Side::Z, z, 1, b"welcome back");
    pair.drive(millis(200));
    assert_eq!(pair.a.received, [(1, "welcome back".into())]);
}

#[test]
fn a_reboot_with_new_addresses_is_refused() {
    let (mut pair, _, z) = Pair::established(1);
    pair.a.endpoint = endpoint(Side::A, 2, config(Side::A), 99);
    pair.connect();
    pair.drive(millis(100));
    pair.expect("A -> INIT -> Z\nA <- ABORT <- Z");
    let restart_with_new_addresses = CloseReason::PeerAborted(Some(11));
    assert_eq!(pair.a.heard(), [&Event::Closed(restart_with_new_addresses)]);
    let status = pair.z.endpoint.status(pair.now, z).unwrap();
    assert_eq!(status.state, AssociationState::Established);
}

/// A proxy that carries packets has an address of its own, and may bring the INIT after the association is there.
#[test]
fn a_copy_of_the_init_from_another_address_changes_nothing() {
    let mut pair = Pair::new(2);
    pair.record = true;
    let a = pair.connect();
    pair.drive(millis(100));
    let z = pair.z.endpoint.associations()[0];
    let (from, addr, init) = pair.recorded.remove(0);
    let elsewhere = PathAddr { local: address(Side::A, 3), ..addr };
    pair.inject_from(from, elsewhere, &init);
    pair.drive(millis(100));
    assert!(!pair.ladder.iter().any(|line| line.contains("ABORT")), "{:#?}", pair.ladder);
    assert_eq!(pair.z.endpoint.counters().unexpected_chunks, 1);
    pair.send(Side::A, a, 0, b"still here");
    pair.drive(millis(100));
    assert_eq!(pair.z.received, [(0, "still here".into())]);
    assert_eq!(pair.z.endpoint.associations(), [z]);
}

#[test]
fn the_peer_of_a_rebooted_end_learns_it_by_an_abort() {
    let (mut pair, _, z) = Pair::established(1);
    pair.a.endpoint = endpoint(Side::A, 1, config(Side::A), 99);
    pair.send(Side::Z, z, 0, b"anybody there?");
    pair.drive(millis(100));
    pair.expect("A <- DATA <- Z\nA -> ABORT -> Z");
    assert_eq!(pair.z.heard(), [&Event::Closed(CloseReason::PeerAborted(None))]);
}

#[test]
fn a_copied_handshake_changes_nothing() {
    let mut pair = Pair::new(1);
    pair.record = true;
    let a = pair.connect();
    pair.drive(millis(100));
    let z = pair.z.endpoint.associations()[0];
    let copies = std::mem::take(&mut pair.recorded);
    assert_eq!(copies.len(), 4);
    for (from, addr, bytes) in copies {
        pair.inject_from(from, addr, &bytes);
        pair.drive(millis(100));
    }
    pair.send(Side::A, a, 0, b"still here");
    pair.drive(millis(100));
    assert_eq!(pair.z.received, [(0, "still here".into())]);
    assert_eq!(pair.z.endpoint.associations(), [z]);
    assert_eq!(pair.a.endpoint.associations(), [a]);
}

#[test]
fn a_late_cookie_of_a_collision_changes_the_tag_and_loses_nothing() {
    let mut pair = Pair::with(1, Config { accept: true, ..config(Side::A) }, config(Side::Z));
    pair.z.reads = false;
    pair.lose(Side::Z, "INIT", 1);
    let z = pair.connect_from(Side::Z);
    pair.drive(millis(1));
    // Another end at A's address has crossed the INIT of Z with its own.
    pair.lose(Side::Z, "INIT_ACK", 1);
    let late = init_ack(&mut pair, &[]);
    pair.drive(Duration::from_secs(2));
    let a = *pair.a.endpoint.associations().first().unwrap_or_else(|| panic!("{:#?}", pair.ladder));
    pair.send(Side::A, a, 0, b"unread");
    pair.drive(millis(100));
    let Chunk::InitAck(ack) = first_chunk(&late) else { panic!("no INIT ACK") };
    assert_eq!(ack.tag.0, pair.tag_of(Side::Z), "it belongs to the association");
    echo_cookie(&mut pair, &late);
    pair.drive(millis(10));
    assert_eq!(Packet::parse(&last(&pair, Side::Z)).unwrap().header().tag.0, TAG);
    pair.z.read_all(z);
    assert_eq!(pair.z.received[0], (0, "unread".into()));
}

#[test]
fn an_init_while_the_shutdown_is_nearly_over_repeats_the_shutdown_ack() {
    let (mut pair, a, _) = Pair::established(1);
    pair.lose(Side::Z, "SHUTDOWN_ACK", 1);
    let now = pair.now;
    pair.a.endpoint.shutdown(now, a);
    pair.drive(millis(30));
    pair.a.endpoint = endpoint(Side::A, 1, config(Side::A), 99);
    pair.ladder.clear();
    pair.connect();
    pair.drive(millis(1500));
    pair.expect(
        "A -> INIT -> Z
         A <- SHUTDOWN_ACK <- Z
         A -> SHUTDOWN_COMPLETE -> Z
         A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO -> Z
         A <- COOKIE_ACK <- Z",
    );
}

#[test]
fn what_the_user_has_set_outlives_a_restart_of_the_peer() {
    let partial = |side| Config { partial_reliability: true, ..config(side) };
    let (mut pair, _, z) = Pair::established_with(2, partial(Side::A), partial(Side::Z));
    let (now, stack) = (pair.now, &mut pair.z.endpoint);
    let interval = |seconds| SupervisionChange {
        heartbeat_interval: Some(Duration::from_secs(seconds)),
        ..SupervisionChange::default()
    };
    let second = address(Side::A, 2).ip();
    assert!(stack.set_supervision(now, z, None, interval(7)));
    assert!(stack.set_supervision(now, z, Some(second), interval(9)));
    let bounds = (Duration::from_secs(3), Duration::from_secs(5));
    stack.set_rto(now, z, Duration::from_secs(4), bounds);
    stack.set_fragment_limit(now, z, Some(500));
    stack.set_nagle(now, z, true);
    stack.set_reliability(z, None, Reliability::Retransmissions(0));
    let urgent = StreamOptions { priority: 9, ..StreamOptions::default() };
    assert!(stack.set_stream_options(now, z, StreamId(3), urgent));
    pair.a.endpoint = endpoint(Side::A, 2, partial(Side::A), 99);
    pair.connect();
    pair.drive(millis(500));
    assert_eq!(pair.z.heard()[0], &Event::Restarted);
    let stack = &pair.z.endpoint;
    let told = |remote| stack.supervision(z, remote).unwrap().heartbeat_interval.as_millis();
    assert_eq!([told(None), told(Some(second))], [7000, 9000]);
    let paths = stack.status(pair.now, z).unwrap().paths;
    assert!(paths.len() == 2 && paths.iter().all(|path| path.rto >= bounds.0), "{paths:?}");
    assert_eq!(stack.fragment_size(z), 500);
    pair.ladder.clear();
    pair.lose(Side::Z, "DATA", 1);
    for text in [b"one", b"two"] {
        pair.send(Side::Z, z, 3, text);
        pair.drive(millis(1));
    }
    assert_eq!(pair.take_ladder().matches("DATA").count(), 1, "the second waits for the first");
    pair.drive(Duration::from_secs(10));
    let failed = |event: &&Event| matches!(event, Event::SendFailed { .. });
    assert_eq!(pair.z.heard().into_iter().filter(failed).count(), 1);
}

#[test]
fn who_waits_for_room_to_send_hears_of_it_when_the_peer_has_restarted() {
    let small = Config { send_buffer: 10_000, ..config(Side::Z) };
    let (mut pair, _, z) = Pair::established_with(1, config(Side::A), small);
    pair.cut(1);
    pair.send(Side::Z, z, 0, &[1; 9000]);
    let refused = pair.z.endpoint.send(pair.now, z, message(0, &[2; 9000]));
    assert_eq!(refused, Err(SendError::BufferFull));
    pair.drive(millis(10));
    pair.restore(1);
    pair.a.endpoint = endpoint(Side::A, 1, config(Side::A), 99);
    pair.connect();
    pair.drive(millis(500));
    assert_eq!(pair.z.heard()[..2], [&Event::Restarted, &Event::Writable]);
}
