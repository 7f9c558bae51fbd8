//! `docs/status.md` explains every reason and every counter that a stack can show, and no others.
#![allow(clippy::panic, reason = "a failing helper fails the test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("workspace").to_owned()
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// What stands between `begin` and the next `end`.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(begin).unwrap_or_else(|| panic!("no {begin}"));
    rest.split_once(end).map_or(rest, |(inside, _)| inside)
}

/// What stands between pairs of `quote`.
fn quoted(text: &str, quote: char) -> impl Iterator<Item = &str> {
    text.split(quote).skip(1).step_by(2)
}

fn is_name(text: &str, joint: char) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c == joint || c.is_ascii_lowercase() || c.is_ascii_digit())
}

/// The counters that a list in the source names, a line each.
fn listed(file: &str, begin: &str, prefix: &str) -> BTreeSet<String> {
    let text = read(file);
    let lines = between(&text, begin, "}\n").lines().map(str::trim);
    let names = lines.filter_map(|line| line.strip_suffix(',')).filter(|name| is_name(name, '_'));
    let names: BTreeSet<_> = names.map(|name| format!("{prefix}_{name}")).collect();
    assert!(names.len() > 5, "{file}: {names:?}");
    names
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a folder").flatten() {
        let path = entry.path();
        let is_test = path.to_string_lossy().contains("test");
        match path.is_dir() {
            true if !path.ends_with("settings") => sources(&path, out),
            false if !is_test => out.push(path),
            _ => {}
        }
    }
}

/// The counters of the stack itself: all names with an underscore in its code, but for those of settings,
/// and those without one.
fn of_the_stack() -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(&root().join("crates/daemon/src"), &mut files);
    let mut names =
        BTreeSet::from(["turns", "reloads", "suspensions"].map(|it| format!("stack_{it}")));
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source");
        let code = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let words = lines.flat_map(|line| quoted(line, '"'));
        let counters = words.filter(|word| word.contains('_') && is_name(word, '_'));
        names.extend(counters.map(|word| format!("stack_{word}")));
    }
    assert!(names.len() > 50, "{names:?}");
    names
}

/// Names in the first column of the tables below a heading.
fn explained(page: &str, heading: &str) -> BTreeSet<String> {
    let tables = between(page, heading, "\n## ").lines();
    let rows = tables.filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.flat_map(|cell| quoted(cell, '`')).map(str::to_owned).collect()
}

#[test]
fn every_counter_is_explained() {
    let mut counted = of_the_stack();
    counted.extend(listed("crates/engine/src/status.rs", "\ncounters! {", "sctp"));
    counted.extend(listed("crates/net/src/counters.rs", "\ncounters! {", "udp"));
    counted.extend(listed("crates/flow/src/status.rs", "FlowCounters {", "flow"));
    let datagrams = "crates/flow/src/datagrams/status.rs";
    counted.extend(listed(datagrams, "DatagramCounters {", "datagram"));
    assert_eq!(explained(&read("docs/status.md"), "\n## Counters"), counted);
}

#[test]
fn every_reason_for_plain_tcp_is_explained() {
    let source = read("crates/control/src/fallback.rs");
    let reasons = between(&source, "\nreasons! {", "\n}\n").lines();
    let names = reasons.filter_map(|line| line.split_once(" = \"")?.1.split('"').next());
    let names: BTreeSet<_> = names.map(str::to_owned).collect();
    assert!(names.len() > 20, "{names:?}");
    let page = read("docs/status.md");
    assert_eq!(explained(&page, "\n## Why a connection is plain TCP"), names);
}

#[test]
fn every_reason_to_be_idle_is_explained() {
    let source = read("crates/control/src/path.rs");
    let page = read("docs/status.md");
    let texts = between(&source, "pub fn text(self", "\n    }\n");
    let texts: Vec<_> = quoted(texts, '"').map(|text| text.replace("{losses}", "N")).collect();
    assert!(texts.len() > 10, "{texts:?}");
    for text in &texts {
        assert!(page.contains(&format!("| {text} |")), "{text}");
    }
    assert_eq!(explained(&page, "\n## Why a path is idle").len(), texts.len() + 1);
}

#[test]
fn every_link_of_every_page_leads_somewhere() {
    let checked = std::process::Command::new("python3")
        .args(["scripts/docs", "--check"])
        .current_dir(manypath_tests::root())
        .output()
        .expect("python3");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
