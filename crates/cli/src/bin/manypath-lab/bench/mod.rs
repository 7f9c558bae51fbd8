//! `manypath-lab bench`: what manypath reaches and costs, beside others.

pub(crate) mod args;
mod json;
mod output;
mod plan;
mod table;
mod watch;

use crate::failure::Failure;
use crate::shell;
use args::{BenchArgs, BenchGuardArgs, BenchWorkerArgs};
use manypath_bench::{Campaign, Pinned, Remote, Results, Skipped, Transport};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use watch::Watch;

/// Measures, or serves those who do; the exit status is 1 if something that was tried has failed.
pub(crate) fn bench(args: &BenchArgs) -> Result<u8, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let settings = plan::settings(args)?;
    let manypath = manypath_cli::programs::find("manypath")?;
    if args.server {
        // Who has started it may not be there any more to read that.
        let mut say = |text: &str| drop(writeln!(std::io::stderr(), "{text}"));
        let (bind, once) = (args.bind, args.one_off);
        manypath_bench::serve(&manypath, bind, args.port, once, &interrupted, &mut say)
            .map_err(Failure::new)?;
        return Ok(0);
    }
    let workloads = plan::workloads(args);
    let transports = plan::transports(args);
    let campaign =
        Campaign { manypath, settings, workloads, transports, interrupted: &interrupted };
    let mut watch = Watch::new(args);
    let mut report = Report::new();
    match &args.client {
        Some(host) => {
            let remote = Remote::connect(host, args.port).map_err(Failure::new)?;
            Pinned::check(&args.congestion).map_err(Failure::usage)?;
            let results = campaign.towards(remote, &mut watch).map_err(failure)?;
            report.add(format!("network: from here to {host}"), Pinned::Programs, results);
        }
        None => here(args, &campaign, &mut watch, &mut report)?,
    }
    report.finish(args)
}

/// One program of a measurement.
pub(crate) fn worker(args: &BenchWorkerArgs) -> Result<u8, Failure> {
    Err(Failure::new(manypath_bench::work(&args.job).to_string()))
}

/// What ends the programs of a measurement that was killed.
pub(crate) fn guard(args: &BenchGuardArgs) -> u8 {
    manypath_bench::guard(&args.mark);
    0
}

/// Measures with both ends on this machine.
fn here(
    args: &BenchArgs,
    campaign: &Campaign<'_>,
    watch: &mut Watch,
    report: &mut Report,
) -> Result<(), Failure> {
    for place in plan::places(args) {
        let place = match place {
            Ok(place) => place,
            Err((name, reason, asked)) => {
                if asked {
                    return Err(Failure::new(reason));
                }
                watch.say(&format!("{name} is left out: {reason}"));
                let skipped = Skipped { case: name, transport: None, reason, failed: false };
                report.results.skipped.push(skipped);
                continue;
            }
        };
        let pinned = Pinned::on(&place, &args.congestion).map_err(Failure::usage)?;
        watch.say(&format!("{}: {}", place.name, place.description));
        let results = campaign.at(&place, watch).map_err(failure)?;
        report.add(format!("{}: {}", place.name, place.description), pinned, results);
    }
    Ok(())
}

fn failure(reason: String) -> Failure {
    match reason.as_str() {
        "interrupted" => Failure::new("interrupted; everything was cleaned up").with_status(130),
        _ => Failure::new(reason),
    }
}

/// Everything that was measured, and under which circumstances.
struct Report {
    places: Vec<String>,
    pinned: Vec<Pinned>,
    command: String,
    results: Results,
}

impl Report {
    fn new() -> Self {
        let words: Vec<_> =
            std::env::args().skip(1).map(|it| shell::word(&it).into_owned()).collect();
        let command = format!("manypath {}", words.join(" "));
        Self { places: Vec::new(), pinned: Vec::new(), command, results: Results::default() }
    }

    fn add(&mut self, place: String, pinned: Pinned, results: Results) {
        self.places.push(place);
        self.pinned.push(pinned);
        self.results.results.extend(results.results);
        self.results.skipped.extend(results.skipped);
    }

    fn finish(&self, args: &BenchArgs) -> Result<u8, Failure> {
        if self.results.results.is_empty() {
            let reasons = self.results.skipped.iter().map(table::skipped_line);
            let reasons: Vec<_> = reasons.collect();
            return Err(Failure::new(format!("nothing was measured: {}", reasons.join("; "))));
        }
        let json = json::object(self, args);
        let json = serde_json::to_string_pretty(&json).map_err(|e| Failure::new(e.to_string()))?;
        let text = table::text(self, args);
        if let Some(folder) = &args.output {
            output::write(folder, self, &text, &json)?;
        }
        println!("{}", if args.json { json } else { text });
        let failed = self.results.skipped.iter().any(|skipped| skipped.failed);
        Ok(u8::from(failed))
    }

    /// The transport whose runs are told as iperf3 would.
    fn main_transport(&self) -> Option<Transport> {
        let has = |transport: &Transport| {
            self.results.results.iter().any(|row| row.transport == *transport)
        };
        [Transport::Manypath].into_iter().chain(Transport::ALL).find(has)
    }
}
