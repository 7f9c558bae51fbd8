//! Whatever two or three paths do, every byte is delivered once and in order, except for messages
//! that their sender has given up.
//!
//! `MANYPATH_CASES` sets the number of random cases, `MANYPATH_SEED` runs the one case of a failure
//! and `MANYPATH_CAPTURE` names a pcapng file for its packets.

use crate::support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use support::case::{Outcome, run, run_captured};

const CASES: u64 = 5000;

fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn every_byte_is_delivered_once_and_in_order() {
    if let Some(seed) = number_from_environment("MANYPATH_SEED") {
        let outcome = match std::env::var("MANYPATH_CAPTURE") {
            Ok(file) => run_captured(seed, &file),
            Err(_) => run(seed),
        };
        println!("{outcome:#?}");
        return;
    }
    let cases = number_from_environment("MANYPATH_CASES").unwrap_or(CASES);
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let results: Vec<Result<Outcome, u64>> = std::thread::scope(|scope| {
        let work =
            |worker| move || (worker..cases).step_by(workers as usize).map(try_run).collect();
        let threads: Vec<_> = (0..workers).map(|worker| scope.spawn(work(worker))).collect();
        threads.into_iter().flat_map(|thread| -> Vec<_> { thread.join().unwrap() }).collect()
    });
    let failed: Vec<u64> =
        results.iter().filter_map(|result| result.as_ref().err().copied()).collect();
    assert!(
        failed.is_empty(),
        "these of {cases} cases failed: {failed:?}; MANYPATH_SEED=n runs one"
    );
    summarise(&results.into_iter().flatten().collect::<Vec<_>>());
}

/// The outcome of a case, or its number if it failed. Its panic has been printed.
fn try_run(seed: u64) -> Result<Outcome, u64> {
    catch_unwind(AssertUnwindSafe(|| run(seed)))
        .map_err(|_| seed)
        .inspect_err(|seed| println!("case {seed} failed"))
}

/// The cases must have met what they are about.
fn summarise(outcomes: &[Outcome]) {
    let sum = |what: fn(&Outcome) -> u64| outcomes.iter().map(what).sum::<u64>();
    let (packets, bytes) = (sum(|o| o.packets), sum(|o| o.bytes));
    let faults =
        [sum(|o| o.dropped), sum(|o| o.duplicated), sum(|o| o.reordered), sum(|o| o.corrupted)];
    let [dropped, duplicated, reordered, corrupted] = faults;
    let changes = sum(|o| o.address_changes);
    println!(
        "{} cases: {bytes} bytes in {packets} packets, {dropped} dropped, {duplicated} duplicated, \
         {reordered} reordered, {corrupted} corrupted, {changes} addresses changed",
        outcomes.len()
    );
    let abandoned = sum(|o| o.abandoned);
    println!("{abandoned} messages were given up");
    assert!(outcomes.len() < 100 || abandoned > 100, "too few messages were given up");
    assert!(changes > outcomes.len() as u64 / 4, "addresses change too seldom: {changes}");
    assert!(faults.iter().all(|count| *count > packets / 200), "faults are too rare: {faults:?}");
}

#[test]
fn the_seed_determines_every_packet() {
    for seed in 1000..1020 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
    assert_ne!(run(1000).trace_hash, run(1001).trace_hash);
}
