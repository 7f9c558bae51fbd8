//! The table, a decision, a check: as text or as JSON.

use super::failure;
use crate::failure::Failure;
use manypath_control::counted;
use manypath_rules::{Chain, Finding, Place, Policy, Query, RulesFile, Table};
use serde::Serialize;
use std::path::PathBuf;

const LISTS: [(Chain, Policy); 4] = [
    (Chain::Local, Policy::Enable),
    (Chain::Local, Policy::Disable),
    (Chain::Remote, Policy::Enable),
    (Chain::Remote, Policy::Disable),
];

/// What `rules list --json` and `rules test --json` print.
#[derive(Serialize)]
struct TableJson {
    files: Vec<PathBuf>,
    defaults: DefaultsJson,
    rules: Vec<RuleJson>,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct DefaultsJson {
    local: Policy,
    remote: Policy,
}

#[derive(Serialize)]
struct RuleJson {
    #[serde(flatten)]
    place: Place,
    rule: String,
}

/// Prints the rules of one or all lists.
pub(super) fn list(
    file: &RulesFile,
    chain: Option<Chain>,
    policy: Option<Policy>,
    as_json: bool,
) -> Result<u8, Failure> {
    let table = file.read().map_err(failure)?.table();
    let wanted = |place: &Place| {
        chain.is_none_or(|chain| chain == place.chain)
            && policy.is_none_or(|policy| policy == place.policy)
    };
    if as_json {
        let mut shown = table_json(file, &table);
        shown.rules.retain(|rule| wanted(&rule.place));
        shown.findings.retain(|finding| wanted(&finding.place));
        return json(&shown);
    }
    for of in [Chain::Local, Chain::Remote].iter().filter(|of| chain.is_none_or(|c| c == **of)) {
        println!("default {of} {}", table.default_policy(*of));
    }
    for (place, rule) in rules(&table).filter(|(place, _)| wanted(place)) {
        println!("{:>3}  {rule}", place.number);
    }
    for found in table.findings().iter().filter(|found| wanted(&found.place)) {
        eprintln!("manypath: {}", finding(found));
    }
    Ok(0)
}

/// Prints the default policy of one or all chains.
pub(super) fn defaults(
    file: &RulesFile,
    chain: Option<Chain>,
    as_json: bool,
) -> Result<u8, Failure> {
    let table = file.read().map_err(failure)?.table();
    if as_json {
        return json(&defaults_json(&table));
    }
    for of in [Chain::Local, Chain::Remote].iter().filter(|of| chain.is_none_or(|c| c == **of)) {
        println!("{of} {}", table.default_policy(*of));
    }
    Ok(0)
}

/// Prints what would happen to a connection.
pub(super) fn explanation(
    file: &RulesFile,
    query: Query<'_>,
    as_json: bool,
) -> Result<u8, Failure> {
    let table = file.read().map_err(failure)?.table();
    let explanation = table.explain(query);
    if as_json {
        return json(&explanation);
    }
    print!("{explanation}");
    let files = file.sources().existing();
    let names: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
    match names.as_slice() {
        [] => println!("  no rules; they would be in {}", file.sources().written().display()),
        names => println!("  rules: {}", names.join(", then ")),
    }
    Ok(0)
}

/// Prints what is wrong with a table that can be read; fails if something is.
pub(super) fn checked(file: &RulesFile, as_json: bool) -> Result<u8, Failure> {
    let table = file.read().map_err(failure)?.table();
    let findings = table.findings();
    let status = u8::from(!findings.is_empty());
    if as_json {
        return json(&table_json(file, &table)).map(|_| status);
    }
    findings.iter().for_each(|found| println!("{}", finding(found)));
    let rules = counted(table.len(), "rule", "rules");
    println!("{rules}, {} without effect", findings.len());
    Ok(status)
}

/// A rule without effect, in one line.
pub(super) fn finding(finding: &Finding) -> String {
    format!("{} \"{}\" {}", finding.place, finding.rule, finding.why)
}

/// Prints one JSON object.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<u8, Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Failure::new(e.to_string()))?;
    println!("{text}");
    Ok(0)
}

fn rules(table: &Table) -> impl Iterator<Item = (Place, &manypath_rules::Rule)> {
    LISTS.iter().flat_map(|(chain, policy)| table.list(*chain, *policy))
}

fn table_json(file: &RulesFile, table: &Table) -> TableJson {
    let rules = rules(table).map(|(place, rule)| RuleJson { place, rule: rule.to_string() });
    TableJson {
        files: file.sources().existing(),
        defaults: defaults_json(table),
        rules: rules.collect(),
        findings: table.findings(),
    }
}

fn defaults_json(table: &Table) -> DefaultsJson {
    DefaultsJson {
        local: table.default_policy(Chain::Local),
        remote: table.default_policy(Chain::Remote),
    }
}
