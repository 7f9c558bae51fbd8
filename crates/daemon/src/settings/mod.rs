//! Settings: knobs by the names that users know, kept in a file, changed while stacks run.
//!
//! After the sysctls of Bickhart (2005), sections 2.2.1 and 2.9. What the command line of a stack
//! says holds whatever the file says.

mod file;
mod knob;

pub use file::{Said, SettingsError};
pub use knob::{KNOBS, Knob};

use crate::config::{SettingsFile, StackConfig};

/// The settings of one stack.
#[derive(Debug)]
pub(crate) struct Settings {
    file: Option<SettingsFile>,
    /// What holds where the file says nothing.
    initial: Vec<u64>,
    fixed: Vec<&'static str>,
}

impl Settings {
    /// Takes the settings' file from the configuration and applies it; also tells what was left out because it is
    /// wrong, if the configuration allows that.
    pub(crate) fn load(
        config: &mut StackConfig,
    ) -> Result<(Self, Vec<SettingsError>), SettingsError> {
        let initial = Self::values(config);
        let fixed = std::mem::take(&mut config.fixed);
        let settings = Self { file: config.settings.take(), initial, fixed };
        let mut ignored = Vec::new();
        match &settings.file {
            Some(file) if config.ignore_wrong_settings => {
                let (values, wrong) = file.read_valid()?;
                settings.put(config, &values);
                ignored = wrong;
            }
            Some(_) | None => settings.apply(config)?,
        }
        Ok((settings, ignored))
    }

    /// What is in force, for [`Self::restore`].
    pub(crate) fn values(config: &StackConfig) -> Vec<u64> {
        KNOBS.iter().map(|knob| knob.get(config)).collect()
    }

    /// Puts earlier values into force again.
    pub(crate) fn restore(config: &mut StackConfig, values: &[u64]) {
        KNOBS.iter().zip(values).for_each(|(knob, value)| knob.set(config, *value));
    }

    /// Reads the file and puts it into force. Nothing changes when it is wrong.
    pub(crate) fn apply(&self, config: &mut StackConfig) -> Result<(), SettingsError> {
        let Some(file) = &self.file else { return Ok(()) };
        self.put(config, &file.read()?);
        Ok(())
    }

    fn put(&self, config: &mut StackConfig, values: &[Said]) {
        for (knob, initial) in KNOBS.iter().zip(&self.initial) {
            let said = values.iter().find(|said| said.name == knob.name).map(|said| said.value);
            let said = said.filter(|_| !self.fixed.contains(&knob.name));
            knob.set(config, said.unwrap_or(*initial));
        }
    }
}
