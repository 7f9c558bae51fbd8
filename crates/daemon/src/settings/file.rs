//! The files of settings: `NAME = VALUE` in a line.

use super::Knob;
use crate::config::{SettingsFile, StackConfig};
use manypath_rules::{KeptFileError, Layers};
use std::fmt;
use std::path::PathBuf;

/// A setting, as the files have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// The file, and the line in it.
    pub origin: (PathBuf, usize),
}

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
    /// The values that they set. Of two files the one that takes precedence holds, of two lines of a file the last.
    ///
    /// # Errors
    /// When a file cannot be read, a line is wrong, or two values do not go together.
    pub fn read(&self) -> Result<Vec<Said>, SettingsError> {
        strict(self.read_valid()?)
    }

    /// The values that can be read, and what is wrong with the others.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read_valid(&self) -> Result<(Vec<Said>, Vec<SettingsError>), SettingsError> {
        Ok(parse(&self.0.read()?))
    }

    /// Sets knobs, or takes their lines out so that other files and defaults hold again: all of them or none.
    /// Other lines stay.
    ///
    /// # Errors
    /// As [`SettingsFile::read`] of what the files would be, and when the file cannot be written.
    pub fn set(&self, changes: &[(&Knob, Option<u64>)]) -> Result<(), SettingsError> {
        self.0.edit(|layers| {
            let mut layers = layers.clone();
            let own = &mut layers.layers[layers.own].lines;
            changes.iter().for_each(|(knob, value)| change(own, knob, *value));
            let lines = own.iter().map(|(_, line)| line.clone()).collect();
            strict(parse(&layers))?;
            Ok((lines, ()))
        })
    }
}

fn strict((values, wrong): (Vec<Said>, Vec<SettingsError>)) -> Result<Vec<Said>, SettingsError> {
    wrong.into_iter().next().map_or(Ok(values), Err)
}

/// All lines that make sense and go together, and what is wrong with the others.
fn parse(layers: &Layers) -> (Vec<Said>, Vec<SettingsError>) {
    let mut values: Vec<Said> = Vec::new();
    let mut wrong = Vec::new();
    for layer in &layers.layers {
        let lines = layer.wrong.iter().cloned();
        wrong.extend(lines.map(|(line, why)| SettingsError::Line(layer.path.clone(), line, why)));
    }
    for (layer, line, text) in layers.lines() {
        let path = &layers.layers[layer].path;
        let (name, value) = match setting(text) {
            Ok(Some(said)) => said,
            Ok(None) => continue,
            Err(why) => {
                wrong.push(SettingsError::Line(path.clone(), line, why));
                continue;
            }
        };
        let origin = (path.clone(), line);
        match values.iter_mut().find(|other| other.name == name) {
            Some(other) if other.origin.0 == *path => (other.value, other.origin) = (value, origin),
            Some(_) => {}
            None => values.push(Said { name, value, origin }),
        }
    }
    if let Err(why) = go_together(&values) {
        values.retain(|said| !TOGETHER.contains(&said.name));
        wrong.push(SettingsError::Together(layers.layers[layers.own].path.clone(), why));
    }
    (values, wrong)
}

/// What a line sets; nothing if it is blank or a comment.
fn setting(line: &str) -> Result<Option<(&'static str, u64)>, String> {
    let line = line.split('#').next().unwrap_or_default().trim();
    if line.is_empty() {
        return Ok(None);
    }
    let (name, value) = line.split_once('=').ok_or("a setting is written NAME = VALUE")?;
    let unknown = || format!("unknown setting \"{}\" (manypath-config(5) lists all)", name.trim());
    let knob = Knob::by_name(name.trim()).ok_or_else(unknown)?;
    Ok(Some((knob.name, knob.parse(value.trim())?)))
}

/// The shortest and the longest timeout.
const TOGETHER: [&str; 2] = ["rto_min_ms", "rto_max_ms"];

/// The timeouts have an order.
fn go_together(values: &[Said]) -> Result<(), String> {
    let [shortest, longest] = TOGETHER.map(|name| in_force(name, values));
    match (shortest, longest) {
        (Some(least), Some(most)) if least > most => Err(format!(
            "rto_min_ms = {least} is more than rto_max_ms = {most}: lower the one or raise the other"
        )),
        _ => Ok(()),
    }
}

/// What a knob is if the file says this: its default where it says nothing.
fn in_force(name: &str, values: &[Said]) -> Option<u64> {
    let said = values.iter().find(|said| said.name == name).map(|said| said.value);
    said.or_else(|| Knob::by_name(name).map(|knob| knob.get(&StackConfig::default())))
}

/// Puts a knob's line at the end, or takes it out.
fn change(lines: &mut Vec<(usize, String)>, knob: &Knob, value: Option<u64>) {
    lines.retain(|(_, line)| !sets(line, knob.name));
    let next = lines.last().map_or(1, |(line, _)| line + 1);
    lines.extend(value.map(|value| (next, format!("{} = {}", knob.name, knob.show(value)))));
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
