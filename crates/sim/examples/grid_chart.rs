//! Draws what `bench/grid` has measured: how manypath compares with each rival over all set-ups.
//!
//! ```text
//! cargo run --release -p manypath-sim --example grid_chart -- FOLDER
//! ```
//!
//! Reads `grid.csv` in FOLDER and writes `grid.svg` to it. `bench/grid --write` runs it.
#![allow(clippy::unwrap_used, reason = "a failing helper fails the run")]

use manypath_sim::figure::plot::{Chart, Curve, Panel, Point, to_svg};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const PANELS: [(&str, &str, &str); 4] = [
    ("bulk", "down", "Download"),
    ("bulk", "up", "Upload"),
    ("short", "down", "Download of 1 MB"),
    ("short", "up", "Upload of 1 MB"),
];
const RIVALS: [(&str, &str); 5] = [
    ("tcp", "TCP (CUBIC or BBR) on the best path"),
    ("mptcp", "MPTCP (CUBIC or BBR)"),
    ("agg", "aggligator (CUBIC or BBR)"),
    ("association", "the engine alone"),
    ("ceiling", "the sum of the paths' ceilings"),
];
/// Ratios above are drawn here: with losses some exceed all others many times over.
const HIGHEST: f64 = 2.5;

type Row = BTreeMap<String, String>;

fn main() {
    let folder = std::env::args().nth(1).expect("a folder with grid.csv");
    let text = fs::read_to_string(Path::new(&folder).join("grid.csv")).expect("grid.csv");
    let rows = parse(&text);
    let panels = PANELS.iter().filter_map(|panel| self::panel(panel, &rows)).collect();
    let chart = Chart { title: "Goodput of manypath over that of others".into(), panels };
    fs::write(Path::new(&folder).join("grid.svg"), to_svg(&chart)).unwrap();
}

fn parse(text: &str) -> Vec<Row> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let row = |line: &str| {
        let fields = line.split(',').map(str::to_owned);
        names.iter().map(|name| (*name).to_owned()).zip(fields).collect()
    };
    lines.map(row).collect()
}

fn panel((measure, direction, title): &(&str, &str, &str), rows: &[Row]) -> Option<Panel> {
    let fits = |row: &&Row| row["measure"] == *measure && row["direction"] == *direction;
    let rows: Vec<&Row> = rows.iter().filter(fits).collect();
    let curve = |(number, (rival, name)): (usize, (&str, &str))| {
        let points = points(rows.iter().filter_map(|row| ratio(row, rival)).collect());
        Curve { number, name: format!("over {name}"), points }
    };
    let curves = (1..).zip(RIVALS).map(curve);
    let curves: Vec<Curve> = curves.filter(|curve| !curve.points.is_empty()).collect();
    (!curves.is_empty()).then(|| Panel {
        title: (*title).to_owned(),
        x_label: "Set-ups in the order of their ratios, each curve on its own [%]".into(),
        y_label: format!("Ratio, at most {HIGHEST}"),
        curves,
        ..Panel::default()
    })
}

fn ratio(row: &Row, rival: &str) -> Option<f64> {
    let value = |name: &str| row.get(name)?.parse::<f64>().ok();
    Some(value("manypath")? / value(rival)?)
}

/// Ratios in ascending order, evenly spread over the axis.
fn points(mut ratios: Vec<f64>) -> Vec<Point> {
    ratios.sort_by(f64::total_cmp);
    let step = 100.0 / ratios.len() as f64;
    let point = |(nth, ratio): (usize, f64)| Point {
        x: (nth as f64 + 0.5) * step,
        y: ratio.min(HIGHEST),
        error: 0.0,
        count: 1,
    };
    ratios.into_iter().enumerate().map(point).collect()
}
