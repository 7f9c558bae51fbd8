//! The published figures, reduced to the points that decide: the criteria are met with the options
//! of the paper, and are not met when one that matters is switched off.

use crate::support::execute;
use manypath_sim::campaign::Record;
use manypath_sim::figure::{Criterion, Figure, Runs, figures, plot, to_csv};
use manypath_sim::scenario::Plan;

fn figure(name: &str) -> &'static Figure {
    figures().iter().find(|figure| figure.name == name).unwrap()
}

/// Simulates a figure's scenario with some keys replaced.
fn simulate(figure: &Figure, set: &[(&str, &str)]) -> Vec<Record> {
    let short = [("seeds", "1"), ("warmup", "\"6s\""), ("measure", "\"15s\"")];
    let set: Vec<_> =
        short.iter().chain(set).map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let plan = Plan::parse(figure.scenario, figure.file, &set).unwrap_or_else(|e| panic!("{e}"));
    execute(&plan, &format!("figure-{}-{}", figure.name, set.len()))
}

/// The criteria that are not met.
fn missed(figure: &Figure, records: &[Record]) -> Vec<Criterion> {
    let verdict = (figure.judge)(&Runs::new(records));
    verdict.into_iter().filter(|criterion| !criterion.met).collect()
}

const FIG7_POINTS: (&str, &str) = ("sweep", "{ \"engine.buffer\" = [\"128KiB\", \"256KiB\"] }");

#[test]
fn every_published_figure_has_a_scenario_of_24_seeds_and_those_of_2010_of_300_s() {
    // Ours, one in which nothing is left to chance, and a search over many set-ups.
    let ours = ["manypath-dynamic", "loss-recovery", "rapier-windows", "lsfr-search"];
    for figure in figures().iter().filter(|figure| !ours.contains(&figure.name)) {
        let plan = Plan::parse(figure.scenario, figure.file, &[]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(plan.seeds.len(), 24, "{}", figure.name);
        let run = &plan.runs[0].scenario;
        if figure.name.starts_with("dreibholz2010") {
            let times = (run.measure.as_secs(), run.warmup.as_secs());
            assert_eq!(times, (300, 19), "{}", figure.name);
        }
        assert!(figure.notes.contains("What the paper"), "{}", figure.name);
    }
}

#[test]
fn figure_7_is_as_published() {
    let figure = figure("dreibholz2010-fig7");
    let records = simulate(figure, &[FIG7_POINTS]);
    let missed = missed(figure, &records);
    assert!(missed.is_empty(), "{missed:#?}");
    let chart = (figure.draw)(&Runs::new(&records));
    let csv = to_csv(&chart);
    // Two panels of four curves of two points.
    assert_eq!(csv.lines().count(), 1 + 2 * 4 * 2, "{csv}");
    let svg = plot::to_svg(&chart);
    assert!(svg.contains("1: Σ=Fixed, ν=true") && svg.ends_with("</svg>\n"));
    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
}

#[test]
fn figure_7_needs_the_split_by_queued_bytes() {
    let figure = figure("dreibholz2010-fig7");
    for split in ["none", "both-outstanding-equal"] {
        let split = format!("\"{split}\"");
        let records = simulate(figure, &[FIG7_POINTS, ("engine.buffer_split", &split)]);
        assert!(!missed(figure, &records).is_empty(), "{split}");
    }
}

#[test]
fn figure_6_needs_the_queue_information() {
    let figure = figure("dreibholz2010-fig6");
    let points = ("sweep", "{ \"path.B.rate\" = [\"25mbit\"], \"engine.buffer\" = [\"160KiB\"] }");
    let curve_3 = |records: &[Record]| {
        let verdict = (figure.judge)(&Runs::new(records));
        verdict.into_iter().find(|c| c.criterion.starts_with("curve 3")).unwrap()
    };
    let with = curve_3(&simulate(figure, &[points]));
    assert!(with.met, "{with:?}");
    let runs = simulate(figure, &[points]);
    let without: Vec<_> = runs
        .into_iter()
        .map(|run| Record {
            case: run
                .case
                .replace("Fixed with API extension", "-")
                .replace("Fixed", "Fixed with API extension"),
            ..run
        })
        .collect();
    assert!(!curve_3(&without).met);
}

/// 5 MB over two paths with these delays in ms and queues of 12 packets, four missing reports.
fn lsfr_over(delays: &[(u32, u32)]) -> Vec<(&'static str, String)> {
    let path = |name: &str, delay: u32| {
        format!(
            "{{ name = \"{name}\", rate = \"1.5mbit\", delay = \"{delay}ms\", queue = 12, access = {{ rate = \"100mbit\", jitter = \"200us\" }} }}"
        )
    };
    let pairs: Vec<_> =
        delays.iter().map(|(a, b)| format!("[{}, {}]", path("A", *a), path("B", *b))).collect();
    vec![
        ("sweep", format!("{{ \"path\" = [{}] }}", pairs.join(", "))),
        ("app.file.bytes", "5000000".into()),
        ("engine.missing_reports", "4".into()),
        ("engine.buffer", "\"96KiB\"".into()),
        ("warmup", "\"0s\"".into()),
        ("measure", "\"600s\"".into()),
    ]
}

/// On equal paths with short queues load sharing without LSFR is slower than none.
#[test]
fn on_equal_paths_the_published_order_of_lsfr_holds() {
    let set = lsfr_over(&[(20, 20)]);
    let set: Vec<_> = set.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let records = simulate(figure("lsfr-equal-table3"), &set);
    let verdict = (figure("lsfr-equal-table3").judge)(&Runs::new(&records));
    for what in [
        "time with LSFR / without",
        "LSFR is faster than no load sharing, that faster than no LSFR",
    ] {
        let name = format!("2 paths, 4 reports, PLR 0, 5 MB: {what}");
        let criterion = verdict.iter().find(|c| c.criterion == name).unwrap();
        assert!(criterion.met, "{criterion:?}");
    }
}

/// The search counts a set-up by its conditions, and the class by its set-ups.
#[test]
fn the_search_tells_of_each_set_up() {
    let set = lsfr_over(&[(20, 20), (20, 100)]);
    let set: Vec<_> = set.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let search = figure("lsfr-search");
    let records = simulate(search, &set);
    let runs = Runs::new(&records);
    let verdict = (search.judge)(&runs);
    let told: Vec<_> = verdict.iter().map(|c| (c.criterion.as_str(), c.ours.as_str())).collect();
    let window = "declared class, window of 96 KiB: all three conditions hold";
    assert_eq!(told[0], (window, "in 1 of 1 set-ups"));
    assert_eq!(told[1], ("declared class as a whole", "in 1 of 1 set-ups"));
    assert!(told[2].1.ends_with(" of 3 set-ups"), "{told:?}");
    assert!((search.details)(&runs).starts_with("4 set-ups were tried."));
    let chart = (search.draw)(&runs);
    let points = chart.panels.iter().flat_map(|panel| &panel.curves).map(|c| c.points.len());
    assert_eq!((chart.panels.len(), points.sum::<usize>()), (2, 4));
}

/// The tables of the LSFR paper with one seed, all setups.
#[test]
fn lsfr_uses_all_paths_and_without_it_much_is_retransmitted() {
    let records = simulate(figure("lsfr-table1"), &[("warmup", "\"0s\""), ("measure", "\"600s\"")]);
    assert!(records.iter().all(|record| record.figure("duration_s") < 599.0), "not finished");
    let table_1 = (figure("lsfr-table1").judge)(&Runs::new(&records));
    let decided = |c: &&Criterion| c.criterion.contains("PLR 0, 5 MB: speed-up");
    let missed: Vec<_> = table_1.iter().filter(decided).filter(|c| !c.met).collect();
    assert!(missed.is_empty() && table_1.len() == 28, "{missed:#?}");
    let table_3 = (figure("lsfr-table3").judge)(&Runs::new(&records));
    let needless = |c: &&Criterion| c.criterion.ends_with("retransmitted without LSFR");
    assert_eq!(table_3.iter().filter(needless).filter(|c| c.met).count(), 8, "{table_3:#?}");
    let chart = (figure("lsfr-table3").draw)(&Runs::new(&records));
    assert!(to_csv(&chart).contains("\"3 paths, 3 reports\",\"PLR 0, 5 MB\","));
    assert!(plot::to_svg(&chart).contains("<polygon"));
}
