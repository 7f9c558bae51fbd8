//! What the picture and the verdict leave out: the figures of every point of the grid, and every point at
//! which the dynamic scheduler is worse than another one.

use super::points::{BASELINES, DYNAMIC, OTHERS, Point, median, points, sorted};
use super::{DELAY, DELAY_P99, GOODPUT, INTERACTIVE, INTERACTIVE_P99, grid};
use crate::campaign::Record;
use crate::figure::curves::Runs;

/// Less than this apart is the same, at the precision that is shown.
const SAME: f64 = 0.0005;

pub(super) fn details(runs: &Runs<'_>) -> String {
    let points = points(runs);
    [
        summary(&points),
        goodput_losses(&points),
        delay_losses(&points),
        paper(&points),
        changes(&points),
        networks(&points),
        everything(&points),
    ]
    .join("\n")
}

/// A Markdown table.
fn table(head: &[String], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut out = line(head);
    out += &format!("|{}\n", "---|".repeat(head.len()));
    rows.for_each(|row| out += &line(&row));
    out
}

fn head(first: &[&str], then: &[&str]) -> Vec<String> {
    first.iter().chain(then).map(|name| (*name).to_owned()).collect()
}

/// How the ratios to each baseline are spread over the grid.
fn summary(all: &[Point<'_>]) -> String {
    let titles =
        ["figure", "against", "points", "worst", "10 %", "median", "90 %", "best", "worse at"];
    let figures = [
        (GOODPUT, "goodput", true),
        (DELAY, "mean delay of all messages", false),
        (DELAY_P99, "99 % of delays of all messages", false),
        (INTERACTIVE, "mean delay of interactive messages", false),
        (INTERACTIVE_P99, "99 % of delays of interactive messages", false),
    ];
    let rows = figures.iter().flat_map(|(figure, name, more)| {
        BASELINES.iter().map(move |case| {
            let mut ratios = sorted(grid::points(all).map(|point| point.ratio(case, figure)));
            let worse = ratios.iter().filter(|ratio| is_worse(**ratio, *more)).count();
            if !more {
                ratios.reverse();
            }
            let at = |share: f64| {
                let place = (share * ratios.len().saturating_sub(1) as f64).round() as usize;
                ratio(ratios.get(place).copied().unwrap_or(f64::NAN))
            };
            let count = ratios.len().to_string();
            let mut row = vec![(*name).to_owned(), (*case).to_owned(), count];
            row.extend([at(0.0), at(0.1), ratio(median(ratios.clone())), at(0.9), at(1.0)]);
            row.push(worse.to_string());
            row
        })
    });
    format!(
        "## The grid in short\n\nThe dynamic scheduler's figure as a part of the other one's; of goodput more \
         is better, of delay less. The best single path is, for each figure, the path that has the best.\n\n{}",
        table(&head(&titles, &[]), rows)
    )
}

fn is_worse(ratio: f64, more_is_better: bool) -> bool {
    if more_is_better { ratio < 1.0 - SAME } else { ratio > 1.0 + SAME }
}

/// Every point at which another scheduler carries more.
fn goodput_losses(all: &[Point<'_>]) -> String {
    let text = losses(all, GOODPUT, true);
    let counts = |limit: f64| {
        let worst = |p: &&Point<'_>| worst(p, GOODPUT, true).is_some_and(|ratio| ratio < limit);
        grid::points(all).filter(worst).count()
    };
    format!(
        "## Where it carries less than another\n\nAll points of the grid at which at least one other carries \
         more ({} of {}; at {} more than 5 % more), the worst first. Bold: less than the other.\n\n{text}",
        counts(1.0 - SAME),
        grid::points(all).count(),
        counts(0.95),
    )
}

fn delay_losses(all: &[Point<'_>]) -> String {
    format!(
        "## Where interactive messages take longer\n\nMean delay as a part of the other one's. Bold: longer.\n\n\
         {}\nThe same for the delay that 99 % of the interactive messages do not exceed.\n\n{}",
        losses(all, INTERACTIVE, false),
        losses(all, INTERACTIVE_P99, false)
    )
}

fn losses(all: &[Point<'_>], figure: &str, more: bool) -> String {
    let mut lost: Vec<(f64, &Point<'_>)> = grid::points(all)
        .filter_map(|point| worst(point, figure, more).map(|ratio| (ratio, point)))
        .filter(|(ratio, _)| is_worse(*ratio, more))
        .collect();
    lost.sort_by(|(a, _), (b, _)| if more { a.total_cmp(b) } else { b.total_cmp(a) });
    let rows = lost.into_iter().map(|(_, point)| {
        let mut row = vec![point.setup.to_owned(), number(point.mean(DYNAMIC, figure))];
        row.extend(BASELINES.iter().map(|case| {
            let value = point.ratio(case, figure);
            if is_worse(value, more) { format!("**{}**", ratio(value)) } else { ratio(value) }
        }));
        row.push(circumstances(point));
        row
    });
    let unit = if more { "Mbit/s" } else { "ms" };
    let names = BASELINES.map(|case| format!("/ {case}"));
    let names: Vec<&str> = names.iter().map(String::as_str).chain(["circumstances"]).collect();
    table(&head(&["point", unit], &names), rows)
}

/// The worst ratio of a point.
fn worst(point: &Point<'_>, figure: &str, more: bool) -> Option<f64> {
    let ratios = sorted(BASELINES.iter().map(|case| point.ratio(case, figure)));
    if more { ratios.first().copied() } else { ratios.last().copied() }
}

/// What is special about a point.
fn circumstances(point: &Point<'_>) -> String {
    let Some(run) = point.example() else { return String::new() };
    let mut out = vec![format!("{:.1} x Eq. 1", point.kib * 1024.0 / equation_1(run))];
    let streams = streams(run);
    out.push(format!("{streams} stream{}", if streams == 1 { "" } else { "s" }));
    let changes = paths(run).filter(|path| number_of(run, path, "changes") > 0.0).count();
    match changes {
        0 => {}
        1 => out.push("a path lost and back".into()),
        _ => out.push("rates swapped".into()),
    }
    let worst = paths(run).map(|path| number_of(run, path, "loss")).fold(0.0, f64::max);
    if worst > 0.001 {
        out.push(format!("loss up to {:.1} %", worst * 100.0));
    }
    out.join(", ")
}

fn paths(run: &Record) -> impl Iterator<Item = &str> {
    run.parameters.iter().filter_map(|(name, _)| {
        let name = name.strip_prefix("path.")?.strip_suffix(".rate")?;
        (!name.contains('.')).then_some(name)
    })
}

fn number_of(run: &Record, path: &str, key: &str) -> f64 {
    let value = run.parameter(&format!("path.{path}.{key}"));
    value.and_then(|value| value.parse().ok()).unwrap_or(f64::NAN)
}

/// Bytes.
fn equation_1(run: &Record) -> f64 {
    let of = |path| 2.0 * number_of(run, path, "delay") * number_of(run, path, "rate") / 8.0;
    paths(run).map(of).sum()
}

fn streams(run: &Record) -> u32 {
    let counts = run
        .parameters
        .iter()
        .filter(|(name, _)| name.starts_with("app.") && name.ends_with(".streams"));
    counts.filter_map(|(_, value)| value.parse::<u32>().ok()).sum()
}

/// The setups of the paper against all others: the worst ratio over the buffer sizes.
fn paper(all: &[Point<'_>]) -> String {
    let mut setups: Vec<&str> = all.iter().map(|point| point.setup).collect();
    setups.dedup();
    setups.retain(|setup| setup.starts_with("fig"));
    let rows = setups.iter().map(|setup| {
        let of = || all.iter().filter(|point| point.setup == *setup);
        let mut row = vec![(*setup).to_owned()];
        row.extend(BASELINES.iter().map(|case| {
            let ratios = sorted(of().map(|point| point.ratio(case, GOODPUT)));
            let [least, most] = [ratios.first(), ratios.last()].map(|r| r.copied());
            let show = |value: Option<f64>| ratio(value.unwrap_or(f64::NAN));
            format!("{} to {}", show(least), show(most))
        }));
        row
    });
    let names = BASELINES.map(|case| format!("/ {case}"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    format!(
        "## The setups of the paper\n\nGoodput as a part of the other one's, over all buffer sizes.\n\n{}",
        table(&head(&["setup"], &names), rows)
    )
}

/// The seconds that each scheduler needs after a change.
fn changes(all: &[Point<'_>]) -> String {
    let cases = || std::iter::once(DYNAMIC).chain(OTHERS);
    let changed =
        all.iter().filter(|p| ["swap-25mbit", "swap-50mbit", "return"].contains(&p.setup));
    let rows = changed.map(|point| {
        let mut row = vec![point.setup.to_owned(), format!("{}", point.kib)];
        row.extend(cases().map(|case| seconds(point.mean(case, "recovery_s"))));
        row
    });
    let names: Vec<&str> = cases().collect();
    format!(
        "## Changes\n\nSeconds from the change to the end of the first second with 95 % of what the paths can \
         carry then; \"-\": not in the run.\n\n{}",
        table(&head(&["setup", "KiB"], &names), rows)
    )
}

/// Rate, delay and loss of each path.
pub(super) fn path_texts(run: &Record) -> String {
    let path = |name| {
        let loss = number_of(run, name, "loss");
        let loss = if loss > 0.0 { format!(", {:.2} %", loss * 100.0) } else { String::new() };
        let mbit = number(number_of(run, name, "rate") / 1e6);
        let ms = number(number_of(run, name, "delay") * 1e3);
        let mark = if number_of(run, name, "changes") > 0.0 { "*" } else { "" };
        format!("{mark}{mbit} Mbit/s, {ms} ms{loss}")
    };
    paths(run).map(path).collect::<Vec<_>>().join("; ")
}

/// The networks of the grid.
fn networks(all: &[Point<'_>]) -> String {
    let rows = grid::points(all).filter_map(|point| {
        let run = point.example()?;
        let kind = run.parameter("app.interactive.kind").unwrap_or("none").to_owned();
        let kib = format!("{} ({:.1})", point.kib, point.kib * 1024.0 / equation_1(run));
        Some(vec![point.setup.to_owned(), path_texts(run), kib, streams(run).to_string(), kind])
    });
    let titles =
        ["point", "paths (*: changes)", "KiB (x Equation 1)", "streams", "interactive application"];
    format!("## The points of the grid\n\n{}", table(&head(&titles, &[]), rows))
}

/// All figures of all points.
fn everything(all: &[Point<'_>]) -> String {
    let one = |figure: &'static str, title: &str| {
        let cases: Vec<&str> = std::iter::once(DYNAMIC).chain(BASELINES).collect();
        let valid = grid::points(all).filter(|p| p.mean(DYNAMIC, figure).is_finite());
        let rows = valid.map(|point| {
            let values = cases.iter().map(|case| number(point.value(case, figure)));
            std::iter::once(point.setup.to_owned()).chain(values).collect()
        });
        format!("### {title}\n\n{}\n", table(&head(&["point"], &cases), rows))
    };
    [
        "## All figures of the grid\n".to_owned(),
        one(GOODPUT, "Goodput in Mbit/s"),
        one(DELAY, "Mean delay of all messages in ms"),
        one(DELAY_P99, "Delay that 99 % of all messages do not exceed, in ms"),
        one(INTERACTIVE, "Mean delay of interactive messages in ms"),
        one(INTERACTIVE_P99, "Delay that 99 % of the interactive messages do not exceed, in ms"),
        one("rwnd_blocked", "Part of the time in which the receive window keeps a path idle"),
    ]
    .join("\n")
}

fn ratio(value: f64) -> String {
    if value.is_finite() { format!("{value:.3}") } else { "-".to_owned() }
}

fn seconds(value: f64) -> String {
    if value.is_finite() { format!("{value:.1}") } else { "-".to_owned() }
}

/// Three significant digits.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 3);
    format!("{value:.*}", digits as usize)
}
