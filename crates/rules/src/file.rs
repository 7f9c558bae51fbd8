//! The file that the table is kept in.

use crate::document::Document;
use crate::error::RuleError;
use crate::kept_file::{KeptFile, KeptFileError};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The file of the caller's table: `$MANYPATH_RULES`, the user's or the host's `rules`; see
/// [`KeptFile::usual`]. A user's own table begins as a copy of the host's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulesFile(KeptFile);

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

impl RulesFile {
    /// A file that the user has named: nothing else is read.
    #[must_use]
    pub fn named(path: PathBuf) -> Self {
        Self(KeptFile::named(path))
    }

    /// A table at a place of one's own.
    #[must_use]
    pub fn at(file: KeptFile) -> Self {
        Self(file)
    }

    /// The caller's usual table.
    #[must_use]
    pub fn usual() -> Self {
        Self(KeptFile::usual("rules", "MANYPATH_RULES"))
    }

    /// Where it lies.
    #[must_use]
    pub fn file(&self) -> &KeptFile {
        &self.0
    }

    /// The file that holds; none when there is none.
    #[must_use]
    pub fn current(&self) -> Option<&Path> {
        self.0.current()
    }

    /// Reads the table; an empty one when there is no file.
    ///
    /// # Errors
    /// When the file cannot be read, or a line is wrong.
    pub fn read(&self) -> Result<Document, FileError> {
        self.parse(&self.0.read()?)
    }

    /// Reads, changes and writes the table, as [`KeptFile::edit`] does.
    ///
    /// # Errors
    /// As [`RulesFile::read`]; when the file cannot be written; what `edit` says.
    pub fn edit<T>(
        &self,
        edit: impl FnOnce(&mut Document) -> Result<T, RuleError>,
    ) -> Result<T, FileError> {
        self.0.edit(|text| {
            let mut document = self.parse(&text)?;
            let result = edit(&mut document).map_err(FileError::Edit)?;
            Ok((document.to_string(), result))
        })
    }

    fn parse(&self, text: &str) -> Result<Document, FileError> {
        let path = || self.current().unwrap_or(&self.0.own).to_owned();
        Document::parse(text).map_err(|e| FileError::Rule(path(), e))
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, fs};

    fn folder(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("manypath-rules-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn changes_of_many_at_once_are_all_kept() {
        let folder = folder("many");
        let file = RulesFile::named(folder.join("deep/rules"));
        std::thread::scope(|scope| {
            for port in 1..=20 {
                let (file, rule) = (&file, format!("remote disable port {port}"));
                scope.spawn(move || file.edit(|d| d.add(rule.parse()?, None)).unwrap());
            }
        });
        let table = file.read().unwrap().to_string();
        assert_eq!(table.lines().count(), 20, "{table}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_failed_edit_and_a_wrong_file_change_nothing() {
        let folder = folder("wrong");
        fs::create_dir_all(&folder).unwrap();
        let file = RulesFile::named(folder.join("rules"));
        fs::write(&file.file().own, "remote disable port 25\nremote disable prt 26\n").unwrap();
        let error = file.edit(|d| Ok(d.flush())).unwrap_err().to_string();
        assert!(error.contains("rules: line 2: unknown word \"prt\""), "{error}");
        assert_eq!(fs::read_to_string(&file.file().own).unwrap().lines().count(), 2);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_own_table_begins_as_a_copy_of_the_hosts() {
        let folder = folder("copy");
        fs::create_dir_all(&folder).unwrap();
        let fallback = folder.join("host");
        fs::write(&fallback, "# mail\nremote disable port 25\n").unwrap();
        let file = RulesFile::at(KeptFile {
            own: folder.join("own/rules"),
            fallback: Some(fallback.clone()),
            synced: true,
        });
        assert_eq!(file.current(), Some(fallback.as_path()));
        file.edit(|d| d.add("remote disable port 26".parse()?, None)).unwrap();
        let own = fs::read_to_string(&file.file().own).unwrap();
        assert_eq!(own, "# mail\nremote disable port 25\nremote disable port 26\n");
        assert_eq!(fs::read_to_string(fallback).unwrap().lines().count(), 2);
        fs::remove_dir_all(folder).unwrap();
    }
}
