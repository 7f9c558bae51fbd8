//! How fast a window opens where acknowledgements are few, as from hosts that receive packets in
//! batches, or late.

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

/// Seconds that a file takes over a slow path, with which the association begins, and a fast one that loses 5 %.
fn duration(seed: u64) -> f64 {
    let text = "name = \"start\"\nmeasure = \"30s\"\n[[path]]\nname = \"A\"\nrate = \"1mbit\"\ndelay = \"75ms\"\n\
                queue = 30\n[[path]]\nname = \"B\"\nrate = \"50mbit\"\ndelay = \"5ms\"\nqueue = 100\nloss = \"5%\"\n\
                [[app]]\nkind = \"file\"\nbytes = 2000000\n";
    let plan = Plan::parse(text, "test.toml", &[]).unwrap_or_else(|e| panic!("{e}"));
    run(&plan.runs[0].scenario, seed, RunOptions::default()).figure("duration_s").unwrap()
}

/// Where the receiver does not know the round trip of the fast path, SACKs go back over the slow one.
#[test]
fn a_heartbeat_that_is_lost_does_not_slow_the_start_down() {
    let mut durations: Vec<f64> = (1..=60).map(duration).collect();
    durations.sort_by(f64::total_cmp);
    let (half, most) = (durations[29], durations[56]);
    println!("half of them within {half:.2} s, all but three within {most:.2} s: {durations:.2?}");
    assert!(most < 1.5 * half, "{half} {most}");
}
