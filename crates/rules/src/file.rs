//! Where the table is kept, and how it is changed without losing anything.
//!
//! The first of these files that exists holds: the one named by `$MANYPATH_RULES`, the user's
//! (`$XDG_CONFIG_HOME/manypath/rules`, or `~/.config/manypath/rules`), the host's
//! (`/etc/manypath/rules`). root changes the host's, others their own, which begins as a copy of
//! the host's.

use crate::document::Document;
use crate::error::RuleError;
use std::env;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The host's table.
const HOST: &str = "/etc/manypath/rules";
/// A larger file was not written by people.
const MAX_SIZE: u64 = 1 << 20;

/// The files of the caller's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulesFile {
    /// Read if it exists, and written.
    pub own: PathBuf,
    /// Read if `own` does not exist.
    pub fallback: Option<PathBuf>,
}

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
        Self { own: path, fallback: None }
    }

    /// The caller's usual files.
    #[must_use]
    pub fn usual() -> Self {
        if let Some(named) = variable("MANYPATH_RULES") {
            return Self::named(named.into());
        }
        let config = variable("XDG_CONFIG_HOME").map(PathBuf::from);
        let config = config.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")));
        let users = config.map(|dir| dir.join("manypath/rules"));
        match users {
            Some(own) if !is_root() || own.exists() => Self { own, fallback: Some(HOST.into()) },
            Some(_) | None => Self::named(HOST.into()),
        }
    }

    /// The file that holds; none when there is none.
    #[must_use]
    pub fn current(&self) -> Option<&Path> {
        let fallback = self.fallback.as_deref();
        [Some(self.own.as_path()), fallback].into_iter().flatten().find(|path| path.exists())
    }

    /// Reads the table; an empty one when there is no file.
    ///
    /// # Errors
    /// When the file cannot be read, or a line is wrong.
    pub fn read(&self) -> Result<Document, FileError> {
        self.current().map_or_else(|| Ok(Document::default()), read)
    }

    /// Reads, changes and writes the table; two callers never lose each other's change, and a
    /// reader finds the old table or the new one. Nothing is written when `edit` fails.
    ///
    /// # Errors
    /// As [`RulesFile::read`]; when the file cannot be written; what `edit` says.
    pub fn edit<T>(
        &self,
        edit: impl FnOnce(&mut Document) -> Result<T, RuleError>,
    ) -> Result<T, FileError> {
        let _lock = self.lock()?;
        let mut document = self.read()?;
        let result = edit(&mut document).map_err(FileError::Edit)?;
        self.write(&document.to_string())?;
        Ok(result)
    }

    fn lock(&self) -> Result<File, FileError> {
        if let Some(folder) = self.own.parent() {
            fs::create_dir_all(folder).map_err(|e| FileError::Io(folder.into(), e))?;
        }
        let path = self.beside("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let locked = file.and_then(|file| file.lock().map(|()| file));
        locked.map_err(|e| FileError::Io(path, e))
    }

    fn write(&self, text: &str) -> Result<(), FileError> {
        let new = self.beside("new");
        let write = || -> io::Result<()> {
            let mode = fs::metadata(&self.own).map_or(0o644, |meta| meta.mode() & 0o777);
            let mut file =
                OpenOptions::new().create(true).truncate(true).write(true).mode(mode).open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            // A link stays a link: what it points to is replaced.
            fs::rename(&new, fs::canonicalize(&self.own).unwrap_or_else(|_| self.own.clone()))
        };
        write().map_err(|e| FileError::Io(self.own.clone(), e))
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let own = fs::canonicalize(&self.own).unwrap_or_else(|_| self.own.clone());
        let mut name = own.into_os_string();
        name.push(".");
        name.push(suffix);
        name.into()
    }
}

fn read(path: &Path) -> Result<Document, FileError> {
    let io = |e| FileError::Io(path.to_owned(), e);
    if fs::metadata(path).map_err(io)?.len() > MAX_SIZE {
        return Err(io(io::Error::other("larger than 1 MiB: this is no table of rules")));
    }
    let text = fs::read_to_string(path).map_err(io)?;
    Document::parse(&text).map_err(|e| FileError::Rule(path.to_owned(), e))
}

fn variable(name: &str) -> Option<std::ffi::OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Whether the caller may be taken for the host's administrator: `/proc/self` is its own.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
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
        fs::write(&file.own, "remote disable port 25\nremote disable prt 26\n").unwrap();
        let error = file.edit(|d| Ok(d.flush())).unwrap_err().to_string();
        assert!(error.contains("rules: line 2: unknown word \"prt\""), "{error}");
        assert_eq!(fs::read_to_string(&file.own).unwrap().lines().count(), 2);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_own_table_begins_as_a_copy_of_the_hosts() {
        let folder = folder("copy");
        fs::create_dir_all(&folder).unwrap();
        let fallback = folder.join("host");
        fs::write(&fallback, "# mail\nremote disable port 25\n").unwrap();
        let file = RulesFile { own: folder.join("own/rules"), fallback: Some(fallback.clone()) };
        assert_eq!(file.current(), Some(fallback.as_path()));
        file.edit(|d| d.add("remote disable port 26".parse()?, None)).unwrap();
        let own = fs::read_to_string(&file.own).unwrap();
        assert_eq!(own, "# mail\nremote disable port 25\nremote disable port 26\n");
        assert_eq!(fs::read_to_string(fallback).unwrap().lines().count(), 2);
        fs::remove_dir_all(folder).unwrap();
    }
}
