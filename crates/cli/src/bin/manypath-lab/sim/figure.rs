//! `manypath-lab sim figure` and `manypath-lab sim list`.

use super::args::SimFigureArgs;
use super::page::{self, Result as Outcome};
use super::table::align;
use super::{bars, campaign, present};
use crate::failure::Failure;
use manypath_sim::campaign::{Options, Record, Shard, merge};
use manypath_sim::figure::{Criterion, Figure, Runs, figures, plot, to_csv};
use manypath_sim::scenario::{Plan, Run};
use manypath_sim::simulation::RunOptions;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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
    let mut simulated: Vec<(&str, Vec<Record>)> = Vec::new();
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
        if simulated[at].1.is_empty() {
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
            let records = simulate(figure, args, shard)?;
            println!("{}: {} of shard {}", figure.name, campaign::runs(records.len()), args.shard);
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
    let find = |name: &String| {
        figures().iter().find(|figure| figure.name == *name).ok_or_else(|| {
            let names: Vec<_> = figures().iter().map(|figure| figure.name).collect();
            Failure::usage(format!("there is no figure {name}"))
                .hint(format!("there are: {}", names.join(", ")))
        })
    };
    args.names.iter().map(find).collect()
}

fn simulate(figure: &Figure, args: &SimFigureArgs, shard: Shard) -> Result<Vec<Record>, Failure> {
    let overrides = campaign::overrides(args.seeds, &args.set)?;
    let plan = Plan::parse(figure.scenario, figure.file, &overrides)
        .map_err(|e| Failure::usage(e.to_string()))?;
    if !args.from.is_empty() {
        return finished(&plan, &args.from);
    }
    let options = Options {
        out: args.out.join("runs").join(&plan.name),
        jobs: campaign::jobs(args.jobs)?,
        shard,
        resume: args.resume,
        keep: RunOptions::default(),
        version: campaign::program()?,
        commit: campaign::commit(),
    };
    if !args.json {
        println!("{}: {}", plan.description, campaign::runs(plan.runs.len()));
    }
    campaign::run_plan(&plan, &options)
}

/// The runs of a plan that results have, wherever and by whichever program they were done; later
/// results replace earlier ones.
fn finished(plan: &Plan, results: &[PathBuf]) -> Result<Vec<Record>, Failure> {
    let mut found = BTreeMap::new();
    for result in results {
        let records =
            merge(std::slice::from_ref(result)).map_err(|e| Failure::new(e.to_string()))?;
        for record in records.into_iter().filter(|record| record.scenario == plan.name) {
            let point = values(&record.parameters, &plan.swept);
            found.insert((record.setup.clone(), record.case.clone(), point, record.seed), record);
        }
    }
    let of_run = |run: &Run| {
        let point = values(&run.scenario.parameters(), &plan.swept);
        found.remove(&(run.setup.clone(), run.case.clone(), point, run.seed))
    };
    let records: Vec<Record> = plan.runs.iter().filter_map(of_run).collect();
    println!(
        "{}: {} of {} found",
        plan.description,
        records.len(),
        campaign::runs(plan.runs.len())
    );
    Ok(records)
}

fn values(parameters: &[(String, String)], names: &[String]) -> Vec<String> {
    let value = |name: &String| parameters.iter().find(|(other, _)| other == name);
    names.iter().map(|name| value(name).map_or(String::new(), |(_, v)| v.clone())).collect()
}

/// Writes picture, table and verdict of a figure.
fn write(figure: &'static Figure, records: &[Record], out: &Path) -> Result<Outcome, Failure> {
    let runs = Runs::new(records);
    let chart = (figure.draw)(&runs);
    let verdict = (figure.judge)(&runs);
    let file = |extension: &str| out.join(format!("{}.{extension}", figure.name));
    std::fs::write(file("svg"), plot::to_svg(&chart))?;
    std::fs::write(file("csv"), to_csv(&chart))?;
    let json = serde_json::to_string_pretty(&verdict).map_err(|e| Failure::new(e.to_string()))?;
    std::fs::write(file("verdict.json"), json.clone() + "\n")?;
    // Where a single figure was asked for, its verdict has the plain name.
    std::fs::write(out.join("verdict.json"), json + "\n")?;
    let details = (figure.details)(&runs);
    let result = Outcome { figure, verdict, chart, details, runs: page::Effort::of(records) };
    if !result.details.is_empty() {
        std::fs::write(file("md"), page::one(&result))?;
    }
    Ok(result)
}

fn to_text(result: &Outcome) -> String {
    let head = ["criterion", "published", "ours", "tolerance", "met"].map(str::to_owned).to_vec();
    let row = |c: &Criterion| {
        let met = if c.met { "yes" } else { "NO" };
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
