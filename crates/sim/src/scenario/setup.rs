use super::applications::{AppKind, AppSpec};
use super::competitor::{self, Competitor};
use super::document::{Node, Value};
use super::engine_options;
use super::error::ScenarioError;
use super::files::Files;
use super::modules::Modules;
use super::network::{Background, PathSpec};
use super::section::Section;
use super::setting::Setting;
use manypath_engine::{Config, Duration, PathPolicy, StreamMapping};

/// One simulation, all its parameters decided.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// The association begins at a random time between these.
    pub start: (Duration, Duration),
    /// From the start of the association until the measurement begins.
    pub warmup: Duration,
    /// How long is measured. A run whose applications are all done ends sooner.
    pub measure: Duration,
    /// Parameters of both endpoints.
    pub config: Config,
    /// Path scheduler and congestion control from files, in place of the engine's.
    pub modules: Modules,
    /// Whether SCTP travels in UDP (RFC 6951) rather than directly over IP.
    pub udp: bool,
    /// Whether the host that accepts the association has one address, to which all paths lead.
    pub single_homed_server: bool,
    /// The paths.
    pub paths: Vec<PathSpec>,
    /// The applications of the sender.
    pub apps: Vec<AppSpec>,
    /// Traffic of constant rates.
    pub background: Vec<Background>,
    /// Other associations.
    pub competitors: Vec<Competitor>,
}

/// Keys of the file that describe the sweep and not a run.
pub(super) const PLAN_KEYS: [&str; 6] =
    ["description", "seeds", "sweep", "setup", "case", "figure"];

/// Longest run.
const LONGEST: Duration = Duration::from_secs(100_000);

impl Scenario {
    /// Who begins the association: the sender (0), or the receiver (1) where it opens connections to download.
    pub(crate) fn begun_by(&self) -> usize {
        let downloads =
            |app: &AppSpec| matches!(app.kind, AppKind::Connection { download: true, .. });
        usize::from(self.apps.iter().any(downloads))
    }

    pub(super) fn read(document: &Node, files: &mut Files) -> Result<Self, ScenarioError> {
        let mut root = Section::root(document);
        for key in PLAN_KEYS {
            root.take(key);
        }
        let name = root.value("name", "scenario".to_owned())?;
        let start = read_start(&mut root)?;
        let warmup = root.value("warmup", Duration::ZERO)?;
        let measure = root.value("measure", Duration::from_secs(60))?;
        if measure.is_zero() || warmup + measure > LONGEST {
            return Err(root.error("measure", "a run takes more than 0 and up to 100000 s"));
        }
        let udp = root.value("udp", true)?;
        let single_homed_server = root.value("single_homed_server", false)?;
        let mut config = engine_options::read(root.take("engine"))?;
        let modules = Modules::read(&mut root, files)?;
        let paths = read_paths(&mut root, files)?;
        if single_homed_server && paths.iter().any(|path| path.mtu != paths[0].mtu) {
            let text = "an address has one MTU: set the same one for all paths".to_owned();
            return Err(root.error("single_homed_server", text));
        }
        let apps = read_apps(&mut root, &paths)?;
        config.streams = apps.last().map_or(1, |app| app.first_stream + app.streams);
        config.stream_options = apps.iter().flat_map(|app| app.stream_options.clone()).collect();
        let background = root.tables("background")?;
        let background = background
            .into_iter()
            .map(|section| Background::read(section, &paths))
            .collect::<Result<Vec<_>, _>>()?
            .concat();
        let names: Vec<&str> = apps.iter().map(|app| &*app.name).collect();
        let competitors = competitor::read_all(&mut root, &paths, &names)?;
        root.finish()?;
        Ok(Self {
            name,
            start,
            warmup,
            measure,
            config,
            modules,
            udp,
            single_homed_server,
            paths,
            apps,
            background,
            competitors,
        })
    }

    /// The configuration of both endpoints for one run, and its modules, which count this run alone.
    pub fn endpoint_config(&self) -> (Config, Modules) {
        let mut config = self.config.clone();
        let modules = self.modules.begin(&mut config);
        (config, modules)
    }

    /// The same with one of its paths alone: what this path gives to applications that have no other.
    pub(super) fn alone(&self, path: usize) -> Self {
        let mut one = self.clone();
        let policy = PathPolicy::default();
        one.paths = vec![PathSpec { shares: None, policy, ..self.paths[path].clone() }];
        one.background.retain(|background| background.path == path);
        one.background.iter_mut().for_each(|background| background.path = 0);
        let competitors = one.competitors.into_iter();
        one.competitors = competitors.filter_map(|competitor| competitor.alone(path)).collect();
        one.config.stream_mapping = StreamMapping::Any;
        let apps = one.apps.iter_mut().flat_map(|app| &mut app.stream_options);
        apps.chain(&mut one.config.stream_options).for_each(|options| options.pinned = None);
        one
    }

    /// Every parameter with its value, in a fixed order: times in s, rates in bit/s, sizes in bytes,
    /// probabilities as parts of one.
    pub fn parameters(&self) -> Vec<(String, String)> {
        let mut out = vec![
            ("start.min".to_owned(), self.start.0.show()),
            ("start.max".to_owned(), self.start.1.show()),
            ("warmup".to_owned(), self.warmup.show()),
            ("measure".to_owned(), self.measure.show()),
            ("udp".to_owned(), self.udp.show()),
            ("single_homed_server".to_owned(), self.single_homed_server.show()),
        ];
        engine_options::parameters(&self.config, "", &mut out);
        self.modules.parameters(&mut out);
        self.paths.iter().for_each(|path| path.parameters(&mut out));
        self.apps.iter().for_each(|app| app.parameters(&self.paths, &mut out));
        for (number, b) in self.background.iter().enumerate() {
            let mut add =
                |key: &str, value: String| out.push((format!("background.{number}.{key}"), value));
            add("path", self.paths[b.path].name.clone());
            add("rate", b.rate_bps.show());
            add("packet", b.packet.show());
            add("towards", if b.forth { "receiver" } else { "sender" }.to_owned());
            add("from", b.from.show());
            add("until", b.until.show());
        }
        let competitors = self.competitors.iter();
        competitors.for_each(|competitor| competitor.parameters(&self.paths, &mut out));
        out
    }
}

/// The earliest and the latest time at which something begins.
pub(super) fn read_start(root: &mut Section<'_>) -> Result<(Duration, Duration), ScenarioError> {
    let Some(mut section) = root.table("start")? else {
        return Ok((Duration::ZERO, Duration::ZERO));
    };
    let (min, max) = (section.required("min")?, section.required("max")?);
    if min > max {
        return Err(section.error("max", "is less than min"));
    }
    section.finish().map(|()| (min, max))
}

fn read_paths(root: &mut Section<'_>, files: &mut Files) -> Result<Vec<PathSpec>, ScenarioError> {
    let mut paths = Vec::new();
    for (number, section) in root.tables("path")?.into_iter().enumerate() {
        paths.push(PathSpec::read(section, number, &paths, files)?);
    }
    if paths.is_empty() || paths.len() > 64 {
        return Err(root.error("path", "a scenario has 1 to 64 tables [[path]]"));
    }
    Ok(paths)
}

fn read_apps(root: &mut Section<'_>, paths: &[PathSpec]) -> Result<Vec<AppSpec>, ScenarioError> {
    let mut apps: Vec<AppSpec> = Vec::new();
    for section in root.tables("app")? {
        let first = apps.last().map_or(0, |app| app.first_stream + app.streams);
        let app = AppSpec::read(section, first, paths)?;
        if apps.iter().any(|other| other.name == app.name) {
            let message = format!("two applications are called \"{}\": give them names", app.name);
            return Err(root.error("app", message));
        }
        apps.push(app);
    }
    if apps.is_empty() {
        return Err(root.error("app", "a scenario has at least one table [[app]]"));
    }
    if apps.len() > 1 && apps.iter().any(|app| matches!(app.kind, AppKind::Connection { .. })) {
        let message =
            "connections share the association with no other application: one table [[app]]";
        return Err(root.error("app", message));
    }
    Ok(apps)
}

/// The text of a key at the top of the document, for the plan.
pub(super) fn top_text(document: &Node, key: &str) -> String {
    match document.get(key).map(|node| &node.value) {
        Some(Value::Text(text)) => text.clone(),
        _ => String::new(),
    }
}
