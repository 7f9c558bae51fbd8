//! Setup with authentication: cookies, restart, collision, refusals.

use super::{demanding, established};
use crate::craft::{checksummed, packet};
use crate::pair::{Pair, Side, address, config, endpoint, message, millis};
use crate::parameters::{TAG, first_chunk, written};
use manypath_engine::{CloseReason, Config, Duration, Event, PathAddr, PathMtu};
use manypath_wire::cause::Cause;
use manypath_wire::chunk::{Chunk, InitAck, types};
use manypath_wire::packet::Packet;
use manypath_wire::parameter::{HmacIds, Parameter, Parameters};
use manypath_wire::{Tsn, VerificationTag};

#[test]
fn a_cookie_echo_that_must_be_authenticated_is() {
    let mut pair =
        Pair::with(1, demanding(Side::A, &[]), demanding(Side::Z, &[types::COOKIE_ECHO]));
    let a = pair.connect();
    pair.send(Side::A, a, 0, b"hello");
    pair.drive(millis(300));
    pair.expect(
        "A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> AUTH COOKIE_ECHO DATA -> Z
         A <- COOKIE_ACK SACK <- Z",
    );
    assert_eq!(pair.z.received, [(0, "hello".into())]);
}

#[test]
fn a_cookie_echo_with_the_wrong_key_or_without_auth_makes_no_association() {
    let demanding_z = || demanding(Side::Z, &[types::COOKIE_ECHO]);
    let mut pair = Pair::with(1, demanding(Side::A, &[]), demanding_z());
    pair.z.endpoint.set_shared_key(pair.now, None, 0, b"clients must know it").unwrap();
    pair.record = true;
    pair.connect();
    pair.drive(millis(50));
    assert_eq!(pair.z.endpoint.associations(), []);
    assert_eq!(pair.z.endpoint.counters().wrong_hmacs, 1);
    let echo = pair.last_sent(Side::A);
    assert_eq!(pair.ladder.last().unwrap(), "A -> AUTH COOKIE_ECHO -> Z");
    let bare = checksummed([&echo[..12], &echo[52..]].concat());
    pair.inject(Side::A, 1, &bare);
    pair.drive(millis(50));
    assert_eq!(pair.z.endpoint.associations(), []);
    assert_eq!(pair.z.endpoint.counters().unauthenticated_chunks, 1);
    pair.z.endpoint.set_shared_key(pair.now, None, 0, b"").unwrap();
    pair.inject(Side::A, 1, &echo);
    pair.drive(millis(50));
    assert_eq!(pair.z.endpoint.associations().len(), 1, "now the keys are the same");
}

#[test]
fn a_rebooted_peer_gets_the_association_anew_with_new_keys() {
    let (mut pair, _, z) = established(&[types::DATA]);
    pair.a.endpoint = endpoint(Side::A, 1, demanding(Side::A, &[types::DATA]), 99);
    let again = pair.connect();
    pair.send(Side::A, again, 0, b"after the reboot");
    pair.drive(millis(300));
    assert_eq!(pair.z.endpoint.associations(), [z]);
    assert!(pair.z.heard().contains(&&Event::Restarted));
    assert_eq!(pair.z.received, [(0, "after the reboot".into())]);
    pair.send(Side::Z, z, 1, b"welcome back");
    pair.drive(millis(300));
    assert_eq!(pair.a.received, [(1, "welcome back".into())]);
}

#[test]
fn a_restart_needs_the_old_key_if_cookie_echos_are_authenticated() {
    let chunks = [types::COOKIE_ECHO, types::ABORT];
    let (mut pair, _, z) = established(&chunks);
    pair.send(Side::Z, z, 0, b"hello");
    pair.drive(millis(300));
    pair.a.endpoint = endpoint(Side::A, 1, demanding(Side::A, &chunks), 99);
    pair.connect();
    pair.ladder.clear();
    pair.drive(millis(300));
    assert!(pair.ladder.contains(&"A -> AUTH COOKIE_ECHO -> Z".to_owned()), "{:#?}", pair.ladder);
    assert!(!pair.z.heard().contains(&&Event::Restarted));
    assert!(pair.z.endpoint.counters().wrong_hmacs > 0);
}

#[test]
fn both_ends_connect_at_once_and_share_a_key() {
    for chunks in [&[types::DATA][..], &[types::COOKIE_ECHO, types::COOKIE_ACK, types::DATA]] {
        for lost in ["INIT", "INIT_ACK", "COOKIE_ECHO", "COOKIE_ACK", "none"] {
            let mut pair = Pair::with(1, demanding(Side::A, chunks), demanding(Side::Z, chunks));
            pair.a.endpoint.configure(|config| config.accept = true);
            pair.lose(Side::A, lost, 1);
            let a = pair.connect_from(Side::A);
            let z = pair.connect_from(Side::Z);
            pair.send(Side::A, a, 0, b"from a");
            pair.send(Side::Z, z, 0, b"from z");
            pair.drive(millis(6000));
            assert_eq!(pair.a.received, [(0, "from z".into())], "{lost}: {:#?}", pair.ladder);
            assert_eq!(pair.z.received, [(0, "from a".into())], "{lost}: {:#?}", pair.ladder);
        }
    }
}

#[test]
fn a_random_number_of_another_length_aborts_the_association() {
    let mut pair = Pair::with(1, config(Side::A), demanding(Side::Z, &[]));
    for len in [0, 4, 31, 33, 64] {
        let random = vec![1; len];
        let mut buffer = [0; 128];
        let mut writer = manypath_wire::parameter::ParameterWriter::new(&mut buffer);
        writer.push(&Parameter::Random(&random)).unwrap();
        let ids = manypath_wire::parameter::HmacIds::from_slice(&[1]);
        writer.push(&Parameter::HmacAlgo(ids)).unwrap();
        let used = writer.finish();
        let init = manypath_wire::chunk::Init {
            tag: manypath_wire::VerificationTag(77),
            a_rwnd: 100_000,
            outbound_streams: 1,
            inbound_streams: 1,
            initial_tsn: manypath_engine::Tsn(5),
            parameters: Parameters::from_bytes(&buffer[..used]),
        };
        pair.record = true;
        pair.inject(Side::A, 1, &packet(Side::A, 0, &[Chunk::Init(init)]));
        pair.drive(millis(50));
        let answer = pair.last_sent(Side::Z);
        let chunk = Packet::parse(&answer).unwrap().chunks().next();
        let Some(Ok(Chunk::Abort(abort))) = chunk else { panic!("no ABORT for {len}") };
        let cause = abort.causes.iter().next();
        assert!(matches!(cause, Some(Ok(Cause::ProtocolViolation(_)))), "{cause:?}");
    }
}

#[test]
fn retransmitted_inits_carry_the_same_random_number() {
    let mut pair = Pair::with(1, demanding(Side::A, &[types::DATA]), demanding(Side::Z, &[]));
    pair.record = true;
    pair.lose(Side::A, "INIT", 2);
    pair.connect();
    pair.drive(millis(9000));
    let inits: Vec<_> = pair.recorded.iter().filter(|(from, ..)| *from == Side::A).collect();
    assert_eq!(inits[0].2, inits[1].2);
    let z = pair.z.endpoint.associations()[0];
    pair.z.endpoint.send(pair.now, z, message(0, b"hello")).unwrap();
    pair.drive(millis(300));
    assert_eq!(pair.a.received, [(0, "hello".into())]);
}

/// A in COOKIE-WAIT gets an INIT ACK with a cookie of `size` bytes from a server that takes COOKIE
/// ECHOs only authenticated.
fn answered_with_cookie(path_mtu: PathMtu, size: usize) -> Pair {
    let a = Config { path_mtu, ..demanding(Side::A, &[]) };
    let mut pair = Pair::with(1, a, demanding(Side::Z, &[]));
    pair.record = true;
    pair.lose(Side::A, "INIT", 1);
    pair.connect();
    pair.drive(millis(1));
    let sent = pair.last_sent(Side::A);
    let Chunk::Init(init) = first_chunk(&sent) else { panic!("no INIT") };
    let cookie = vec![9; size];
    let parameters = written(&[
        Parameter::StateCookie(&cookie),
        Parameter::Random(&[7; 32]),
        Parameter::Chunks(&[types::COOKIE_ECHO]),
        Parameter::HmacAlgo(HmacIds::from_slice(&[3, 1])),
        Parameter::SupportedExtensions(&[types::AUTH]),
    ]);
    let ack = InitAck {
        tag: VerificationTag(TAG),
        a_rwnd: 100_000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(1),
        parameters: Parameters::from_bytes(&parameters),
    };
    pair.inject(Side::Z, 1, &packet(Side::Z, init.tag.0, &[Chunk::InitAck(ack)]));
    pair.drive(millis(15));
    pair.take_ladder();
    pair
}

#[test]
fn a_cookie_that_leaves_no_room_for_its_auth_chunk_ends_the_attempt() {
    // 1472 bytes, less the common header, the chunk header and an AUTH chunk with SHA-256.
    let most = 1472 - 12 - 4 - 40;
    let mut pair = answered_with_cookie(PathMtu::Interface, most);
    pair.drive(Duration::from_secs(2));
    assert_eq!(pair.ladder[0], "A -> AUTH COOKIE_ECHO -> Z");
    let pair = answered_with_cookie(PathMtu::Interface, most + 1);
    let reason = CloseReason::ProtocolViolation("cookie too large for one packet");
    assert_eq!(pair.a.heard(), [&Event::Closed(reason)]);
}

#[test]
fn a_cookie_echo_is_sent_in_fragments_when_its_path_has_become_narrow() {
    let mut pair = answered_with_cookie(PathMtu::Search, 1000);
    let path = PathAddr { local: address(Side::A, 1), remote: address(Side::Z, 1) };
    let quote = pair.last_sent(Side::A);
    assert!(pair.a.endpoint.handle_icmp_too_big(pair.now, path, 600, &quote[..8]));
    pair.runs.clear();
    pair.drive(Duration::from_secs(2));
    assert!(pair.runs.iter().all(|run| run.may_fragment) && !pair.runs.is_empty());
    assert_eq!(pair.ladder[0], "A -> AUTH COOKIE_ECHO -> Z");
}
