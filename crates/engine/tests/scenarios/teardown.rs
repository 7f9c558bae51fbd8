//! The end of an association (RFC 9260 section 9), with each chunk of it lost.

use crate::pair::{Pair, Side, config, message, millis};
use manypath_engine::{
    AssociationId, AssociationState, CloseReason, Config, Duration, Event, SendError,
};

const GRACEFUL: Event = Event::Closed(CloseReason::Graceful);

fn state(pair: &Pair, side: Side) -> Option<AssociationState> {
    let node = if side == Side::A { &pair.a } else { &pair.z };
    let id = *node.endpoint.associations().first()?;
    Some(node.endpoint.status(pair.now, id)?.state)
}

#[track_caller]
fn assert_over(pair: &Pair) {
    assert!(pair.a.endpoint.associations().is_empty(), "{:#?}", pair.ladder);
    assert!(pair.z.endpoint.associations().is_empty(), "{:#?}", pair.ladder);
    assert_eq!((pair.a.endpoint.poll_timeout(), pair.z.endpoint.poll_timeout()), (None, None));
}

#[test]
fn abort_ends_both_ends_at_once() {
    let (mut pair, a, z) = Pair::established(1);
    pair.send(Side::A, a, 0, b"never sent");
    pair.a.endpoint.abort(pair.now, a, b"enough");
    pair.drive(millis(50));
    pair.expect("A -> ABORT -> Z");
    assert_eq!(pair.a.heard(), [&Event::Closed(CloseReason::LocalAbort)]);
    assert_eq!(pair.z.events, [(z, Event::Closed(CloseReason::PeerAborted(Some(12))))]);
    assert_over(&pair);
    let refused = pair.a.endpoint.send(pair.now, a, message(0, b"x"));
    assert_eq!(refused, Err(SendError::UnknownAssociation));
}

#[test]
fn shutdown_when_idle() {
    let (mut pair, a, _) = Pair::established(1);
    pair.a.endpoint.shutdown(pair.now, a);
    pair.drive(millis(100));
    pair.expect(
        "A -> SHUTDOWN -> Z
         A <- SHUTDOWN_ACK <- Z
         A -> SHUTDOWN_COMPLETE -> Z",
    );
    assert_eq!(pair.a.heard(), [&GRACEFUL]);
    assert_eq!(pair.z.heard(), [&Event::PeerShutdown, &GRACEFUL]);
    assert_over(&pair);
}

#[test]
fn shutdown_delivers_what_both_sides_have_queued() {
    let (mut pair, a, z) = Pair::established(1);
    let large = vec![7; 100_000];
    pair.send(Side::A, a, 0, &large);
    pair.send(Side::Z, z, 1, &large);
    pair.a.endpoint.shutdown(pair.now, a);
    assert_eq!(pair.a.endpoint.send(pair.now, a, message(0, b"x")), Err(SendError::ShuttingDown));
    assert_eq!(pair.a.endpoint.send_space(a), 0);
    pair.drive(Duration::from_secs(5));
    assert_eq!(pair.z.received, [(0, large.clone().into())]);
    assert_eq!(pair.a.received, [(1, large.into())]);
    assert_over(&pair);
}

#[test]
fn shutdown_before_the_handshake_is_over_delivers_first() {
    let mut pair = Pair::new(1);
    let a = pair.connect();
    pair.send(Side::A, a, 0, b"last words");
    pair.a.endpoint.shutdown(pair.now, a);
    pair.drive(Duration::from_secs(1));
    assert_eq!(pair.z.received, [(0, "last words".into())]);
    assert_over(&pair);
    assert_eq!(pair.a.heard().last(), Some(&&GRACEFUL));
}

#[test]
fn shutdown_of_nothing_ends_at_once() {
    let mut pair = Pair::new(1);
    pair.cut(1);
    let a = pair.connect();
    pair.drive(millis(10));
    pair.a.endpoint.shutdown(pair.now, a);
    pair.drive(millis(10));
    assert_eq!(pair.a.heard(), [&GRACEFUL]);
    assert_over(&pair);
}

#[test]
fn every_chunk_of_the_shutdown_may_be_lost() {
    for (side, chunk) in
        [(Side::A, "SHUTDOWN"), (Side::Z, "SHUTDOWN_ACK"), (Side::A, "SHUTDOWN_COMPLETE")]
    {
        for losses in 1..=3 {
            let (mut pair, a, _) = Pair::established(1);
            pair.lose(side, chunk, losses);
            pair.a.endpoint.shutdown(pair.now, a);
            pair.drive(Duration::from_secs(20));
            assert_over(&pair);
            assert_eq!(pair.a.heard().last(), Some(&&GRACEFUL), "{chunk}");
            assert_eq!(pair.z.heard()[0], &Event::PeerShutdown, "{chunk}");
            assert_eq!(pair.z.heard().last(), Some(&&GRACEFUL), "{chunk}");
        }
    }
}

#[test]
fn shutdown_complete_lost_is_answered_out_of_the_blue() {
    let (mut pair, a, _) = Pair::established(1);
    pair.lose(Side::A, "SHUTDOWN_COMPLETE", 1);
    pair.a.endpoint.shutdown(pair.now, a);
    pair.drive(Duration::from_secs(1));
    pair.expect(
        "A -> SHUTDOWN -> Z
         A <- SHUTDOWN_ACK <- Z
         A -> SHUTDOWN_COMPLETE /lost/ -> Z
         A <- SHUTDOWN_ACK <- Z
         A -> SHUTDOWN_COMPLETE -> Z",
    );
}

#[test]
fn both_sides_shut_down_at_once() {
    for lost in [None, Some("SHUTDOWN"), Some("SHUTDOWN_ACK"), Some("SHUTDOWN_COMPLETE")] {
        let (mut pair, a, z) = Pair::established(1);
        if let Some(chunk) = lost {
            pair.lose(Side::A, chunk, 1);
        }
        pair.a.endpoint.shutdown(pair.now, a);
        pair.z.endpoint.shutdown(pair.now, z);
        pair.drive(Duration::from_secs(10));
        assert_over(&pair);
        assert_eq!(pair.a.heard().last(), Some(&&GRACEFUL), "{lost:?}");
        assert_eq!(pair.z.heard().last(), Some(&&GRACEFUL), "{lost:?}");
    }
}

#[test]
fn data_after_the_shutdown_is_answered_by_shutdown_and_sack() {
    let (mut pair, a, z) = Pair::established(1);
    pair.a.endpoint.shutdown(pair.now, a);
    pair.send(Side::Z, z, 0, b"one");
    pair.lose(Side::Z, "DATA", 1);
    pair.drive(millis(5));
    pair.send(Side::Z, z, 0, b"two");
    pair.drive(Duration::from_secs(1));
    let ladder = pair.take_ladder();
    assert!(ladder.contains("A -> SACK SHUTDOWN -> Z"), "{ladder}");
    assert_eq!(pair.a.received, [(0, "one".into()), (0, "two".into())]);
    assert_over(&pair);
}

#[test]
fn give_up_when_the_shutdown_is_never_answered() {
    let quick = Config { association_max_retransmits: 3, ..config(Side::A) };
    let (mut pair, a, _) = Pair::established_with(1, quick, config(Side::Z));
    pair.cut(1);
    pair.a.endpoint.shutdown(pair.now, a);
    pair.drive(Duration::from_secs(30));
    assert_eq!(pair.take_ladder().matches("SHUTDOWN").count(), 4);
    let last = pair.a.heard().pop().cloned();
    assert_eq!(last, Some(Event::Closed(CloseReason::TooManyFailures)));
}

#[test]
fn the_guard_ends_a_shutdown_that_a_peer_holds_up() {
    let quick = Config { rto_max: Duration::from_secs(1), ..config(Side::A) };
    let (mut pair, a, z) = Pair::established_with(1, quick, config(Side::Z));
    pair.lose(Side::Z, "SHUTDOWN_ACK", 10_000);
    pair.a.endpoint.shutdown(pair.now, a);
    pair.drive(millis(4900));
    assert_eq!(state(&pair, Side::A), Some(AssociationState::ShutdownSent));
    pair.drive(millis(200));
    assert_eq!(state(&pair, Side::A), None);
    assert_eq!(pair.z.endpoint.associations(), Vec::new(), "the ABORT has ended {z:?}");
}

#[test]
fn what_had_arrived_can_be_read_after_the_end() {
    let (mut pair, a, z) = Pair::established(1);
    pair.z.reads = false;
    for text in ["one", "two", "three"] {
        pair.send(Side::A, a, 0, text.as_bytes());
    }
    pair.a.endpoint.shutdown(pair.now, a);
    pair.drive(Duration::from_secs(1));
    assert_over(&pair);
    pair.z.read_all(z);
    let texts: Vec<_> = pair.z.received.iter().map(|(_, text)| text.clone()).collect();
    assert_eq!(texts, ["one", "two", "three"]);
    assert!(pair.z.endpoint.read(z).is_none());
}

#[test]
fn unread_ends_are_bounded() {
    let few = Config { max_associations: 3, ..config(Side::Z) };
    let mut pair = Pair::with(1, Config { port: 0, ..config(Side::A) }, few);
    pair.z.reads = false;
    for _ in 0..5 {
        let a = pair.connect();
        pair.send(Side::A, a, 0, b"unread");
        pair.a.endpoint.shutdown(pair.now, a);
        pair.drive(Duration::from_secs(1));
    }
    assert_over(&pair);
    assert_eq!(pair.z.endpoint.counters().unread_drops, 2);
    let readable = (1..=5).filter(|id| pair.z.endpoint.read(AssociationId(*id)).is_some());
    assert_eq!(readable.count(), 3);
}

#[test]
fn no_heartbeats_after_the_shutdown() {
    let (mut pair, a, _) = Pair::established(2);
    pair.lose(Side::Z, "SHUTDOWN_ACK", 1000);
    pair.a.endpoint.shutdown(pair.now, a);
    pair.drive(Duration::from_secs(100));
    assert_eq!(pair.take_ladder().matches("HEARTBEAT").count(), 0);
}
