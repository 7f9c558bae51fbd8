//! Losses found by time (RACK-TLP) against RFC 9260, with a part of the runs of the figure
//! `loss-recovery`.

use manypath_sim::figure::figures;
use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{Outcome, RunOptions, run};

const SEEDS: u64 = 6;
const STANDING: &str = "RFC 9260 as it stands";

/// The runs of a setup and case of the figure at this point of its sweep, with the first seeds.
fn outcomes(setup: &str, case: &str, point: &[(&str, &str)]) -> Vec<Outcome> {
    let figure = figures().iter().find(|figure| figure.name == "loss-recovery").unwrap();
    let plan = Plan::parse(figure.scenario, figure.file, &[]).unwrap_or_else(|e| panic!("{e}"));
    let chosen = plan.runs.iter().filter(|run| {
        let parameters = run.scenario.parameters();
        let fits = |(name, value): &(&str, &str)| {
            parameters.iter().any(|(other, is)| other == name && is == value)
        };
        (&*run.setup, &*run.case) == (setup, case) && run.seed <= SEEDS && point.iter().all(fits)
    });
    let all: Vec<_> =
        chosen.map(|chosen| run(&chosen.scenario, chosen.seed, RunOptions::default())).collect();
    assert_eq!(all.len() as u64, SEEDS, "{setup} {case} {point:?}");
    assert!(all.iter().all(|outcome| outcome.failure.is_none()));
    all
}

fn mean(outcomes: &[Outcome], figure: &str) -> f64 {
    let sum: f64 = outcomes.iter().map(|outcome| outcome.figure(figure).unwrap()).sum();
    sum / outcomes.len() as f64
}

#[test]
fn at_six_percent_of_loss_rack_takes_a_quarter_less_than_rfc_9260_and_no_timeouts() {
    for (bytes, most) in [("500000", 0.75), ("5000000", 0.75)] {
        let point = [("app.file.bytes", bytes), ("path.A.loss", "0.06")];
        let [rack, standing] = ["rack", STANDING].map(|case| outcomes("loss", case, &point));
        let ratio = mean(&rack, "duration_s") / mean(&standing, "duration_s");
        assert!(ratio <= most, "{bytes}: {ratio}");
        let [with, without] = [&rack, &standing].map(|runs| mean(runs, "A_timeouts"));
        assert!(with < 0.5 && without > 1.0, "{bytes}: {with} {without}");
    }
}

#[test]
fn rack_is_faster_too_if_only_the_loss_recovery_differs() {
    let point = [("app.file.bytes", "5000000"), ("path.A.loss", "0.06")];
    let rack = mean(&outcomes("loss", "rack", &point), "duration_s");
    for case in ["rfc9260, RTO.Min 200 ms", "rfc9260, RTO.Min 1 s"] {
        let other = mean(&outcomes("loss", case, &point), "duration_s");
        assert!(rack < 0.9 * other, "{case}: {rack} {other}");
    }
}

#[test]
fn reordering_of_20_ms_makes_rack_repeat_less_than_a_hundredth_for_nothing() {
    for (rate, reorder) in [("1500000", "0.25"), ("10000000", "0.05"), ("10000000", "0.25")] {
        let point = [("path.A.rate", rate), ("path.A.reorder", reorder), ("path.A.loss", "0")];
        let [rack, other] =
            ["rack", "rfc9260, RTO.Min 200 ms"].map(|case| outcomes("reordering", case, &point));
        let sent = mean(&rack, "A_packets_sent");
        let (known, truth) =
            (mean(&rack, "A_spurious_retransmits"), mean(&rack, "duplicates_received"));
        assert!(truth < 0.01 * sent, "{rate} {reorder}: {truth} of {sent}");
        // Nothing is lost here, so the sender learns of every one, unless the file was complete before.
        assert!((known - truth).abs() <= 0.5, "{rate} {reorder}: {known} {truth}");
        let [rack, other] = [rack, other].map(|runs| mean(&runs, "duration_s"));
        assert!(rack < 1.02 * other, "{rate} {reorder}: {rack} s against {other} s");
    }
}
