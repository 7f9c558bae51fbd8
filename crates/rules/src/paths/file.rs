//! The file that the lines are kept in.

use super::{PathEntry, PathsDocument};
use crate::error::RuleError;
use crate::file::FileError;
use crate::kept_file::KeptFile;
use std::path::PathBuf;

/// The file of the caller's path policies: `$MANYPATH_PATHS`, the user's or the host's `paths`; see
/// [`KeptFile::usual`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathsFile(KeptFile);

impl PathsFile {
    /// The caller's usual file.
    #[must_use]
    pub fn usual() -> Self {
        Self(KeptFile::usual("paths", "MANYPATH_PATHS"))
    }

    /// A file that the user has named: nothing else is read.
    #[must_use]
    pub fn named(path: PathBuf) -> Self {
        Self(KeptFile::named(path))
    }

    /// Where it lies.
    #[must_use]
    pub fn file(&self) -> &KeptFile {
        &self.0
    }

    /// What it says; nothing when there is no file.
    ///
    /// # Errors
    /// When the file cannot be read, or a line is wrong.
    pub fn read(&self) -> Result<Vec<PathEntry>, FileError> {
        let path = || self.0.current().unwrap_or(&self.0.own).to_owned();
        let document = PathsDocument::parse(&self.0.read()?);
        document.entries().map_err(|error| FileError::Rule(path(), error))
    }

    /// Changes it, as [`KeptFile::edit`] does. Lines that mean nothing stay.
    ///
    /// # Errors
    /// When the file cannot be read or written; what `edit` says.
    pub fn edit<T>(
        &self,
        edit: impl FnOnce(&mut PathsDocument) -> Result<T, RuleError>,
    ) -> Result<T, FileError> {
        self.0.edit(|text| {
            let mut document = PathsDocument::parse(&text);
            let result = edit(&mut document).map_err(FileError::Edit)?;
            Ok((document.to_string(), result))
        })
    }
}
