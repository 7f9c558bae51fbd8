//! Runs packetdrill scripts for SCTP against the engine. See `pkt --help`.
#![forbid(unsafe_code)]
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "what a script must not say at some place is everything but a few kinds of values"
)]

mod api;
mod language;
mod packet;
mod report;
mod run;
mod scripts;
mod socket;
mod verdict;
mod world;

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs packetdrill scripts for SCTP against the engine, in virtual time.
///
/// Prints one line per script and a count at the end. PASS: the stack did what the script says.
/// FAIL: it did not, or the script is malformed. SKIP: the script needs something that this runner
/// cannot do, or it is waived.
///
/// FreeBSD is defined for #ifdef; lines with sysctl set options of the stack.
#[derive(Parser, Debug)]
#[command(
    name = "pkt",
    version,
    after_help = "Exit status: 0 without a FAIL, 1 with one, 2 if nothing could be run.\n\n\
                  Example:\n  pkt --waivers crates/pkt/waivers.toml ETSI-SCTP-Conformance-Testsuite"
)]
struct Options {
    /// Scripts (*.pkt), and directories that are searched for them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Print JSON instead: one object per line, the last one with the counts.
    #[arg(long)]
    json: bool,
    /// Print only what did not pass, and the counts.
    #[arg(long, short)]
    quiet: bool,
    /// Print the packets of each script as they pass, before its verdict.
    #[arg(long, conflicts_with = "json")]
    trace: bool,
    /// Define another name for #ifdef, or a word that stands for another: NAME or NAME=VALUE.
    #[arg(long, short = 'D', value_name = "NAME")]
    define: Vec<String>,
    /// Scripts that are not expected to pass, each with the reason and the date.
    #[arg(long, value_name = "FILE")]
    waivers: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(text) => {
            eprintln!("pkt: {text}");
            ExitCode::from(2)
        }
    }
}

/// Runs everything. Whether nothing failed.
fn run(options: &Options) -> Result<bool, String> {
    let waivers = match &options.waivers {
        Some(file) => verdict::Waivers::read(file)?,
        None => verdict::Waivers::default(),
    };
    let files = scripts::find(&options.paths)?;
    let defines = scripts::defines(&options.define);
    let mut report = report::Report::new(options.json, options.quiet);
    for file in &files {
        report.add(file, &verdict::judge(file, &defines, &waivers, options.trace));
    }
    Ok(report.finish())
}
