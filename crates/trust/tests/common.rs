//! What the tests share.

use manypath_keys::PublicKey;
use std::fs;
use std::path::PathBuf;

/// A directory that is removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("manypath-trust-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder");
        Self(folder)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn key(number: u8) -> PublicKey {
    PublicKey::from([number; 32])
}

pub(crate) fn addr(text: &str) -> std::net::IpAddr {
    text.parse().expect("an address")
}
