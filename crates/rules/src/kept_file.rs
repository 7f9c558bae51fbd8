//! A file that people and commands edit: found by rules, changed without losing anything.

use crate::location::{self, Location};
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where a file of the caller lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    /// Read if it exists, and written.
    pub own: PathBuf,
    /// Read if `own` does not exist.
    pub fallback: Option<PathBuf>,
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
/// made, for its owner to write and its group to read.
///
/// # Errors
/// As the operating system says; when a symbolic link belongs to neither root nor the caller.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    Location::for_reading(path)?.open_to_append()
}

impl KeptFile {
    /// A file that the user has named: nothing else is read.
    #[must_use]
    pub fn named(path: PathBuf) -> Self {
        Self { own: path, fallback: None, synced: true }
    }

    /// The caller's usual file `name`: the one that the environment variable names; else the user's
    /// (`$XDG_CONFIG_HOME/manypath/name`, or `~/.config/manypath/name`); else the host's
    /// (`/etc/manypath/name`). root writes the host's, others their own.
    #[must_use]
    pub fn usual(name: &str, variable: &str) -> Self {
        if let Some(named) = value_of(variable) {
            return Self::named(named.into());
        }
        let host = Path::new("/etc/manypath").join(name);
        let config = value_of("XDG_CONFIG_HOME").map(PathBuf::from);
        let config = config.or_else(|| Some(PathBuf::from(value_of("HOME")?).join(".config")));
        match config.map(|folder| folder.join("manypath").join(name)) {
            Some(own) if !is_root() || own.exists() => {
                Self { own, fallback: Some(host), synced: true }
            }
            Some(_) | None => Self::named(host),
        }
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

    /// The file that changes are written to.
    #[must_use]
    pub fn written(&self) -> &Path {
        &self.own
    }

    /// The file that holds; none when there is none.
    #[must_use]
    pub fn current(&self) -> Option<&Path> {
        let fallback = self.fallback.as_deref();
        [Some(self.own.as_path()), fallback].into_iter().flatten().find(|path| path.exists())
    }

    /// Its text; empty when there is no file. Symbolic links are followed where root or the caller has
    /// made them.
    ///
    /// # Errors
    /// When it cannot be read, is no regular file, or is larger than 1 MiB; when a symbolic link on the
    /// way to it belongs to somebody else.
    pub fn read(&self) -> Result<String, KeptFileError> {
        match OPENER.get() {
            Some(open) => self.read_through(*open),
            None => self.current().map_or_else(|| Ok(String::new()), read),
        }
    }

    fn read_through(&self, open: Opener) -> Result<String, KeptFileError> {
        for path in [Some(&self.own), self.fallback.as_ref()].into_iter().flatten() {
            match open(path).and_then(location::read_all) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                text => return text.map_err(|error| KeptFileError { path: path.clone(), error }),
            }
        }
        Ok(String::new())
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
        let failed = |error| KeptFileError { path: self.own.clone(), error };
        let location = Location::for_writing(&self.own).map_err(failed)?;
        let _lock = location.lock().map_err(failed)?;
        let (text, result) = edit(self.read()?)?;
        location.replace(&text, self.synced).map_err(failed)?;
        Ok(result)
    }
}

fn read(path: &Path) -> Result<String, KeptFileError> {
    let text = Location::for_reading(path).and_then(|location| location.read());
    text.map_err(|error| KeptFileError { path: path.to_owned(), error })
}

fn value_of(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
