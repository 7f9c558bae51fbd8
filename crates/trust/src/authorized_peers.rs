//! Keys of peers that may come in.
//!
//! ```text
//! 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo= alice's notebook
//! ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG1hbnlwYXRoIGxldHMgYW55IFRDUCBwcm9ncmFtIHVz bob@example
//! ```

use crate::error::TrustError;
use crate::line::{Fault, take_key, words_of};
use manypath_keys::PublicKey;
use manypath_rules::KeptFile;
use std::collections::HashMap;
use std::path::Path;

/// The keys of a file, with their names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuthorizedPeers {
    names: HashMap<PublicKey, String>,
    /// The lines that cannot be read.
    pub faults: Vec<Fault>,
}

impl AuthorizedPeers {
    /// Reads a text. Of two lines with the same key, the first counts.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut this = Self::default();
        for (line, number) in text.lines().zip(1..) {
            let Some(mut words) = words_of(line) else { continue };
            match take_key(&mut words) {
                Ok(key) => {
                    let name = || words.collect::<Vec<_>>().join(" ");
                    this.names.entry(key).or_insert_with(name);
                }
                Err(message) => this.faults.push(Fault { line: number, message }),
            }
        }
        this
    }

    /// Reads a file; nobody is allowed if there is none.
    ///
    /// # Errors
    /// When it cannot be read, or is larger than 1 MiB.
    pub fn load(path: &Path) -> Result<Self, TrustError> {
        Ok(Self::parse(&KeptFile::named(path.to_owned()).read_lossy()?))
    }

    /// The name of a peer that may come in; empty if it has none.
    #[must_use]
    pub fn allows(&self, key: &PublicKey) -> Option<&str> {
        self.names.get(key).map(String::as_str)
    }

    /// All keys with their names, sorted by key.
    #[must_use]
    pub fn peers(&self) -> Vec<(PublicKey, &str)> {
        let mut all: Vec<_> = self.names.iter().map(|(key, name)| (*key, name.as_str())).collect();
        all.sort_unstable();
        all
    }
}
