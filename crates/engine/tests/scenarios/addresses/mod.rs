//! Addresses are added to an association that is in use, and removed from it (RFC 5061).

mod ending;
mod hostile;
mod moving;
mod offers;
mod partial;
mod requests;
mod scopes;
mod servers;
mod translation;

use crate::authentication::keys::{signed, vectors};
use crate::craft::packet;
use crate::pair::{Pair, Side, address, config, endpoint, millis};
use manypath_engine::{
    AddressChange, AddressError, AssociationId, CloseReason, Config, Event, LocalAddress,
    PathState, ReconfigurationOutcome,
};
use manypath_wire::chunk::{Asconf, Auth, Chunk, types};
use manypath_wire::packet::Packet;
use manypath_wire::parameter::{Parameter, ParameterWriter, Parameters};
use std::net::IpAddr;

const PERFORMED: ReconfigurationOutcome = ReconfigurationOutcome::Performed;

/// Wants addresses to come and go.
fn willing(side: Side) -> Config {
    Config { address_reconfiguration: true, ..config(side) }
}

fn ip(side: Side, path: u8) -> IpAddr {
    address(side, path).ip()
}

fn local(side: Side, path: u8) -> LocalAddress {
    LocalAddress { addr: address(side, path), prefix_len: 24, interface: 0, mtu: 1500 }
}

/// An association over three links of which A and Z use the first ones.
struct Stage {
    pair: Pair,
    a: AssociationId,
    z: AssociationId,
    /// The association key.
    key: Vec<u8>,
    /// The next sequence number that Z expects.
    sequence: u32,
    /// The tag that Z expects.
    tag: u32,
}

fn stage(of_a: u8, of_z: u8) -> Stage {
    stage_with(of_a, of_z, willing(Side::Z))
}

fn stage_with(of_a: u8, of_z: u8, z: Config) -> Stage {
    stage_behind(of_a, of_z, z, &[])
}

/// `nat`: what NATs make of the addresses of A on these paths.
fn stage_behind(of_a: u8, of_z: u8, z: Config, nat: &[(u8, &str)]) -> Stage {
    let a = Config { partial_reliability: z.partial_reliability, ..willing(Side::A) };
    let mut pair = Pair::with(3, a.clone(), z.clone());
    pair.a.endpoint = endpoint(Side::A, of_a, a, 1);
    pair.z.endpoint = endpoint(Side::Z, of_z, z, 2);
    pair.record = true;
    let outside = |(path, text): &(u8, &str)| (address(Side::A, *path), text.parse().unwrap());
    pair.nat = nat.iter().map(outside).collect();
    let a = pair.connect();
    pair.drive(millis(1000));
    let z = pair.z.endpoint.associations()[0];
    let key = vectors(&pair);
    let init = Packet::parse(&pair.recorded[0].2).unwrap().chunks().next();
    let Some(Ok(Chunk::Init(init))) = init else { panic!("no INIT") };
    let (sequence, tag) = (init.initial_tsn.0, pair.tag_of(Side::Z));
    pair.a.events.clear();
    pair.z.events.clear();
    pair.recorded.clear();
    pair.ladder.clear();
    Stage { pair, a, z, key, sequence, tag }
}

fn with_parameters<R>(parameters: &[Parameter<'_>], call: impl FnOnce(Parameters<'_>) -> R) -> R {
    let mut buffer = [0; 1000];
    let mut writer = ParameterWriter::new(&mut buffer);
    parameters.iter().for_each(|parameter| writer.push(parameter).unwrap());
    let len = writer.finish();
    call(Parameters::from_bytes(&buffer[..len]))
}

impl Stage {
    /// An ASCONF of A with the next sequence number, authentic.
    fn asconf(&mut self, lookup: IpAddr, parameters: &[Parameter<'_>]) -> Vec<u8> {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        self.asconf_with(sequence, lookup, parameters)
    }

    fn asconf_with(&self, sequence: u32, lookup: IpAddr, parameters: &[Parameter<'_>]) -> Vec<u8> {
        let auth = Chunk::Auth(Auth { key: 0, hmac_id: 3, hmac: &[0; 32] });
        let bytes = with_parameters(parameters, |parameters| {
            let asconf = Asconf { sequence, address: lookup, parameters };
            packet(Side::A, self.tag, &[auth, Chunk::Asconf(asconf)])
        });
        signed(&self.key, bytes)
    }

    /// An ASCONF with these parameters comes over the first path; the ASCONF-ACK as text.
    fn answer(&mut self, parameters: &[Parameter<'_>]) -> String {
        let bytes = self.asconf(ip(Side::A, 1), parameters);
        self.inject(&bytes);
        self.pair.drive(millis(100));
        self.last_ack()
    }

    /// An ASCONF made by hand comes over the first path. A, which knows nothing of it, does not get the
    /// answer.
    fn inject(&mut self, bytes: &[u8]) {
        self.pair.lose(Side::Z, "ASCONF_ACK", 1);
        self.pair.inject(Side::A, 1, bytes);
    }

    fn last_ack(&self) -> String {
        let sent = self.pair.recorded.iter().rev().filter(|(from, ..)| *from == Side::Z);
        let mut acks = sent.flat_map(|(_, _, bytes)| {
            let chunks = Packet::parse(bytes).unwrap().chunks().map(Result::unwrap);
            let texts: Vec<_> = chunks
                .filter(|chunk| matches!(chunk, Chunk::AsconfAck(_)))
                .map(|chunk| chunk.to_string())
                .collect();
            texts
        });
        let text = acks.next().unwrap();
        text.split_once('{').unwrap().1.trim_end_matches('}').to_owned()
    }

    /// States of the paths of Z by the peer's address.
    fn paths_of_z(&self) -> Vec<(IpAddr, PathState)> {
        let status = self.pair.z.endpoint.status(self.pair.now, self.z).unwrap();
        status.paths.iter().map(|path| (path.addr.remote.ip(), path.state)).collect()
    }

    fn announce(&mut self, path: u8) {
        let now = self.pair.now;
        self.pair.a.endpoint.announce_local_address(now, local(Side::A, path));
    }

    fn remove(&mut self, path: u8) {
        let now = self.pair.now;
        self.pair.a.endpoint.remove_local_address(now, ip(Side::A, path));
    }

    /// Whether packets with `chunk` were sent from A's address on `path`.
    fn sent_from(&self, path: u8, chunk: &str) -> usize {
        let from_there = self.pair.recorded.iter().filter(|(from, addr, bytes)| {
            let chunks = Packet::parse(bytes).unwrap().chunks().map(Result::unwrap);
            let mut chunks = chunks.map(|it| it.to_string());
            *from == Side::A
                && addr.local.ip() == ip(Side::A, path)
                && chunks.any(|text| text.starts_with(chunk))
        });
        from_there.count()
    }
}

fn asked(change: AddressChange, path: u8) -> Event {
    Event::LocalAddress { address: ip(Side::A, path), change, outcome: PERFORMED }
}

fn told(change: AddressChange, path: u8) -> Event {
    Event::PeerAddress { address: ip(Side::A, path), change }
}

#[test]
fn asconf_is_announced_with_its_answer_and_with_authentication() {
    let stage = stage(1, 1);
    for (endpoint, id) in [(&stage.pair.a.endpoint, stage.a), (&stage.pair.z.endpoint, stage.z)] {
        let status = endpoint.status(stage.pair.now, id).unwrap();
        for wanted in [types::ASCONF, types::ASCONF_ACK, types::AUTH] {
            assert!(status.peer_extensions.contains(&wanted), "{wanted}");
        }
        assert!(status.authentication);
    }
}

#[test]
fn an_added_address_is_verified_and_used() {
    let mut stage = stage(1, 2);
    stage.announce(2);
    stage.pair.drive(millis(15));
    stage.pair.expect("A -> AUTH ASCONF -> Z\nA <- AUTH ASCONF_ACK <- Z\nA <2- HEARTBEAT <- Z");
    assert_eq!(stage.sent_from(2, ""), 0, "not before it is acknowledged");
    stage.pair.drive(millis(300));
    assert!(stage.pair.a.heard().contains(&&asked(AddressChange::Added, 2)));
    assert!(stage.pair.z.heard().contains(&&told(AddressChange::Added, 2)));
    assert!(stage.paths_of_z().contains(&(ip(Side::A, 2), PathState::Active)));
    let status = stage.pair.a.endpoint.status(stage.pair.now, stage.a).unwrap();
    let path = status.paths.iter().find(|path| path.addr.local.ip() == ip(Side::A, 2)).unwrap();
    assert_eq!((path.state, path.addr.remote.ip()), (PathState::Active, ip(Side::Z, 2)));
    stage.pair.send(Side::A, stage.a, 0, &[7; 300_000]);
    stage.pair.drive(millis(2000));
    assert_eq!(stage.pair.z.received, [(0, vec![7; 300_000].into())]);
    assert!(stage.sent_from(2, "DATA") > 20);
}

#[test]
fn a_removed_address_sends_nothing_more_and_its_data_goes_elsewhere() {
    let mut stage = stage(2, 2);
    stage.pair.send(Side::A, stage.a, 0, &[7; 400_000]);
    stage.pair.send(Side::Z, stage.z, 0, &[8; 400_000]);
    stage.pair.drive(millis(60));
    assert!(stage.sent_from(2, "DATA") > 0);
    stage.remove(2);
    stage.pair.recorded.clear();
    stage.pair.drive(millis(5000));
    assert_eq!(stage.sent_from(2, ""), 0);
    assert_eq!(stage.pair.z.received, [(0, vec![7; 400_000].into())]);
    assert_eq!(stage.pair.a.received, [(0, vec![8; 400_000].into())]);
    assert!(stage.pair.a.heard().contains(&&asked(AddressChange::Removed, 2)));
    assert!(stage.pair.z.heard().contains(&&told(AddressChange::Removed, 2)));
    assert!(stage.paths_of_z().iter().all(|(remote, _)| *remote == ip(Side::A, 1)));
}

#[test]
fn a_preferred_address_becomes_the_primary_one() {
    let mut stage = stage(2, 2);
    let (now, a) = (stage.pair.now, stage.a);
    stage.pair.a.endpoint.request_peer_primary(now, a, ip(Side::A, 2)).unwrap();
    stage.pair.drive(millis(100));
    let status = stage.pair.z.endpoint.status(stage.pair.now, stage.z).unwrap();
    let primary = status.paths.iter().find(|path| path.primary).unwrap();
    assert_eq!(primary.addr.remote.ip(), ip(Side::A, 2));
    assert_eq!(stage.pair.a.heard(), [&asked(AddressChange::MadePrimary, 2)]);
    assert_eq!(stage.pair.z.heard(), [&told(AddressChange::MadePrimary, 2)]);
}

#[test]
fn a_new_address_becomes_primary_when_it_has_been_confirmed() {
    let mut stage = stage(1, 2);
    stage.announce(2);
    let (now, a) = (stage.pair.now, stage.a);
    stage.pair.a.endpoint.request_peer_primary(now, a, ip(Side::A, 2)).unwrap();
    stage.pair.drive(millis(25));
    let told_primary = told(AddressChange::MadePrimary, 2);
    assert!(!stage.pair.z.heard().contains(&&told_primary), "it may be anybody's");
    stage.pair.drive(millis(300));
    assert!(stage.pair.z.heard().contains(&&told_primary), "{:#?}", stage.pair.z.heard());
}

/// RFC 5061 section 5.3.2.
#[test]
fn the_only_address_is_changed() {
    let mut stage = stage(1, 1);
    stage.pair.send(Side::A, stage.a, 0, &[7; 200_000]);
    stage.pair.drive(millis(40));
    stage.announce(2);
    stage.remove(1);
    stage.pair.recorded.clear();
    stage.pair.drive(millis(3000));
    assert_eq!(stage.sent_from(1, ""), 0);
    let first = Packet::parse(&stage.pair.recorded.iter().find(|it| it.0 == Side::A).unwrap().2)
        .unwrap()
        .chunks()
        .nth(1);
    let Some(Ok(Chunk::Asconf(asconf))) = first else { panic!("no ASCONF: {first:?}") };
    assert_eq!(asconf.address, ip(Side::A, 1), "Z still finds the association by it");
    assert_eq!(stage.pair.z.received, [(0, vec![7; 200_000].into())]);
    let expected = [asked(AddressChange::Added, 2), asked(AddressChange::Removed, 1)];
    assert!(expected.iter().all(|event| stage.pair.a.heard().contains(&event)));
    let paths = stage.paths_of_z();
    assert_eq!(paths, [(ip(Side::A, 2), PathState::Active)]);
    stage.pair.send(Side::Z, stage.z, 1, b"to the new address");
    stage.pair.drive(millis(300));
    assert_eq!(stage.pair.a.received, [(1, "to the new address".into())]);
}

#[test]
fn until_the_new_only_address_is_acknowledged_nothing_but_asconfs_leaves() {
    let mut stage = stage(1, 1);
    stage.pair.lose(Side::A, "ASCONF", 2);
    stage.announce(2);
    stage.remove(1);
    stage.pair.send(Side::A, stage.a, 0, b"must wait");
    stage.pair.send(Side::Z, stage.z, 0, b"to the old address");
    stage.pair.drive(millis(180));
    assert_eq!(stage.pair.a.received, [(0, "to the old address".into())], "still ours");
    assert_eq!(stage.sent_from(1, ""), 0);
    assert_eq!(stage.sent_from(2, "DATA") + stage.sent_from(2, "SACK"), 0);
    stage.pair.drive(millis(3000));
    assert_eq!(stage.pair.z.received, [(0, "must wait".into())]);
}

#[test]
fn both_families_come_and_go() {
    let mut stage = stage(1, 1);
    let v6 = |host: u16| std::net::SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, host], 9899));
    let local = |host| LocalAddress { addr: v6(host), prefix_len: 64, interface: 0, mtu: 1500 };
    let link = stage.pair.links[&1];
    stage.pair.links.insert(0, link);
    let now = stage.pair.now;
    stage.pair.z.endpoint.announce_local_address(now, local(2));
    stage.pair.drive(millis(300));
    let added = |address| Event::PeerAddress { address, change: AddressChange::Added };
    assert!(stage.pair.a.heard().contains(&&added(v6(2).ip())));
    let status = stage.pair.a.endpoint.status(stage.pair.now, stage.a).unwrap();
    assert_eq!(status.paths.len(), 1, "A has no address yet from which it could be reached");
    let now = stage.pair.now;
    stage.pair.a.endpoint.announce_local_address(now, local(1));
    stage.pair.drive(millis(900));
    assert!(stage.pair.z.heard().contains(&&added(v6(1).ip())));
    let active = |path: &&(IpAddr, PathState)| **path == (v6(1).ip(), PathState::Active);
    assert!(stage.paths_of_z().iter().any(|path| active(&path)), "{:?}", stage.paths_of_z());
    stage.remove(1);
    stage.pair.drive(millis(600));
    assert_eq!(stage.paths_of_z(), [(v6(1).ip(), PathState::Active)]);
    stage.pair.send(Side::A, stage.a, 0, b"over IPv6 alone");
    stage.pair.drive(millis(300));
    assert_eq!(stage.pair.z.received, [(0, "over IPv6 alone".into())]);
}

#[test]
fn both_ends_change_addresses_at_once() {
    let mut stage = stage(1, 1);
    stage.announce(2);
    let now = stage.pair.now;
    stage.pair.z.endpoint.announce_local_address(now, local(Side::Z, 2));
    stage.pair.drive(millis(1000));
    assert!(stage.pair.a.heard().contains(&&asked(AddressChange::Added, 2)));
    assert!(stage.pair.z.heard().contains(&&told(AddressChange::Added, 2)));
    assert!(stage.paths_of_z().contains(&(ip(Side::A, 2), PathState::Active)));
    let of_z = Event::PeerAddress { address: ip(Side::Z, 2), change: AddressChange::Added };
    assert!(stage.pair.a.heard().contains(&&of_z));
}

#[test]
fn packets_to_an_address_that_is_being_added_are_taken() {
    let mut stage = stage(1, 1);
    stage.pair.lose(Side::Z, "ASCONF_ACK", 1);
    stage.announce(2);
    stage.pair.drive(millis(25));
    stage.pair.expect(
        "A -> AUTH ASCONF -> Z
         A <- AUTH ASCONF_ACK /lost/ <- Z
         A <2- HEARTBEAT <- Z
         A -> HEARTBEAT_ACK -> Z",
    );
    assert_eq!(stage.pair.a.endpoint.counters().unknown_addresses, 0);
    stage.pair.drive(millis(500));
    assert!(stage.pair.a.heard().contains(&&asked(AddressChange::Added, 2)), "repeated");
}

#[test]
fn packets_to_a_deleted_address_are_not_taken_after_the_answer() {
    let mut stage = stage(2, 2);
    let tag = stage.pair.tag_of(Side::A);
    stage.remove(2);
    stage.pair.drive(millis(300));
    stage.pair.ladder.clear();
    let heartbeat = Chunk::Heartbeat(manypath_wire::chunk::Heartbeat { info: b"answer me" });
    stage.pair.inject(Side::Z, 2, &packet(Side::Z, tag, &[heartbeat]));
    stage.pair.drive(millis(50));
    assert!(!stage.pair.take_ladder().contains("-2> HEARTBEAT_ACK"), "no answer");
    assert_eq!(stage.pair.a.endpoint.counters().unknown_addresses, 1);
}

#[test]
fn what_cannot_be_requested_is_said_at_once() {
    let (mut pair, a, _) = Pair::established(1);
    let (now, one) = (pair.now, ip(Side::A, 1));
    let refused = pair.a.endpoint.remove_address(now, a, one);
    assert_eq!(refused, Err(AddressError::NotSupported), "not agreed on");
    let mut pair = Pair::with(1, willing(Side::A), willing(Side::Z));
    let a = pair.connect();
    let refused = pair.a.endpoint.remove_address(now, a, one);
    assert_eq!(refused, Err(AddressError::NotEstablished));
    let mut stage = stage(1, 1);
    let (now, a, endpoint) = (stage.pair.now, stage.a, &mut stage.pair.a.endpoint);
    for (refused, why) in [
        (endpoint.remove_address(now, a, one), AddressError::LastAddress),
        (endpoint.remove_address(now, a, ip(Side::A, 9)), AddressError::UnknownAddress),
        (endpoint.add_address(now, a, ip(Side::A, 9)), AddressError::UnknownAddress),
        (endpoint.add_address(now, a, one), AddressError::AlreadyThere),
        (endpoint.request_peer_primary(now, a, ip(Side::A, 2)), AddressError::UnknownAddress),
        (endpoint.add_address(now, AssociationId(99), one), AddressError::NotEstablished),
    ] {
        assert_eq!(refused, Err(why));
    }
    stage.pair.drive(millis(100));
    stage.pair.expect("");
}

#[test]
fn a_restarted_association_numbers_asconfs_anew() {
    let mut stage = stage(1, 2);
    stage.announce(2);
    stage.pair.drive(millis(300));
    stage.remove(2);
    stage.pair.drive(millis(300));
    stage.pair.a.endpoint = endpoint(Side::A, 1, willing(Side::A), 77);
    stage.a = stage.pair.connect();
    stage.pair.drive(millis(500));
    assert!(stage.pair.z.heard().contains(&&Event::Restarted));
    stage.pair.a.events.clear();
    stage.announce(3);
    stage.pair.drive(millis(500));
    assert!(stage.pair.a.heard().contains(&&asked(AddressChange::Added, 3)));
}

#[test]
fn a_peer_with_asconf_and_without_auth_is_refused() {
    // A peer that leaves out RANDOM and HMAC-ALGO: their types are turned into unknown ones.
    fn strip(bytes: &mut Vec<u8>) {
        if !matches!(bytes[12], 1 | 2) {
            return;
        }
        let mut at = 32;
        while at + 4 <= bytes.len() {
            if matches!(bytes[at..at + 2], [0x80, 2..=4]) {
                bytes[at + 1] |= 0x40;
            }
            at +=
                usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]])).next_multiple_of(4);
        }
        *bytes = crate::craft::checksummed(std::mem::take(bytes));
    }
    let mut pair = Pair::with(1, willing(Side::A), willing(Side::Z));
    pair.mangle = Some(strip);
    pair.connect();
    pair.drive(millis(100));
    pair.expect("A -> INIT -> Z\nA <- ABORT <- Z");
    let plain = Config { address_reconfiguration: false, ..willing(Side::Z) };
    let mut pair = Pair::with(1, willing(Side::A), plain);
    pair.connect();
    pair.drive(millis(300));
    assert_eq!(pair.z.endpoint.associations().len(), 1, "neither ASCONF nor AUTH: served");
    let mut late = Pair::with(1, willing(Side::A), willing(Side::Z));
    late.connect();
    late.drive(millis(5));
    // The INIT is on its way; from now on packets are changed when they leave.
    late.mangle = Some(strip);
    late.drive(millis(200));
    late.expect("A -> INIT -> Z\nA <- INIT_ACK <- Z\nA -> ABORT -> Z");
    assert_eq!(late.a.heard(), [&Event::Closed(CloseReason::NoAuthentication)]);
}
