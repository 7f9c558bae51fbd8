//! Moving the files of 0.2 into `config.toml`.

use super::format::Format;
use super::{Part, Sources};
use crate::kept_file::{KeptFile, KeptFileError};
use std::fs;
use std::path::{Path, PathBuf};

/// What was moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Migration {
    /// The file that the parts are in now.
    pub config: PathBuf,
    /// Each old file, and the name under which it stays.
    pub moved: Vec<(PathBuf, PathBuf)>,
}

/// Moves the caller's old files into the `config.toml` of the same folder. They stay as `NAME.old`, which
/// nobody reads. With nothing to move, nothing is written.
///
/// # Errors
/// When a file cannot be read or written.
pub fn migrate() -> Result<Migration, KeptFileError> {
    migrate_from(&Part::ALL.map(Sources::usual))
}

pub(super) fn migrate_from(sources: &[Sources]) -> Result<Migration, KeptFileError> {
    let mut migration = Migration::default();
    for of in sources {
        let level = &of.levels[of.written];
        let Some(config) = &level.config else { continue };
        migration.config.clone_from(config);
        let Some(plain) = level.plain.as_ref().filter(|path| path.exists()) else { continue };
        let old = KeptFile::named(plain.clone()).read()?;
        KeptFile::named(config.clone()).edit(|text| {
            let text = merged(of.part, config, &text, plain, &old)?;
            Ok::<_, KeptFileError>((text, ()))
        })?;
        let kept = plain.with_extension("old");
        fs::rename(plain, &kept).map_err(|error| KeptFileError { path: plain.clone(), error })?;
        migration.moved.push((plain.clone(), kept));
    }
    Ok(migration)
}

/// The text of `config.toml` with the lines of an old file behind its own. What it says itself holds.
fn merged(
    part: Part,
    config: &Path,
    text: &str,
    plain: &Path,
    old: &str,
) -> Result<String, KeptFileError> {
    let there = Format::Config.layer(part, config, text)?;
    let own = there.lines.len() - there.services;
    let mut lines: Vec<_> = there.lines.into_iter().take(own).map(|(_, line)| line).collect();
    let said: Vec<_> = lines.iter().filter_map(|line| subject(part, line)).collect();
    let old = Format::Plain.layer(part, plain, old)?.lines.into_iter().map(|(_, line)| line);
    lines.extend(old.filter(|line| subject(part, line).is_none_or(|it| !said.contains(&it))));
    Format::Config.write(part, config, text, &lines)
}

/// What only one line of a file may be about.
fn subject(part: Part, line: &str) -> Option<String> {
    let line = line.split('#').next().unwrap_or_default().trim();
    match part {
        Part::Settings => line.split_once('=').map(|(name, _)| name.trim().to_owned()),
        Part::Rules if line.starts_with("default") => {
            line.split_whitespace().nth(1).map(str::to_owned)
        }
        Part::Rules | Part::Paths => None,
    }
}
