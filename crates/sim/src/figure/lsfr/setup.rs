//! Which runs are compared, and what of them.

use crate::campaign::{Record, Summary, summarise};
use crate::figure::curves::Runs;
use crate::figure::plot::{Curve, Panel, Point};

pub(super) const LSFR: &str = "LSFR";
pub(super) const NO_LSFR: &str = "no LSFR";
pub(super) const NO_LS: &str = "no load sharing";

/// User data of a full packet, in bytes.
const MESSAGE: f64 = 1452.0;

/// Everything that the tables vary, besides the case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    /// Number of paths; all have the same rate.
    pub(super) paths: usize,
    /// Missing reports that make a chunk lost.
    pub(super) reports: &'static str,
    /// Packet loss rate.
    pub(super) plr: &'static str,
    /// Size of the file in bytes.
    pub(super) bytes: &'static str,
    /// Whether others use half of each path.
    pub(super) background: bool,
}

/// A row of a published table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) plr: &'static str,
    pub(super) bytes: &'static str,
}

pub(super) const MB_1: &str = "1000000";
pub(super) const MB_5: &str = "5000000";

/// The rows of Tables 1 and 2, in their order.
pub(super) const ROWS: [Row; 4] = [
    Row { plr: "0", bytes: MB_1 },
    Row { plr: "0", bytes: MB_5 },
    Row { plr: "0.001", bytes: MB_1 },
    Row { plr: "0.001", bytes: MB_5 },
];

/// Number of paths and of missing reports, in the order of the curves.
pub(super) const KINDS: [(usize, &str); 4] = [(2, "4"), (2, "3"), (3, "4"), (3, "3")];

impl Row {
    /// "PLR 0.001, 5 MB".
    pub(super) fn name(self) -> String {
        format!("PLR {}, {}", self.plr, megabytes(self.bytes))
    }

    pub(super) fn setup(self, (paths, reports): (usize, &'static str), background: bool) -> Setup {
        Setup { paths, reports, plr: self.plr, bytes: self.bytes, background }
    }
}

impl Setup {
    /// "2 paths, 4 reports".
    pub(super) fn name(self) -> String {
        format!("{} paths, {} reports", self.paths, self.reports)
    }

    /// The rate of all paths in that of the primary one.
    pub(super) fn rates(self) -> f64 {
        self.paths as f64
    }

    fn fits(self, record: &Record) -> bool {
        let has = |name: &str| record.parameter(name).is_some();
        record.parameter("engine.missing_reports") == Some(self.reports)
            && record.parameter("path.A.loss") == Some(self.plr)
            && record.parameter("app.file.bytes") == Some(self.bytes)
            && has("background.0.rate") == self.background
            && has("path.C.rate") == (self.paths == 3)
    }

    /// `figure` of the runs of a case.
    pub(super) fn of(
        self,
        runs: &Runs<'_>,
        case: &str,
        figure: fn(&Record) -> f64,
    ) -> Option<Summary> {
        summarise(self.chosen(runs, case).map(figure))
    }

    /// Time of case `a` in that of case `b`, run by run of the same seed.
    pub(super) fn time_ratio(self, runs: &Runs<'_>, a: &str, b: &str) -> Option<Summary> {
        let time = |record: &Record| record.figure("duration_s");
        let pairs = self.chosen(runs, a).filter_map(|one| {
            let other = self.chosen(runs, b).find(|other| other.seed == one.seed)?;
            Some(time(one) / time(other))
        });
        summarise(pairs)
    }

    fn chosen<'a>(self, runs: &Runs<'a>, case: &str) -> impl Iterator<Item = &'a Record> {
        runs.all().filter(move |record| record.case == case && self.fits(record))
    }
}

/// Data retransmitted in data of the file.
pub(super) fn retransmitted(record: &Record) -> f64 {
    of_paths(record, &["bytes_retransmitted"]) / bytes(record)
}

/// The same without what queues and links have dropped. Without background traffic only.
pub(super) fn needless(record: &Record) -> f64 {
    let lost = MESSAGE * of_paths(record, &["dropped_queue", "dropped_loss"]);
    (of_paths(record, &["bytes_retransmitted"]) - lost).max(0.0) / bytes(record)
}

fn of_paths(record: &Record, figures: &[&str]) -> f64 {
    let names = ["A", "B", "C"].iter().flat_map(|path| figures.iter().map(move |f| (path, f)));
    let values = names.map(|(path, figure)| record.figure(&format!("{path}_{figure}")));
    values.filter(|value| value.is_finite()).sum()
}

fn bytes(record: &Record) -> f64 {
    record.parameter("app.file.bytes").and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

/// "5 MB".
pub(super) fn megabytes(bytes: &str) -> &'static str {
    if bytes == MB_1 { "1 MB" } else { "5 MB" }
}

/// The mean, NaN if there is none, so that no comparison holds.
pub(super) fn mean(summary: Option<Summary>) -> f64 {
    summary.map_or(f64::NAN, |summary| summary.mean)
}

/// A panel of bars.
pub(super) fn panel(title: &str, y_label: &str, groups: Vec<String>, curves: Vec<Curve>) -> Panel {
    let (title, y_label) = (title.to_owned(), y_label.to_owned());
    Panel { title, y_label, curves, groups, ..Panel::default() }
}

/// What the panels show. Those of the same unit have the same axis.
pub(super) const RATIO: &str = "Ratio of times";
pub(super) const PART: &str = "Retransmitted, part of the file";

/// Bars of the groups in their order.
pub(super) fn bars(
    number: usize,
    name: &str,
    values: impl Iterator<Item = Option<Summary>>,
) -> Curve {
    let point = |(group, summary): (usize, Option<Summary>)| {
        let Summary { count, mean: y, half_width: error, .. } = summary?;
        Some(Point { x: group as f64, y, error, count })
    };
    let points = values.enumerate().filter_map(point).collect();
    Curve { number, name: name.to_owned(), points }
}

/// Bars of published values.
pub(super) fn published(number: usize, values: &[f64]) -> Curve {
    let one = |mean: &f64| Some(Summary { count: 1, mean: *mean, deviation: 0.0, half_width: 0.0 });
    bars(number, "published, topology unknown", values.iter().map(one))
}
