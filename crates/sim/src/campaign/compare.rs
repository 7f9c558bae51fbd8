//! Two results side by side.

use super::record::Record;
use super::statistics::{Summary, summarise};
use std::collections::BTreeMap;

/// One figure at one point of both results.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// Case and the parameters that vary, for people.
    pub point: String,
    /// Name of the figure.
    pub figure: String,
    /// In the first result.
    pub a: Summary,
    /// In the second.
    pub b: Summary,
}

impl Comparison {
    /// Change from the first to the second, as a part of the first.
    pub fn change(&self) -> f64 {
        self.b.mean / self.a.mean - 1.0
    }

    /// Whether the 95 % confidence intervals do not even touch.
    pub fn is_different(&self) -> bool {
        (self.a.mean - self.b.mean).abs() > self.a.half_width + self.b.half_width
    }
}

/// Compares the named figures at every point that both results have.
pub fn compare(a: &[Record], b: &[Record], figures: &[String]) -> Vec<Comparison> {
    let varying = varying_parameters(a, b);
    let theirs: BTreeMap<String, Vec<&Record>> = points(b, &varying).into_iter().collect();
    let mut out = Vec::new();
    for (point, ours) in points(a, &varying) {
        let Some(theirs) = theirs.get(&point) else { continue };
        for figure in figures {
            let summary = |runs: &[&Record]| summarise(runs.iter().map(|run| run.figure(figure)));
            if let (Some(a), Some(b)) = (summary(&ours), summary(theirs)) {
                out.push(Comparison { point: point.clone(), figure: figure.clone(), a, b });
            }
        }
    }
    out
}

/// Runs by their point, in the order of the plan.
fn points<'a>(records: &'a [Record], varying: &[String]) -> Vec<(String, Vec<&'a Record>)> {
    let mut points: Vec<(String, Vec<&Record>)> = Vec::new();
    for record in records {
        let name = describe(record, varying);
        match points.iter_mut().find(|(other, _)| *other == name) {
            Some((_, runs)) => runs.push(record),
            None => points.push((name, vec![record])),
        }
    }
    points
}

fn describe(record: &Record, varying: &[String]) -> String {
    let values = varying
        .iter()
        .filter_map(|name| record.parameter(name).map(|value| format!("{name}={value}")));
    let names = [&record.setup, &record.case].into_iter().filter(|name| !name.is_empty());
    names.cloned().chain(values).collect::<Vec<_>>().join(" ")
}

/// Parameters that vary inside each of the results. One that only differs between them is what is
/// being compared; of several that always have the same value the first stands for all.
fn varying_parameters(a: &[Record], b: &[Record]) -> Vec<String> {
    let varies = |records: &[Record], name: &str| {
        let first = records.first().and_then(|record| record.parameter(name));
        records.iter().any(|record| record.parameter(name) != first)
    };
    let mut seen: Vec<Vec<Option<&str>>> = Vec::new();
    let mut names = Vec::new();
    for (name, _) in a.first().map_or(&[][..], |record| &record.parameters) {
        let values = a.iter().map(|record| record.parameter(name)).collect();
        if varies(a, name) && varies(b, name) && !seen.contains(&values) {
            names.push(name.clone());
            seen.push(values);
        }
    }
    names
}
