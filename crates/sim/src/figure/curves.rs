//! From runs to curves.

use super::plot::{Chart, Curve, Point};
use crate::campaign::{Record, Summary, summarise};
use std::fmt::Write;

/// The runs of a figure.
#[derive(Clone, Copy, Debug)]
pub struct Runs<'a> {
    records: &'a [Record],
}

/// Which runs make a curve: those of a case, and with these values of parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) case: &'static str,
    pub(super) with: &'static [(&'static str, &'static str)],
}

/// Parameter on the x axis of all figures of the paper: the size of both buffers.
const BUFFER: &str = "engine.buffer";
const KIB: f64 = 1024.0;

impl<'a> Runs<'a> {
    /// All runs of the figure's scenario.
    pub fn new(records: &'a [Record]) -> Self {
        Self { records }
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a Record> + use<'a> {
        self.records.iter()
    }

    /// Mean of `figure` over the buffer size in KiB.
    pub(super) fn curve(&self, number: usize, name: &str, choice: Choice, figure: &str) -> Curve {
        let point = |x| self.at(choice, figure, x).map(|summary| point(x, summary));
        let points = self.buffers(choice).into_iter().filter_map(point).collect();
        Curve { number, name: name.to_owned(), points }
    }

    /// Mean of `figure` at a buffer size in KiB, if that was simulated.
    pub(super) fn at(&self, choice: Choice, figure: &str, kib: f64) -> Option<Summary> {
        self.at_by(choice, |record| record.figure(figure), kib)
    }

    /// The same for something that is made of a run's figures.
    pub(super) fn at_by(
        &self,
        choice: Choice,
        value: impl Fn(&Record) -> f64,
        kib: f64,
    ) -> Option<Summary> {
        let there = self.chosen(choice).filter(|record| buffer(record) == Some(kib));
        summarise(there.map(value))
    }

    /// The mean alone; NaN if that was not simulated, so that no comparison holds.
    pub(super) fn mean(&self, choice: Choice, figure: &str, kib: f64) -> f64 {
        self.at(choice, figure, kib).map_or(f64::NAN, |summary| summary.mean)
    }

    /// Buffer sizes in KiB that were simulated.
    pub(super) fn buffers(&self, choice: Choice) -> Vec<f64> {
        let mut sizes: Vec<f64> = self.chosen(choice).filter_map(buffer).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        sizes
    }

    /// The smallest simulated size from which on `figure` stays at or above `level`.
    pub(super) fn knee(&self, choice: Choice, figure: &str, level: f64) -> Option<f64> {
        let above = |kib: &f64| self.mean(choice, figure, *kib) >= level;
        let sizes = self.buffers(choice);
        let start = sizes.iter().rposition(|kib| !above(kib)).map_or(0, |last| last + 1);
        sizes.get(start).copied()
    }

    fn chosen(&self, choice: Choice) -> impl Iterator<Item = &'a Record> {
        self.records.iter().filter(move |record| {
            let fits = |(name, value): &(&str, &str)| record.parameter(name) == Some(*value);
            record.case == choice.case && choice.with.iter().all(fits)
        })
    }
}

/// The points of a chart as CSV.
pub fn to_csv(chart: &Chart) -> String {
    let mut out = String::from("panel,curve,name,x,mean,ci95,runs\n");
    for panel in &chart.panels {
        for curve in &panel.curves {
            for p in &curve.points {
                let x = match panel.groups.get(p.x as usize) {
                    Some(group) => format!("\"{group}\""),
                    None => p.x.to_string(),
                };
                // Memory takes everything.
                let _ = writeln!(
                    out,
                    "\"{}\",{},\"{}\",{x},{:.6},{:.6},{}",
                    panel.title, curve.number, curve.name, p.y, p.error, p.count
                );
            }
        }
    }
    out
}

/// The mean; NaN if there is none, so that no comparison holds.
pub(super) fn mean(summary: Option<Summary>) -> f64 {
    summary.map_or(f64::NAN, |summary| summary.mean)
}

/// The larger of two; not a number, which is no agreement, wins.
pub(super) fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

fn buffer(record: &Record) -> Option<f64> {
    record.parameter(BUFFER)?.parse::<f64>().ok().map(|bytes| bytes / KIB)
}

pub(super) fn point(x: f64, summary: Summary) -> Point {
    Point { x, y: summary.mean, error: summary.half_width, count: summary.count }
}
