//! Losses found by time (RACK-TLP) against RFC 9260: how long a file takes over a lossy path, and how
//! much is sent again for nothing where packets are reordered.

use super::catalogue::Figure;
use super::curves::{Runs, mean, worse};
use super::plot::{Chart, Curve, Panel, Point};
use super::verdict::Criterion;
use crate::campaign::{Record, Summary, summarise};
use std::fmt::Write;

/// The one figure.
pub(super) const FIGURES: &[Figure] = &[Figure {
    name: "loss-recovery",
    title: "Losses found by time (RACK-TLP) against RFC 9260",
    scenario: include_str!("../../../../papers/loss-recovery/scenario.toml"),
    file: "papers/loss-recovery/scenario.toml",
    notes: include_str!("../../../../papers/loss-recovery/notes.md"),
    draw,
    details,
    judge,
}];

const RACK: &str = "rack";
const AS_IT_STANDS: &str = "RFC 9260 as it stands";
/// Those that RACK is compared with, the last being the RFC in everything.
const OTHERS: [&str; 3] = ["rfc9260, RTO.Min 200 ms", "rfc9260, RTO.Min 1 s", AS_IT_STANDS];
const SIZES: [(&str, &str); 2] = [("500000", "500 KB"), ("5000000", "5 MB")];
const LOSSES: [&str; 5] = ["0", "0.01", "0.03", "0.06", "0.1"];
const RATES: [(&str, &str); 2] = [("1500000", "1.5 Mbit/s"), ("10000000", "10 Mbit/s")];
const REORDERED: [&str; 3] = ["0.05", "0.25", "0.5"];

/// The loss at which RACK is judged, and what it may take there of the time without it.
const JUDGED: &str = "0.06";
const MOST_TIME: f64 = 0.75;
/// What may be sent again for nothing of all that is sent.
const MOST_SPURIOUS: f64 = 0.01;

fn cases() -> impl Iterator<Item = &'static str> {
    std::iter::once(RACK).chain(OTHERS)
}

/// `figure` of the runs of a setup and case with these parameters.
fn of(
    runs: &Runs<'_>,
    (setup, case): (&str, &str),
    with: &[(&str, &str)],
    figure: fn(&Record) -> f64,
) -> Option<Summary> {
    let chosen = runs.all().filter(|record| {
        let fits = |(name, value): &(&str, &str)| record.parameter(name) == Some(*value);
        record.setup == setup && record.case == case && with.iter().all(fits)
    });
    summarise(chosen.map(figure))
}

fn time(runs: &Runs<'_>, case: &str, bytes: &str, loss: &str) -> Option<Summary> {
    let with = [("app.file.bytes", bytes), ("path.A.loss", loss)];
    of(runs, ("loss", case), &with, |record| record.figure("duration_s"))
}

/// Part of the packets sent that repeated what had arrived.
fn spurious(
    runs: &Runs<'_>,
    case: &str,
    (rate, reorder, loss): (&str, &str, &str),
) -> Option<Summary> {
    let with = [("path.A.rate", rate), ("path.A.reorder", reorder), ("path.A.loss", loss)];
    of(runs, ("reordering", case), &with, |record| {
        record.figure("A_spurious_retransmits") / record.figure("A_packets_sent")
    })
}

fn percent(part: &str) -> f64 {
    part.parse::<f64>().unwrap_or(f64::NAN) * 100.0
}

fn draw(runs: &Runs<'_>) -> Chart {
    let times = SIZES.map(|(bytes, size)| Panel {
        title: format!("{size}, 1.5 Mbit/s, 70 ms"),
        x_label: "Loss both ways [%]".into(),
        y_label: "Time [s]".into(),
        curves: curves(&LOSSES, |case, loss| time(runs, case, bytes, loss)),
        ..Panel::default()
    });
    let needless = RATES.map(|(rate, name)| Panel {
        title: format!("{name}, reordering of up to 20 ms"),
        x_label: "Packets reordered [%]".into(),
        y_label: "Sent again for nothing [% of packets]".into(),
        curves: curves(&REORDERED, |case, reorder| {
            let summary = spurious(runs, case, (rate, reorder, "0"))?;
            let [mean, half_width] = [summary.mean, summary.half_width].map(|part| part * 100.0);
            Some(Summary { mean, half_width, ..summary })
        }),
        ..Panel::default()
    });
    let panels = times.into_iter().chain(needless).collect();
    Chart { title: "Losses found by time (RACK-TLP) against RFC 9260".into(), panels }
}

/// A curve for each case over `xs`, parts of one that are shown in percent.
fn curves(xs: &[&str], value: impl Fn(&str, &str) -> Option<Summary>) -> Vec<Curve> {
    let curve = |(number, case): (usize, &'static str)| {
        let point = |x: &&str| {
            let Summary { count, mean: y, half_width: error, .. } = value(case, x)?;
            Some(Point { x: percent(x), y, error, count })
        };
        Curve { number, name: case.to_owned(), points: xs.iter().filter_map(point).collect() }
    };
    (1..).zip(cases()).map(curve).collect()
}

fn details(runs: &Runs<'_>) -> String {
    let mut out = String::from("Time in s, mean of the seeds, and the expiries of T3-rtx.\n\n");
    out.push_str("| file | loss |");
    head(&mut out);
    out.push_str(" less than RFC 9260 as it stands |\n|---|---|---|---|---|---|---|\n");
    for (bytes, size) in SIZES {
        for loss in LOSSES {
            let _ = write!(out, "| {size} | {:.0} % |", percent(loss));
            for case in cases() {
                let with = [("app.file.bytes", bytes), ("path.A.loss", loss)];
                let t3 = of(runs, ("loss", case), &with, |r| r.figure("A_timeouts"));
                let seconds = mean(time(runs, case, bytes, loss));
                let _ = write!(out, " {seconds:.2} ({:.1}) |", mean(t3));
            }
            let _ =
                writeln!(out, " {:.0} % |", 100.0 * (1.0 - ratio(runs, AS_IT_STANDS, bytes, loss)));
        }
    }
    out.push_str("\nPart of all packets that was sent again for nothing, and time of 5 MB in s, where packets are reordered by up to 20 ms.\n\n");
    out.push_str("| rate | loss | reordered |");
    head(&mut out);
    out.push_str("\n|---|---|---|---|---|---|---|\n");
    for (rate, name) in RATES {
        for (loss, reorder) in ["0", JUDGED].into_iter().flat_map(|l| REORDERED.map(|r| (l, r))) {
            let _ = write!(out, "| {name} | {:.0} % | {:.0} % |", percent(loss), percent(reorder));
            for case in cases() {
                let with =
                    [("path.A.rate", rate), ("path.A.reorder", reorder), ("path.A.loss", loss)];
                let seconds = of(runs, ("reordering", case), &with, |r| r.figure("duration_s"));
                let part = 100.0 * mean(spurious(runs, case, (rate, reorder, loss)));
                let _ = write!(out, " {part:.2} % ({:.1}) |", mean(seconds));
            }
            out.push('\n');
        }
    }
    out
}

/// The names of the cases as columns.
fn head(out: &mut String) {
    for case in cases() {
        // Memory takes everything.
        let _ = write!(out, " {case} |");
    }
}

/// Time with RACK in that of another case.
fn ratio(runs: &Runs<'_>, other: &str, bytes: &str, loss: &str) -> f64 {
    mean(time(runs, RACK, bytes, loss)) / mean(time(runs, other, bytes, loss))
}

fn judge(runs: &Runs<'_>) -> Vec<Criterion> {
    let faster = SIZES.map(|(bytes, size)| {
        let ours = ratio(runs, AS_IT_STANDS, bytes, JUDGED);
        Criterion::new(
            format!(
                "{size} at {:.0} % loss: time with RACK-TLP in that of {AS_IT_STANDS}",
                percent(JUDGED)
            ),
            "at least 25 % less",
            format!("{:.1} % less", 100.0 * (1.0 - ours)),
            "<= 0.75",
            ours <= MOST_TIME,
        )
    });
    let mut out = Vec::from(faster);
    out.extend(
        OTHERS.iter().take(2).flat_map(|other| SIZES.map(|size| never_slower(runs, other, size))),
    );
    let points = RATES.iter().flat_map(|rate| REORDERED.map(|reorder| (rate.0, reorder)));
    let points = points.flat_map(|(rate, reorder)| ["0", JUDGED].map(|loss| (rate, reorder, loss)));
    let worst = points.map(|point| mean(spurious(runs, RACK, point))).fold(0.0, worse);
    out.push(Criterion::new(
        "reordering of up to 20 ms: most that RACK-TLP sends again for nothing",
        "under 1 % of the packets",
        format!("{:.2} %", 100.0 * worst),
        "< 1 %",
        worst < MOST_SPURIOUS,
    ));
    out
}

/// With loss RACK takes no longer than the other case.
fn never_slower(runs: &Runs<'_>, other: &str, (bytes, size): (&str, &str)) -> Criterion {
    let worst = LOSSES[1..].iter().map(|loss| ratio(runs, other, bytes, loss)).fold(0.0, worse);
    let at_judged = ratio(runs, other, bytes, JUDGED);
    Criterion::new(
        format!("{size}: largest time with RACK-TLP in that of {other}, over 1 to 10 % loss"),
        "not longer",
        format!("{worst:.2} (at {:.0} % loss {at_judged:.2})", percent(JUDGED)),
        "<= 1",
        worst <= 1.0,
    )
}
