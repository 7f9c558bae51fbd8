//! No bytes make the parser panic, and whatever it reads it can write.

use crate::{golden, reparse};
use manypath_wire::checksum::crc32c;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// Something that goes wrong with a packet.
#[derive(Clone, Debug)]
enum Mutation {
    /// A byte has another value.
    Set(Index, u8),
    /// A 16-bit field, wherever it may be, is off by a little.
    Nudge(Index, i8),
    /// The end is missing.
    Truncate(Index),
    /// Bytes come in between.
    Insert(Index, Vec<u8>),
    /// A part is missing.
    Remove(Index, Index),
}

impl Mutation {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.len() < 2 {
            return;
        }
        match self {
            Self::Set(at, value) => *at.get_mut(bytes) = *value,
            Self::Nudge(at, by) => {
                let at = at.index(bytes.len() - 1);
                let field = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
                let nudged = field.wrapping_add_signed(i16::from(*by));
                bytes[at..at + 2].copy_from_slice(&nudged.to_be_bytes());
            }
            Self::Truncate(at) => bytes.truncate(at.index(bytes.len())),
            Self::Insert(at, more) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, more.iter().copied());
            }
            Self::Remove(from, to) => {
                let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
                bytes.drain(from.min(to)..from.max(to));
            }
        }
    }
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, value)| Mutation::Set(at, value)),
        (any::<Index>(), -8_i8..=8).prop_map(|(at, by)| Mutation::Nudge(at, by)),
        any::<Index>().prop_map(Mutation::Truncate),
        (any::<Index>(), vec(any::<u8>(), 1..9)).prop_map(|(at, more)| Mutation::Insert(at, more)),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Mutation::Remove(from, to)),
    ]
}

/// A chunk whose type and Length are plausible and whose value is not.
fn plausible_chunk() -> impl Strategy<Value = Vec<u8>> {
    (
        prop_oneof![0_u8..20, 64_u8..0x42, 0x80_u8..0x86, 192_u8..195],
        any::<u8>(),
        vec(plausible_block(), 0..5),
        -4_i16..=4,
    )
        .prop_map(|(type_byte, flags, blocks, off)| {
            let value = blocks.concat();
            let length = (4 + value.len() as u16).wrapping_add_signed(off);
            let mut chunk = vec![type_byte, flags];
            chunk.extend(length.to_be_bytes());
            chunk.extend(value);
            chunk
        })
}

/// Bytes that may be taken for fields or for a parameter or cause.
fn plausible_block() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![0_u16..20, 0x8000_u16..0x8009, 0xC000_u16..0xC007];
    (kind, vec(any::<u8>(), 0..24), 0_u16..9).prop_map(|(kind, value, off)| {
        let length = 4 + value.len() as u16;
        let mut block = Vec::from(kind.to_be_bytes());
        block.extend((length + off % 3).wrapping_sub(off / 4).to_be_bytes());
        block.extend(value);
        block.resize(block.len().next_multiple_of(4), 0);
        block
    })
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Makes the checksum right again, so that [`Packet::parse`](manypath_wire::Packet::parse) goes on.
fn repair_checksum(bytes: &mut [u8]) {
    if bytes.len() >= 12 {
        bytes[8..12].fill(0);
        let checksum = crc32c(&[bytes]);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    }
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn any_bytes_are_safe(bytes in vec(any::<u8>(), 0..600)) {
        reparse::check(&bytes);
    }

    #[test]
    fn plausible_chunks_are_safe(chunks in vec(plausible_chunk(), 1..4)) {
        let mut bytes = vec![0; 12];
        bytes.extend(chunks.concat());
        repair_checksum(&mut bytes);
        reparse::check(&bytes);
    }

    #[test]
    fn damaged_packets_are_safe(
        index in any::<Index>(),
        mutations in vec(mutation(), 1..6),
        repair in any::<bool>(),
    ) {
        let packets = golden::packets();
        let (_, packet) = index.get(&packets);
        let mut bytes = packet.clone();
        mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
        if repair {
            repair_checksum(&mut bytes);
        }
        reparse::check(&bytes);
    }
}
