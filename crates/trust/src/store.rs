//! What decides about the key that a peer has shown.

use crate::known_peers::KnownPeers;
use crate::ssh_hosts::SshHosts;
use crate::verdict::{Source, Verdict};
use manypath_keys::PublicKey;
use std::net::IpAddr;

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
