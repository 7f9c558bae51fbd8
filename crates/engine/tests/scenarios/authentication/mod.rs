//! Authenticated chunks (RFC 4895).

pub(crate) mod keys;
mod setup;

use crate::craft::{checksummed, packet};
use crate::pair::{Pair, Side, config, millis};
use manypath_engine::{AssociationId, CloseReason, Config, Event, HmacAlgorithms, KeyChange};
use manypath_wire::cause::{Cause, Causes};
use manypath_wire::chunk::{Abort, Auth, Chunk, types};
use manypath_wire::packet::Packet;
use manypath_wire::parameter::Parameters;

/// Authenticates, and takes `chunks` only so.
fn demanding(side: Side, chunks: &[u8]) -> Config {
    Config { authentication: true, authenticated_chunks: chunks.to_vec(), ..config(side) }
}

/// Both ends want `chunks` to be authenticated.
fn established(chunks: &[u8]) -> (Pair, AssociationId, AssociationId) {
    let (a, z) = (demanding(Side::A, chunks), demanding(Side::Z, chunks));
    let (mut pair, a, z) = Pair::established_with(1, a, z);
    pair.record = true;
    (pair, a, z)
}

/// The parameters of the INIT or INIT ACK that `side` has sent.
fn parameters(pair: &Pair, side: Side) -> Vec<String> {
    let sent = pair.recorded.iter().filter(|(from, ..)| *from == side);
    let mut lists = sent.filter_map(|(_, _, bytes)| {
        let first = Packet::parse(bytes).unwrap().chunks().next();
        let list = |parameters: Parameters<'_>| {
            parameters.iter().map(|parameter| parameter.unwrap().to_string()).collect()
        };
        match first {
            Some(Ok(Chunk::Init(init))) => Some(list(init.parameters)),
            Some(Ok(Chunk::InitAck(ack))) => Some(list(ack.parameters)),
            _ => None,
        }
    });
    lists.next().unwrap()
}

impl Pair {
    /// The last packet that `side` has sent.
    fn last_sent(&self, side: Side) -> Vec<u8> {
        let mut sent = self.recorded.iter().rev().filter(|(from, ..)| *from == side);
        sent.next().unwrap().2.clone()
    }

    /// The key and the algorithm of the last AUTH chunk that A has sent.
    fn last_auth(&self) -> (u16, u16) {
        let sent = self.recorded.iter().rev().filter(|(from, ..)| *from == Side::A);
        let mut all = sent.filter_map(|(_, _, bytes)| {
            let mut chunks = Packet::parse(bytes).unwrap().chunks().map(Result::unwrap);
            chunks.find_map(|chunk| match chunk {
                Chunk::Auth(Auth { key, hmac_id, .. }) => Some((key, hmac_id)),
                _ => None,
            })
        });
        all.next().unwrap()
    }

    /// A packet of A was forged on its way to Z.
    fn inject_forged(&mut self, bytes: Vec<u8>) {
        self.inject(Side::A, 1, &checksummed(bytes));
        self.drive(millis(300));
    }
}

fn keys(node: &crate::pair::Node) -> Vec<&Event> {
    let wanted = |event: &&Event| matches!(event, Event::Authentication { .. });
    node.heard().into_iter().filter(wanted).collect()
}

#[test]
fn the_handshake_carries_random_chunks_and_algorithms_once_each() {
    let a = demanding(Side::A, &[types::DATA, types::INIT, types::AUTH]);
    let z = demanding(Side::Z, &[]);
    let mut pair = Pair::with(1, a, z);
    pair.record = true;
    let id = pair.connect();
    pair.drive(millis(500));
    let of_auth = |list: Vec<String>| -> Vec<String> {
        let named = ["random", "chunks", "hmac_algo"];
        list.into_iter().filter(|text| named.iter().any(|name| text.starts_with(name))).collect()
    };
    let said = of_auth(parameters(&pair, Side::A));
    assert_eq!(said, ["random=32 bytes", "chunks=[0]", "hmac_algo=[3, 1]"]);
    let said = of_auth(parameters(&pair, Side::Z));
    assert_eq!(said, ["random=32 bytes", "hmac_algo=[3, 1]"]);
    let status = pair.a.endpoint.status(pair.now, id).unwrap();
    assert!(status.authentication && status.peer_extensions.contains(&types::AUTH));
    assert_eq!(keys(&pair.a), [] as [&Event; 0]);
}

#[test]
fn without_the_option_nothing_is_said_about_authentication() {
    let mut pair = Pair::with(1, config(Side::A), demanding(Side::Z, &[types::DATA]));
    pair.record = true;
    let id = pair.connect();
    pair.send(Side::A, id, 0, b"plain");
    pair.drive(millis(500));
    assert!(!parameters(&pair, Side::A).iter().any(|text| text.contains("random")));
    assert_eq!(pair.z.received, [(0, "plain".into())], "there is nobody to authenticate");
    let none = Event::Authentication { change: KeyChange::NoAuthentication, key: 0 };
    assert_eq!((keys(&pair.a), keys(&pair.z)), (vec![], vec![&none]));
    assert!(!pair.a.endpoint.status(pair.now, id).unwrap().authentication);
}

#[test]
fn an_init_ack_says_nothing_of_authentication_to_a_peer_without_it() {
    let z = Config { address_reconfiguration: true, ..demanding(Side::Z, &[0]) };
    let mut pair = Pair::with(1, config(Side::A), z);
    pair.record = true;
    pair.connect();
    pair.drive(millis(100));
    let said = parameters(&pair, Side::Z).join(" ");
    assert!(!["random", "chunks", "hmac", "193"].iter().any(|word| said.contains(word)), "{said}");
}

#[test]
fn a_peer_without_authentication_is_refused_if_that_is_required() {
    let strict = |side| Config { require_authentication: true, ..demanding(side, &[]) };
    let mut pair = Pair::with(1, config(Side::A), strict(Side::Z));
    pair.connect();
    pair.drive(millis(500));
    pair.expect("A -> INIT -> Z\nA <- ABORT <- Z");
    assert_eq!(pair.a.heard(), [&Event::Closed(CloseReason::PeerAborted(Some(13)))]);
    let mut pair = Pair::with(1, strict(Side::A), config(Side::Z));
    pair.connect();
    pair.drive(millis(500));
    pair.expect("A -> INIT -> Z\nA <- INIT_ACK <- Z\nA -> ABORT -> Z");
    assert_eq!(pair.a.heard(), [&Event::Closed(CloseReason::NoAuthentication)]);
}

#[test]
fn the_ladder_of_authenticated_data() {
    let mut pair = Pair::with(1, demanding(Side::A, &[]), demanding(Side::Z, &[types::DATA]));
    let a = pair.connect();
    pair.send(Side::A, a, 0, b"with the cookie");
    pair.drive(millis(500));
    pair.expect(
        "A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO AUTH DATA -> Z
         A <- COOKIE_ACK SACK <- Z",
    );
    let z = pair.z.endpoint.associations()[0];
    pair.send(Side::A, a, 0, b"from a");
    pair.drive(millis(300));
    pair.send(Side::Z, z, 0, b"from z");
    pair.drive(millis(300));
    pair.expect(
        "A -> AUTH DATA -> Z
         A <- SACK <- Z
         A <- DATA <- Z
         A -> SACK -> Z",
    );
    assert_eq!(pair.z.received.len(), 2);
    assert_eq!(pair.a.received, [(0, "from z".into())]);
}

#[test]
fn chunks_that_need_it_stand_behind_the_auth_chunk_and_others_before_it() {
    let chunks = [types::DATA, types::SHUTDOWN];
    let (mut pair, a, z) = established(&chunks);
    pair.send(Side::Z, z, 0, b"to be acknowledged");
    pair.send(Side::A, a, 0, &[7; 3000]);
    pair.drive(millis(300));
    assert!(pair.ladder.contains(&"A -> AUTH DATA -> Z".to_owned()), "{:#?}", pair.ladder);
    assert!(pair.ladder.contains(&"A <- SACK <- Z".to_owned()), "{:#?}", pair.ladder);
    pair.ladder.clear();
    let now = pair.now;
    pair.a.endpoint.shutdown(now, a);
    pair.drive(millis(300));
    pair.expect(
        "A -> AUTH SHUTDOWN -> Z
         A <- SHUTDOWN_ACK <- Z
         A -> SHUTDOWN_COMPLETE -> Z",
    );
    assert_eq!(pair.z.heard().last(), Some(&&Event::Closed(CloseReason::Graceful)));
}

/// Every chunk type that may be authenticated is.
#[test]
fn an_association_lives_and_ends_with_every_chunk_authenticated() {
    let all: Vec<u8> = (0..=255).collect();
    let config = |side| Config {
        reconfiguration: true,
        accept_stream_resets: true,
        partial_reliability: true,
        ..demanding(side, &all)
    };
    let mut pair = Pair::with(2, config(Side::A), config(Side::Z));
    let a = pair.connect();
    pair.send(Side::A, a, 0, &[7; 100_000]);
    pair.drive(millis(2000));
    let z = pair.z.endpoint.associations()[0];
    pair.send(Side::Z, z, 3, &[8; 100_000]);
    pair.drive(millis(2000));
    assert_eq!(pair.z.received, [(0, vec![7; 100_000].into())]);
    assert_eq!(pair.a.received, [(3, vec![8; 100_000].into())]);
    let status = pair.a.endpoint.status(pair.now, a).unwrap();
    assert!(status.paths.iter().all(|path| path.state == manypath_engine::PathState::Active));
    let now = pair.now;
    pair.a.endpoint.shutdown(now, a);
    pair.drive(millis(500));
    assert_eq!(pair.a.heard().last(), Some(&&Event::Closed(CloseReason::Graceful)));
    assert_eq!(pair.z.heard().last(), Some(&&Event::Closed(CloseReason::Graceful)));
    for counters in [pair.a.endpoint.counters(), pair.z.endpoint.counters()] {
        let dropped = (counters.unauthenticated_chunks, counters.wrong_hmacs);
        assert_eq!(dropped, (0, 0));
    }
    let bare = |line: &&String| !["INIT", "AUTH", "COMPLETE"].iter().any(|it| line.contains(it));
    assert_eq!(pair.ladder.iter().find(bare), None);
}

#[test]
fn packets_with_an_auth_chunk_fit_the_path() {
    let (mut pair, a, _) = established(&[types::DATA]);
    pair.send(Side::A, a, 0, &[7; 50_000]);
    pair.drive(millis(500));
    assert_eq!(pair.z.received, [(0, vec![7; 50_000].into())]);
    let largest = pair.recorded.iter().map(|(_, _, bytes)| bytes.len()).max();
    assert_eq!(largest, Some(1472), "1500 less the headers of IPv4 and UDP");
    let fragment = pair.a.endpoint.fragment_size(a);
    assert_eq!(fragment, 1472 - 12 - 40 - 16, "common header, AUTH, DATA");
}

#[test]
fn data_without_authentication_is_dropped_and_counted() {
    let (mut pair, _, _) = established(&[types::DATA]);
    let tag = pair.tag_of(Side::Z);
    let data = manypath_wire::chunk::Data {
        tsn: manypath_engine::Tsn(1),
        stream: manypath_engine::StreamId(0),
        ssn: manypath_wire::Ssn(0),
        ppid: manypath_engine::Ppid(0),
        unordered: false,
        begin: true,
        end: true,
        immediate: true,
        payload: b"forged",
    };
    pair.inject_forged(packet(Side::A, tag, &[Chunk::Data(data)]));
    pair.expect("A -> DATA -> Z");
    assert_eq!(pair.z.received, []);
    assert_eq!(pair.z.endpoint.counters().unauthenticated_chunks, 1);
}

#[test]
fn a_changed_byte_after_the_auth_chunk_or_in_it_drops_what_it_covers() {
    let (mut pair, a, _) = established(&[types::DATA]);
    pair.lose(Side::A, "DATA", 1);
    pair.send(Side::A, a, 0, b"the real one");
    pair.drive(millis(50));
    let lost = pair.last_lost.clone().unwrap();
    pair.ladder.clear();
    // Flags of the AUTH chunk, its HMAC, the DATA chunk's stream and its payload.
    for at in [13, 20, 61, lost.len() - 1] {
        let mut forged = lost.clone();
        forged[at] ^= 1;
        pair.inject(Side::A, 1, &checksummed(forged));
    }
    pair.drive(millis(50));
    assert_eq!(pair.z.received, []);
    assert_eq!(pair.z.endpoint.counters().wrong_hmacs, 4);
    assert!(!pair.ladder.iter().any(|line| line.contains("SACK")), "silently");
    pair.inject(Side::A, 1, &lost);
    pair.drive(millis(50));
    assert_eq!(pair.z.received, [(0, "the real one".into())]);
}

#[test]
fn an_hmac_of_another_length_is_wrong() {
    let (mut pair, a, _) = established(&[types::DATA]);
    pair.send(Side::A, a, 0, b"x");
    pair.drive(millis(300));
    let tag = pair.tag_of(Side::Z);
    for hmac in [&[0; 20][..], &[0; 33], &[0; 64], &[]] {
        let auth = Chunk::Auth(Auth { key: 0, hmac_id: 3, hmac });
        pair.inject_forged(packet(Side::A, tag, &[auth, Chunk::CookieAck]));
    }
    assert_eq!(pair.z.endpoint.counters().wrong_hmacs, 4);
}

#[test]
fn an_algorithm_that_was_not_offered_is_answered_by_an_error() {
    let sha1 =
        Config { hmac_algorithms: HmacAlgorithms::Sha1, ..demanding(Side::Z, &[types::DATA]) };
    let (mut pair, a, _) = Pair::established_with(1, demanding(Side::A, &[]), sha1);
    pair.record = true;
    pair.send(Side::A, a, 0, b"with what Z offered");
    pair.drive(millis(300));
    assert_eq!(pair.last_auth(), (0, 1));
    let tag = pair.tag_of(Side::Z);
    for hmac_id in [3, 2, 0] {
        let auth = Chunk::Auth(Auth { key: 0, hmac_id, hmac: &[0; 32] });
        pair.inject_forged(packet(Side::A, tag, &[auth, Chunk::ShutdownAck]));
        let error = pair.last_sent(Side::Z);
        let chunk = Packet::parse(&error).unwrap().chunks().next();
        let Some(Ok(Chunk::Error(error))) = chunk else { panic!("no ERROR") };
        let causes: Vec<_> = error.causes.iter().map(Result::unwrap).collect();
        assert_eq!(causes, [Cause::UnsupportedHmac(hmac_id)]);
    }
    assert_eq!(pair.z.endpoint.counters().unsupported_hmacs, 3);
    assert_eq!(pair.z.endpoint.counters().unexpected_chunks, 0, "the rest was dropped");
}

#[test]
fn each_side_uses_the_algorithm_that_the_other_likes_best() {
    for (liked, id) in [
        (HmacAlgorithms::Sha1Sha256, 1),
        (HmacAlgorithms::Sha256Sha1, 3),
        (HmacAlgorithms::Sha1, 1),
    ] {
        let z = Config { hmac_algorithms: liked, ..demanding(Side::Z, &[types::DATA]) };
        let (mut pair, a, _) = Pair::established_with(1, demanding(Side::A, &[]), z);
        pair.record = true;
        pair.send(Side::A, a, 0, b"hello");
        pair.drive(millis(300));
        assert_eq!(pair.z.received, [(0, "hello".into())]);
        assert_eq!(pair.last_auth(), (0, id));
    }
}

#[test]
fn the_algorithms_of_an_endpoint_never_change() {
    let mut pair = Pair::with(1, demanding(Side::A, &[]), demanding(Side::Z, &[]));
    pair.a.endpoint.configure(|config| config.hmac_algorithms = HmacAlgorithms::Sha1);
    pair.record = true;
    pair.connect();
    pair.drive(millis(300));
    assert!(parameters(&pair, Side::A).contains(&"hmac_algo=[3, 1]".to_owned()));
}

#[test]
fn an_abort_that_must_be_authenticated_cannot_be_forged() {
    let (mut pair, a, z) = established(&[types::ABORT]);
    let (to_z, to_a) = (pair.tag_of(Side::Z), pair.tag_of(Side::A));
    let forged = |tag_reflected| Chunk::Abort(Abort { tag_reflected, causes: Causes::EMPTY });
    pair.inject_forged(packet(Side::A, to_z, &[forged(false)]));
    pair.inject_forged(packet(Side::A, to_a, &[forged(true)]));
    assert_eq!(pair.z.endpoint.associations(), [z]);
    assert_eq!(pair.z.endpoint.counters().unauthenticated_chunks, 2);
    pair.ladder.clear();
    pair.a.endpoint.abort(pair.now, a, b"enough");
    pair.drive(millis(300));
    pair.expect("A -> AUTH ABORT -> Z");
    assert_eq!(pair.z.endpoint.associations(), []);
}

#[test]
fn an_auth_chunk_out_of_the_blue_is_answered_as_the_rest_of_its_packet_is() {
    let mut pair = Pair::with(1, demanding(Side::A, &[]), demanding(Side::Z, &[]));
    let auth = Chunk::Auth(Auth { key: 0, hmac_id: 3, hmac: &[0; 32] });
    pair.inject(Side::A, 1, &packet(Side::A, 7, &[auth, Chunk::ShutdownAck]));
    pair.inject(Side::A, 1, &packet(Side::A, 7, &[auth, Chunk::CookieAck]));
    pair.inject(Side::A, 1, &packet(Side::A, 7, &[auth]));
    pair.drive(millis(50));
    pair.expect(
        "A -> AUTH SHUTDOWN_ACK -> Z
         A -> AUTH COOKIE_ACK -> Z
         A -> AUTH -> Z
         A <- SHUTDOWN_COMPLETE <- Z
         A <- ABORT <- Z",
    );
}
