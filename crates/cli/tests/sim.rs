//! `manypath-lab sim`: runs, shards spread by a tool that knows nothing of us, errors, comparison.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SCENARIO: &str = r#"name = "small"
seeds = 3
measure = "1s"
[engine]
buffer = "64KiB"
[[path]]
rate = "5mbit"
delay = "5ms"
[[app]]
kind = "saturated"
[sweep]
"path.A.loss" = [0, 0.02]
"#;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("manypath-sim-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("small.toml"), SCENARIO).unwrap();
        Self(dir)
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(file)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn sim(dir: &Path, args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_manypath-lab");
    Command::new(program).current_dir(dir).arg("sim").args(args).output().unwrap()
}

fn ok(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The line of docs/simulation.md for one machine, for another scenario and into another folder.
fn documented_line() -> String {
    let docs = include_str!("../../../docs/simulation.md");
    let line = docs.lines().find(|line| line.contains("xargs")).unwrap();
    let program = env!("CARGO_BIN_EXE_manypath-lab");
    line.replace("manypath-lab", program)
        .replace(" s.toml", " small.toml")
        .replace("--output out", "--output parts")
}

#[test]
fn progress_is_one_line_at_a_terminal_and_plain_lines_elsewhere() {
    let folder = Folder::new("progress");
    let piped = sim(&folder.0, &["run", "small.toml", "--output", "piped"]);
    ok(&piped);
    let said = String::from_utf8_lossy(&piped.stderr);
    assert!(said.starts_with("6/6 runs, ") && said.lines().count() == 1, "{said:?}");
    assert!(!said.contains(['\x1b', '\r']), "{said:?}");
    let program = env!("CARGO_BIN_EXE_manypath-lab");
    let line = format!("{program} sim run small.toml --output drawn");
    let mut script = Command::new("script");
    script.current_dir(&folder.0).env("TERM", "xterm").args(["-qec", &line, "/dev/null"]);
    let drawn = script.output().unwrap();
    let shown = ok(&drawn);
    let (before, after) = shown.split_once("1/6 runs, ").unwrap();
    assert!(before.is_empty() && after.contains("\x1b[2K6/6 runs, "), "{shown:?}");
}

#[test]
fn shards_spread_by_xargs_give_what_one_call_gives() {
    let folder = Folder::new("shards");
    let table = ok(&sim(&folder.0, &["run", "small.toml", "--output", "whole"]));
    assert!(table.contains("0.02") && table.contains("6 runs in whole"), "{table}");
    let line = documented_line();
    assert!(line.contains("small.toml --shard {}/8") && line.contains("--output parts"), "{line}");
    let output = Command::new("sh").current_dir(&folder.0).args(["-c", &line]).output().unwrap();
    ok(&output);
    ok(&sim(&folder.0, &["merge", "parts", "--output", "merged"]));
    assert_eq!(folder.read("merged/results.csv"), folder.read("whole/results.csv"));
    let same = ok(&sim(&folder.0, &["compare", "whole", "merged"]));
    assert!(same.contains("path.A.loss=0.02") && !same.contains("different"), "{same}");
}

#[test]
fn a_figure_of_the_scenario_file_is_drawn_from_all_runs() {
    let folder = Folder::new("own-figure");
    let figure = "[[figure]]\nname = \"loss\"\nx = \"path.A.loss\"\ny = \"throughput_mbps\"\n";
    std::fs::write(folder.0.join("figure.toml"), format!("{SCENARIO}{figure}")).unwrap();
    let run = |more: &[&str]| {
        ok(&sim(&folder.0, &[&["run", "figure.toml", "--output", "out"], more].concat()))
    };
    assert!(!run(&["--shard", "0/2"]).contains("loss.svg"), "a part is not drawn");
    let told = run(&["--resume"]);
    assert!(told.contains("out/loss.svg"), "{told}");
    assert!(folder.read("out/loss.svg").contains("throughput_mbps"));
    let points = folder.read("out/loss.csv");
    assert_eq!(points.lines().count(), 3, "{points}");
    assert!(std::fs::metadata(folder.0.join("out/loss.pdf")).is_ok());
    run(&["--seeds", "1", "--series", "100ms"]);
    let pictures = std::fs::read_dir(folder.0.join("out")).unwrap().flatten();
    let names = pictures.map(|entry| entry.file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.ends_with(".series.svg")).count(), 2, "one for each run");
}

#[test]
fn the_commands_of_a_plan_do_one_run_each() {
    let folder = Folder::new("plan");
    ok(&sim(&folder.0, &["run", "small.toml", "--seeds", "2", "--output", "whole"]));
    let args = ["plan", "small.toml", "--seeds", "2", "--output", "a part"];
    let plan = ok(&sim(&folder.0, &[&args[..], &["--json"]].concat()));
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    let runs = plan["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &plan["folder"]), (4, &"a part".into()));
    let table = folder.read("whole/results.csv");
    let build = Path::new(env!("CARGO_BIN_EXE_manypath-lab")).parent().unwrap().display();
    for (run, row) in runs.iter().zip(table.lines().skip(1)) {
        let told = format!("{},{},small,,,{},", run["id"], run["index"], run["seed"]);
        assert!(row.starts_with(&told.replace('"', "")), "{run} {row}");
        let command = format!("PATH={build}:$PATH {}", run["command"].as_str().unwrap());
        let output = Command::new("sh").current_dir(&folder.0).args(["-c", &command]).output();
        ok(&output.unwrap());
        assert_eq!(folder.read(run["journal"].as_str().unwrap()).lines().count(), 1);
    }
    assert_eq!(runs[3]["values"], serde_json::json!({"path.A.loss": "0.02"}));
    ok(&sim(&folder.0, &["merge", "a part", "--output", "merged"]));
    assert_eq!(folder.read("merged/results.csv"), table);
    let text = ok(&sim(&folder.0, &args));
    let one = "manypath-lab sim run small.toml --seeds 2 --output 'a part' --shard INDEX/4";
    assert!(text.contains("path.A.loss") && text.ends_with(&format!("{one}\n")), "{text}");
}

#[test]
fn the_runs_of_a_figure_have_commands_too() {
    let folder = Folder::new("figure-plan");
    let args = ["plan", "--figure", "dreibholz2010-fig7", "--seeds", "1", "--set", "measure=1s"];
    let plan = ok(&sim(&folder.0, &[&args[..], &["--json"]].concat()));
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    let run = &plan["runs"][31];
    let command = "manypath-lab sim figure dreibholz2010-fig7 --set measure=1s --seeds 1 \
                   --output target/figures --shard 31/32";
    assert_eq!((&run["command"], &run["seed"]), (&command.into(), &1.into()));
    let journal = "target/figures/runs/dreibholz2010-fig7/runs-31-of-32.jsonl";
    assert_eq!(
        (&run["journal"], &run["case"]),
        (&journal.into(), &"Round-Robin, no NR-SACK".into())
    );
    let args = ["plan", "--figure", "manypath-dynamic", "--grid-seed", "7", "--seeds", "1"];
    let plan = ok(&sim(&folder.0, &[&args[..], &["--json"]].concat()));
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["scenario"], "manypath-dynamic-grid-7");
    let command = plan["runs"][0]["command"].as_str().unwrap();
    let whole = "manypath-lab sim figure manypath-dynamic --grid-seed 7 --seeds 1 --output ";
    assert!(command.starts_with(whole), "{command}");
}

#[test]
fn the_python_package_reads_results() {
    let package = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../python"));
    let project = std::fs::read_to_string(package.join("pyproject.toml")).unwrap();
    assert!(project.contains(&format!("\nversion = \"{}\"\n", env!("CARGO_PKG_VERSION"))));
    let mut python = Command::new("python3");
    python.args(["-B", "-m", "unittest", "discover", "-s", "tests"]).current_dir(package);
    let output = python.env("MANYPATH_LAB", env!("CARGO_BIN_EXE_manypath-lab")).output().unwrap();
    ok(&output);
    assert!(String::from_utf8_lossy(&output.stderr).contains("Ran 4 tests"));
}

#[test]
fn wrong_input_is_answered_with_what_is_allowed() {
    let folder = Folder::new("wrong");
    let fails = |args: &[&str], message: &str| {
        let output = sim(&folder.0, args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(message), "{text}");
    };
    std::fs::write(folder.0.join("typo.toml"), SCENARIO.replace("delay", "dealy")).unwrap();
    fails(
        &["run", "typo.toml"],
        "typo.toml:8:1: path.0.dealy: unknown key (did you mean \"delay\"?)",
    );
    fails(&["run", "none.toml"], "none.toml: ");
    fails(&["run", "small.toml", "--shard", "3/3"], "expected i/n");
    fails(&["run", "small.toml", "--set", "measure"], "expected KEY=VALUE");
    fails(&["run", "small.toml", "--set", "measure=long"], "measure: expected a time");
    fails(&["run", "small.toml", "--series", "1"], "expected a time");
    let grid = ["figure", "dreibholz2010-fig7", "--grid-seed", "7"];
    fails(&grid, "--grid-seed draws a grid for manypath-dynamic alone");
    fails(&["compare", "no", "nothing"], "no");
    fails(&["plan", "small.toml", "--case", "none"], "there is no case");
    fails(&["plan", "--figure", "fig8"], "there are: dreibholz2010-fig4");
    fails(
        &[&["plan", "--figure"][..], &grid[1..]].concat(),
        "draws a grid for manypath-dynamic alone",
    );
    fails(&["plan", "small.toml", "--grid-seed", "7"], "cannot be used with");
    let figure = "[[figure]]\nname = \"loss\"\nx = \"path.A.loss\"\ny = \"troughput_mbps\"\n";
    std::fs::write(folder.0.join("figure.toml"), format!("{SCENARIO}{figure}")).unwrap();
    let why = "figure.toml: figure.loss.y: no run has \"troughput_mbps\" (did you mean \"throughput_mbps\"?); there are throughput_mbps, ";
    fails(&["run", "figure.toml", "--output", "out"], why);
    assert!(!folder.0.join("out").exists(), "no run was done");
}

#[test]
fn the_parts_of_a_figure_are_drawn_together() {
    let folder = Folder::new("figure-shards");
    let figure = |out: &str, more: &[&str]| {
        let points = "sweep={ \"engine.buffer\" = [\"256KiB\"] }";
        let args = ["figure", "dreibholz2010-fig7", "--output", out, "--seeds", "1", "--jobs", "1"];
        let set = ["--set", "measure=1s", "--set", "warmup=1s", "--set", points];
        sim(&folder.0, &[&args, &set[..], more].concat())
    };
    for shard in ["0/2", "1/2"] {
        let text = ok(&figure("out", &["--shard", shard]));
        assert!(text.contains(&format!("2 runs of shard {shard}")), "{text}");
    }
    assert!(!folder.0.join("out/verdict.json").exists());
    let drawn = figure("out", &["--resume"]);
    let text = String::from_utf8_lossy(&drawn.stdout).into_owned();
    assert!(text.contains("4 runs, 1 seed,") && drawn.stderr.is_empty(), "{text}");
    assert!(folder.read("out/dreibholz2010-fig7.csv").lines().count() > 8);
    let runs = "out/runs/dreibholz2010-fig7";
    let from = |runs: &str, measure: &str| figure("drawn", &["--from", runs, "--set", measure]);
    let drawn = from(runs, "measure=1s");
    let text = String::from_utf8_lossy(&drawn.stdout).into_owned();
    assert!(text.contains("4 of 4 runs found"), "{text}");
    assert_eq!(folder.read("drawn/verdict.json"), folder.read("out/verdict.json"));
    // Runs that are not what the figure is about are not judged.
    let other = from(runs, "measure=2s");
    let text = String::from_utf8_lossy(&other.stderr).into_owned();
    let why = "4 runs of another set-up: measure is 1 there and 2 in dreibholz2010-fig7";
    assert!(!other.status.success() && text.contains(why), "{text}");
    // Nor are forged ones, which stand where the others are and were made with something else.
    let journal = folder.read(&format!("{runs}/runs-0-of-2.jsonl"));
    std::fs::create_dir_all(folder.0.join("forged")).unwrap();
    for (name, honest, forged) in
        [("engine.congestion", "rfc9260", "cubic"), ("path.C.delay", "0.05", "0.005")]
    {
        let of = |value: &str| format!("[\"{name}\",\"{value}\"]");
        let text = journal.replace(&of(honest), &of(forged));
        assert_ne!(text, journal, "{name}");
        std::fs::write(folder.0.join("forged/runs.jsonl"), text).unwrap();
        let drawn = from("forged", "measure=1s");
        let text = String::from_utf8_lossy(&drawn.stderr).into_owned();
        let why = format!("{name} is {forged} there and {honest} in dreibholz2010-fig7");
        assert!(!drawn.status.success() && text.contains(&why), "{text}");
    }
    // Nor does a part of them meet anything.
    let part = from(&format!("{runs}/runs-0-of-2.jsonl"), "measure=1s");
    let text = String::from_utf8_lossy(&part.stdout).into_owned();
    assert_eq!(part.status.code(), Some(1), "{text}");
    assert!(text.contains("2 of 4 runs,") && text.contains("incomplete"), "{text}");
    assert!(!folder.read("drawn/verdict.json").contains("true"));
    let manifest = folder.read("out/runs/dreibholz2010-fig7/manifest.json");
    assert!(manifest.contains("\"program\": \"manypath ") && manifest.contains("\"commit\""));
}

#[test]
fn a_figure_leaves_pictures_points_and_a_verdict() {
    let folder = Folder::new("figure");
    let names = ok(&sim(&folder.0, &["list"]));
    assert_eq!(names.matches("dreibholz2010-fig").count(), 4, "{names}");
    let args = [
        "figure",
        "dreibholz2010-fig7",
        "--output",
        "out",
        "--seeds",
        "1",
        "--set",
        "measure=5s",
        "--set",
        "sweep={ \"engine.buffer\" = [\"256KiB\"] }",
    ];
    let output = sim(&folder.0, &args);
    // At 128 KiB nothing was simulated: those criteria cannot be met, and the command says so.
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("curve 4 at 256 KiB: throughput") && table.contains("NO"), "{table}");
    let verdict: serde_json::Value =
        serde_json::from_str(&folder.read("out/verdict.json")).unwrap();
    let criteria = verdict.as_array().unwrap();
    assert_eq!(criteria.len(), 10);
    for key in ["criterion", "published", "ours", "tolerance", "met"] {
        assert!(criteria.iter().all(|criterion| criterion.get(key).is_some()), "{key}");
    }
    assert!(folder.read("out/dreibholz2010-fig7.svg").contains("</svg>"));
    assert!(folder.read("out/dreibholz2010-fig7.pdf").starts_with("%PDF-1.4\n"));
    assert!(folder.read("out/dreibholz2010-fig7.csv").lines().count() > 8);
    let unknown = sim(&folder.0, &["figure", "fig8"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("there are: dreibholz2010-fig4"));
}
