//! Setting up an association (RFC 9260 section 5.1), with each chunk of the handshake lost.

use crate::pair::{Pair, Side, address, config, millis};
use manypath_engine::{
    AssociationState, CloseReason, Config, Duration, Endpoint, Event, InitRepetition, Instant,
    LocalAddress, PacketBatch, PathAddr,
};
use std::net::SocketAddr;

fn connected(initiated: bool) -> Event {
    Event::Connected { initiated, adaptation: None, outbound_streams: 16, inbound_streams: 16 }
}

fn closed(reason: CloseReason) -> Event {
    Event::Closed(reason)
}

#[test]
fn data_travels_with_the_cookie_echo() {
    let mut pair = Pair::new(1);
    let id = pair.connect();
    pair.send(Side::A, id, 0, b"hello");
    pair.drive(millis(100));
    pair.expect(
        "A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO DATA -> Z
         A <- COOKIE_ACK SACK <- Z",
    );
    assert_eq!(pair.z.received, [(0, "hello".into())]);
    assert_eq!(pair.a.heard(), [&connected(true)]);
    assert_eq!(pair.z.heard(), [&connected(false), &Event::Readable]);
}

#[test]
fn answer_travels_with_the_cookie_ack() {
    let mut pair = Pair::new(1);
    let id = pair.connect();
    pair.send(Side::A, id, 0, b"question");
    pair.drive_until(millis(100), |pair| !pair.z.endpoint.associations().is_empty());
    pair.ladder.clear();
    let z = pair.z.endpoint.associations()[0];
    pair.send(Side::Z, z, 0, b"answer");
    pair.drive(millis(20));
    assert_eq!(pair.a.received, [(0, "answer".into())]);
}

#[test]
fn resend_init_after_a_second() {
    let mut pair = Pair::new(1);
    pair.lose(Side::A, "INIT", 2);
    pair.connect();
    pair.drive(millis(2999));
    pair.expect("A -> INIT /lost/ -> Z\nA -> INIT /lost/ -> Z");
    pair.drive(millis(500));
    pair.expect(
        "A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO -> Z
         A <- COOKIE_ACK <- Z",
    );
}

/// Its answer is a sample of the round trip all the same: the copies left together.
#[test]
fn an_init_may_be_repeated_ahead_of_its_timer() {
    let mut pair = Pair::new(1);
    pair.lose(Side::A, "INIT", 1);
    let id = pair.connect();
    pair.drive(millis(2));
    assert!(pair.a.endpoint.repeat_init(pair.now, id, InitRepetition::Copy));
    pair.drive(millis(1));
    assert!(!pair.a.endpoint.repeat_init(pair.now, id, InitRepetition::Copy), "only one copy");
    pair.drive(millis(20));
    let status = pair.a.endpoint.status(pair.now, id).unwrap();
    assert_eq!(status.state, AssociationState::CookieEchoed);
    let srtt = status.paths[0].srtt.expect("a sample");
    assert!(srtt >= millis(22) && srtt < millis(23), "since the first one: {srtt:?}");
    pair.drive(millis(500));
    pair.expect(
        "A -> INIT /lost/ -> Z
         A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO -> Z
         A <- COOKIE_ACK <- Z",
    );
}

/// A second later at the earliest, and then as at first: T1-init is 400 ms.
#[test]
fn an_init_for_whose_answer_nobody_waits_is_repeated_rarely_until_somebody_does() {
    let a = Config { rto_initial: millis(400), ..config(Side::A) };
    let mut pair = Pair::with(1, a, config(Side::Z));
    pair.lose(Side::A, "INIT", 2);
    let id = pair.connect();
    assert!(!pair.a.endpoint.repeat_init(pair.now, id, InitRepetition::Anew));
    pair.drive(millis(2));
    assert!(pair.a.endpoint.repeat_init(pair.now, id, InitRepetition::Rare));
    pair.drive(millis(1100));
    pair.expect("A -> INIT /lost/ -> Z");
    assert!(pair.a.endpoint.repeat_init(pair.now, id, InitRepetition::Anew));
    pair.drive(millis(300));
    pair.expect("A -> INIT /lost/ -> Z");
    pair.drive(millis(600));
    pair.expect(
        "A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO -> Z
         A <- COOKIE_ACK <- Z",
    );
}

#[test]
fn resend_init_when_init_ack_is_lost() {
    let mut pair = Pair::new(1);
    pair.lose(Side::Z, "INIT_ACK", 1);
    pair.connect();
    pair.drive(millis(1500));
    pair.expect(
        "A -> INIT -> Z
         A <- INIT_ACK /lost/ <- Z
         A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO -> Z
         A <- COOKIE_ACK <- Z",
    );
}

#[test]
fn resend_cookie_echo_with_its_data() {
    let mut pair = Pair::new(1);
    pair.lose(Side::A, "COOKIE_ECHO", 1);
    let id = pair.connect();
    pair.send(Side::A, id, 3, b"hello");
    pair.drive(millis(1000));
    pair.expect(
        "A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO DATA /lost/ -> Z
         A -> COOKIE_ECHO DATA -> Z
         A <- COOKIE_ACK SACK <- Z",
    );
    assert_eq!(pair.z.received, [(3, "hello".into())]);
}

#[test]
fn duplicate_cookie_echo_is_acknowledged_again() {
    let mut pair = Pair::new(1);
    pair.lose(Side::Z, "COOKIE_ACK", 1);
    let id = pair.connect();
    pair.send(Side::A, id, 0, b"hello");
    pair.drive(millis(1000));
    pair.expect(
        "A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO DATA -> Z
         A <- COOKIE_ACK SACK /lost/ <- Z
         A -> COOKIE_ECHO DATA -> Z
         A <- COOKIE_ACK SACK <- Z",
    );
    assert_eq!(pair.z.endpoint.associations().len(), 1);
    assert_eq!(pair.z.received.len(), 1);
    assert_eq!(pair.z.heard(), [&connected(false), &Event::Readable]);
}

#[test]
fn give_up_after_max_init_retransmits() {
    let mut pair =
        Pair::with(1, Config { max_init_retransmits: 2, ..config(Side::A) }, config(Side::Z));
    pair.cut(1);
    let id = pair.connect();
    pair.drive(Duration::from_secs(6));
    assert_eq!(pair.a.endpoint.associations(), [id]);
    pair.drive(Duration::from_secs(2));
    pair.expect("A -> INIT /lost/ -> Z\nA -> INIT /lost/ -> Z\nA -> INIT /lost/ -> Z");
    assert_eq!(pair.a.heard(), [&closed(CloseReason::NoAnswer)]);
    assert!(pair.a.endpoint.associations().is_empty());
    assert_eq!(pair.a.endpoint.poll_timeout(), None);
}

#[test]
fn give_up_when_nobody_answers_the_cookie() {
    let mut pair =
        Pair::with(1, Config { max_init_retransmits: 2, ..config(Side::A) }, config(Side::Z));
    pair.lose(Side::A, "COOKIE_ECHO", 9);
    pair.connect();
    pair.drive(Duration::from_secs(10));
    assert_eq!(pair.take_ladder().matches("COOKIE_ECHO").count(), 3);
    assert_eq!(pair.a.heard(), [&closed(CloseReason::NoAnswer)]);
}

#[test]
fn init_tries_every_local_address() {
    let mut pair = Pair::new(2);
    pair.cut(1);
    let now = pair.now;
    let id = pair.a.endpoint.connect(now, address(Side::Z, 2), crate::pair::PORT_Z).unwrap();
    pair.drive(millis(100));
    assert_eq!(pair.a.endpoint.status(pair.now, id).unwrap().state, AssociationState::Established);
    assert!(pair.take_ladder().starts_with("A -2> INIT -> Z"));
}

#[test]
fn the_answer_to_an_earlier_init_counts_as_received() {
    let a = Config { rto_initial: millis(40), ..config(Side::A) };
    let mut pair = Pair::with(2, a, config(Side::Z));
    pair.links.values_mut().for_each(|link| link.delay = millis(30));
    let id = pair.connect();
    pair.drive(millis(65));
    let status = pair.a.endpoint.status(pair.now, id).unwrap();
    assert_eq!(status.state, AssociationState::CookieEchoed);
    assert_eq!(status.paths.iter().map(|path| path.packets_received).sum::<u64>(), 1);
}

#[test]
fn icmp_during_setup_ends_it_when_all_addresses_are_refused() {
    let mut pair = Pair::new(2);
    pair.cut(1);
    pair.connect();
    pair.drive(millis(1));
    let [first, second] =
        [1, 2].map(|n| PathAddr { local: address(Side::A, n), remote: address(Side::Z, 1) });
    pair.a.endpoint.handle_unreachable(pair.now, first);
    pair.drain();
    assert!(pair.a.events.is_empty(), "another address is left");
    pair.a.endpoint.handle_unreachable(pair.now, second);
    pair.drain();
    assert_eq!(pair.a.heard(), [&closed(CloseReason::Unreachable)]);
}

#[test]
fn a_peer_that_does_not_accept_aborts() {
    let mut pair = Pair::with(1, config(Side::A), Config { accept: false, ..config(Side::Z) });
    pair.connect();
    pair.drive(millis(100));
    pair.expect("A -> INIT -> Z\nA <- ABORT <- Z");
    assert_eq!(pair.a.heard(), [&closed(CloseReason::PeerAborted(None))]);
    assert_eq!(pair.z.endpoint.counters().refused_inits, 1);
}

#[test]
fn a_full_endpoint_aborts_with_out_of_resource() {
    let full = Config { max_associations: 0, ..config(Side::Z) };
    let mut pair = Pair::with(1, config(Side::A), full);
    pair.connect();
    pair.drive(millis(100));
    assert_eq!(pair.a.heard(), [&closed(CloseReason::PeerAborted(Some(4)))]);
}

#[test]
fn streams_and_adaptation_are_exchanged() {
    let a = Config { streams: 10, adaptation: Some(7), ..config(Side::A) };
    let z = Config { streams: 3, adaptation: Some(9), ..config(Side::Z) };
    let mut pair = Pair::with(1, a, z);
    pair.connect();
    pair.drive(millis(100));
    let connected = |initiated, adaptation| Event::Connected {
        initiated,
        adaptation: Some(adaptation),
        outbound_streams: 3,
        inbound_streams: 3,
    };
    assert_eq!(pair.a.heard(), [&connected(true, 9)]);
    assert_eq!(pair.z.heard(), [&connected(false, 7)]);
}

#[test]
fn no_data_reaches_a_peer_with_another_adaptation_layer() {
    let wants = Config { adaptation: Some(7), require_adaptation: true, ..config(Side::A) };
    for (theirs, reason) in
        [(None, CloseReason::NoAdaptation), (Some(8), CloseReason::NoAdaptation)]
    {
        let z = Config { adaptation: theirs, ..config(Side::Z) };
        let mut pair = Pair::with(1, wants.clone(), z);
        let id = pair.connect();
        pair.send(Side::A, id, 0, b"secret");
        pair.drive(millis(100));
        pair.expect("A -> INIT -> Z\nA <- INIT_ACK <- Z\nA -> ABORT -> Z");
        assert_eq!(pair.a.heard(), [&closed(reason)]);
        assert!(pair.z.endpoint.associations().is_empty());
    }
    let mut pair = Pair::with(1, wants, Config { adaptation: Some(7), ..config(Side::Z) });
    pair.connect();
    pair.drive(millis(100));
    assert_eq!(pair.z.endpoint.associations().len(), 1);
}

#[test]
fn messages_on_streams_that_the_peer_does_not_take_are_counted() {
    let mut pair = Pair::with(1, config(Side::A), Config { streams: 2, ..config(Side::Z) });
    let id = pair.connect();
    pair.send(Side::A, id, 1, b"taken");
    pair.send(Side::A, id, 2, b"not taken");
    pair.drive(millis(100));
    assert_eq!(pair.z.received, [(1, "taken".into())]);
    assert_eq!(pair.a.endpoint.counters().messages_without_stream, 1);
}

#[test]
fn data_is_not_repeated_over_a_path_that_is_slower_than_inits_are_repeated() {
    let a = Config { rto_initial: millis(120), ..config(Side::A) };
    let mut pair = Pair::with(1, a, config(Side::Z));
    pair.links.values_mut().for_each(|link| link.delay = millis(150));
    let id = pair.connect();
    pair.send(Side::A, id, 0, b"hello");
    pair.drive(millis(2000));
    pair.expect(
        "A -> INIT -> Z
         A -> INIT -> Z
         A <- INIT_ACK <- Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO DATA -> Z
         A <- COOKIE_ACK SACK <- Z",
    );
}

#[test]
fn a_cookie_echo_with_data_backs_off_no_faster_than_one_without() {
    for data in [false, true] {
        let a = Config { rto_min: Duration::from_secs(1), ..config(Side::A) };
        let mut pair = Pair::with(1, a, config(Side::Z));
        pair.lose(Side::A, "COOKIE_ECHO", 4);
        let id = pair.connect();
        if data {
            pair.send(Side::A, id, 0, b"hello");
        }
        let mut sent = Vec::new();
        for second in 0..20 {
            pair.ladder.clear();
            pair.drive(Duration::from_secs(1));
            sent.extend(pair.take_ladder().contains("COOKIE_ECHO").then_some(second));
        }
        assert_eq!(sent, [0, 1, 3, 7, 15], "with data: {data}");
        assert_eq!(pair.z.received.len(), usize::from(data));
    }
}

#[test]
fn the_largest_init_is_sent_and_repeated() {
    // 16 IPv6 addresses and all chunk types that there are to be authenticated.
    let authenticated_chunks = (0..=255).collect();
    let config = Config { authentication: true, authenticated_chunks, ..config(Side::A) };
    let mut endpoint = Endpoint::new(config, [1; 32]);
    for host in 1..=16 {
        let addr = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, host], 9899));
        let local = LocalAddress { addr, prefix_len: 64, interface: 0, mtu: 576 };
        endpoint.add_local_address(local);
    }
    let remote = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 1, 1], 9899));
    endpoint.connect(Instant::ZERO, remote, crate::pair::PORT_Z).unwrap();
    let mut batch = PacketBatch::new(16);
    let mut now = Instant::ZERO;
    for _ in 0..2 {
        endpoint.handle_timeout(now);
        let run = endpoint.poll_transmit(now, &mut batch).expect("an INIT");
        assert!(run.may_fragment && batch.bytes().len() > 600, "{run:?}");
        now = endpoint.poll_timeout().expect("T1-init runs");
    }
}
