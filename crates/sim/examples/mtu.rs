//! What the search for the path MTU costs, and what it saves.
//!
//! ```text
//! cargo run --release -p manypath-sim --example mtu [SEEDS [PART OF A NAME]]
//! ```
//!
//! Seconds until a file has arrived, the mean of the seeds: with packets as large as the interface
//! takes and with a search, on paths that take these packets and on narrower ones. A dash: not within
//! ten minutes. There is no IP fragmentation in the simulator where the DF bit is set.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the run")]

use manypath_engine::{Config, PathMtu};
use manypath_sim::scenario::{Plan, Scenario};
use manypath_sim::simulation::{RunOptions, run};

const SIZES: [u32; 4] = [10_000, 100_000, 1_000_000, 10_000_000];

/// Paths: what they are, and how they are written.
const PATHS: [(&str, &str); 8] = [
    ("20 Mbit/s 10 ms", "rate = \"20mbit\"\ndelay = \"10ms\"\n"),
    ("1 Mbit/s 50 ms", "rate = \"1mbit\"\ndelay = \"50ms\"\n"),
    ("20 Mbit/s 10 ms, 1 % lost", "rate = \"20mbit\"\ndelay = \"10ms\"\nloss = \"1%\"\n"),
    ("1 Mbit/s 50 ms, 6 % lost", "rate = \"1mbit\"\ndelay = \"50ms\"\nloss = \"6%\"\n"),
    (
        "two paths",
        "rate = \"20mbit\"\ndelay = \"10ms\"\n[[path]]\nrate = \"10mbit\"\ndelay = \"40ms\"\n",
    ),
    (
        "1400 bytes, reported",
        "rate = \"20mbit\"\ndelay = \"10ms\"\nlink_mtu = 1400\nmtu_reports = true\n",
    ),
    ("1400 bytes, black hole", "rate = \"20mbit\"\ndelay = \"10ms\"\nlink_mtu = 1400\n"),
    (
        "black hole after 0.3 s",
        "rate = \"20mbit\"\ndelay = \"10ms\"\n[[path.change]]\nat = \"300ms\"\nlink_mtu = 1400\n",
    ),
];

fn scenario(path: &str, bytes: u32) -> Scenario {
    let text = format!(
        "name = \"mtu\"\nwarmup = \"0s\"\nmeasure = \"600s\"\n[[path]]\n{path}\
         [[app]]\nkind = \"file\"\nbytes = {bytes}\nmessage = 16384\n"
    );
    let plan = Plan::parse(&text, "mtu.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
    plan.runs[0].scenario.clone()
}

/// The mean time, if the file has arrived each time.
fn mean(scenario: &Scenario, path_mtu: PathMtu, seeds: u64) -> Option<f64> {
    let config = Config { path_mtu, ..Config::production() };
    let scenario = Scenario { config, ..scenario.clone() };
    let time = |seed| {
        let outcome = run(&scenario, seed, RunOptions::default());
        outcome.figure("duration_s").filter(|time| outcome.failure.is_none() && *time < 599.0)
    };
    let times: Option<Vec<f64>> = (1..=seeds).map(time).collect();
    times.map(|times| times.iter().sum::<f64>() / seeds as f64)
}

fn main() {
    let seeds = std::env::args().nth(1).map_or(10, |text| text.parse().unwrap());
    let wanted = std::env::args().nth(2).unwrap_or_default();
    for (name, path) in PATHS.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        for path_mtu in [PathMtu::Interface, PathMtu::Search] {
            let times = SIZES.map(|bytes| mean(&scenario(path, bytes), path_mtu, seeds));
            let times = times.map(|time| time.map_or("      -".into(), |s| format!("{s:7.3}")));
            println!("{name:28} {:10} {}", path_mtu.name(), times.join(" "));
        }
    }
}
