use super::error::ScenarioError;
use super::files::Files;
use super::section::Section;
use manypath_engine::Config;
use manypath_wasm::{Kind, Module};

/// The key of a scenario that names a file with a module of this kind.
fn key(kind: Kind) -> &'static str {
    match kind {
        Kind::PathScheduler => "path_scheduler",
        Kind::CongestionControl => "congestion_control",
    }
}

/// What decides in place of the engine's own: modules in WebAssembly, from files.
#[derive(Clone, Default, Debug)]
pub struct Modules {
    modules: Vec<Module>,
}

impl Modules {
    pub(super) fn read(root: &mut Section<'_>, files: &mut Files) -> Result<Self, ScenarioError> {
        let mut modules = Vec::new();
        for kind in [Kind::PathScheduler, Kind::CongestionControl] {
            let Some(file) = root.optional::<String>(key(kind))? else { continue };
            let module = files.module(kind, &file);
            modules.push(module.map_err(|e| root.error(key(kind), e.to_string()))?);
        }
        Ok(Self { modules })
    }

    /// The same with counts of their own, for one run, in `config`.
    pub(super) fn begin(&self, config: &mut Config) -> Self {
        let modules: Vec<_> = self.modules.iter().map(Module::apart).collect();
        for module in &modules {
            let own = &mut config.experiment;
            match module.kind() {
                Kind::PathScheduler => own.path_scheduler = Some(module.schedulers()),
                Kind::CongestionControl => {
                    own.congestion_controller = Some(module.congestion_controllers());
                }
            }
        }
        Self { modules }
    }

    pub(super) fn parameters(&self, out: &mut Vec<(String, String)>) {
        let name = |module: &Module| (key(module.kind()).to_owned(), module.name().to_owned());
        out.extend(self.modules.iter().map(name));
    }

    /// What each costs: the name of the figure, and instructions for each of `packets`.
    pub fn figures(&self, packets: u64) -> impl Iterator<Item = (String, f64)> {
        self.modules.iter().map(move |module| {
            let each = module.usage().instructions as f64 / packets.max(1) as f64;
            (format!("{}_instructions", key(module.kind())), each)
        })
    }

    /// Which has failed, when, and why.
    pub fn failure(&self) -> Option<String> {
        self.modules.iter().find_map(Module::failure)
    }
}
