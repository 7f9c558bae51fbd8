//! Extensions are used if both sides have announced them, and not otherwise.

use crate::craft::packet;
use crate::pair::{Pair, Side, config, millis};
use manypath_engine::{Config, NrSack};
use manypath_wire::chunk::{Chunk, GapBlocks, NrSack as NrSackChunk, Sack, Tsns};
use manypath_wire::packet::Packet;

fn pair(a: NrSack, z: NrSack) -> (Pair, manypath_engine::AssociationId) {
    let side = |side, nr_sack| Config { nr_sack, ..config(side) };
    let (mut pair, a, _) = Pair::established_with(2, side(Side::A, a), side(Side::Z, z));
    pair.record = true;
    (pair, a)
}

/// How many SACKs and NR-SACKs were sent by both sides.
fn acknowledgements(pair: &Pair) -> (usize, usize) {
    let (mut sacks, mut nr_sacks) = (0, 0);
    for (_, _, bytes) in &pair.recorded {
        for chunk in Packet::parse(bytes).unwrap().chunks() {
            sacks += usize::from(matches!(chunk, Ok(Chunk::Sack(_))));
            nr_sacks += usize::from(matches!(chunk, Ok(Chunk::NrSack(_))));
        }
    }
    (sacks, nr_sacks)
}

#[test]
fn nr_sacks_replace_sacks_if_both_sides_know_them() {
    for (a, z, used) in [
        (NrSack::Case2, NrSack::Case3, true),
        (NrSack::Case1, NrSack::Case2, true),
        (NrSack::Off, NrSack::Case2, false),
        (NrSack::Case3, NrSack::Off, false),
    ] {
        let (mut pair, id) = pair(a, z);
        let z_id = pair.z.endpoint.associations()[0];
        let text = vec![7; 300_000];
        pair.send(Side::A, id, 0, &text);
        pair.send(Side::Z, z_id, 0, &text);
        pair.lose(Side::A, "DATA", 2);
        pair.drive(millis(2000));
        assert!(pair.z.received == [(0, text.clone().into())] && pair.a.received.len() == 1);
        let (sacks, nr_sacks) = acknowledgements(&pair);
        assert_eq!((sacks > 20, nr_sacks > 20), (!used, used), "{a} {z}");
        assert_eq!((sacks == 0, nr_sacks == 0), (used, !used), "{a} {z}");
    }
}

#[test]
fn a_plain_sack_is_taken_on_an_association_with_nr_sacks_but_not_the_other_way_round() {
    for (agreed, nr, taken) in [
        (NrSack::Case2, false, true),
        (NrSack::Case2, true, true),
        (NrSack::Off, false, true),
        (NrSack::Off, true, false),
    ] {
        let (mut pair, id) = pair(agreed, agreed);
        let z_id = pair.z.endpoint.associations()[0];
        pair.send(Side::Z, z_id, 0, b"to know the tag");
        pair.send(Side::A, id, 0, b"and the TSN");
        pair.drive(millis(500));
        let sent = |side| pair.recorded.iter().rfind(|(from, ..)| *from == side).unwrap();
        let tag = u32::from_be_bytes(sent(Side::Z).2[4..8].try_into().unwrap());
        let cum = pair.recorded.iter().rev().find_map(|(from, _, bytes)| {
            let chunk = Packet::parse(bytes).unwrap().chunks().next()?.ok()?;
            let Chunk::Data(data) = chunk else { return None };
            (*from == Side::A).then_some(data.tsn)
        });
        let (gaps, duplicates) = (GapBlocks::EMPTY, Tsns::EMPTY);
        let (flags, a_rwnd, cum_tsn) = (0, 77_777, cum.unwrap());
        let sack = if nr {
            Chunk::NrSack(NrSackChunk { flags, cum_tsn, a_rwnd, gaps, nr_gaps: gaps, duplicates })
        } else {
            Chunk::Sack(Sack { flags, cum_tsn, a_rwnd, gaps, duplicates })
        };
        pair.inject(Side::Z, 1, &packet(Side::Z, tag, &[sack]));
        pair.drive(millis(15));
        let status = pair.a.endpoint.status(pair.now, id).unwrap();
        assert_eq!(status.peer_rwnd == 77_777, taken, "{agreed} {nr}");
        assert_eq!(pair.a.endpoint.counters().unknown_chunks, u64::from(!taken), "{agreed} {nr}");
    }
}
