//! The results as a picture: groups of bars.

use crate::case::Transport;
use crate::result::{Results, Row};
use manypath_sim::figure::plot::{Chart, Curve, Panel, Point};

/// A panel: its title, the label of its axis, and what of a row it shows.
type View = (&'static str, &'static str, fn(&Row) -> Option<f64>);

const VIEWS: [View; 4] = [
    ("Goodput", "Gbit/s", |row| {
        row.goodput_mbps.filter(|_| row.figure == "goodput_mbps").map(|mbps| mbps / 1e3)
    }),
    ("Processor time of both ends", "s per GiB", |row| {
        row.cpu_s_per_gib.filter(|_| row.figure == "goodput_mbps")
    }),
    ("Time to an answer, 50th percentile; beside load, 99th", "ms", |row| {
        row.value().filter(|_| row.workload.starts_with("latency"))
    }),
    ("Connects", "per second", |row| row.connects_per_s),
];

/// A chart of everything that was measured: one panel for each kind of figure.
pub fn chart(title: &str, results: &Results) -> Chart {
    let panels = VIEWS.iter().filter_map(|view| panel(view, results)).collect();
    Chart { title: title.to_owned(), panels }
}

fn panel((title, label, value): &View, results: &Results) -> Option<Panel> {
    let shown: Vec<&Row> = results.results.iter().filter(|row| value(row).is_some()).collect();
    let mut groups: Vec<String> = Vec::new();
    for row in &shown {
        if !groups.contains(&row.case) {
            groups.push(row.case.clone());
        }
    }
    let curve = |(number, transport): (usize, Transport)| {
        let points = groups.iter().enumerate().filter_map(|(group, case)| {
            let row = shown.iter().find(|row| row.case == *case && row.transport == transport)?;
            Some(Point { x: group as f64, y: value(row)?, error: 0.0, count: row.runs.len() })
        });
        Curve { number: number + 1, name: transport.name().to_owned(), points: points.collect() }
    };
    let curves = Transport::ALL.into_iter().enumerate().map(curve);
    let curves: Vec<_> = curves.filter(|curve| !curve.points.is_empty()).collect();
    (!groups.is_empty()).then(|| Panel {
        title: (*title).to_owned(),
        x_label: String::new(),
        y_label: (*label).to_owned(),
        curves,
        groups,
        ..Panel::default()
    })
}
