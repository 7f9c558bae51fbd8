//! Defences against ASCONFs of others, and of a peer with bad intentions (RFC 5061 section 6, RFC
//! 5062).

use super::{Stage, ip, stage, with_parameters};
use crate::craft::{checksummed, packet};
use crate::pair::{Side, address, millis};
use manypath_engine::{Event, PathAddr, PathState};
use manypath_wire::cause::Causes;
use manypath_wire::chunk::{Abort, Asconf, Auth, Chunk};
use manypath_wire::packet::Packet;
use manypath_wire::parameter::{AddressRequest, Parameter};
use std::net::{IpAddr, SocketAddr};

fn add(address: IpAddr) -> Parameter<'static> {
    Parameter::AddIpAddress(AddressRequest { correlation: 1, address })
}

fn delete(address: IpAddr) -> Parameter<'static> {
    Parameter::DeleteIpAddress(AddressRequest { correlation: 2, address })
}

fn nothing_has_changed(stage: &Stage) {
    assert_eq!(stage.paths_of_z(), [(ip(Side::A, 1), PathState::Active)]);
    assert_eq!(stage.pair.z.heard(), [] as [&Event; 0]);
    assert!(!stage.pair.ladder.iter().any(|line| line.contains("<- Z")), "silently");
}

#[test]
fn an_asconf_without_authentication_is_dropped_with_the_rest_of_its_packet() {
    let mut stage = stage(1, 1);
    let attacker = IpAddr::from([10, 2, 0, 66]);
    let heartbeat = Chunk::Heartbeat(manypath_wire::chunk::Heartbeat { info: b"answer me" });
    let bytes = with_parameters(&[add(attacker), delete(ip(Side::A, 1))], |parameters| {
        let (sequence, address) = (stage.sequence, ip(Side::A, 1));
        let asconf = Chunk::Asconf(Asconf { sequence, address, parameters });
        packet(Side::A, stage.tag, &[asconf, heartbeat])
    });
    stage.pair.inject(Side::A, 1, &bytes);
    let remote = address(Side::Z, 1);
    let elsewhere = PathAddr { local: SocketAddr::new(attacker, 9899), remote };
    stage.pair.inject_from(Side::A, elsewhere, &bytes);
    stage.pair.drive(millis(100));
    nothing_has_changed(&stage);
    let counters = stage.pair.z.endpoint.counters();
    assert_eq!((counters.unauthenticated_chunks, counters.unknown_addresses), (2, 1));
}

#[test]
fn an_asconf_ack_without_authentication_is_dropped() {
    let mut stage = stage(1, 1);
    let tag = stage.pair.tag_of(Side::A);
    stage.pair.lose(Side::A, "ASCONF", 1);
    stage.announce(2);
    stage.pair.drive(millis(5));
    let sequence = stage.sequence;
    let parameters = manypath_wire::parameter::Parameters::EMPTY;
    let ack = Chunk::AsconfAck(manypath_wire::chunk::AsconfAck { sequence, parameters });
    stage.pair.inject(Side::Z, 1, &packet(Side::Z, tag, &[ack]));
    stage.pair.drive(millis(50));
    assert_eq!(stage.pair.a.endpoint.counters().unauthenticated_chunks, 1);
    assert_eq!(stage.pair.a.heard(), [] as [&Event; 0]);
}

#[test]
fn an_asconf_with_a_wrong_key_cannot_hijack_an_association() {
    let mut stage = stage(1, 1);
    let attacker = IpAddr::from([10, 2, 0, 66]);
    let remote = address(Side::Z, 1);
    let elsewhere = PathAddr { local: SocketAddr::new(attacker, 9899), remote };
    let good = stage.asconf(ip(Side::A, 1), &[add(attacker), delete(ip(Side::A, 1))]);
    for at in [20, 40, 60, good.len() - 1] {
        let mut forged = good.clone();
        forged[at] ^= 0x40;
        stage.pair.inject_from(Side::A, elsewhere, &checksummed(forged));
    }
    let auth = Chunk::Auth(Auth { key: 9, hmac_id: 3, hmac: &[0; 32] });
    stage.pair.inject_from(Side::A, elsewhere, &packet(Side::A, stage.tag, &[auth]));
    stage.pair.drive(millis(100));
    nothing_has_changed(&stage);
    let counters = stage.pair.z.endpoint.counters();
    assert_eq!((counters.wrong_hmacs, counters.unknown_keys), (4, 1));
    assert_eq!(counters.unknown_addresses, 5);
}

#[test]
fn a_replayed_asconf_does_not_bring_an_address_back() {
    let mut stage = stage(2, 2);
    let two = ip(Side::A, 2);
    let removed = stage.asconf(ip(Side::A, 1), &[delete(two)]);
    let added = stage.asconf(ip(Side::A, 1), &[add(two)]);
    let removed_again = stage.asconf(ip(Side::A, 1), &[delete(two)]);
    for bytes in [&removed, &added, &removed_again] {
        stage.inject(bytes);
        stage.pair.drive(millis(50));
    }
    assert!(stage.paths_of_z().iter().all(|(remote, _)| *remote == ip(Side::A, 1)));
    for bytes in [&added, &removed, &added] {
        stage.inject(bytes);
        stage.pair.drive(millis(50));
    }
    assert!(stage.paths_of_z().iter().all(|(remote, _)| *remote == ip(Side::A, 1)));
    assert_eq!(stage.pair.z.endpoint.counters().stale_asconfs, 3);
}

/// What a flood of ASCONFs makes an endpoint keep is bounded: sixteen addresses, four answers.
#[test]
fn a_flood_of_asconfs_is_answered_one_for_one_and_keeps_no_more_than_the_limits() {
    let mut stage = stage(1, 1);
    stage.pair.quiet = true;
    let mut last = Vec::new();
    for round in 0..300_u32 {
        let host = |n: u32| IpAddr::from([10, 1, n.to_be_bytes()[3], 9]);
        let wanted = [add(host(round)), add(host(round + 1)), add(host(round + 2))];
        last = stage.asconf(ip(Side::A, 1), &wanted);
        stage.inject(&last);
        stage.pair.drive(millis(1));
    }
    stage.pair.drive(millis(50));
    assert!(stage.paths_of_z().len() <= 16);
    assert!(stage.pair.z.endpoint.counters().refused_addresses > 500);
    stage.pair.recorded.clear();
    for _ in 0..1000 {
        stage.inject(&last);
    }
    stage.pair.drive(millis(50));
    let of = |side| stage.pair.recorded.iter().filter(move |(from, ..)| *from == side);
    let bytes = |side| of(side).map(|(_, _, bytes)| bytes.len()).sum::<usize>();
    assert!(of(Side::Z).count() <= 1100, "{}", of(Side::Z).count());
    assert!(bytes(Side::Z) <= 2 * bytes(Side::A), "no amplification");
}

/// RFC 5062 section 2: an address of somebody else must not be flooded.
#[test]
fn addresses_of_others_get_small_heartbeats_alone_and_few_of_them() {
    let mut stage = stage(1, 1);
    let victims: Vec<_> = (0..14).map(|host| IpAddr::from([10, 2, 0, 100 + host])).collect();
    let requests: Vec<_> = victims.iter().map(|victim| add(*victim)).collect();
    stage.answer(&requests);
    stage.pair.recorded.clear();
    stage.pair.cut(2);
    let z = stage.z;
    stage.pair.send(Side::Z, z, 0, &[7; 2_000_000]);
    stage.pair.drive(millis(60_000));
    let mut sent = 0;
    for (from, addr, bytes) in &stage.pair.recorded {
        if *from == Side::Z && victims.contains(&addr.remote.ip()) {
            let chunks: Vec<_> = Packet::parse(bytes).unwrap().chunks().flatten().collect();
            assert!(matches!(chunks[..], [Chunk::Heartbeat(_)]), "{chunks:?}");
            assert!(bytes.len() < 100);
            sent += 1;
        }
    }
    // One in two seconds at first, fewer when there is no answer.
    assert!(sent > 0 && sent <= 14 * 32, "{sent} packets to 14 strangers in a minute");
    assert_eq!(stage.pair.a.received.len(), 1, "the association goes on");
}

/// Removed and added again, an address gets what it would have got had it stayed, and all of them together no more
/// than three times the bytes that the peer sends.
#[test]
fn addresses_that_come_and_go_are_probed_as_if_they_had_stayed() {
    let mut stage = stage(1, 1);
    stage.pair.quiet = true;
    stage.pair.cut(2);
    let victims: Vec<_> = (0..8).map(|host| IpAddr::from([10, 2, 0, 100 + host])).collect();
    let requests: Vec<_> =
        victims.iter().flat_map(|victim| [delete(*victim), add(*victim)]).collect();
    for _ in 0..549 {
        let bytes = stage.asconf(ip(Side::A, 1), &requests);
        stage.inject(&bytes);
        stage.pair.drive(millis(7));
    }
    let bytes = |side, of_victims| {
        let of = stage.pair.recorded.iter().filter(|(from, addr, _)| {
            *from == side && victims.contains(&addr.remote.ip()) == of_victims
        });
        of.fold((0, 0), |(packets, bytes), (.., it)| (packets + 1, bytes + it.len() + 28))
    };
    let ((_, paid), (packets, bytes)) = (bytes(Side::A, false), bytes(Side::Z, true));
    println!("delete and add, 4 s: {packets} packets, {bytes} bytes for {paid}");
    assert!((8..=8 * 5).contains(&packets), "{packets} packets to 8 strangers in 4 s");
    assert!(bytes <= 3 * paid, "{bytes} bytes for {paid}");
}

/// RFC 5061 section 5.3.1.
#[test]
fn an_abort_to_an_address_that_is_being_deleted_is_ignored() {
    let mut stage = stage(2, 2);
    let (to_a, of_z) = (stage.pair.tag_of(Side::A), stage.tag);
    stage.pair.lose(Side::A, "ASCONF", 1);
    stage.remove(2);
    stage.pair.drive(millis(5));
    for (tag, tag_reflected) in [(to_a, false), (of_z, true)] {
        let abort = Chunk::Abort(Abort { tag_reflected, causes: Causes::EMPTY });
        stage.pair.inject(Side::Z, 2, &packet(Side::Z, tag, &[abort]));
    }
    stage.pair.drive(millis(1000));
    assert!(!stage.pair.a.heard().iter().any(|event| matches!(event, Event::Closed(_))));
    assert_eq!(stage.pair.a.endpoint.counters().unexpected_chunks, 2);
}

#[test]
fn packets_from_a_deleted_address_are_out_of_the_association() {
    let mut stage = stage(2, 2);
    stage.pair.lose(Side::A, "DATA", 1);
    stage.answer(&[delete(ip(Side::A, 2))]);
    stage.pair.ladder.clear();
    let heartbeat = Chunk::Heartbeat(manypath_wire::chunk::Heartbeat { info: b"answer me" });
    stage.pair.inject(Side::A, 2, &packet(Side::A, stage.tag, &[heartbeat]));
    stage.pair.drive(millis(50));
    stage.pair.expect("A -2> HEARTBEAT -> Z");
    assert_eq!(stage.pair.z.endpoint.counters().unknown_addresses, 1);
}
