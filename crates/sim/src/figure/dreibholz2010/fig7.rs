use super::{SIGMA, THROUGHPUT, mbps, ms, passes};
use crate::figure::curves::{Choice, Runs, worse};
use crate::figure::plot::{Chart, Panel};
use crate::figure::verdict::Criterion;

/// Mean over the streams of their mean delays: the paper averages "over all streams".
const DELAY: &str = "stream_delay_ms";

const CURVES: [(&str, Choice); 4] = [
    ("Σ=Fixed, ν=true", case("Fixed, NR-SACK")),
    ("Σ=Fixed, ν=false", case("Fixed, no NR-SACK")),
    ("Σ=Round-Robin, ν=true", case("Round-Robin, NR-SACK")),
    ("Σ=Round-Robin, ν=false", case("Round-Robin, no NR-SACK")),
];

const fn case(case: &'static str) -> Choice {
    Choice { case, with: &[] }
}

pub(super) fn draw(runs: &Runs<'_>) -> Chart {
    let panel = |figure, y_label: &str, published| {
        let curves = (1..)
            .zip(CURVES)
            .map(|(number, (name, choice))| runs.curve(number, name, choice, figure));
        Panel {
            title: String::new(),
            x_label: SIGMA.into(),
            y_label: y_label.into(),
            curves: curves.collect(),
            published,
            ..Panel::default()
        }
    };
    let title = "Seven streams over three paths (Figure 7)".into();
    let rates =
        [(1, 128.0, 20.0, "around 20"), (2, 256.0, 5.0, "above 5"), (4, 256.0, 3.0, "below 3")];
    let delays = [(1, 128.0, 60.0, "60"), (2, 256.0, 150.0, "150"), (4, 256.0, 600.0, "over 600")];
    let marks = |all: [(usize, f64, f64, &str); 3]| {
        all.map(|(curve, kib, y, text)| passes(curve, kib, y, text)).into()
    };
    let rate = panel(THROUGHPUT, "Throughput [Mbit/s]", marks(rates));
    let delay = panel(DELAY, "Average message delay [ms]", marks(delays));
    Chart { title, panels: vec![rate, delay] }
}

pub(super) fn judge(runs: &Runs<'_>) -> Vec<Criterion> {
    let rate = |curve: usize, kib| runs.mean(CURVES[curve - 1].1, THROUGHPUT, kib);
    let delay = |curve: usize, kib| runs.mean(CURVES[curve - 1].1, DELAY, kib);
    let [r1, r2, r3, r4] = [1, 2, 3, 4].map(|curve| rate(curve, 256.0));
    let (d2, d4) = (delay(2, 256.0), delay(4, 256.0));
    let (full, fast) = (rate(1, 128.0), delay(1, 128.0));
    let new = |what: &str, published: &str, ours: String, tolerance: &str, met: bool| {
        Criterion::new(what, published, ours, tolerance, met)
    };
    vec![
        new("curve 4 at 256 KiB: throughput", "below 3 Mbit/s", mbps(r4), "< 3.0", r4 < 3.0),
        new("curve 4 at 256 KiB: delay", "more than 600 ms", ms(d4), "> 600", d4 > 600.0),
        new(
            "curve 2 at 256 KiB: throughput",
            "slightly above 5 Mbit/s",
            mbps(r2),
            "5.0 to 6.0",
            (5.0..=6.0).contains(&r2),
        ),
        new(
            "curve 2 at 256 KiB: delay",
            "around 150 ms",
            ms(d2),
            "130 to 175",
            (130.0..=175.0).contains(&d2),
        ),
        new(
            "curve 1 at 128 KiB: throughput",
            "around 20 Mbit/s",
            mbps(full),
            ">= 19.8",
            full >= 19.8,
        ),
        new(
            "curve 1 at 128 KiB: delay",
            "around 60 ms",
            ms(fast),
            "40 to 75",
            (40.0..=75.0).contains(&fast),
        ),
        new(
            "NR-SACK with round robin at 256 KiB",
            "only a small effect",
            format!("{:+.1} %", (r3 / r4 - 1.0) * 100.0),
            "15 %",
            (r3 / r4 - 1.0).abs() < 0.15,
        ),
        new(
            "order at 256 KiB: 1 > 2 > 3 >= 4",
            "as in the figure",
            format!("{r1:.2}, {r2:.2}, {r3:.2}, {r4:.2} Mbit/s"),
            "order",
            r1 > r2 && r2 > r3 && r3 >= r4,
        ),
        new(
            "delay: curve 1 at 128 KiB < curve 2 < curve 4 at 256 KiB",
            "reduced, and further reduced",
            format!("{fast:.0} < {d2:.0} < {d4:.0} ms"),
            "order",
            fast < d2 && d2 < d4,
        ),
        no_disadvantage(runs),
    ]
}

/// NR-SACK costs throughput at no size, with neither scheduling.
fn no_disadvantage(runs: &Runs<'_>) -> Criterion {
    let ratio = |with: usize, kib| {
        let rate = |curve: usize| runs.mean(CURVES[curve - 1].1, THROUGHPUT, kib);
        rate(with) / rate(with + 1)
    };
    let sizes = runs.buffers(CURVES[0].1);
    let least = sizes.iter().flat_map(|kib| [1, 3].map(|with| -ratio(with, *kib)));
    let least = -least.fold(f64::NEG_INFINITY, worse);
    Criterion::new(
        "least throughput with NR-SACK over that without, all sizes",
        "no disadvantages with this optimization",
        format!("{least:.3}"),
        ">= 0.98",
        least >= 0.98,
    )
}
