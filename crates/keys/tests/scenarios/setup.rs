//! The first handshake.

use crate::chance::Chance;
use crate::managed::Managed;
use crate::messages::{identity, offering};
use crate::pair::{Chaos, Pair, Side, config, millis};
use manypath_engine::{CloseReason, Config, Duration, PathState};
use manypath_keys::{Failure, Identity};
use manypath_wire::chunk::Chunk;
use manypath_wire::packet::Packet;

#[test]
fn both_ends_know_each_other_and_user_messages_cost_one_round_trip_more() {
    let mut it = Managed::new(1);
    (it.a.known, it.z.known) = (Some(it.z.identity.public_key()), Some(it.a.identity.public_key()));
    it.waiting = vec![b"first"];
    it.connect();
    it.run(Duration::from_secs(1));
    assert_eq!(it.peers(), it.identities());
    let (message, at) = &it.z.received[0];
    assert_eq!(message, "first");
    // Without protection it would travel with the COOKIE ECHO, the third packet, of 10 ms each.
    let late = at.since(manypath_engine::Instant::ZERO);
    assert!(late >= millis(50) && late < millis(51), "{late:?}");
    let expected = [
        "A -> INIT -> Z",
        "A <- INIT_ACK <- Z",
        "A -> COOKIE_ECHO DATA -> Z",
        "A <- COOKIE_ACK SACK DATA <- Z",
        "A -> DTLS -> Z",
    ];
    assert_eq!(it.pair.ladder[..5], expected);
    assert!(it.pair.ladder[5..].iter().all(|line| line.contains(" DTLS ")));
}

#[test]
fn nothing_that_is_sent_afterwards_can_be_read() {
    let mut it = Managed::protected(2);
    let before = it.pair.recorded.len();
    it.send(Side::A, b"SECRET-OF-A");
    it.send(Side::Z, b"SECRET-OF-Z");
    it.run(Duration::from_secs(60));
    assert_eq!(
        (&it.z.received[0].0[..], &it.a.received[0].0[..]),
        (&b"SECRET-OF-A"[..], &b"SECRET-OF-Z"[..])
    );
    assert!(it.pair.recorded.len() > before + 4, "heartbeats, too");
    for (_, _, bytes) in &it.pair.recorded[before..] {
        let packet = Packet::without_checksum(bytes).or_else(|| Packet::parse(bytes).ok()).unwrap();
        let chunks: Vec<_> = packet.chunks().map(Result::unwrap).collect();
        assert!(matches!(chunks[..], [Chunk::Dtls(_)]));
        assert!(!bytes.windows(6).any(|it| it == b"SECRET"));
    }
}

#[test]
fn any_packet_of_the_handshake_may_be_lost() {
    // The packets that each end sends until keys are there, by the chunk that they begin with.
    let packets = [
        (Side::A, "INIT"),
        (Side::Z, "INIT_ACK"),
        (Side::A, "COOKIE_ECHO"),
        (Side::Z, "COOKIE_ACK"),
        (Side::A, "DTLS"),
        (Side::Z, "DTLS"),
    ];
    for paths in [1, 2] {
        for (from, chunk) in packets {
            for count in [1, 2] {
                let mut it = Managed::new(paths);
                it.waiting = vec![b"whole"];
                it.pair.lose(from, chunk, count);
                it.connect();
                it.run(Duration::from_secs(25));
                assert_eq!(it.peers(), it.identities(), "{count} {chunk} lost");
                assert_eq!(it.z.received[0].0, "whole", "{count} {chunk} lost");
            }
        }
    }
}

#[test]
fn losses_copies_and_changes_of_order_over_two_paths_are_survived() {
    for seed in 0..40 {
        let mut it = Managed::new(2);
        it.pair.quiet = true;
        let (loss, copies, damage, jitter) = (150, 100, 20, millis(60));
        it.pair.chaos = Some(Chaos { loss, copies, damage, jitter, chance: Chance(seed) });
        it.waiting = vec![b"one", b"two", b"three"];
        it.connect();
        it.run(Duration::from_secs(29));
        assert_eq!(it.peers(), it.identities(), "seed {seed}");
        let received: Vec<_> = it.z.received.iter().map(|(message, _)| &message[..]).collect();
        assert_eq!(received, [&b"one"[..], b"two", b"three"], "seed {seed}");
    }
}

#[test]
fn two_handshakes_that_cross_give_one_pair_of_keys() {
    let accepting = |side| Config { accept: true, ..offering(side) };
    let mut it = Managed::with(1, accepting(Side::A), accepting(Side::Z));
    it.connect();
    it.z.id = Some(it.pair.connect_from(Side::Z));
    it.run(Duration::from_secs(5));
    assert_eq!(it.peers(), it.identities());
    it.send(Side::Z, b"crossed");
    it.run(Duration::from_secs(1));
    assert_eq!(it.a.received[0].0, "crossed");
}

#[test]
fn another_key_than_the_known_one_is_refused_by_either_end() {
    let stranger = identity().public_key();
    for side in [Side::A, Side::Z] {
        let mut it = Managed::new(1);
        it.waiting = vec![b"for my friend only"];
        it.end(side).known = Some(stranger);
        let presented = it.end(side.other()).identity.public_key();
        it.connect();
        it.run(Duration::from_secs(5));
        let failure = Failure::OtherKey { known: stranger, presented };
        assert_eq!(it.end(side).failure, Some(failure.clone()));
        assert_eq!(it.end(side).protected, None);
        assert!(it.z.received.is_empty(), "nothing is sent to another peer or taken from one");
        let told = it.end(side.other()).closed.clone();
        assert!(matches!(told, Some(CloseReason::PeerAborted(_))), "{told:?}: {failure}");
    }
}

#[test]
fn who_shares_a_secret_is_known_and_who_has_another_one_is_not() {
    let with = |secret: &[u8]| {
        let mut it = Managed::new(1);
        it.a.identity = Identity::from_secret(&[1; 32]).unwrap();
        it.z.identity = Identity::from_secret(secret).unwrap();
        (it.a.known, it.z.known) =
            (Some(it.a.identity.public_key()), Some(it.z.identity.public_key()));
        it.connect();
        it.run(Duration::from_secs(2));
        it
    };
    let same = with(&[1; 32]);
    assert_eq!(same.peers(), same.identities());
    let other = with(&[2; 32]);
    assert_eq!(other.peers(), [None, None]);
    assert!(matches!(other.a.failure, Some(Failure::OtherKey { .. })), "{:?}", other.a.failure);
}

#[test]
fn a_peer_that_does_not_encrypt_is_told_from_one_that_does() {
    let (mut pair, id, _) = Pair::established_with(1, offering(Side::A), config(Side::Z));
    let begun =
        manypath_keys::KeyManagement::begin(pair.now, &mut pair.a.endpoint, id, &identity(), None);
    assert_eq!(begun.err(), Some(Failure::NotAgreed));
}

/// The slow uplink brings a copy of the INIT when both ends have keys already.
#[test]
fn the_answer_to_a_late_copy_of_the_init_is_no_packet_without_protection() {
    let mut it = Managed::new(2);
    it.pair = Pair::uplinks(&[300, 10], offering(Side::A), offering(Side::Z));
    it.pair.handled = Some([0; 2]);
    it.a.id = Some(it.pair.connect_to_server());
    it.run(Duration::from_secs(2));
    assert_eq!(it.peers(), it.identities());
    let counters = it.pair.a.endpoint.counters();
    // The server's first HEARTBEAT over the slow uplink left before there were keys.
    assert_eq!((counters.late_init_acks, counters.unprotected_packets), (1, 1));
    assert_eq!(counters.unexpected_chunks, 0);
    assert_eq!(it.pair.z.endpoint.counters().doubted_peers, 0);
}

/// What asked there before the keys is not answered any more.
#[test]
fn a_slow_path_is_confirmed_two_round_trips_after_packets_are_protected() {
    for delays in [[300, 10], [10, 300]] {
        let mut it = Managed::new(2);
        it.pair = Pair::uplinks(&delays, offering(Side::A), offering(Side::Z));
        it.pair.handled = Some([0; 2]);
        it.issue_tickets();
        for resumes in [false, true] {
            let id = it.pair.connect_to_server();
            it.a.id = Some(id);
            it.offer(Side::A, id);
            it.run(millis(1400));
            assert_eq!(it.peers(), it.identities());
            let paths = it.pair.a.endpoint.status(it.pair.now, id).unwrap().paths;
            let states: Vec<_> = paths.iter().map(|path| path.state).collect();
            assert_eq!(states, [PathState::Active; 2], "{delays:?}, resumes: {resumes}");
            it.run(Duration::from_secs(2));
            it.disconnect();
        }
    }
}
