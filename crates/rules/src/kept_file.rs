//! A file that people and commands edit: found by rules, changed without losing anything.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A larger file was not written by people.
const MAX_SIZE: u64 = 1 << 20;

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
    /// `/var/cache/manypath/name` for root, and `$XDG_CACHE_HOME/manypath/name` or
    /// `~/.cache/manypath/name` for others.
    #[must_use]
    pub fn cache(name: &str, variable: &str) -> Self {
        if let Some(named) = value_of(variable) {
            return Self::named(named.into()).without_sync();
        }
        let users = || {
            let cache = value_of("XDG_CACHE_HOME").map(PathBuf::from);
            cache.or_else(|| Some(PathBuf::from(value_of("HOME")?).join(".cache")))
        };
        let folder = if is_root() { None } else { users() };
        let folder = folder.unwrap_or_else(|| "/var/cache".into());
        Self::named(folder.join("manypath").join(name)).without_sync()
    }

    /// Leaves it to the system when changes reach the disk.
    #[must_use]
    pub fn without_sync(self) -> Self {
        Self { synced: false, ..self }
    }

    /// The file that holds; none when there is none.
    #[must_use]
    pub fn current(&self) -> Option<&Path> {
        let fallback = self.fallback.as_deref();
        [Some(self.own.as_path()), fallback].into_iter().flatten().find(|path| path.exists())
    }

    /// Its text; empty when there is no file.
    ///
    /// # Errors
    /// When it cannot be read, or is larger than 1 MiB.
    pub fn read(&self) -> Result<String, KeptFileError> {
        self.current().map_or_else(|| Ok(String::new()), read)
    }

    /// Replaces its text by what `edit` makes of it; two callers never lose each other's change, and
    /// a reader finds the old text or the new one. Nothing is written when `edit` fails.
    ///
    /// # Errors
    /// As [`KeptFile::read`]; when it cannot be written; what `edit` says.
    pub fn edit<T, E: From<KeptFileError>>(
        &self,
        edit: impl FnOnce(String) -> Result<(String, T), E>,
    ) -> Result<T, E> {
        let _lock = self.lock()?;
        let (text, result) = edit(self.read()?)?;
        self.write(&text)?;
        Ok(result)
    }

    fn lock(&self) -> Result<File, KeptFileError> {
        if let Some(folder) = self.own.parent() {
            let made = fs::create_dir_all(folder);
            made.map_err(|error| KeptFileError { path: folder.into(), error })?;
        }
        let path = self.beside("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let locked = file.and_then(|file| file.lock().map(|()| file));
        locked.map_err(|error| KeptFileError { path, error })
    }

    fn write(&self, text: &str) -> Result<(), KeptFileError> {
        let new = self.beside("new");
        let write = || -> io::Result<()> {
            let mode = fs::metadata(&self.own).map_or(0o644, |meta| meta.mode() & 0o777);
            let mut file =
                OpenOptions::new().create(true).truncate(true).write(true).mode(mode).open(&new)?;
            file.write_all(text.as_bytes())?;
            if self.synced {
                file.sync_all()?;
            }
            fs::rename(&new, self.target())
        };
        write().map_err(|error| KeptFileError { path: self.own.clone(), error })
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.target().into_os_string();
        name.push(".");
        name.push(suffix);
        name.into()
    }

    /// A link stays a link: what it points to is replaced.
    fn target(&self) -> PathBuf {
        fs::canonicalize(&self.own).unwrap_or_else(|_| self.own.clone())
    }
}

fn read(path: &Path) -> Result<String, KeptFileError> {
    let read = || -> io::Result<String> {
        match fs::metadata(path)?.len() > MAX_SIZE {
            true => Err(io::Error::other("larger than 1 MiB: people did not write this")),
            false => fs::read_to_string(path),
        }
    };
    read().map_err(|error| KeptFileError { path: path.to_owned(), error })
}

fn value_of(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Whether the caller may be taken for the host's administrator: `/proc/self` is its own.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}
