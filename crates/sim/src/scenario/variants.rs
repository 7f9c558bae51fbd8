//! What a scenario file varies: setups, cases and sweeps.

use super::document::{Node, Value};
use super::error::{ScenarioError, list};
use super::section::Section;
use super::setup::Scenario;

/// Keys and the values that replace those of the file.
pub(super) type Settings = Vec<(String, Node)>;

pub(super) fn set_all(settings: &Settings, document: &mut Node) -> Result<(), ScenarioError> {
    settings.iter().try_for_each(|(key, value)| document.set(key, value))
}

/// Keys and the values that they take.
pub(super) struct Axes {
    pub(super) axes: Vec<(String, Vec<Node>)>,
}

impl Axes {
    pub(super) fn read(sweep: Option<&Node>, name: &str) -> Result<Self, ScenarioError> {
        let Some(sweep) = sweep else { return Ok(Self { axes: Vec::new() }) };
        if !matches!(sweep.value, Value::Table(_)) {
            return Err(ScenarioError::new(sweep.at, name, "expected a table"));
        }
        let mut axes = Vec::new();
        for (key, values) in sweep.entries() {
            let values = match &values.value {
                Value::Array(values) if !values.is_empty() => values.clone(),
                _ => {
                    let message =
                        "expected an array of values; quote dotted keys: \"path.B.delay\"";
                    return Err(ScenarioError::new(values.at, format!("{name}.{key}"), message));
                }
            };
            axes.push((key.clone(), values));
        }
        Ok(Self { axes })
    }

    /// How many combinations there are.
    pub(super) fn points(&self) -> usize {
        self.axes.iter().map(|(_, values)| values.len()).product()
    }

    /// Sets the values of point number `point`; the last axis varies fastest.
    pub(super) fn set(
        &self,
        mut point: usize,
        document: &mut Node,
    ) -> Result<Vec<String>, ScenarioError> {
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

/// One way to treat every setup.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) settings: Settings,
    /// A run for each path, with that path alone.
    each_path: bool,
}

impl Case {
    fn plain(name: String) -> Self {
        Self { name, settings: Vec::new(), each_path: false }
    }

    /// Whether runs may have this as the name of their case.
    pub(super) fn is_named(&self, name: &str) -> bool {
        let rest = name.strip_prefix(&self.name);
        rest.is_some_and(|rest| rest.is_empty() || (self.each_path && rest.starts_with(' ')))
    }

    /// The scenarios of this case, with their names.
    pub(super) fn scenarios(&self, scenario: Scenario) -> Vec<(String, Scenario)> {
        if !self.each_path {
            return vec![(self.name.clone(), scenario)];
        }
        let alone = |path: usize| {
            let name = format!("{} {}", self.name, scenario.paths[path].name);
            (name, scenario.alone(path))
        };
        (0..scenario.paths.len()).map(alone).collect()
    }
}

pub(super) fn read_cases(document: &Node) -> Result<Vec<Case>, ScenarioError> {
    let mut cases: Vec<Case> = Vec::new();
    for mut section in Section::root(document).tables("case")? {
        let name: String = section.required("name")?;
        let settings = section.take("set").map_or(Vec::new(), |set| set.entries().to_vec());
        let each_path = section.value("each_path", false)?;
        if cases.iter().any(|other| other.name == name) {
            return Err(section.error("name", format!("there are two cases \"{name}\"")));
        }
        section.finish()?;
        cases.push(Case { name, settings, each_path });
    }
    if cases.is_empty() {
        cases.push(Case::plain(String::new()));
    }
    Ok(cases)
}

/// One network with its applications; every case is tried in it.
pub(super) struct Setup {
    pub(super) name: String,
    pub(super) settings: Settings,
    /// Its own sweep, instead of that of the file.
    sweep: Option<Axes>,
    /// What a case has in this setup beyond its own settings.
    cases: Vec<(String, Settings)>,
}

impl Setup {
    pub(super) fn axes<'a>(&'a self, sweep: &'a Axes) -> &'a Axes {
        self.sweep.as_ref().unwrap_or(sweep)
    }

    pub(super) fn settings_of(&self, case: &str) -> &Settings {
        const NONE: &Settings = &Vec::new();
        self.cases.iter().find(|(name, _)| name == case).map_or(NONE, |(_, settings)| settings)
    }
}

pub(super) fn read_setups(document: &Node, cases: &[Case]) -> Result<Vec<Setup>, ScenarioError> {
    let mut setups: Vec<Setup> = Vec::new();
    for mut section in Section::root(document).tables("setup")? {
        let name: String = section.required("name")?;
        let settings = section.take("set").map_or(Vec::new(), |set| set.entries().to_vec());
        let sweep = section.take("sweep");
        let sweep = sweep.map(|sweep| Axes::read(Some(sweep), &format!("setup.{name}.sweep")));
        let own = section.take("cases").map_or(&[][..], Node::entries);
        if let Some((unknown, _)) = own.iter().find(|(n, _)| cases.iter().all(|c| c.name != *n)) {
            let names: Vec<_> = cases.iter().map(|case| case.name.as_str()).collect();
            let message = format!("there is no case \"{unknown}\"; allowed are {}", list(&names));
            return Err(section.error("cases", message));
        }
        if setups.iter().any(|other| other.name == name) {
            return Err(section.error("name", format!("there are two setups \"{name}\"")));
        }
        section.finish()?;
        let cases = own.iter().map(|(name, set)| (name.clone(), set.entries().to_vec()));
        setups.push(Setup { name, settings, sweep: sweep.transpose()?, cases: cases.collect() });
    }
    if setups.is_empty() {
        let (name, settings) = (String::new(), Vec::new());
        setups.push(Setup { name, settings, sweep: None, cases: Vec::new() });
    }
    Ok(setups)
}
