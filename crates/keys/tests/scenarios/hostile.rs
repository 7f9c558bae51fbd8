//! Others on the way, and peers that do not keep to the protocol.

use crate::chance::Chance;
use crate::craft::checksummed;
use crate::managed::Managed;
use crate::messages::{identity, offering};
use crate::pair::{Pair, Side, message, millis};
use manypath_engine::protection::KEY_MANAGEMENT;
use manypath_engine::{Duration, Outgoing, Ppid, StreamId, Tsn};
use manypath_keys::{Failure, KeyManagement};
use manypath_wire::chunk::{Chunk, Data};
use manypath_wire::packet::Packet;

/// Where the DTLS Key Management parameter is in an INIT or INIT ACK.
fn parameter(bytes: &[u8]) -> Option<usize> {
    let setup = matches!(bytes.get(12), Some(1 | 2));
    bytes.windows(3).position(|it| it == [0x80, 0x06, 0]).filter(|_| setup)
}

/// Somebody on the way makes another parameter of it, which nobody knows and everybody skips.
fn strip(bytes: &mut Vec<u8>) {
    if let Some(at) = parameter(bytes) {
        bytes[at + 1] = 0xFE;
        *bytes = checksummed(std::mem::take(bytes));
    }
}

/// Sets a reserved bit in what the peer says, which changes nothing else.
pub(crate) fn alter(bytes: &mut Vec<u8>) {
    if let Some(at) = parameter(bytes) {
        bytes[at + 8] ^= 0x80;
        *bytes = checksummed(std::mem::take(bytes));
    }
}

#[test]
fn a_negotiation_that_is_stripped_leaves_no_agreement() {
    let mut it = Managed::new(1);
    it.pair.mangle = Some(strip);
    it.connect();
    it.run(Duration::from_secs(2));
    assert_eq!(it.peers(), [None, None]);
    let id = it.a.id.unwrap();
    let begun = KeyManagement::begin(it.pair.now, &mut it.pair.a.endpoint, id, &identity(), None);
    assert_eq!(begun.err(), Some(Failure::NotAgreed));
}

#[test]
fn a_negotiation_that_is_altered_is_noticed() {
    let mut it = Managed::new(1);
    it.pair.mangle = Some(alter);
    it.waiting = vec![b"not for everybody"];
    it.connect();
    it.run(Duration::from_secs(40));
    assert_eq!(it.z.failure, Some(Failure::Altered));
    assert_eq!((it.z.protected, it.z.received.len()), (None, 0));
    assert!(it.a.closed.is_some());
}

/// Puts a user message behind the first message of key management, which is not protected.
fn add_message(bytes: &mut Vec<u8>) {
    let copy = bytes.clone();
    let packet = Packet::parse(&copy).unwrap();
    let mut chunks: Vec<_> = packet.chunks().map(Result::unwrap).collect();
    let [Chunk::CookieEcho(_), Chunk::Data(first)] = chunks[..] else { return };
    let (tsn, stream, ppid) = (Tsn(first.tsn.0.wrapping_add(1)), StreamId(1), Ppid(0));
    chunks.push(Chunk::Data(Data { tsn, stream, ppid, payload: b"forged", ..first }));
    *bytes = crate::craft::packet(Side::A, packet.header().tag.0, &chunks);
}

#[test]
fn a_user_message_that_is_put_in_before_keys_are_there_is_noticed() {
    let mut it = Managed::new(1);
    it.pair.mangle = Some(add_message);
    it.connect();
    it.run(Duration::from_secs(2));
    assert_eq!(it.z.failure, Some(Failure::Exposed));
    assert_eq!((it.z.protected, it.z.received.len()), (None, 0));
}

#[test]
fn a_peer_that_never_answers_is_given_up() {
    let (a, z) = (offering(Side::A), offering(Side::Z));
    let (mut pair, id, _) = Pair::established_with(1, a, z);
    let endpoint = &mut pair.a.endpoint;
    let mut keys = KeyManagement::begin(pair.now, endpoint, id, &identity(), None).unwrap();
    pair.drive(Duration::from_secs(29));
    assert!(keys.handle_timeout(pair.now, &mut pair.a.endpoint).is_ok());
    pair.drive(Duration::from_secs(1));
    assert!(keys.poll_timeout().is_some_and(|at| at <= pair.now));
    assert_eq!(keys.handle_timeout(pair.now, &mut pair.a.endpoint), Err(Failure::Timeout));
}

#[test]
fn a_protection_valid_message_without_protection_is_refused() {
    let mut it = Managed::new(1);
    it.pair.lose(Side::A, "DTLS", 1_000);
    it.connect();
    it.run(millis(200));
    let (now, id) = (it.pair.now, it.z.id.unwrap());
    let ok = Outgoing { ppid: KEY_MANAGEMENT, ..message(0, b"OK") };
    it.pair.z.endpoint.send(now, id, ok).unwrap();
    it.run(Duration::from_secs(1));
    assert_eq!(it.a.failure, Some(Failure::Malformed));
}

#[test]
fn changed_messages_make_nobody_else_the_peer_on_the_corpus() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/key_messages");
    let files: Vec<_> =
        std::fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 10);
    files.iter().for_each(|file| crate::messages::check(&std::fs::read(file).unwrap()));
}

#[test]
fn changed_messages_make_nobody_else_the_peer() {
    let mut chance = Chance(5);
    for _ in 0..500 {
        let len = 20 + chance.below(100) as usize;
        crate::messages::check(&chance.bytes(len));
    }
}
