//! Setups, cases and stream options of scenario files.

use manypath_engine::{PathId, StreamClass};
use manypath_sim::scenario::{Plan, Scenario};
use manypath_sim::simulation::{RunOptions, run};

const BASE: &str = r#"measure = "4s"
warmup = "1s"

[engine]
buffer = "128KiB"

[[path]]
rate = "10mbit"
delay = "10ms"

[[path]]
rate = "5mbit"
delay = "40ms"
"#;

const MIXED: &str = r#"
[[app]]
name = "voice"
kind = "on-off"
rate = "80kbit"
message = 200
stream_options = { class = "interactive", priority = 1, max_delay = "50ms", min_rate = "40kbit" }

[[app]]
name = "bulk"
kind = "saturated"
streams = 2
stream_options = [{ weight = 3, splittable = false }, { path = "B" }]
"#;

const SETUPS: &str = r#"
[[app]]
kind = "saturated"
streams = 3

[[setup]]
name = "small"
set = { "engine.buffer" = "32KiB" }
cases = { "fixed" = { "engine.stream_mapping" = "1,0,1" } }

[[setup]]
name = "equal"
sweep = { "path.B.delay" = ["10ms", "20ms"] }
[setup.set]
path = [{ rate = "1mbit" }, { rate = "1mbit" }, { rate = "2mbit" }]

[[case]]
name = "fixed"
set = { "engine.stream_mapping" = "modulo" }

[[case]]
name = "only"
each_path = true

[sweep]
"engine.nr_sack" = ["off", "case-2", "case-3"]
"#;

fn plan(text: &str) -> Plan {
    Plan::parse(text, "test.toml", &[]).unwrap_or_else(|e| panic!("{e}"))
}

fn error(text: &str) -> String {
    Plan::parse(text, "test.toml", &[]).map(|_| ()).unwrap_err().to_string()
}

fn parameter(scenario: &Scenario, name: &str) -> String {
    let found = scenario.parameters().into_iter().find(|(other, _)| other == name);
    found.unwrap_or_else(|| panic!("no {name}")).1
}

#[test]
fn streams_have_the_options_of_their_application() {
    let plan = plan(&format!("{BASE}{MIXED}"));
    let scenario = &plan.runs[0].scenario;
    let [voice, heavy, pinned] = scenario.config.stream_options.as_slice() else { panic!() };
    assert_eq!((voice.class, voice.priority), (StreamClass::Interactive, 1));
    assert_eq!(voice.max_delay.map(|delay| delay.as_millis()), Some(50));
    // In bytes per second.
    assert_eq!(voice.min_rate, Some(5000));
    assert_eq!((heavy.weight, heavy.splittable, heavy.pinned), (3, false, None));
    assert_eq!((pinned.weight, pinned.splittable, pinned.pinned), (1, true, Some(PathId(1))));
    assert_eq!(parameter(scenario, "app.voice.stream_options.class"), "interactive");
    assert_eq!(parameter(scenario, "app.bulk.stream_options.weight"), "3/1");
    assert_eq!(parameter(scenario, "app.bulk.stream_options.path"), "/B");
}

#[test]
fn the_options_make_a_difference_and_each_application_has_its_delay() {
    let figures = |text: &str| {
        let plan = plan(text);
        run(&plan.runs[0].scenario, 1, RunOptions::default())
    };
    let mixed =
        format!("{BASE}{MIXED}").replace("[engine]", "[engine]\nstream_mapping = \"dynamic\"");
    let pinned = mixed.replace("class = \"interactive\"", "path = \"B\"");
    let [free, tied] = [&mixed, &pinned].map(|text| {
        let outcome = figures(text);
        let rate = outcome.figure("voice_throughput_mbps").unwrap();
        assert!((rate - 0.08).abs() < 0.01, "{rate}");
        assert!(outcome.figure("bulk_delay_p99_ms").unwrap() > 40.0);
        assert!(outcome.figure("rwnd_blocked").is_some());
        outcome.figure("voice_delay_ms").unwrap()
    });
    // On path B a message takes at least its 40 ms.
    assert!(free < 40.0 && tied >= 40.0, "{free} {tied}");
}

#[test]
fn wrong_stream_options_are_reported_with_what_is_allowed() {
    let wrong = [
        (
            "class = \"interactive\"",
            "class = \"fast\"",
            "test.toml:20:20: app.voice.stream_options.0.class: expected one of bulk, interactive",
        ),
        ("priority = 1", "priorty = 1", "priorty: unknown key (did you mean \"priority\"?)"),
        ("max_delay = \"50ms\"", "max_delay = 50", "max_delay: expected a time such as"),
        ("\"40kbit\"", "\"40\"", "min_rate: expected a rate such as"),
        (
            "weight = 3",
            "weight = 0",
            "test.toml:26:21: app.bulk.stream_options.0.weight: a weight is",
        ),
        ("path = \"B\"", "path = \"C\"", "there is no path \"C\"; allowed are A, B"),
        ("streams = 2", "streams = 3", "there are 2 tables for 3 streams; allowed are one for all"),
    ];
    for (line, replacement, message) in wrong {
        let text = format!("{BASE}{MIXED}");
        assert!(text.contains(line), "{line}");
        let error = error(&text.replacen(line, replacement, 1));
        assert!(error.starts_with("test.toml:") && error.contains(message), "{error}");
    }
}

#[test]
fn every_case_is_tried_in_every_setup() {
    let mut plan = plan(&format!("{BASE}{SETUPS}"));
    // 3 points of 1 + 2 runs, then 2 points of 1 + 3 runs.
    assert_eq!(plan.runs.len(), 3 * 3 + 2 * 4);
    assert_eq!(plan.setups, ["small", "equal"]);
    assert_eq!(plan.swept, ["engine.nr_sack", "path.B.delay"]);
    let find = |setup: &str, case: &str| {
        let run = plan.runs.iter().find(|run| run.setup == setup && run.case == case);
        &run.unwrap_or_else(|| panic!("{setup} {case}")).scenario
    };
    assert_eq!(parameter(find("small", "fixed"), "engine.stream_mapping"), "1,0,1");
    assert_eq!(parameter(find("small", "fixed"), "engine.buffer"), "32768");
    assert_eq!(parameter(find("equal", "fixed"), "engine.stream_mapping"), "modulo");
    let alone = find("equal", "only C");
    assert_eq!(alone.paths.len(), 1);
    assert_eq!(parameter(alone, "path.C.rate"), "2000000");
    plan.retain(&["equal".into()], &["only B".into()]).unwrap();
    assert_eq!(plan.runs.len(), 2);
    let error = plan.retain(&["large".into()], &[]).unwrap_err();
    assert_eq!(error, "there is no setup \"large\"; there are: equal");
}

#[test]
fn wrong_setups_are_reported() {
    let text = format!("{BASE}{SETUPS}");
    let of = |from: &str, to: &str| error(&text.replacen(from, to, 1));
    let unknown = of("cases = { \"fixed\"", "cases = { \"fxed\"");
    assert!(unknown.contains("there is no case \"fxed\"; allowed are fixed, only"), "{unknown}");
    assert!(of("name = \"equal\"", "name = \"small\"").contains("there are two setups \"small\""));
    let sweep = of("[\"10ms\", \"20ms\"]", "\"10ms\"");
    assert!(sweep.contains("setup.equal.sweep.path.B.delay: expected an array"), "{sweep}");
    assert!(of("each_path", "every_path").contains("case.only.every_path: unknown key"));
}
