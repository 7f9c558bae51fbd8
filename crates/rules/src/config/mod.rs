//! The configuration: settings, rules, path policies and services, from files that add up.
//!
//! ```text
//! ~/.config/manypath/config.toml    the user's, first
//! /etc/manypath/config.toml         the host's
//! ```
//!
//! Until 0.2 each part had a file of its own (`sysctl.conf`, `rules`, `paths`). Those are still read, after
//! the `config.toml` of the same folder; [`migrate`] moves them into it. As before, a user's old file hides
//! the host's old one.

mod format;
mod migration;

pub use migration::{Migration, migrate};

use crate::kept_file::{KeptFile, KeptFileError, is_root, value_of};
use format::Format;
use std::io;
use std::path::{Path, PathBuf};

/// A part of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Settings: `NAME = VALUE`.
    Settings,
    /// Rules, and services, which are rules in short.
    Rules,
    /// Path policies.
    Paths,
}

/// The files that a part comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    part: Part,
    /// Earlier ones take precedence.
    levels: Vec<Level>,
    /// The level that changes are written to.
    written: usize,
}

/// The files of one folder, or one file that was named.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Level {
    config: Option<PathBuf>,
    plain: Option<PathBuf>,
}

/// The lines of a part in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// The file.
    pub path: PathBuf,
    /// Each line with its number in the file.
    pub lines: Vec<(usize, String)>,
    /// How many of the last lines stand for entries of `services`.
    pub services: usize,
    /// Settings that cannot be read: the number of each line, and why. The other parts do without them.
    pub wrong: Vec<(usize, String)>,
}

/// All lines of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    /// Earlier ones take precedence.
    pub layers: Vec<Layer>,
    /// The one that changes are written to; it may be empty.
    pub own: usize,
}

impl Part {
    const ALL: [Self; 3] = [Self::Rules, Self::Paths, Self::Settings];

    const fn key(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Rules => "rules",
            Self::Paths => "paths",
        }
    }

    const fn old_name(self) -> &'static str {
        match self {
            Self::Settings => "sysctl.conf",
            Self::Rules => "rules",
            Self::Paths => "paths",
        }
    }

    const fn variable(self) -> &'static str {
        match self {
            Self::Settings => "MANYPATH_SYSCTL",
            Self::Rules => "MANYPATH_RULES",
            Self::Paths => "MANYPATH_PATHS",
        }
    }
}

impl Sources {
    /// The caller's usual files: the one that the part's environment variable or `$MANYPATH_CONFIG` names,
    /// alone; else the user's, then the host's. root writes the host's, others their own.
    #[must_use]
    pub fn usual(part: Part) -> Self {
        if let Some(named) = value_of(part.variable()) {
            return Self::named(part, named.into());
        }
        if let Some(named) = value_of("MANYPATH_CONFIG") {
            let level = Level { config: Some(named.into()), plain: None };
            return Self { part, levels: vec![level], written: 0 };
        }
        Self::of_folders(part, user_folder().as_deref(), Path::new("/etc/manypath"), is_root())
    }

    /// A file of this part alone that the user has named: nothing else is read.
    #[must_use]
    pub fn named(part: Part, path: PathBuf) -> Self {
        Self { part, levels: vec![Level { config: None, plain: Some(path) }], written: 0 }
    }

    /// The files of two folders. `root` writes the host's, unless it has files of its own.
    #[must_use]
    pub fn of_folders(part: Part, user: Option<&Path>, host: &Path, root: bool) -> Self {
        let level = |folder: &Path| Level {
            config: Some(folder.join("config.toml")),
            plain: Some(folder.join(part.old_name())),
        };
        let levels: Vec<_> = user.into_iter().chain([host]).map(level).collect();
        let own = !root || levels[0].files().any(|(path, _)| path.exists());
        Self { part, written: if own { 0 } else { levels.len() - 1 }, levels }
    }

    /// All files that it may come from, there or not.
    pub fn places(&self) -> impl Iterator<Item = PathBuf> {
        self.levels.iter().flat_map(Level::files).map(|(path, _)| path.to_owned())
    }

    /// The file that changes are written to.
    #[must_use]
    pub fn written(&self) -> &Path {
        self.target().0
    }

    fn target(&self) -> (&Path, Format) {
        let (mut files, level) = (self.levels[self.written].files(), &self.levels[self.written]);
        let plain = level.plain.as_deref().filter(|path| path.exists());
        match plain.map(|path| (path, Format::Plain)).or_else(|| files.next()) {
            Some(target) => target,
            None => (Path::new(""), Format::Plain),
        }
    }

    /// The files that there are, those that take precedence first.
    #[must_use]
    pub fn existing(&self) -> Vec<PathBuf> {
        self.places().filter(|path| path.exists()).collect()
    }

    /// Files in the format of 0.2 that are still read, and which [`migrate`] moves.
    #[must_use]
    pub fn outdated(&self) -> Vec<PathBuf> {
        let usual = self.levels.iter().filter(|level| level.config.is_some());
        usual
            .filter_map(|level| level.plain.clone())
            .find(|path| path.exists())
            .into_iter()
            .collect()
    }

    /// What the files say.
    ///
    /// # Errors
    /// When a file cannot be read, or is no TOML with the keys of a configuration. What is wrong with single
    /// settings is in [`Layer::wrong`].
    pub fn read(&self) -> Result<Layers, KeptFileError> {
        let (target, _) = self.target();
        let (mut layers, mut own, mut found_plain) = (Vec::new(), None, false);
        for (level, files) in self.levels.iter().enumerate() {
            for (path, format) in files.files() {
                let text = KeptFile::named(path.to_owned()).read_if_there()?;
                let text = text.filter(|_| format == Format::Config || !found_plain);
                found_plain |= format == Format::Plain && text.is_some();
                if level == self.written && path == target {
                    own = Some(layers.len());
                } else if text.is_none() {
                    continue;
                }
                layers.push(format.layer(self.part, path, &text.unwrap_or_default())?);
            }
        }
        Ok(Layers { own: own.unwrap_or(0), layers })
    }

    /// Replaces the lines of the file that changes are written to by what `edit` makes of all lines, as
    /// [`KeptFile::edit`] does; the other files stay.
    ///
    /// # Errors
    /// As [`Sources::read`] and [`KeptFile::edit`]; what `edit` says.
    pub fn edit<T, E: From<KeptFileError>>(
        &self,
        edit: impl FnOnce(&Layers) -> Result<(Vec<String>, T), E>,
    ) -> Result<T, E> {
        let (path, format) = self.target();
        KeptFile::named(path.to_owned()).edit(|text| {
            let (lines, result) = edit(&self.read()?)?;
            Ok((format.write(self.part, path, &text, &lines)?, result))
        })
    }
}

impl Level {
    fn files(&self) -> impl Iterator<Item = (&Path, Format)> {
        let config = self.config.as_deref().map(|path| (path, Format::Config));
        config.into_iter().chain(self.plain.as_deref().map(|path| (path, Format::Plain)))
    }
}

impl Layers {
    /// A single text, in no file.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        Self { layers: vec![format::plain(Path::new(""), text)], own: 0 }
    }

    /// Each line with its layer and number.
    pub fn lines(&self) -> impl Iterator<Item = (usize, usize, &str)> {
        let numbered = self.layers.iter().enumerate();
        numbered.flat_map(|(layer, of)| {
            of.lines.iter().map(move |(n, text)| (layer, *n, text.as_str()))
        })
    }
}

/// The caller's folder for what programs write and must not lose: `$XDG_CONFIG_HOME/manypath` or `~/.config/manypath`;
/// `/var/lib/manypath-root` for root, whose services cannot write to `/etc`. `/var/lib/manypath` belongs to the service,
/// which does not run as root: root must not write there.
#[must_use]
pub fn state_folder() -> PathBuf {
    let users = user_folder().filter(|_| !is_root());
    users.unwrap_or_else(|| "/var/lib/manypath-root".into())
}

/// Whether what is written to `folder` goes with a container: its file system is an overlay on that of an image.
#[must_use]
pub fn goes_with_container(folder: &Path) -> bool {
    const OVERLAYFS: u64 = 0x794c_7630;
    let mut there = folder.ancestors().filter_map(|folder| rustix::fs::statfs(folder).ok());
    there.next().is_some_and(|found| u64::try_from(found.f_type) == Ok(OVERLAYFS))
}

/// `$XDG_CONFIG_HOME/manypath`, or `~/.config/manypath`.
fn user_folder() -> Option<PathBuf> {
    let config = value_of("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(PathBuf::from(value_of("HOME")?).join(".config")));
    config.map(|folder| folder.join("manypath"))
}

#[cfg(test)]
mod tests;

fn invalid(path: &Path, message: String) -> KeptFileError {
    KeptFileError {
        path: path.to_owned(),
        error: io::Error::new(io::ErrorKind::InvalidData, message),
    }
}
