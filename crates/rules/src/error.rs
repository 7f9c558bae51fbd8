//! What is wrong with a rule or a file of rules, in words that say what to do.

use crate::kept_file::KeptFileError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// What is wrong with a rule or a file of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// Line of the file, from 1; absent for words of a command line.
    pub line: Option<usize>,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl RuleError {
    /// What is wrong with words of a command line, or with what they ask for.
    pub fn new(message: impl Into<String>) -> Self {
        Self { line: None, message: message.into() }
    }

    pub(crate) fn at(self, line: usize) -> Self {
        Self { line: Some(line), ..self }
    }

    /// A word that is not one of those allowed.
    pub(crate) fn unknown(what: &str, word: &str, allowed: &str) -> Self {
        Self::new(format!("unknown {what} \"{word}\": {allowed}"))
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for RuleError {}

/// Why a table could not be read or written.
#[derive(Debug)]
pub enum FileError {
    /// The operating system said no.
    Io(PathBuf, io::Error),
    /// A line is wrong.
    Rule(PathBuf, RuleError),
    /// What was asked for cannot be done to the table.
    Edit(RuleError),
}

impl From<KeptFileError> for FileError {
    fn from(error: KeptFileError) -> Self {
        Self::Io(error.path, error.error)
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Rule(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Edit(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FileError {}
