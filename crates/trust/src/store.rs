//! What decides about the key that a peer has shown.

use crate::known_peers::KnownPeers;
use crate::ssh_hosts::SshHosts;
use manypath_keys::PublicKey;
use std::net::IpAddr;

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

/// All that was read about peers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrustStore {
    /// Keys by address.
    pub known: KnownPeers,
    /// Hosts that the user knows by SSH.
    pub ssh: SshHosts,
    /// The one key that every peer must have: that of a secret.
    pub only: Option<PublicKey>,
}

impl TrustStore {
    /// What a peer at this address that has shown this key is.
    #[must_use]
    pub fn verdict(&self, addr: IpAddr, key: &PublicKey) -> Verdict {
        let verdict = self.known.verdict(addr, key);
        match (self.only, verdict) {
            _ if self.is_revoked(key) => Verdict::Revoked,
            (Some(only), _) if only == *key => Verdict::Known(Source::Secret),
            (Some(known), _) => Verdict::Changed { known },
            (None, Verdict::Known(_)) => verdict,
            (None, _) if self.ssh.knows(addr, key) => Verdict::Known(Source::Ssh),
            (None, _) => verdict,
        }
    }

    /// Whether nobody is to be believed by this key.
    #[must_use]
    pub fn is_revoked(&self, key: &PublicKey) -> bool {
        self.known.is_revoked(key) || self.ssh.is_revoked(key)
    }

    /// Whether a peer at this address may not do without authentication: it was authenticated once, or has the secret.
    #[must_use]
    pub fn is_known(&self, addr: IpAddr) -> bool {
        self.only.is_some() || self.known.is_known(addr)
    }
}
