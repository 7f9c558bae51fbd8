//! The setups of the paper, and what changes in them.

use super::points::{DYNAMIC, FIXED, Point, ROUND_ROBIN, SINGLE};
use super::{DELAY, GOODPUT};
use crate::figure::curves::point;
use crate::figure::plot::{Curve, Panel};
use crate::figure::verdict::Criterion;

/// A setup, what it is called, and the buffer that suffices by Equation 2 in KiB: paths x the largest
/// product of rate and round trip.
struct Setup {
    name: &'static str,
    title: &'static str,
    enough_kib: f64,
}

const fn setup(name: &'static str, title: &'static str, enough_kib: f64) -> Setup {
    Setup { name, title, enough_kib }
}

const SETUPS: [Setup; 9] = [
    setup("fig4-10ms", "Figure 4, δB = 10 ms", 48.8),
    setup("fig4-50ms", "Figure 4, δB = 50 ms", 146.5),
    setup("fig4-75ms", "Figure 4, δB = 75 ms", 207.5),
    setup("fig6-25mbit", "Figure 6, ρB = 25 Mbit/s", 122.0),
    setup("fig6-25mbit-api", "Figure 6, ρB = 25 Mbit/s, API extension", 122.0),
    setup("fig6-50mbit", "Figure 6, ρB = 50 Mbit/s", 244.0),
    setup("fig6-50mbit-api", "Figure 6, ρB = 50 Mbit/s, API extension", 244.0),
    setup("fig7", "Figure 7, ν = true", 73.2),
    setup("fig7-no-nr-sack", "Figure 7, ν = false", 73.2),
];

/// Setups in which something changes, and what.
const CHANGES: [(&str, &str); 3] = [
    ("swap-25mbit", "rates of 10 and 25 Mbit/s swapped"),
    ("swap-50mbit", "rates of 10 and 50 Mbit/s swapped"),
    ("return", "path B back after 20 s"),
];

const SIGMA: &str = "Send/receive buffer size σ [KiB]";

/// How far below the better of the others is still as good, and what counts as full.
const AS_GOOD: f64 = 0.97;
const FULL: f64 = 0.95;
/// Above so many times Equation 2.
const AMPLE: f64 = 1.1;
const RECOVERY_S: f64 = 5.0;

pub(super) fn panels(points: &[Point<'_>]) -> Vec<Panel> {
    let mut panels: Vec<Panel> =
        SETUPS.iter().map(|setup| panel(points, setup, GOODPUT, "Throughput [Mbit/s]")).collect();
    let delays =
        SETUPS.iter().filter(|s| ["fig4-75ms", "fig6-50mbit-api", "fig7"].contains(&s.name));
    panels.extend(delays.map(|s| panel(points, s, DELAY, "Average message delay [ms]")));
    panels
}

fn panel(points: &[Point<'_>], setup: &Setup, figure: &str, y_label: &str) -> Panel {
    let curve = |(number, case): (usize, &str)| Curve {
        number,
        name: case.to_owned(),
        points: of(points, setup.name)
            .filter_map(|p| Some(point(p.kib, p.summary(case, figure)?)))
            .collect(),
    };
    // The last one is drawn above the others.
    let cases = [(2, FIXED), (3, ROUND_ROBIN), (4, SINGLE), (1, DYNAMIC)];
    Panel {
        title: setup.title.into(),
        x_label: SIGMA.into(),
        y_label: y_label.into(),
        curves: cases.map(curve).into(),
        ..Panel::default()
    }
}

pub(super) fn judge(points: &[Point<'_>]) -> Vec<Criterion> {
    let mut out: Vec<Criterion> =
        SETUPS.iter().map(|setup| against_the_better(points, setup)).collect();
    out.extend(SETUPS.iter().map(|setup| fullness(points, setup)));
    out.extend(CHANGES.iter().map(|(name, what)| recovery(points, name, what)));
    out
}

/// At every buffer size nearly as good as the better of fixed and round robin.
fn against_the_better(points: &[Point<'_>], setup: &Setup) -> Criterion {
    let ratio = |point: &Point<'_>| {
        let better = point.mean(FIXED, GOODPUT).max(point.mean(ROUND_ROBIN, GOODPUT));
        point.mean(DYNAMIC, GOODPUT) / better
    };
    let (ratio, kib) = least(of(points, setup.name).map(|point| (ratio(point), point.kib)));
    Criterion::new(
        format!("{}: against the better of fixed and round robin, every buffer", setup.title),
        "within 3 %",
        format!("at least {:.1} % ({kib} KiB)", ratio * 100.0),
        ">= 97 %",
        ratio >= AS_GOOD,
    )
}

fn fullness(points: &[Point<'_>], setup: &Setup) -> Criterion {
    let ample = of(points, setup.name).filter(|point| point.kib >= AMPLE * setup.enough_kib);
    let share = |p: &Point<'_>| p.mean(DYNAMIC, GOODPUT) / p.mean(DYNAMIC, "ceiling_mbps");
    let (share, kib) = least(ample.map(|point| (share(point), point.kib)));
    Criterion::new(
        format!("{}: of what the paths can carry, from 1.1 x Equation 2 on", setup.title),
        "95 %",
        format!("at least {:.1} % ({kib} KiB)", share * 100.0),
        ">= 95 %",
        share >= FULL,
    )
}

fn recovery(points: &[Point<'_>], name: &str, what: &str) -> Criterion {
    // A run that has not recovered has no figure; it must not be left out of the mean.
    let seconds = |p: &Point<'_>| {
        let all = p.values(DYNAMIC, "recovery_s");
        -all.iter().sum::<f64>() / all.len() as f64
    };
    let (longest, kib) = least(of(points, name).map(|point| (seconds(point), point.kib)));
    let ours = if longest.is_finite() {
        format!("{:.1} s ({kib} KiB)", -longest)
    } else {
        format!("not until the end ({kib} KiB)")
    };
    Criterion::new(
        format!("{what}: back at 95 % of what the paths can carry"),
        "5 s",
        ours,
        "<= 5 s",
        -longest <= RECOVERY_S,
    )
}

fn of<'p, 'a>(points: &'p [Point<'a>], setup: &'p str) -> impl Iterator<Item = &'p Point<'a>> {
    points.iter().filter(move |point| point.setup == setup)
}

/// The least value and where it is; one that is no number is less than all, and so is none at all.
fn least(values: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let key = |value: f64| if value.is_nan() { f64::NEG_INFINITY } else { value };
    let least = values.min_by(|(a, _), (b, _)| key(*a).total_cmp(&key(*b)));
    least.unwrap_or((f64::NAN, f64::NAN))
}
