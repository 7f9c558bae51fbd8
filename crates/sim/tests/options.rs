//! `docs/options.md` against the engine: every option of `Config` is there, with the names that it
//! accepts and its value in both profiles.

use manypath_engine::Config;
use manypath_sim::scenario::Plan;
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = include_str!("../../../docs/options.md");

/// A row of the page.
struct Row {
    name: &'static str,
    allowed: &'static str,
    paper: &'static str,
    production: &'static str,
    why: &'static str,
}

fn rows() -> Vec<Row> {
    let (_profiles, options) = PAGE.split_once("## Options that scenario files").unwrap();
    let (options, _measured) = options.split_once("## Measured").unwrap();
    let options = options.lines().filter(|line| line.starts_with("| `"));
    options
        .map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [name, allowed, paper, production, why] = cells[..] else { panic!("{line}") };
            Row { name: name.trim_matches('`'), allowed, paper, production, why }
        })
        .collect()
}

/// The simplest scenario, with these lines about the engine.
fn parse(engine: &str) -> Result<Plan, String> {
    let text = format!("[engine]\n{engine}\n[[path]]\n[[app]]\nkind = \"saturated\"\n");
    Plan::parse(&text, "options.toml", &[]).map_err(|e| e.to_string())
}

/// Values as results show them where scenarios can set them, otherwise as the engine's own.
fn values(profile: &str, config: &Config) -> BTreeMap<String, String> {
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for line in format!("{config:#?}\n{:#?}", config.experiment).lines() {
        // The fields of the outermost structures are indented by four spaces.
        let field = line.strip_prefix("    ").and_then(|line| line.split_once(": "));
        if let Some((name, value)) = field.filter(|(name, _)| !name.starts_with([' ', '}'])) {
            values.insert(name.to_owned(), value.trim_end_matches(',').to_owned());
        }
    }
    values.remove("experiment");
    let plan = parse(&format!("profile = \"{profile}\"")).unwrap_or_else(|e| panic!("{e}"));
    for (name, value) in plan.runs[0].scenario.parameters() {
        let option = name.strip_prefix("engine.");
        if let Some(known) = option.and_then(|option| values.get_mut(option)) {
            *known = value;
        }
    }
    values
}

#[test]
fn every_option_is_on_the_page_with_its_values_and_a_reason() {
    let (paper, production) =
        (values("paper", &Config::paper()), values("production", &Config::production()));
    let documented: BTreeSet<_> = rows().iter().map(|row| row.name.to_owned()).collect();
    let existing: BTreeSet<_> = production.keys().cloned().collect();
    let missing: Vec<_> = existing.difference(&documented).collect();
    let gone: Vec<_> = documented.difference(&existing).collect();
    assert!(missing.is_empty() && gone.is_empty(), "missing: {missing:?}, gone: {gone:?}");
    let mut wrong = Vec::new();
    for row in rows() {
        for (profile, page, engine) in
            [("paper", row.paper, &paper), ("production", row.production, &production)]
        {
            if engine[row.name] != page {
                wrong.push(format!("{} in {profile}: {page}, not {}", row.name, engine[row.name]));
            }
        }
        assert!(row.why.len() > 10 && row.why.ends_with('.'), "{}: no reason", row.name);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_the_profile_dynamic_changes_is_on_the_page_and_nothing_else_is() {
    let (_, changes) = PAGE.split_once("## What the profile `dynamic` changes").unwrap();
    let (changes, _) = changes.split_once("\n## ").unwrap();
    let cells = |line: &str| {
        let cells: Vec<_> =
            line.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect();
        assert!(cells.len() == 4 && cells[3].len() > 10, "{line}");
        (cells[0].trim_matches('`').to_owned(), (cells[1].clone(), cells[2].clone()))
    };
    let page: BTreeMap<_, _> =
        changes.lines().filter(|l| l.starts_with("| `")).map(cells).collect();
    let production = values("production", &Config::production());
    let dynamic = values("dynamic", &Config::dynamic());
    let differs = production.into_iter().filter(|(name, value)| dynamic[name] != *value);
    let engine: BTreeMap<_, _> =
        differs.map(|(name, value)| (name.clone(), (value, dynamic[&name].clone()))).collect();
    assert_eq!(page, engine);
}

#[test]
fn the_names_on_the_page_are_those_that_the_engine_accepts() {
    let named = rows().into_iter().filter(|row| row.allowed.contains(", "));
    let mut checked = 0;
    for row in named {
        let Err(error) = parse(&format!("{} = \"no such name\"", row.name)) else {
            panic!("{} takes anything", row.name)
        };
        // Options of Config that no scenario sets.
        if error.contains("the engine has no such option") {
            continue;
        }
        let Some((_, accepted)) = error.split_once("allowed are ") else {
            assert!(error.contains("true or false"), "{}: {error}", row.name);
            assert_eq!(row.allowed, "true, false", "{}", row.name);
            continue;
        };
        assert_eq!(row.allowed, accepted.trim(), "{}", row.name);
        checked += 1;
    }
    assert!(checked >= 12, "{checked} options with names");
}
