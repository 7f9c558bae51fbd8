//! Rapier, Stevens: "Application Layer Network Window Management in the SSH Protocol", 2004: what a
//! channel carries over the round trip, by the rule of its window.

use super::catalogue::{Figure, no_details};
use super::curves::{Runs, mean, worse};
use super::plot::{Chart, Curve, Panel, Point};
use super::verdict::Criterion;
use crate::campaign::{Record, Summary, summarise};

/// The one figure.
pub(super) const FIGURES: &[Figure] = &[Figure {
    name: "rapier-windows",
    title: "Windows of SSH channels over the round trip",
    scenario: include_str!("../../../../papers/rapier-windows/scenario.toml"),
    file: "papers/rapier-windows/scenario.toml",
    notes: include_str!("../../../../papers/rapier-windows/notes.md"),
    draw,
    details: no_details,
    judge,
}];

const FULL_64: &str = "64 KiB";
const HALF_64: &str = "64 KiB, refreshed at half";
const HALF_128: &str = "128 KiB, refreshed at half";
const OPENSSH: &str = "2 MiB (OpenSSH)";
const HPN: &str = "receive buffer (HPN-SSH)";
const DYNAMIC: &str = "dynamic";
const CASES: [&str; 6] = [FULL_64, HALF_64, HALF_128, OPENSSH, HPN, DYNAMIC];
/// One-way delays of the sweep, in seconds.
const DELAYS: [&str; 5] = ["0.0001", "0.01", "0.04", "0.075", "0.15"];
/// That of the paper's example, 80 ms there and back.
const EXAMPLE: &str = "0.04";
const KIB: f64 = 1024.0;
/// What a packet of the channel adds to the round trip at 500 Mbit/s, headers included.
const PACKET_TIME: f64 = 0.000_55;

/// `figure` of a case: of a setup, and there with this delay.
fn of(
    runs: &Runs<'_>,
    (setup, case): (&str, &str),
    delay: &str,
    figure: fn(&Record) -> f64,
) -> Option<Summary> {
    let chosen = runs.all().filter(|record| {
        record.setup == setup
            && record.case == case
            && record.parameter("path.A.delay") == Some(delay)
    });
    summarise(chosen.map(figure))
}

fn throughput(record: &Record) -> f64 {
    record.figure("throughput_mbps")
}

fn ceiling(record: &Record) -> f64 {
    record.figure("ceiling_mbps")
}

fn rate(runs: &Runs<'_>, case: &str, delay: &str) -> f64 {
    mean(of(runs, ("one path", case), delay, throughput))
}

/// There and back, in seconds.
fn round_trip(delay: &str) -> f64 {
    2.0 * delay.parse::<f64>().unwrap_or(f64::NAN)
}

fn draw(runs: &Runs<'_>) -> Chart {
    let curve = |(number, case): (usize, &'static str)| {
        let point = |delay: &&str| {
            let summary = of(runs, ("one path", case), delay, throughput)?;
            let Summary { mean: y, half_width: error, count, .. } = summary;
            Some(Point { x: round_trip(delay) * 1e3, y, error, count })
        };
        Curve { number, name: case.to_owned(), points: DELAYS.iter().filter_map(point).collect() }
    };
    let panel = Panel {
        title: String::new(),
        x_label: "Round trip [ms]".into(),
        y_label: "Throughput of a channel [Mbit/s]".into(),
        curves: (1..).zip(CASES).map(curve).collect(),
        ..Panel::default()
    };
    Chart { title: "Windows of SSH channels, path of 500 Mbit/s".into(), panels: vec![panel] }
}

fn judge(runs: &Runs<'_>) -> Vec<Criterion> {
    vec![
        law(runs, FULL_64, 64.0),
        law(runs, OPENSSH, 2048.0),
        usable_half(runs),
        gain(runs),
        full(runs),
        two_paths(runs),
    ]
}

/// A static window is carried once per round trip, where the path is not the limit.
fn law(runs: &Runs<'_>, case: &str, window_kib: f64) -> Criterion {
    let off = |delay: &&str| {
        let round_trip = round_trip(delay) + PACKET_TIME;
        let theory = window_kib * KIB * 8.0 / round_trip / 1e6;
        let path = mean(of(runs, ("one path", case), delay, ceiling));
        // NaN stays, and is no agreement.
        (theory < 0.9 * path || path.is_nan())
            .then(|| (rate(runs, case, delay) / theory - 1.0).abs())
    };
    let worst = DELAYS.iter().filter_map(off).fold(0.0, worse);
    Criterion::new(
        format!("{case}: throughput against window/RTT for {window_kib} KiB"),
        "no more than window/RTT",
        format!("{:.1} % apart", 100.0 * worst),
        "< 5 %",
        worst < 0.05,
    )
}

/// "the maximum effective buffer is half": between a half and all of it.
fn usable_half(runs: &Runs<'_>) -> Criterion {
    let theory = 128.0 * KIB * 8.0 / (round_trip(EXAMPLE) + PACKET_TIME) / 1e6;
    let usable = rate(runs, HALF_128, EXAMPLE) / theory;
    Criterion::new(
        "part of 128 KiB that is usable with a refresh at half, at 80 ms",
        "half",
        format!("{usable:.2}"),
        "0.5 to 0.8",
        (0.5..=0.8).contains(&usable),
    )
}

fn gain(runs: &Runs<'_>) -> Criterion {
    let gain = rate(runs, DYNAMIC, EXAMPLE) / rate(runs, HALF_64, EXAMPLE);
    Criterion::new(
        "dynamic against 64 KiB refreshed at half, at 80 ms",
        "15 to 195 Mbit/s, limited by the processors",
        format!("x{gain:.0}"),
        ">= x75",
        gain >= 75.0,
    )
}

fn full(runs: &Runs<'_>) -> Criterion {
    let part = |delay: &&str| {
        rate(runs, DYNAMIC, delay) / mean(of(runs, ("one path", DYNAMIC), delay, ceiling))
    };
    let least = DELAYS.iter().map(part).fold(f64::INFINITY, |a, b| -worse(-a, -b));
    Criterion::new(
        "dynamic: least part of what the path can carry, over all round trips",
        "window and path are matched",
        format!("{least:.3}"),
        ">= 0.95",
        least >= 0.95,
    )
}

fn two_paths(runs: &Runs<'_>) -> Criterion {
    let of = |figure| mean(of(runs, ("two paths", DYNAMIC), EXAMPLE, figure));
    let part = of(throughput) / of(ceiling);
    Criterion::new(
        "dynamic: part of what two paths of 80 and 20 ms can carry together",
        "not in the paper",
        format!("{part:.3}"),
        ">= 0.95",
        part >= 0.95,
    )
}
