//! Pictures of the time series of one run.

use super::plot::{Chart, Curve, Panel, Point};

/// Points of a curve: more would not be seen.
const MAX_POINTS: usize = 1000;

/// A panel for each quantity of a path: its column, its label, and what values are multiplied with.
const PANELS: [(&str, &str, f64); 4] = [
    ("cwnd", "Congestion window [KiB]", 1.0 / 1024.0),
    ("srtt_s", "Smoothed round-trip time [ms]", 1e3),
    ("sent_mbps", "Sent [Mbit/s]", 1.0),
    ("queue", "Queue of the bottleneck [packets]", 1.0),
];

/// Draws what the paths of a run did over time. `csv` is the series of the run.
pub fn series_chart(title: &str, csv: &str) -> Chart {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap_or_default();
    let rows: Vec<Vec<&str>> = lines.collect();
    let panel = |(column, label, scale): (&str, &str, f64)| {
        let suffix = format!("_{column}");
        let columns = head.iter().enumerate();
        let columns = columns.filter_map(|(at, name)| Some((at, name.strip_suffix(&suffix)?)));
        let curve = |(number, (at, name)): (usize, (usize, &str))| Curve {
            number,
            name: name.to_owned(),
            points: points(&rows, at, scale),
        };
        Panel {
            x_label: "Time [s]".to_owned(),
            y_label: label.to_owned(),
            curves: (1..).zip(columns).map(curve).collect(),
            lines: true,
            ..Panel::default()
        }
    };
    Chart { title: title.to_owned(), panels: PANELS.map(panel).into() }
}

/// The values of a column over time, those that are there; the mean of several rows if there are very many.
fn points(rows: &[Vec<&str>], column: usize, scale: f64) -> Vec<Point> {
    let number = |row: &[&str], at: usize| row.get(at).and_then(|cell| cell.parse::<f64>().ok());
    let value = |row: &Vec<&str>| Some((number(row, 0)?, number(row, column)? * scale));
    let values: Vec<(f64, f64)> = rows.iter().filter_map(value).collect();
    let each = values.len().div_ceil(MAX_POINTS).max(1);
    let mean = |part: &[(f64, f64)]| {
        let count = part.len() as f64;
        let x = part.iter().map(|(x, _)| x).sum::<f64>() / count;
        let y = part.iter().map(|(_, y)| y).sum::<f64>() / count;
        Point { x, y, error: 0.0, count: part.len() }
    };
    values.chunks(each).map(mean).collect()
}
