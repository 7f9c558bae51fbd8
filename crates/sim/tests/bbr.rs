//! What BBR makes of paths of which CUBIC makes little: losses at random, and short queues.

use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{Outcome, RunOptions, run};

const SCENARIO: &str = r#"
name = "bbr"
description = "One path that is always full"
seeds = 1
warmup = "4s"
measure = "8s"

[engine]
profile = "production"
congestion = "bbr"
buffer = "4MiB"

[[path]]
name = "A"
rate = "20mbit"
delay = "10ms"
queue = 100

[[app]]
kind = "saturated"
message = 1400
"#;

fn outcome(changes: &[(&str, &str)]) -> Outcome {
    let quoted = |(key, value): &(&str, &str)| match value.parse::<u64>() {
        Ok(_) => ((*key).to_owned(), (*value).to_owned()),
        Err(_) => ((*key).to_owned(), format!("\"{value}\"")),
    };
    let set: Vec<_> = changes.iter().map(quoted).collect();
    let plan = Plan::parse(SCENARIO, "bbr.toml", &set).unwrap_or_else(|e| panic!("{e}"));
    let outcome = run(&plan.runs[0].scenario, 1, RunOptions::default());
    assert_eq!(outcome.failure, None);
    println!("{changes:?}: {:.2} Mbit/s", outcome.figure("throughput_mbps").unwrap());
    outcome
}

fn goodput(changes: &[(&str, &str)]) -> f64 {
    outcome(changes).figure("throughput_mbps").unwrap()
}

/// Losses hit what comes to the bottleneck: the rest can still fill it.
#[test]
fn losses_at_random_cost_little() {
    let payload = 19.2;
    for (loss, least) in [("1%", 0.96), ("3%", 0.96), ("6%", 0.94), ("10%", 0.92)] {
        let goodput = goodput(&[("path.A.loss", loss)]);
        assert!(goodput > least * payload, "{loss}: {goodput}");
    }
    let cubic = goodput(&[("path.A.loss", "3%"), ("engine.congestion", "cubic")]);
    assert!(cubic < 0.4 * payload, "{cubic}: what BBR does is no merit of the path");
}

/// The rate that it measures is that of the bottleneck, or it would leave a part of it idle or keep the
/// queue full.
#[test]
fn it_sends_as_fast_as_the_bottleneck_is() {
    for (rate, delay, mbps) in
        [("2mbit", "75ms", 2.0), ("20mbit", "10ms", 20.0), ("100mbit", "5ms", 100.0)]
    {
        let outcome = outcome(&[("path.A.rate", rate), ("path.A.delay", delay)]);
        let goodput = outcome.figure("throughput_mbps").unwrap();
        let ceiling = outcome.figure("ceiling_mbps").unwrap();
        assert!(ceiling < mbps && goodput > 0.97 * ceiling, "{rate}: {goodput} of {ceiling}");
        assert!(outcome.figure("A_dropped_queue").unwrap() < 1.0, "{rate}");
    }
}

#[test]
fn a_short_queue_is_enough() {
    for queue in ["8", "20"] {
        let outcome = outcome(&[("path.A.queue", queue)]);
        let goodput = outcome.figure("throughput_mbps").unwrap();
        let (sent, dropped) =
            (outcome.figure("A_packets_sent").unwrap(), outcome.figure("A_dropped_queue").unwrap());
        assert!(goodput > 18.2, "{queue}: {goodput}");
        assert!(dropped < 0.02 * sent, "{queue}: {dropped} of {sent}");
    }
}
