//! Attacks against a running `manypath serve`, on hosts of a lab, each with the figure that it must keep.
//!
//! ```text
//! attacks --manypath FILE [--only GROUP]... [--json] [--list]
//! ```
//!
//! Ends with 1 where a bound is missed.
//!
//! ```text
//! suite/      the attacks, in groups: what is tried, what is measured, what is promised
//! attacker/   what an attacker's process does
//! site.rs     the hosts
//! report.rs   figures and bounds
//! ```
#![forbid(unsafe_code)]

mod attacker;
mod report;
mod site;
mod suite;

use report::Row;
use std::path::PathBuf;
use std::process::ExitCode;

/// The command line.
struct Options {
    manypath: PathBuf,
    only: Vec<String>,
    json: bool,
    list: bool,
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    if words.peek().is_some_and(|word| word == "attacker") {
        return match attacker::run(words.skip(1).collect()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    match options(words).and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("attacks: {error}");
            ExitCode::from(2)
        }
    }
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let manypath = PathBuf::from("target/release/manypath");
    let mut options = Options { manypath, only: Vec::new(), json: false, list: false };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--manypath" => options.manypath = value()?.into(),
            "--only" => options.only.push(value()?),
            "--json" => options.json = true,
            "--list" => options.list = true,
            _ => return Err(format!("there is no option '{word}'")),
        }
    }
    options.manypath = std::path::absolute(&options.manypath).map_err(|error| error.to_string())?;
    Ok(options)
}

/// Whether every bound was kept.
fn run(options: &Options) -> Result<bool, String> {
    let known: Vec<_> = suite::GROUPS.iter().map(|(name, _)| *name).collect();
    if let Some(strange) = options.only.iter().find(|one| !known.contains(&one.as_str())) {
        return Err(format!("there is no group '{strange}', but {}", known.join(", ")));
    }
    if options.list {
        println!("{}", known.join("\n"));
        return Ok(true);
    }
    if !options.manypath.is_file() {
        return Err(format!("{} is missing: make build", options.manypath.display()));
    }
    if !options.json {
        println!("{}", report::HEAD);
    }
    let mut rows: Vec<Row> = Vec::new();
    for (name, group) in suite::GROUPS {
        if options.only.is_empty() || options.only.iter().any(|one| one == name) {
            let mut say = |row: Row| {
                if !options.json {
                    println!("{}", row.text());
                }
                rows.push(row);
            };
            if let Err(error) = group(&options.manypath, &mut say) {
                say(Row::failed(name, error));
            }
        }
    }
    if options.json {
        let rows: Vec<_> = rows.iter().map(Row::json).collect();
        println!("{}", serde_json::Value::from(rows));
    } else {
        println!("\n{}", report::sum(&rows));
    }
    Ok(rows.iter().all(Row::held))
}
