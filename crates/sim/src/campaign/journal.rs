//! The list of finished runs of a campaign: one JSON object per line, only ever appended to.

use super::execute::Shard;
use super::record::Record;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Name of a journal; shards put their number before the extension.
const PREFIX: &str = "runs";
const EXTENSION: &str = "jsonl";

impl Shard {
    /// The journal of this shard among the results in `dir`.
    pub fn journal(self, dir: &Path) -> PathBuf {
        let Self { index, count } = self;
        match count {
            1 => dir.join(format!("{PREFIX}.{EXTENSION}")),
            _ => dir.join(format!("{PREFIX}-{index}-of-{count}.{EXTENSION}")),
        }
    }
}

/// A journal open for writing.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
}

impl Journal {
    /// Opens a journal; what it has is kept only if `keep`.
    pub(super) fn open(path: &Path, keep: bool) -> io::Result<Self> {
        let file =
            OpenOptions::new().create(true).append(keep).write(true).truncate(!keep).open(path)?;
        if keep {
            end_last_line(path, &file)?;
        }
        Ok(Self { file })
    }

    /// Adds a run: in one write, so that a stop leaves whole lines.
    pub(super) fn append(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_string(record).map_err(io::Error::other)?;
        line.push('\n');
        self.file.write_all(line.as_bytes())
    }
}

/// A line that was cut off by a crash must not swallow the next one.
fn end_last_line(path: &Path, mut file: &File) -> io::Result<()> {
    let text = std::fs::read(path)?;
    match text.last() {
        None | Some(b'\n') => Ok(()),
        Some(_) => file.write_all(b"\n"),
    }
}

/// The runs in a journal; lines that are not whole are left out.
pub(super) fn read(path: &Path) -> io::Result<Vec<Record>> {
    let text = std::fs::read_to_string(path)?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// All runs of several results, each once, in the order of their plan. A result is a journal or a
/// folder with journals.
pub fn merge(results: &[PathBuf]) -> io::Result<Vec<Record>> {
    let mut found = BTreeMap::new();
    for result in results {
        for journal in journals(result)? {
            for record in read(&journal)? {
                found.insert((record.index, record.id.clone()), record);
            }
        }
    }
    Ok(found.into_values().collect())
}

fn journals(result: &Path) -> io::Result<Vec<PathBuf>> {
    if !result.is_dir() {
        return Ok(vec![result.to_owned()]);
    }
    let journals = journals_in(result)?;
    match journals.is_empty() {
        true => Err(io::Error::other(format!("{}: no runs*.jsonl in it", result.display()))),
        false => Ok(journals),
    }
}

/// All runs of all journals in a folder; there may be none.
pub(super) fn read_all(dir: &Path) -> io::Result<Vec<Record>> {
    let journals = journals_in(dir)?;
    let all = journals.iter().map(|journal| read(journal)).collect::<io::Result<Vec<_>>>()?;
    Ok(all.into_iter().flatten().collect())
}

fn journals_in(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let is_journal = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(PREFIX) && name.ends_with(EXTENSION)
    };
    let entries = std::fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    let mut journals: Vec<_> = entries.into_iter().map(|e| e.path()).filter(is_journal).collect();
    journals.sort();
    Ok(journals)
}
