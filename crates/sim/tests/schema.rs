//! `docs/schema.md` names every column and key that the simulator writes, and no other.

use manypath_sim::campaign::{Options, Shard, execute};
use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{self, RunOptions};
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../docs/schema.md");

/// Everything that makes columns of its own.
const SCENARIO: &str = r#"
name = "everything"
measure = "2s"
path_scheduler = "schedulers/blest.wasm"
congestion_control = "controls/rfc9260.wasm"

[[path]]
name = "A"
rate = "5mbit"
delay = "5ms"

[[path.change]]
at = "1s"
rate = "4mbit"

[[app]]
name = "ask"
kind = "request-response"
message = 100
response = 2000
think = "50ms"

[[background]]
path = "A"
rate = "1mbit"

[[competitor]]
name = "rival"
"#;

/// The columns of a part of the page, with the names of the scenario.
fn documented(part: &str) -> BTreeSet<String> {
    let from = PAGE.find(&format!("\n## {part}\n")).unwrap();
    let text = &PAGE[from + 4..];
    let text = text.find("\n## ").map_or(text, |end| &text[..end]);
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let cells =
        rows.flat_map(|row| row.split('|').nth(1).unwrap_or("").split('`').skip(1).step_by(2));
    let named = |cell: &str| {
        let cell = cell.replace("PATH", "A").replace("APP", "ask").replace("NAME", "rival");
        cell.replace("sN_", "s0_").replace(".N.", ".0.")
    };
    cells.map(named).collect()
}

/// Nothing is written that is not documented, and the other way round. `prefix.*` stands for all with that prefix.
fn agree(part: &str, written: &[&str]) {
    let documented = documented(part);
    let covers = |pattern: &str, name: &str| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    };
    let missing = written.iter().filter(|name| !documented.iter().any(|known| covers(known, name)));
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "{part}: not documented: {missing:?}");
    let gone = documented.iter().filter(|known| !written.iter().any(|name| covers(known, name)));
    let gone: Vec<_> = gone.collect();
    assert!(gone.is_empty(), "{part}: never written: {gone:?}");
}

#[test]
fn every_column_and_key_is_documented() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../wasm/scenario.toml");
    let plan = Plan::parse(SCENARIO, folder, &[]).unwrap_or_else(|error| panic!("{error}"));
    let out = std::env::temp_dir().join(format!("manypath-schema-{}", std::process::id()));
    let series = Some(std::time::Duration::from_millis(500));
    let options = Options {
        out: out.clone(),
        jobs: 1,
        shard: Shard::default(),
        resume: false,
        keep: RunOptions { series, capture: false },
        version: "test".into(),
        commit: None,
    };
    let records = execute(&plan, &options, &mut |_| ()).unwrap();
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    for (part, file) in [
        ("results.csv", "results.csv".to_owned()),
        ("ID.series.csv", format!("{}.series.csv", records[0].id)),
    ] {
        let text = read(&file);
        agree(part, &text.lines().next().unwrap().split(',').collect::<Vec<_>>());
    }
    let manifest: serde_json::Value = serde_json::from_str(&read("manifest.json")).unwrap();
    let keys: Vec<&str> = manifest.as_object().unwrap().keys().map(String::as_str).collect();
    agree("manifest.json", &keys);
    std::fs::remove_dir_all(out).unwrap();
}

/// The second path is there when the peer has told its address, a round trip after the first rows.
#[test]
fn every_row_of_a_series_has_the_columns_of_its_head() {
    let path =
        |name: &str| format!("[[path]]\nname = \"{name}\"\nrate = \"5mbit\"\ndelay = \"90ms\"\n");
    let app = "[[app]]\nkind = \"saturated\"\n";
    let text = format!("measure = \"1s\"\n{}{}{app}", path("A"), path("B"));
    let plan = Plan::parse(&text, "series", &[]).unwrap_or_else(|error| panic!("{error}"));
    let series = Some(std::time::Duration::from_millis(10));
    let options = RunOptions { series, capture: false };
    let outcome = simulation::run(&plan.runs[0].scenario, 1, options);
    let series = outcome.series.unwrap();
    let columns: Vec<_> = series.lines().map(|row| row.split(',').count()).collect();
    assert!(columns.len() > 50 && columns.iter().all(|count| *count == columns[0]), "{columns:?}");
    assert!(series.lines().next().unwrap().contains(",B_cwnd,"));
}
