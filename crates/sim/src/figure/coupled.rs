//! Congestion controls that couple paths: what they take at a common bottleneck, on paths of their own, and in scenario C of
//! the OLIA paper, against the laws that their authors derive.

use super::catalogue::Figure;
use super::curves::{Runs, mean, worse};
use super::plot::{Chart, Curve, Mark, Panel, Point};
use super::verdict::Criterion;
use crate::campaign::{Record, Summary, summarise};
use std::fmt::Write;

/// The one figure.
pub(super) const FIGURES: &[Figure] = &[Figure {
    name: "coupled",
    title: TITLE,
    scenario: include_str!("../../../../papers/coupled/scenario.toml"),
    file: "papers/coupled/scenario.toml",
    notes: include_str!("../../../../papers/coupled/notes.md"),
    draw,
    details,
    judge,
}];

const TITLE: &str = "Congestion controls that couple paths";
const UNCOUPLED: &str = "rfc9260";
const COUPLED: [&str; 3] = ["rpv2", "lia", "olia"];
const CASES: [&str; 4] = [UNCOUPLED, "rpv2", "lia", "olia"];

/// Flows beside the association at the common bottleneck.
const FLOWS: [&str; 4] = ["1", "2", "4", "8"];

/// Scenario C: link rates of path A; what B has for each of its own users, and how many users each side has.
const RATES: [&str; 4] = ["10000000", "20000000", "30000000", "40000000"];
const RATE_B: f64 = 20e6;
const USERS: f64 = 10.0;
/// Payload of a packet; the round trip without queues, with part of the access networks' jitter.
const PACKET_BITS: f64 = 1444.0 * 8.0;
const ROUND_TRIP_S: f64 = 0.145;

fn of(
    runs: &Runs<'_>,
    (setup, case): (&str, &str),
    with: Option<(&str, &str)>,
    value: fn(&Record) -> f64,
) -> Option<Summary> {
    let chosen = runs.all().filter(|record| {
        let fits = with.is_none_or(|(name, value)| record.parameter(name) == Some(value));
        record.setup == setup && record.case == case && fits
    });
    summarise(chosen.map(value))
}

/// What the association gets, in parts of what one of the flows beside it gets.
fn advantage(runs: &Runs<'_>, case: &str, flows: &str) -> Option<Summary> {
    of(runs, ("shared", case), Some(("competitor.flow.flows", flows)), |record| {
        record.figure("throughput_mbps")
            / (record.figure("flow_throughput_mbps") / flows_of(record))
    })
}

fn flows_of(record: &Record) -> f64 {
    record.parameter("competitor.flow.flows").and_then(|n| n.parse().ok()).unwrap_or(f64::NAN)
}

/// What a user of path B alone gets in scenario C, in parts of what is there for each of them.
fn single_user(runs: &Runs<'_>, case: &str, rate: &str) -> Option<Summary> {
    of(runs, ("scenario C", case), Some(("path.A.rate", rate)), |record| {
        record.figure("single_throughput_mbps") * 1e6 / payload(RATE_B)
    })
}

/// What a user of both paths gets, in the same parts.
fn double_user(runs: &Runs<'_>, case: &str, rate: &str) -> Option<Summary> {
    of(runs, ("scenario C", case), Some(("path.A.rate", rate)), |record| {
        let alike = record.figure("alike_throughput_mbps") + record.figure("throughput_mbps");
        alike * 1e6 / payload(RATE_B)
    })
}

/// Of a link's rate, with IPv4, UDP, SCTP and DATA chunk headers.
fn payload(rate: f64) -> f64 {
    rate * 1444.0 / 1500.0
}

/// C1/C2 of scenario C.
fn ratio_of_capacities(rate: &str) -> f64 {
    rate.parse::<f64>().unwrap_or(f64::NAN) / RATE_B
}

/// The law of LIA for a user of path B alone, in parts of C2.
fn law_of_lia(ratio: f64) -> f64 {
    let z = root(1.0 / ratio);
    ratio * z * (1.0 + z * z)
}

/// The root of `z^3 + z^2 + z = right`, between 0 and 1, by halves.
fn root(right: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let z = f64::midpoint(low, high);
        *(if z * (z * (z + 1.0) + 1.0) < right { &mut low } else { &mut high }) = z;
    }
    low
}

/// The best for a user of path B alone: the others only look, with one packet per round trip.
fn optimum() -> f64 {
    1.0 - PACKET_BITS / ROUND_TRIP_S / (payload(RATE_B) / USERS)
}

fn draw(runs: &Runs<'_>) -> Chart {
    let at = |curve, x, y, text: &str| Mark { curve, x, y: Some(y), text: text.into() };
    let shared = Panel {
        title: "Two paths, one bottleneck".into(),
        x_label: "Flows of one path".into(),
        y_label: "Goodput in parts of such a flow's".into(),
        curves: curves(&FLOWS, number, |case, flows| advantage(runs, case, flows)),
        published: vec![at(0, None, 1.0, "one flow's part")],
        ..Panel::default()
    };
    let laws = RATES.iter().flat_map(|rate| {
        let ratio = ratio_of_capacities(rate);
        // The names once, where there is room for them.
        let name = |name| if *rate == RATES[0] { name } else { "" };
        [
            at(3, Some(ratio), law_of_lia(ratio), name("law of LIA")),
            at(4, Some(ratio), optimum(), name("optimum")),
        ]
    });
    let single = Panel {
        title: "Scenario C: users of path B alone".into(),
        x_label: "C1/C2".into(),
        y_label: "Goodput of one in parts of C2".into(),
        curves: curves(&RATES, ratio_of_capacities, |case, rate| single_user(runs, case, rate)),
        published: laws.collect(),
        ..Panel::default()
    };
    let double = Panel {
        title: "Scenario C: users of both paths".into(),
        x_label: "C1/C2".into(),
        y_label: "Goodput of one in parts of C2".into(),
        curves: curves(&RATES, ratio_of_capacities, |case, rate| double_user(runs, case, rate)),
        ..Panel::default()
    };
    Chart { title: TITLE.into(), panels: vec![shared, single, double] }
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

/// A curve for each case.
fn curves(
    xs: &[&str],
    place: fn(&str) -> f64,
    value: impl Fn(&str, &str) -> Option<Summary>,
) -> Vec<Curve> {
    let curve = |(number, case): (usize, &'static str)| {
        let point = |x: &&str| {
            let Summary { count, mean: y, half_width: error, .. } = value(case, x)?;
            Some(Point { x: place(x), y, error, count })
        };
        Curve { number, name: case.to_owned(), points: xs.iter().filter_map(point).collect() }
    };
    (1..).zip(CASES).map(curve).collect()
}

fn apart(runs: &Runs<'_>, case: &str) -> f64 {
    mean(of(runs, ("apart", case), None, |record| record.figure("throughput_mbps")))
}

/// What the association gets beside few flows on a short path and many on a long one, and one of the few.
fn best(runs: &Runs<'_>, case: &str) -> (f64, f64) {
    let own = of(runs, ("best", case), None, |record| record.figure("throughput_mbps"));
    let few = of(runs, ("best", case), None, |record| record.figure("few_throughput_mbps") / 4.0);
    (mean(own), mean(few))
}

fn details(runs: &Runs<'_>) -> String {
    let mut out = String::from(
        "Goodput in Mbit/s on two paths of 10 Mbit/s without other traffic; and beside 4 flows on the shorter of two and 9 on the \
         longer, with that of one of the 4.\n\n| control | apart | beside others | one of the 4 |\n|---|---|---|---|\n",
    );
    for case in CASES {
        let (own, few) = best(runs, case);
        // Memory takes everything.
        let _ = writeln!(out, "| {case} | {:.2} | {own:.2} | {few:.2} |", apart(runs, case));
    }
    out
}

fn judge(runs: &Runs<'_>) -> Vec<Criterion> {
    let mut out = Vec::new();
    for case in COUPLED {
        out.push(takes_the_part_of_one(runs, case));
        out.push(loses_nothing_apart(runs, case));
    }
    out.push(as_on_the_best_path(runs));
    out.push(law(runs, "lia", "C1 z (1 + z^2), z^3 + z^2 + z = C2/C1", law_of_lia));
    out.push(law(runs, "olia", "C2 - MSS/RTT", |_| optimum()));
    out.push(olia_leaves_more(runs));
    out
}

/// RFC 6356, goal 2; CMT/RPv2.
fn takes_the_part_of_one(runs: &Runs<'_>, case: &str) -> Criterion {
    let parts = FLOWS.map(|flows| mean(advantage(runs, case, flows)));
    let uncoupled = FLOWS.map(|flows| mean(advantage(runs, UNCOUPLED, flows)));
    let off = parts.iter().map(|part| (part - 1.0).abs()).fold(0.0, worse);
    Criterion::new(
        format!(
            "{case}: goodput over two paths through one bottleneck in parts of a flow's, beside 1, 2, 4 and 8"
        ),
        "1",
        format!("{} ({UNCOUPLED}: {})", list(&parts), list(&uncoupled)),
        "0.75 to 1.25",
        off <= 0.25,
    )
}

/// Resource pooling on disjoint paths.
fn loses_nothing_apart(runs: &Runs<'_>, case: &str) -> Criterion {
    let part = apart(runs, case) / apart(runs, UNCOUPLED);
    Criterion::new(
        format!("{case}: goodput on two paths without others in parts of that of {UNCOUPLED}"),
        "1",
        format!("{part:.3}"),
        ">= 0.95",
        part >= 0.95,
    )
}

/// RFC 6356, goal 1.
fn as_on_the_best_path(runs: &Runs<'_>) -> Criterion {
    let (own, few) = best(runs, "lia");
    Criterion::new(
        "lia: goodput in parts of that of a flow on the better path",
        "at least 1",
        format!("{:.2}", own / few),
        ">= 0.9",
        own >= 0.9 * few,
    )
}

/// What users of path B alone get in scenario C.
fn law(runs: &Runs<'_>, case: &str, published: &str, law: fn(f64) -> f64) -> Criterion {
    let ours = RATES.map(|rate| mean(single_user(runs, case, rate)));
    let laws = RATES.map(|rate| law(ratio_of_capacities(rate)));
    let off = ours.iter().zip(laws).map(|(ours, law)| (ours / law - 1.0).abs()).fold(0.0, worse);
    Criterion::new(
        format!(
            "{case}, scenario C: goodput of a user of B alone in parts of C2, at C1/C2 of 0.5, 1, 1.5 and 2"
        ),
        &format!("{published}: {}", list(&laws)),
        list(&ours),
        "within 15 %",
        off <= 0.15,
    )
}

/// The claim of the OLIA paper.
fn olia_leaves_more(runs: &Runs<'_>) -> Criterion {
    let gains = RATES
        .map(|rate| mean(single_user(runs, "olia", rate)) / mean(single_user(runs, "lia", rate)));
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    Criterion::new(
        "scenario C: goodput of a user of B alone beside OLIA in parts of that beside LIA",
        "more than 1",
        list(&gains),
        "> 1 at each",
        least > 1.0 && gains.iter().all(|gain| gain.is_finite()),
    )
}

fn list(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.2}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::{law_of_lia, optimum, root};

    /// At C1 = C2 the root of z^3 + z^2 + z = 1 is the inverse of the tribonacci constant.
    #[test]
    fn laws_of_scenario_c() {
        assert!((root(1.0) - 0.543_689).abs() < 1e-6);
        assert!((law_of_lia(1.0) - 0.704_402).abs() < 1e-5);
        assert!((root(3.0) - 1.0).abs() < 1e-9);
        assert!((0.9..1.0).contains(&optimum()));
    }
}
