//! `manypath-lab sim figure` and `manypath-lab sim list`.

use super::args::SimFigureArgs;
use super::page::{self, Result as Outcome};
use super::table::align;
use super::{bars, campaign, present};
use crate::failure::Failure;
use manypath_sim::campaign::{Options, Record, Shard, VERSION, merge, point};
use manypath_sim::figure::{Criterion, Figure, Runs, figures, fresh_grid, plot, to_csv};
use manypath_sim::scenario::Plan;
use manypath_sim::simulation::RunOptions;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The figure that has a grid of networks.
const WITH_GRID: &str = "manypath-dynamic";

/// Simulates figures and writes what they look like. Fails if a criterion is not met.
pub(super) fn figure(args: &SimFigureArgs) -> Result<u8, Failure> {
    if args.page {
        std::fs::write(args.out.join("README.md"), page::page(&present::sections(&args.out)?))?;
        return Ok(0);
    }
    let chosen = choose(args)?;
    let shard: Shard = args.shard.parse().map_err(|e| Failure::usage(format!("--shard: {e}")))?;
    if shard != Shard::default() {
        return part(&chosen, args, shard);
    }
    std::fs::create_dir_all(&args.out)?;
    let mut results: Vec<Outcome> = Vec::new();
    let mut simulated: Vec<(&str, Simulated)> = Vec::new();
    for figure in chosen {
        // Figures of the same scenario share its runs.
        let known = simulated.iter().position(|(scenario, _)| *scenario == figure.scenario);
        let at = match known {
            Some(at) => at,
            None => {
                simulated.push((figure.scenario, simulate(figure, args, shard)?));
                simulated.len() - 1
            }
        };
        if simulated[at].1.records.is_empty() {
            eprintln!("{}: left out, there are no runs of it", figure.name);
            continue;
        }
        let result = write(figure, &simulated[at].1, &args.out)?;
        if !args.json {
            print!("{}", to_text(&result));
        }
        results.push(result);
    }
    if results.is_empty() {
        return Err(Failure::new("there are no runs to draw"));
    }
    if args.all {
        let sections: Vec<_> = results.iter().map(page::Section::new).collect();
        std::fs::write(args.out.join("README.md"), page::page(&sections))?;
    }
    if args.json {
        print!("{}", to_json(&results));
    }
    let met = results.iter().flat_map(|result| &result.verdict).all(|criterion| criterion.met);
    Ok(if met { 0 } else { 1 })
}

/// Does a part of the runs. A later call with `--resume` and without `--shard` finds them in the same
/// folder, does what is left, and draws.
fn part(chosen: &[&'static Figure], args: &SimFigureArgs, shard: Shard) -> Result<u8, Failure> {
    let mut done: Vec<&str> = Vec::new();
    for figure in chosen {
        if !done.contains(&figure.scenario) {
            done.push(figure.scenario);
            let runs = campaign::runs(simulate(figure, args, shard)?.records.len());
            println!("{}: {runs} of shard {}", figure.name, args.shard);
        }
    }
    Ok(0)
}

/// Names and titles of all figures.
pub(super) fn list(json: bool) -> Result<u8, Failure> {
    if json {
        let rows = figures().iter().map(|figure| {
            serde_json::json!({"name": figure.name, "title": figure.title, "scenario": figure.file})
        });
        println!("{:#}", serde_json::Value::from_iter(rows));
        return Ok(0);
    }
    let row = |figure: &Figure| vec![figure.name.to_owned(), figure.title.to_owned()];
    print!("{}", align(figures().iter().map(row).collect()));
    Ok(0)
}

fn choose(args: &SimFigureArgs) -> Result<Vec<&'static Figure>, Failure> {
    if args.all {
        return Ok(figures().iter().collect());
    }
    args.names.iter().map(|name| find(name, args.grid_seed)).collect()
}

/// The figure of this name; with a seed, on the networks that it draws.
pub(super) fn find(name: &str, grid_seed: Option<u64>) -> Result<&'static Figure, Failure> {
    if let Some(seed) = grid_seed {
        if name != WITH_GRID {
            let why = format!("--grid-seed draws a grid for {WITH_GRID} alone");
            return Err(Failure::usage(why));
        }
        // For as long as the program runs.
        return Ok(Box::leak(Box::new(fresh_grid(seed))));
    }
    figures().iter().find(|figure| figure.name == name).ok_or_else(|| {
        let names: Vec<_> = figures().iter().map(|figure| figure.name).collect();
        Failure::usage(format!("there is no figure {name}"))
            .hint(format!("there are: {}", names.join(", ")))
    })
}

/// The plan of a figure's scenario with what the command line changes.
pub(super) fn load(figure: &Figure, seeds: Option<u32>, set: &[String]) -> Result<Plan, Failure> {
    let overrides = campaign::overrides(seeds, set)?;
    Plan::parse(figure.scenario, figure.file, &overrides).map_err(|e| Failure::usage(e.to_string()))
}

/// Where the runs of a plan are kept below the output directory.
pub(super) fn runs_in(out: &Path, plan: &Plan) -> PathBuf {
    out.join("runs").join(&plan.name)
}

/// Runs of a plan.
struct Simulated {
    records: Vec<Record>,
    /// How many the whole plan has.
    of: usize,
}

fn simulate(figure: &Figure, args: &SimFigureArgs, shard: Shard) -> Result<Simulated, Failure> {
    let plan = load(figure, args.seeds, &args.set)?;
    if !args.from.is_empty() {
        return Ok(Simulated { records: finished(&plan, &args.from)?, of: plan.runs.len() });
    }
    let options = Options {
        out: runs_in(&args.out, &plan),
        jobs: campaign::jobs(args.jobs)?,
        shard,
        resume: args.resume,
        keep: RunOptions::default(),
        version: VERSION.to_owned(),
        commit: campaign::commit(),
    };
    if !args.json {
        println!("{}: {}", plan.description, campaign::runs(plan.runs.len()));
    }
    Ok(Simulated { records: campaign::run_plan(&plan, &options)?, of: plan.runs.len() })
}

/// The runs of a plan that results have, wherever they were done; later results replace earlier ones.
///
/// # Errors
/// A run at a place of the plan of which anything but the seed is another than in the plan.
fn finished(plan: &Plan, results: &[PathBuf]) -> Result<Vec<Record>, Failure> {
    let mut found = BTreeMap::new();
    for result in results {
        let records =
            merge(std::slice::from_ref(result)).map_err(|e| Failure::new(e.to_string()))?;
        for record in records.into_iter().filter(|record| record.scenario == plan.name) {
            // Journals of older versions do not tell; each of their runs is another.
            let key = if record.point.is_empty() { &record.id } else { &record.point };
            found.insert(key.clone(), record);
        }
    }
    let mut records = Vec::new();
    for run in &plan.runs {
        // What a record says of itself counts, whatever it says that it stands for.
        let key = point(run);
        if found.get(&key).is_some_and(|record| record.parameters == run.scenario.parameters()) {
            records.extend(found.remove(&key));
        }
    }
    refuse_others(plan, &found.into_values().collect::<Vec<_>>())?;
    println!(
        "{}: {} of {} found",
        plan.description,
        records.len(),
        campaign::runs(plan.runs.len())
    );
    let versions: BTreeSet<&str> = records.iter().map(|run| run.version.as_str()).collect();
    if versions.len() > 1 {
        let versions: Vec<_> = versions.into_iter().collect();
        eprintln!("these runs were made by {} versions: {}", versions.len(), versions.join(", "));
    }
    Ok(records)
}

/// What stands at a place of the plan and is something else would be judged as what it is not.
fn refuse_others(plan: &Plan, others: &[Record]) -> Result<(), Failure> {
    let place = |setup: &str, case: &str, parameters: &[(String, String)], seed: u64| {
        (setup.to_owned(), case.to_owned(), values(parameters, &plan.swept), seed)
    };
    let wanted: BTreeMap<_, _> = plan
        .runs
        .iter()
        .map(|run| {
            let parameters = run.scenario.parameters();
            (place(&run.setup, &run.case, &parameters, run.seed), parameters)
        })
        .collect();
    let mut refused = others.iter().filter_map(|record| {
        let at = place(&record.setup, &record.case, &record.parameters, record.seed);
        Some((record, wanted.get(&at)?))
    });
    let Some((record, parameters)) = refused.next() else { return Ok(()) };
    let other = parameters.iter().find(|(name, value)| record.parameter(name) != Some(value));
    let why = match other {
        Some((name, value)) => {
            let theirs = record.parameter(name).unwrap_or("not told");
            format!("{name} is {theirs} there and {value} in {}", plan.name)
        }
        None => "they were written by a version with other settings".to_owned(),
    };
    Err(Failure::new(format!("{} of another set-up: {why}", campaign::runs(1 + refused.count())))
        .hint("leave them out of --from, or say with --set what they were made with"))
}

/// The values of these parameters; empty where there is none.
pub(super) fn values(parameters: &[(String, String)], names: &[String]) -> Vec<String> {
    let value = |name: &String| parameters.iter().find(|(other, _)| other == name);
    names.iter().map(|name| value(name).map_or(String::new(), |(_, v)| v.clone())).collect()
}

/// Writes picture, table and verdict of a figure. A part of its runs meets no criterion.
fn write(figure: &'static Figure, simulated: &Simulated, out: &Path) -> Result<Outcome, Failure> {
    let runs = Runs::new(&simulated.records);
    let effort = page::Effort::of(&simulated.records, simulated.of);
    let chart = (figure.draw)(&runs);
    let mut verdict = (figure.judge)(&runs);
    verdict.iter_mut().for_each(|criterion| criterion.met &= effort.is_complete());
    let file = |extension: &str| out.join(format!("{}.{extension}", figure.name));
    write_chart(&chart, out, figure.name)?;
    let json = serde_json::to_string_pretty(&verdict).map_err(|e| Failure::new(e.to_string()))?;
    std::fs::write(file("verdict.json"), json.clone() + "\n")?;
    // Where a single figure was asked for, its verdict has the plain name.
    std::fs::write(out.join("verdict.json"), json + "\n")?;
    let details = (figure.details)(&runs);
    let result = Outcome { figure, verdict, chart, details, runs: effort };
    if !result.details.is_empty() {
        std::fs::write(file("md"), page::one(&result))?;
    }
    Ok(result)
}

/// Writes a chart as SVG and PDF, and its points.
pub(super) fn write_chart(chart: &plot::Chart, out: &Path, name: &str) -> Result<(), Failure> {
    let file = |extension: &str| out.join(format!("{name}.{extension}"));
    std::fs::write(file("svg"), plot::to_svg(chart))?;
    std::fs::write(file("pdf"), plot::to_pdf(chart))?;
    Ok(std::fs::write(file("csv"), to_csv(chart))?)
}

fn to_text(result: &Outcome) -> String {
    let head = ["criterion", "published", "ours", "tolerance", "met"].map(str::to_owned).to_vec();
    let row = |c: &Criterion| {
        let met = match result.runs.is_complete() {
            true => ["NO", "yes"][usize::from(c.met)],
            false => "incomplete",
        };
        vec![
            c.criterion.clone(),
            c.published.clone(),
            c.ours.clone(),
            c.tolerance.clone(),
            met.to_owned(),
        ]
    };
    let rows = std::iter::once(head).chain(result.verdict.iter().map(row)).collect();
    let Outcome { figure, chart, runs, .. } = result;
    let (name, title, notes) = (figure.name, figure.title, figure.notes);
    let (values, verdict) = (bars::to_text(chart), align(rows));
    format!("\n{name} - {title} ({runs})\n{values}\n{verdict}\n{notes}")
}

fn to_json(results: &[Outcome]) -> String {
    let rows = results.iter().map(|result| {
        serde_json::json!({
            "figure": result.figure.name, "effort": result.runs.to_string(), "verdict": result.verdict,
        })
    });
    format!("{:#}\n", serde_json::Value::from_iter(rows))
}
