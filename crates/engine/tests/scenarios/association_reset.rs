//! Resets of a whole association that meet data, each other or packets of before (RFC 6525 sections
//! 5.1.4 and 5.2.4).

use crate::craft::packet;
use crate::pair::{Pair, Side, config, millis};
use manypath_engine::{AssociationId, Config, Duration, Event, ReconfigurationOutcome};
use manypath_wire::Tsn;
use manypath_wire::chunk::{Chunk, ForwardTsn, GapBlocks, ReConfig, Sack, SkippedStreams, Tsns};
use manypath_wire::packet::Packet;
use manypath_wire::parameter::{Parameter, ParameterWriter, Parameters};

fn willing(side: Side) -> Config {
    let accept_association_resets = true;
    Config {
        reconfiguration: true,
        partial_reliability: true,
        accept_association_resets,
        ..config(side)
    }
}

fn established() -> (Pair, AssociationId, AssociationId) {
    let (mut pair, a, z) = Pair::established_with(1, willing(Side::A), willing(Side::Z));
    pair.record = true;
    pair.send(Side::A, a, 1, b"before");
    pair.send(Side::Z, z, 1, b"before");
    pair.drive(millis(500));
    (pair, a, z)
}

fn outcomes(pair: &Pair, side: Side) -> Vec<ReconfigurationOutcome> {
    let node = if side == Side::A { &pair.a } else { &pair.z };
    let outcome = |event: &Event| match event {
        Event::AssociationReset { outcome, .. } => Some(*outcome),
        _ => None,
    };
    node.heard().into_iter().filter_map(outcome).collect()
}

/// Messages arrive in both directions.
fn assert_works(pair: &mut Pair, a: AssociationId, z: AssociationId) {
    let before = (pair.a.received.len(), pair.z.received.len());
    for _ in 0..3 {
        pair.send(Side::A, a, 1, &[3; 5000]);
        pair.send(Side::Z, z, 1, &[4; 5000]);
    }
    pair.drive(Duration::from_secs(5));
    assert_eq!((pair.a.received.len(), pair.z.received.len()), (before.0 + 3, before.1 + 3));
}

/// The TSN of the last DATA chunk that a side has sent.
fn last_tsn(pair: &Pair, from: Side) -> Tsn {
    let sent = pair.recorded.iter().rev().filter(|(side, ..)| *side == from);
    let mut tsns = sent.filter_map(|(_, _, bytes)| {
        Packet::parse(bytes).unwrap().chunks().find_map(|chunk| match chunk {
            Ok(Chunk::Data(data)) => Some(data.tsn),
            _ => None,
        })
    });
    tsns.next().unwrap()
}

#[test]
fn association_resets_that_cross_both_fail_and_change_nothing() {
    let (mut pair, a, z) = established();
    pair.a.endpoint.reset_association(pair.now, a).unwrap();
    pair.z.endpoint.reset_association(pair.now, z).unwrap();
    pair.drive(Duration::from_secs(1));
    assert_eq!(outcomes(&pair, Side::A), [ReconfigurationOutcome::Failed]);
    assert_eq!(outcomes(&pair, Side::Z), [ReconfigurationOutcome::Failed]);
    assert_works(&mut pair, a, z);
    pair.a.endpoint.reset_association(pair.now, a).unwrap();
    pair.drive(Duration::from_secs(1));
    assert_eq!(outcomes(&pair, Side::A)[1..], [ReconfigurationOutcome::Performed]);
    assert_works(&mut pair, a, z);
}

#[test]
fn data_that_overtakes_the_answer_to_an_association_reset_arrives_once() {
    let (mut pair, a, z) = established();
    pair.lose(Side::Z, "RE_CONFIG", 1);
    pair.a.endpoint.reset_association(pair.now, a).unwrap();
    pair.drive(millis(15));
    for message in [b"first", b"later"] {
        pair.send(Side::Z, z, 1, message);
    }
    pair.drive(Duration::from_secs(10));
    assert_eq!(outcomes(&pair, Side::A), [ReconfigurationOutcome::Performed]);
    let texts: Vec<_> = pair.a.received[1..].iter().map(|(_, text)| &text[..]).collect();
    assert_eq!(texts, [b"first", b"later"]);
    assert!(pair.a.endpoint.counters().data_before_reset > 0);
    assert_works(&mut pair, a, z);
}

#[test]
fn an_association_is_not_reset_in_the_middle_of_a_message() {
    let (mut pair, _, z) = established();
    // The number that is expected first is that of A's first TSN.
    let request = last_tsn(&pair, Side::A).0;
    let tag = pair.tag_of(Side::Z);
    let first = Tsn(last_tsn(&pair, Side::Z).0.wrapping_add(1));
    pair.cut(1);
    pair.send(Side::Z, z, 1, &[7; 30_000]);
    pair.drive(millis(1));
    let last = last_tsn(&pair, Side::Z);
    assert_ne!(first, last);
    pair.restore(1);
    // What has left of it is acknowledged by the very packet that asks.
    let sack = Sack {
        flags: 0,
        cum_tsn: last,
        a_rwnd: 0,
        gaps: GapBlocks::from_slice(&[]),
        duplicates: Tsns::from_slice(&[]),
    };
    let mut bytes = [0; 16];
    let mut writer = ParameterWriter::new(&mut bytes);
    writer.push(&Parameter::SsnTsnReset { request }).unwrap();
    let len = writer.finish();
    let request = ReConfig { parameters: Parameters::from_bytes(&bytes[..len]) };
    let chunks = [Chunk::Sack(sack), Chunk::ReConfig(request)];
    pair.inject(Side::A, 1, &packet(Side::A, tag, &chunks));
    pair.drive(millis(15));
    assert_eq!(outcomes(&pair, Side::Z), []);
    let denied = pair.recorded.iter().any(|(from, _, bytes)| {
        let mut chunks = Packet::parse(bytes).unwrap().chunks().map(Result::unwrap);
        *from == Side::Z && chunks.any(|chunk| chunk.to_string().contains("denied"))
    });
    assert!(denied);
}

#[test]
fn acknowledgements_from_before_an_association_reset_are_old() {
    let (mut pair, a, z) = established();
    pair.send(Side::A, a, 1, &[1; 20_000]);
    pair.drive(Duration::from_secs(1));
    let (tag, cum) = (pair.tag_of(Side::A), last_tsn(&pair, Side::A).0);
    pair.a.endpoint.reset_association(pair.now, a).unwrap();
    pair.drive(Duration::from_secs(1));
    for back in 0..4 {
        let sack = Sack {
            flags: 0,
            cum_tsn: Tsn(cum.wrapping_sub(back)),
            a_rwnd: 100_000,
            gaps: GapBlocks::from_slice(&[]),
            duplicates: Tsns::from_slice(&[]),
        };
        pair.inject(Side::Z, 1, &packet(Side::Z, tag, &[Chunk::Sack(sack)]));
        pair.drive(millis(50));
    }
    assert_eq!(pair.a.endpoint.counters().stale_sacks, 4);
    assert_works(&mut pair, a, z);
}

#[test]
fn forward_tsns_from_before_an_association_reset_are_old() {
    let (mut pair, a, z) = established();
    pair.send(Side::A, a, 1, &[1; 20_000]);
    pair.drive(Duration::from_secs(1));
    let (tag, cum) = (pair.tag_of(Side::Z), last_tsn(&pair, Side::A).0);
    pair.a.endpoint.reset_association(pair.now, a).unwrap();
    pair.drive(Duration::from_secs(1));
    for back in 0..4 {
        let cum_tsn = Tsn(cum.wrapping_sub(back));
        let forward = ForwardTsn { cum_tsn, skipped: SkippedStreams::from_slice(&[]) };
        pair.inject(Side::A, 1, &packet(Side::A, tag, &[Chunk::ForwardTsn(forward)]));
        pair.drive(millis(50));
    }
    assert_works(&mut pair, a, z);
}
