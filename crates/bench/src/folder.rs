//! A folder for logs and sockets of programs.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A folder under the system's temporary folder, removed with everything in it when dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    /// The folder of a process that has ended without dropping it.
    pub(crate) fn left_by(name: &str) -> Self {
        Self(std::env::temp_dir().join(name))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed from a temporary folder is the system's to clean.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
