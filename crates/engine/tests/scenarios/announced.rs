//! What INIT and INIT ACK may say, and what of it is taken (RFC 9260 sections 3.1, 3.3.2, 3.3.3, 5.1 and
//! 5.3.1).

use crate::craft::{checksummed, packet};
use crate::pair::{PORT_A, PORT_Z, Pair, Side, address, config, endpoint, millis};
use crate::parameters::{TAG, echo_cookie, first_chunk, init_ack, last, written};
use manypath_engine::{AssociationState, Config, ConnectError, PathAddr};
use manypath_wire::chunk::{Chunk, Heartbeat, Init, InitAck};
use manypath_wire::packet::Packet;
use manypath_wire::parameter::{AddressTypes, Parameter, Parameters};
use manypath_wire::{Tsn, VerificationTag};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// The INIT that A sends with `config`.
fn init_of(config: Config) -> (Pair, Vec<u8>) {
    let mut pair = Pair::with(1, config, crate::pair::config(Side::Z));
    pair.record = true;
    pair.connect();
    pair.drive(millis(1));
    let sent = last(&pair, Side::A);
    (pair, sent)
}

fn init(tag: u32, a_rwnd: u32, outbound_streams: u16, inbound_streams: u16) -> Chunk<'static> {
    Chunk::Init(Init {
        tag: VerificationTag(tag),
        a_rwnd,
        outbound_streams,
        inbound_streams,
        initial_tsn: Tsn(1),
        parameters: Parameters::EMPTY,
    })
}

#[test]
fn port_zero_is_never_used() {
    let mut pair = Pair::new(1);
    let refused = pair.a.endpoint.connect(pair.now, address(Side::Z, 1), 0);
    assert_eq!(refused, Err(ConnectError::InvalidPort));
    let (_, sent) = init_of(Config { port: 0, ..config(Side::A) });
    assert!(Packet::parse(&sent).unwrap().header().source_port >= 49152);
    let heartbeat = Chunk::Heartbeat(Heartbeat { info: &[] });
    for at in [0, 2] {
        let mut bytes = packet(Side::A, 7, &[heartbeat]);
        bytes[at..at + 2].fill(0);
        pair.inject(Side::A, 1, &checksummed(bytes));
    }
    pair.drive(millis(50));
    assert_eq!(pair.z.endpoint.counters().malformed_packets, 2);
    assert_eq!(pair.take_ladder().matches("<-").count(), 0);
}

#[test]
fn no_less_is_announced_than_the_least_that_is_allowed() {
    let little =
        |side| Config { receive_buffer: 10, streams: 0, inbound_streams: Some(0), ..config(side) };
    let (_, sent) = init_of(little(Side::A));
    let Chunk::Init(init) = first_chunk(&sent) else { panic!("no INIT") };
    assert_eq!((init.a_rwnd, init.outbound_streams, init.inbound_streams), (1500, 1, 1));
    let mut pair = Pair::with(1, config(Side::A), little(Side::Z));
    let answer = init_ack(&mut pair, &[]);
    let Chunk::InitAck(ack) = first_chunk(&answer) else { panic!("no INIT ACK") };
    assert_eq!((ack.a_rwnd, ack.outbound_streams, ack.inbound_streams), (1500, 1, 1));
    let (mut pair, _, _) = Pair::established_with(1, little(Side::A), little(Side::Z));
    let a = pair.a.endpoint.associations()[0];
    pair.send(Side::A, a, 0, b"one stream there is");
    pair.drive(millis(100));
    assert_eq!(pair.z.received.len(), 1);
}

#[test]
fn an_init_ack_asks_for_no_more_streams_than_the_init_allows() {
    let mut pair = Pair::with(1, Config { streams: 3, ..config(Side::A) }, config(Side::Z));
    pair.record = true;
    pair.connect();
    pair.drive(millis(15));
    let answer = last(&pair, Side::Z);
    let Chunk::InitAck(ack) = first_chunk(&answer) else { panic!("no INIT ACK") };
    assert_eq!((ack.outbound_streams, ack.inbound_streams), (3, 16));
}

#[test]
fn tags_and_initial_tsns_are_random_and_new_for_each_association() {
    let (mut tags, mut tsns) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..20 {
        let mut pair = Pair::new(1);
        pair.record = true;
        pair.a.endpoint = endpoint(Side::A, 1, config(Side::A), seed);
        for _ in 0..2 {
            pair.recorded.clear();
            let id = pair.connect();
            pair.drive(millis(100));
            for (_, _, bytes) in &pair.recorded {
                match first_chunk(bytes) {
                    Chunk::Init(init) => {
                        tags.insert(init.tag.0);
                        tsns.insert(init.initial_tsn.0);
                    }
                    Chunk::InitAck(ack) => assert_ne!(ack.tag.0, 0),
                    _ => {}
                }
            }
            pair.a.endpoint.abort(pair.now, id, b"");
            pair.drive(millis(100));
        }
    }
    assert_eq!((tags.len(), tsns.len()), (40, 40));
    assert!(!tags.contains(&0));
    // All of the range is used.
    assert!(*tsns.first().unwrap() < 1 << 30 && *tsns.last().unwrap() > 3 << 30);
}

#[test]
fn reserved_flags_of_init_and_init_ack_are_ignored() {
    let mut pair = Pair::new(1);
    pair.mangle = Some(|bytes| {
        if matches!(first_chunk(bytes), Chunk::Init(_) | Chunk::InitAck(_)) {
            bytes[13] = 0xff;
            *bytes = checksummed(bytes.clone());
        }
    });
    pair.connect();
    pair.drive(millis(100));
    assert_eq!(pair.z.endpoint.associations().len(), 1);
}

#[test]
fn an_impossible_init_changes_no_existing_association() {
    let (mut pair, _, z) = Pair::established(1);
    pair.record = true;
    let before = pair.z.endpoint.status(pair.now, z).unwrap();
    for chunk in [init(9, 1499, 1, 1), init(9, 1500, 0, 1), init(9, 1500, 1, 0)] {
        pair.inject(Side::A, 1, &packet(Side::A, 0, &[chunk]));
        pair.drive(millis(15));
        let answer = last(&pair, Side::Z);
        let Chunk::Abort(abort) = first_chunk(&answer) else { panic!("{chunk:?}") };
        assert_eq!(Packet::parse(&answer).unwrap().header().tag, VerificationTag(9));
        assert!(!abort.tag_reflected);
    }
    let after = pair.z.endpoint.status(pair.now, z).unwrap();
    assert_eq!((before.state, before.peer_rwnd), (after.state, after.peer_rwnd));
    assert_eq!(pair.z.endpoint.associations(), [z]);
}

#[test]
fn an_init_costs_no_state_and_its_answer_is_small() {
    let mut pair = Pair::new(1);
    let mut largest = 0;
    for _ in 0..200 {
        largest = largest.max(init_ack(&mut pair, &[]).len());
    }
    assert!(largest < 300, "{largest}");
    assert!(pair.z.endpoint.associations().is_empty());
    assert_eq!(pair.z.endpoint.poll_timeout(), None);
}

#[test]
fn an_init_ack_goes_back_to_where_the_init_came_from() {
    let mut pair = Pair::new(2);
    for path in [2, 1] {
        pair.inject(Side::A, path, &packet(Side::A, 0, &[init(TAG, 9999, 1, 1)]));
    }
    pair.drive(millis(15));
    pair.expect(
        "A -2> INIT -> Z
         A -> INIT -> Z
         A <2- INIT_ACK <- Z
         A <- INIT_ACK <- Z",
    );
}

#[test]
fn addresses_of_a_family_that_we_do_not_have_are_passed_over() {
    let mut pair = Pair::new(1);
    let v6: Ipv6Addr = "2001:db8::1".parse().unwrap();
    // Only IPv6 is listed as supported, though the INIT comes over IPv4; 11 would be a host name.
    let parameters = written(&[
        Parameter::SupportedAddressTypes(AddressTypes::from_slice(&[6, 11])),
        Parameter::Ipv6Address(v6),
        Parameter::Ipv4Address([10, 77, 0, 1].into()),
    ]);
    let ack = init_ack(&mut pair, &parameters);
    echo_cookie(&mut pair, &ack);
    let z = pair.z.endpoint.associations()[0];
    let paths = pair.z.endpoint.status(pair.now, z).unwrap().paths;
    let remotes: Vec<_> = paths.iter().map(|path| path.addr.remote.ip().to_string()).collect();
    assert_eq!(remotes, ["10.1.0.1", "10.77.0.1"]);
}

/// A gets an INIT ACK with these parameters in place of Z's.
fn take_init_ack(parameters: &[u8]) -> Pair {
    take_init_ack_on(1, parameters)
}

fn take_init_ack_on(paths: u8, parameters: &[u8]) -> Pair {
    let way = PathAddr { local: address(Side::A, 1), remote: address(Side::Z, 1) };
    take_init_ack_over(way, paths, parameters)
}

/// So, over `way`, as A sees it.
fn take_init_ack_over(way: PathAddr, paths: u8, parameters: &[u8]) -> Pair {
    let mut pair = Pair::new(paths);
    pair.record = true;
    // Z does not know the cookies that are made up here, and says nothing.
    pair.lose(Side::A, "INIT", 1);
    pair.connect();
    pair.drive(millis(1));
    let sent = last(&pair, Side::A);
    let Chunk::Init(init) = first_chunk(&sent) else { panic!("no INIT") };
    let ack = InitAck {
        tag: VerificationTag(TAG),
        a_rwnd: 100_000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(1),
        parameters: Parameters::from_bytes(parameters),
    };
    pair.ladder.clear();
    let bytes = packet(Side::Z, init.tag.0, &[Chunk::InitAck(ack)]);
    pair.a.endpoint.handle_packet(pair.now, way, &bytes);
    pair.drive(millis(15));
    pair
}

/// An INIT ACK that comes from the peer's second address and lists `listed`; the INIT went to the first.
fn take_init_ack_of_second_address(listed: [u8; 4]) -> Pair {
    let way = PathAddr { local: address(Side::A, 1), remote: address(Side::Z, 2) };
    let parameters = [Parameter::Ipv4Address(listed.into()), Parameter::StateCookie(&[9; 100])];
    take_init_ack_over(way, 2, &written(&parameters))
}

#[test]
fn an_init_ack_from_another_address_counts_if_it_lists_the_one_that_was_asked() {
    let pair = take_init_ack_of_second_address([10, 1, 0, 2]);
    let said = last(&pair, Side::A);
    assert!(matches!(first_chunk(&said), Chunk::CookieEcho(_)), "{said:?}");
    let a = pair.a.endpoint.associations()[0];
    let remotes: Vec<_> = pair.a.endpoint.status(pair.now, a).unwrap().paths;
    let remotes: Vec<_> = remotes.iter().map(|path| path.addr.remote).collect();
    assert_eq!(remotes[0], address(Side::Z, 2), "where the answer came from");
    assert!(remotes.contains(&address(Side::Z, 1)), "{remotes:?}");
}

#[test]
fn an_init_ack_of_an_address_that_has_nothing_to_do_with_the_one_that_was_asked_is_dropped() {
    let pair = take_init_ack_of_second_address([10, 77, 0, 1]);
    let a = pair.a.endpoint.associations()[0];
    let status = pair.a.endpoint.status(pair.now, a).unwrap();
    assert_eq!(status.state, AssociationState::CookieWait);
    assert_eq!(pair.a.endpoint.counters().unknown_addresses, 1);
}

#[test]
fn a_large_init_ack_is_taken() {
    let mut parameters: Vec<_> =
        (0..250).map(|n| Parameter::Ipv4Address([10, 77, 0, n].into())).collect();
    parameters.push(Parameter::StateCookie(&[9; 1456]));
    let parameters = written(&parameters);
    assert!(parameters.len() > 3000);
    let pair = take_init_ack(&parameters);
    let said = last(&pair, Side::A);
    let Chunk::CookieEcho(echo) = first_chunk(&said) else { panic!("{said:?}") };
    assert_eq!(echo.cookie, [9; 1456]);
    let a = pair.a.endpoint.associations()[0];
    let status = pair.a.endpoint.status(pair.now, a).unwrap();
    assert_eq!(status.state, AssociationState::CookieEchoed);
}

#[test]
fn a_cookie_too_large_for_a_heartbeat_beside_it_goes_to_confirmed_addresses_only() {
    for (size, unconfirmed) in [(1300, true), (1450, false)] {
        let cookie = vec![9; size];
        let mut parameters = written(&[Parameter::Ipv4Address([10, 2, 0, 2].into())]);
        parameters.extend(written(&[Parameter::StateCookie(&cookie)]));
        let mut pair = take_init_ack_on(2, &parameters);
        pair.ladder.clear();
        pair.drive(millis(10_000));
        let ladder = pair.take_ladder();
        assert_eq!(ladder.contains("A -2> COOKIE_ECHO HEARTBEAT"), unconfirmed, "{ladder}");
        assert!(!ladder.contains("A -2> COOKIE_ECHO ->"), "{ladder}");
        assert!(ladder.contains("A -> COOKIE_ECHO"), "{ladder}");
    }
}

#[test]
fn repetitions_of_a_cookie_echo_take_all_paths_and_verify_them() {
    let mut pair = Pair::new(2);
    pair.lose(Side::A, "COOKIE_ECHO", 1);
    pair.connect();
    pair.drive(millis(1100));
    let ladder = pair.take_ladder();
    let wanted = "A -> COOKIE_ECHO /lost/ -> Z\n\
                  A -2> COOKIE_ECHO HEARTBEAT -> Z\n\
                  A <2- COOKIE_ACK HEARTBEAT HEARTBEAT_ACK <- Z";
    assert!(ladder.contains(wanted), "{ladder}");
    assert_eq!(pair.a.endpoint.associations().len(), 1);
}

#[test]
fn an_init_belongs_to_the_association_of_any_address_that_it_lists() {
    let (mut pair, _, z) = Pair::established(1);
    pair.record = true;
    let parameters = written(&[Parameter::Ipv4Address([10, 1, 0, 1].into())]);
    let init = Chunk::Init(Init {
        tag: VerificationTag(TAG),
        a_rwnd: 100_000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(1),
        parameters: Parameters::from_bytes(&parameters),
    });
    let elsewhere = PathAddr { local: ([10, 1, 0, 77], 9899).into(), remote: address(Side::Z, 1) };
    pair.inject_from(Side::A, elsewhere, &packet(Side::A, 0, &[init]));
    pair.drive(millis(15));
    let answer = last(&pair, Side::Z);
    let Chunk::Abort(abort) = first_chunk(&answer) else { panic!("no ABORT") };
    let cause = abort.causes.iter().next().unwrap().unwrap();
    assert_eq!(cause.code(), 11, "restart with new addresses");
    assert_eq!(pair.z.endpoint.associations(), [z]);
    assert_eq!(Packet::parse(&answer).unwrap().header().source_port, PORT_Z);
    assert_eq!(Packet::parse(&answer).unwrap().header().destination_port, PORT_A);
}
