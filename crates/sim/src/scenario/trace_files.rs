use crate::link::{Trace, TraceError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The traces that a scenario file names, each read once however many runs use it.
#[derive(Debug)]
pub(super) struct TraceFiles {
    /// Relative names start here.
    folder: PathBuf,
    loaded: BTreeMap<String, Trace>,
}

impl TraceFiles {
    /// Names are relative to the folder of the scenario file.
    pub(super) fn beside(scenario: &str) -> Self {
        let folder = Path::new(scenario).parent().unwrap_or(Path::new("")).to_owned();
        Self { folder, loaded: BTreeMap::new() }
    }

    /// The trace of a file, under the name that the scenario has for it.
    pub(super) fn load(&mut self, file: &str) -> Result<Trace, TraceError> {
        if let Some(trace) = self.loaded.get(file) {
            return Ok(trace.clone());
        }
        let trace = Trace::load(&self.folder.join(file))?.named(file);
        self.loaded.insert(file.to_owned(), trace.clone());
        Ok(trace)
    }
}
