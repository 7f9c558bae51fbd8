//! The file that the table is kept in.

use crate::config::{Part, Sources};
use crate::document::Document;
use crate::error::{FileError, RuleError};
use std::path::PathBuf;

/// The files of the caller's table: `rules` and `services` of its configuration; see [`Sources::usual`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulesFile(Sources);

impl RulesFile {
    /// A file that the user has named: nothing else is read.
    #[must_use]
    pub fn named(path: PathBuf) -> Self {
        Self(Sources::named(Part::Rules, path))
    }

    /// A table at a place of one's own.
    #[must_use]
    pub fn at(sources: Sources) -> Self {
        Self(sources)
    }

    /// The caller's usual table.
    #[must_use]
    pub fn usual() -> Self {
        Self(Sources::usual(Part::Rules))
    }

    /// Where it lies.
    #[must_use]
    pub fn sources(&self) -> &Sources {
        &self.0
    }

    /// Reads the table; an empty one when there is no file.
    ///
    /// # Errors
    /// When a file cannot be read, or a line is wrong.
    pub fn read(&self) -> Result<Document, FileError> {
        Document::of(&self.0.read()?)
    }

    /// Reads, changes and writes the table, as [`Sources::edit`] does.
    ///
    /// # Errors
    /// As [`RulesFile::read`]; when the file cannot be written; what `edit` says.
    pub fn edit<T>(
        &self,
        edit: impl FnOnce(&mut Document) -> Result<T, RuleError>,
    ) -> Result<T, FileError> {
        self.0.edit(|layers| {
            let mut document = Document::of(layers)?;
            let result = edit(&mut document).map_err(FileError::Edit)?;
            Ok((document.own_lines(), result))
        })
    }
}

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
        fs::write(file.sources().written(), "remote disable port 25\nremote disable prt 26\n")
            .unwrap();
        let error = file.edit(|d| Ok(d.flush())).unwrap_err().to_string();
        assert!(error.contains("rules: line 2: unknown word \"prt\""), "{error}");
        assert_eq!(fs::read_to_string(file.sources().written()).unwrap().lines().count(), 2);
        fs::remove_dir_all(folder).unwrap();
    }
}
