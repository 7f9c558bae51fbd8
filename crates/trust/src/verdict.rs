//! What a key says about the peer that has shown it.

use manypath_keys::PublicKey;

/// What a peer is, by its address and its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is known about the address.
    New,
    /// The key is that of the address.
    Known(Source),
    /// The address has another key: the host was set up anew, or somebody is in the middle.
    Changed {
        /// The key that it had.
        known: PublicKey,
    },
    /// Nobody is to be believed by this key.
    Revoked,
}

/// What a peer is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `known_peers`.
    KnownPeers,
    /// The user's `known_hosts` of SSH.
    Ssh,
    /// It has the secret that this end has.
    Secret,
}
