//! The results in text.

use super::Report;
use super::args::BenchArgs;
use crate::columns::pad;
use manypath_bench::{Pinned, Row, Run, Skipped};
use std::fmt::Write;

const HEAD: [&str; 8] =
    ["case", "transport", "result", "x tcp", "CPU s/GiB", "x tcp", "Gbit/busy CPU s", "runs"];

/// The table as Markdown, with what is needed to read it.
pub(super) fn text(report: &Report, args: &BenchArgs) -> String {
    let rows = report.results.results.iter().map(cells);
    let rows = std::iter::once(HEAD.map(str::to_owned)).chain(rows).map(Vec::from);
    let mut rows = pad(&rows.collect::<Vec<_>>(), 2);
    rows.insert(1, rows[0].iter().map(|cell| "-".repeat(cell.len())).collect());
    let mut out: String = rows.iter().map(|row| format!("| {} |\n", row.join(" | "))).collect();
    out.push('\n');
    for skipped in &report.results.skipped {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(out, "* {}", skipped_line(skipped));
    }
    for (place, pinned) in report.places.iter().zip(&report.pinned) {
        let _ = writeln!(out, "* {place}; {}", congestion(*pinned, &args.congestion));
    }
    out += "* Medians; CPU: user and system time of all processes of both ends.";
    out
}

fn congestion(pinned: Pinned, name: &str) -> String {
    match pinned {
        Pinned::Hosts => format!("congestion control of the kernel: {name}"),
        Pinned::Programs => {
            let default = Pinned::default_of_system();
            format!(
                "congestion control of the kernel: {name}, on sockets of manypath's stacks {default}"
            )
        }
    }
}

fn cells(row: &Row) -> [String; 8] {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.2}"));
    let cost = match row.cpu_ms_per_connect {
        Some(cost) => format!("{cost:.3} ms each"),
        None => number(row.cpu_s_per_gib.filter(|_| row.workload != "latency")),
    };
    let cpu_ratio = row.cpu_ratio.filter(|_| row.workload != "latency");
    [
        row.case.clone(),
        row.transport.name().to_owned(),
        result(row),
        number(row.ratio),
        cost,
        number(cpu_ratio),
        number(row.gbit_per_busy_cpu_s.filter(|_| row.figure == "goodput_mbps")),
        row.runs.len().to_string(),
    ]
}

/// The figure that the case is about.
fn result(row: &Row) -> String {
    let ms = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.3}"));
    let times = || format!("p50 {} p99 {} ms", ms(row.p50_ms), ms(row.p99_ms));
    match row.figure {
        "goodput_mbps" => row.goodput_mbps.map_or("-".to_owned(), rate),
        "p50_ms" => times(),
        "p99_ms" => {
            format!("{} beside {}", times(), row.goodput_mbps.map_or("-".to_owned(), rate))
        }
        _ => format!("{:.0}/s, {}", row.connects_per_s.unwrap_or(0.0), times()),
    }
}

/// A rate in Mbit/s, as people read it.
pub(super) fn rate(mbps: f64) -> String {
    if mbps >= 1000.0 { format!("{:.2} Gbit/s", mbps / 1e3) } else { format!("{mbps:.2} Mbit/s") }
}

/// One run in short.
pub(super) fn run(run: &Run) -> String {
    let cpu = run.client.cpu_s() + run.server.cpu_s();
    let mut text = Vec::new();
    if run.bytes > 0 && run.intervals.iter().any(|interval| interval.bytes > 0) {
        text.push(rate(run.bytes as f64 * 8e-6 / run.seconds.max(1e-9)));
    }
    if let Some(times) = run.times {
        let ms = |nanos: u64| nanos as f64 / 1e6;
        text.push(format!(
            "{} times, p50 {:.3} p99 {:.3} ms",
            times.count,
            ms(times.p50),
            ms(times.p99)
        ));
    }
    text.push(format!("CPU {cpu:.2} s"));
    text.join(", ")
}

/// Why something is missing.
pub(super) fn skipped_line(skipped: &Skipped) -> String {
    let what = if skipped.failed { "failed" } else { "left out" };
    let transport = skipped.transport.map_or("", |transport| transport.name());
    format!("{} {transport} {what}: {}", skipped.case, skipped.reason).replace("  ", " ")
}
