//! The file of settings: `NAME = VALUE` in a line, as in sysctl.conf.

use super::Knob;
use crate::config::StackConfig;
use manypath_rules::{KeptFile, KeptFileError};
use std::fmt;
use std::path::PathBuf;

/// The file of the caller's settings: `$MANYPATH_SYSCTL`, the user's or the host's `sysctl.conf`;
/// see [`KeptFile::usual`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFile(KeptFile);

/// Why settings could not be read or changed.
#[derive(Debug)]
pub enum SettingsError {
    /// The operating system said no.
    File(KeptFileError),
    /// A line is wrong: what is allowed instead.
    Line(PathBuf, usize, String),
    /// Two values do not go together: which, and what to do.
    Together(PathBuf, String),
}

impl SettingsFile {
    /// The caller's usual file.
    #[must_use]
    pub fn usual() -> Self {
        Self(KeptFile::usual("sysctl.conf", "MANYPATH_SYSCTL"))
    }

    /// A file that the user has named.
    #[must_use]
    pub fn named(path: PathBuf) -> Self {
        Self(KeptFile::named(path))
    }

    /// Where it lies.
    #[must_use]
    pub fn file(&self) -> &KeptFile {
        &self.0
    }

    /// The values that it sets. Of two lines for one knob the last holds.
    ///
    /// # Errors
    /// When it cannot be read, a line is wrong, or two values do not go together.
    pub fn read(&self) -> Result<Vec<(&'static str, u64)>, SettingsError> {
        self.parse_all(&self.0.read().map_err(SettingsError::File)?)
    }

    /// Sets knobs, or takes their lines out so that their defaults hold again: all of them or none. Other
    /// lines stay.
    ///
    /// # Errors
    /// As [`SettingsFile::read`] of what the file would be, and when it cannot be written.
    pub fn set(&self, changes: &[(&Knob, Option<u64>)]) -> Result<(), SettingsError> {
        self.0.edit(|text| {
            let text = changes.iter().fold(text, |text, (knob, value)| edited(&text, knob, *value));
            self.parse_all(&text)?;
            Ok((text, ()))
        })
    }

    /// All lines, and whether they go together.
    fn parse_all(&self, text: &str) -> Result<Vec<(&'static str, u64)>, SettingsError> {
        let values = self.parse(text)?;
        let path = || self.0.current().unwrap_or(&self.0.own).to_owned();
        go_together(&values).map_err(|why| SettingsError::Together(path(), why))?;
        Ok(values)
    }

    fn parse(&self, text: &str) -> Result<Vec<(&'static str, u64)>, SettingsError> {
        let mut values: Vec<(&'static str, u64)> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let path = || self.0.current().unwrap_or(&self.0.own).to_owned();
            let said = setting(line).map_err(|why| SettingsError::Line(path(), index + 1, why))?;
            if let Some((name, value)) = said {
                values.retain(|(other, _)| *other != name);
                values.push((name, value));
            }
        }
        Ok(values)
    }
}

/// What a line sets; nothing if it is blank or a comment.
fn setting(line: &str) -> Result<Option<(&'static str, u64)>, String> {
    let line = line.split('#').next().unwrap_or_default().trim();
    if line.is_empty() {
        return Ok(None);
    }
    let (name, value) = line.split_once('=').ok_or("a setting is written NAME = VALUE")?;
    let knob = Knob::by_name(name.trim()).ok_or_else(|| {
        let known: Vec<&str> = super::KNOBS.iter().map(|knob| knob.name).collect();
        format!("unknown setting \"{}\": {}", name.trim(), known.join(", "))
    })?;
    Ok(Some((knob.name, knob.parse(value.trim())?)))
}

/// The timeouts have an order.
fn go_together(values: &[(&'static str, u64)]) -> Result<(), String> {
    let (shortest, longest) = (in_force("rto_min_ms", values), in_force("rto_max_ms", values));
    match (shortest, longest) {
        (Some(least), Some(most)) if least > most => Err(format!(
            "rto_min_ms = {least} is more than rto_max_ms = {most}: lower the one or raise the other"
        )),
        _ => Ok(()),
    }
}

/// What a knob is if the file says this: its default where it says nothing.
fn in_force(name: &str, values: &[(&'static str, u64)]) -> Option<u64> {
    let said = values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    said.or_else(|| Knob::by_name(name).map(|knob| knob.get(&StackConfig::default())))
}

/// The text with a knob's line at its end, or without any.
fn edited(text: &str, knob: &Knob, value: Option<u64>) -> String {
    let others = text.lines().filter(|line| !sets(line, knob.name)).map(str::to_owned);
    let line = value.map(|value| format!("{} = {}", knob.name, knob.show(value)));
    others.chain(line).map(|line| format!("{line}\n")).collect()
}

fn sets(line: &str, name: &str) -> bool {
    line.split(['=', '#']).next().is_some_and(|said| said.trim() == name)
}

impl From<KeptFileError> for SettingsError {
    fn from(error: KeptFileError) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => write!(f, "{}: {}", error.path.display(), error.error),
            Self::Line(path, line, why) => write!(f, "{}: line {line}: {why}", path.display()),
            Self::Together(path, why) => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for SettingsError {}
