//! What is known about peers and their services, so that the next connection does not wait for the
//! same answer again.
//!
//! What could not be used goes on as plain TCP at once, for a while. What was carried is trusted to
//! answer: plain TCP is not tried beside it. Both end by themselves, and whatever a connection finds
//! out takes the place of what was known.

mod cache;
mod saving;

pub use cache::{PeerCache, PeerRecord};
pub(crate) use saving::Memory;

use manypath_control::status::{FallbackReason, PeerStatus};
use manypath_engine::Instant;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Most peers, and most services of either kind, that are remembered.
const MAX_ENTRIES: usize = 4096;

/// A peer, or one of its services.
type Key = (IpAddr, Option<u16>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    reason: FallbackReason,
    expires: Instant,
}

/// How long knowledge counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lifetimes {
    /// That plain TCP has to be used.
    pub(crate) plain: Duration,
    /// That connections are carried.
    pub(crate) carried: Duration,
}

/// Peers without SCTP, services that peers do not allow, and services that were reached; each until
/// its time is over.
#[derive(Debug)]
pub(crate) struct Peers {
    lifetimes: Lifetimes,
    peers: BTreeMap<IpAddr, Entry>,
    services: BTreeMap<SocketAddr, Entry>,
    carried: BTreeMap<SocketAddr, Instant>,
    /// Peers that speak SCTP without manypath. Only known here: it costs one round trip to find out.
    natives: BTreeMap<IpAddr, Instant>,
    /// What has changed since it was last saved: the new reason if there is one, and the end.
    unsaved: BTreeMap<Key, (Option<FallbackReason>, Instant)>,
}

impl Peers {
    pub(crate) const fn new(lifetimes: Lifetimes) -> Self {
        Self {
            lifetimes,
            peers: BTreeMap::new(),
            services: BTreeMap::new(),
            carried: BTreeMap::new(),
            natives: BTreeMap::new(),
            unsaved: BTreeMap::new(),
        }
    }

    /// How long what is learnt from now on counts.
    pub(crate) fn set_lifetimes(&mut self, lifetimes: Lifetimes) {
        self.lifetimes = lifetimes;
    }

    /// Why `destination` should not be tried now, if so.
    pub(crate) fn lookup(&self, now: Instant, destination: SocketAddr) -> Option<FallbackReason> {
        let peer = self.peers.get(&destination.ip());
        let service = || self.services.get(&destination);
        peer.filter(|entry| entry.expires > now)
            .or_else(|| service().filter(|entry| entry.expires > now))
            .map(|entry| entry.reason)
    }

    /// Why no association with `peer` should be tried now, if so.
    pub(crate) fn lookup_peer(&self, now: Instant, peer: IpAddr) -> Option<FallbackReason> {
        let entry = self.peers.get(&peer).filter(|entry| entry.expires > now)?;
        Some(entry.reason)
    }

    /// Nothing of what has been learnt is to be kept on disk.
    pub(crate) fn forget_unsaved(&mut self) {
        self.unsaved.clear();
    }

    /// For how long plain TCP is all that `destination` has, if so.
    pub(crate) fn plain_for(&self, now: Instant, destination: SocketAddr) -> Option<Duration> {
        let known = [self.peers.get(&destination.ip()), self.services.get(&destination)];
        let ends = known.into_iter().flatten().map(|entry| entry.expires);
        ends.max().map(|end| end.since(now)).filter(|left| !left.is_zero())
    }

    /// Whether connections to `destination` were carried lately.
    pub(crate) fn is_carried(&self, now: Instant, destination: SocketAddr) -> bool {
        self.carried.get(&destination).is_some_and(|expires| *expires > now)
    }

    /// Remembers that no association with `peer` came about.
    pub(crate) fn remember_peer(&mut self, now: Instant, peer: IpAddr, reason: FallbackReason) {
        let entry = Entry { reason, expires: now + self.lifetimes.plain };
        insert(&mut self.peers, now, peer, entry);
        self.unsaved.insert((peer, None), (Some(reason), entry.expires));
        let services = self.carried.keys().filter(|service| service.ip() == peer).copied();
        for service in services.collect::<Vec<_>>() {
            self.distrust(now, service);
        }
    }

    /// Remembers that `peer` speaks SCTP, but not with manypath's port and form.
    pub(crate) fn remember_native(&mut self, now: Instant, peer: IpAddr) {
        if self.natives.len() >= MAX_ENTRIES && !self.natives.contains_key(&peer) {
            self.natives.pop_first();
        }
        self.natives.insert(peer, now + self.lifetimes.plain);
    }

    /// Whether `peer` speaks SCTP without manypath.
    pub(crate) fn is_native(&self, now: Instant, peer: IpAddr) -> bool {
        self.natives.get(&peer).is_some_and(|expires| *expires > now)
    }

    /// Remembers that the peer does not carry flows to `service`.
    pub(crate) fn remember_service(
        &mut self,
        now: Instant,
        service: SocketAddr,
        reason: FallbackReason,
    ) {
        let entry = Entry { reason, expires: now + self.lifetimes.plain };
        self.carried.remove(&service);
        insert(&mut self.services, now, service, entry);
        self.unsaved.insert(key(service), (Some(reason), entry.expires));
    }

    /// Remembers that a connection to `service` was carried.
    pub(crate) fn remember_carried(&mut self, now: Instant, service: SocketAddr) {
        let expires = now + self.lifetimes.carried;
        self.services.remove(&service);
        if self.carried.len() >= MAX_ENTRIES && !self.carried.contains_key(&service) {
            self.carried.pop_first();
        }
        self.carried.insert(service, expires);
        self.unsaved.insert(key(service), (None, expires));
    }

    /// The peer has answered after all. What its services refused stays.
    pub(crate) fn forget_peer(&mut self, now: Instant, peer: IpAddr) {
        self.natives.remove(&peer);
        if self.peers.remove(&peer).is_some() {
            self.unsaved.insert((peer, None), (None, now));
        }
    }

    /// Forgets what is known about a peer, a service, or everything; says how much that was. What
    /// was kept on disk is the caller's.
    pub(crate) fn flush(&mut self, peer: Option<IpAddr>, port: Option<u16>) -> usize {
        let before = self.peers.len() + self.services.len() + self.carried.len();
        let gone = |addr: IpAddr, of: Option<u16>| {
            peer.is_none_or(|peer| peer == addr) && (port.is_none() || port == of)
        };
        self.peers.retain(|addr, _| !gone(*addr, None));
        self.natives.retain(|addr, _| !gone(*addr, None));
        self.services.retain(|service, _| !gone(service.ip(), Some(service.port())));
        self.carried.retain(|service, _| !gone(service.ip(), Some(service.port())));
        self.unsaved.retain(|(addr, of), _| !gone(*addr, *of));
        before - self.peers.len() - self.services.len() - self.carried.len()
    }

    /// The entries that lead to plain TCP, for people and tools.
    pub(crate) fn status(&self, now: Instant) -> Vec<PeerStatus> {
        let peers = self.peers.iter().map(|(addr, entry)| (*addr, None, entry));
        let services =
            self.services.iter().map(|(addr, entry)| (addr.ip(), Some(addr.port()), entry));
        peers
            .chain(services)
            .filter_map(|(addr, port, entry)| status_of(now, addr, port, entry))
            .collect()
    }

    fn distrust(&mut self, now: Instant, service: SocketAddr) {
        self.carried.remove(&service);
        self.unsaved.insert(key(service), (None, now));
    }
}

fn key(service: SocketAddr) -> Key {
    (service.ip(), Some(service.port()))
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
    const LIFETIMES: Lifetimes = Lifetimes { plain: MINUTE, carried: Duration::from_secs(600) };

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_silent_peer_is_remembered_for_all_its_services_until_the_time_is_over() {
        let (now, mut peers) = (Instant::ZERO, Peers::new(LIFETIMES));
        peers.remember_peer(now, addr("192.0.2.1:0").ip(), FallbackReason::Silent);
        assert_eq!(peers.lookup(now, addr("192.0.2.1:22")), Some(FallbackReason::Silent));
        assert_eq!(peers.lookup(now, addr("192.0.2.2:22")), None);
        assert_eq!(peers.lookup(now + MINUTE, addr("192.0.2.1:22")), None);
        assert_eq!(peers.status(now).len(), 1);
        assert_eq!(peers.status(now + MINUTE).len(), 0);
    }

    #[test]
    fn an_answer_clears_the_peer_but_not_what_its_services_refused() {
        let (now, mut peers) = (Instant::ZERO, Peers::new(LIFETIMES));
        peers.remember_peer(now, addr("192.0.2.1:0").ip(), FallbackReason::Silent);
        peers.remember_service(now, addr("192.0.2.1:80"), FallbackReason::NotAllowed);
        peers.forget_peer(now, addr("192.0.2.1:0").ip());
        assert_eq!(peers.lookup(now, addr("192.0.2.1:22")), None);
        assert_eq!(peers.lookup(now, addr("192.0.2.1:80")), Some(FallbackReason::NotAllowed));
    }

    #[test]
    fn what_was_carried_is_trusted_until_it_fails() {
        let (now, mut peers) = (Instant::ZERO, Peers::new(LIFETIMES));
        let service = addr("192.0.2.1:22");
        peers.remember_service(now, service, FallbackReason::NotAllowed);
        peers.remember_carried(now, service);
        assert_eq!((peers.lookup(now, service), peers.is_carried(now, service)), (None, true));
        assert!(!peers.is_carried(now + 10 * MINUTE, service));
        peers.remember_peer(now, service.ip(), FallbackReason::Silent);
        assert!(!peers.is_carried(now, service));
    }

    #[test]
    fn flushing_is_for_all_a_peer_or_a_service() {
        let now = Instant::ZERO;
        let filled = || {
            let mut peers = Peers::new(LIFETIMES);
            peers.remember_carried(now, addr("192.0.2.1:22"));
            peers.remember_service(now, addr("192.0.2.1:80"), FallbackReason::NotAllowed);
            peers.remember_peer(now, addr("192.0.2.2:0").ip(), FallbackReason::Silent);
            peers
        };
        assert_eq!(filled().flush(None, None), 3);
        assert_eq!(filled().flush(Some(addr("192.0.2.1:0").ip()), None), 2);
        assert_eq!(filled().flush(Some(addr("192.0.2.1:0").ip()), Some(80)), 1);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_entry_goes_first() {
        let (now, mut peers) = (Instant::ZERO, Peers::new(LIFETIMES));
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
