//! Single ASCONFs, made by hand with the key of the association: what is said to them, and how ours are
//! repeated.

use super::{Stage, asked, ip, local, stage, stage_with, told, willing, with_parameters};
use crate::authentication::keys::signed;
use crate::craft::packet;
use crate::pair::{Side, address, millis};
use manypath_engine::{
    AddressChange, AddressError, CloseReason, Config, Event, PathAddr, PathState,
    ReconfigurationOutcome,
};
use manypath_wire::cause::{Cause, CauseWriter, Causes};
use manypath_wire::chunk::{AsconfAck, Auth, Chunk, Error};
use manypath_wire::packet::Packet;
use manypath_wire::parameter::{AddressRequest, ErrorIndication, Parameter, UnknownParameter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const WILDCARD: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

fn request(correlation: u32, address: IpAddr) -> AddressRequest {
    AddressRequest { correlation, address }
}

fn add(correlation: u32, address: IpAddr) -> Parameter<'static> {
    Parameter::AddIpAddress(request(correlation, address))
}

fn delete(correlation: u32, address: IpAddr) -> Parameter<'static> {
    Parameter::DeleteIpAddress(request(correlation, address))
}

fn primary(correlation: u32, address: IpAddr) -> Parameter<'static> {
    Parameter::SetPrimaryAddress(request(correlation, address))
}

/// An ASCONF that A has sent, without its AUTH chunk.
fn asconfs(stage: &Stage) -> Vec<(PathAddr, Vec<u8>)> {
    let sent = stage.pair.recorded.iter().filter(|(from, _, bytes)| {
        let chunks = Packet::parse(bytes).unwrap().chunks();
        *from == Side::A && chunks.flatten().any(|it| matches!(it, Chunk::Asconf(_)))
    });
    sent.map(|(_, addr, bytes)| (*addr, bytes[12..].to_vec())).collect()
}

#[test]
fn the_last_address_cannot_be_deleted() {
    let mut stage = stage(1, 1);
    let said = stage.answer(&[delete(7, ip(Side::A, 1))]);
    assert_eq!(said, "error correlation=7 causes=[160]");
    assert_eq!(stage.paths_of_z(), [(ip(Side::A, 1), PathState::Active)]);
    assert_eq!(stage.pair.z.endpoint.counters().refused_addresses, 1);
}

#[test]
fn the_source_of_the_request_cannot_be_deleted() {
    let mut stage = stage(2, 2);
    let said = stage.answer(&[delete(7, ip(Side::A, 1))]);
    assert_eq!(said, "error correlation=7 causes=[162]");
    assert_eq!(stage.paths_of_z().len(), 2);
}

#[test]
fn addresses_beyond_the_limit_and_all_later_changes_are_refused() {
    let mut stage = stage(2, 2);
    let address = |host: u8| IpAddr::from([10, 1, 0, 100 + host]);
    let most: Vec<_> = (0..14).map(|host| add(host.into(), address(host))).collect();
    assert_eq!(stage.answer(&most), "", "success is not mentioned");
    let said = stage.answer(&[
        add(1, address(14)),
        add(2, ip(Side::A, 1)),
        delete(3, ip(Side::A, 2)),
        primary(4, ip(Side::A, 2)),
    ]);
    let wanted = "error correlation=1 causes=[161], error correlation=2 causes=[161], \
        error correlation=3 causes=[161], success correlation=4";
    assert_eq!(said, wanted);
    assert!(stage.paths_of_z().iter().any(|(remote, _)| *remote == ip(Side::A, 2)));
}

#[test]
fn addresses_that_cannot_be_the_peers_are_refused() {
    let mut stage = stage(1, 1);
    for text in ["255.255.255.255", "224.0.0.1", "127.0.0.1", "169.254.1.1", "ff02::1", "fe80::1"] {
        let said = stage.answer(&[add(9, text.parse().unwrap())]);
        assert_eq!(said, "error correlation=9 causes=[164]", "{text}");
    }
    assert_eq!(stage.paths_of_z().len(), 1);
}

#[test]
fn an_endpoint_may_refuse_all_changes() {
    let z = Config { accept_address_changes: false, ..willing(Side::Z) };
    let mut stage = stage_with(1, 2, z);
    stage.announce(2);
    stage.pair.drive(millis(300));
    let outcome = ReconfigurationOutcome::Denied;
    let (address, change) = (ip(Side::A, 2), AddressChange::Added);
    assert_eq!(stage.pair.a.heard(), [&Event::LocalAddress { address, change, outcome }]);
    assert_eq!(stage.sent_from(2, ""), 0);
    let parameters = [delete(1, ip(Side::A, 1)), primary(2, ip(Side::A, 1))];
    stage.sequence += 1;
    let said = stage.answer(&parameters);
    assert_eq!(said, "error correlation=1 causes=[164], error correlation=2 causes=[164]");
}

#[test]
fn requests_are_done_in_their_order() {
    let mut stage = stage(1, 1);
    let (old, new) = (ip(Side::A, 1), ip(Side::A, 2));
    // Primary before it is added: refused. Then added, then preferred.
    let said = stage.answer(&[primary(1, new), add(2, new), primary(3, new), delete(4, old)]);
    let wanted = "error correlation=1 causes=[5], success correlation=2, \
        success correlation=3, error correlation=4 causes=[162]";
    assert_eq!(said, wanted);
}

#[test]
fn unknown_parameters_are_reported_if_they_say_so() {
    let mut stage = stage(1, 1);
    let parameter =
        |bytes: &'static [u8]| Parameter::Unknown(UnknownParameter::from_bytes(bytes).unwrap());
    let report = parameter(b"\xc1\x00\x00\x0c\x00\x00\x00\x05abcd");
    let silent = parameter(b"\x81\x00\x00\x0c\x00\x00\x00\x06abcd");
    let stop = parameter(b"\x41\x00\x00\x0c\x00\x00\x00\x07abcd");
    let new = ip(Side::A, 2);
    let said = stage.answer(&[silent, report, add(1, new), stop, add(2, ip(Side::A, 3))]);
    let wanted = "error correlation=5 causes=[8], success correlation=1, \
        error correlation=7 causes=[8]";
    assert_eq!(said, wanted);
    assert!(!stage.pair.z.heard().contains(&&told(AddressChange::Added, 3)));
    // What does not belong there is ignored.
    assert_eq!(stage.answer(&[Parameter::AdaptationIndication(7), Parameter::EcnCapable]), "");
}

#[test]
fn a_wildcard_stands_for_the_source_of_the_packet() {
    let mut stage = stage(1, 1);
    let source = SocketAddr::from(([10, 2, 0, 77], 4000));
    let addr = PathAddr { local: source, remote: address(Side::Z, 1) };
    let bytes = stage.asconf(ip(Side::A, 1), &[add(1, WILDCARD)]);
    stage.pair.inject_from(Side::A, addr, &bytes);
    stage.pair.drive(millis(15));
    let paths = stage.paths_of_z();
    assert!(paths.contains(&(source.ip(), PathState::Unconfirmed)), "{paths:?}");
    let ack = stage.pair.recorded.iter().find(|(from, ..)| *from == Side::Z).unwrap();
    assert_eq!(ack.1.remote, source, "the answer goes to where the request came from");
    // From there, all others are deleted.
    let bytes = stage.asconf(WILDCARD, &[primary(2, WILDCARD), delete(3, WILDCARD)]);
    stage.pair.inject_from(Side::A, addr, &bytes);
    stage.pair.drive(millis(15));
    assert_eq!(stage.last_ack(), "");
    assert_eq!(stage.paths_of_z(), [(source.ip(), PathState::Unconfirmed)]);
}

#[test]
fn a_wildcard_of_ipv6_stands_for_the_source_as_well() {
    let mut stage = stage(2, 2);
    assert_eq!(stage.answer(&[delete(1, IpAddr::V6(Ipv6Addr::UNSPECIFIED))]), "");
    assert!(stage.paths_of_z().iter().all(|(remote, _)| *remote == ip(Side::A, 1)));
}

#[test]
fn an_asconf_from_an_unknown_source_is_found_by_its_address_parameter() {
    let mut stage = stage(1, 1);
    let source = SocketAddr::from(([10, 2, 0, 77], 9899));
    let addr = PathAddr { local: source, remote: address(Side::Z, 1) };
    let stranger = ip(Side::A, 9);
    let bytes = stage.asconf_with(stage.sequence, stranger, &[add(1, source.ip())]);
    stage.pair.inject_from(Side::A, addr, &bytes);
    stage.pair.drive(millis(15));
    assert_eq!(stage.paths_of_z().len(), 1, "an address that is not the association's");
    assert_eq!(stage.pair.z.endpoint.counters().unknown_addresses, 1);
    let bytes = stage.asconf(ip(Side::A, 1), &[add(1, source.ip()), delete(2, ip(Side::A, 1))]);
    stage.pair.inject_from(Side::A, addr, &bytes);
    stage.pair.drive(millis(15));
    assert_eq!(stage.paths_of_z(), [(source.ip(), PathState::Unconfirmed)]);
}

#[test]
fn a_repeated_asconf_gets_the_same_answer_and_changes_nothing() {
    let mut stage = stage(1, 1);
    let bytes = stage.asconf(ip(Side::A, 1), &[add(1, ip(Side::A, 2)), delete(2, ip(Side::A, 1))]);
    for _ in 0..3 {
        stage.inject(&bytes);
        stage.pair.drive(millis(50));
        assert_eq!(stage.last_ack(), "error correlation=2 causes=[162]");
    }
    let added = told(AddressChange::Added, 2);
    assert_eq!(stage.pair.z.heard().iter().filter(|it| ***it == added).count(), 1);
    let acks = stage.pair.ladder.iter().filter(|line| line.contains("ASCONF_ACK")).count();
    assert_eq!((acks, stage.pair.z.endpoint.counters().stale_asconfs), (3, 2));
}

#[test]
fn an_asconf_out_of_order_is_dropped() {
    let mut stage = stage(1, 1);
    for ahead in [1, 2, 1 << 30, u32::MAX - 20] {
        let sequence = stage.sequence.wrapping_add(ahead);
        let bytes = stage.asconf_with(sequence, ip(Side::A, 1), &[add(1, ip(Side::A, 2))]);
        stage.inject(&bytes);
    }
    stage.pair.drive(millis(50));
    assert!(!stage.pair.ladder.iter().any(|line| line.contains("ASCONF_ACK")));
    assert_eq!(stage.pair.z.endpoint.counters().stale_asconfs, 4);
    assert_eq!(stage.paths_of_z().len(), 1);
}

#[test]
fn several_asconfs_in_one_packet_are_answered_one_by_one() {
    let mut stage = stage(1, 1);
    let auth = Chunk::Auth(Auth { key: 0, hmac_id: 3, hmac: &[0; 32] });
    let (sequence, lookup) = (stage.sequence, ip(Side::A, 1));
    let bytes = with_parameters(&[add(1, ip(Side::A, 2))], |first| {
        with_parameters(&[delete(2, ip(Side::A, 2))], |second| {
            let asconf = |ahead, parameters| {
                let sequence = sequence.wrapping_add(ahead);
                Chunk::Asconf(manypath_wire::chunk::Asconf {
                    sequence,
                    address: lookup,
                    parameters,
                })
            };
            packet(Side::A, stage.tag, &[auth, asconf(0, first), asconf(1, second)])
        })
    });
    let bytes = signed(&stage.key, bytes);
    for _ in 0..2 {
        stage.inject(&bytes);
        stage.pair.drive(millis(50));
        let answer = stage.pair.ladder.last().unwrap();
        assert_eq!(answer, "A <- AUTH ASCONF_ACK ASCONF_ACK /lost/ <- Z");
    }
    let heard = [told(AddressChange::Added, 2), told(AddressChange::Removed, 2)];
    let heard: Vec<_> = heard.iter().collect();
    assert_eq!(stage.pair.z.heard(), heard);
}

#[test]
fn a_lost_asconf_is_repeated_unchanged_on_another_path_and_counted() {
    let mut stage = stage(2, 2);
    stage.pair.lose(Side::A, "ASCONF", 1);
    stage.announce(3);
    stage.pair.drive(millis(100));
    let now = stage.pair.now;
    let status = stage.pair.a.endpoint.status(now, stage.a).unwrap();
    assert_eq!(status.paths[0].error_count, 0);
    stage.pair.drive(millis(250));
    let sent = asconfs(&stage);
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].1, sent[1].1, "the same sequence number and requests");
    assert_ne!(sent[0].0.remote, sent[1].0.remote);
    assert!(stage.pair.a.heard().contains(&&asked(AddressChange::Added, 3)));
    let failed =
        Event::PathChanged { path: status.paths[0].id, state: PathState::PotentiallyFailed };
    assert!(stage.pair.a.heard().contains(&&failed), "counted for the path");
}

#[test]
fn without_an_answer_the_association_is_given_up() {
    let mut stage = stage(1, 1);
    stage.pair.cut(1);
    stage.announce(2);
    stage.pair.drive(millis(600_000));
    let closed = Event::Closed(CloseReason::TooManyFailures);
    assert!(stage.pair.a.heard().contains(&&closed));
    let sent = asconfs(&stage).len();
    assert!((5..=11).contains(&sent), "{sent}: HEARTBEATs that are not answered count as well");
}

#[test]
fn one_asconf_is_under_way_at_a_time() {
    let mut stage = stage(1, 2);
    stage.announce(2);
    stage.pair.drive(millis(5));
    stage.announce(3);
    stage.remove(2);
    stage.pair.drive(millis(14));
    assert_eq!(asconfs(&stage).len(), 1);
    stage.pair.drive(millis(500));
    let sent = asconfs(&stage);
    assert_eq!(sent.len(), 2, "what waited travels together");
    let heard = [asked(AddressChange::Added, 3), asked(AddressChange::Removed, 2)];
    assert!(heard.iter().all(|event| stage.pair.a.heard().contains(&event)));
}

#[test]
fn more_changes_than_fit_go_into_several_asconfs() {
    let mut stage = stage(1, 1);
    for host in 0..14 {
        let addr = SocketAddr::from(([10, 1, 0, 100 + host], 9899));
        let added = manypath_engine::LocalAddress { addr, ..local(Side::A, 1) };
        stage.pair.a.endpoint.announce_local_address(stage.pair.now, added);
        let now = stage.pair.now;
        let a = stage.a;
        stage.pair.a.endpoint.request_peer_primary(now, a, addr.ip()).unwrap();
    }
    stage.pair.drive(millis(3000));
    let sent = asconfs(&stage);
    assert!(sent.len() == 2 && sent.iter().all(|(_, bytes)| bytes.len() < 536), "{}", sent.len());
    let added = stage.pair.a.heard().into_iter().filter(|event| {
        let change = AddressChange::Added;
        matches!(event, Event::LocalAddress { change: it, .. } if *it == change)
    });
    assert_eq!(added.count(), 14);
}

/// An ASCONF-ACK of Z made by hand.
fn inject_ack(stage: &mut Stage, sequence: u32, parameters: &[Parameter<'_>]) {
    let tag = stage.pair.tag_of(Side::A);
    let auth = Chunk::Auth(Auth { key: 0, hmac_id: 3, hmac: &[0; 32] });
    let bytes = with_parameters(parameters, |parameters| {
        let ack = AsconfAck { sequence, parameters };
        packet(Side::Z, tag, &[auth, Chunk::AsconfAck(ack)])
    });
    let bytes = signed(&stage.key, bytes);
    stage.pair.inject(Side::Z, 1, &bytes);
    stage.pair.drive(millis(15));
}

#[test]
fn an_answer_to_what_was_never_asked_aborts_and_an_old_one_does_not() {
    let mut stage = stage(1, 1);
    let next = stage.sequence;
    inject_ack(&mut stage, next.wrapping_sub(1), &[]);
    assert_eq!(stage.pair.a.endpoint.counters().stale_asconfs, 1);
    inject_ack(&mut stage, next, &[]);
    assert_eq!(stage.pair.ladder.last().unwrap(), "A -> ABORT -> Z");
    let abort = stage.pair.recorded.last().unwrap();
    let Some(Ok(Chunk::Abort(abort))) = Packet::parse(&abort.2).unwrap().chunks().next() else {
        panic!("no ABORT")
    };
    assert_eq!(abort.causes.iter().next(), Some(Ok(Cause::IllegalAsconfAck)));
    stage.pair.drive(millis(100));
    let closed = Event::Closed(CloseReason::PeerAborted(Some(0xA3)));
    assert_eq!(stage.pair.z.heard().last(), Some(&&closed));
}

#[test]
fn what_comes_after_a_failure_has_failed_unless_it_is_said_otherwise() {
    let mut stage = stage(1, 1);
    stage.pair.lose(Side::A, "ASCONF", 1);
    for path in [2, 3] {
        stage.announce(path);
    }
    let (now, a) = (stage.pair.now, stage.a);
    stage.pair.a.endpoint.request_peer_primary(now, a, ip(Side::A, 1)).unwrap();
    stage.pair.drive(millis(5));
    let mut buffer = [0; 64];
    let mut causes = CauseWriter::new(&mut buffer);
    causes.push(&Cause::UnrecognizedParameters(&[0xC0, 1, 0, 4])).unwrap();
    let len = causes.finish();
    let error = ErrorIndication { correlation: 1, causes: Causes::from_bytes(&buffer[..len]) };
    let (sequence, responses) = (stage.sequence, [Parameter::ErrorIndication(error)]);
    inject_ack(&mut stage, sequence, &responses);
    let failed = |change, path| Event::LocalAddress {
        address: ip(Side::A, path),
        change,
        outcome: ReconfigurationOutcome::Failed,
    };
    let heard = [
        asked(AddressChange::Added, 2),
        failed(AddressChange::Added, 3),
        failed(AddressChange::MadePrimary, 1),
    ];
    let heard: Vec<_> = heard.iter().collect();
    assert_eq!(stage.pair.a.heard()[..3], heard);
    // Such a peer is not asked to add or delete again.
    let now = stage.pair.now;
    let endpoint = &mut stage.pair.a.endpoint;
    let not_supported = Err(AddressError::NotSupported);
    assert_eq!(endpoint.add_address(now, a, ip(Side::A, 3)), not_supported);
    assert_eq!(endpoint.request_peer_primary(now, a, ip(Side::A, 1)), Ok(()));
}

#[test]
fn a_peer_that_does_not_understand_preferences_is_not_asked_for_them_again() {
    let mut stage = stage(2, 2);
    stage.pair.lose(Side::A, "ASCONF", 1);
    let (now, a) = (stage.pair.now, stage.a);
    stage.pair.a.endpoint.request_peer_primary(now, a, ip(Side::A, 2)).unwrap();
    stage.pair.drive(millis(5));
    let mut buffer = [0; 64];
    let mut causes = CauseWriter::new(&mut buffer);
    causes.push(&Cause::UnrecognizedParameters(&[0xC0, 4, 0, 4])).unwrap();
    let len = causes.finish();
    let error = ErrorIndication { correlation: 0, causes: Causes::from_bytes(&buffer[..len]) };
    let sequence = stage.sequence;
    inject_ack(&mut stage, sequence, &[Parameter::ErrorIndication(error)]);
    let now = stage.pair.now;
    let endpoint = &mut stage.pair.a.endpoint;
    let refused = endpoint.request_peer_primary(now, a, ip(Side::A, 2));
    assert_eq!(refused, Err(AddressError::NotSupported));
    assert_eq!(endpoint.remove_address(now, a, ip(Side::A, 2)), Ok(()));
}

#[test]
fn asconfs_are_neither_sent_nor_answered_outside_of_their_states() {
    let mut stage = stage(1, 1);
    stage.pair.lose(Side::Z, "SHUTDOWN_ACK", 1);
    let (now, a) = (stage.pair.now, stage.a);
    stage.pair.a.endpoint.shutdown(now, a);
    stage.pair.drive(millis(15));
    stage.announce(2);
    let refused = stage.pair.a.endpoint.add_address(now, a, ip(Side::A, 2));
    assert_eq!(refused, Err(AddressError::NotEstablished));
    stage.pair.drive(millis(10));
    assert_eq!(asconfs(&stage).len(), 0);
    let bytes = stage.asconf(ip(Side::A, 1), &[add(1, ip(Side::A, 2))]);
    stage.pair.inject(Side::A, 1, &bytes);
    stage.pair.drive(millis(15));
    assert!(!stage.pair.ladder.iter().any(|line| line.contains("ASCONF_ACK")));
    assert_eq!(stage.pair.z.endpoint.counters().unexpected_chunks, 1);
}

#[test]
fn a_peer_that_does_not_know_asconf_is_not_asked_again() {
    let mut stage = stage(1, 1);
    stage.pair.lose(Side::A, "ASCONF", 1);
    stage.announce(2);
    stage.pair.drive(millis(5));
    let mut buffer = [0; 64];
    let mut causes = CauseWriter::new(&mut buffer);
    causes.push(&Cause::UnrecognizedChunkType(&[0xC1, 0, 0, 4])).unwrap();
    let len = causes.finish();
    let error = Chunk::Error(Error { causes: Causes::from_bytes(&buffer[..len]) });
    let tag = stage.pair.tag_of(Side::A);
    stage.pair.recorded.clear();
    stage.pair.inject(Side::Z, 1, &packet(Side::Z, tag, &[error]));
    stage.pair.drive(millis(5000));
    assert_eq!(asconfs(&stage).len(), 0, "T4-rto does not run any more");
    let (address, change) = (ip(Side::A, 2), AddressChange::Added);
    let outcome = ReconfigurationOutcome::Failed;
    assert!(stage.pair.a.heard().contains(&&Event::LocalAddress { address, change, outcome }));
    let (now, a) = (stage.pair.now, stage.a);
    let refused = stage.pair.a.endpoint.add_address(now, a, ip(Side::A, 2));
    assert_eq!(refused, Err(AddressError::NotSupported));
}
