//! Keeping what is known about peers over the end of the stack.

use super::{Entry, FallbackReason, Key, PeerCache, PeerRecord, Peers, insert};
use crate::log;
use crate::stack::Stack;
use crate::timers::Timer;
use manypath_control::runtime;
use manypath_engine::Instant;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tracing::debug;

/// How long changes are collected before they are written.
const SAVE_AFTER: Duration = Duration::from_millis(200);

/// Where the stack keeps what it knows, and whether that is about to be written.
#[derive(Debug)]
pub(crate) struct Memory {
    cache: Option<PeerCache>,
    namespace: u64,
    planned: bool,
}

impl Memory {
    pub(crate) fn new(cache: Option<PeerCache>) -> Self {
        let namespace = runtime::network_namespace().unwrap_or_default();
        Self { cache, namespace, planned: false }
    }
}

impl Stack {
    /// Takes over what earlier stacks have learnt in this network.
    pub(crate) fn recall_peers(&mut self) {
        let Some(cache) = self.memory.cache.as_ref().filter(|_| self.config.peer_cache) else {
            return;
        };
        match cache.read() {
            Ok(records) => {
                let here = |record: &PeerRecord| record.namespace == self.memory.namespace;
                let (now, peers) = (self.now, &mut self.peers);
                records.iter().filter(|r| here(r)).for_each(|record| peers.recall(now, record));
            }
            Err(error) => self.cannot_keep(&error.path, &error.error),
        }
    }

    /// Sees to it that what has been learnt is written soon.
    pub(crate) fn plan_saving(&mut self) {
        if !self.memory.planned && self.peers.is_unsaved() {
            self.memory.planned = true;
            self.timers.set(self.now + SAVE_AFTER, Timer::SavePeers);
        }
    }

    /// Writes what has been learnt since the last time.
    pub(crate) fn save_peers(&mut self) {
        self.memory.planned = false;
        let records = self.peers.take_unsaved(self.now, self.memory.namespace);
        let Some(cache) = self.memory.cache.as_ref().filter(|_| self.config.peer_cache) else {
            return;
        };
        if records.is_empty() {
            return;
        }
        if let Err(error) = cache.put(records) {
            self.cannot_keep(&error.path, &error.error);
        }
    }

    /// Once is enough to say it.
    fn cannot_keep(&mut self, path: &std::path::Path, error: &std::io::Error) {
        self.counters.count("peer_cache_failures");
        let path = path.display();
        debug!(target: log::PEERS, "what is learnt about peers is not kept: {path}: {error}");
        self.memory.cache = None;
    }
}

impl Peers {
    fn is_unsaved(&self) -> bool {
        !self.unsaved.is_empty()
    }

    fn take_unsaved(&mut self, now: Instant, namespace: u64) -> Vec<PeerRecord> {
        let unsaved = std::mem::take(&mut self.unsaved);
        let unix_now = super::cache::unix_now();
        let record =
            |((addr, port), (reason, expires)): (Key, (Option<FallbackReason>, Instant))| {
                let expires = unix_now + expires.since(now).as_secs();
                PeerRecord { addr, port, reason, expires, namespace }
            };
        unsaved.into_iter().map(record).collect()
    }

    /// No entry counts longer than one that is learnt now: clocks are set, and lifetimes change.
    fn recall(&mut self, now: Instant, record: &PeerRecord) {
        let (addr, remaining) = (record.addr, record.remaining());
        let plain = now + remaining.min(self.lifetimes.plain);
        match (record.port, record.reason) {
            (None, Some(reason)) => self.recall_peer(now, addr, reason, plain),
            (Some(port), Some(reason)) => {
                let entry = Entry { reason, expires: plain };
                insert(&mut self.services, now, SocketAddr::new(addr, port), entry);
            }
            (Some(port), None) => {
                let expires = now + remaining.min(self.lifetimes.carried);
                self.carried.insert(SocketAddr::new(addr, port), expires);
            }
            (None, None) => {}
        }
    }

    fn recall_peer(
        &mut self,
        now: Instant,
        addr: IpAddr,
        reason: FallbackReason,
        expires: Instant,
    ) {
        insert(&mut self.peers, now, addr, Entry { reason, expires });
    }
}
