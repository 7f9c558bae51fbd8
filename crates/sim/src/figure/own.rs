//! Figures that a scenario file describes.

use super::plot::{Chart, Curve, Mark, Panel, Point};
use crate::campaign::{Record, point, summarise};
use crate::scenario::{CurveSpec, FigureSpec, Plan, PublishedSpec, Run, nearest};
use crate::simulation::{PERCENTILES, figure_names};
use std::collections::BTreeMap;

/// Whether the runs of `plan` are going to have what its figures show.
///
/// # Errors
/// No run will have a figure that is named; the text lists those that there are.
pub fn check(plan: &Plan) -> Result<(), String> {
    let mut missing: Vec<Column<'_>> = plan.figures.iter().flat_map(Column::of).collect();
    let mut known: Vec<String> = Vec::new();
    // Seeds change no names.
    for run in plan.runs.iter().step_by(plan.seeds.len().max(1)) {
        if missing.is_empty() {
            return Ok(());
        }
        let names = figure_names(&run.scenario);
        missing.retain(|column| !names.contains(&column.name));
        known.extend(names.into_iter().filter(|name| !known.contains(name)).collect::<Vec<_>>());
    }
    missing.first().map_or(Ok(()), |column| Err(column.complain(&known)))
}

/// The end of the names of columns that every distribution of delays has.
const MEDIAN: &str = "_p50_ms";

/// A column of the results that a figure needs.
struct Column<'a> {
    figure: &'a str,
    /// The key of the scenario file.
    key: &'static str,
    name: String,
}

impl<'a> Column<'a> {
    fn of(figure: &'a FigureSpec) -> impl Iterator<Item = Self> {
        let (key, end) = if figure.cdf.is_some() { ("cdf", MEDIAN) } else { ("y", "") };
        let name = &figure.name;
        let column =
            move |(y, _): &(String, String)| Self { figure: name, key, name: format!("{y}{end}") };
        figure.y.iter().map(column)
    }

    fn complain(&self, known: &[String]) -> String {
        let end = if self.key == "cdf" { MEDIAN } else { "" };
        let allowed: Vec<&str> = known.iter().filter_map(|name| name.strip_suffix(end)).collect();
        let name = self.name.strip_suffix(end).unwrap_or(&self.name);
        let meant = nearest(name, &allowed)
            .map_or_else(String::new, |meant| format!(" (did you mean \"{meant}\"?)"));
        let (figure, key, allowed) = (self.figure, self.key, allowed.join(", "));
        format!("figure.{figure}.{key}: no run has \"{name}\"{meant}; there are {allowed}")
    }
}

/// Draws a figure of `plan` from its runs, as far as they are there.
///
/// # Errors
/// No run has a figure that is to be drawn.
pub fn draw(figure: &FigureSpec, plan: &Plan, records: &[Record]) -> Result<Chart, String> {
    let records: BTreeMap<&str, &Record> =
        records.iter().map(|record| (record.point.as_str(), record)).collect();
    let runs = plan.runs.iter().filter_map(|run| Some((run, *records.get(&*point(run))?)));
    let runs: Vec<(&Run, &Record)> = runs.collect();
    let curves =
        if figure.curves.is_empty() { all_curves(figure, plan) } else { figure.curves.clone() };
    let axis = Axis::of(figure, plan, &runs);
    let panel = |(name, label): &(String, String)| {
        let of_curve = |(number, curve): (usize, &CurveSpec)| Curve {
            number,
            name: curve.name.clone(),
            points: {
                let runs = runs.iter().filter(|(run, _)| takes(curve, plan, run));
                if figure.cdf.is_some() {
                    distribution(runs, name)
                } else {
                    axis.points(runs, name)
                }
            },
        };
        let drawn: Vec<Curve> = (1..).zip(&curves).map(of_curve).collect();
        if drawn.iter().all(|curve| curve.points.is_empty()) {
            let known = runs.first().map_or(&[][..], |(_, record)| &record.figures);
            let known: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
            return Err(format!(
                "figure {}: no run has a value of {name}; there are {}",
                figure.name,
                known.join(", ")
            ));
        }
        let marks = figure.published.iter().filter(|mark| mark.y_of == *name);
        Ok(Panel {
            x_label: figure.x_label.clone(),
            y_label: label.clone(),
            curves: drawn,
            groups: axis.groups.clone(),
            published: marks.map(|spec| mark(spec, &curves)).collect(),
            ..Panel::default()
        })
    };
    let panels = figure.y.iter().map(panel).collect::<Result<_, _>>()?;
    Ok(Chart { title: figure.title.clone(), panels })
}

/// What a run has for a key: a swept one, `case` or `setup`.
fn value<'a>(key: &str, plan: &'a Plan, run: &'a Run) -> Option<&'a str> {
    match key {
        "case" => Some(&run.case),
        "setup" => Some(&run.setup),
        _ => plan.value(run, key),
    }
}

fn takes(curve: &CurveSpec, plan: &Plan, run: &Run) -> bool {
    let fits = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|name| name == is);
    let has = |(key, wanted): &(String, String)| plan.value(run, key) == Some(wanted);
    fits(&curve.setup, &run.setup) && fits(&curve.case, &run.case) && curve.with.iter().all(has)
}

/// One for each setup, case and values of the keys that are not on the x axis.
fn all_curves(figure: &FigureSpec, plan: &Plan) -> Vec<CurveSpec> {
    let mut curves: Vec<CurveSpec> = Vec::new();
    for run in &plan.runs {
        let others = plan.swept.iter().filter(|key| **key != figure.x);
        let with = others.filter_map(|key| Some((key.clone(), plan.value(run, key)?.to_owned())));
        let with: Vec<(String, String)> = with.collect();
        let named =
            |key: &str, name: &String| (figure.x != key && !name.is_empty()).then(|| name.clone());
        let (setup, case) = (named("setup", &run.setup), named("case", &run.case));
        let values = with.iter().map(|(key, value)| format!("{key}={value}"));
        let parts: Vec<String> = setup.iter().chain(&case).cloned().chain(values).collect();
        let name = if parts.is_empty() { plan.name.clone() } else { parts.join(", ") };
        let curve = CurveSpec { name, setup, case, with };
        if !curves.contains(&curve) {
            curves.push(curve);
        }
    }
    curves
}

/// The x axis.
struct Axis<'a> {
    figure: &'a FigureSpec,
    plan: &'a Plan,
    /// Names in place of numbers.
    groups: Vec<String>,
}

impl<'a> Axis<'a> {
    fn of(figure: &'a FigureSpec, plan: &'a Plan, runs: &[(&Run, &Record)]) -> Self {
        let mut axis = Self { figure, plan, groups: Vec::new() };
        let is_numeric = runs.iter().all(|(_, record)| axis.number(record).is_some());
        for (run, _) in runs.iter().filter(|_| !is_numeric) {
            let name = value(&figure.x, plan, run).unwrap_or_default();
            if !axis.groups.iter().any(|group| group == name) {
                axis.groups.push(name.to_owned());
            }
        }
        axis
    }

    /// The value of the key as results have it, in the unit of the axis. A key of every path has that of the first.
    fn number(&self, record: &Record) -> Option<f64> {
        let (before, after) = self.figure.x.split_once('*').unwrap_or((&self.figure.x, ""));
        let is_it = |name: &str| {
            let inner = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            inner.is_some_and(|inner| !inner.contains('.') && inner.is_empty() != self.has_star())
        };
        let (_, value) = record.parameters.iter().find(|(name, _)| is_it(name))?;
        value.parse::<f64>().ok().map(|value| value * self.figure.x_scale)
    }

    fn has_star(&self) -> bool {
        self.figure.x.contains('*')
    }

    fn x(&self, run: &Run, record: &Record) -> Option<f64> {
        if self.groups.is_empty() {
            return self.number(record);
        }
        let name = value(&self.figure.x, self.plan, run)?;
        self.groups.iter().position(|group| group == name).map(|group| group as f64)
    }

    /// The means of `name` in the order of x.
    fn points<'r>(
        &self,
        runs: impl Iterator<Item = &'r (&'r Run, &'r Record)>,
        name: &str,
    ) -> Vec<Point> {
        let mut at: Vec<(f64, Vec<f64>)> = Vec::new();
        for (run, record) in runs {
            let Some(x) = self.x(run, record) else { continue };
            match at.iter_mut().find(|(other, _)| *other == x) {
                Some((_, values)) => values.push(record.figure(name)),
                None => at.push((x, vec![record.figure(name)])),
            }
        }
        at.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let mean = |(x, values): (f64, Vec<f64>)| {
            let summary = summarise(values)?;
            Some(Point { x, y: summary.mean, error: summary.half_width, count: summary.count })
        };
        at.into_iter().filter_map(mean).collect()
    }
}

/// The share of messages, in percent, that took no longer than the delay on the x axis: the means of the runs'
/// percentiles.
fn distribution<'r>(
    runs: impl Iterator<Item = &'r (&'r Run, &'r Record)>,
    delays: &str,
) -> Vec<Point> {
    let runs: Vec<&Record> = runs.map(|(_, record)| *record).collect();
    let point = |(name, share): &(&str, f64)| {
        let figure = format!("{delays}_{name}_ms");
        let delay = summarise(runs.iter().map(|record| record.figure(&figure)))?;
        Some(Point { x: delay.mean, y: share * 100.0, error: 0.0, count: delay.count })
    };
    PERCENTILES.iter().chain(&[("max", 1.0)]).filter_map(point).collect()
}

fn mark(spec: &PublishedSpec, curves: &[CurveSpec]) -> Mark {
    let named = |name: &String| curves.iter().position(|curve| curve.name == *name);
    let curve = spec.curve.as_ref().and_then(named).map_or(0, |at| at + 1);
    Mark { curve, x: spec.x, y: spec.y, text: spec.text.clone() }
}
