//! `manypath-lab sim plan`: for job schedulers, which start one command a task.

use super::args::SimPlanArgs;
use super::table::align;
use super::{campaign, figure};
use crate::failure::Failure;
use crate::shell::word;
use manypath_sim::campaign::{Shard, VERSION, id};
use manypath_sim::scenario::{Plan, Run};
use std::path::{Path, PathBuf};

/// Lists the runs of a scenario or figure.
pub(super) fn plan(args: &SimPlanArgs) -> Result<u8, Failure> {
    let listed = Listed::new(args)?;
    print!("{}", if args.json { listed.to_json() } else { listed.to_text() });
    Ok(0)
}

/// Runs and how to do each one alone.
struct Listed {
    plan: Plan,
    /// Where their journals go.
    folder: PathBuf,
    /// Does them all.
    command: String,
}

impl Listed {
    fn new(args: &SimPlanArgs) -> Result<Self, Failure> {
        let (default, action) = match args.figure {
            Some(_) => ("target/figures", "figure"),
            None => ("target/sim", "run"),
        };
        let out = args.out.as_deref().unwrap_or_else(|| Path::new(default));
        let (plan, folder, subject) = match (&args.figure, &args.file) {
            (Some(name), _) => {
                let figure = figure::find(name, args.grid_seed)?;
                let plan = figure::load(figure, args.seeds, &args.changes.set)?;
                let folder = figure::runs_in(out, &plan);
                (plan, folder, name.clone())
            }
            (None, file) => {
                let file = file.as_deref().unwrap_or_else(|| Path::new(""));
                let plan = campaign::load(file, args.seeds, &args.changes)?;
                (plan, out.to_owned(), file.display().to_string())
            }
        };
        let seeds = args.seeds.map(|seeds| seeds.to_string());
        let grid_seed = args.grid_seed.map(|seed| seed.to_string());
        let out = out.display().to_string();
        let options = std::iter::empty()
            .chain(grid_seed.iter().map(|value| ("--grid-seed", value.as_str())))
            .chain(args.changes.options())
            .chain(seeds.iter().map(|value| ("--seeds", value.as_str())))
            .chain([("--output", out.as_str())]);
        let mut command = format!("manypath-lab sim {action} {}", word(&subject));
        for (name, value) in options {
            command += &format!(" {name} {}", word(value));
        }
        Ok(Self { plan, folder, command })
    }

    fn shard(&self, index: usize) -> Shard {
        Shard { index, count: self.plan.runs.len() }
    }

    fn to_json(&self) -> String {
        let Self { plan, folder, command } = self;
        let runs = plan.runs.iter().enumerate().map(|(index, run)| {
            let shard = self.shard(index);
            let values = plan.swept.iter().zip(values(plan, run));
            serde_json::json!({
                "index": index,
                "id": id(run, VERSION),
                "setup": run.setup,
                "case": run.case,
                "values": values.collect::<std::collections::BTreeMap<_, _>>(),
                "seed": run.seed,
                "journal": shard.journal(folder),
                "command": format!("{command} --shard {index}/{}", shard.count),
            })
        });
        let object = serde_json::json!({
            "scenario": plan.name,
            "version": VERSION,
            "folder": folder,
            "runs": serde_json::Value::from_iter(runs),
        });
        format!("{object:#}\n")
    }

    fn to_text(&self) -> String {
        let Self { plan, command, .. } = self;
        let head = ["index", "id", "setup", "case"].into_iter();
        let head = head.chain(plan.swept.iter().map(String::as_str)).chain(["seed"]);
        let mut rows = vec![head.map(str::to_owned).collect()];
        for (index, run) in plan.runs.iter().enumerate() {
            let names = [index.to_string(), id(run, VERSION), run.setup.clone(), run.case.clone()];
            let row = names.into_iter().chain(values(plan, run)).chain([run.seed.to_string()]);
            rows.push(row.collect());
        }
        let count = plan.runs.len();
        format!(
            "{}{}; one alone: {command} --shard INDEX/{count}\n",
            align(rows),
            campaign::runs(count)
        )
    }
}

/// The values of the swept keys, as in results.csv.
fn values(plan: &Plan, run: &Run) -> Vec<String> {
    let parameters = run.scenario.parameters();
    figure::values(&parameters, &plan.swept)
}
