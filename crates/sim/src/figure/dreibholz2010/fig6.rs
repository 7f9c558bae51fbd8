use super::{PAYLOAD_SHARE, SIGMA, fixed, from_size, level, mbps, round_robin};
use crate::figure::curves::worse;
use crate::figure::curves::{Choice, Runs};
use crate::figure::plot::{Chart, Mark, Panel};
use crate::figure::verdict::Criterion;

const STREAMS: [&str; 2] = ["s0_throughput_mbps", "s1_throughput_mbps"];

/// Curves of round robin, the mean of both rates in Mbit/s, and Equation 1 in KiB.
const ROUND_ROBIN: [(usize, f64, f64); 2] = [(5, 17.5, 85.4), (6, 30.0, 146.5)];

const CURVES: [(&str, Choice); 6] = [
    ("Σ=Fixed, ρB=25 Mbit/s", fixed(&[("path.B.rate", "25000000")])),
    ("Σ=Fixed, ρB=50 Mbit/s", fixed(&[("path.B.rate", "50000000")])),
    ("Σ=Fixed with API extension, ρB=25 Mbit/s", informed(&[("path.B.rate", "25000000")])),
    ("Σ=Fixed with API extension, ρB=50 Mbit/s", informed(&[("path.B.rate", "50000000")])),
    ("Σ=Round-Robin, ρB=25 Mbit/s", round_robin(&[("path.B.rate", "25000000")])),
    ("Σ=Round-Robin, ρB=50 Mbit/s", round_robin(&[("path.B.rate", "50000000")])),
];

const fn informed(with: &'static [(&'static str, &'static str)]) -> Choice {
    Choice { case: "Fixed with API extension", with }
}

pub(super) fn draw(runs: &Runs<'_>) -> Chart {
    let panel = |stream: usize| {
        let curves = (1..)
            .zip(CURVES)
            .map(|(number, (name, choice))| runs.curve(number, name, choice, STREAMS[stream]));
        Panel {
            title: format!("Stream #{stream}"),
            x_label: SIGMA.into(),
            y_label: "Bit rate [Mbit/s]".into(),
            curves: curves.collect(),
            published: published(stream),
            ..Panel::default()
        }
    };
    let title = "Per-stream bit rate on bandwidth dissimilarity (Figure 6)".into();
    Chart { title, panels: vec![panel(0), panel(1)] }
}

/// Payload that each stream should get: rates of links less headers.
fn published(stream: usize) -> Vec<Mark> {
    let mut out = vec![level(1, 10.0 * PAYLOAD_SHARE, "ρA")];
    if stream == 1 {
        out.push(level(3, 25.0 * PAYLOAD_SHARE, "ρB=25 Mbit/s"));
        out.push(level(4, 50.0 * PAYLOAD_SHARE, "ρB=50 Mbit/s"));
    }
    for (curve, mean, equation_1) in ROUND_ROBIN {
        out.push(level(curve, mean * PAYLOAD_SHARE, "(ρA + ρB) / 2"));
        out.push(from_size(curve, equation_1, "Equation 1"));
    }
    out
}

pub(super) fn judge(runs: &Runs<'_>) -> Vec<Criterion> {
    let mut out = Vec::new();
    out.extend([1, 2].map(|curve| limited_by_the_slow_path(runs, curve)));
    // Equation 2 of the notes and one step of the sizes that are simulated.
    out.push(informed_sender(runs, 3, 25.0, 160.0));
    out.push(informed_sender(runs, 4, 50.0, 288.0));
    // The first simulated size above Equation 1, and one far beyond.
    out.push(asymptote(runs, 5, 17.5, 96.0, "Equation 1"));
    out.push(asymptote(runs, 6, 30.0, 160.0, "Equation 1"));
    out.push(asymptote(runs, 5, 17.5, 1280.0, "far beyond Equation 1"));
    out.push(asymptote(runs, 6, 30.0, 3072.0, "far beyond Equation 1"));
    out.extend([5, 6].map(|curve| equal_streams(runs, curve)));
    out
}

fn rate(runs: &Runs<'_>, curve: usize, stream: usize, kib: f64) -> f64 {
    runs.mean(CURVES[curve - 1].1, STREAMS[stream], kib)
}

/// Without knowledge of the queues both streams run at the slow path's rate.
fn limited_by_the_slow_path(runs: &Runs<'_>, curve: usize) -> Criterion {
    let slow = 10.0 * PAYLOAD_SHARE;
    let sizes = runs.buffers(CURVES[curve - 1].1).into_iter().filter(|kib| *kib >= 64.0);
    let both = sizes.clone().flat_map(|kib| [0, 1].map(|stream| rate(runs, curve, stream, kib)));
    let ahead =
        sizes.clone().map(|kib| rate(runs, curve, 1, kib) / rate(runs, curve, 0, kib) - 1.0);
    let ahead = ahead.fold(f64::NEG_INFINITY, worse);
    let (mut least, mut most) = (f64::INFINITY, 0.0);
    for rate in both {
        least = -worse(-least, -rate);
        most = worse(most, rate);
    }
    Criterion::new(
        format!("curve {curve}: neither stream gets more than the slow path gives"),
        "around 10 Mbit/s of link rate, 9.63 of payload",
        format!("{least:.2} to {}, #1 at most {:+.2} % ahead of #0", mbps(most), ahead * 100.0),
        "2 %; 3 %",
        least >= 0.98 * slow && most <= 1.02 * slow && ahead <= 0.03,
    )
}

/// With it the fast path is full.
fn informed_sender(runs: &Runs<'_>, curve: usize, rate_b: f64, from: f64) -> Criterion {
    let sizes: Vec<f64> =
        runs.buffers(CURVES[curve - 1].1).into_iter().filter(|kib| *kib >= from).collect();
    let least = |rate: &dyn Fn(f64) -> f64| {
        -sizes.iter().map(|kib| -rate(*kib)).fold(f64::NEG_INFINITY, worse)
    };
    let [slow, fast] = [0, 1].map(|stream| least(&|kib| rate(runs, curve, stream, kib)));
    let both = least(&|kib| rate(runs, curve, 0, kib) + rate(runs, curve, 1, kib));
    let most = sizes.iter().map(|kib| rate(runs, curve, 1, *kib)).fold(0.0, worse);
    let full = rate_b * PAYLOAD_SHARE;
    let met = fast >= 0.98 * full
        && most <= 1.02 * full
        && both >= 0.98 * (rate_b + 10.0) * PAYLOAD_SHARE;
    Criterion::new(
        format!("curve {curve}: both paths are full from {from} KiB on"),
        "nearly ρA + ρB",
        format!("at least {slow:.2} + {}", mbps(fast)),
        "2 %",
        met,
    )
}

/// Round robin gets to the mean of both paths, if the buffer is large enough.
fn asymptote(runs: &Runs<'_>, curve: usize, mean: f64, from: f64, what: &str) -> Criterion {
    let ours = rate(runs, curve, 0, from);
    let full = mean * PAYLOAD_SHARE;
    Criterion::new(
        format!("curve {curve}: each stream gets (ρA + ρB) / 2 at {from} KiB, {what}"),
        &format!("nearly (ρA + ρB) / 2, {full:.2} Mbit/s of payload"),
        mbps(ours),
        "4 %",
        (ours / full - 1.0).abs() <= 0.04,
    )
}

fn equal_streams(runs: &Runs<'_>, curve: usize) -> Criterion {
    let sizes = runs.buffers(CURVES[curve - 1].1);
    let apart = sizes
        .iter()
        .map(|kib| (rate(runs, curve, 0, *kib) / rate(runs, curve, 1, *kib) - 1.0).abs());
    let apart = apart.fold(0.0, worse);
    Criterion::new(
        format!("curve {curve}: both streams get the same"),
        "equally split",
        format!("{:.2} % apart", apart * 100.0),
        "1 %",
        apart <= 0.01,
    )
}
