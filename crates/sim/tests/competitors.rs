//! Other associations that go through the bottlenecks of a scenario.

use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{Outcome, RunOptions, run};

const TWO_PATHS: &str = r#"
warmup = "5s"
measure = "30s"

[engine]
congestion = "rfc9260"
queue_bound = 0

[[path]]
name = "A"
rate = "10mbit"
delay = "10ms"
queue = 40
access = { jitter = "5ms" }

[[path]]
name = "B"
rate = "10mbit"
delay = "10ms"
queue = 40
access = { jitter = "5ms" }

[[app]]
kind = "saturated"
"#;

/// With these tables behind the paths.
fn simulate(tables: &str) -> Outcome {
    let text = format!("{TWO_PATHS}\n{tables}");
    let plan = Plan::parse(&text, "competitors", &[]).unwrap_or_else(|error| panic!("{error}"));
    let outcome = run(&plan.runs[0].scenario, 1, RunOptions::default());
    assert_eq!(outcome.failure, None);
    outcome
}

fn rates(outcome: &Outcome, names: &[&str]) -> Vec<f64> {
    names.iter().map(|name| outcome.figure(&format!("{name}throughput_mbps")).unwrap()).collect()
}

#[test]
fn flows_on_one_path_leave_their_part_of_it_and_all_of_the_other() {
    let tables = r#"
[[competitor]]
name = "others"
flows = 4
paths = ["B"]
engine = { congestion = "rfc9260", queue_bound = 0 }
start = { min = "0s", max = "1s" }
"#;
    let outcome = simulate(tables);
    let [all, others] = rates(&outcome, &["", "others_"])[..] else { panic!() };
    println!("{all} beside {others}");
    // One of five flows on B, and A alone.
    assert!((10.0..13.5).contains(&all), "{all}");
    assert!((6.0..8.5).contains(&others), "{others}");
}

#[test]
fn a_competitor_may_have_several_paths_and_begin_later() {
    let tables = "[[competitor]]\nengine = { congestion = \"rfc9260\", queue_bound = 0 }\n";
    let [all, other] = rates(&simulate(tables), &["", "competitor0_"])[..] else { panic!() };
    assert!((0.6..1.6).contains(&(all / other)), "{all} beside {other}");
    let late = format!("{tables}start = {{ min = \"20s\", max = \"20s\" }}\n");
    let [more, less] = rates(&simulate(&late), &["", "competitor0_"])[..] else { panic!() };
    assert!(more > 1.2 * all && less < 0.8 * other, "{more} beside {less}");
}

#[test]
fn each_path_alone_has_the_flows_that_use_it() {
    let cases = r#"
[[competitor]]
name = "b"
paths = ["B"]

[[competitor]]
name = "both"

[[case]]
name = "alone"
each_path = true
"#;
    let plan = Plan::parse(&format!("{TWO_PATHS}{cases}"), "competitors", &[]);
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let names = |case: &str| {
        let run = plan.runs.iter().find(|run| run.case == case).unwrap();
        run.scenario
            .competitors
            .iter()
            .map(|c| (c.name.clone(), c.paths.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(names("alone A"), [("both".to_owned(), vec![0])]);
    assert_eq!(names("alone B"), [("b".to_owned(), vec![0]), ("both".to_owned(), vec![0])]);
}

#[test]
fn what_is_wrong_with_a_table_is_told() {
    let error = |table: &str| {
        let text = format!("{TWO_PATHS}\n[[competitor]]\n{table}");
        Plan::parse(&text, "competitors", &[]).unwrap_err().to_string()
    };
    for (table, part) in [
        ("paths = [\"C\"]", "there is no path \"C\"; allowed are A, B"),
        ("paths = [\"A\", \"A\"]", "twice"),
        ("paths = []", "names no path"),
        ("flows = 0", "at least one flow"),
        ("flows = 251", "at most 250"),
        ("name = \"saturated\"", "is taken"),
        ("name = \"s0\"", "is taken"),
        ("rate = \"1mbit\"", "unknown key"),
        ("engine = { congestion = \"reno\" }", "congestion"),
        ("start = { min = \"2s\", max = \"1s\" }", "less than min"),
    ] {
        assert!(error(table).contains(part), "{table}: {}", error(table));
    }
}
