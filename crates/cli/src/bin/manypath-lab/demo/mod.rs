//! `manypath demo`: the main job on real programs, measured.
//!
//! Two hosts, two dissimilar paths, stock scp and stock curl; the same file by plain TCP, by kernel
//! MPTCP and by manypath, also while the better path is cut and comes back.

pub(crate) mod args;
mod loopback;
mod measure;
mod ports;
mod programs;
mod progress;
mod report;
mod services;
mod table;
mod transfer;
mod world;

use crate::failure::Failure;
use args::{DemoArgs, Program, TransportChoice};
use measure::Run;
use ports::Listen;
use progress::Progress;
use serde::Serialize;
use services::{Keys, Service};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use transfer::{Case, Outcome, Setting};
use world::World;

/// A run that could not be made, and why.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Skipped {
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Summary<'a> {
    place: String,
    sum_of_payload_ceilings_mbps: f64,
    tcp_congestion_control: String,
    runs: Vec<&'a Run>,
    skipped: &'a [Skipped],
}

/// Runs the demo; the exit status is 1 if a transfer failed or a file arrived damaged.
pub(crate) fn demo(args: &DemoArgs) -> Result<u8, Failure> {
    if args.bytes == 0 {
        return Err(Failure::usage("--bytes must be at least 1"));
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let mut progress = Progress::new(args.json);
    let world = make_world(args.loopback, &progress)?;
    let mut demo = Demo::prepare(args, &world, interrupted)?;
    progress.say(&format!("manypath demo: {}; file of {} bytes", world.describe(), args.bytes));
    for case in cases(args) {
        demo.run(case, &mut progress)?;
    }
    demo.finish(args, &progress)
}

/// Real hosts where possible, loopback otherwise.
fn make_world(loopback: bool, progress: &Progress) -> Result<World, Failure> {
    if loopback {
        return World::loopback();
    }
    World::lab().or_else(|reason| {
        progress.say(&format!("no hosts in namespaces here: {reason}"));
        progress.say("the paths are emulated on loopback; what needs real hosts is left out");
        World::loopback()
    })
}

/// All runs that were asked for, in the order of the table.
fn cases(args: &DemoArgs) -> Vec<Case> {
    use TransportChoice::{Manypath, ManypathCut, Mptcp, MptcpCut, Tcp};
    let programs = [Program::Curl, Program::Scp];
    let wanted = |p: &Program| args.only.is_empty() || args.only.contains(p);
    let asked = |t: &TransportChoice| args.transport.is_empty() || args.transport.contains(t);
    let transports = [Tcp, Mptcp, MptcpCut, Manypath, ManypathCut];
    let all = programs.into_iter().filter(wanted);
    all.flat_map(|program| {
        transports.into_iter().filter(asked).map(move |transport| Case { program, transport })
    })
    .collect()
}

/// A prepared demo: servers are up, the file is there.
struct Demo<'a> {
    setting: Setting<'a>,
    output: PathBuf,
    services: Services,
    outcomes: Vec<Outcome>,
    skipped: Vec<Skipped>,
    failed: bool,
}

/// The servers, or why one is missing.
struct Services {
    _manypath: Service,
    nginx: Result<Service, String>,
    nginx_mptcp: Result<Service, String>,
    sshd: Result<Service, String>,
    sshd_mptcp: Result<Service, String>,
}

impl<'a> Demo<'a> {
    fn prepare(
        args: &DemoArgs,
        world: &'a World,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Self, Failure> {
        fs::create_dir_all(&args.output)
            .map_err(|e| Failure::new(format!("cannot make {}: {e}", args.output.display())))?;
        let source = world.work_dir().join("www");
        fs::create_dir_all(&source)?;
        let file = source.join("file");
        random_file(&file, args.bytes)?;
        let sha256 = transfer::sha256(&file).map_err(Failure::new)?;
        let keys = Keys::generate(world.work_dir());
        let services = Services::start(world, &source, &keys)?;
        let setting =
            Setting { world, keys: keys.ok(), source, bytes: args.bytes, sha256, interrupted };
        let (outcomes, skipped) = (Vec::new(), Vec::new());
        Ok(Self {
            setting,
            output: args.output.clone(),
            services,
            outcomes,
            skipped,
            failed: false,
        })
    }

    /// Runs one case; what cannot be run here is noted with its reason.
    fn run(&mut self, case: Case, progress: &mut Progress) -> Result<(), Failure> {
        if self.setting.interrupted.load(Ordering::Relaxed) {
            return Err(Failure::new("interrupted; everything was cleaned up"));
        }
        progress.begin(&case.name());
        if let Err(reason) = self.services.ready_for(case, self.setting.world) {
            progress.end(&format!("left out: {reason}"));
            self.skipped.push(Skipped { name: case.name(), reason });
            return Ok(());
        }
        let capture = self.output.join(format!("{}.pcapng", case.name()));
        self.setting.world.start_capture(&capture).map_err(Failure::new)?;
        let result = transfer::transfer(&self.setting, case, progress);
        self.setting.world.stop_capture();
        match result {
            Ok(outcome) => {
                progress.end(&format!(
                    "{:5.2} s, {:.2} Mbit/s",
                    outcome.run.seconds, outcome.run.goodput_mbps
                ));
                self.failed |= !outcome.run.sha256_equal;
                self.outcomes.push(outcome);
            }
            Err(reason) => {
                let log = services::server_log(self.setting.world);
                progress.end(&format!("FAILED: {reason}\n  the server's log ends with:\n{log}"));
                self.failed = true;
                self.skipped
                    .push(Skipped { name: case.name(), reason: format!("failed: {reason}") });
            }
        }
        Ok(())
    }

    fn finish(mut self, args: &DemoArgs, progress: &Progress) -> Result<u8, Failure> {
        if self.outcomes.is_empty() && !self.failed {
            return Err(nothing_measured(&self.skipped));
        }
        let mut runs: Vec<Run> = self.outcomes.iter().map(|o| o.run.clone()).collect();
        measure::relate_to_tcp(&mut runs);
        for (outcome, run) in self.outcomes.iter_mut().zip(&runs) {
            outcome.run.ratio_to_best_path = run.ratio_to_best_path;
        }
        let sum = self.setting.world.ceilings().sum_mbps();
        let place = self.setting.world.describe();
        let page = report::html(&place, &self.outcomes, &self.skipped, sum);
        let file = self.output.join("report.html");
        fs::write(&file, page)
            .map_err(|e| Failure::new(format!("cannot write {}: {e}", file.display())))?;
        if let Some(chart) = report::cut_chart(&self.outcomes, sum) {
            fs::write(self.output.join("cut.svg"), chart)?;
        }
        if args.json {
            self.print_json(place, sum)?;
        } else {
            println!("\n{}", table::table(&runs, &self.skipped, sum));
            report::headline(&self.outcomes).iter().for_each(|line| println!("{line}"));
            progress.say(&format!(
                "report: {}; captures: {}/*.pcapng",
                file.display(),
                self.output.display()
            ));
        }
        Ok(u8::from(self.failed))
    }

    fn print_json(&self, place: String, sum: f64) -> Result<(), Failure> {
        let summary = Summary {
            place,
            sum_of_payload_ceilings_mbps: sum,
            tcp_congestion_control: congestion_control(),
            runs: self.outcomes.iter().map(|o| &o.run).collect(),
            skipped: &self.skipped,
        };
        let text =
            serde_json::to_string_pretty(&summary).map_err(|e| Failure::new(e.to_string()))?;
        println!("{text}");
        Ok(())
    }
}

impl Services {
    fn start(world: &World, source: &Path, keys: &Result<Keys, String>) -> Result<Self, Failure> {
        let mptcp = if world.has_hosts() {
            world.enable_mptcp()
        } else {
            Err("needs two hosts: root or user namespaces".to_owned())
        };
        let sshd = |listen| {
            keys.as_ref().map_err(Clone::clone).and_then(|k| services::start_sshd(world, k, listen))
        };
        let nginx_mptcp =
            mptcp.clone().and_then(|()| services::start_nginx(world, source, Listen::Mptcp));
        let sshd_mptcp = mptcp.and_then(|()| sshd(Listen::Mptcp));
        Ok(Self {
            _manypath: services::start_manypath(world)?,
            nginx: services::start_nginx(world, source, Listen::Tcp),
            nginx_mptcp,
            sshd: sshd(Listen::Tcp),
            sshd_mptcp,
        })
    }

    /// Whether the case's server is up, otherwise why it is not.
    fn ready_for(&self, case: Case, world: &World) -> Result<(), String> {
        use TransportChoice::{Manypath, ManypathCut, Mptcp, MptcpCut, Tcp};
        if case.transport == Tcp && !world.has_hosts() {
            return Err("plain TCP crosses emulated paths only between real hosts".to_owned());
        }
        let service = match (case.program, case.transport) {
            (Program::Curl, Mptcp | MptcpCut) => &self.nginx_mptcp,
            (Program::Scp, Mptcp | MptcpCut) => &self.sshd_mptcp,
            (Program::Curl, Tcp | Manypath | ManypathCut) => &self.nginx,
            (Program::Scp, Tcp | Manypath | ManypathCut) => &self.sshd,
        };
        service.as_ref().map_err(Clone::clone)?;
        transfer::need_client(case.program).map(drop)
    }
}

/// No program of the demo is here.
fn nothing_measured(skipped: &[Skipped]) -> Failure {
    let mut reasons: Vec<&str> = skipped.iter().map(|one| one.reason.as_str()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    Failure::new(format!("nothing could be measured: {}", reasons.join("; ")))
        .hint("the demo runs curl and nginx, or scp and sshd; see also: manypath bench --help")
}

/// Random bytes, so that nothing on the way can compress them.
fn random_file(file: &Path, bytes: u64) -> Result<(), Failure> {
    use std::io::Write;
    let failed = |e: std::io::Error| Failure::new(format!("cannot write {}: {e}", file.display()));
    let mut target = std::io::BufWriter::new(fs::File::create(file).map_err(failed)?);
    let mut block = [0; 1 << 16];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(block.len() as u64) as usize;
        getrandom::fill(&mut block[..length]).map_err(|e| failed(std::io::Error::other(e)))?;
        target.write_all(&block[..length]).map_err(failed)?;
        left -= length as u64;
    }
    target.flush().map_err(failed)
}

/// The kernel's congestion control, which the TCP and MPTCP rows depend on.
fn congestion_control() -> String {
    let file = "/proc/sys/net/ipv4/tcp_congestion_control";
    fs::read_to_string(file).map_or_else(|_| "unknown".to_owned(), |s| s.trim().to_owned())
}
