//! What is known about peers, kept over restarts: one JSON object in a line.
//!
//! It is only a memory: lines that cannot be read are dropped, entries end by themselves, and what
//! is wrong is found out by the next connection. Addresses mean something in one network only, so
//! entries of other network namespaces are left alone.

mod writer;

pub(crate) use writer::{Job, Writer};

use manypath_control::status::FallbackReason;
use manypath_rules::{KeptFile, KeptFileError};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Most entries that are kept; those that end first go first.
const MAX_RECORDS: usize = 8192;

/// What is known about a peer or about one of its services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerRecord {
    /// The peer.
    pub addr: IpAddr,
    /// The service; absent for the peer as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Whether it is about who answers for ports below 1024 of the peer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub privileged: bool,
    /// Why plain TCP is used; absent when connections are carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<FallbackReason>,
    /// When the entry ends, in seconds since 1970.
    pub expires: u64,
    /// How long it counted when it was learnt, in seconds; 0 stands for as long as the settings say.
    #[serde(default)]
    pub lifetime: u64,
    /// The networks in which the host was then, as a number.
    #[serde(default)]
    pub network: u64,
    /// The network namespace in which it was learnt.
    pub namespace: u64,
}

/// The file: `$MANYPATH_PEERS`, the user's or the host's `peers` among the caches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCache(KeptFile);

impl PeerRecord {
    /// How long it still counts.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        Duration::from_secs(self.expires.saturating_sub(unix_now()))
    }

    /// Whether it is about this peer and this service, as far as they are named.
    #[must_use]
    pub fn is_of(&self, addr: Option<IpAddr>, port: Option<u16>) -> bool {
        addr.is_none_or(|addr| addr == self.addr) && (port.is_none() || port == self.port)
    }

    fn is_about(&self, other: &Self) -> bool {
        let key = |one: &Self| (one.addr, one.port, one.privileged, one.namespace);
        key(self) == key(other)
    }
}

impl PeerCache {
    /// The caller's usual cache.
    #[must_use]
    pub fn usual() -> Self {
        Self(KeptFile::cache("peers", "MANYPATH_PEERS"))
    }

    /// A cache at a place of one's own.
    #[must_use]
    pub fn named(path: PathBuf) -> Self {
        Self(KeptFile::named(path).without_sync())
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The entries that count, of all namespaces.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(&self) -> Result<Vec<PeerRecord>, KeptFileError> {
        self.0.read().map(|text| parse(&text))
    }

    /// Changes the entries; nobody's change is lost.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<PeerRecord>) -> T,
    ) -> Result<T, KeptFileError> {
        self.0.edit(|text| {
            let mut records = parse(&text);
            let result = change(&mut records);
            records.sort_by_key(|record| std::cmp::Reverse(record.expires));
            records.truncate(MAX_RECORDS);
            let lines = records.iter().filter_map(|record| serde_json::to_string(record).ok());
            Ok((lines.map(|line| line + "\n").collect(), result))
        })
    }

    /// Forgets what is kept about a peer, a service, or everything.
    ///
    /// # Errors
    /// As [`PeerCache::read`]; when the file cannot be written.
    pub fn forget(&self, addr: Option<IpAddr>, port: Option<u16>) -> Result<(), KeptFileError> {
        self.change(|records| records.retain(|record| !record.is_of(addr, port)))
    }

    /// Puts entries in the place of those about the same peers and services.
    pub(crate) fn put(&self, new: Vec<PeerRecord>) -> Result<(), KeptFileError> {
        self.change(|records| {
            records.retain(|old| !new.iter().any(|record| record.is_about(old)));
            records.extend(new.into_iter().filter(|record| !record.remaining().is_zero()));
        })
    }
}

fn parse(text: &str) -> Vec<PeerRecord> {
    let records = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    records.filter(|record: &PeerRecord| !record.remaining().is_zero()).collect()
}

/// Seconds since 1970.
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(addr: &str, port: u16, ends_in: i64) -> PeerRecord {
        let expires = unix_now().saturating_add_signed(ends_in);
        let (addr, port) = (addr.parse().unwrap(), Some(port));
        PeerRecord {
            addr,
            port,
            privileged: false,
            reason: None,
            expires,
            lifetime: 0,
            network: 0,
            namespace: 7,
        }
    }

    #[test]
    fn entries_are_replaced_end_by_themselves_and_survive_nonsense() {
        let path = std::env::temp_dir().join(format!("manypath-peers-{}", std::process::id()));
        let cache = PeerCache::named(path.clone());
        cache.put(vec![record("192.0.2.1", 22, 100), record("192.0.2.1", 80, 100)]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}{{\"addr\": 5}}\nnonsense\n")).unwrap();
        // One is told to end, one is renewed.
        cache.put(vec![record("192.0.2.1", 22, -1), record("192.0.2.1", 80, 200)]).unwrap();
        let left = cache.read().unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].port, Some(80));
        assert!(left[0].remaining() > Duration::from_secs(150));
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(path.with_extension("lock")).unwrap();
    }
}
