//! Packets protected by DTLS chunks (draft-ietf-tsvwg-sctp-dtls-chunk).

mod addresses;
mod doubt;
mod hostile;
mod keys;
mod setup;
mod transfer;
mod withheld;
mod zero_checksum;

use crate::pair::{Pair, Side, config};
use manypath_aead::CipherSuite;
use manypath_engine::protection::RecordKey;
use manypath_engine::{AssociationId, Config, KeyManagement, KeyRoles};
use manypath_wire::chunk::{Chunk, types};
use manypath_wire::packet::Packet;

/// Can be client and server, and serves peers without protection.
fn loose() -> KeyManagement {
    KeyManagement { methods: vec![0], roles: KeyRoles::Either, required: false }
}

fn offering(side: Side, offer: KeyManagement) -> Config {
    Config { key_management: Some(offer), ..config(side) }
}

/// The key of what `from` sends in `epoch`.
fn key(suite: CipherSuite, from: Side, epoch: u64) -> RecordKey {
    let byte = 16 * epoch as u8 + from as u8;
    let bytes = vec![byte; suite.key_len()];
    suite.key(&bytes, [byte; 12], &bytes).unwrap()
}

/// An association whose packets are protected.
struct Protected {
    pair: Pair,
    a: AssociationId,
    z: AssociationId,
    suite: CipherSuite,
}

impl Protected {
    fn new(paths: u8) -> Self {
        Self::with(paths, offering(Side::A, loose()), offering(Side::Z, loose()))
    }

    fn with(paths: u8, a: Config, z: Config) -> Self {
        let (pair, a, z) = Pair::established_with(paths, a, z);
        let mut this = Self { pair, a, z, suite: CipherSuite::Aes128Gcm };
        this.rekey(3);
        let now = this.pair.now;
        this.pair.a.endpoint.require_protection(now, a).unwrap();
        this.pair.z.endpoint.require_protection(now, z).unwrap();
        this.pair.record = true;
        this
    }

    fn id(&self, side: Side) -> AssociationId {
        if side == Side::A { self.a } else { self.z }
    }

    /// Both ends get the keys of `epoch`, those for receiving first.
    fn rekey(&mut self, epoch: u64) {
        let (now, suite) = (self.pair.now, self.suite);
        for side in [Side::A, Side::Z] {
            let (id, key) = (self.id(side), key(suite, side.other(), epoch));
            self.pair.node(side).endpoint.install_receiving_key(now, id, epoch, key).unwrap();
        }
        for side in [Side::A, Side::Z] {
            let (id, key) = (self.id(side), key(suite, side, epoch));
            self.pair.node(side).endpoint.install_sending_key(now, id, epoch, key).unwrap();
        }
    }

    /// A sends a message; its packet does not arrive, but is returned.
    fn packet_of_a(&mut self, payload: &[u8]) -> Vec<u8> {
        self.pair.lose(Side::A, "DTLS", 1);
        self.pair.send(Side::A, self.a, 0, payload);
        self.pair.drain();
        self.pair.last_lost.clone().unwrap()
    }

    fn counter(&self, name: &str) -> u64 {
        let entries = self.pair.z.endpoint.counters().entries();
        entries.into_iter().find(|(known, _)| *known == name).unwrap().1
    }
}

/// A packet, whose checksum may be left out if it is a record.
fn parsed(bytes: &[u8]) -> Packet<'_> {
    Packet::without_checksum(bytes).unwrap_or_else(|| Packet::parse(bytes).unwrap())
}

/// Whether the packet is a DTLS chunk alone.
fn is_record(bytes: &[u8]) -> bool {
    let chunks: Vec<_> = parsed(bytes).chunks().map(Result::unwrap).collect();
    matches!(chunks[..], [Chunk::Dtls(_)])
}

/// The types of the chunks of a packet.
fn types_of(bytes: &[u8]) -> Vec<u8> {
    let chunks = parsed(bytes).chunks();
    chunks.map(|chunk| chunk.unwrap().type_byte()).collect()
}

/// Packets of the handshake, which cannot be protected.
const SETUP: [u8; 2] = [types::INIT, types::INIT_ACK];
