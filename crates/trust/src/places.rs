//! Where the files of keys lie.

use manypath_rules::state_folder;
use std::env;
use std::path::PathBuf;

/// A file of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The caller's private key.
    Identity,
    /// Keys of peers that the caller connects to.
    KnownPeers,
    /// Keys of peers that may connect to the caller.
    AuthorizedPeers,
    /// A secret that both ends have.
    Secret,
}

impl Place {
    /// Its path in the [`folder`].
    #[must_use]
    pub fn path(self) -> PathBuf {
        folder().join(match self {
            Self::Identity => "identity",
            Self::KnownPeers => "known_peers",
            Self::AuthorizedPeers => "authorized_peers",
            Self::Secret => "secret",
        })
    }
}

/// The caller's folder of keys: `$MANYPATH_KEYS`, else [`state_folder`].
#[must_use]
pub fn folder() -> PathBuf {
    let named = env::var_os("MANYPATH_KEYS").filter(|value| !value.is_empty());
    named.map_or_else(state_folder, PathBuf::from)
}
