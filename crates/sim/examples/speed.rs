//! How fast the simulator is, and how that grows with paths and streams. `bench/sim` calls it.
//!
//! ```text
//! cargo run --release -p manypath-sim --example speed [--json] [--seconds N] [--only sizes|figures]
//! ```
//!
//! Each size is simulated by a process of its own, so that its peak memory can be told; one after the
//! other, on one processor. Times are processor times, so that what else the machine does counts
//! little. The figures are simulated for a short time each and the time is scaled up.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the run")]

use manypath_sim::figure::figures;
use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{RunOptions, run};
use serde::{Deserialize, Serialize};
use std::process::Command;

const PATHS: [u16; 5] = [1, 2, 3, 4, 8];
const STREAMS: [u16; 5] = [1, 8, 64, 512, 4096];
/// Which streams may use which paths.
const MAPPINGS: [&str; 3] = ["any", "modulo", "dynamic"];
/// Every size has the same send and receive buffer: 4096 streams hold two messages each.
const BUFFER: &str = "12MiB";

/// What the figures are to be simulated for.
const SEEDS: f64 = 24.0;
const SIMULATED_S: f64 = 319.0;

/// What a run, or several, has taken.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Cost {
    packets: u64,
    simulated_s: f64,
    processor_s: f64,
    peak_kib: u64,
    /// Sum of the trace hashes: the same as long as the same packets are sent.
    trace: u64,
}

#[derive(Serialize)]
struct Size {
    paths: u16,
    streams: u16,
    mapping: &'static str,
    #[serde(flatten)]
    cost: Cost,
    packets_per_s: f64,
}

#[derive(Serialize)]
struct Figure {
    name: &'static str,
    points: usize,
    #[serde(flatten)]
    cost: Cost,
    /// Processor time of all seeds, scaled up.
    whole_processor_s: f64,
}

#[derive(Default, Serialize)]
struct Report {
    sizes: Vec<Size>,
    figures: Vec<Figure>,
    /// Wall time of all figures on two processors, scaled up.
    whole_minutes_on_two: f64,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).cloned()
    };
    let seconds = value("--seconds").map_or(10, |text| text.parse().unwrap());
    if let Some(at) = args.iter().position(|arg| arg == "--one") {
        let number = |i: usize| args[at + i].parse().unwrap();
        let text = scenario(number(1), number(2), &args[at + 3]);
        let cost = measure(&Plan::parse(&text, "speed", &for_seconds(seconds)).unwrap());
        println!("{}", serde_json::to_string(&cost).unwrap());
    } else if let Some(name) = value("--figure") {
        let figure = figures().iter().find(|figure| figure.name == name).unwrap();
        let plan = Plan::parse(figure.scenario, figure.file, &for_seconds(seconds)).unwrap();
        let cost = measure(&plan);
        println!("{}", serde_json::to_string(&cost).unwrap());
    } else {
        report(seconds, value("--only").as_deref(), args.iter().any(|arg| arg == "--json"));
    }
}

fn report(seconds: u64, only: Option<&str>, json: bool) {
    let mut report = Report::default();
    if only != Some("figures") {
        sizes(seconds, &mut report, json);
    }
    if only != Some("sizes") {
        whole_figures(seconds, &mut report, json);
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&report).unwrap());
    }
}

fn sizes(seconds: u64, report: &mut Report, json: bool) {
    if !json {
        println!(
            "paths streams {:>9} {:>9} {:>9}  packets/s",
            MAPPINGS[0], MAPPINGS[1], MAPPINGS[2]
        );
    }
    for (paths, streams) in PATHS.iter().flat_map(|p| STREAMS.map(|s| (*p, s))) {
        let row = MAPPINGS.map(|mapping| {
            let size = [paths.to_string(), streams.to_string(), mapping.to_owned()];
            let cost = apart(&[&["--one".to_owned()], &size[..]].concat(), seconds);
            let packets_per_s = cost.packets as f64 / cost.processor_s;
            report.sizes.push(Size { paths, streams, mapping, cost, packets_per_s });
            (packets_per_s, cost.peak_kib)
        });
        if !json {
            let rates = row.map(|(rate, _)| format!("{rate:>9.0}")).join(" ");
            let peak = row.iter().map(|(_, peak)| peak / 1024).max().unwrap_or(0);
            println!("{paths:>5} {streams:>7} {rates}  at most {peak} MiB");
        }
    }
}

fn whole_figures(seconds: u64, report: &mut Report, json: bool) {
    if !json {
        println!("\nfigure            points packets/s whole, on one processor");
    }
    let mut scenarios = Vec::new();
    for figure in figures().iter().filter(|figure| figure.name.starts_with("dreibholz2010")) {
        if scenarios.contains(&figure.file) {
            continue; // drawn from the same runs
        }
        scenarios.push(figure.file);
        let points = Plan::parse(figure.scenario, figure.file, &for_seconds(1)).unwrap().runs.len();
        let cost = apart(&["--figure".to_owned(), figure.name.to_owned()], seconds);
        let whole_processor_s =
            cost.processor_s / cost.simulated_s * SIMULATED_S * SEEDS * points as f64;
        let rate = cost.packets as f64 / cost.processor_s;
        let minutes = whole_processor_s / 60.0;
        if !json {
            println!("{:<18} {points:>5} {rate:>9.0} {minutes:>6.1} min", figure.name);
        }
        report.whole_minutes_on_two += minutes / 2.0;
        report.figures.push(Figure { name: figure.name, points, cost, whole_processor_s });
    }
    if !json {
        let minutes = report.whole_minutes_on_two;
        println!("all, {SEEDS} seeds of {SIMULATED_S} s on two processors: {minutes:.1} min");
    }
}

/// Runs this program for one size or figure.
fn apart(args: &[String], seconds: u64) -> Cost {
    let program = std::env::current_exe().unwrap();
    let seconds = seconds.to_string();
    let out = Command::new(program).args(args).args(["--seconds", &seconds]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

fn measure(plan: &Plan) -> Cost {
    let mut cost = Cost::default();
    let before = processor_s();
    for each in &plan.runs {
        let outcome = run(&each.scenario, each.seed, RunOptions::default());
        assert_eq!(outcome.failure, None);
        cost.packets += outcome.packets;
        cost.simulated_s += outcome.simulated_s;
        cost.trace = cost.trace.wrapping_add(outcome.trace_hash);
    }
    cost.processor_s = processor_s() - before;
    cost.peak_kib = peak_kib();
    cost
}

fn for_seconds(seconds: u64) -> Vec<(String, String)> {
    let set = |key: &str, value: String| (key.to_owned(), value);
    vec![
        set("seeds", "1".into()),
        set("warmup", "\"1s\"".into()),
        set("measure", format!("\"{seconds}s\"")),
    ]
}

/// `paths` equal paths of 100 Mbit/s, and a sender that always has something on each stream.
fn scenario(paths: u16, streams: u16, mapping: &str) -> String {
    let mut text = format!(
        "name = \"speed\"\nudp = false\n[engine]\nprofile = \"production\"\nbuffer = \"{BUFFER}\"\n\
         stream_mapping = \"{mapping}\"\nstream_scheduling = \"round-robin\"\n\
         [[app]]\nkind = \"saturated\"\nmessage = 1452\nqueue_info = true\nstreams = {streams}\n"
    );
    for number in 0..paths {
        text += &format!(
            "[[path]]\nname = \"P{number}\"\nrate = \"100mbit\"\ndelay = \"10ms\"\nqueue = 200\n"
        );
    }
    text
}

/// Processor time of this thread so far.
fn processor_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// Largest memory that this process has had.
fn peak_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
