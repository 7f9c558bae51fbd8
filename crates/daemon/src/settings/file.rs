//! The file of settings: `NAME = VALUE` in a line, as in sysctl.conf.

use super::Knob;
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
    /// When it cannot be read, or a line is wrong.
    pub fn read(&self) -> Result<Vec<(&'static str, u64)>, SettingsError> {
        self.parse(&self.0.read().map_err(SettingsError::File)?)
    }

    /// Sets a knob, or takes its line out so that its default holds again. Other lines stay.
    ///
    /// # Errors
    /// As [`SettingsFile::read`], and when it cannot be written.
    pub fn set(&self, knob: &Knob, value: Option<u64>) -> Result<(), SettingsError> {
        self.0.edit(|text| {
            self.parse(&text)?;
            let others = text.lines().filter(|line| !sets(line, knob.name));
            let mut lines: Vec<String> = others.map(str::to_owned).collect();
            lines.extend(value.map(|value| format!("{} = {}", knob.name, knob.show(value))));
            Ok((lines.iter().map(|line| format!("{line}\n")).collect(), ()))
        })
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
        }
    }
}

impl std::error::Error for SettingsError {}
