//! Redundant transmission: data is duplicated on all paths, so a loss on one costs no time; each path keeps to its
//! own congestion control; what is copied is chosen by class.

use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{Outcome, RunOptions, run};

const PATHS: &str = r#"
warmup = "2s"
measure = "60s"

[engine]
stream_scheduling = "round-robin"

[[path]]
rate = "10mbit"
delay = "20ms"
queue = 50

[[path]]
rate = "5mbit"
delay = "30ms"
queue = 50
"#;

const REQUESTS: &str = r#"
[[app]]
name = "requests"
kind = "request-response"
streams = 4
message = 300
response = 300
think = "100ms"
stream_options = { class = "interactive" }
"#;

const BULK: &str = r#"
[[app]]
name = "bulk"
kind = "saturated"
streams = 2
"#;

fn simulate(text: &str, set: &[(&str, &str)]) -> Outcome {
    let set: Vec<_> = set.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let plan = Plan::parse(text, "test.toml", &set).unwrap_or_else(|e| panic!("{e}"));
    let outcome = run(&plan.runs[0].scenario, 1, RunOptions::default());
    assert_eq!(outcome.failure, None);
    outcome
}

fn figure(outcome: &Outcome, name: &str) -> f64 {
    outcome.figure(name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn losses_on_both_paths_delay_nothing() {
    let text = format!("{PATHS}{REQUESTS}");
    let with = |scheduling| {
        let loss = [("path.A.loss", "\"5%\""), ("path.B.loss", "\"5%\"")];
        // Without the queues that BBR makes to probe: this is about the copies.
        let control = ("engine.congestion", "cubic");
        simulate(&text, &[loss[0], loss[1], control, ("engine.path_scheduling", scheduling)])
    };
    let (single, redundant) = (with("smallest-srtt"), with("redundant"));
    let p99 = |outcome| figure(outcome, "requests_delay_p99_ms");
    // One of 400 messages is lost on both paths; of the others the slower path brings what the
    // faster one has lost. A retransmission takes a round trip and more.
    assert!(p99(&redundant) < 1.1 * 30.0, "{}", p99(&redundant));
    assert!(p99(&single) > 2.0 * p99(&redundant), "{}", p99(&single));
    let answers = figure(&redundant, "requests_answer_delay_p99_ms");
    assert!(answers < 1.1 * 30.0, "{answers}");
    assert!(figure(&redundant, "B_copies") > 500.0 && figure(&single, "B_copies") < 1.0);
}

#[test]
fn a_saturated_sender_gets_what_the_best_path_carries() {
    let text = format!("{PATHS}{BULK}").replace("measure = \"60s\"", "measure = \"20s\"");
    for loss in ["0", "\"0.5%\""] {
        let of = |scheduling| {
            let set = [
                ("engine.path_scheduling", scheduling),
                ("engine.buffer", "\"1MiB\""),
                ("path.A.loss", loss),
                ("path.B.loss", loss),
            ];
            simulate(&text, &set)
        };
        let (all, redundant, alone) = (of("smallest-srtt"), of("redundant"), of("primary"));
        let [all, both, one] =
            [&all, &redundant, &alone].map(|outcome| figure(outcome, "throughput_mbps"));
        println!("loss {loss}: all {all:.2}, redundant {both:.2}, primary {one:.2}");
        assert!(both > 0.9 * one && both < all, "loss {loss}: {both} against {one}, {all}");
        // The slow path's queue does not overflow all the time: its window was cut.
        let sent = figure(&redundant, "B_packets_sent");
        let dropped = figure(&redundant, "B_dropped_queue");
        println!("sent {sent}, dropped {dropped}");
        assert!(dropped < 0.03 * sent, "{dropped} of {sent}");
    }
}

#[test]
fn only_what_must_not_wait_is_copied() {
    let constant = "kind = \"on-off\"\nrate = \"1mbit\"";
    let text = format!("{PATHS}{REQUESTS}{}", BULK.replace("kind = \"saturated\"", constant));
    let with = |scheduling| {
        let loss = [("path.A.loss", "\"2%\""), ("path.B.loss", "\"2%\"")];
        simulate(&text, &[loss[0], loss[1], ("engine.path_scheduling", scheduling)])
    };
    let (all, chosen, none) =
        (with("redundant"), with("redundant-interactive"), with("earliest-completion"));
    let copies = |outcome: &Outcome| figure(outcome, "A_copies") + figure(outcome, "B_copies");
    let p99 = |outcome: &Outcome, app: &str| figure(outcome, &format!("{app}_delay_p99_ms"));
    assert!(copies(&none) < 1.0 && copies(&chosen) < 0.5 * copies(&all));
    // Behind bulk data on the slow path a copy waits a little; a retransmission takes longer.
    let [of_chosen, of_none] = [&chosen, &none].map(|outcome| p99(outcome, "requests"));
    assert!(of_chosen < 1.5 * 30.0 && of_none > 1.5 * of_chosen, "{of_chosen} {of_none}");
    // What is not copied is repeated as ever.
    let [of_chosen, of_all] = [&chosen, &all].map(|outcome| p99(outcome, "bulk"));
    assert!(of_all < 0.8 * of_chosen, "{of_all} {of_chosen}");
}

#[test]
fn a_path_that_dies_is_found_dead_and_used_again() {
    let change = "change = [{ at = \"10s\", up = false }, { at = \"20s\", up = true }]";
    let text = format!("{PATHS}{REQUESTS}").replacen(
        "delay = \"20ms\"",
        &format!("delay = \"20ms\"\n{change}"),
        1,
    );
    let outcome = simulate(&text, &[("engine.path_scheduling", "redundant")]);
    let gap = figure(&outcome, "longest_gap_s");
    // The other path goes on as if nothing were.
    assert!(gap < 0.2, "{gap}");
    let p99 = figure(&outcome, "requests_delay_p99_ms");
    assert!(p99 < 1.2 * 30.0, "{p99}");
}
