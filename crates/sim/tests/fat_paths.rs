//! One transfer over long fat paths.

use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{RunOptions, run};

/// Mbit/s in the second half of `seconds`, as the mean of so many runs. Paths have a queue of one bandwidth-delay
/// product.
fn throughput(engine: &str, paths: &[Path], seconds: u32, seeds: usize) -> f64 {
    let half = seconds / 2;
    let paths: String =
        paths.iter().enumerate().map(|(number, path)| path.described(number)).collect();
    let text = format!(
        "name = \"fat\"\nseeds = {seeds}\nwarmup = \"{half}s\"\nmeasure = \"{half}s\"\n\
         [engine]\nreceive_buffer_max = \"64MiB\"\nsend_buffer_max = \"64MiB\"\n{engine}\n\
         {paths}[[app]]\nkind = \"saturated\"\n"
    );
    let plan = Plan::parse(&text, "test.toml", &[]).unwrap_or_else(|e| panic!("{e}"));
    let rates = plan.runs.iter().map(|one| {
        let outcome = run(&one.scenario, one.seed, RunOptions::default());
        outcome.figure("throughput_mbps").unwrap()
    });
    rates.sum::<f64>() / plan.runs.len() as f64
}

struct Path {
    mbit: u32,
    /// Round trip.
    rtt_ms: u32,
    loss: &'static str,
}

impl Path {
    fn described(&self, number: usize) -> String {
        let Self { mbit, rtt_ms, loss } = self;
        let (delay, queue) = (rtt_ms / 2, mbit * 1000 * rtt_ms / 8 / 1500);
        format!(
            "[[path]]\nname = \"{number}\"\nrate = \"{mbit}mbit\"\ndelay = \"{delay}ms\"\nqueue = {queue}\nloss = \"{loss}\"\n"
        )
    }
}

#[test]
fn after_single_losses_a_long_fat_path_is_filled_half_as_well_again_as_by_rfc_9260() {
    let path = [Path { mbit: 500, rtt_ms: 150, loss: "0.01%" }];
    let plain = throughput("congestion = \"rfc9260\"", &path, 14, 4);
    let ours = throughput("", &path, 14, 4);
    assert!(ours > 1.5 * plain && ours > 50.0, "{ours} Mbit/s, with RFC 9260 {plain}");
}

#[test]
fn a_path_of_300_ms_is_full_within_eight_seconds() {
    let rate = throughput("", &[Path { mbit: 500, rtt_ms: 300, loss: "0%" }], 16, 1);
    assert!(rate > 0.9 * 500.0, "{rate} Mbit/s");
}

#[test]
fn two_long_fat_paths_carry_nine_tenths_of_their_sum() {
    let path = || Path { mbit: 200, rtt_ms: 80, loss: "0%" };
    let rate = throughput("", &[path(), path()], 14, 1);
    assert!(rate > 0.9 * 400.0, "{rate} Mbit/s");
}
