//! All runs of a scenario file: setups x cases x sweep x seeds.

use super::document::{Node, Value};
use super::error::{Place, ScenarioError};
use super::figures::{self, FigureSpec, Known};
use super::files::Files;
use super::setting::Setting;
use super::setup::{Scenario, top_text};
use super::variants::{Axes, Setup, read_cases, read_setups, set_all};
use std::collections::BTreeMap;
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
    /// Names of the setups, in their order; one without a name if the file has none.
    pub setups: Vec<String>,
    /// Names of the cases, in their order; one without a name if the file has none.
    pub cases: Vec<String>,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The runs, seed by seed within a point.
    pub runs: Vec<Run>,
    /// What is to be drawn from them.
    pub figures: Vec<FigureSpec>,
    /// The keys that each setup varies.
    axes: BTreeMap<String, Vec<String>>,
}

/// One run of a plan.
#[derive(Clone, Debug)]
pub struct Run {
    /// Name of its setup.
    pub setup: String,
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
            .map_err(|e| ScenarioError::new(Place::NONE, "", e.to_string()).in_file(&name))?;
        Self::parse(&text, &name, &[])
    }

    /// Reads the text of a scenario. `file` names it in messages, and names of other files are relative to
    /// its folder; `overrides` are keys and values
    /// (as TOML) that replace those of the text.
    pub fn parse(
        text: &str,
        file: &str,
        overrides: &[(String, String)],
    ) -> Result<Self, ScenarioError> {
        let mut document = Node::parse(text).map_err(|error| error.in_file(file))?;
        for (key, value) in overrides {
            let in_override =
                |e: ScenarioError| ScenarioError { at: Place::NONE, key: key.clone(), ..e };
            parse_value(value)
                .and_then(|value| document.set(key, &value))
                .map_err(|error| in_override(error).in_file("--set"))?;
        }
        Self::expand(&document, Files::beside(file)).map_err(|error| error.in_file(file))
    }

    /// Keeps the runs of the named setups and cases only; all of either kind if none is named.
    ///
    /// # Errors
    /// A name that the plan does not have.
    pub fn retain(&mut self, setups: &[String], cases: &[String]) -> Result<(), String> {
        let runs = &self.runs;
        check_names("setup", setups, &self.setups, |name| runs.iter().any(|r| r.setup == name))?;
        check_names("case", cases, &self.cases, |name| runs.iter().any(|r| r.case == name))?;
        let keeps = |wanted: &[String], name: &String| wanted.is_empty() || wanted.contains(name);
        self.runs.retain(|run| keeps(setups, &run.setup) && keeps(cases, &run.case));
        self.setups.retain(|name| keeps(setups, name));
        Ok(())
    }

    /// The value that a run has for a key that its setup sweeps, as the file has it.
    pub fn value<'a>(&self, run: &'a Run, key: &str) -> Option<&'a str> {
        let at = self.axes.get(&run.setup)?.iter().position(|other| other == key)?;
        run.point.get(at).map(String::as_str)
    }

    fn expand(document: &Node, mut files: Files) -> Result<Self, ScenarioError> {
        let seeds = read_seeds(document)?;
        let sweep = Axes::read(document.get("sweep"), "sweep")?;
        let cases = read_cases(document)?;
        let setups = read_setups(document, &cases)?;
        let points: usize = setups.iter().map(|setup| setup.axes(&sweep).points()).sum();
        if points.saturating_mul(cases.len()).saturating_mul(seeds.len()) > MOST_RUNS {
            return Err(ScenarioError::new(
                Place::NONE,
                "sweep",
                "these are more than a million runs",
            ));
        }
        let mut runs = Vec::new();
        for (setup, case) in setups.iter().flat_map(|s| cases.iter().map(move |c| (s, c))) {
            let axes = setup.axes(&sweep);
            for point in 0..axes.points() {
                let mut effective = document.clone();
                set_all(&setup.settings, &mut effective)?;
                let values = axes.set(point, &mut effective)?;
                set_all(&case.settings, &mut effective)?;
                set_all(setup.settings_of(&case.name), &mut effective)?;
                let scenario = Scenario::read(&effective, &mut files)?;
                for (case, scenario) in case.scenarios(scenario) {
                    let run = |seed: &u64| Run {
                        setup: setup.name.clone(),
                        case: case.clone(),
                        point: values.clone(),
                        seed: *seed,
                        scenario: scenario.clone(),
                    };
                    runs.extend(seeds.iter().map(run));
                }
            }
        }
        let mut swept: Vec<(String, Vec<String>)> = Vec::new();
        for (key, values) in setups.iter().flat_map(|setup| &setup.axes(&sweep).axes) {
            let values = values.iter().map(Node::to_string);
            match swept.iter_mut().find(|(other, _)| other == key) {
                Some((_, known)) => known.extend(values),
                None => swept.push((key.clone(), values.collect())),
            }
        }
        let known = Known { setups: &setups, cases: &cases, swept: &swept };
        let figures = figures::read(document, &known)?;
        let keys =
            |setup: &Setup| setup.axes(&sweep).axes.iter().map(|(key, _)| key.clone()).collect();
        let axes = setups.iter().map(|setup| (setup.name.clone(), keys(setup))).collect();
        Ok(Self {
            name: top_text(document, "name"),
            description: top_text(document, "description"),
            swept: swept.into_iter().map(|(key, _)| key).collect(),
            setups: setups.into_iter().map(|setup| setup.name).collect(),
            cases: cases.into_iter().map(|case| case.name).collect(),
            seeds,
            runs,
            figures,
            axes,
        })
    }
}

/// Every wanted name must be there.
fn check_names(
    what: &str,
    wanted: &[String],
    all: &[String],
    exists: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let unknown = wanted.iter().find(|name| !all.contains(name) && !exists(name));
    unknown.map_or(Ok(()), |name| {
        Err(format!("there is no {what} \"{name}\"; there are: {}", all.join(", ")))
    })
}

/// `seeds = 24` means 1 to 24; an array lists them.
fn read_seeds(document: &Node) -> Result<Vec<u64>, ScenarioError> {
    let Some(node) = document.get("seeds") else { return Ok(vec![1]) };
    let wrong = || {
        let message = "expected a number of seeds such as 24, or an array of different seeds";
        ScenarioError::new(node.at, "seeds", message)
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
    Ok(node.unwrap_or_else(|| Node { at: Place::NONE, value: Value::Text(text.to_owned()) }))
}
