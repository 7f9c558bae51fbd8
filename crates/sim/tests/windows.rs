//! Channels with windows of their own, with smaller runs of the figure `rapier-windows`.

use manypath_sim::figure::figures;
use manypath_sim::scenario::{Plan, Run};
use manypath_sim::simulation::{RunOptions, run};

/// What a case carries in Mbit/s over 20 Mbit/s and a one-way delay of the figure.
fn throughput(case: &str, delay: &str) -> f64 {
    let figure = figures().iter().find(|figure| figure.name == "rapier-windows").unwrap();
    let set = [
        ("seeds", "1"),
        ("warmup", "\"10s\""),
        ("measure", "\"5s\""),
        ("path.A.rate", "\"20mbit\""),
        ("path.A.queue_bytes", "500000"),
        ("engine.buffer", "\"4MiB\""),
    ];
    let set = set.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let plan = Plan::parse(figure.scenario, figure.file, &set).unwrap_or_else(|e| panic!("{e}"));
    let delay = ("path.A.delay".to_owned(), delay.to_owned());
    let is_chosen = |run: &&Run| {
        (&*run.setup, &*run.case) == ("one path", case)
            && run.scenario.parameters().contains(&delay)
    };
    let chosen = plan.runs.iter().find(is_chosen).unwrap_or_else(|| panic!("{case}"));
    let outcome = run(&chosen.scenario, chosen.seed, RunOptions::default());
    assert!(outcome.failure.is_none());
    outcome.figure("throughput_mbps").unwrap()
}

#[test]
fn a_static_window_is_carried_once_per_round_trip() {
    for (delay, seconds) in [("0.04", 0.080), ("0.15", 0.300)] {
        // A full packet of the channel takes 14 ms at this rate.
        let theory = 65_536.0 * 8.0 / (seconds + 0.014) / 1e6;
        let ours = throughput("64 KiB", delay);
        assert!((ours / theory - 1.0).abs() < 0.05, "{delay}: {ours} of {theory}");
    }
}

#[test]
fn a_refresh_at_half_leaves_between_half_and_all_of_the_window() {
    let usable =
        |delay| throughput("64 KiB, refreshed at half", delay) / throughput("64 KiB", delay);
    for delay in ["0.01", "0.04", "0.075"] {
        let usable = usable(delay);
        assert!((0.45..0.85).contains(&usable), "{delay}: {usable}");
    }
    // Nearly all of it, if the two halves happen to travel half a round trip apart: each grant then
    // comes while the other half is under way. Over 300 ms slow start may leave them so.
    let usable = usable("0.15");
    assert!((0.45..1.0).contains(&usable), "{usable}");
}

#[test]
fn a_window_that_follows_fills_the_path_at_each_round_trip() {
    for delay in ["0.01", "0.04", "0.15"] {
        let ours = throughput("dynamic", delay);
        assert!(ours > 18.5, "{delay}: {ours}");
    }
}
