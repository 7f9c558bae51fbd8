use super::document::Node;
use super::engine_options;
use super::error::ScenarioError;
use super::network::{PathSpec, path_named};
use super::section::Section;
use super::setting::Setting;
use super::setup::read_start;
use manypath_engine::{Config, Duration};

/// Competing flows of all tables together: each has networks of its own.
pub(crate) const MOST_FLOWS: usize = 250;

/// Associations of other hosts that go through bottlenecks of the scenario. Each has one stream that always has data
/// for the receiver.
#[derive(Clone, Debug)]
pub struct Competitor {
    /// Its name, as results show it.
    pub name: String,
    /// Number of associations.
    pub flows: usize,
    /// Numbers of the paths whose links each of them uses, by paths of its own.
    pub paths: Vec<usize>,
    /// Parameters of all their endpoints.
    pub config: Config,
    /// Each begins at a random time between these, from the start of the scenario's association.
    pub start: (Duration, Duration),
}

impl Competitor {
    pub(super) fn read(
        mut section: Section<'_>,
        number: usize,
        paths: &[PathSpec],
    ) -> Result<Self, ScenarioError> {
        let name = section.value("name", format!("competitor{number}"))?;
        let flows = section.value("flows", 1)?;
        if flows == 0 {
            return Err(section.error("flows", "a table has at least one flow"));
        }
        let every = || (0..paths.len()).collect();
        let paths = section.take("paths").map_or_else(
            || Ok(every()),
            |node| read_paths(node, paths).map_err(|message| section.error("paths", message)),
        )?;
        let config = engine_options::read(section.take("engine"))?;
        let start = read_start(&mut section)?;
        section.finish()?;
        Ok(Self { name, flows, paths, config, start })
    }

    /// Its parameters as columns of a result.
    pub(super) fn parameters(&self, paths: &[PathSpec], out: &mut Vec<(String, String)>) {
        let prefix = format!("competitor.{}.", self.name);
        let names: Vec<&str> = self.paths.iter().map(|path| &*paths[*path].name).collect();
        let mut add = |key: &str, value: String| out.push((format!("{prefix}{key}"), value));
        add("flows", self.flows.show());
        add("paths", names.join(" "));
        add("start.min", self.start.0.show());
        add("start.max", self.start.1.show());
        engine_options::parameters(&self.config, &prefix, out);
    }

    /// The same where there is no path but one; nothing is left of those that do not use it.
    pub(super) fn alone(mut self, path: usize) -> Option<Self> {
        self.paths.contains(&path).then(|| {
            self.paths = vec![0];
            self
        })
    }
}

/// The numbers of paths that are named, each once.
fn read_paths(node: &Node, paths: &[PathSpec]) -> Result<Vec<usize>, String> {
    let mut numbers = Vec::new();
    for name in node.elements() {
        let number = path_named(&String::read(name)?, paths)?;
        if numbers.contains(&number) {
            return Err(format!("names {name} twice"));
        }
        numbers.push(number);
    }
    if numbers.is_empty() {
        return Err("names no path; without the key it is all of them".to_owned());
    }
    Ok(numbers)
}

/// All tables, whose names are none of an application's.
pub(super) fn read_all(
    root: &mut Section<'_>,
    paths: &[PathSpec],
    apps: &[&str],
) -> Result<Vec<Competitor>, ScenarioError> {
    let mut all: Vec<Competitor> = Vec::new();
    for (number, section) in root.tables("competitor")?.into_iter().enumerate() {
        let competitor = Competitor::read(section, number, paths)?;
        let mut taken = all.iter().map(|other| &*other.name).chain(apps.iter().copied());
        let is_streams =
            competitor.name.strip_prefix('s').is_some_and(|number| number.parse::<u16>().is_ok());
        if competitor.name.is_empty() || is_streams || taken.any(|name| name == competitor.name) {
            let message = format!("the name \"{}\" is taken: choose another", competitor.name);
            return Err(root.error("competitor", message));
        }
        all.push(competitor);
    }
    if all.iter().map(|competitor| competitor.flows).sum::<usize>() > MOST_FLOWS {
        let message = format!("there are at most {MOST_FLOWS} competing flows");
        return Err(root.error("competitor", message));
    }
    Ok(all)
}
