use super::{DELAYS, SIGMA, from_size, ms};
use crate::campaign::Record;
use crate::figure::curves::{Runs, mean, worse};
use crate::figure::plot::{Chart, Panel};
use crate::figure::verdict::Criterion;

const STREAMS: [&str; 2] = ["s0_delay_ms", "s1_delay_ms"];

/// Where the delay begins to rise linearly: Equation 1 for each delay of path B, in KiB.
const EQUATION_1: [(usize, f64, &str); 3] = [
    (1, 48.8, "Equation 1, δB=10 ms"),
    (2, 146.5, "Equation 1, δB=50 ms"),
    (3, 207.5, "Equation 1, δB=75 ms"),
];

pub(super) fn draw(runs: &Runs<'_>) -> Chart {
    let panel = |stream: usize| {
        let curves = (1..)
            .zip(DELAYS)
            .map(|(number, (name, choice))| runs.curve(number, name, choice, STREAMS[stream]));
        Panel {
            title: format!("Stream #{stream}"),
            x_label: SIGMA.into(),
            y_label: "Average message delay [ms]".into(),
            curves: curves.collect(),
            published: EQUATION_1.map(|(curve, kib, text)| from_size(curve, kib, text)).into(),
            ..Panel::default()
        }
    };
    let title = "Per-stream average message delay on dissimilar delay paths (Figure 5)".into();
    Chart { title, panels: vec![panel(0), panel(1)] }
}

pub(super) fn judge(runs: &Runs<'_>) -> Vec<Criterion> {
    let delay = |curve: usize, stream: usize, kib: f64| {
        runs.mean(DELAYS[curve - 1].1, STREAMS[stream], kib)
    };
    let sizes = runs.buffers(DELAYS[0].1);
    let mut out = Vec::new();
    out.extend([1, 4, 5, 6].map(|curve| alike(runs, curve)));
    for curve in [2, 3] {
        let ratio = sizes.iter().map(|kib| delay(curve, 0, *kib) / delay(curve, 1, *kib));
        let ratio = ratio.fold(0.0, worse);
        out.push(Criterion::new(
            format!("curve {curve}: stream #0 waits less than half as long as stream #1"),
            "significantly smaller",
            format!("at most {:.2} of it", ratio),
            "< 0.5",
            ratio < 0.5,
        ));
    }
    for (fixed, rr) in [(2, 5), (3, 6)] {
        let least = sizes.iter().map(|kib| delay(rr, 0, *kib) / delay(fixed, 0, *kib));
        let least = -least.map(|ratio| -ratio).fold(f64::NEG_INFINITY, worse);
        out.push(Criterion::new(
            format!("stream #0 waits longer in curve {rr} than in curve {fixed}"),
            "reduced delay",
            format!("at least {least:.2} times"),
            "> 1",
            least > 1.0,
        ));
    }
    out.extend((1..=DELAYS.len()).map(|curve| line(runs, curve)));
    out.extend(EQUATION_1.map(|(curve, from, _)| same_rate(runs, curve, from)));
    out
}

/// Both streams of a curve have the same delay. The paper shows means of runs; how far the streams of a run
/// are apart is told beside it.
fn alike(runs: &Runs<'_>, curve: usize) -> Criterion {
    let choice = DELAYS[curve - 1].1;
    let apart = |[first, second]: [f64; 2]| (first - second).abs() / first.min(second);
    let of_run = |record: &Record| apart(STREAMS.map(|stream| record.figure(stream)));
    let sizes: Vec<f64> = runs.buffers(choice).into_iter().filter(|kib| *kib >= 96.0).collect();
    let means = sizes.iter().map(|kib| apart(STREAMS.map(|s| runs.mean(choice, s, *kib))));
    let means = means.fold(0.0, worse);
    let of_runs = sizes.iter().map(|kib| mean(runs.at_by(choice, of_run, *kib)));
    let of_runs = of_runs.fold(0.0, worse);
    let published = match curve {
        1 | 4 => "no significant difference in the symmetric case",
        _ => "similar message delays",
    };
    Criterion::new(
        format!("curve {curve}: both streams have the same delay from 96 KiB on"),
        published,
        format!("{:.1} % apart (in a run {:.1} %)", means * 100.0, of_runs * 100.0),
        "10 %",
        means <= 0.1,
    )
}

/// Throughput of the streams of a fixed mapping, where Equation 1 holds.
fn same_rate(runs: &Runs<'_>, curve: usize, equation_1: f64) -> Criterion {
    let choice = DELAYS[curve - 1].1;
    let rate = |stream: &str, kib| runs.mean(choice, stream, kib);
    let apart =
        runs.buffers(choice).into_iter().filter(|kib| *kib > equation_1).map(|kib| {
            (rate("s0_throughput_mbps", kib) / rate("s1_throughput_mbps", kib) - 1.0).abs()
        });
    let apart = apart.fold(0.0, worse);
    Criterion::new(
        format!("curve {curve}: both streams have the same throughput once Equation 1 holds"),
        "the bandwidths of both streams remain equal",
        format!("{:.2} % apart", apart * 100.0),
        "2 %",
        apart <= 0.02,
    )
}

/// Above the knee the delay is the buffer at the rate of the paths (Little): 8 / 19.27 ms per
/// thousand bytes. That holds for the mean of both streams; each of them has to rise linearly. On equal
/// paths the knee is one step of the simulated sizes above Equation 1.
fn line(runs: &Runs<'_>, curve: usize) -> Criterion {
    let choice = DELAYS[curve - 1].1;
    let from = match EQUATION_1[(curve - 1) % EQUATION_1.len()].1 {
        equal if equal < 64.0 => 96.0,
        kib => kib,
    };
    let sizes: Vec<f64> = runs.buffers(choice).into_iter().filter(|kib| *kib >= from).collect();
    let lines = STREAMS.map(|stream| {
        fit(&sizes.iter().map(|kib| (*kib, runs.mean(choice, stream, *kib))).collect::<Vec<_>>())
    });
    let slope = (lines[0].0 + lines[1].0) / 2.0;
    let off = worse(lines[0].1, lines[1].1);
    Criterion::new(
        format!("curve {curve}: both streams' delays rise linearly from {from} KiB on"),
        "linearly, once σ exceeds Equation 1; 0.425 ms per KiB at 19.27 Mbit/s",
        format!("{slope:.3} ms per KiB, at most {} off the line", ms(off)),
        "5 %; 5 ms",
        (slope / 0.425 - 1.0).abs() <= 0.05 && off <= 5.0,
    )
}

/// The slope of the line of least squares, and how far from it a point is at most.
fn fit(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x0, y0) = (mean(|p| p.0), mean(|p| p.1));
    let xy: f64 = points.iter().map(|(x, y)| (x - x0) * (y - y0)).sum();
    let xx: f64 = points.iter().map(|(x, _)| (x - x0) * (x - x0)).sum();
    let slope = xy / xx;
    let off = points.iter().map(|(x, y)| (y - y0 - slope * (x - x0)).abs());
    (slope, off.fold(0.0, worse))
}
