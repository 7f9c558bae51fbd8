//! One transfer over a long fat path.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the test")]

use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{RunOptions, run};

/// Mbit/s between 7 and 14 s over 500 Mbit/s and 150 ms, as the mean of four runs that lose one packet
/// of ten thousand.
fn throughput(engine: &str) -> f64 {
    let text = format!(
        "name = \"fat\"\nseeds = 4\nwarmup = \"7s\"\nmeasure = \"7s\"\n\
         [engine]\nreceive_buffer_max = \"64MiB\"\nsend_buffer_max = \"64MiB\"\n{engine}\n\
         [[path]]\nname = \"A\"\nrate = \"500mbit\"\ndelay = \"75ms\"\nqueue = 12500\nloss = \"0.01%\"\n\
         [[app]]\nkind = \"saturated\"\n"
    );
    let plan = Plan::parse(&text, "test.toml", &[]).unwrap_or_else(|e| panic!("{e}"));
    let rates = plan.runs.iter().map(|one| {
        let outcome = run(&one.scenario, one.seed, RunOptions::default());
        outcome.figure("throughput_mbps").unwrap()
    });
    rates.sum::<f64>() / plan.runs.len() as f64
}

#[test]
fn after_single_losses_a_long_fat_path_is_filled_half_as_well_again_as_by_rfc_9260() {
    let plain = throughput("congestion = \"rfc9260\"");
    let ours = throughput("");
    assert!(ours > 1.5 * plain && ours > 50.0, "{ours} Mbit/s, with RFC 9260 {plain}");
}
