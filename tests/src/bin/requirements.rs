//! Prints how it stands with the requirements of the RFCs; writes the page about it.

use manypath_tests::{RFCS, Row, Specification, Table, checklist, page, root, skeleton, totals};
use std::process::ExitCode;

const USAGE: &str = "\
Usage: requirements [--write | --json | --skeleton rfcNNNN]

  (nothing)            print the totals of every RFC
  --write              write docs/conformance.md
  --json               print the totals as JSON
  --skeleton rfcNNNN   print a table of that RFC in which everything is to do

Example: cargo run -p manypath-tests --bin requirements -- --write
";

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
}

fn tables() -> Result<Vec<(&'static str, &'static str, Table)>, String> {
    let one = |&(name, subject): &(&'static str, &'static str)| {
        let path = format!("specs/requirements/{name}.toml");
        let table = Table::parse(&read(&path)?).map_err(|why| format!("{path}: {why}"))?;
        Ok((name, subject, table))
    };
    RFCS.iter().map(one).collect()
}

fn rows() -> Result<Vec<Row>, String> {
    let path = "specs/checklist.toml";
    checklist(&read(path)?).map_err(|why| format!("{path}: {why}"))
}

fn lines(json: bool) -> Result<String, String> {
    let line = |(name, _, table): &(&str, &str, Table)| {
        let t = totals(table);
        let (met, exceptions, todo) = (t.met, t.exceptions, t.todo);
        if json {
            let fields = format!("\"met\":{met},\"exceptions\":{exceptions},\"todo\":{todo}");
            format!("{{\"rfc\":\"{name}\",\"requirements\":{},{fields}}}", t.all())
        } else {
            let all = t.all();
            format!(
                "{name}: {all:4} requirements, {met:4} met, {exceptions:4} exceptions, {todo:4} to do"
            )
        }
    };
    let lines: Vec<_> = tables()?.iter().map(line).collect();
    Ok(if json { format!("[{}]", lines.join(",\n")) } else { lines.join("\n") })
}

fn run(arguments: &[&str]) -> Result<String, String> {
    match arguments {
        [] => lines(false),
        ["--json"] => lines(true),
        ["--write"] => {
            let path = "docs/conformance.md";
            let written = std::fs::write(root().join(path), page(&tables()?, &rows()?));
            written.map(|()| format!("{path} is written")).map_err(|error| error.to_string())
        }
        ["--skeleton", name] => {
            Ok(skeleton(&Specification::parse(&read(&format!("specs/{name}.txt"))?)))
        }
        ["--help" | "-h"] => Ok(USAGE.to_owned()),
        other => Err(format!("unknown arguments: {}\n{USAGE}", other.join(" "))),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(text) => println!("{text}"),
        Err(why) => {
            eprintln!("requirements: {why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
