//! What is wrong with a rule, in words that say what to do.

use std::fmt;

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
