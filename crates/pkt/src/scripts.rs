//! Which scripts are run, and the names that they find defined.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The scripts in `paths`, sorted within each directory.
pub(crate) fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            collect(path, &mut files)?;
        } else if path.exists() {
            files.push(path.clone());
        } else {
            return Err(format!("{}: no such file or directory", path.display()));
        }
    }
    if files.is_empty() { Err("there are no scripts (*.pkt) here".into()) } else { Ok(files) }
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let read = |dir: &Path| -> std::io::Result<Vec<PathBuf>> {
        std::fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path())).collect()
    };
    let mut entries = read(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    entries.sort();
    for entry in entries {
        // A link to a directory above would never end.
        if entry.is_dir() && !entry.is_symlink() {
            collect(&entry, files)?;
        } else if entry.extension().is_some_and(|extension| extension == "pkt") {
            files.push(entry);
        }
    }
    Ok(())
}

/// The defined names: `FreeBSD`, and those of the command line.
pub(crate) fn defines(more: &[String]) -> BTreeMap<String, String> {
    let own = ("FreeBSD".to_string(), "1".to_string());
    std::iter::once(own).chain(split_defines(more)).collect()
}

/// `NAME` and `NAME=VALUE` as names and values.
pub(crate) fn split_defines(defines: &[String]) -> impl Iterator<Item = (String, String)> {
    defines.iter().map(|define| match define.split_once('=') {
        Some((name, value)) => (name.to_string(), value.to_string()),
        None => (define.clone(), "1".to_string()),
    })
}
