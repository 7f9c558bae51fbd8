//! The file that the lines are kept in.

use super::{PathEntry, PathsDocument};
use crate::config::{Part, Sources};
use crate::error::{FileError, RuleError};
use std::path::PathBuf;

/// The files of the caller's path policies: `paths` of its configuration; see [`Sources::usual`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathsFile(Sources);

impl PathsFile {
    /// The caller's usual files.
    #[must_use]
    pub fn usual() -> Self {
        Self(Sources::usual(Part::Paths))
    }

    /// A file that the user has named: nothing else is read.
    #[must_use]
    pub fn named(path: PathBuf) -> Self {
        Self(Sources::named(Part::Paths, path))
    }

    /// Policies at a place of one's own.
    #[must_use]
    pub fn at(sources: Sources) -> Self {
        Self(sources)
    }

    /// Where it lies.
    #[must_use]
    pub fn sources(&self) -> &Sources {
        &self.0
    }

    /// What it says; nothing when there is no file.
    ///
    /// # Errors
    /// When the file cannot be read, or a line is wrong.
    pub fn read(&self) -> Result<Vec<PathEntry>, FileError> {
        self.document()?.entries()
    }

    /// All lines, those that mean nothing among them.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn document(&self) -> Result<PathsDocument, FileError> {
        Ok(PathsDocument::of(&self.0.read()?))
    }

    /// Changes it, as [`Sources::edit`] does. Lines that mean nothing stay.
    ///
    /// # Errors
    /// When the file cannot be read or written; what `edit` says.
    pub fn edit<T>(
        &self,
        edit: impl FnOnce(&mut PathsDocument) -> Result<T, RuleError>,
    ) -> Result<T, FileError> {
        self.0.edit(|layers| {
            let mut document = PathsDocument::of(layers);
            let result = edit(&mut document).map_err(FileError::Edit)?;
            Ok((document.own_lines(), result))
        })
    }
}
