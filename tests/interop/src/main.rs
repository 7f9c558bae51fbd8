//! Transfers between our SCTP library and other SCTP implementations, on two hosts of a lab. The far end
//! is the same program as the near one (`tests/peers/sockets`) over another stack, where that has the
//! sockets API, else one of its own with the same command line.
//!
//! ```text
//! interop [--peer NAME]... [--only ROW]... [--megabytes N] [--write FILE] [--keep DIR] [--list]
//! ```
//!
//! Ends with 1 where something failed that can run here.
//!
//! ```text
//! scenario.rs   what is tried, and what must come of it
//! stock.rs      programs made for the kernel's SCTP, over `manypath run --sctp`
//! peer/         whom with: how it is built, started and reached, and what it cannot do
//! cell.rs       one scenario with one peer
//! program.rs    the running ends
//! tshark.rs     what the capture says
//! matrix.rs     the results as tables
//! ```
#![forbid(unsafe_code)]

mod cell;
mod matrix;
mod peer;
mod program;
mod scenario;
mod stock;
mod tshark;

use cell::{Outcome, Tools};
use matrix::Matrix;
use scenario::{Initiator, Scenario};
use std::process::ExitCode;

/// The command line.
#[derive(Default)]
struct Options {
    peers: Vec<String>,
    only: Vec<String>,
    megabytes: Option<u64>,
    write: Option<String>,
    keep: Option<String>,
    list: bool,
}

fn main() -> ExitCode {
    match options(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("interop: {error}");
            ExitCode::from(2)
        }
    }
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--peer" => options.peers.push(value()?),
            "--only" => options.only.push(value()?),
            "--megabytes" => {
                options.megabytes = Some(value()?.parse().map_err(|_| "no number".to_owned())?);
            }
            "--write" => options.write = Some(value()?),
            "--keep" => options.keep = Some(value()?),
            "--list" => options.list = true,
            _ => return Err(format!("there is no option '{word}'")),
        }
    }
    Ok(options)
}

/// Whether everything that can run here went well.
fn run(options: &Options) -> Result<bool, String> {
    let megabytes = options.megabytes.unwrap_or(100);
    let mut scenarios = scenario::all(megabytes * 1_000_000);
    scenarios.retain(|one| chosen(&options.only, one.id));
    let mut peers = peer::all();
    peers.retain(|one| chosen(&options.peers, one.id()));
    let programs: Vec<_> =
        stock::PROGRAMS.iter().filter(|one| chosen(&options.only, one.id)).collect();
    let mut fars = stock::fars();
    fars.retain(|one| chosen(&options.peers, one.id()));
    if options.list {
        peers.iter().for_each(|peer| println!("peer      {:<14} {}", peer.id(), peer.name()));
        fars.iter().for_each(|far| println!("far end   {:<14} {}", far.id(), far.name()));
        scenarios.iter().for_each(|one| println!("scenario  {:<14} {}", one.id, one.title));
        programs.iter().for_each(|one| println!("program   {:<14} {}", one.id, one.title));
        return Ok(true);
    }
    let tools = Tools::new(options.keep.as_deref())?;
    let matrices = [stacks(&tools, peers, &scenarios), stock::all(&tools, fars, &programs)];
    if matrices.iter().all(Matrix::is_empty) {
        return Err("no such peer or row; --list shows them".to_owned());
    }
    for matrix in matrices.iter().filter(|matrix| !matrix.is_empty()) {
        print!("\n{}", matrix.text());
        if let Some(file) = &options.write {
            matrix.write(file)?;
        }
    }
    Ok(!matrices.iter().any(Matrix::failed))
}

fn chosen(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|wanted| name == wanted)
}

/// All scenarios with all peers.
fn stacks(tools: &Tools, peers: Vec<Box<dyn peer::Peer>>, scenarios: &[Scenario]) -> Matrix {
    let titles = scenarios.iter().map(|one| one.title.clone()).collect();
    let mut matrix = Matrix::new("matrix", titles);
    for mut peer in peers.into_iter().filter(|_| !scenarios.is_empty()) {
        let column = match peer.prepare(tools) {
            Ok(()) => scenarios.iter().map(|one| row(tools, peer.as_ref(), one)).collect(),
            Err(reason) => matrix::missing(peer.name(), &reason, scenarios.len()),
        };
        matrix.add(peer.name(), column);
    }
    matrix
}

/// One scenario with one peer, begun by either side.
fn row(tools: &Tools, peer: &dyn peer::Peer, scenario: &Scenario) -> Vec<Outcome> {
    [Initiator::Ours, Initiator::Theirs]
        .into_iter()
        .map(|initiator| {
            let outcome = match peer.cannot(scenario, initiator) {
                Some(reason) => Outcome::Unsupported(reason),
                None => cell::run(tools, peer, scenario, initiator),
            };
            println!("{} · {} · {initiator:?} begins: {outcome}", peer.name(), scenario.title);
            outcome
        })
        .collect()
}
