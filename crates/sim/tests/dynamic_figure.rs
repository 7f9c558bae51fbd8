//! The figure about the dynamic scheduler: what was not simulated is not met, and no loss is hidden.

use crate::support::execute;
use manypath_sim::campaign::Record;
use manypath_sim::figure::{Figure, Runs, figures, fresh_grid, plot};
use manypath_sim::scenario::Plan;

fn figure() -> &'static Figure {
    figures().iter().find(|figure| figure.name == "manypath-dynamic").unwrap()
}

/// Two slow points of the grid, shortly.
fn records() -> Vec<Record> {
    let figure = figure();
    let set = [("warmup", "\"1s\""), ("measure", "\"10s\""), ("seeds", "1")];
    let set: Vec<_> = set.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let mut plan =
        Plan::parse(figure.scenario, figure.file, &set).unwrap_or_else(|e| panic!("{e}"));
    plan.retain(&["grid-07".into(), "grid-71".into()], &[]).unwrap();
    execute(&plan, "dynamic-figure")
}

/// The rows of a table that begins after a heading.
fn rows<'t>(text: &'t str, heading: &str) -> Vec<&'t str> {
    let table = text.split(heading).nth(1).unwrap().split("\n#").next().unwrap();
    table.lines().filter(|line| line.starts_with("| grid-")).collect()
}

#[test]
fn losses_are_listed_and_missing_runs_are_no_success() {
    let mut records = records();
    // Six schedulers, and each of two and three paths alone.
    assert_eq!(records.len(), 2 * 6 + 2 + 3);
    let figure = figure();
    let verdict = (figure.judge)(&Runs::new(&records));
    let of_paper = verdict.iter().filter(|criterion| criterion.criterion.starts_with("Figure"));
    assert!(of_paper.clone().count() > 10 && of_paper.clone().all(|criterion| !criterion.met));
    let recovery = verdict.iter().find(|c| c.criterion.contains("swapped")).unwrap();
    assert!(!recovery.met, "{recovery:?}");

    // Made worse than everything else at one point, and better at the other one.
    for record in records.iter_mut().filter(|record| record.case == "dynamic") {
        let value = if record.setup == "grid-71" { 0.001 } else { 1000.0 };
        for (name, figure) in &mut record.figures {
            if name == "throughput_mbps" {
                *figure = Some(value);
            }
        }
    }
    let runs = Runs::new(&records);
    let details = (figure.details)(&runs);
    let losses = rows(&details, "## Where it carries less than another");
    assert_eq!(losses.len(), 1, "{losses:?}");
    assert!(losses[0].starts_with("| grid-71 |") && losses[0].contains("**0.000**"), "{losses:?}");
    assert_eq!(rows(&details, "### Goodput in Mbit/s").len(), 2);
    let verdict = (figure.judge)(&runs);
    let single = verdict.iter().find(|c| c.criterion.contains("best single path")).unwrap();
    assert!(!single.met && single.ours.contains("below at 1"), "{single:?}");
    let svg = plot::to_svg(&(figure.draw)(&runs));
    assert!(svg.contains("dynamic / best single path") || svg.contains("dynamic / single path"));
}

/// A record of the dynamic scheduler and one of the fixed map in a setup of the paper, with the values of two seeds.
fn two_seeds(setup: &str, figure: &str, values: [Option<f64>; 2]) -> Vec<Record> {
    let of = |(seed, value), case: &str| Record {
        setup: setup.into(),
        case: case.into(),
        seed,
        parameters: vec![("engine.buffer".into(), "65536".into())],
        figures: vec![(figure.into(), value)],
        ..Record::default()
    };
    let both = |seed| ["dynamic", "fixed"].map(|case| of(seed, case));
    (1..).zip(values).flat_map(both).collect()
}

#[test]
fn points_of_several_seeds_have_intervals() {
    let panel = |setup: &str, title: &str| {
        let records = two_seeds(setup, "throughput_mbps", [Some(10.0), Some(12.0)]);
        let chart = (figure().draw)(&Runs::new(&records));
        let panel = chart.panels.into_iter().find(|panel| panel.title.starts_with(title)).unwrap();
        panel.curves.into_iter().flat_map(|curve| curve.points).collect::<Vec<_>>()
    };
    // Two values 2 apart: Student's t of one degree, 12.706, times half of that.
    let of_paper = panel("fig4-10ms", "Figure 4, δB = 10 ms");
    assert_eq!(of_paper.len(), 2);
    for point in &of_paper {
        assert!(
            point.y == 11.0 && point.count == 2 && (point.error - 12.706).abs() < 1e-9,
            "{point:?}"
        );
    }
    // The quotient of two such means.
    let of_grid = panel("grid-07", "Grid: goodput");
    assert_eq!(of_grid.len(), 1, "fixed alone");
    let error = 2f64.sqrt() * 12.706 / 11.0;
    assert!(of_grid[0].y == 1.0 && (of_grid[0].error - error).abs() < 1e-9, "{of_grid:?}");
}

#[test]
fn one_run_that_does_not_recover_is_enough_not_to_recover() {
    let judge = |values| {
        let records = two_seeds("swap-25mbit", "recovery_s", values);
        let verdict = (figure().judge)(&Runs::new(&records));
        let recovery = verdict.into_iter().find(|c| c.criterion.contains("25 Mbit/s swapped"));
        recovery.map(|c| (c.met, c.ours)).unwrap()
    };
    assert_eq!(judge([Some(1.0), Some(3.0)]), (true, "2.0 s (64 KiB)".into()));
    assert_eq!(judge([Some(1.0), None]), (false, "not until the end (64 KiB)".into()));
}

/// The slowest networks of a fresh grid, three schedulers, one seed: then the dynamic one is made worse on one of them.
#[test]
fn each_network_of_a_fresh_grid_that_is_lost_has_its_row() {
    let figure = fresh_grid(7);
    let mut plan = Plan::parse(figure.scenario, figure.file, &[]).unwrap_or_else(|e| panic!("{e}"));
    let bps = |setup: &str| -> f64 {
        let run = plan.runs.iter().find(|run| run.setup == setup).unwrap();
        let rates = run.scenario.parameters().into_iter();
        rates
            .filter(|(name, _)| name.starts_with("path.") && name.ends_with(".rate"))
            // Links without a rate are unlimited.
            .filter_map(|(_, rate)| rate.parse::<f64>().ok())
            .sum()
    };
    let mut setups = plan.setups.clone();
    setups.sort_by(|a, b| bps(a).total_cmp(&bps(b)));
    setups.truncate(2);
    let cases = ["dynamic", "round robin", "LSFR"].map(String::from);
    plan.retain(&setups, &cases).unwrap();
    plan.runs.retain(|run| run.seed == 1);
    let mut records = execute(&plan, "dynamic-fresh");
    assert_eq!(records.len(), 6);
    for record in records.iter_mut().filter(|record| record.case == "dynamic") {
        let value = if record.setup == setups[0] { 0.001 } else { 1000.0 };
        let goodput = record.figures.iter_mut().filter(|(name, _)| name == "throughput_mbps");
        goodput.for_each(|(_, figure)| *figure = Some(value));
    }
    let verdict = (figure.judge)(&Runs::new(&records));
    let goodput: Vec<_> = verdict.iter().filter(|c| c.criterion.starts_with("goodput")).collect();
    assert_eq!(goodput.len(), 2, "{goodput:?}");
    assert!(goodput[0].ours.contains("lost at 1, undecided at 0"), "{goodput:?}");
    assert!(goodput[1].criterion.contains(&setups[0]) && goodput.iter().all(|c| !c.met));
    let details = (figure.details)(&Runs::new(&records));
    assert!(details.contains(&format!("| {} | **loses** |", setups[0])), "{details}");
    assert!(details.contains(&format!("| {} | holds |", setups[1])), "{details}");
    assert!(plot::to_svg(&(figure.draw)(&Runs::new(&records))).contains("Goodput"));
}
