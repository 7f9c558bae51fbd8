//! What is known about peers and their services, so that the next connection does not wait for the
//! same answer again.
//!
//! What could not be used goes on as plain TCP at once, for a while, and so does what is so near that SCTP
//! has nothing to gain. What was carried is trusted to
//! answer: plain TCP is not tried beside it. Both end by themselves, and whatever a connection finds
//! out takes the place of what was known.

mod saving;

use saving::Memory;

use crate::core::Core;
use crate::files::peer_cache::PeerCache;
use crate::privileged::Acceptor;
use manypath_control::status::{FallbackReason, PeerStatus};
use manypath_engine::Instant;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Most peers, and most services of either kind, that are remembered.
const MAX_ENTRIES: usize = 4096;

/// A peer, as one or the other acceptor of it.
type Peer = (IpAddr, Acceptor);
/// A peer, or one of its services.
type Key = (IpAddr, Option<u16>, Acceptor);

/// Changes by whom they concern.
type Unsaved = BTreeMap<Key, (Option<FallbackReason>, Instant)>;

#[derive(Clone, Copy, Debug)]
struct Entry {
    reason: FallbackReason,
    expires: Instant,
    /// How long it counted when it was learnt.
    lifetime: Duration,
    /// The network in which it was learnt.
    network: u64,
}

/// What is found out again and again counts at most so many times as long as the setting says: an hour.
const MOST_LONGER: u32 = 60;
/// How much longer it counts each time.
const LONGER: u32 = 4;

/// That a service is carried is noted again when so much of its time, the part of one of these, has gone.
const PARTS: u32 = 16;

/// The reason kept for a peer that speaks SCTP and is too near for it to pay.
const NEAR: FallbackReason = FallbackReason::NothingToGain;

impl Entry {
    fn is_near(&self) -> bool {
        self.reason == NEAR
    }
}

/// How long knowledge counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lifetimes {
    /// That plain TCP has to be used.
    pub(crate) plain: Duration,
    /// That connections are carried.
    pub(crate) carried: Duration,
}

/// Peers without SCTP, services that peers do not allow, and services that were reached; each until
/// its time is over.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    lifetimes: Lifetimes,
    /// The networks that this host is in now. Another uplink may lead to another answer, or through another firewall.
    network: u64,
    peers: BTreeMap<Peer, Entry>,
    services: BTreeMap<SocketAddr, Entry>,
    carried: BTreeMap<SocketAddr, Instant>,
    /// Peers that speak SCTP without manypath. Only known here: it costs one round trip to find out.
    natives: BTreeMap<Peer, Instant>,
    memory: Memory,
    /// What has changed since it was last saved: the new reason if there is one, and the end.
    unsaved: Unsaved,
}

impl Peers {
    pub(crate) fn new(lifetimes: Lifetimes, cache: Option<PeerCache>) -> Self {
        Self { lifetimes, memory: Memory::new(cache), ..Self::default() }
    }

    /// The host is in other networks now: what was learnt in others does not count.
    pub(crate) const fn set_network(&mut self, network: u64) {
        self.network = network;
    }

    /// An entry for a peer or service that has just been found to need plain TCP: longer than the one before it, if that
    /// was over.
    fn renewed(&self, now: Instant, reason: FallbackReason, before: Option<&Entry>) -> Entry {
        let before = before.filter(|entry| !entry.is_near() && entry.network == self.network);
        let longest = self.lifetimes.plain * MOST_LONGER;
        let lifetime = before.map_or(self.lifetimes.plain, |entry| match entry.expires > now {
            true => entry.lifetime,
            false => (entry.lifetime * LONGER).min(longest),
        });
        let lifetime = lifetime.min(longest);
        Entry { reason, expires: now + lifetime, lifetime, network: self.network }
    }

    fn entry(&self, now: Instant, reason: FallbackReason) -> Entry {
        self.renewed(now, reason, None)
    }

    /// How long what is learnt from now on counts.
    pub(crate) fn set_lifetimes(&mut self, lifetimes: Lifetimes) {
        self.lifetimes = lifetimes;
    }

    /// Why `destination` should not be tried now, if so. [`is_near`](Self::is_near) is another question.
    pub(crate) fn lookup(
        &self,
        now: Instant,
        destination: SocketAddr,
        acceptor: Acceptor,
    ) -> Option<FallbackReason> {
        let service = || self.services.get(&destination).filter(|entry| entry.expires > now);
        let peer = self.lookup_peer(now, destination.ip(), acceptor);
        peer.or_else(|| service().map(|entry| entry.reason))
    }

    /// Why no association with `peer` should be tried now, if so.
    pub(crate) fn lookup_peer(
        &self,
        now: Instant,
        peer: IpAddr,
        acceptor: Acceptor,
    ) -> Option<FallbackReason> {
        let entry = self.peers.get(&(peer, acceptor)).filter(|entry| entry.network == self.network);
        Some(entry.filter(|entry| entry.expires > now && !entry.is_near())?.reason)
    }

    /// Whether a single short path leads to `peer`.
    pub(crate) fn is_near(&self, now: Instant, peer: IpAddr) -> bool {
        let entry = self.peers.get(&(peer, Acceptor::Anyone));
        entry.is_some_and(|entry| entry.expires > now && entry.is_near())
    }

    /// Remembers that a single short path leads to `peer`. False if that has been known for less than
    /// half of its time: nothing has to be kept then.
    pub(crate) fn remember_near(&mut self, now: Instant, peer: IpAddr) -> bool {
        let entry = self.entry(now, NEAR);
        let known = self.peers.get(&(peer, Acceptor::Anyone)).filter(|known| known.is_near());
        if known.is_some_and(|known| known.expires > now + self.lifetimes.plain / 2) {
            return false;
        }
        insert(&mut self.peers, now, (peer, Acceptor::Anyone), entry);
        self.unsaved.insert((peer, None, Acceptor::Anyone), (Some(NEAR), entry.expires));
        true
    }

    /// More than a single short path leads to `peer`, or may lead to any peer. Says whether anything was
    /// forgotten.
    pub(crate) fn forget_near(&mut self, now: Instant, peer: Option<IpAddr>) -> bool {
        let before = self.peers.len();
        self.peers.retain(|(addr, acceptor), entry| {
            let stays = !entry.is_near() || peer.is_some_and(|peer| peer != *addr);
            if !stays {
                self.unsaved.insert((*addr, None, *acceptor), (None, now));
            }
            stays
        });
        self.peers.len() < before
    }

    /// The same; what the kernel was told of plain TCP holds no longer.
    pub(crate) fn forget_near_and_tell(&mut self, core: &mut Core, peer: Option<IpAddr>) {
        if self.forget_near(core.now, peer) {
            core.control.tell_redirectors();
        }
    }

    /// Nothing of what has been learnt is to be kept on disk.
    pub(crate) fn forget_unsaved(&mut self) {
        self.unsaved.clear();
    }

    /// For how long plain TCP is all that `destination` has, if so, or with `near` the best that it has.
    pub(crate) fn plain_for(
        &self,
        now: Instant,
        destination: SocketAddr,
        acceptor: Acceptor,
        near: bool,
    ) -> Option<Duration> {
        let peer = |acceptor| self.peers.get(&(destination.ip(), acceptor));
        let route = peer(Acceptor::Anyone).filter(|entry| entry.is_near());
        let known = [peer(acceptor), route, self.services.get(&destination)];
        let here = |entry: &&Entry| entry.network == self.network;
        let counts = |entry: &&Entry| if entry.is_near() { near } else { here(entry) };
        let ends = known.into_iter().flatten().filter(counts).map(|entry| entry.expires);
        ends.max().map(|end| end.since(now)).filter(|left| !left.is_zero())
    }

    /// Whether connections to `destination` were carried lately.
    pub(crate) fn is_carried(&self, now: Instant, destination: SocketAddr) -> bool {
        self.carried.get(&destination).is_some_and(|expires| *expires > now)
    }

    /// Remembers that no association with `peer` came about.
    pub(crate) fn remember_peer(
        &mut self,
        now: Instant,
        peer: IpAddr,
        acceptor: Acceptor,
        reason: FallbackReason,
    ) {
        let entry = self.renewed(now, reason, self.peers.get(&(peer, acceptor)));
        insert(&mut self.peers, now, (peer, acceptor), entry);
        self.unsaved.insert((peer, None, acceptor), (Some(reason), entry.expires));
        let services = self.carried.keys().filter(|service| service.ip() == peer).copied();
        for service in services.collect::<Vec<_>>() {
            self.distrust(now, service);
        }
    }

    /// Remembers that `peer` speaks SCTP, but not with manypath's port and form.
    pub(crate) fn remember_native(&mut self, now: Instant, peer: IpAddr, acceptor: Acceptor) {
        insert(&mut self.natives, now, (peer, acceptor), now + self.lifetimes.plain);
    }

    /// Whether `peer` speaks SCTP without manypath.
    pub(crate) fn is_native(&self, now: Instant, peer: IpAddr, acceptor: Acceptor) -> bool {
        self.natives.get(&(peer, acceptor)).is_some_and(|expires| *expires > now)
    }

    /// Remembers that the peer does not carry flows to `service`.
    pub(crate) fn remember_service(
        &mut self,
        now: Instant,
        service: SocketAddr,
        reason: FallbackReason,
    ) {
        let entry = self.entry(now, reason);
        self.carried.remove(&service);
        insert(&mut self.services, now, service, entry);
        self.unsaved.insert(key(service), (Some(reason), entry.expires));
    }

    /// Remembers that a connection to `service` was carried.
    pub(crate) fn remember_carried(&mut self, now: Instant, service: SocketAddr) {
        let expires = now + self.lifetimes.carried;
        let failed = self.services.remove(&service).is_some();
        // Each connection would be written to the file.
        let step = self.lifetimes.carried / PARTS;
        let is_fresh = |known: &Instant| *known <= expires && expires.since(*known) < step;
        if !failed && self.carried.get(&service).is_some_and(is_fresh) {
            return;
        }
        insert(&mut self.carried, now, service, expires);
        self.unsaved.insert(key(service), (None, expires));
    }

    /// The peer has answered after all; one that is privileged answers for all ports. What its services refused
    /// stays, and that it is near.
    pub(crate) fn forget_peer(&mut self, now: Instant, peer: IpAddr, acceptor: Acceptor) {
        let answered = |other: &Acceptor| *other == acceptor || acceptor == Acceptor::Privileged;
        for other in [Acceptor::Anyone, Acceptor::Privileged].into_iter().filter(answered) {
            let key = (peer, other);
            self.natives.remove(&key);
            if self.peers.get(&key).is_some_and(|entry| !entry.is_near()) {
                self.peers.remove(&key);
                self.unsaved.insert((peer, None, other), (None, now));
            }
        }
    }

    /// Forgets what is known about a peer, a service, or everything; says how much that was. What
    /// was kept on disk is the caller's.
    pub(crate) fn flush(&mut self, peer: Option<IpAddr>, port: Option<u16>) -> usize {
        let before = self.peers.len() + self.services.len() + self.carried.len();
        let gone = |addr: IpAddr, of: Option<u16>| {
            peer.is_none_or(|peer| peer == addr) && (port.is_none() || port == of)
        };
        self.peers.retain(|(addr, _), _| !gone(*addr, None));
        self.natives.retain(|(addr, _), _| !gone(*addr, None));
        self.services.retain(|service, _| !gone(service.ip(), Some(service.port())));
        self.carried.retain(|service, _| !gone(service.ip(), Some(service.port())));
        self.unsaved.retain(|(addr, of, _), _| !gone(*addr, *of));
        before - self.peers.len() - self.services.len() - self.carried.len()
    }

    /// The entries that lead to plain TCP, for people and tools.
    pub(crate) fn status(&self, now: Instant) -> Vec<PeerStatus> {
        let peers = self.peers.iter().map(|((addr, _), entry)| (*addr, None, entry));
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
    (service.ip(), Some(service.port()), Acceptor::Anyone)
}

/// What counts until some time.
trait Expires {
    fn expires(&self) -> Instant;
}

impl Expires for Entry {
    fn expires(&self) -> Instant {
        self.expires
    }
}

impl Expires for Instant {
    fn expires(&self) -> Instant {
        *self
    }
}

/// Puts in what was learnt, in the place of what ends first if there are too many.
fn insert<K: Ord + Copy, V: Expires>(map: &mut BTreeMap<K, V>, now: Instant, key: K, value: V) {
    if map.len() >= MAX_ENTRIES && !map.contains_key(&key) {
        map.retain(|_, value| value.expires() > now);
        let first = map.iter().min_by_key(|(_, value)| value.expires()).map(|(key, _)| *key);
        if let Some(first) = first.filter(|_| map.len() >= MAX_ENTRIES) {
            map.remove(&first);
        }
    }
    map.insert(key, value);
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

    const ANYONE: Acceptor = Acceptor::Anyone;
    const PRIVILEGED: Acceptor = Acceptor::Privileged;

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_found_out_again_counts_longer_and_in_its_network_only() {
        let (mut now, mut peers) = (Instant::ZERO, Peers::new(LIFETIMES, None));
        let (peer, service) = (addr("192.0.2.1:0").ip(), addr("192.0.2.1:22"));
        let silent = |peers: &mut Peers, now| {
            peers.remember_peer(now, peer, ANYONE, FallbackReason::Silent);
            // Many connections find out at once.
            peers.remember_peer(now, peer, ANYONE, FallbackReason::Silent);
            peers.plain_for(now, service, ANYONE, false).unwrap()
        };
        for minutes in [1, 4, 16, 60, 60] {
            let lifetime = silent(&mut peers, now);
            assert_eq!(lifetime, MINUTE * minutes);
            now = now + lifetime;
        }
        silent(&mut peers, now);
        peers.set_network(7);
        assert_eq!(peers.lookup(now, service, ANYONE), None);
        assert_eq!(silent(&mut peers, now), MINUTE);
        peers.forget_peer(now, peer, ANYONE);
        assert_eq!(silent(&mut peers, now), MINUTE);
    }

    #[test]
    fn a_silent_peer_is_remembered_for_all_its_services_until_the_time_is_over() {
        let (now, mut peers) = (Instant::ZERO, Peers::new(LIFETIMES, None));
        peers.remember_peer(now, addr("192.0.2.1:0").ip(), ANYONE, FallbackReason::Silent);
        assert_eq!(peers.lookup(now, addr("192.0.2.1:22"), ANYONE), Some(FallbackReason::Silent));
        assert_eq!(peers.lookup(now, addr("192.0.2.2:22"), ANYONE), None);
        assert_eq!(peers.lookup(now + MINUTE, addr("192.0.2.1:22"), ANYONE), None);
        assert_eq!(peers.status(now).len(), 1);
        assert_eq!(peers.status(now + MINUTE).len(), 0);
    }

    #[test]
    fn an_answer_clears_the_peer_but_not_what_its_services_refused() {
        let (now, mut peers) = (Instant::ZERO, Peers::new(LIFETIMES, None));
        peers.remember_peer(now, addr("192.0.2.1:0").ip(), ANYONE, FallbackReason::Silent);
        peers.remember_service(now, addr("192.0.2.1:80"), FallbackReason::NotAllowed);
        peers.forget_peer(now, addr("192.0.2.1:0").ip(), ANYONE);
        assert_eq!(peers.lookup(now, addr("192.0.2.1:22"), ANYONE), None);
        assert_eq!(
            peers.lookup(now, addr("192.0.2.1:80"), ANYONE),
            Some(FallbackReason::NotAllowed)
        );
    }

    #[test]
    fn what_was_carried_is_trusted_until_it_fails() {
        let (now, mut peers) = (Instant::ZERO, Peers::new(LIFETIMES, None));
        let service = addr("192.0.2.1:22");
        peers.remember_service(now, service, FallbackReason::NotAllowed);
        peers.remember_carried(now, service);
        assert_eq!(
            (peers.lookup(now, service, ANYONE), peers.is_carried(now, service)),
            (None, true)
        );
        assert!(!peers.is_carried(now + 10 * MINUTE, service));
        peers.remember_peer(now, service.ip(), ANYONE, FallbackReason::Silent);
        assert!(!peers.is_carried(now, service));
    }

    #[test]
    fn what_is_carried_again_and_again_is_noted_now_and_then() {
        let (begun, mut peers) = (Instant::ZERO, Peers::new(LIFETIMES, None));
        let service = addr("192.0.2.1:22");
        let notes = (0..600).filter(|second| {
            peers.forget_unsaved();
            peers.remember_carried(begun + Duration::from_secs(*second), service);
            !peers.unsaved.is_empty()
        });
        assert_eq!(notes.count(), 600_usize.div_ceil(38), "each 37.5 seconds at the least");
        let end = begun + Duration::from_secs(599);
        assert!(peers.is_carried(end + MINUTE * 9, service));
        peers.remember_service(end, service, FallbackReason::NotAllowed);
        peers.remember_carried(end, service);
        assert_eq!(peers.lookup(end, service, ANYONE), None, "it has failed meanwhile");
    }

    #[test]
    fn a_near_peer_is_one_for_those_who_ask_until_more_leads_there() {
        let (now, mut peers) = (Instant::ZERO, Peers::new(LIFETIMES, None));
        let (near, far) = (addr("192.0.2.1:22"), addr("192.0.2.2:22"));
        peers.remember_carried(now, near);
        assert!(peers.remember_near(now, near.ip()));
        assert!(!peers.remember_near(now, near.ip()), "known already");
        assert!(peers.is_near(now, near.ip()) && !peers.is_near(now, far.ip()));
        assert_eq!(
            (peers.lookup(now, near, ANYONE), peers.lookup_peer(now, near.ip(), ANYONE)),
            (None, None)
        );
        assert_eq!(peers.plain_for(now, near, ANYONE, true), Some(MINUTE));
        assert_eq!(peers.plain_for(now, near, ANYONE, false), None);
        assert!(peers.is_carried(now, near), "where it has to be");
        assert_eq!(peers.status(now)[0].reason, NEAR);
        // It answers, and is no less near.
        peers.forget_peer(now, near.ip(), ANYONE);
        assert!(!peers.forget_near(now, Some(far.ip())) && peers.is_near(now, near.ip()));
        assert!(!peers.is_near(now + MINUTE, near.ip()));
        assert!(peers.forget_near(now, None) && !peers.is_near(now, near.ip()));
        peers.remember_near(now, near.ip());
        peers.remember_peer(now, near.ip(), ANYONE, FallbackReason::Silent);
        assert!(!peers.is_near(now, near.ip()));
        assert_eq!(peers.lookup(now, near, ANYONE), Some(FallbackReason::Silent));
    }

    #[test]
    fn who_answers_for_ports_below_1024_is_remembered_apart_and_answers_for_all() {
        let (now, mut peers) = (Instant::ZERO, Peers::new(LIFETIMES, None));
        let (low, high) = (addr("192.0.2.1:22"), addr("192.0.2.1:8080"));
        let known =
            |peers: &Peers| (peers.lookup(now, low, PRIVILEGED), peers.lookup(now, high, ANYONE));
        let (silent, unproven) = (FallbackReason::Silent, FallbackReason::UnprovenPort);
        peers.remember_peer(now, low.ip(), PRIVILEGED, unproven);
        assert_eq!(known(&peers), (Some(unproven), None));
        peers.remember_peer(now, low.ip(), ANYONE, silent);
        assert_eq!(known(&peers), (Some(unproven), Some(silent)));
        let plain = |peers: &Peers| peers.plain_for(now, low, PRIVILEGED, false);
        assert_eq!(plain(&peers), Some(MINUTE));
        peers.forget_peer(now, low.ip(), ANYONE);
        assert_eq!(known(&peers), (Some(unproven), None));
        peers.remember_peer(now, low.ip(), ANYONE, silent);
        peers.forget_peer(now, low.ip(), PRIVILEGED);
        assert_eq!((known(&peers), plain(&peers)), ((None, None), None));
    }

    #[test]
    fn flushing_is_for_all_a_peer_or_a_service() {
        let now = Instant::ZERO;
        let filled = || {
            let mut peers = Peers::new(LIFETIMES, None);
            peers.remember_carried(now, addr("192.0.2.1:22"));
            peers.remember_service(now, addr("192.0.2.1:80"), FallbackReason::NotAllowed);
            peers.remember_peer(now, addr("192.0.2.2:0").ip(), ANYONE, FallbackReason::Silent);
            peers
        };
        assert_eq!(filled().flush(None, None), 3);
        assert_eq!(filled().flush(Some(addr("192.0.2.1:0").ip()), None), 2);
        assert_eq!(filled().flush(Some(addr("192.0.2.1:0").ip()), Some(80)), 1);
    }

    /// The oldest one has the highest address.
    #[test]
    fn memory_is_bounded_and_the_oldest_entry_goes_first() {
        let (begin, mut peers) = (Instant::ZERO, Peers::new(LIFETIMES, None));
        let many = u32::try_from(MAX_ENTRIES).unwrap();
        let at = |index: u32| IpAddr::V4((0x0a00_ffff - index).into());
        for index in 0..=many {
            let now = begin + Duration::from_millis(index.into());
            peers.remember_peer(now, at(index), ANYONE, FallbackReason::Silent);
            peers.remember_native(now, at(index), ANYONE);
            peers.remember_carried(now, SocketAddr::new(at(index), 2));
        }
        let now = begin + Duration::from_millis(many.into());
        let sizes = (peers.peers.len(), peers.natives.len(), peers.carried.len());
        assert_eq!(sizes, (MAX_ENTRIES, MAX_ENTRIES, MAX_ENTRIES));
        for (index, kept) in [(0, false), (1, true), (many, true)] {
            let addr = at(index);
            assert_eq!(
                peers.lookup(now, SocketAddr::new(addr, 1), ANYONE).is_some(),
                kept,
                "{index}"
            );
            assert_eq!(peers.is_native(now, addr, ANYONE), kept, "{index}");
            assert_eq!(peers.is_carried(now, SocketAddr::new(addr, 2)), kept, "{index}");
        }
    }
}
