//! How fast a window opens where acknowledgements are few, as from hosts that receive packets in
//! batches.

use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{RunOptions, run};

/// Mbit/s between 3 and 5 s over 100 Mbit/s and 300 ms, with a SACK for every `packets`.
fn early_throughput(packets: u32) -> f64 {
    let text = format!(
        "name = \"start\"\nwarmup = \"3s\"\nmeasure = \"2s\"\n\
         [engine]\ncongestion = \"cubic\"\nbuffer = \"16MiB\"\nsack_frequency = {packets}\n\
         [[path]]\nname = \"A\"\nrate = \"100mbit\"\ndelay = \"150ms\"\nqueue = 5000\n\
         [[app]]\nkind = \"saturated\"\n"
    );
    let plan = Plan::parse(&text, "test.toml", &[]).unwrap_or_else(|e| panic!("{e}"));
    let outcome = run(&plan.runs[0].scenario, plan.runs[0].seed, RunOptions::default());
    outcome.figure("throughput_mbps").unwrap()
}

#[test]
fn a_window_doubles_in_a_round_trip_although_a_sack_stands_for_many_packets() {
    let often = early_throughput(2);
    for packets in [16, 64] {
        let seldom = early_throughput(packets);
        assert!(seldom > 0.8 * often && seldom > 50.0, "{packets}: {seldom} of {often} Mbit/s");
    }
}
