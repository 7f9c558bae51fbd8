use super::{DELAYS, SIGMA, ms};
use crate::figure::curves::Runs;
use crate::figure::curves::worse;
use crate::figure::plot::{Chart, Panel};
use crate::figure::verdict::Criterion;

const STREAMS: [&str; 2] = ["s0_delay_ms", "s1_delay_ms"];

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
            groups: Vec::new(),
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
    for curve in 4..=6 {
        let wide = sizes.iter().filter(|kib| **kib >= 96.0);
        let apart = wide.map(|kib| (delay(curve, 0, *kib) / delay(curve, 1, *kib) - 1.0).abs());
        let apart = apart.fold(0.0, worse);
        out.push(Criterion::new(
            format!("curve {curve}: both streams have the same delay from 96 KiB on"),
            "both streams having similar message delays",
            format!("{:.1} % apart", apart * 100.0),
            "10 %",
            apart <= 0.1,
        ));
    }
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
    out.extend([1, 4].map(|curve| line(runs, curve)));
    out.extend(
        [(1, 48.8), (2, 146.5), (3, 207.5)].map(|(curve, from)| same_rate(runs, curve, from)),
    );
    out
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
/// thousand bytes. What one stream waits longer the other one waits less, so both are looked at.
fn line(runs: &Runs<'_>, curve: usize) -> Criterion {
    let choice = DELAYS[curve - 1].1;
    let delay =
        |kib| STREAMS.iter().map(|stream| runs.mean(choice, stream, kib)).sum::<f64>() / 2.0;
    let sizes = runs.buffers(choice).into_iter().filter(|kib| *kib >= 96.0);
    let points: Vec<_> = sizes.map(|kib| (kib, delay(kib))).collect();
    let (slope, off) = fit(&points);
    Criterion::new(
        format!("curve {curve} rises linearly from 96 KiB on"),
        "linearly; 0.425 ms per KiB at 19.27 Mbit/s",
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
