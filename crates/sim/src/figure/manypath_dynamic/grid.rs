//! The grid: ratios to every other scheduler, from the worst point to the best.

use super::points::{BASELINES, DYNAMIC, OTHERS, Point, SINGLE, median, sorted};
use super::{GOODPUT, INTERACTIVE, INTERACTIVE_P99};
use crate::figure::plot::{self, Curve, Panel};
use crate::figure::verdict::Criterion;

const PREFIX: &str = "grid-";
/// Never less than this part of the best single path.
const LEAST: f64 = 0.95;
/// Longest delay of interactive messages, as a part of the best single path's.
const LONGEST: f64 = 1.2;
/// Ratios beyond are drawn as this.
const CLIPPED: f64 = 3.0;

pub(super) fn points<'p, 'a>(all: &'p [Point<'a>]) -> impl Iterator<Item = &'p Point<'a>> + Clone {
    all.iter().filter(|point| point.setup.starts_with(PREFIX))
}

pub(super) fn panels(all: &[Point<'_>]) -> Vec<Panel> {
    let goodput = (2..).zip(BASELINES).map(|(number, case)| {
        let ratios = points(all).filter_map(|point| point.part(DYNAMIC, case, GOODPUT));
        curve(number, &format!("dynamic / {case}"), ratios)
    });
    let goodput = panel("Grid: goodput", "Ratio of goodputs", goodput.collect());
    let delay = |title: &str, figure: &str| {
        let cases = (2..).zip(OTHERS).chain([(1, DYNAMIC)]);
        let curves = cases.map(|(number, case)| {
            let ratios = points(all).filter_map(|point| point.part(case, SINGLE, figure));
            curve(number, &format!("{case} / best single path"), ratios)
        });
        panel(title, "Ratio of delays", curves.collect())
    };
    let mean = delay("Grid: interactive messages, mean delay", INTERACTIVE);
    let p99 = delay("Grid: interactive messages, 99 % of delays", INTERACTIVE_P99);
    vec![goodput, mean, p99]
}

fn panel(title: &str, y_label: &str, curves: Vec<Curve>) -> Panel {
    Panel {
        title: format!("{title} (sorted; above {CLIPPED} drawn as {CLIPPED})"),
        x_label: "Part of the points [%]".into(),
        y_label: y_label.into(),
        curves,
        ..Panel::default()
    }
}

fn curve(number: usize, name: &str, ratios: impl Iterator<Item = plot::Point>) -> Curve {
    let mut points: Vec<_> = ratios.collect();
    points.sort_by(|a, b| a.y.total_cmp(&b.y));
    let count = points.len() as f64;
    for (place, point) in (1..).zip(&mut points) {
        point.x = f64::from(place) / count * 100.0;
        if point.y > CLIPPED {
            (point.y, point.error) = (CLIPPED, 0.0);
        }
    }
    Curve { number, name: name.to_owned(), points }
}

pub(super) fn judge(all: &[Point<'_>]) -> Vec<Criterion> {
    let count = points(all).count();
    let mut out = vec![never_worse(all)];
    for case in ["ECF", "BLEST"] {
        let median = median(points(all).map(|point| point.ratio(case, GOODPUT)));
        out.push(Criterion::new(
            format!("grid of {count} points: goodput against {case}, median"),
            "as good",
            format!("{:.1} %", median * 100.0),
            ">= 100 %",
            median >= 1.0,
        ));
    }
    out.push(interactive(all));
    out
}

fn never_worse(all: &[Point<'_>]) -> Criterion {
    let ratios = || points(all).map(|point| point.ratio(SINGLE, GOODPUT));
    let below = ratios().filter(|ratio| *ratio < LEAST).count();
    let valid = sorted(ratios());
    let least = valid.first().copied().unwrap_or(f64::NAN);
    Criterion::new(
        format!("grid of {} points: goodput against the best single path", valid.len()),
        "never less than 95 %",
        format!("at least {:.1} %, below at {below}", least * 100.0),
        ">= 95 %",
        least >= LEAST && valid.len() == ratios().count(),
    )
}

fn interactive(all: &[Point<'_>]) -> Criterion {
    let ratios = sorted(points(all).map(|point| point.ratio(SINGLE, INTERACTIVE)));
    let above = ratios.iter().filter(|ratio| **ratio > LONGEST).count();
    let most = ratios.last().copied().unwrap_or(f64::NAN);
    Criterion::new(
        format!("grid, {} points: mean delay of interactive messages", ratios.len()),
        "at most 1.2 x the best single path's",
        format!("up to {most:.2} x, above at {above}, median {:.2} x", median(ratios)),
        "<= 1.2",
        most <= LONGEST,
    )
}
