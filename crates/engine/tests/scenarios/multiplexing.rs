//! Many streams in one association: what they have of each other.

use crate::pair::{Pair, Side, config, millis};
use manypath_engine::{Config, Duration};

const RATE: u64 = 20_000_000;
const MESSAGE: usize = 1000;
const MESSAGES: usize = 400;

/// A path of 20 Mbit/s with a round trip of 80 ms.
fn pair() -> (Pair, manypath_engine::AssociationId) {
    let (mut pair, a, _) = Pair::established_with(1, config(Side::A), config(Side::Z));
    pair.quiet = true;
    let link = pair.links.get_mut(&1).unwrap();
    (link.rate, link.delay, link.queue) = (RATE, millis(40), millis(60));
    (pair, a)
}

/// How long it takes to bring so many messages to the other side on `stream`.
fn time_for(pair: &mut Pair, id: manypath_engine::AssociationId, stream: u16) -> Duration {
    let begun = pair.now;
    for _ in 0..MESSAGES {
        pair.send(Side::A, id, stream, &[7; MESSAGE]);
    }
    let here = |pair: &Pair| pair.z.received.iter().filter(|(of, _)| *of == stream).count();
    assert!(pair.drive_until(Duration::from_secs(20), |pair| here(pair) == MESSAGES));
    pair.now.since(begun)
}

/// A stream that has been idle while another one was busy goes on at the rate that the association has
/// come to. On an association of its own it would have to begin slowly.
#[test]
fn an_idle_stream_starts_again_at_the_associations_current_rate() {
    let (mut fresh, id) = pair();
    let alone = time_for(&mut fresh, id, 1);
    let (mut shared, id) = pair();
    shared.send(Side::A, id, 1, b"once");
    for _ in 0..4000 {
        shared.send(Side::A, id, 0, &[0; MESSAGE]);
    }
    assert!(shared.drive_until(Duration::from_secs(20), |p| p.a.endpoint.unsent(id) < 20_000));
    shared.z.received.clear();
    let again = time_for(&mut shared, id, 1);
    // At the rate of the path, behind what the other stream has left, and half a round trip.
    let bits = (MESSAGES * (MESSAGE + 16) * 8 + 20_000 * 8) as u64;
    let ideal = Duration::from_millis(bits * 1000 / RATE) + millis(40 + 60);
    println!("{alone:?} alone, {again:?} beside another one, ideal {ideal:?}");
    assert!(again <= ideal + ideal / 4, "{again:?} instead of {ideal:?}");
    assert!(alone >= again + millis(80), "{alone:?} alone, {again:?} beside another one");
}

/// With round robin each stream has its share of the path, however much the others have queued before.
#[test]
fn streams_that_take_turns_share_the_path_equally() {
    let turns = Config {
        stream_scheduling: manypath_engine::StreamScheduling::RoundRobin,
        ..config(Side::A)
    };
    let (mut pair, a, _) = Pair::established_with(1, turns, config(Side::Z));
    pair.quiet = true;
    pair.links.get_mut(&1).unwrap().rate = RATE;
    for (stream, messages) in [(0, 4000), (1, 1000), (2, 1000), (3, 1000)] {
        for _ in 0..messages {
            pair.send(Side::A, a, stream, &[0; MESSAGE]);
        }
    }
    pair.drive_until(Duration::from_secs(20), |pair| pair.z.received.len() >= 2000);
    for stream in 0..4 {
        let count = pair.z.received.iter().filter(|(of, _)| *of == stream).count();
        assert!((450..=550).contains(&count), "{count} of 2000 messages of stream {stream}");
    }
}
