//! What all simulations have in common: options, progress.

use super::args::{CampaignOptions, Changes};
use crate::failure::Failure;
use manypath_cli::progress::ProgressLine;
use manypath_control::counted;
use manypath_sim::campaign::{
    CampaignError, Options, Progress, Record, Runner, VERSION, execute, execute_by,
};
use manypath_sim::figure::check;
use manypath_sim::scenario::Plan;
use manypath_sim::simulation::RunOptions;
use std::path::Path;
use std::time::Duration;

/// Time between two lines of progress where they cannot overwrite each other.
const PAUSE: Duration = Duration::from_secs(10);

/// The options of a campaign as the simulator wants them.
pub(super) fn options(
    args: &CampaignOptions,
    out: &Path,
    keep: RunOptions,
) -> Result<Options, Failure> {
    let jobs = jobs(args.jobs)?;
    let shard = args.shard.parse().map_err(|e| Failure::usage(format!("--shard: {e}")))?;
    let (out, resume, version) = (out.to_owned(), args.resume, VERSION.to_owned());
    Ok(Options { out, jobs, shard, resume, keep, version, commit: commit() })
}

/// Runs at a time.
pub(super) fn jobs(wanted: Option<usize>) -> Result<usize, Failure> {
    match wanted {
        Some(0) => Err(Failure::usage("--jobs must be at least 1")),
        Some(jobs) => Ok(jobs),
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// The keys of a scenario that the command line replaces.
pub(super) fn overrides(
    seeds: Option<u32>,
    set: &[String],
) -> Result<Vec<(String, String)>, Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => Err(Failure::usage(format!("--set {text}: expected KEY=VALUE"))),
    };
    let seeds = seeds.map(|seeds| Ok(("seeds".to_owned(), seeds.to_string())));
    set.iter().map(pair).chain(seeds).collect()
}

/// The plan of a scenario file with what the command line changes.
pub(super) fn load(file: &Path, seeds: Option<u32>, changes: &Changes) -> Result<Plan, Failure> {
    let Changes { set, setups, cases } = changes;
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|e| Failure::new(format!("{name}: {e}")))?;
    let plan = Plan::parse(&text, &name, &overrides(seeds, set)?);
    let mut plan = plan.map_err(|e| Failure::usage(e.to_string()))?;
    check(&plan).map_err(|e| Failure::usage(format!("{name}: {e}")))?;
    plan.retain(setups, cases).map_err(Failure::usage)?;
    Ok(plan)
}

/// Does the runs of a plan and shows how far it is.
pub(super) fn run_plan(plan: &Plan, options: &Options) -> Result<Vec<Record>, Failure> {
    watch(|report| execute(plan, options, report))
}

/// As [`run_plan`], with something else than the simulator.
pub(super) fn run_plan_by(
    runner: &Runner<'_>,
    plan: &Plan,
    options: &Options,
) -> Result<Vec<Record>, Failure> {
    watch(|report| execute_by(runner, plan, options, report))
}

type Runs = Result<Vec<Record>, CampaignError>;

fn watch(work: impl FnOnce(&mut dyn FnMut(Progress)) -> Runs) -> Result<Vec<Record>, Failure> {
    let (mut line, mut last) = (ProgressLine::new(false, PAUSE), None);
    let records = work(&mut |progress| {
        line.show(|_| describe(progress));
        last = Some(progress);
    });
    if let Some(progress) = last {
        line.end(&describe(progress));
    }
    records.map_err(|e| Failure::new(e.to_string()))
}

/// The commit that this program was built from, if it was built from a repository.
pub(super) fn commit() -> Option<String> {
    option_env!("MANYPATH_COMMIT").map(str::to_owned)
}

/// A number of runs in words.
pub(super) fn runs(count: usize) -> String {
    counted(count, "run", "runs")
}

fn describe(progress: Progress) -> String {
    let Progress { done, total, elapsed, left, packets } = progress;
    let rate = packets as f64 / elapsed.as_secs_f64().max(1e-3) / 1e6;
    let left = left.map_or_else(String::new, |left| format!(", {} left", time(left)));
    format!("{done}/{}, {}, {rate:.2} million packets/s{left}", runs(total), time(elapsed))
}

fn time(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..=119 => format!("{s} s"),
        s => format!("{} min", s.div_ceil(60)),
    }
}
