//! Does the runs of a plan.

use super::journal::{self, Journal};
use super::record::{self, Record};
use super::table::to_csv;
use crate::scenario::{Plan, Run};
use crate::simulation::{Outcome, RunOptions, run};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How a plan is to be done.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder for everything that comes out.
    pub out: PathBuf,
    /// Threads.
    pub jobs: usize,
    /// Which part of the runs is to be done.
    pub shard: Shard,
    /// Leave out runs that are in the journal already.
    pub resume: bool,
    /// What to keep of each run.
    pub keep: RunOptions,
    /// By what runs are done ([`super::VERSION`]): those of another version are not taken up.
    pub version: String,
    /// The commit that the program was built from, if that is known.
    pub commit: Option<String>,
}

/// One of `count` equal parts, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Which.
    pub index: usize,
    /// Of how many.
    pub count: usize,
}

impl Default for Shard {
    /// Everything.
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    /// "2/8" is the third of eight parts.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers =
            text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((index, count)) if index < count => Ok(Self { index, count }),
            _ => Err(format!("'{text}': expected i/n with i from 0 to n-1, such as 0/8")),
        }
    }
}

/// How far a campaign is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Runs of this shard that are done, with those of earlier times.
    pub done: usize,
    /// Runs of this shard.
    pub total: usize,
    /// Time since the start.
    pub elapsed: Duration,
    /// Time that the rest will take, if that can be said.
    pub left: Option<Duration>,
    /// Packets simulated since the start.
    pub packets: u64,
}

/// What can go wrong.
#[derive(Debug)]
pub enum CampaignError {
    /// A file could not be read or written.
    File(PathBuf, io::Error),
    /// A run could not be done.
    Run(String),
}

impl fmt::Display for CampaignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Run(error) => f.write_str(error),
        }
    }
}

impl std::error::Error for CampaignError {}

/// Simulates what is left of this shard of `plan` and writes journal, `results.csv` and
/// `manifest.json`. Returns all runs of the shard in the order of the plan.
pub fn execute(
    plan: &Plan,
    options: &Options,
    report: &mut dyn FnMut(Progress),
) -> Result<Vec<Record>, CampaignError> {
    let simulate = |_, job: &Run| Ok(run(&job.scenario, job.seed, options.keep));
    execute_by(&simulate, plan, options, report)
}

/// How a run is done, given its place in the plan. An error ends the campaign.
pub type Runner<'a> = dyn Fn(usize, &Run) -> Result<Outcome, String> + Sync + 'a;

/// As [`execute`], with something else than the simulator.
pub fn execute_by(
    runner: &Runner<'_>,
    plan: &Plan,
    options: &Options,
    report: &mut dyn FnMut(Progress),
) -> Result<Vec<Record>, CampaignError> {
    let started = Instant::now();
    let Shard { index, count } = options.shard;
    fs::create_dir_all(&options.out).map_err(at(&options.out))?;
    let path = options.shard.journal(&options.out);
    let mut finished = BTreeMap::new();
    if options.resume {
        // Shards that were done into the same folder count too.
        let records = journal::read_all(&options.out).map_err(at(&options.out))?;
        finished.extend(records.into_iter().map(|record| (record.id.clone(), record)));
    }
    let mut journal = Journal::open(&path, options.resume).map_err(at(&path))?;
    let mine = plan.runs.iter().enumerate().filter(|(number, _)| number % count == index);
    let mine: Vec<Job<'_>> = mine
        .map(|(index, run)| Job { index, run, id: record::id(run, &options.version) })
        .collect();
    let todo: Vec<&Job<'_>> = mine.iter().filter(|job| !finished.contains_key(&job.id)).collect();
    let mut meter = Meter::new(started, mine.len(), mine.len() - todo.len());
    let mut failed = None;
    run_all(&todo, runner, options, |job, outcome, processor_s| {
        let kept = outcome.map_err(CampaignError::Run).and_then(|outcome| {
            meter.on_done(&outcome);
            let record = Record::new(job.run, job.index, &options.version, &outcome, processor_s);
            journal.append(&record).map_err(at(&path))?;
            keep_extras(&options.out, &record, &outcome)?;
            finished.insert(record.id.clone(), record);
            Ok(())
        });
        failed = failed.take().or(kept.err());
        report(meter.progress());
        failed.is_none()
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let records: Vec<Record> = mine.iter().filter_map(|job| finished.remove(&job.id)).collect();
    write_results(plan, options, &records, started.elapsed())?;
    Ok(records)
}

#[derive(Debug)]
struct Job<'a> {
    index: usize,
    run: &'a Run,
    id: String,
}

/// Does jobs on several threads; `done` is told of each on the calling thread and says whether to go
/// on.
fn run_all(
    jobs: &[&Job<'_>],
    runner: &Runner<'_>,
    options: &Options,
    mut done: impl FnMut(&Job<'_>, Result<Outcome, String>, f64) -> bool,
) {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.clamp(1, jobs.len().max(1)) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begun = processor_s();
                    let outcome = runner(job.index, job.run);
                    if sender.send((*job, outcome, processor_s() - begun)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (job, outcome, processor_s) in receiver {
            if !done(job, outcome, processor_s) {
                return; // dropping the receiver stops the threads after their present run
            }
        }
    });
}

/// Processor time that this thread has had, in seconds.
fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Writes time series and capture of a run, if they were asked for.
fn keep_extras(out: &Path, record: &Record, outcome: &Outcome) -> Result<(), CampaignError> {
    let extras = [
        ("series.csv", outcome.series.as_ref().map(|series| series.as_bytes())),
        ("pcapng", outcome.capture.as_deref()),
    ];
    for (extension, bytes) in extras {
        let Some(bytes) = bytes else { continue };
        let path = out.join(format!("{}.{extension}", record.id));
        fs::write(&path, bytes).map_err(at(&path))?;
    }
    Ok(())
}

fn write_results(
    plan: &Plan,
    options: &Options,
    records: &[Record],
    elapsed: Duration,
) -> Result<(), CampaignError> {
    let Shard { index, count } = options.shard;
    let suffix = if count == 1 { String::new() } else { format!("-{index}-of-{count}") };
    let manifest = serde_json::json!({
        "scenario": plan.name,
        "description": plan.description,
        "program": options.version,
        "commit": options.commit,
        "setups": plan.setups,
        "cases": plan.cases,
        "swept": plan.swept,
        "seeds": plan.seeds,
        "shard": format!("{index}/{count}"),
        "runs": records.len(),
        "runs_of_all_shards": plan.runs.len(),
        "failures": records.iter().filter(|record| !record.failure.is_empty()).count(),
        "packets": records.iter().map(|record| record.packets).sum::<u64>(),
        "simulated_s": records.iter().map(|record| record.simulated_s).sum::<f64>(),
        "processor_s": records.iter().map(|record| record.processor_s).sum::<f64>(),
        "wall_s": elapsed.as_secs_f64(),
    });
    write(&options.out, &format!("results{suffix}.csv"), &to_csv(records))?;
    write(&options.out, &format!("manifest{suffix}.json"), &format!("{manifest:#}\n"))
}

/// Writes a file as a whole or not at all.
fn write(dir: &Path, name: &str, text: &str) -> Result<(), CampaignError> {
    let (path, draft) = (dir.join(name), dir.join(format!(".{name}.tmp")));
    fs::write(&draft, text).and_then(|()| fs::rename(&draft, &path)).map_err(at(&path))
}

fn at(path: &Path) -> impl Fn(io::Error) -> CampaignError {
    let path = path.to_owned();
    move |error| CampaignError::File(path.clone(), error)
}

/// Counts what is done and guesses how long the rest takes.
#[derive(Debug)]
struct Meter {
    started: Instant,
    total: usize,
    before: usize,
    now: usize,
    packets: u64,
}

impl Meter {
    fn new(started: Instant, total: usize, before: usize) -> Self {
        Self { started, total, before, now: 0, packets: 0 }
    }

    fn on_done(&mut self, outcome: &Outcome) {
        self.now += 1;
        self.packets += outcome.packets;
    }

    fn progress(&self) -> Progress {
        let elapsed = self.started.elapsed();
        let done = self.before + self.now;
        let per_run = elapsed.as_secs_f64() / self.now.max(1) as f64;
        let left =
            (self.now > 0).then(|| Duration::from_secs_f64(per_run * (self.total - done) as f64));
        Progress { done, total: self.total, elapsed, left, packets: self.packets }
    }
}
