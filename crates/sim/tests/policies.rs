//! What scenario files say that paths are there for (`docs/paths.md`).

use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{Outcome, RunOptions, run};

/// Bulk data over two paths of 10 Mbit/s, of which A is dead from the tenth second on.
fn simulate(of_b: &str, measure: &str) -> Outcome {
    let path = "[[path]]\nrate = \"10mbit\"\ndelay = \"20ms\"\nqueue = 50\n";
    let dies = "[[path.change]]\nat = \"10s\"\nup = false\n";
    let app = "[[app]]\nkind = \"saturated\"\nstreams = 2\n";
    let text = format!("measure = \"{measure}\"\n{path}{dies}{path}{of_b}\n{app}");
    let plan = Plan::parse(&text, "policies.toml", &[]).unwrap_or_else(|e| panic!("{e}"));
    let outcome = run(&plan.runs[0].scenario, 1, RunOptions::default());
    assert_eq!(outcome.failure, None);
    outcome
}

fn sent_over_b(outcome: &Outcome) -> f64 {
    outcome.figure("B_packets_sent").unwrap()
}

fn throughput(outcome: &Outcome) -> f64 {
    outcome.figure("throughput_mbps").unwrap()
}

#[test]
fn a_backup_carries_data_only_after_the_normal_path_has_died() {
    let (early, late) = (simulate("role = \"backup\"", "9s"), simulate("role = \"backup\"", "30s"));
    assert!(sent_over_b(&early) < 20.0, "{}", sent_over_b(&early));
    assert!((7.0..10.0).contains(&throughput(&early)), "{}", throughput(&early));
    assert!(sent_over_b(&late) > 10_000.0, "{}", sent_over_b(&late));
    assert!((7.0..10.0).contains(&throughput(&late)), "{}", throughput(&late));
    let normal = simulate("", "9s");
    assert!(throughput(&normal) > 15.0, "{}", throughput(&normal));
}

#[test]
fn a_metered_path_keeps_to_its_allowance_and_a_disabled_one_carries_nothing() {
    let metered = throughput(&simulate("metered = \"2mbit\"", "9s"));
    assert!((9.0..12.0).contains(&metered), "{metered}");
    let disabled = simulate("role = \"disabled\"", "9s");
    assert!(sent_over_b(&disabled) < 20.0, "{}", sent_over_b(&disabled));
}

#[test]
fn what_is_wanted_is_among_the_parameters() {
    let text = "[[path]]\nrole = \"backup\"\ncost = 3\nmetered = \"8mbit\"\nprimary = true\n[[app]]\n\
                kind = \"saturated\"\n";
    let plan = Plan::parse(text, "policies.toml", &[]).unwrap();
    let all = plan.runs[0].scenario.parameters();
    for (key, value) in
        [("role", "backup"), ("cost", "3"), ("metered", "8000000"), ("primary", "true")]
    {
        let said = (format!("path.A.{key}"), value.to_owned());
        assert!(all.contains(&said), "{said:?}: {all:?}");
    }
    let wrong = |line: &str| {
        let text = format!("[[path]]\n{line}\n[[app]]\nkind = \"saturated\"\n");
        Plan::parse(&text, "policies.toml", &[]).unwrap_err().to_string()
    };
    assert!(wrong("role = \"spare\"").contains("one of normal, backup, disabled"));
    assert!(wrong("metered = \"unlimited\"").contains("a rate such as"));
}
