//! What ECN is good for: a queue that tells of congestion early need not drop what it has already carried
//! so far.

use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{Outcome, RunOptions, run};

const SEEDS: u64 = 4;

/// One path through a RED queue, and a stream that is always full, for 30 s.
const SATURATED: &str = r#"
[[path]]
rate = "10mbit"
delay = "20ms"
queue = 200
red = { least = 10, most = 40, probability = "10%", weight = "2%" }
[[app]]
kind = "saturated"
"#;

/// The same over two such paths.
const TWO_PATHS: &str = r#"
[[path]]
rate = "10mbit"
delay = "20ms"
queue = 200
red = { least = 10, most = 40, probability = "10%", weight = "2%" }
[[path]]
rate = "5mbit"
delay = "40ms"
queue = 200
red = { least = 10, most = 40, probability = "10%", weight = "2%" }
[[app]]
kind = "saturated"
"#;

fn outcomes(scenario: &str, settings: &str) -> Vec<Outcome> {
    let text = format!(
        "seeds = {SEEDS}\nmeasure = \"30s\"\n[engine]\nhystart = false\nqueue_bound = 0\n{settings}\n{scenario}"
    );
    let plan = Plan::parse(&text, "ecn.toml", &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let all: Vec<_> =
        plan.runs.iter().map(|one| run(&one.scenario, one.seed, RunOptions::default())).collect();
    assert!(all.iter().all(|outcome| outcome.failure.is_none()));
    all
}

fn mean(outcomes: &[Outcome], figure: &str) -> f64 {
    let sum: f64 = outcomes.iter().map(|outcome| outcome.figure(figure).unwrap()).sum();
    sum / outcomes.len() as f64
}

#[test]
fn ecn_removes_the_losses_at_a_queue_that_marks() {
    for congestion in ["rfc9260", "cubic"] {
        let settings = |ecn| format!("ecn = \"{ecn}\"\ncongestion = \"{congestion}\"");
        let with = outcomes(SATURATED, &settings("on"));
        let without = outcomes(SATURATED, &settings("off"));
        println!(
            "{congestion}: repeated {} and {} bytes, marked {}, reduced {} times, {} and {} Mbit/s",
            mean(&with, "A_bytes_retransmitted"),
            mean(&without, "A_bytes_retransmitted"),
            mean(&with, "A_marked"),
            mean(&with, "A_ecn_reductions"),
            mean(&with, "throughput_mbps"),
            mean(&without, "throughput_mbps"),
        );
        // What is dropped all the same are control chunks, which are not ECN-capable.
        assert_eq!(mean(&with, "A_bytes_retransmitted"), 0.0, "{congestion}");
        assert_eq!(mean(&with, "A_dropped_queue") + mean(&with, "A_timeouts"), 0.0);
        assert!(mean(&without, "A_bytes_retransmitted") > 20.0 * 1444.0, "{congestion}");
        assert!(mean(&with, "A_marked") > 20.0 && mean(&with, "A_ecn_reductions") > 10.0);
        let [with, without] = [&with, &without].map(|all| mean(all, "throughput_mbps"));
        assert!(with > 0.98 * without, "{congestion}: {with} {without}");
    }
}

#[test]
fn each_path_of_several_answers_its_own_marks() {
    let all = outcomes(TWO_PATHS, "ecn = \"on\"");
    for path in ["A", "B"] {
        let of = |name: &str| mean(&all, &format!("{path}_{name}"));
        assert!(of("marked") > 10.0 && of("ecn_reductions") > 5.0, "{path}");
        assert_eq!((of("bytes_retransmitted"), of("timeouts")), (0.0, 0.0), "{path}");
    }
    let without = mean(&outcomes(TWO_PATHS, "ecn = \"off\""), "throughput_mbps");
    assert!(mean(&all, "throughput_mbps") > 0.95 * without, "{without}");
}
