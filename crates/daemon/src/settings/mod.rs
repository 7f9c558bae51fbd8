//! Settings: knobs by the names that users know, kept in a file, changed while stacks run.
//!
//! After the sysctls of Bickhart (2005), sections 2.2.1 and 2.9. What the command line of a stack
//! says holds whatever the file says.

mod file;
mod knob;

pub use file::{Said, SettingsError, SettingsFile};
pub use knob::{KNOBS, Knob};

use crate::config::StackConfig;

/// The settings of one stack.
#[derive(Debug)]
pub(crate) struct Settings {
    file: Option<SettingsFile>,
    /// What holds where the file says nothing.
    initial: Vec<u64>,
    fixed: Vec<&'static str>,
}

impl Settings {
    /// Takes the settings' file from the configuration and applies it.
    pub(crate) fn load(config: &mut StackConfig) -> Result<Self, SettingsError> {
        let initial = KNOBS.iter().map(|knob| knob.get(config)).collect();
        let fixed = std::mem::take(&mut config.fixed);
        let settings = Self { file: config.settings.take(), initial, fixed };
        settings.apply(config)?;
        Ok(settings)
    }

    /// Reads the file and puts it into force. Nothing changes when it is wrong.
    pub(crate) fn apply(&self, config: &mut StackConfig) -> Result<(), SettingsError> {
        let Some(file) = &self.file else { return Ok(()) };
        let values = file.read()?;
        for (knob, initial) in KNOBS.iter().zip(&self.initial) {
            let said = values.iter().find(|said| said.name == knob.name).map(|said| said.value);
            let said = said.filter(|_| !self.fixed.contains(&knob.name));
            knob.set(config, said.unwrap_or(*initial));
        }
        Ok(())
    }
}
