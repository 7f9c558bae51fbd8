//! Shared keys, and HMACs computed anew from what was on the wire.

use super::{demanding, established, keys};
use crate::craft::{checksummed, packet};
use crate::pair::{Pair, Side, millis};
use manypath_engine::{AssociationId, Event, KeyChange, KeyError};
use manypath_wire::chunk::{Auth, Chunk, types};

/// The key vectors of both ends in their order, from the handshake as it was on the wire: RANDOM, CHUNKS
/// and HMAC-ALGO of each without padding.
pub(crate) fn vectors(pair: &Pair) -> Vec<u8> {
    let mut vectors = [Side::A, Side::Z].map(|side| {
        let sent = pair.recorded.iter().find(|(from, ..)| *from == side).unwrap();
        let wanted = [0x8002, 0x8003, 0x8004];
        let mut found = [const { Vec::new() }; 3];
        // After the common header and the fixed part of INIT or INIT ACK.
        let mut rest = &sent.2[12 + 20..];
        while let [high, low, len_high, len_low, ..] = *rest {
            let len = usize::from(u16::from_be_bytes([len_high, len_low]));
            let kind = u16::from_be_bytes([high, low]);
            if let Some(at) = wanted.iter().position(|wanted| *wanted == kind) {
                found[at] = rest[..len].to_vec();
            }
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        found.concat()
    });
    // Both begin with 0x80: of different lengths, the longer one is the larger number.
    vectors.sort_by(|a, b| a.len().cmp(&b.len()).then(a.cmp(b)));
    vectors.concat()
}

/// `bytes`, of which an AUTH chunk for SHA-256 begins at byte 12, with the HMAC that belongs there.
pub(crate) fn signed(key: &[u8], mut bytes: Vec<u8>) -> Vec<u8> {
    use hmac::{KeyInit, Mac};
    bytes[20..52].fill(0);
    let mut mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(key).unwrap();
    mac.update(&bytes[12..]);
    bytes[20..52].copy_from_slice(&mac.finalize().into_bytes());
    checksummed(bytes)
}

fn handshake_with_keys(shared: &[u8]) -> (Pair, AssociationId, Vec<u8>) {
    let a = demanding(Side::A, &[types::HEARTBEAT, types::SACK]);
    let mut pair = Pair::with(1, a, demanding(Side::Z, &[types::DATA]));
    for node in [&mut pair.a, &mut pair.z] {
        node.endpoint.set_shared_key(pair.now, None, 0, shared).unwrap();
    }
    pair.record = true;
    let a = pair.connect();
    pair.drive(millis(300));
    let key = [shared, &vectors(&pair)].concat();
    (pair, a, key)
}

#[test]
fn the_hmac_on_the_wire_is_that_of_the_shared_key_and_both_key_vectors() {
    for shared in [&b""[..], b"a shared secret"] {
        let (mut pair, a, key) = handshake_with_keys(shared);
        pair.send(Side::A, a, 0, b"seven b");
        pair.drive(millis(50));
        let sent = pair.recorded.iter().rev().find(|(from, ..)| *from == Side::A).unwrap();
        assert_eq!(sent.2[12..20], [0x0F, 0, 0, 40, 0, 0, 0, 3]);
        assert_eq!(sent.2.len(), 12 + 40 + 16 + 8, "the padding is covered as well");
        assert_eq!(signed(&key, sent.2.clone()), sent.2);
    }
}

#[test]
fn a_second_auth_chunk_ends_the_packet() {
    let (mut pair, _, key) = handshake_with_keys(b"");
    let tag = pair.tag_of(Side::Z);
    let auth = Chunk::Auth(Auth { key: 0, hmac_id: 3, hmac: &[0; 32] });
    let heartbeat = Chunk::Heartbeat(manypath_wire::chunk::Heartbeat { info: b"answer me" });
    let once = signed(&key, packet(Side::A, tag, &[auth, heartbeat]));
    let twice = signed(&key, packet(Side::A, tag, &[auth, heartbeat, auth, heartbeat]));
    pair.ladder.clear();
    pair.inject(Side::A, 1, &once);
    pair.drive(millis(50));
    assert_eq!(pair.ladder.last().unwrap(), "A <- HEARTBEAT_ACK <- Z");
    pair.inject(Side::A, 1, &twice);
    pair.drive(millis(50));
    assert_eq!(pair.ladder.last().unwrap(), "A <- HEARTBEAT_ACK <- Z", "one answer");
    let counters = pair.z.endpoint.counters();
    assert_eq!((counters.wrong_hmacs, counters.repeated_auth), (0, 1));
}

#[test]
fn flags_of_an_auth_chunk_are_ignored_but_covered() {
    let (mut pair, _, key) = handshake_with_keys(b"");
    let tag = pair.tag_of(Side::Z);
    let auth = Chunk::Auth(Auth { key: 0, hmac_id: 3, hmac: &[0; 32] });
    let heartbeat = Chunk::Heartbeat(manypath_wire::chunk::Heartbeat { info: b"answer me" });
    let mut bytes = packet(Side::A, tag, &[auth, heartbeat]);
    bytes[13] = 0xFF;
    pair.inject(Side::A, 1, &signed(&key, bytes));
    pair.drive(millis(50));
    assert_eq!(pair.ladder.last().unwrap(), "A <- HEARTBEAT_ACK <- Z");
}

#[test]
fn shared_keys_are_used_changed_and_taken_out_of_use() {
    let mut pair =
        Pair::with(1, demanding(Side::A, &[types::DATA]), demanding(Side::Z, &[types::DATA]));
    for node in [&mut pair.a, &mut pair.z] {
        node.endpoint.set_shared_key(pair.now, None, 1, b"first").unwrap();
        node.endpoint.set_active_key(pair.now, None, 1).unwrap();
    }
    pair.record = true;
    let a = pair.connect();
    pair.drive(millis(300));
    let z = pair.z.endpoint.associations()[0];
    pair.send(Side::A, a, 0, b"one");
    pair.drive(millis(300));
    assert_eq!(pair.last_auth(), (1, 3));
    let now = pair.now;
    for (node, id) in [(&mut pair.a, a), (&mut pair.z, z)] {
        node.endpoint.set_shared_key(now, Some(id), 2, b"second").unwrap();
    }
    pair.a.endpoint.set_active_key(now, Some(a), 2).unwrap();
    assert_eq!(pair.a.endpoint.deactivate_key(now, Some(a), 2), Err(KeyError::Active));
    assert_eq!(pair.a.endpoint.delete_key(now, Some(a), 1), Err(KeyError::WrongOrder));
    pair.a.endpoint.deactivate_key(now, Some(a), 1).unwrap();
    pair.send(Side::A, a, 0, b"two");
    pair.send(Side::Z, z, 0, b"still with the first");
    pair.drive(millis(300));
    assert_eq!(pair.last_auth(), (2, 3));
    let event = |change, key| Event::Authentication { change, key };
    assert_eq!(keys(&pair.z), [&event(KeyChange::New, 2)]);
    assert_eq!(keys(&pair.a), [&event(KeyChange::Free, 1)]);
    assert_eq!((pair.a.received.len(), pair.z.received.len()), (1, 2));
    pair.a.endpoint.delete_key(pair.now, Some(a), 1).unwrap();
    pair.send(Side::Z, z, 0, b"with a key that A has forgotten");
    pair.drive(millis(300));
    assert_eq!(pair.a.received.len(), 1);
    assert!(pair.a.endpoint.counters().unknown_keys > 0);
}

#[test]
fn different_secrets_do_not_understand_each_other() {
    let mut pair = Pair::with(1, demanding(Side::A, &[]), demanding(Side::Z, &[types::DATA]));
    pair.a.endpoint.set_shared_key(pair.now, None, 0, b"one").unwrap();
    pair.z.endpoint.set_shared_key(pair.now, None, 0, b"other").unwrap();
    let a = pair.connect();
    pair.send(Side::A, a, 0, b"hello");
    pair.drive(millis(300));
    assert_eq!(pair.z.received, []);
    assert!(pair.z.endpoint.counters().wrong_hmacs > 0);
    let z = pair.z.endpoint.associations()[0];
    pair.z.endpoint.set_shared_key(pair.now, Some(z), 0, b"one").unwrap();
    pair.drive(millis(2000));
    assert_eq!(pair.z.received, [(0, "hello".into())], "repeated, with the right key there");
}

#[test]
fn a_key_without_a_secret_there_is_unknown() {
    let (mut pair, a, _) = established(&[types::DATA]);
    pair.a.endpoint.set_shared_key(pair.now, Some(a), 5, b"known to a alone").unwrap();
    pair.a.endpoint.set_active_key(pair.now, Some(a), 5).unwrap();
    pair.send(Side::A, a, 0, b"hello");
    pair.drive(millis(50));
    pair.expect("A -> AUTH DATA -> Z");
    assert_eq!(pair.z.endpoint.counters().unknown_keys, 1);
    assert_eq!(pair.z.received, []);
}

#[test]
fn keys_need_an_association_with_authentication() {
    let (mut pair, a, _) = Pair::established(1);
    let none = Err(KeyError::NoAuthentication);
    let (now, endpoint) = (pair.now, &mut pair.a.endpoint);
    assert_eq!(endpoint.set_shared_key(now, Some(a), 1, b"x"), none);
    assert_eq!(endpoint.set_active_key(now, Some(AssociationId(99)), 0), none);
    assert_eq!(endpoint.set_active_key(now, None, 1), Err(KeyError::UnknownKey));
    assert_eq!(endpoint.set_shared_key(now, None, 1, b"x"), Ok(()));
    assert_eq!(endpoint.set_active_key(now, None, 1), Ok(()));
    assert_eq!(endpoint.deactivate_key(now, None, 0), Ok(()));
    assert_eq!(endpoint.delete_key(now, None, 0), Ok(()));
}
