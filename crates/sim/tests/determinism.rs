//! The same program gives the same packets on any machine, at any time: every run here has a hash of
//! all its packets in `golden/traces.txt`. Nothing in the engine or the simulator may depend on
//! addresses in memory, hash seeds, threads, clocks, or floating point functions that differ from
//! one library to the next.
//!
//! A hash that has changed means that packets have changed. That is
//!
//! * for a run of the profile `paper` a change of what the published figures rest on: it must be meant,
//!   and the figures must be simulated anew;
//! * for a run of the profile `production` any change of how the engine sends: fine, if it is meant.
//!
//! If it is meant, write the file anew and say in the commit what has changed the packets:
//!
//! ```text
//! MANYPATH_RENEW=1 cargo test -p manypath-sim --test it determinism::
//! ```
//!
//! If it is not meant, or if the hashes of two machines differ, that is a bug.

use manypath_engine::CongestionControl;
use manypath_sim::scenario::{Plan, Scenario};
use manypath_sim::simulation::{RunOptions, run};
use std::fmt::Write;

const GOLDEN: &str = include_str!("golden/traces.txt");

/// Two dissimilar paths and two saturated streams.
const PLAIN: &str = r#"
warmup = "2s"
measure = "6s"
start = { min = "0.9s", max = "1.1s" }
[[path]]
name = "A"
rate = "10mbit"
delay = "10ms"
[[path]]
name = "B"
rate = "4mbit"
delay = "60ms"
[[app]]
kind = "saturated"
streams = 2
"#;

/// Everything that a network can do to packets, and that can happen to it.
const ROUGH: &str = r#"
warmup = "2s"
measure = "8s"
start = { min = "0.9s", max = "1.1s" }
[[path]]
name = "A"
rate = "10mbit"
delay = "10ms"
loss = "1%"
jitter = "2ms"
duplicate = "0.1%"
corrupt = "0.1%"
queue_bytes = 60000
access = { rate = "1gbit", delay = "0.4ms", jitter = "200us" }
[[path.change]]
at = "3s"
rate = "3mbit"
delay = "30ms"
[[path]]
name = "B"
rate = "6mbit"
delay = "40ms"
bursts = { to_bad = "0.2%", to_good = "20%", loss = "50%" }
bit_errors = 1e-7
reorder = "0.5%"
reorder_delay = "5ms"
[[path.change]]
at = "4s"
up = false
[[path.change]]
at = "6s"
up = true
[[path]]
name = "C"
rate = "2mbit"
delay = "100ms"
back = { rate = "512kbit", loss = "1%" }
[[background]]
path = "A"
rate = "2mbit"
[[app]]
kind = "saturated"
name = "bulk"
streams = 2
queue_info = true
[[app]]
kind = "request-response"
name = "questions"
streams = 1
message = 200
response = 3000
think = "50ms"
[[app]]
kind = "on-off"
name = "voice"
rate = "64kbit"
message = 160
"#;

/// A key of a scenario and its new value.
type Change = (&'static str, String);

/// Name, text and changes of each run.
fn runs() -> Vec<(String, &'static str, Vec<Change>)> {
    let mut runs = Vec::new();
    for (network, text) in [("plain", PLAIN), ("rough", ROUGH)] {
        for profile in ["paper", "production"] {
            let own = vec![("engine.profile", profile.to_owned())];
            runs.push((format!("{network} {profile}"), text, own));
        }
        // The profile is RFC 9260 already.
        for control in CongestionControl::NAMES.iter().filter(|name| **name != "rfc9260") {
            let mut own = vec![
                ("engine.profile", "paper".to_owned()),
                ("engine.congestion", (*control).to_owned()),
            ];
            if *control == "rfc2960" {
                // Only windows that are cut again and again get to its floor.
                own.push(("engine.fast_recovery", "none".to_owned()));
            }
            runs.push((format!("{network} paper {control}"), text, own));
        }
    }
    for (what, key, value) in [
        ("fixed mapping", "engine.stream_mapping", "0,1"),
        ("dynamic mapping", "engine.stream_mapping", "dynamic"),
        ("order of lsfr", "engine.path_scheduling", "lsfr"),
        ("plain fast retransmit", "engine.split_fast_retransmit", "off"),
        ("transmission numbers", "engine.split_fast_retransmit", "txseq"),
        ("pacing", "engine.pacing", "on"),
        ("interleaving", "engine.interleaving", "true"),
    ] {
        let own = vec![("engine.profile", "paper".to_owned()), (key, value.to_owned())];
        runs.push((format!("rough paper {what}"), ROUGH, own));
    }
    runs
}

/// The published figures' scenarios at points that decide, ten seconds each.
fn figures() -> Vec<(String, Scenario)> {
    let mut all = Vec::new();
    for (text, sweep) in [
        (
            include_str!("../../../papers/dreibholz2010/fig4/scenario.toml"),
            "{ \"path.B.delay\" = [\"75ms\"], \"engine.buffer\" = [\"224KiB\"] }",
        ),
        (
            include_str!("../../../papers/dreibholz2010/fig6/scenario.toml"),
            "{ \"path.B.rate\" = [\"25mbit\"], \"engine.buffer\" = [\"160KiB\"] }",
        ),
        (
            include_str!("../../../papers/dreibholz2010/fig7/scenario.toml"),
            "{ \"engine.buffer\" = [\"256KiB\"] }",
        ),
    ] {
        let set = [("seeds", "1"), ("warmup", "5s"), ("measure", "5s"), ("sweep", sweep)];
        let set = set.map(|(key, value)| match value.ends_with('s') {
            true => (key.to_owned(), format!("\"{value}\"")),
            false => (key.to_owned(), value.to_owned()),
        });
        let plan = Plan::parse(text, "figure.toml", &set).unwrap_or_else(|e| panic!("{e}"));
        let name = |case: &str| format!("{} {case}", plan.name);
        all.extend(plan.runs.iter().map(|run| (name(&run.case), run.scenario.clone())));
    }
    all
}

fn trace(text: &str, changes: &[Change]) -> u64 {
    let quoted = |value: &str| match value {
        "true" => value.to_owned(),
        _ => format!("\"{value}\""),
    };
    let set: Vec<_> =
        changes.iter().map(|(key, value)| ((*key).to_owned(), quoted(value))).collect();
    let plan = Plan::parse(text, "golden.toml", &set).unwrap_or_else(|e| panic!("{e}"));
    trace_of(&plan.runs[0].scenario)
}

fn trace_of(scenario: &Scenario) -> u64 {
    let outcome = run(scenario, 1, RunOptions::default());
    assert_eq!(outcome.failure, None);
    assert!(outcome.figure("throughput_mbps").is_some_and(|mbps| mbps > 0.0));
    outcome.trace_hash
}

#[test]
fn every_packet_is_the_one_that_was_recorded() {
    let mut traces = String::new();
    for (name, text, changes) in runs() {
        writeln!(traces, "{name}: {:016x}", trace(text, &changes)).unwrap();
    }
    for (name, scenario) in figures() {
        writeln!(traces, "{name}: {:016x}", trace_of(&scenario)).unwrap();
    }
    if std::env::var_os("MANYPATH_RENEW").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/traces.txt");
        std::fs::write(file, &traces).unwrap();
        return;
    }
    let differing: Vec<_> =
        traces.lines().filter(|line| !GOLDEN.lines().any(|golden| golden == *line)).collect();
    assert!(differing.is_empty(), "packets have changed: {differing:#?}");
    assert_eq!(traces.lines().count(), GOLDEN.lines().count(), "the file has other runs");
}

#[test]
fn different_options_give_different_packets() {
    let mut hashes: Vec<_> = GOLDEN.lines().filter_map(|line| line.rsplit(' ').next()).collect();
    hashes.sort_unstable();
    let count = hashes.len();
    hashes.dedup();
    assert_eq!(hashes.len(), count);
}
