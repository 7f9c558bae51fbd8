//! A file that people and commands edit: changed without losing anything.

use crate::location::{self, Location};
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// A file of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    /// Read if it exists, and written.
    pub path: PathBuf,
    /// Whether a change is on the disk before [`KeptFile::edit`] returns. A change is never seen in
    /// part, whatever this says.
    pub synced: bool,
}

/// What the operating system says about a file.
#[derive(Debug)]
pub struct KeptFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub error: io::Error,
}

/// Opens a file for reading.
pub type Opener = fn(&Path) -> io::Result<File>;

static OPENER: OnceLock<Opener> = OnceLock::new();

/// Lets another process open files for this one, which is about to lose the right to. Only the first call
/// counts.
pub fn open_through(opener: Opener) {
    let _ = OPENER.set(opener);
}

/// Opens a file as [`KeptFile::read`] does.
///
/// # Errors
/// As [`KeptFile::read`].
pub fn open_kept_file(path: &Path) -> io::Result<File> {
    Location::for_reading(path)?.open_to_read()
}

/// Opens a file such as a log to write at its end. No link of another user is followed, and a file that is not there is
/// made with this mode.
///
/// # Errors
/// As the operating system says; when a symbolic link belongs to neither root nor the caller.
pub fn open_to_append(path: &Path, mode: u32) -> io::Result<File> {
    Location::for_reading(path)?.open_to_append(mode)
}

impl KeptFile {
    /// This file.
    #[must_use]
    pub fn named(path: PathBuf) -> Self {
        Self { path, synced: true }
    }

    /// The caller's usual cache `name`: the one that the environment variable names; else
    /// `/var/cache/manypath-root/name` for root, and `$XDG_CACHE_HOME/manypath/name` or
    /// `~/.cache/manypath/name` for others. `/var/cache/manypath` belongs to the service, which does not
    /// run as root: root must not write there.
    #[must_use]
    pub fn cache(name: &str, variable: &str) -> Self {
        if let Some(named) = value_of(variable) {
            return Self::named(named.into()).without_sync();
        }
        let users = || {
            let cache = value_of("XDG_CACHE_HOME").map(PathBuf::from);
            cache.or_else(|| Some(PathBuf::from(value_of("HOME")?).join(".cache")))
        };
        let own = if is_root() {
            Path::new("/var/cache/manypath-root").join(name)
        } else {
            users().unwrap_or_else(|| "/var/cache".into()).join("manypath").join(name)
        };
        Self::named(own).without_sync()
    }

    /// Leaves it to the system when changes reach the disk.
    #[must_use]
    pub fn without_sync(self) -> Self {
        Self { synced: false, ..self }
    }

    /// Its text; empty when there is no file. Symbolic links are followed where root or the caller has
    /// made them.
    ///
    /// # Errors
    /// When it cannot be read, is no regular file, or is larger than 1 MiB; when a symbolic link on the
    /// way to it belongs to somebody else.
    pub fn read(&self) -> Result<String, KeptFileError> {
        Ok(self.read_if_there()?.unwrap_or_default())
    }

    /// Its text, if there is such a file.
    ///
    /// # Errors
    /// As [`KeptFile::read`].
    pub fn read_if_there(&self) -> Result<Option<String>, KeptFileError> {
        self.read_by(location::read_all)
    }

    /// Its text; empty when there is no file. What is not UTF-8 becomes U+FFFD: it spoils no other line.
    ///
    /// # Errors
    /// As [`KeptFile::read`], but for text that is not UTF-8.
    pub fn read_lossy(&self) -> Result<String, KeptFileError> {
        let bytes = self.read_by(location::read_bytes)?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn read_by<T>(&self, read: fn(File) -> io::Result<T>) -> Result<Option<T>, KeptFileError> {
        let open = OPENER.get().copied().unwrap_or(open_kept_file);
        match open(&self.path).and_then(read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // Nor can one that lies in a folder of somebody else be meant for the caller.
            Err(_) if OPENER.get().is_none() && !self.path.exists() => Ok(None),
            read => read.map(Some).map_err(|error| self.failed(error)),
        }
    }

    /// The text of a file that holds a secret, if it is there. It is read only where nobody but root and the caller
    /// owns it or may open it.
    ///
    /// # Errors
    /// As [`KeptFile::read`]; when others own the file or may open it.
    pub fn read_secret(&self) -> Result<Option<String>, KeptFileError> {
        self.read_secret_by(location::read_all)
    }

    /// As [`KeptFile::read_secret`]. What is not UTF-8 becomes U+FFFD: it spoils no other line.
    ///
    /// # Errors
    /// As [`KeptFile::read_secret`], but for text that is not UTF-8.
    pub fn read_secret_lossy(&self) -> Result<Option<String>, KeptFileError> {
        let bytes = self.read_secret_by(location::read_bytes)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn read_secret_by<T>(
        &self,
        read: fn(File) -> io::Result<T>,
    ) -> Result<Option<T>, KeptFileError> {
        let open = OPENER.get().copied().unwrap_or(open_kept_file);
        let checked = |file| location::check_secret(&file).map(|()| file);
        match open(&self.path).and_then(checked).and_then(read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some).map_err(|error| self.failed(error)),
        }
    }

    /// As [`KeptFile::edit`], for a file that holds secrets: it is read as by [`KeptFile::read_secret_lossy`], and only
    /// its owner may open one that was not there.
    ///
    /// # Errors
    /// As [`KeptFile::read_secret_lossy`] and [`KeptFile::edit`].
    pub fn edit_secret<T>(
        &self,
        edit: impl FnOnce(String) -> (String, T),
    ) -> Result<T, KeptFileError> {
        self.edit_secret_under(Location::lock, edit)
    }

    /// As [`KeptFile::edit_secret`], for callers who must not stand still: another one who edits it, and may be suspended,
    /// is waited for no longer than `most`.
    ///
    /// # Errors
    /// As [`KeptFile::edit_secret`]; when another caller holds the lock.
    pub fn edit_secret_within<T>(
        &self,
        most: Duration,
        edit: impl FnOnce(String) -> (String, T),
    ) -> Result<T, KeptFileError> {
        self.edit_secret_under(|location| location.lock_within(most), edit)
    }

    fn edit_secret_under<T>(
        &self,
        lock: impl FnOnce(&Location) -> io::Result<File>,
        edit: impl FnOnce(String) -> (String, T),
    ) -> Result<T, KeptFileError> {
        let failed = |error| self.failed(error);
        let location = Location::for_writing(&self.path).map_err(failed)?;
        let _lock = lock(&location).map_err(failed)?;
        let (text, result) = edit(self.read_secret_lossy()?.unwrap_or_default());
        location.replace_with_mode(&text, self.synced, 0o600).map_err(failed)?;
        Ok(result)
    }

    /// The text of a file that holds a secret, which `make` makes if there is no such file. Only its owner may open the
    /// new file. Of two callers, one makes it, and both get the same.
    ///
    /// # Errors
    /// As [`KeptFile::read_secret`] and [`KeptFile::edit`]; what `make` says. A file that is there is never written.
    pub fn read_or_make_secret(
        &self,
        make: impl FnOnce() -> io::Result<String>,
    ) -> Result<String, KeptFileError> {
        if let Some(text) = self.read_secret()? {
            return Ok(text);
        }
        let location = Location::for_writing(&self.path).map_err(|error| self.failed(error))?;
        let _lock = location.lock().map_err(|error| self.failed(error))?;
        if let Some(text) = self.read_secret()? {
            return Ok(text);
        }
        let text = make().map_err(|error| self.failed(error))?;
        let made = location.replace_with_mode(&text, self.synced, 0o600);
        made.map(|()| text).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> KeptFileError {
        KeptFileError { path: self.path.clone(), error }
    }

    /// Replaces its text by what `edit` makes of it; two callers never lose each other's change, and
    /// a reader finds the old text or the new one. Nothing is written when `edit` fails. Behind a
    /// symbolic link, the file that it points to is replaced.
    ///
    /// # Errors
    /// As [`KeptFile::read`]; when it cannot be written; when its directory belongs to neither root nor
    /// the caller, or others may write there; what `edit` says.
    pub fn edit<T, E: From<KeptFileError>>(
        &self,
        edit: impl FnOnce(String) -> Result<(String, T), E>,
    ) -> Result<T, E> {
        let failed = |error| self.failed(error);
        let location = Location::for_writing(&self.path).map_err(failed)?;
        let _lock = location.lock().map_err(failed)?;
        let (text, result) = edit(self.read()?)?;
        location.replace(&text, self.synced).map_err(failed)?;
        Ok(result)
    }
}

pub(crate) fn value_of(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
