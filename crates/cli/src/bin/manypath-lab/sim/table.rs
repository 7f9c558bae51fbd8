//! Results for a terminal.

use crate::columns::pad;
use manypath_sim::campaign::{Record, Summary, summarise};

/// Figures that are shown; results.csv has all.
const SHOWN: [&str; 4] = ["throughput_mbps", "delay_ms", "delay_p99_ms", "longest_gap_s"];

/// Means of each point with 95 % confidence intervals.
pub(super) fn summary(records: &[Record], swept: &[String], json: bool) -> String {
    let points = points(records, swept);
    if json {
        let rows = points.iter().map(|(point, runs)| {
            let figures = SHOWN.iter().filter_map(|name| {
                let s = mean(runs, name)?;
                Some((*name, serde_json::json!({"mean": s.mean, "ci95": s.half_width})))
            });
            let figures: std::collections::BTreeMap<_, _> = figures.collect();
            serde_json::json!({"point": point, "runs": runs.len(), "figures": figures})
        });
        return format!("{:#}\n", serde_json::Value::from_iter(rows));
    }
    let head = ["setup", "case"].into_iter().chain(swept.iter().map(String::as_str)).chain(SHOWN);
    let mut rows = vec![head.map(str::to_owned).collect()];
    for (point, runs) in &points {
        let cell = |name| {
            mean(runs, name)
                .map_or_else(|| "-".to_owned(), |s| format!("{:.3} ±{:.3}", s.mean, s.half_width))
        };
        rows.push(point.iter().cloned().chain(SHOWN.map(cell)).collect());
    }
    align(rows)
}

/// Columns next to each other.
pub(super) fn align(rows: Vec<Vec<String>>) -> String {
    pad(&rows, usize::MAX).iter().map(|row| format!("{}\n", row.join("  ").trim_end())).collect()
}

pub(super) fn mean(runs: &[&Record], figure: &str) -> Option<Summary> {
    summarise(runs.iter().map(|run| run.figure(figure)))
}

/// Case and swept values of each point, and its runs.
pub(super) fn points<'a>(
    records: &'a [Record],
    swept: &[String],
) -> Vec<(Vec<String>, Vec<&'a Record>)> {
    let mut points: Vec<(Vec<String>, Vec<&Record>)> = Vec::new();
    for record in records {
        let point: Vec<_> = [record.setup.clone(), record.case.clone()]
            .into_iter()
            .chain(swept.iter().map(|key| record.parameter(key).unwrap_or("").to_owned()))
            .collect();
        match points.last_mut() {
            Some((last, runs)) if *last == point => runs.push(record),
            _ => points.push((point, vec![record])),
        }
    }
    points
}
