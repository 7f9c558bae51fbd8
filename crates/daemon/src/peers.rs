//! What is remembered about peers that could not be used, so that the next connection does not
//! wait for the same answer again.

use manypath_control::status::{FallbackReason, PeerStatus};
use manypath_engine::Instant;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Most peers, and most services, that are remembered.
const MAX_ENTRIES: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Entry {
    reason: FallbackReason,
    expires: Instant,
}

/// Peers without SCTP and services that peers do not allow, each until its time is over.
#[derive(Debug)]
pub(crate) struct Peers {
    lifetime: Duration,
    peers: BTreeMap<IpAddr, Entry>,
    services: BTreeMap<SocketAddr, Entry>,
}

impl Peers {
    pub(crate) const fn new(lifetime: Duration) -> Self {
        Self { lifetime, peers: BTreeMap::new(), services: BTreeMap::new() }
    }

    /// How long what is remembered from now on counts.
    pub(crate) fn set_lifetime(&mut self, lifetime: Duration) {
        self.lifetime = lifetime;
    }

    /// Why `destination` should not be tried now, if so.
    pub(crate) fn lookup(&self, now: Instant, destination: SocketAddr) -> Option<FallbackReason> {
        let peer = self.peers.get(&destination.ip());
        let service = || self.services.get(&destination);
        peer.filter(|entry| entry.expires > now)
            .or_else(|| service().filter(|entry| entry.expires > now))
            .map(|entry| entry.reason)
    }

    /// Remembers that no association with `peer` came about.
    pub(crate) fn remember_peer(&mut self, now: Instant, peer: IpAddr, reason: FallbackReason) {
        insert(&mut self.peers, now, peer, Entry { reason, expires: now + self.lifetime });
    }

    /// Remembers that the peer does not carry flows to `service`.
    pub(crate) fn remember_service(
        &mut self,
        now: Instant,
        service: SocketAddr,
        reason: FallbackReason,
    ) {
        insert(&mut self.services, now, service, Entry { reason, expires: now + self.lifetime });
    }

    /// The peer has answered after all. What its services refused stays.
    pub(crate) fn forget_peer(&mut self, peer: IpAddr) {
        self.peers.remove(&peer);
    }

    /// The entries that count, for people and tools.
    pub(crate) fn status(&self, now: Instant) -> Vec<PeerStatus> {
        let peers = self.peers.iter().map(|(addr, entry)| (*addr, None, entry));
        let services =
            self.services.iter().map(|(addr, entry)| (addr.ip(), Some(addr.port()), entry));
        peers
            .chain(services)
            .filter_map(|(addr, port, entry)| status_of(now, addr, port, entry))
            .collect()
    }
}

fn insert<K: Ord + Copy>(map: &mut BTreeMap<K, Entry>, now: Instant, key: K, entry: Entry) {
    if map.len() >= MAX_ENTRIES && !map.contains_key(&key) {
        map.retain(|_, entry| entry.expires > now);
        let first = map.iter().min_by_key(|(_, entry)| entry.expires).map(|(key, _)| *key);
        if let Some(first) = first.filter(|_| map.len() >= MAX_ENTRIES) {
            map.remove(&first);
        }
    }
    map.insert(key, entry);
}

fn status_of(now: Instant, addr: IpAddr, port: Option<u16>, entry: &Entry) -> Option<PeerStatus> {
    let left = entry.expires.since(now);
    if left.is_zero() {
        return None;
    }
    let expires_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    Some(PeerStatus { addr, port, reason: entry.reason, expires_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_silent_peer_is_remembered_for_all_its_services_until_the_time_is_over() {
        let (now, mut peers) = (Instant::ZERO, Peers::new(MINUTE));
        peers.remember_peer(now, addr("192.0.2.1:0").ip(), FallbackReason::Silent);
        assert_eq!(peers.lookup(now, addr("192.0.2.1:22")), Some(FallbackReason::Silent));
        assert_eq!(peers.lookup(now, addr("192.0.2.2:22")), None);
        assert_eq!(peers.lookup(now + MINUTE, addr("192.0.2.1:22")), None);
        assert_eq!(peers.status(now).len(), 1);
        assert_eq!(peers.status(now + MINUTE).len(), 0);
    }

    #[test]
    fn an_answer_clears_the_peer_but_not_what_its_services_refused() {
        let (now, mut peers) = (Instant::ZERO, Peers::new(MINUTE));
        peers.remember_peer(now, addr("192.0.2.1:0").ip(), FallbackReason::Silent);
        peers.remember_service(now, addr("192.0.2.1:80"), FallbackReason::NotAllowed);
        peers.forget_peer(addr("192.0.2.1:0").ip());
        assert_eq!(peers.lookup(now, addr("192.0.2.1:22")), None);
        assert_eq!(peers.lookup(now, addr("192.0.2.1:80")), Some(FallbackReason::NotAllowed));
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_entry_goes_first() {
        let (now, mut peers) = (Instant::ZERO, Peers::new(MINUTE));
        for index in 0..=u32::try_from(MAX_ENTRIES).unwrap() {
            let at = now + Duration::from_millis(index.into());
            peers.remember_peer(
                at,
                IpAddr::V4((0x0a00_0000 + index).into()),
                FallbackReason::Silent,
            );
        }
        assert_eq!(peers.peers.len(), MAX_ENTRIES);
        assert_eq!(peers.lookup(now, addr("10.0.0.0:1")), None);
        assert!(peers.lookup(now, addr("10.0.0.1:1")).is_some());
    }
}
