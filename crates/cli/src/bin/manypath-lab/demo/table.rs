//! The result of a demo in text.

use super::Skipped;
use super::measure::Run;
use crate::columns::pad;
use std::fmt::Write;

/// The table that the demo ends with.
pub(crate) fn table(runs: &[Run], skipped: &[Skipped], sum_mbps: f64) -> String {
    let mut out = String::new();
    let head = [
        "run",
        "time",
        "goodput",
        "x TCP on A",
        "share of A+B",
        "longest stall",
        "A/B carried",
        "SHA-256",
    ];
    let rows = std::iter::once(head.map(str::to_owned)).chain(runs.iter().map(row));
    for row in pad(&rows.map(Vec::from).collect::<Vec<_>>(), 1) {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(out, "{}", row.join("  "));
    }
    for Skipped { name, reason } in skipped {
        let _ = writeln!(out, "{name}: left out: {reason}");
    }
    let _ = writeln!(out, "A+B: {sum_mbps:.2} Mbit/s, the payload of both paths in full packets.");
    for run in runs {
        if let Some(after) = run.path_return_s {
            let _ = writeln!(
                out,
                "{}: path A carried data again {after:.2} s after it returned.",
                run.name
            );
        }
    }
    out
}

fn row(run: &Run) -> [String; 8] {
    let carried = run.path_bytes.values().map(|bytes| format!("{:.1}", *bytes as f64 / 1e6));
    [
        run.name.clone(),
        format!("{:.2} s", run.seconds),
        format!("{:.2} Mbit/s", run.goodput_mbps),
        run.ratio_to_best_path.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
        format!("{:.1} %", run.share_of_sum * 100.0),
        format!("{:.0} ms", run.longest_stall_s * 1e3),
        format!("{} MB", carried.collect::<Vec<_>>().join("/")),
        if run.sha256_equal { "equal" } else { "DIFFERENT" }.to_owned(),
    ]
}
