//! Runs of all schedulers in one network, side by side.

use crate::campaign::{Record, Summary, summarise};
use crate::figure::curves::Runs;
use crate::figure::plot;

pub(super) const DYNAMIC: &str = "dynamic";
pub(super) const FIXED: &str = "fixed";
pub(super) const ROUND_ROBIN: &str = "round robin";

/// What the dynamic scheduler is compared with, besides the best single path.
pub(super) const OTHERS: [&str; 5] = [FIXED, ROUND_ROBIN, "minimum RTT", "ECF", "BLEST"];

/// The path alone that carries most.
pub(super) const SINGLE: &str = "single path";

/// All of them.
pub(super) const BASELINES: [&str; 6] =
    [OTHERS[0], OTHERS[1], OTHERS[2], OTHERS[3], OTHERS[4], SINGLE];

/// One network, one buffer size: the runs of all schedulers.
#[derive(Debug)]
pub(super) struct Point<'a> {
    pub(super) setup: &'a str,
    pub(super) kib: f64,
    runs: Vec<&'a Record>,
}

/// The points in the order of the scenario.
pub(super) fn points<'a>(runs: &Runs<'a>) -> Vec<Point<'a>> {
    let mut points: Vec<Point<'_>> = Vec::new();
    for run in runs.all() {
        let kib = run.parameter("engine.buffer").and_then(|bytes| bytes.parse::<f64>().ok());
        let (setup, kib) = (run.setup.as_str(), kib.map_or(0.0, |bytes| bytes / 1024.0));
        match points.iter_mut().find(|point| point.setup == setup && point.kib == kib) {
            Some(point) => point.runs.push(run),
            None => points.push(Point { setup, kib, runs: vec![run] }),
        }
    }
    points
}

impl<'a> Point<'a> {
    /// Mean over the seeds; NaN if there is none, so that no comparison holds.
    pub(super) fn mean(&self, case: &str, figure: &str) -> f64 {
        self.over_seeds(case, figure).map_or(f64::NAN, |summary| summary.mean)
    }

    fn over_seeds(&self, case: &str, figure: &str) -> Option<Summary> {
        summarise(self.values(case, figure))
    }

    /// The figure of every run, NaN where it has none.
    pub(super) fn values(&self, case: &str, figure: &str) -> Vec<f64> {
        let runs = self.runs.iter().filter(|run| run.case == case);
        runs.map(|run| run.figure(figure)).collect()
    }

    /// Mean over the seeds and its interval; of the single paths the best: the most of a throughput, the least of a
    /// delay.
    pub(super) fn summary(&self, case: &str, figure: &str) -> Option<Summary> {
        if case != SINGLE {
            return self.over_seeds(case, figure);
        }
        let all = self.single_paths().into_iter().filter_map(|case| self.over_seeds(case, figure));
        let by_mean = |a: &Summary, b: &Summary| a.mean.total_cmp(&b.mean);
        if figure.ends_with("mbps") { all.max_by(by_mean) } else { all.min_by(by_mean) }
    }

    /// The mean of [`Self::summary`]; NaN if there is none.
    pub(super) fn value(&self, case: &str, figure: &str) -> f64 {
        self.summary(case, figure).map_or(f64::NAN, |summary| summary.mean)
    }

    /// The dynamic scheduler's value as a part of another one's.
    pub(super) fn ratio(&self, case: &str, figure: &str) -> f64 {
        self.mean(DYNAMIC, figure) / self.value(case, figure)
    }

    /// A case's mean relative to another's, with the confidence interval of a ratio of two independent means.
    pub(super) fn part(&self, case: &str, other: &str, figure: &str) -> Option<plot::Point> {
        quotient(&self.summary(case, figure)?, &self.summary(other, figure)?)
    }

    /// The cases of paths alone.
    fn single_paths(&self) -> Vec<&'a str> {
        let mut cases: Vec<&str> = self.runs.iter().map(|run| run.case.as_str()).collect();
        cases.retain(|case| case.starts_with(SINGLE));
        cases.dedup();
        cases
    }

    /// Any run, for its parameters.
    pub(super) fn example(&self) -> Option<&'a Record> {
        self.runs.iter().find(|run| run.case == DYNAMIC).copied()
    }
}

/// A mean relative to another one. None if that is 0.
fn quotient(part: &Summary, whole: &Summary) -> Option<plot::Point> {
    let y = part.mean / whole.mean;
    let error = (part.half_width / whole.mean).hypot(y * whole.half_width / whole.mean);
    let count = part.count.min(whole.count);
    y.is_finite().then_some(plot::Point { x: 0.0, y, error, count })
}

/// All cases of a point but the dynamic scheduler's.
pub(super) fn rivals<'a>(point: &Point<'a>) -> Vec<&'a str> {
    let mut cases: Vec<&str> = point.runs.iter().map(|run| run.case.as_str()).collect();
    cases.retain(|case| *case != DYNAMIC);
    cases.dedup();
    cases
}

/// The middle of values; NaN if there are none.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let values = sorted(values);
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[odd / 2],
        even => f64::midpoint(values[even / 2 - 1], values[even / 2]),
    }
}

/// Those that are numbers, in their order.
pub(super) fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::quotient;
    use crate::campaign::summarise;

    #[test]
    fn a_quotient_has_an_interval_where_its_mean_is_0_too() {
        let [nothing, around_nothing, some] =
            [[0.0, 0.0], [-1.0, 1.0], [3.0, 5.0]].map(|values| summarise(values).unwrap());
        let point = quotient(&nothing, &some).unwrap();
        assert_eq!((point.y, point.error, point.count), (0.0, 0.0, 2));
        let point = quotient(&around_nothing, &some).unwrap();
        assert!((point.error - around_nothing.half_width / 4.0).abs() < 1e-9, "{}", point.error);
        let point = quotient(&some, &some).unwrap();
        let relative = some.half_width / 4.0;
        assert!((point.error - relative * 2f64.sqrt()).abs() < 1e-9, "{}", point.error);
        assert!(quotient(&some, &nothing).is_none() && quotient(&nothing, &nothing).is_none());
    }
}
