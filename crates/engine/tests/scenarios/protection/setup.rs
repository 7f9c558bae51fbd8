//! What is agreed on in the handshake (draft section 5.1).

use super::{loose, offering, types_of};
use crate::pair::{Pair, Side, config, endpoint, millis};
use manypath_engine::protection::{KeyRole, ProtectionError};
use manypath_engine::{AssociationId, CloseReason, Config, Event, KeyManagement, KeyRoles};
use manypath_wire::chunk::{Chunk, types};
use manypath_wire::packet::Packet;
use manypath_wire::parameter::{Parameter, Parameters};

/// Connects and lets the handshake end.
fn connected(a: Config, z: Config) -> (Pair, AssociationId) {
    let mut pair = Pair::with(1, a, z);
    pair.record = true;
    let id = pair.connect();
    pair.drive(millis(500));
    (pair, id)
}

/// The DTLS Key Management parameter and whether there is one about authentication, in the INIT or INIT ACK of
/// `side`.
fn said(pair: &Pair, side: Side) -> (Option<Vec<u8>>, bool) {
    let wanted = if side == Side::A { types::INIT } else { types::INIT_ACK };
    let is_it = |bytes: &[u8]| types_of(bytes)[0] == wanted;
    let (_, _, bytes) = pair.recorded.iter().find(|(_, _, bytes)| is_it(bytes)).unwrap();
    let parameters = match Packet::parse(bytes).unwrap().chunks().next() {
        Some(Ok(Chunk::Init(init))) => init.parameters,
        Some(Ok(Chunk::InitAck(ack))) => ack.parameters,
        other => panic!("{other:?}"),
    };
    let random = parameters.iter().any(|it| matches!(it, Ok(Parameter::Random(_))));
    (raw(parameters), random)
}

/// The bytes of the parameter, without padding.
fn raw(parameters: Parameters<'_>) -> Option<Vec<u8>> {
    let bytes = parameters.as_bytes();
    let at = bytes.windows(2).step_by(4).position(|it| it == [0x80, 0x06])? * 4;
    let len = u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]);
    Some(bytes[at..at + usize::from(len)].to_vec())
}

fn only(roles: KeyRoles) -> KeyManagement {
    KeyManagement { roles, required: true, ..loose() }
}

#[test]
fn without_the_option_nothing_is_said_and_an_offer_is_skipped() {
    let (pair, id) = connected(config(Side::A), offering(Side::Z, loose()));
    assert_eq!(said(&pair, Side::A).0, None);
    assert_eq!(pair.a.endpoint.key_agreement(id), None);
    let (mut pair, id) = connected(offering(Side::A, loose()), config(Side::Z));
    assert!(said(&pair, Side::A).0.is_some() && said(&pair, Side::Z).0.is_none());
    assert_eq!((pair.a.endpoint.key_agreement(id), pair.a.endpoint.key_use(id)), (None, None));
    pair.send(Side::A, id, 0, b"plain");
    pair.drive(millis(100));
    assert_eq!(pair.z.received, [(0, "plain".into())]);
}

#[test]
fn both_ends_agree_on_method_and_roles_and_know_what_was_said() {
    let a = KeyManagement { methods: vec![7, 2, 1], ..loose() };
    let z = KeyManagement { methods: vec![1, 2], roles: KeyRoles::Server, ..loose() };
    let (pair, id) = connected(offering(Side::A, a), offering(Side::Z, z));
    let of_a = pair.a.endpoint.key_agreement(id).unwrap();
    let of_z = pair.z.endpoint.key_agreement(pair.z.endpoint.associations()[0]).unwrap();
    assert_eq!((of_a.method, of_a.role, of_z.role), (1, KeyRole::Client, KeyRole::Server));
    assert_eq!(Some(&of_a.client_parameter), said(&pair, Side::A).0.as_ref());
    assert_eq!(Some(&of_a.server_parameter), said(&pair, Side::Z).0.as_ref());
    assert_eq!(of_a.client_parameter, of_z.client_parameter);
    assert_eq!(of_a.server_parameter, of_z.server_parameter);
}

#[test]
fn the_end_that_connects_is_the_client_if_both_can_be_either() {
    for seed in 0..20 {
        let mut pair = Pair::with(1, config(Side::A), config(Side::Z));
        for side in [Side::A, Side::Z] {
            let offering = offering(side, loose());
            pair.node(side).endpoint = endpoint(side, 1, offering, seed + 100 * side as u8);
        }
        let id = pair.connect();
        pair.drive(millis(500));
        assert_eq!(pair.a.endpoint.key_agreement(id).unwrap().role, KeyRole::Client);
    }
}

#[test]
fn two_handshakes_that_cross_agree() {
    let accepting = |side| Config { accept: true, ..offering(side, loose()) };
    let mut pair = Pair::with(1, accepting(Side::A), accepting(Side::Z));
    let (a, z) = (pair.connect_from(Side::A), pair.connect_from(Side::Z));
    pair.drive(millis(2000));
    let of_a = pair.a.endpoint.key_agreement(a).unwrap();
    let of_z = pair.z.endpoint.key_agreement(z).unwrap();
    assert_ne!(of_a.role, of_z.role);
    assert_eq!(of_a.client_parameter, of_z.client_parameter);
    assert_eq!(of_a.server_parameter, of_z.server_parameter);
}

#[test]
fn strict_ends_refuse_peers_without_and_say_why() {
    let strict = |side| offering(side, only(KeyRoles::Either));
    let cases = [
        (strict(Side::A), config(Side::Z), CloseReason::NoProtection),
        (config(Side::A), strict(Side::Z), CloseReason::PeerAborted(Some(100))),
        (
            offering(Side::A, KeyManagement { methods: vec![9], ..loose() }),
            strict(Side::Z),
            CloseReason::PeerAborted(Some(101)),
        ),
        (
            offering(Side::A, only(KeyRoles::Client)),
            offering(Side::Z, only(KeyRoles::Client)),
            CloseReason::PeerAborted(Some(103)),
        ),
    ];
    for (a, z, reason) in cases {
        let (pair, _) = connected(a, z);
        assert_eq!(pair.a.heard(), [&Event::Closed(reason)]);
        assert_eq!(pair.z.endpoint.associations(), []);
        let last = &pair.recorded.last().unwrap().2;
        assert_eq!(types_of(last), [types::ABORT]);
    }
}

#[test]
fn equal_tie_breakers_end_both_attempts() {
    let mut pair = Pair::with(1, offering(Side::A, loose()), offering(Side::Z, loose()));
    pair.mangle = Some(|bytes| {
        // Whatever was drawn, it arrives as the same number.
        if let Some(at) = bytes.windows(3).position(|it| it == [0x80, 0x06, 0x00]) {
            bytes[at + 4..at + 8].fill(5);
            *bytes = crate::craft::checksummed(bytes.clone());
        }
    });
    let id = pair.connect();
    pair.drive(millis(500));
    // Z has drawn another number than the one that it has got, A has not.
    assert_ne!(pair.a.endpoint.key_agreement(id), None);
    let mut pair = Pair::with(1, offering(Side::A, loose()), offering(Side::Z, loose()));
    pair.record = true;
    pair.lose(Side::Z, "INIT_ACK", 1);
    let _id = pair.connect();
    pair.drive(millis(15));
    let init = pair.recorded[0].2.clone();
    let ack = pair.recorded.iter().find(|(from, ..)| *from == Side::Z).unwrap().2.clone();
    let at = |bytes: &[u8]| bytes.windows(3).position(|it| it == [0x80, 0x06, 0x00]).unwrap();
    let mut echoed = ack.clone();
    let (of_init, of_ack) = (at(&init), at(&ack));
    echoed[of_ack + 4..of_ack + 8].copy_from_slice(&init[of_init + 4..of_init + 8]);
    pair.inject(Side::Z, 1, &crate::craft::checksummed(echoed));
    pair.drive(millis(50));
    assert_eq!(pair.a.heard(), [&Event::Closed(CloseReason::NoProtection)]);
}

#[test]
fn chunks_are_not_authenticated_where_packets_are_to_be_protected() {
    let with_auth = |side| Config { authentication: true, ..offering(side, loose()) };
    let (pair, id) = connected(with_auth(Side::A), with_auth(Side::Z));
    assert!(said(&pair, Side::A).1, "the peer may have nothing else");
    assert!(!said(&pair, Side::Z).1);
    assert!(pair.a.endpoint.key_agreement(id).is_some());
    assert!(!pair.a.endpoint.status(pair.now, id).unwrap().authentication);
    let strict = Config { key_management: Some(only(KeyRoles::Either)), ..with_auth(Side::A) };
    let (pair, _) = connected(strict, with_auth(Side::Z));
    assert!(!said(&pair, Side::A).1);
}

#[test]
fn keys_need_an_agreement_and_the_next_epoch() {
    use super::key;
    use manypath_aead::CipherSuite::Aes256Gcm;
    let (mut pair, id) = connected(offering(Side::A, loose()), config(Side::Z));
    let (now, key) = (pair.now, || key(Aes256Gcm, Side::A, 3));
    let refused = pair.a.endpoint.install_sending_key(now, id, 3, key());
    assert_eq!(refused, Err(ProtectionError::NotAgreed));
    let (mut pair, id) = connected(offering(Side::A, loose()), offering(Side::Z, loose()));
    let a = &mut pair.a.endpoint;
    assert_eq!(a.install_sending_key(now, id, 4, key()), Err(ProtectionError::WrongEpoch));
    assert_eq!(a.install_sending_key(now, id, 3, key()), Ok(()));
    assert_eq!(a.install_sending_key(now, id, 3, key()), Err(ProtectionError::WrongEpoch));
    assert_eq!(a.install_sending_key(now, id, 4, key()), Ok(()));
    assert_eq!(a.require_protection(now, id), Err(ProtectionError::NoKeys));
    assert_eq!(a.install_receiving_key(now, id, 3, key()), Ok(()));
    assert_eq!(a.retire_receiving_key(now, id, 4), Err(ProtectionError::UnknownEpoch));
    assert_eq!(a.require_protection(now, id), Ok(()));
    let usage = a.key_use(id).unwrap();
    assert!(usage.required && usage.opening.len() == 1 && usage.sealing.unwrap().0 == 4);
}
