//! The attacks, in groups.

mod cheats;
mod exchanges;
mod floods;
mod memory;
mod reach;
mod tests;
mod third_parties;

use crate::report::Row;
use crate::site::{Outcome, Site};
use serde_json::Value;
use std::path::Path;

/// Where rows go as soon as they are known.
pub(crate) type Say<'a> = &'a mut dyn FnMut(Row);
/// A group of attacks against one server.
pub(crate) type Group = fn(&Path, Say<'_>) -> Outcome<()>;

pub(crate) const GROUPS: &[(&str, Group)] = &[
    ("third-parties", third_parties::run),
    ("reach", reach::run),
    ("cheats", cheats::run),
    ("memory", memory::run),
    ("key-exchanges", exchanges::run),
    ("floods", floods::run),
    ("users", tests::run),
];

/// A number of an attacker's report.
fn number(report: &Value, name: &str) -> Outcome<f64> {
    report[name].as_f64().ok_or_else(|| format!("the attacker says nothing of {name}: {report}"))
}

/// An attack that did not take place proves nothing.
fn demand(condition: bool, what: &str, report: &Value) -> Outcome<()> {
    if condition { Ok(()) } else { Err(format!("{what}: {report}")) }
}

/// Of so many connects of the client, how many fail.
fn failed_connects(site: &Site, count: u32) -> Outcome<f64> {
    let mut failed = 0;
    for _ in 0..count {
        failed += u32::from(!site.fetch("small", 10.0, true)?.whole);
    }
    Ok(failed.into())
}

/// The row of an attack, or that it failed: others go on.
fn row(say: Say<'_>, attack: &str, made: Outcome<Row>) {
    say(made.unwrap_or_else(|error| Row::failed(attack, error)));
}
