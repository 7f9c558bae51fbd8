//! Why a file of keys cannot be used.

use manypath_rules::KeptFileError;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a file of keys cannot be used, and what to do: one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustError {
    /// The file.
    pub path: PathBuf,
    message: String,
}

impl TrustError {
    /// What is wrong, without the file.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn new(path: &Path, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), message: message.into() }
    }
}

impl From<KeptFileError> for TrustError {
    fn from(failed: KeptFileError) -> Self {
        Self { message: failed.error.to_string(), path: failed.path }
    }
}

impl fmt::Display for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.message)
    }
}

impl std::error::Error for TrustError {}
