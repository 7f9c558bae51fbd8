//! All cases, measured: the table of `docs/uplinks.md`.

use crate::uplinks::cases::{ADDED, CHANGED, Case, DEAF, LOSSY, MUTE, NARROW, ROAMING, UNPLUGGED};
use crate::uplinks::routed::{GATEWAYS, NATTED, REBOUND, TWINS};
use std::time::Duration;

const CASES: &[Case] = &[
    UNPLUGGED, CHANGED, ADDED, ROAMING, LOSSY, DEAF, MUTE, NARROW, GATEWAYS, NATTED, REBOUND, TWINS,
];

/// A new uplink carries data within this time.
const SOON: Duration = Duration::from_secs(2);
/// What must be reached of the best single path.
const LEAST: f64 = 0.95;

/// Needs a quiet machine. `MANYPATH_CASE` chooses cases whose names contain it; the results are also
/// written as JSON to the file that `MANYPATH_JSON` names.
#[test]
#[ignore = "takes a quiet machine and minutes: make test-full"]
fn no_case_gets_less_than_the_best_path() {
    let chosen = std::env::var("MANYPATH_CASE").unwrap_or_default();
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    println!(
        "| what happens | longest gap, ms | Mbit/s | plain TCP over A, Mbit/s | ratio | B carries after, ms |"
    );
    println!("|---|---|---|---|---|---|");
    for case in CASES.iter().filter(|case| case.name.contains(&chosen)) {
        let (site, course) = case.run();
        drop(site);
        let lit = (case.watch - case.dark).as_secs_f64() / case.watch.as_secs_f64();
        let reference = case.reference() * lit;
        let ratio = course.goodput / reference;
        let mbit = |bytes: f64| bytes * 8.0 / 1e6;
        let first = course.carried[1].map(|(first, _)| first);
        let after = first.map_or("-".to_owned(), |first| first.as_millis().to_string());
        println!(
            "| {} | {} | {:.1} | {:.1} | {ratio:.2} | {after} |",
            case.name,
            course.gap.as_millis(),
            mbit(course.goodput),
            mbit(reference),
        );
        rows.push(serde_json::json!({
            "case": case.name,
            "gap_ms": course.gap.as_secs_f64() * 1e3,
            "goodput_bps": course.goodput * 8.0,
            "best_path_bps": reference * 8.0,
            "ratio": ratio,
            "second_path_carries_after_ms": first.map(|first| first.as_secs_f64() * 1e3),
        }));
        if ratio < LEAST || (case.name == ADDED.name && first.is_none_or(|first| first > SOON)) {
            failed.push(case.name);
        }
    }
    let text = serde_json::to_string_pretty(&rows).expect("plain values");
    match std::env::var_os("MANYPATH_JSON") {
        Some(file) => std::fs::write(file, text).expect("the file"),
        None => println!("{text}"),
    }
    assert!(failed.is_empty(), "not good enough: {failed:?}");
}
