//! INITs and cookies that meet an association (RFC 9260 sections 5.2.1 to 5.2.6 and table 12).

use crate::craft::packet;
use crate::pair::{Pair, Side, address, config, endpoint, millis};
use crate::parameters::{TAG, first_chunk, last};
use manypath_engine::{AssociationState, Config, Event, PathAddr};
use manypath_wire::cause::{Cause, CauseWriter, Causes};
use manypath_wire::chunk::{Chunk, CookieEcho, Error, Init, InitAck};
use manypath_wire::packet::Packet;
use manypath_wire::parameter::{Parameter, Parameters};
use manypath_wire::{Tsn, VerificationTag};

fn state(pair: &Pair, side: Side) -> Option<AssociationState> {
    let node = if side == Side::A { &pair.a } else { &pair.z };
    let id = *node.endpoint.associations().first()?;
    Some(node.endpoint.status(pair.now, id)?.state)
}

fn init(tag: u32) -> Chunk<'static> {
    Chunk::Init(Init {
        tag: VerificationTag(tag),
        a_rwnd: 100_000,
        outbound_streams: 9,
        inbound_streams: 9,
        initial_tsn: Tsn(1),
        parameters: Parameters::EMPTY,
    })
}

/// What `side` answers to an INIT of its peer.
fn answer_to_init(pair: &mut Pair, side: Side, tag: u32) -> Vec<u8> {
    pair.record = true;
    // The endpoint at the other end has sent no INIT, and says so.
    pair.lose(side.other(), "ABORT", 1000);
    pair.inject(side.other(), 1, &packet(side.other(), 0, &[init(tag)]));
    pair.drive(millis(15));
    last(pair, side)
}

fn ack_of(bytes: &[u8]) -> InitAck<'_> {
    let Chunk::InitAck(ack) = first_chunk(bytes) else { panic!("{:?}", first_chunk(bytes)) };
    ack
}

fn cookie_of<'a>(ack: &InitAck<'a>) -> &'a [u8] {
    let cookie = ack.parameters.iter().find_map(|parameter| match parameter {
        Ok(Parameter::StateCookie(cookie)) => Some(cookie),
        _ => None,
    });
    cookie.unwrap()
}

/// The peer of `side` sends the cookie of this INIT ACK back.
fn echo(pair: &mut Pair, side: Side, ack: &[u8]) {
    let ack = ack_of(ack);
    let echo = Chunk::CookieEcho(CookieEcho { cookie: cookie_of(&ack) });
    pair.inject(side.other(), 1, &packet(side.other(), ack.tag.0, &[echo]));
    pair.drive(millis(15));
}

/// A in COOKIE-ECHOED, and its INIT.
fn cookie_echoed() -> (Pair, Vec<u8>) {
    let mut pair = Pair::new(1);
    pair.record = true;
    pair.lose(Side::A, "COOKIE_ECHO", 1000);
    pair.connect();
    pair.drive(millis(50));
    assert_eq!(state(&pair, Side::A), Some(AssociationState::CookieEchoed));
    let first = pair.recorded[0].2.clone();
    pair.ladder.clear();
    (pair, first)
}

#[test]
fn an_init_in_cookie_echoed_is_answered_with_the_numbers_of_our_init() {
    let (mut pair, sent) = cookie_echoed();
    let Chunk::Init(ours) = first_chunk(&sent) else { panic!("no INIT") };
    let due = pair.a.endpoint.poll_timeout();
    let answer = answer_to_init(&mut pair, Side::A, TAG);
    let ack = ack_of(&answer);
    assert_eq!((ack.tag, ack.initial_tsn), (ours.tag, ours.initial_tsn));
    assert_eq!(Packet::parse(&answer).unwrap().header().tag, VerificationTag(TAG));
    assert!(!cookie_of(&ack).is_empty());
    assert_eq!(state(&pair, Side::A), Some(AssociationState::CookieEchoed));
    assert_eq!(pair.a.endpoint.poll_timeout(), due, "T1-cookie goes on");
    // Its cookie makes the association: both ends set up at the same time.
    echo(&mut pair, Side::A, &answer);
    assert_eq!(state(&pair, Side::A), Some(AssociationState::Established));
}

#[test]
fn the_cookie_of_an_association_that_both_have_begun_makes_no_second_one() {
    let (mut pair, _) = cookie_echoed();
    let answer = answer_to_init(&mut pair, Side::A, TAG);
    echo(&mut pair, Side::A, &answer);
    assert_eq!(state(&pair, Side::A), Some(AssociationState::Established));
    let (now, a) = (pair.now, pair.a.endpoint.associations()[0]);
    pair.a.endpoint.abort(now, a, b"enough");
    echo(&mut pair, Side::A, &answer);
    assert_eq!(pair.a.endpoint.associations(), []);
    assert_eq!(pair.a.endpoint.counters().used_cookie, 1);
}

#[test]
fn an_init_in_cookie_echoed_with_a_new_address_is_refused() {
    let (mut pair, _) = cookie_echoed();
    let elsewhere = PathAddr { local: ([10, 1, 0, 77], 9899).into(), remote: address(Side::A, 1) };
    let listed = [Parameter::Ipv4Address([10, 1, 0, 2].into())];
    let listed = crate::parameters::written(&listed);
    let Chunk::Init(init) = init(TAG) else { panic!() };
    let init = Init { parameters: Parameters::from_bytes(&listed), ..init };
    pair.inject_from(Side::Z, elsewhere, &packet(Side::Z, 0, &[Chunk::Init(init)]));
    pair.drive(millis(15));
    let answer = last(&pair, Side::A);
    let Chunk::Abort(abort) = first_chunk(&answer) else { panic!("no ABORT") };
    let cause = abort.causes.iter().next().unwrap().unwrap();
    let Cause::RestartWithNewAddresses(added) = cause else { panic!("{cause:?}") };
    let added: Vec<_> = Parameters::from_bytes(added).iter().map(Result::unwrap).collect();
    assert_eq!(added, [Parameter::Ipv4Address([10, 1, 0, 77].into())]);
    assert_eq!(state(&pair, Side::A), Some(AssociationState::CookieEchoed));
}

#[test]
fn an_init_in_cookie_wait_is_answered_at_an_address_that_the_user_named() {
    let mut pair = Pair::new(2);
    pair.lose(Side::A, "INIT", 1000);
    pair.connect();
    pair.drive(millis(1));
    pair.ladder.clear();
    // Z's other address is not one that the user has named; the one that was is listed.
    let listed = crate::parameters::written(&[Parameter::Ipv4Address([10, 1, 0, 2].into())]);
    let Chunk::Init(init) = init(TAG) else { panic!() };
    let init = Chunk::Init(Init { parameters: Parameters::from_bytes(&listed), ..init });
    for path in [2, 1] {
        pair.inject(Side::Z, path, &packet(Side::Z, 0, &[init]));
    }
    pair.drive(millis(15));
    assert_eq!(pair.take_ladder().matches("A -> INIT_ACK -> Z").count(), 2);
    assert_eq!(state(&pair, Side::A), Some(AssociationState::CookieWait));
}

#[test]
fn an_unexpected_init_gets_a_fresh_tag_and_changes_nothing() {
    let (mut pair, a, z) = Pair::established(1);
    let tag = pair.tag_of(Side::Z);
    let mut tags = vec![tag];
    for number in 0..3 {
        let answer = answer_to_init(&mut pair, Side::Z, TAG + number);
        let ack = ack_of(&answer);
        assert_eq!(Packet::parse(&answer).unwrap().header().tag, VerificationTag(TAG + number));
        assert!(!tags.contains(&ack.tag.0), "a new one each time");
        assert_eq!((ack.outbound_streams, ack.inbound_streams), (9, 16));
        tags.push(ack.tag.0);
    }
    assert_eq!(state(&pair, Side::Z), Some(AssociationState::Established));
    assert_eq!(pair.z.endpoint.associations(), [z]);
    pair.send(Side::A, a, 0, b"as before");
    pair.drive(millis(50));
    assert_eq!(pair.z.received, [(0, "as before".into())]);
}

#[test]
fn a_cookie_without_tie_tags_restarts_nothing() {
    let mut pair = Pair::new(1);
    // Three INITs while there is no association: no cookie has tie-tags.
    let [early, other, late] =
        [TAG, TAG + 1, TAG].map(|tag| answer_to_init(&mut pair, Side::Z, tag));
    echo(&mut pair, Side::Z, &late);
    let z = pair.z.endpoint.associations()[0];
    pair.z.events.clear();
    pair.ladder.clear();
    // The peer's tag is that of the association, ours is not: action C of table 12. With another
    // tag of the peer the table has no row either.
    echo(&mut pair, Side::Z, &early);
    echo(&mut pair, Side::Z, &other);
    let ladder = pair.take_ladder();
    assert!(!ladder.contains("COOKIE_ACK"), "{ladder}");
    assert_eq!(pair.z.endpoint.counters().unexpected_chunks, 2);
    assert_eq!(pair.z.endpoint.associations(), [z]);
    assert!(pair.z.heard().iter().all(|event| **event != Event::Restarted));
}

#[test]
fn a_stale_cookie_of_another_handshake_is_reported_and_changes_nothing() {
    let short = Config { cookie_life: millis(100), ..config(Side::Z) };
    let mut pair = Pair::with(1, config(Side::A), short);
    let [early, late] = [TAG, TAG].map(|tag| answer_to_init(&mut pair, Side::Z, tag));
    echo(&mut pair, Side::Z, &late);
    let z = pair.z.endpoint.associations()[0];
    pair.drive(millis(200));
    assert_eq!(pair.z.endpoint.associations(), [z], "{}", pair.take_ladder());
    pair.ladder.clear();
    echo(&mut pair, Side::Z, &early);
    pair.expect("A -> COOKIE_ECHO -> Z\nA <- ERROR <- Z");
    let said = last(&pair, Side::Z);
    let Chunk::Error(error) = first_chunk(&said) else { panic!("no ERROR") };
    assert!(matches!(error.causes.iter().next(), Some(Ok(Cause::StaleCookie { .. }))));
    assert_eq!(pair.z.endpoint.associations(), [z]);
}

#[test]
fn a_stale_cookie_error_counts_only_in_cookie_echoed() {
    let (mut pair, a, _) = Pair::established(1);
    let tag = pair.tag_of(Side::A);
    let mut buffer = [0; 8];
    let mut causes = CauseWriter::new(&mut buffer);
    causes.push(&Cause::StaleCookie { staleness_us: 1 }).unwrap();
    causes.finish();
    let stale = Chunk::Error(Error { causes: Causes::from_bytes(&buffer) });
    pair.inject(Side::Z, 1, &packet(Side::Z, tag, &[stale]));
    pair.drive(millis(50));
    pair.expect("A <- ERROR <- Z");
    assert_eq!(pair.a.endpoint.associations(), [a]);
    assert_eq!(state(&pair, Side::A), Some(AssociationState::Established));
}

#[test]
fn the_cookie_of_before_a_restart_makes_no_association_after_it() {
    let mut pair = Pair::new(1);
    pair.record = true;
    pair.connect();
    pair.drive(millis(100));
    let mut sent = pair.recorded.iter().map(|(.., bytes)| bytes);
    let echo = sent.find(|bytes| matches!(first_chunk(bytes), Chunk::CookieEcho(_))).unwrap();
    let echo = echo.clone();
    pair.a.endpoint = endpoint(Side::A, 1, config(Side::A), 99);
    pair.connect();
    pair.drive(millis(100));
    assert!(pair.z.heard().contains(&&Event::Restarted));
    let (now, z) = (pair.now, pair.z.endpoint.associations()[0]);
    pair.z.endpoint.abort(now, z, b"enough");
    pair.drive(millis(100));
    pair.inject(Side::A, 1, &echo);
    pair.drive(millis(15));
    assert_eq!(pair.z.endpoint.associations(), []);
    assert_eq!(pair.z.endpoint.counters().used_cookie, 1);
}

#[test]
fn a_restart_begins_with_initial_windows() {
    let (mut pair, a, z) = Pair::established(1);
    let initial = pair.z.endpoint.status(pair.now, z).unwrap().paths[0].clone();
    pair.send(Side::Z, z, 0, &vec![1; 500_000]);
    pair.send(Side::A, a, 0, b"and an error count of the peer that is not zero");
    pair.drive(millis(300));
    let grown = pair.z.endpoint.status(pair.now, z).unwrap().paths[0].clone();
    assert!(grown.cwnd > 4 * initial.cwnd);
    pair.a.endpoint = endpoint(Side::A, 1, config(Side::A), 99);
    pair.connect();
    pair.drive(millis(100));
    assert!(pair.z.heard().contains(&&Event::Restarted));
    let fresh = pair.z.endpoint.status(pair.now, z).unwrap().paths[0].clone();
    assert_eq!((fresh.cwnd, fresh.ssthresh), (initial.cwnd, initial.ssthresh));
    assert_eq!(fresh.error_count, 0);
}

#[test]
fn a_restart_during_the_end_of_a_shutdown_gets_the_shutdown_ack_and_an_error() {
    let (mut pair, a, z) = Pair::established(1);
    // The peer reboots, but its cookie is late; meanwhile the shutdown has nearly ended.
    let answer = answer_to_init(&mut pair, Side::Z, TAG);
    pair.lose(Side::A, "SHUTDOWN_COMPLETE", 1);
    pair.a.endpoint.shutdown(pair.now, a);
    pair.drive(millis(40));
    assert_eq!(state(&pair, Side::Z), Some(AssociationState::ShutdownAckSent));
    pair.a.endpoint = endpoint(Side::A, 1, Config { accept: false, ..config(Side::A) }, 99);
    pair.lose(Side::Z, "SHUTDOWN_ACK", 1);
    pair.ladder.clear();
    echo(&mut pair, Side::Z, &answer);
    let ladder = pair.take_ladder();
    assert!(ladder.contains("A <- SHUTDOWN_ACK /lost/ <- Z"), "{ladder}");
    assert!(ladder.contains("A <- ERROR <- Z"), "{ladder}");
    let error = pair.recorded.iter().rev().find_map(|(_, _, bytes)| {
        if let Chunk::Error(error) = first_chunk(bytes) { Some((bytes, error)) } else { None }
    });
    let (bytes, error) = error.unwrap();
    assert_eq!(error.causes.iter().next().unwrap().unwrap().code(), 10);
    assert_eq!(Packet::parse(bytes).unwrap().header().tag, VerificationTag(TAG));
    assert_eq!(state(&pair, Side::Z), Some(AssociationState::ShutdownAckSent));
    assert_eq!(pair.z.endpoint.associations(), [z]);
}
