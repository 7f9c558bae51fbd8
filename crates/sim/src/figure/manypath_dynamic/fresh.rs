//! Grids of networks that nobody has tuned anything for: drawn by a seed that the user gives, with all schedulers
//! in the frame of the committed grid and several seeds of each run. What is printed are the points where the
//! dynamic scheduler loses.
//!
//! A point is lost where noise cannot be the reason: the interval of the dynamic scheduler's median is outside the
//! bound, seen from the interval of another one's. With six seeds that means that all six runs of the one are
//! outside the bound of all six of the other. Where only the medians say so, more seeds decide.

use super::design::{Row, draw_path, hypercube, write_apps, write_path};
use super::details::{number, path_texts};
use super::points::{DYNAMIC, Point, points, rivals};
use super::{GOODPUT, INTERACTIVE};
use crate::campaign::{Median, median};
use crate::figure::catalogue::Figure;
use crate::figure::curves::Runs;
use crate::figure::plot::{self, Chart, Curve, Panel};
use crate::figure::verdict::Criterion;
use std::fmt::Write;

const POINTS: usize = 24;
/// Factors: the number of paths; rate, delay and loss of each; buffer, streams, applications, and what these know.
const COLUMNS: usize = 1 + 3 * PATHS + 4;
const PATHS: usize = 3;
const MOST_MBIT: f64 = 300.0;
/// What the paths of a point could carry while it is measured, in Mbit.
const MEASURED_MBIT: f64 = 1000.0;
/// As many as a median needs for an interval of 95 %.
const SEEDS: u32 = 6;

/// The committed scenario, of which the frame is taken: everything between these.
const COMMITTED: &str = include_str!("../../../../../papers/manypath-dynamic/scenario.toml");
const FRAME: (&str, &str) = ("\nseeds = 3\n", "\n# The setups of the paper");

/// Schedulers that the committed grid does not have.
const MORE_CASES: &str = r#"
[[case]]
name = "earliest completion"
set = { "engine.path_scheduling" = "earliest-completion" }

[[case]]
name = "LSFR"
set = { "engine.path_scheduling" = "lsfr" }
"#;

/// A grid drawn by `seed`, as a figure that is not in the catalogue. Its texts stay in memory for good.
pub fn fresh_grid(seed: u64) -> Figure {
    let name = format!("manypath-dynamic-grid-{seed}").leak();
    Figure {
        name,
        title: "The dynamic stream-to-path scheduler against others on a fresh grid",
        scenario: scenario(name, seed).leak(),
        file: name,
        notes: include_str!("../../../../../papers/manypath-dynamic/fresh-grids.md"),
        draw,
        details,
        judge,
    }
}

fn scenario(name: &str, seed: u64) -> String {
    let frame = COMMITTED.split_once(FRAME.0).and_then(|(_, rest)| rest.split_once(FRAME.1));
    let (frame, _) = frame.unwrap_or_default();
    let mut out = format!(
        "name = \"{name}\"\ndescription = \"Networks drawn by seed {seed}\"\nseeds = {SEEDS}\n{frame}{MORE_CASES}"
    );
    for (number, row) in (1..).zip(hypercube(seed, POINTS, COLUMNS)) {
        // Memory takes everything.
        let _ = write_point(&mut out, number, row);
    }
    out
}

fn write_point(out: &mut String, number: usize, mut row: Row) -> std::fmt::Result {
    let draws: [_; PATHS] = std::array::from_fn(|_| draw_path(&mut row, MOST_MBIT));
    let paths = &draws[..1 + row.choice(PATHS)];
    let kib = row.scaled(64.0, 4096.0).round();
    let streams = row.scaled(1.0, 1000.0) as usize;
    let (mix, informed) = (row.choice(3), row.choice(2) == 1);
    writeln!(out, "\n[[setup]]\nname = \"fresh-{number:02}\"\n[setup.set]")?;
    // Runs of fast networks are shorter, but twenty times as long as the longest way.
    let mbit: f64 = paths.iter().map(|path| path.mbit).sum();
    let longest = paths.iter().map(|path| path.delay_ms).fold(0.0, f64::max);
    let seconds = (MEASURED_MBIT / mbit).max(longest / 50.0).clamp(4.0, 20.0).round();
    writeln!(out, "measure = \"{seconds}s\"")?;
    writeln!(out, "\"engine.buffer\" = \"{kib}KiB\"\npath = [")?;
    paths.iter().try_for_each(|path| write_path(out, *path, None))?;
    write_apps(out, streams, mix, informed)
}

/// What is compared, and how much worse than the best other one the dynamic scheduler may be.
#[derive(Clone, Copy)]
struct Goal {
    figure: &'static str,
    name: &'static str,
    unit: &'static str,
    /// Part of the other one's that is its bound.
    bound: f64,
    says: &'static str,
    tolerance: &'static str,
}

const GOALS: [Goal; 2] = [
    Goal {
        figure: GOODPUT,
        name: "goodput",
        unit: "Mbit/s",
        bound: 0.95,
        says: "never 5 % below the best other",
        tolerance: ">= 95 %",
    },
    Goal {
        figure: INTERACTIVE,
        name: "mean delay of interactive messages",
        unit: "ms",
        bound: 1.2,
        says: "never above 1.2 x the best other",
        tolerance: "<= 1.2",
    },
];

/// How the dynamic scheduler compares with one of the others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Verdict {
    Holds,
    /// The medians are too far apart, the intervals are not.
    Undecided,
    Loses,
}

/// The worst comparison of a point.
struct Comparison<'a> {
    verdict: Verdict,
    rival: &'a str,
    own: Median,
    other: Median,
}

impl Comparison<'_> {
    /// The dynamic scheduler's as a part of the other one's.
    fn ratio(&self) -> f64 {
        self.own.median / self.other.median
    }
}

impl Goal {
    fn more_is_better(&self) -> bool {
        self.bound < 1.0
    }

    /// Nothing arrived: no goodput, or an endless delay.
    fn measured(&self, point: &Point<'_>, case: &str) -> Option<Median> {
        let none = if self.more_is_better() { 0.0 } else { f64::INFINITY };
        let values = point.values(case, self.figure);
        median(values.into_iter().map(|value| if value.is_nan() { none } else { value }))
    }

    fn is_outside(&self, own: f64, other: f64) -> bool {
        if self.more_is_better() { own < self.bound * other } else { own > self.bound * other }
    }

    fn judge(&self, own: Median, other: Median) -> Verdict {
        let (own_best, other_worst) = match self.more_is_better() {
            true => (own.interval.1, other.interval.0),
            false => (own.interval.0, other.interval.1),
        };
        if self.is_outside(own_best, other_worst) {
            Verdict::Loses
        } else if self.is_outside(own.median, other.median) {
            Verdict::Undecided
        } else {
            Verdict::Holds
        }
    }

    /// Against the one that the point is lost to most clearly; `None` if nobody has what is compared there.
    fn compare<'a>(&self, point: &Point<'a>) -> Option<Comparison<'a>> {
        let own = self.measured(point, DYNAMIC)?;
        let against = |rival| {
            let other = self.measured(point, rival)?;
            let shown =
                if self.more_is_better() { other.median > 0.0 } else { other.median.is_finite() };
            shown.then(|| Comparison { verdict: self.judge(own, other), rival, own, other })
        };
        let all = rivals(point).into_iter().filter_map(against);
        all.max_by(|a, b| {
            let ratio =
                |c: &Comparison<'_>| if self.more_is_better() { -c.ratio() } else { c.ratio() };
            a.verdict.cmp(&b.verdict).then(ratio(a).total_cmp(&ratio(b)))
        })
    }

    fn comparisons<'p, 'a>(&self, points: &'p [Point<'a>]) -> Vec<(&'p Point<'a>, Comparison<'a>)> {
        points.iter().filter_map(|point| Some((point, self.compare(point)?))).collect()
    }
}

fn with_interval(median: Median, unit: &str) -> String {
    let [middle, low, high] = [median.median, median.interval.0, median.interval.1].map(number);
    format!("{middle} {unit} ({low} to {high})")
}

fn judge(runs: &Runs<'_>) -> Vec<Criterion> {
    let points = points(runs);
    let judge = |goal: &Goal| {
        let all = goal.comparisons(&points);
        let count = |verdict| all.iter().filter(|(_, c)| c.verdict == verdict).count();
        let (lost, undecided) = (count(Verdict::Loses), count(Verdict::Undecided));
        let ratios = super::points::sorted(all.iter().map(|(_, c)| c.ratio()));
        let worst = if goal.more_is_better() { ratios.first() } else { ratios.last() };
        let mut out = vec![Criterion::new(
            format!("{}, {} points", goal.name, all.len()),
            goal.says,
            format!(
                "lost at {lost}, undecided at {undecided}, worst {:.3} x",
                worst.copied().unwrap_or(f64::NAN)
            ),
            goal.tolerance,
            lost == 0,
        )];
        let lost = all.iter().filter(|(_, c)| c.verdict == Verdict::Loses);
        out.extend(lost.map(|(point, c)| {
            Criterion::new(
                format!("{} of {}: {}", goal.name, point.setup, network(point)),
                &format!("{}: {}", c.rival, with_interval(c.other, goal.unit)),
                format!("{:.3} x: {}", c.ratio(), with_interval(c.own, goal.unit)),
                goal.tolerance,
                false,
            )
        }));
        out
    };
    GOALS.iter().flat_map(judge).collect()
}

/// What a point is: its paths, buffer and applications.
fn network(point: &Point<'_>) -> String {
    let Some(run) = point.example() else { return String::new() };
    let interactive = run.parameter("app.interactive.kind");
    let interactive = interactive.map_or(String::new(), |kind| format!(", {kind}"));
    let streams = run.parameter("app.bulk.streams").unwrap_or_default();
    format!("{}, {} KiB, {streams} streams{interactive}", path_texts(run), point.kib)
}

fn details(runs: &Runs<'_>) -> String {
    let points = points(runs);
    let mut out = String::new();
    for goal in &GOALS {
        let _ = writeln!(
            out,
            "## {}{}, worst first\n\n| point | verdict | ratio | dynamic | best other | network |\n|---|---|---|---|---|---|",
            goal.name[..1].to_uppercase(),
            &goal.name[1..]
        );
        let mut all = goal.comparisons(&points);
        all.sort_by(|(_, a), (_, b)| a.ratio().total_cmp(&b.ratio()));
        if !goal.more_is_better() {
            all.reverse();
        }
        for (point, c) in all {
            let verdict = match c.verdict {
                Verdict::Holds => "holds",
                Verdict::Undecided => "undecided",
                Verdict::Loses => "**loses**",
            };
            let (own, other) = (with_interval(c.own, goal.unit), with_interval(c.other, goal.unit));
            let _ = writeln!(
                out,
                "| {} | {verdict} | {:.3} | {own} | {}: {other} | {} |",
                point.setup,
                c.ratio(),
                c.rival,
                network(point)
            );
        }
        out.push('\n');
    }
    out
}

fn draw(runs: &Runs<'_>) -> Chart {
    let points = points(runs);
    let panel = |goal: &Goal| {
        let mut all = goal.comparisons(&points);
        all.retain(|(_, c)| c.ratio().is_finite());
        all.sort_by(|(_, a), (_, b)| a.ratio().total_cmp(&b.ratio()));
        let shown = (1..).zip(&all).map(|(place, (_, c))| {
            let (low, high) = c.own.interval;
            let error = (high - low) / 2.0 / c.other.median;
            plot::Point { x: f64::from(place), y: c.ratio(), error, count: SEEDS as usize }
        });
        let name = "dynamic / best other".to_owned();
        Panel {
            title: format!("{}{}", goal.name[..1].to_uppercase(), &goal.name[1..]),
            x_label: "Points, sorted".into(),
            y_label: "Ratio of medians".into(),
            curves: vec![Curve { number: 1, name, points: shown.collect() }],
            dots: true,
            published: vec![plot::Mark {
                curve: 0,
                x: None,
                y: Some(goal.bound),
                text: "bound".into(),
            }],
            ..Panel::default()
        }
    };
    Chart {
        title: "The dynamic scheduler on a fresh grid".into(),
        panels: GOALS.iter().map(panel).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{GOALS, Verdict, fresh_grid};
    use crate::campaign::median;
    use crate::scenario::Plan;

    #[test]
    fn a_grid_is_what_its_seed_says_and_within_its_class() {
        let [one, same, other] = [7, 7, 8].map(|seed| fresh_grid(seed).scenario);
        assert_eq!(one, same);
        assert_ne!(one, other);
        let plan = Plan::parse(one, "fresh", &[]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((plan.setups.len(), plan.seeds.len()), (super::POINTS, 6));
        let paths = |setup: &str| {
            let run = plan.runs.iter().find(|run| run.setup == setup).unwrap();
            run.scenario.paths.len()
        };
        let paths: Vec<_> = plan.setups.iter().map(|setup| paths(setup)).collect();
        assert!(
            (1..=3).all(|count| paths.iter().filter(|n| **n == count).count() == super::POINTS / 3),
            "{paths:?}"
        );
    }

    #[test]
    fn noise_does_not_lose_a_point() {
        let of = |values: [f64; 6]| median(values).unwrap();
        let ten = of([9.9, 10.0, 10.0, 10.0, 10.0, 10.3]);
        let judge = |goal: usize, own| GOALS[goal].judge(of(own), ten);
        assert_eq!(judge(0, [9.6; 6]), Verdict::Holds);
        assert_eq!(judge(0, [9.3, 9.3, 9.3, 9.3, 9.3, 9.41]), Verdict::Undecided);
        assert_eq!(judge(0, [9.3, 9.3, 9.3, 9.3, 9.3, 9.4]), Verdict::Loses);
        assert_eq!(judge(1, [11.0; 6]), Verdict::Holds);
        assert_eq!(judge(1, [12.3; 6]), Verdict::Undecided);
        assert_eq!(judge(1, [12.4; 6]), Verdict::Loses);
    }
}
