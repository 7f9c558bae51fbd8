use super::{DELAYS, SIGMA, THROUGHPUT, from_size, level, mbps, passes};
use crate::figure::curves::{Runs, worse};
use crate::figure::plot::{Chart, Panel};
use crate::figure::verdict::Criterion;

/// "The expected payload throughput of around 19.2 Mbit/s".
const FULL: f64 = 18.9;

pub(super) fn draw(runs: &Runs<'_>) -> Chart {
    let curves = (1..)
        .zip(DELAYS)
        .map(|(number, (name, choice))| runs.curve(number, name, choice, THROUGHPUT));
    let panel = Panel {
        title: String::new(),
        x_label: SIGMA.into(),
        y_label: "Throughput [Mbit/s]".into(),
        curves: curves.collect(),
        published: vec![
            level(0, 19.2, "around 19.2 Mbit/s"),
            passes(1, 64.0, 19.2, ""),
            from_size(3, 224.0, "3 full from 224 KiB"),
            from_size(6, 288.0, "6 full from 288 KiB"),
        ],
        ..Panel::default()
    };
    let title = "Throughput on dissimilar delay paths (Figure 4)".into();
    Chart { title, panels: vec![panel] }
}

pub(super) fn judge(runs: &Runs<'_>) -> Vec<Criterion> {
    let at = |curve: usize, kib: f64| runs.mean(DELAYS[curve - 1].1, THROUGHPUT, kib);
    let full = "around 19.2 Mbit/s";
    let reaches = |curve: usize, kib: f64| {
        let ours = at(curve, kib);
        let criterion = format!("curve {curve} is full at {kib} KiB");
        Criterion::new(criterion, full, mbps(ours), ">= 18.9 Mbit/s", ours >= FULL)
    };
    let not_yet = |curve: usize, kib: f64, published: &str| {
        let ours = at(curve, kib);
        let criterion = format!("curve {curve} is not yet full at {kib} KiB");
        Criterion::new(criterion, published, mbps(ours), "< 18.5 Mbit/s", ours < 18.5)
    };
    let mut out = vec![reaches(1, 64.0), reaches(4, 64.0)];
    out.push(not_yet(3, 192.0, "the full bandwidth for 224 KiB"));
    out.push(reaches(3, 224.0));
    out.push(not_yet(6, 256.0, "288 KiB is required"));
    out.push(reaches(6, 288.0));
    out.extend([(2, 5), (3, 6)].map(|(fixed, rr)| knees(runs, fixed, rr)));
    out.push(equal_at_equal_delays(runs));
    out
}

/// Fixed mapping needs less buffer than round robin where the delays differ.
fn knees(runs: &Runs<'_>, fixed: usize, round_robin: usize) -> Criterion {
    let knee = |curve: usize| runs.knee(DELAYS[curve - 1].1, THROUGHPUT, FULL);
    let (a, b) = (knee(fixed), knee(round_robin));
    let show = |knee: Option<f64>| knee.map_or("never".to_owned(), |kib| format!("{kib} KiB"));
    let published = if fixed == 3 { "224 KiB and 288 KiB" } else { "Fixed before Round-Robin" };
    let met = a.is_some_and(|a| b.is_none_or(|b| a < b));
    let criterion = format!("curve {fixed} is full before curve {round_robin}");
    Criterion::new(criterion, published, format!("{} and {}", show(a), show(b)), "order", met)
}

fn equal_at_equal_delays(runs: &Runs<'_>) -> Criterion {
    let at = |curve: usize, kib: f64| runs.mean(DELAYS[curve - 1].1, THROUGHPUT, kib);
    let sizes = runs.buffers(DELAYS[0].1).into_iter().filter(|kib| *kib >= 64.0);
    let worst = sizes.map(|kib| (at(1, kib) / at(4, kib) - 1.0).abs()).fold(0.0, worse);
    Criterion::new(
        "curves 1 and 4 are the same from 64 KiB on",
        "regardless of the scheduling policy",
        format!("{:.2} % apart", worst * 100.0),
        "< 2 %",
        worst < 0.02,
    )
}
