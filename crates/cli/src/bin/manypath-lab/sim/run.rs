use super::args::SimRunArgs;
use super::campaign;
use super::figure::write_chart;
use super::table::summary;
use crate::failure::Failure;
use manypath_sim::Duration;
use manypath_sim::campaign::{Record, Shard};
use manypath_sim::figure::{self, plot};
use manypath_sim::scenario::{Plan, duration};
use manypath_sim::simulation::RunOptions;
use std::path::{Path, PathBuf};

/// `manypath-lab sim run`.
pub(super) fn run(args: &SimRunArgs) -> Result<u8, Failure> {
    let seeds = args.campaign.seeds;
    let plan = campaign::load(&args.file, seeds, &args.changes)?;
    let keep = RunOptions { series: series(args)?, capture: args.pcapng };
    let options = campaign::options(&args.campaign, &args.campaign.out, keep)?;
    let records = campaign::run_plan(&plan, &options)?;
    if keep.series.is_some() {
        draw_series(&records, &options.out)?;
    }
    print!("{}", summary(&records, &plan.swept, args.json));
    let drawn = if options.shard == Shard::default() {
        draw(&plan, &records, &options.out)?
    } else {
        Vec::new()
    };
    if !args.json {
        println!("{} in {}", campaign::runs(records.len()), options.out.display());
        drawn.iter().for_each(|file| println!("{}", file.display()));
    }
    Ok(0)
}

/// Draws the time series of each run.
fn draw_series(records: &[Record], out: &Path) -> Result<(), Failure> {
    for record in records {
        let file = |extension: &str| out.join(format!("{}.series.{extension}", record.id));
        // A run that an earlier call has done may have none.
        let Ok(csv) = std::fs::read_to_string(file("csv")) else { continue };
        let of = [&record.scenario, &record.setup, &record.case].map(String::as_str);
        let of: Vec<&str> = of.into_iter().filter(|name| !name.is_empty()).collect();
        let title = format!("{}, seed {}", of.join(", "), record.seed);
        std::fs::write(file("svg"), plot::to_svg(&figure::series_chart(&title, &csv)))?;
    }
    Ok(())
}

/// Draws the figures that the scenario file describes. Returns the pictures.
fn draw(plan: &Plan, records: &[Record], out: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut drawn = Vec::new();
    for figure in &plan.figures {
        let chart = figure::draw(figure, plan, records).map_err(Failure::new)?;
        drawn.push(out.join(format!("{}.svg", figure.name)));
        write_chart(&chart, out, &figure.name)?;
    }
    Ok(drawn)
}

fn series(args: &SimRunArgs) -> Result<Option<Duration>, Failure> {
    let read = |text: &String| duration(text).map_err(|e| Failure::usage(format!("--series: {e}")));
    args.series.as_ref().map(read).transpose()
}
