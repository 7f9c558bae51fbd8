//! `manypath-lab sim live`: a scenario on real sockets.
//!
//! ```text
//! this process: lab, one per run ─┬▶ live-host --sender on left   (applications, paths' counters) ─┐
//!                                 └▶ live-host on right           (deliveries and their delays)   ─┤
//!                                      both begin at the same time of the machine's clock          │
//! results.csv, comparison with the simulation  ◀── figures ────────────────────────────────────────┘
//! ```

mod host;
mod kernel;
mod receiver;
mod report;
mod sender;
mod stage;
mod table;

pub(crate) use host::host;

use super::campaign;
use super::table::summary;
use crate::failure::Failure;
use crate::sim::args::{LiveTransport, SimLiveArgs};
use manypath_sim::campaign::{Options, Record, VERSION};
use manypath_sim::scenario::Plan;
use manypath_sim::simulation::RunOptions;

/// Runs, simulates, compares.
pub(super) fn live(args: &SimLiveArgs) -> Result<u8, Failure> {
    let plan = campaign::load(&args.file, args.seeds, &args.changes)?;
    for run in &plan.runs {
        stage::check(&run.scenario, args.transport)?;
    }
    let folder = match args.transport {
        LiveTransport::Manypath => "live",
        LiveTransport::Mptcp => "mptcp",
        LiveTransport::MptcpAutotuned => "mptcp-autotuned",
    };
    let options = options(args, folder, format!("{folder} {VERSION}"))?;
    let runner = |index, run: &_| stage::perform(args, index, run);
    let lived = campaign::run_plan_by(&runner, &plan, &options)?;
    if args.transport != LiveTransport::Manypath {
        print!("{}", summary(&lived, &plan.swept, args.json));
        return Ok(0);
    }
    let options = self::options(args, "simulated", VERSION.to_owned())?;
    let simulated = campaign::run_plan(&plan, &options)?;
    print!("{}", table::table(&plan.swept, &simulated, &lived, args.json));
    if !args.json {
        println!("{} in {}", campaign::runs(lived.len()), args.out.display());
    }
    judge(args.tolerance, &plan, &simulated, &lived)
}

fn options(args: &SimLiveArgs, folder: &str, version: String) -> Result<Options, Failure> {
    Ok(Options {
        out: args.out.join(folder),
        jobs: campaign::jobs(Some(args.jobs))?,
        shard: args.shard.parse().map_err(|e| Failure::usage(format!("--shard: {e}")))?,
        resume: args.resume,
        keep: RunOptions::default(),
        version,
        commit: campaign::commit(),
    })
}

fn judge(
    tolerance: Option<f64>,
    plan: &Plan,
    simulated: &[Record],
    lived: &[Record],
) -> Result<u8, Failure> {
    let Some(tolerance) = tolerance else { return Ok(0) };
    let worst = table::worst(&plan.swept, simulated, lived);
    let within = worst <= tolerance;
    let fate = if within { "within" } else { "NOT within" };
    eprintln!(
        "goodput differs by at most {:.1} %: {fate} {:.1} %",
        worst * 100.0,
        tolerance * 100.0
    );
    Ok(if within { 0 } else { 1 })
}
