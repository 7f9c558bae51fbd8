//! Hosts that the user knows by SSH: `known_hosts` (sshd(8)). Only read.

use crate::error::TrustError;
use manypath_keys::PublicKey;
use manypath_rules::KeptFile;
use ring::hmac::{self, HMAC_SHA1_FOR_LEGACY_USE_ONLY};
use ssh_key::known_hosts::{Entry, HostPatterns, Marker};
use std::env;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The Ed25519 keys of `known_hosts`. A line counts for an address that stands there as such, also hashed. Names do not
/// count, since who answers for a name is not proven by an address; nor do patterns and certificate authorities, nor
/// other ports than 22, at which any user of a host may answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SshHosts {
    hosts: Vec<(HostPatterns, PublicKey)>,
    revoked: Vec<PublicKey>,
}

impl SshHosts {
    /// Reads a text. Lines that cannot be read do not count.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut this = Self::default();
        for entry in text.lines().filter_map(|line| line.trim().parse::<Entry>().ok()) {
            let Some(key) = entry.public_key().key_data().ed25519() else { continue };
            let key = PublicKey::from(key.0);
            match entry.marker() {
                None => this.hosts.push((entry.host_patterns().clone(), key)),
                Some(Marker::Revoked) => this.revoked.push(key),
                Some(Marker::CertAuthority) => {}
            }
        }
        this
    }

    /// The user's and the host's files; nothing if there are none.
    ///
    /// # Errors
    /// When one cannot be read, or is larger than 1 MiB.
    pub fn usual() -> Result<Self, TrustError> {
        let texts = Self::places().map(|path| KeptFile::named(path).read_lossy());
        Ok(Self::parse(&texts.collect::<Result<Vec<_>, _>>()?.join("\n")))
    }

    /// The user's file, if the user has a home, and the host's.
    pub fn places() -> impl Iterator<Item = PathBuf> {
        let user = env::var_os("HOME").filter(|home| !home.is_empty());
        let user = user.map(|home| PathBuf::from(home).join(".ssh/known_hosts"));
        user.into_iter().chain(["/etc/ssh/ssh_known_hosts".into()])
    }

    /// A file; nothing if there is none.
    ///
    /// # Errors
    /// When it cannot be read, or is larger than 1 MiB.
    pub fn load(path: &Path) -> Result<Self, TrustError> {
        Ok(Self::parse(&KeptFile::named(path.to_owned()).read_lossy()?))
    }

    /// Whether the host at this address has the key.
    #[must_use]
    pub fn knows(&self, addr: IpAddr, key: &PublicKey) -> bool {
        let (addr, mut hosts) = (addr.to_canonical(), self.hosts.iter());
        // Hashes are computed for lines with this key alone: a loop asks.
        !self.is_revoked(key) && hosts.any(|(hosts, of)| of == key && names(hosts, addr))
    }

    /// The keys of an address, also those that are revoked.
    pub fn keys_of(&self, addr: IpAddr) -> impl Iterator<Item = PublicKey> {
        let addr = addr.to_canonical();
        let hosts = self.hosts.iter().filter(move |(hosts, _)| names(hosts, addr));
        hosts.map(|(_, key)| *key)
    }

    /// Whether nobody is to be believed by this key.
    #[must_use]
    pub fn is_revoked(&self, key: &PublicKey) -> bool {
        self.revoked.contains(key)
    }
}

fn names(hosts: &HostPatterns, addr: IpAddr) -> bool {
    match hosts {
        HostPatterns::Patterns(names) => names.iter().any(|name| name.parse() == Ok(addr)),
        HostPatterns::HashedName { salt, hash } => {
            let key = hmac::Key::new(HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
            hmac::verify(&key, addr.to_string().as_bytes(), hash).is_ok()
        }
    }
}
