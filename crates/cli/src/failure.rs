//! An error for a person: what went wrong and what to do about it.

use manypath_trust::TrustError;
use std::fmt;

/// What a command ends with when it cannot do its work.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: Option<String>,
    /// Exit status: 1 for a failure, 2 for wrong arguments.
    pub status: u8,
}

impl Failure {
    /// A failure with its message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, status: 1 }
    }

    /// Wrong arguments.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { status: 2, ..Self::new(message) }
    }

    /// Sets the exit status.
    pub fn with_status(self, status: u8) -> Self {
        Self { status, ..self }
    }

    /// Adds what the user can do.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "manypath: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  {hint}"),
            None => Ok(()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<TrustError> for Failure {
    fn from(error: TrustError) -> Self {
        Self::new(error.to_string())
    }
}
