//! Types stay small: one with too many fields or methods is several things at once.

use crate::size::sources;
use std::collections::BTreeMap;

const MAX_FIELDS: usize = 20;
const MAX_METHODS: usize = 60;

/// Structs with more fields, and how many they have: a number may only fall, and a struct that has
/// become small leaves the list.
const FIELDS: &[(&str, usize)] = &[
    ("bench::Row", 21),
    ("cgroup::Redirector", 21),
    ("cli::BenchArgs", 23),
    ("cli::Findings", 21),
    ("cli::ReportJson", 21),
    ("control::PathStatus", 35),
    ("control::StackStatus", 24),
    ("daemon::StackConfig", 27),
    ("engine::Bbr", 26),
    ("engine::Config", 83),
    ("engine::Flight", 24),
    ("engine::PathCounters", 21),
    ("engine::PathStatus", 38),
    ("lab::DirectionStatus", 24),
    ("shim::Supervisor", 24),
];

/// The same for types with more methods of their own, those of traits left out.
const METHODS: &[(&str, usize)] = &[
    ("cgroup::Redirector", 100),
    ("engine::Bbr", 79),
    ("engine::Endpoint", 137),
    ("flow::FlowMux", 100),
    ("shim::Supervisor", 157),
    ("sockets::Sockets", 71),
];

/// How many fields and methods a type has.
#[derive(Default)]
struct Counts {
    fields: usize,
    methods: usize,
}

/// `line` without `pub` and what stands in parentheses behind it.
fn without_visibility(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("pub") else { return line };
    let rest =
        rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, r)| r);
    rest.strip_prefix(' ').unwrap_or(line)
}

/// The identifier that `text` begins with.
fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The type whose body begins with `line`: a struct with named fields, or what is no implementation of a trait.
fn begun(line: &str) -> Option<&str> {
    let line = without_visibility(line.strip_suffix(" {")?);
    if let Some(rest) = line.strip_prefix("struct ") {
        return Some(identifier(rest));
    }
    let rest = line.strip_prefix("impl").filter(|_| !line.contains(" for "))?;
    let rest = if rest.starts_with('<') { rest.split_once("> ")?.1 } else { rest };
    Some(identifier(rest.trim_start())).filter(|name| !name.is_empty())
}

fn is_field(line: &str) -> bool {
    let name = identifier(line);
    !name.is_empty() && line[name.len()..].starts_with(": ")
}

fn is_method(line: &str) -> bool {
    let words = line.split(' ');
    let mut words = words.skip_while(|word| ["const", "async", "unsafe"].contains(word));
    words.next() == Some("fn")
}

/// Adds what `text` says of types, by the indentation that rustfmt guarantees. Of several structs of one name in
/// a crate the largest counts.
fn count(krate: &str, text: &str, types: &mut BTreeMap<String, Counts>) {
    let mut open: Option<(usize, String)> = None;
    let mut fields = 0;
    for line in text.lines() {
        let (indent, code) = (line.len() - line.trim_start().len(), line.trim_start());
        let Some((at, name)) = &open else {
            open = begun(code).map(|name| (indent, format!("{krate}::{name}")));
            fields = 0;
            continue;
        };
        let code = without_visibility(code);
        if indent == at + 4 {
            let counts = types.entry(name.clone()).or_default();
            fields += usize::from(is_field(code));
            counts.fields = counts.fields.max(fields);
            counts.methods += usize::from(is_method(code));
        } else if indent == *at && code == "}" {
            open = None;
        }
    }
}

fn types() -> BTreeMap<String, Counts> {
    let mut types = BTreeMap::new();
    for (file, text) in sources() {
        let mut parts = file.components().rev().map(|part| part.as_os_str().to_string_lossy());
        let is_test = parts.clone().any(|part| part.contains("tests"));
        if is_test || file.ends_with("testing.rs") || !parts.any(|part| part == "src") {
            continue;
        }
        let krate = parts.next().expect("below crates/");
        let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
        count(&krate, &text[..end], &mut types);
    }
    types
}

fn hold(what: &str, limit: usize, exceptions: &[(&str, usize)], of: impl Fn(&Counts) -> usize) {
    let types = types();
    let large = types.iter().map(|(name, counts)| (name.as_str(), of(counts)));
    let large: Vec<_> = large.filter(|(_, number)| *number > limit).collect();
    assert_eq!(large, exceptions, "types with more than {limit} {what}");
}

#[test]
fn structs_have_few_fields() {
    hold("fields", MAX_FIELDS, FIELDS, |counts| counts.fields);
}

#[test]
fn types_have_few_methods() {
    hold("methods", MAX_METHODS, METHODS, |counts| counts.methods);
}

#[test]
fn fields_and_methods_are_counted() {
    let text = "\
pub(crate) struct A<T> {
    /// Not: this.
    pub one: u8,
    pub(super) two: T,
}

impl<T: Into<u8>> A<T> {
    const NONE: u8 = 0;

    pub(crate) const fn get(&self) -> u8 {
        fn inner() {}
        let b = B { one: 1 };
    }

    fn put(
        &mut self,
        one: u8,
    ) {
    }
}

impl Clone for A<u8> {
    fn clone(&self) -> Self {
    }
}
";
    let mut types = BTreeMap::new();
    count("a", text, &mut types);
    let found: Vec<_> =
        types.iter().map(|(name, c)| (name.as_str(), c.fields, c.methods)).collect();
    assert_eq!(found, [("a::A", 2, 2)]);
}
