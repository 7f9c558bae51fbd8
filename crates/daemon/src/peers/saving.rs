//! Keeping what is known about peers over the end of the stack.

use super::{Entry, FallbackReason, Key, MAX_ENTRIES, MOST_LONGER, Peers, Unsaved, insert};
use crate::core::Core;
use crate::files::peer_cache::{Job, PeerCache, PeerRecord, Writer, unix_now};
use crate::keeper::Keeper;
use crate::log;
use crate::privileged::Acceptor;
use crate::timers::Timer;
use manypath_control::runtime;
use manypath_engine::Instant;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tracing::debug;

/// How long changes are collected before they are written.
const SAVE_AFTER: Duration = Duration::from_millis(200);
/// How long after what could not be written is tried again.
const SAVE_AGAIN: Duration = Duration::from_secs(2);
/// How often, and after which time, the end tries again.
const LAST_TRIES: usize = 4;
const LAST_TRY: Duration = Duration::from_millis(100);

/// Where the stack keeps what it knows, and whether that is about to be written.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    cache: Option<PeerCache>,
    /// Begun with the first thing to write.
    writer: Option<Writer>,
    namespace: u64,
    planned: bool,
    /// Whether the last thing could not be kept.
    failing: bool,
}

impl Memory {
    pub(crate) fn new(cache: Option<PeerCache>) -> Self {
        let namespace = runtime::network_namespace().unwrap_or_default();
        Self { cache, namespace, ..Self::default() }
    }

    /// Whether there was room for it; or why it, or what came before it, is not kept.
    fn hand_over(&mut self, job: Job) -> Result<bool, String> {
        let Some(cache) = &self.cache else { return Ok(true) };
        if let Some(keeper) = Keeper::current() {
            return keeper.save(job).map_err(|error| error.to_string());
        }
        if self.writer.is_none() {
            self.writer = Some(Writer::start(cache.clone()).map_err(|error| error.to_string())?);
        }
        self.writer.as_ref().map_or(Ok(true), |writer| writer.take(job))
    }
}

impl Peers {
    /// Takes over what earlier stacks have learnt in this network.
    pub(crate) fn recall_kept(&mut self, core: &mut Core) {
        let Some(cache) = self.memory.cache.as_ref().filter(|_| core.config.carrying.peer_cache)
        else {
            return;
        };
        match cache.read() {
            Ok(records) => {
                let here = self.memory.namespace;
                let of_here = records.iter().filter(|record| record.namespace == here);
                of_here.for_each(|record| self.recall(core.now, record));
            }
            Err(error) => {
                self.cannot_keep(core, &format!("{}: {}", error.path.display(), error.error))
            }
        }
    }

    /// Sees to it that what has been learnt is written soon.
    pub(crate) fn plan_saving(&mut self, core: &mut Core) {
        if !self.memory.planned && self.is_unsaved() {
            self.memory.planned = true;
            core.after(SAVE_AFTER, Timer::SavePeers);
        }
    }

    /// Lets what has been learnt since the last time be written; what is not taken waits for another time.
    pub(crate) fn save(&mut self, core: &mut Core) {
        self.memory.planned = false;
        let unsaved = self.take_unsaved();
        if unsaved.is_empty() || !core.config.carrying.peer_cache {
            return;
        }
        let records = self.records(core.now, &unsaved, self.memory.namespace);
        if !self.write(core, Job::Put(records)) {
            self.keep_unsaved(unsaved);
            self.memory.planned = true;
            core.after(SAVE_AGAIN, Timer::SavePeers);
        }
    }

    /// Lets what is kept about a peer, a service, or everything be forgotten, too.
    pub(crate) fn forget_kept(&mut self, core: &mut Core, addr: Option<IpAddr>, port: Option<u16>) {
        self.write(core, Job::Forget(addr, port));
    }

    /// Waits a moment for what was to be written.
    pub(crate) fn finish_saving(&mut self, core: &mut Core) {
        for _ in 0..LAST_TRIES {
            self.save(core);
            if !self.is_unsaved() {
                break;
            }
            std::thread::sleep(LAST_TRY);
        }
        drop(self.memory.writer.take());
    }

    /// Whether it was taken to be written.
    fn write(&mut self, core: &mut Core, job: Job) -> bool {
        match self.memory.hand_over(job) {
            Ok(true) => {
                self.memory.failing = false;
                return true;
            }
            Ok(false) => core.count("peer_cache_overruns"),
            Err(why) => self.cannot_keep(core, &why),
        }
        false
    }

    /// Said once, until something is kept again.
    fn cannot_keep(&mut self, core: &mut Core, why: &str) {
        core.count("peer_cache_failures");
        if !std::mem::replace(&mut self.memory.failing, true) {
            debug!(target: log::PEERS, "what is learnt about peers is not kept: {why}");
        }
    }

    fn is_unsaved(&self) -> bool {
        !self.unsaved.is_empty()
    }

    fn take_unsaved(&mut self) -> Unsaved {
        let mut unsaved = std::mem::take(&mut self.unsaved);
        // What a relay's port has answered says nothing of its host.
        unsaved.retain(|(_, _, acceptor), _| !matches!(acceptor, Acceptor::At(_)));
        unsaved
    }

    /// Takes back what could not be written, as far as there is room and nothing newer is known.
    fn keep_unsaved(&mut self, unsaved: Unsaved) {
        let room = MAX_ENTRIES.saturating_sub(self.unsaved.len());
        for (key, change) in unsaved.into_iter().take(room) {
            self.unsaved.entry(key).or_insert(change);
        }
    }

    fn records(&self, now: Instant, unsaved: &Unsaved, namespace: u64) -> Vec<PeerRecord> {
        let unix_now = unix_now();
        let network = self.network;
        let lifetime = |key: &Key| match key {
            (addr, None, acceptor) => {
                self.peers.get(&(*addr, *acceptor)).map(|entry| entry.lifetime)
            }
            (_, Some(_), _) => None,
        };
        let record = |(key, change): (&Key, &(Option<FallbackReason>, Instant))| {
            let ((addr, port, acceptor), (reason, expires)) = (*key, *change);
            let expires = unix_now + expires.since(now).as_secs();
            let privileged = acceptor == Acceptor::Privileged;
            let lifetime =
                lifetime(&(addr, port, acceptor)).map_or(0, |lifetime| lifetime.as_secs());
            PeerRecord { addr, port, privileged, reason, expires, lifetime, namespace, network }
        };
        unsaved.iter().map(record).collect()
    }

    /// No entry counts longer than one that is learnt now: clocks are set, and lifetimes change.
    fn recall(&mut self, now: Instant, record: &PeerRecord) {
        let (addr, remaining) = (record.addr, record.remaining());
        let learnt = self.lifetimes.plain.max(Duration::from_secs(record.lifetime));
        let lifetime = learnt.min(self.lifetimes.plain * MOST_LONGER);
        let plain = now + remaining.min(lifetime);
        let network = record.network;
        match (record.port, record.reason) {
            (None, Some(reason)) => {
                let acceptor = match record.privileged {
                    true => Acceptor::Privileged,
                    false => Acceptor::Anyone,
                };
                insert(
                    &mut self.peers,
                    now,
                    (addr, acceptor),
                    Entry { reason, expires: plain, lifetime, network },
                );
            }
            (Some(port), Some(reason)) => {
                let entry = Entry { reason, expires: plain, lifetime, network };
                insert(&mut self.services, now, SocketAddr::new(addr, port), entry);
            }
            (Some(port), None) => {
                let expires = now + remaining.min(self.lifetimes.carried);
                insert(&mut self.carried, now, SocketAddr::new(addr, port), expires);
            }
            (None, None) => {}
        }
    }
}
