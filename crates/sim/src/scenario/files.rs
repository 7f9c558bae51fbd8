use crate::link::{Trace, TraceError};
use manypath_wasm::{Kind, Module, ModuleError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The files that a scenario names, each read once however many runs use it.
#[derive(Debug)]
pub(super) struct Files {
    /// Relative names start here.
    folder: PathBuf,
    traces: BTreeMap<String, Trace>,
    modules: BTreeMap<String, Module>,
}

impl Files {
    /// Names are relative to the folder of the scenario file.
    pub(super) fn beside(scenario: &str) -> Self {
        let folder = Path::new(scenario).parent().unwrap_or(Path::new("")).to_owned();
        Self { folder, traces: BTreeMap::new(), modules: BTreeMap::new() }
    }

    /// The trace of a file, under the name that the scenario has for it.
    pub(super) fn trace(&mut self, file: &str) -> Result<Trace, TraceError> {
        if let Some(trace) = self.traces.get(file) {
            return Ok(trace.clone());
        }
        let trace = Trace::load(&self.folder.join(file))?.named(file);
        self.traces.insert(file.to_owned(), trace.clone());
        Ok(trace)
    }

    /// The module of a file that is used as one of this kind.
    pub(super) fn module(&mut self, kind: Kind, file: &str) -> Result<Module, ModuleError> {
        if let Some(module) = self.modules.get(file).filter(|module| module.kind() == kind) {
            return Ok(module.clone());
        }
        let module = Module::load(kind, &self.folder.join(file))?;
        self.modules.insert(file.to_owned(), module.clone());
        Ok(module)
    }
}
