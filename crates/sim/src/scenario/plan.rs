//! All runs of a scenario file: cases x sweep x seeds.

use super::document::{Node, Value};
use super::error::ScenarioError;
use super::section::Section;
use super::setting::Setting;
use super::setup::{Scenario, top_text};
use std::path::Path;

/// More runs than anybody means to ask for.
const MOST_RUNS: usize = 1_000_000;
const MOST_SEEDS: i64 = 100_000;

/// What a scenario file asks for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of the scenario.
    pub name: String,
    /// What it shows.
    pub description: String,
    /// Keys that the sweep varies.
    pub swept: Vec<String>,
    /// Names of the cases, in their order; one without a name if the file has none.
    pub cases: Vec<String>,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The runs, seed by seed within a point.
    pub runs: Vec<Run>,
}

/// One run of a plan.
#[derive(Clone, Debug)]
pub struct Run {
    /// Name of its case.
    pub case: String,
    /// Values of the swept keys as the file has them.
    pub point: Vec<String>,
    /// The seed.
    pub seed: u64,
    /// What is simulated.
    pub scenario: Scenario,
}

impl Plan {
    /// Reads a scenario file.
    pub fn load(file: &Path) -> Result<Self, ScenarioError> {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file)
            .map_err(|e| ScenarioError::new(0, "", e.to_string()).in_file(&name))?;
        Self::parse(&text, &name, &[])
    }

    /// Reads the text of a scenario. `file` names it in messages; `overrides` are keys and values
    /// (as TOML) that replace those of the text.
    pub fn parse(
        text: &str,
        file: &str,
        overrides: &[(String, String)],
    ) -> Result<Self, ScenarioError> {
        let mut document = Node::parse(text).map_err(|error| error.in_file(file))?;
        for (key, value) in overrides {
            let in_override = |e: ScenarioError| ScenarioError { line: 0, key: key.clone(), ..e };
            parse_value(value)
                .and_then(|value| document.set(key, &value))
                .map_err(|error| in_override(error).in_file("--set"))?;
        }
        Self::expand(&document).map_err(|error| error.in_file(file))
    }

    fn expand(document: &Node) -> Result<Self, ScenarioError> {
        let seeds = read_seeds(document)?;
        let sweep = Axes::read(document)?;
        let cases = read_cases(document)?;
        let points: usize = sweep.axes.iter().map(|(_, values)| values.len()).product();
        if points.saturating_mul(cases.len()).saturating_mul(seeds.len()) > MOST_RUNS {
            return Err(ScenarioError::new(0, "sweep", "these are more than a million runs"));
        }
        let mut runs = Vec::new();
        for (case, settings) in &cases {
            for point in 0..points {
                let mut effective = document.clone();
                let values = sweep.set(point, &mut effective)?;
                for (key, value) in settings {
                    effective.set(key, value)?;
                }
                let scenario = Scenario::read(&effective)?;
                let run = |seed: &u64| Run {
                    case: case.clone(),
                    point: values.clone(),
                    seed: *seed,
                    scenario: scenario.clone(),
                };
                runs.extend(seeds.iter().map(run));
            }
        }
        Ok(Self {
            name: top_text(document, "name"),
            description: top_text(document, "description"),
            swept: sweep.axes.into_iter().map(|(key, _)| key).collect(),
            cases: cases.into_iter().map(|(name, _)| name).collect(),
            seeds,
            runs,
        })
    }
}

/// Keys and the values that they take.
struct Axes {
    axes: Vec<(String, Vec<Node>)>,
}

impl Axes {
    fn read(document: &Node) -> Result<Self, ScenarioError> {
        let Some(sweep) = document.get("sweep") else { return Ok(Self { axes: Vec::new() }) };
        if !matches!(sweep.value, Value::Table(_)) {
            return Err(ScenarioError::new(sweep.line, "sweep", "expected a table"));
        }
        let mut axes = Vec::new();
        for (key, values) in sweep.entries() {
            let values = match &values.value {
                Value::Array(values) if !values.is_empty() => values.clone(),
                _ => {
                    let message =
                        "expected an array of values; quote dotted keys: \"path.B.delay\"";
                    return Err(ScenarioError::new(values.line, format!("sweep.{key}"), message));
                }
            };
            axes.push((key.clone(), values));
        }
        Ok(Self { axes })
    }

    /// Sets the values of point number `point`; the last axis varies fastest.
    fn set(&self, mut point: usize, document: &mut Node) -> Result<Vec<String>, ScenarioError> {
        let mut chosen = Vec::new();
        for (key, values) in self.axes.iter().rev() {
            let value = &values[point % values.len()];
            point /= values.len();
            document.set(key, value)?;
            chosen.push(value.to_string());
        }
        chosen.reverse();
        Ok(chosen)
    }
}

type Case = (String, Vec<(String, Node)>);

fn read_cases(document: &Node) -> Result<Vec<Case>, ScenarioError> {
    let mut cases: Vec<Case> = Vec::new();
    for mut section in Section::root(document).tables("case")? {
        let name: String = section.required("name")?;
        let settings = section.take("set").map_or(Vec::new(), |set| set.entries().to_vec());
        if cases.iter().any(|(other, _)| *other == name) {
            return Err(section.error("name", format!("there are two cases \"{name}\"")));
        }
        section.finish()?;
        cases.push((name, settings));
    }
    if cases.is_empty() {
        cases.push((String::new(), Vec::new()));
    }
    Ok(cases)
}

/// `seeds = 24` means 1 to 24; an array lists them.
fn read_seeds(document: &Node) -> Result<Vec<u64>, ScenarioError> {
    let Some(node) = document.get("seeds") else { return Ok(vec![1]) };
    let wrong = || {
        let message = "expected a number of seeds such as 24, or an array of different seeds";
        ScenarioError::new(node.line, "seeds", message)
    };
    match &node.value {
        Value::Integer(count @ 1..=MOST_SEEDS) => Ok((1..=count.unsigned_abs()).collect()),
        Value::Array(list) if !list.is_empty() => {
            let seeds = list.iter().map(u64::read).collect::<Result<Vec<_>, _>>();
            let seeds = seeds.map_err(|_| wrong())?;
            let different: std::collections::BTreeSet<_> = seeds.iter().collect();
            (different.len() == seeds.len()).then_some(seeds.clone()).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

/// A value given on the command line; a bare word is a text.
fn parse_value(text: &str) -> Result<Node, ScenarioError> {
    let wrapped = Node::parse(&format!("v = {text}"));
    let node = wrapped.ok().and_then(|table| table.get("v").cloned());
    Ok(node.unwrap_or_else(|| Node { line: 0, value: Value::Text(text.to_owned()) }))
}
