//! Interactive streams on several paths at once, switched while the association runs.

use super::{backup, want};
use crate::chance::Chance;
use crate::pair::{Chaos, Pair, Side, millis};
use manypath_engine::{AssociationId, Duration, Redundancy, StreamClass, StreamId, StreamOptions};

const KEYS: u16 = 1;

fn with_keys() -> (Pair, AssociationId) {
    let (mut pair, a, _) = Pair::established(2);
    let options = StreamOptions { class: StreamClass::Interactive, ..StreamOptions::default() };
    let now = pair.now;
    assert!(pair.a.endpoint.set_stream_options(now, a, StreamId(KEYS), options));
    (pair, a)
}

fn switch(pair: &mut Pair, redundancy: Redundancy) {
    let now = pair.now;
    pair.a.endpoint.set_redundancy(now, redundancy);
}

/// On how many paths a message of a stream leaves.
fn ways(pair: &mut Pair, a: AssociationId, stream: u16) -> usize {
    pair.ladder.clear();
    pair.send(Side::A, a, stream, b"key");
    pair.drive(millis(200));
    [1, 2].into_iter().filter(|path| super::data_on(pair, Side::A, *path) > 0).count()
}

#[test]
fn the_mode_says_which_streams_take_every_path() {
    let (mut pair, a) = with_keys();
    for (mode, keys, others) in [
        (Redundancy::Off, 1, 1),
        (Redundancy::Interactive, 2, 1),
        (Redundancy::Sparse, 2, 2),
        (Redundancy::All, 2, 2),
        (Redundancy::Off, 1, 1),
    ] {
        switch(&mut pair, mode);
        assert_eq!((ways(&mut pair, a, KEYS), ways(&mut pair, a, 0)), (keys, others), "{mode}");
    }
    assert_eq!(pair.z.received.len(), 10, "each once");
}

#[test]
fn a_single_stream_takes_every_path_whatever_the_mode() {
    let (mut pair, a, _) = Pair::established(2);
    let options = StreamOptions { redundant: true, ..StreamOptions::default() };
    for (options, keys) in [(options, 2), (StreamOptions::default(), 1)] {
        let now = pair.now;
        assert!(pair.a.endpoint.set_stream_options(now, a, StreamId(KEYS), options));
        assert_eq!((ways(&mut pair, a, KEYS), ways(&mut pair, a, 0)), (keys, 1));
    }
    assert_eq!(pair.z.received.len(), 4, "each once");
}

#[test]
fn a_backup_carries_no_copies() {
    let (mut pair, a) = with_keys();
    switch(&mut pair, Redundancy::All);
    want(&mut pair, Side::A, &[(2, backup())]);
    pair.drive(millis(100));
    assert_eq!(ways(&mut pair, a, KEYS), 1);
}

/// The delay that 99 % of 500 messages keep to, where each path loses 5 %.
fn p99(redundancy: Redundancy, seed: u64) -> Duration {
    let (mut pair, a) = with_keys();
    pair.quiet = true;
    switch(&mut pair, redundancy);
    let (loss, jitter) = (50, Duration::ZERO);
    pair.chaos = Some(Chaos { loss, copies: 0, damage: 0, jitter, chance: Chance(seed) });
    let mut delays = Vec::new();
    for _ in 0..500 {
        let (begun, before) = (pair.now, pair.z.received.len());
        pair.send(Side::A, a, KEYS, b"key");
        assert!(pair.drive_until(Duration::from_secs(5), |pair| pair.z.received.len() > before));
        delays.push(pair.now.since(begun));
        pair.drive(millis(100));
    }
    delays.sort();
    delays[delays.len() * 99 / 100]
}

#[test]
fn losses_of_single_paths_delay_less() {
    for seed in 1..=5 {
        let [without, with] =
            [Redundancy::Off, Redundancy::Interactive].map(|mode| p99(mode, seed));
        println!("seed {seed}: {without:?} without, {with:?} with");
        assert!(2 * with < without, "{without:?} {with:?}");
    }
}
