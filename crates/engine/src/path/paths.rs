//! One path and the set of all paths of an association.

use super::congestion::{Congestion, Group};
use super::flight::Flight;
use super::heartbeat::Heartbeat;
use super::regulation::Regulation;
use super::sharing::{Delays, Schedule, SharedBottleneck};
use super::{
    Burst, EcnUse, MtuSearch, OwnSupervision, Pace, Pacer, PathAddr, PathCounters, PathEcn, PathId,
    PathSet, PathState, Regime, Returns, Rtt, Timing,
};
use crate::config::Config;
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use manypath_wire::chunk::Data;
use manypath_wire::packet::CommonHeader;

/// Most paths that an association keeps.
const MAX_PATHS: usize = 32;
/// UDP header of the encapsulation (RFC 6951).
const UDP_HEADER: usize = 8;

/// A path of an association.
#[derive(Debug)]
pub(crate) struct Path {
    /// Its number.
    pub(crate) id: PathId,
    /// Its addresses.
    pub(crate) addr: PathAddr,
    /// Its state.
    pub(crate) state: PathState,
    /// The peer has answered at its remote address, over this path or another one. To others little is sent.
    pub(crate) verified: bool,
    /// Its local address has no link: nothing is sent, and silence says nothing about the peer.
    pub(crate) suspended: bool,
    search: MtuSearch,
    /// Round-trip time and RTO.
    pub(crate) rtt: Rtt,
    /// Congestion control.
    pub(crate) congestion: Congestion,
    /// What is under way, and what is known about it.
    pub(super) flight: Flight,
    /// Consecutive errors (RFC 9260 section 8.2).
    pub(crate) error_count: u32,
    /// Probing.
    pub(crate) heartbeat: Heartbeat,
    /// Max.Burst.
    pub(super) burst: Burst,
    /// Pacing.
    pub(super) pacer: Pacer,
    /// The path to which it gives way because they share a bottleneck.
    pub(crate) gives_way_to: Option<PathId>,
    /// What is measured to find such paths, while several carry data.
    pub(crate) delays: Option<Box<Delays>>,
    /// When DATA came over it last, of whatever worth.
    pub(crate) last_data_received: Option<Instant>,
    /// When data came over it last, until it has been looked after that there may come more.
    pub(crate) last_arrival: Option<Instant>,
    /// Until when it takes no new data because a chunk was rescheduled.
    held_back: Option<Instant>,
    /// When a SACK was sent last.
    pub(crate) last_sack: Option<Instant>,
    /// What SACKs may take of the way back.
    pub(crate) returns: Returns,
    /// ECN.
    pub(crate) ecn: PathEcn,
    /// What it has carried.
    pub(crate) stats: PathCounters,
    /// What is wanted of it, if anything ever was.
    pub(crate) regime: Option<Box<Regime>>,
    /// How it is supervised, if not as the configuration says.
    pub(crate) supervision: OwnSupervision,
}

impl Path {
    fn new(id: PathId, addr: PathAddr, mtu: u16, state: PathState, config: &Config) -> Self {
        let search = MtuSearch::new(&addr, mtu, config);
        let mtu = search.mtu();
        let limit = packet_size(&addr, mtu) - CommonHeader::LEN;
        let is_ipv6 = addr.remote.is_ipv6();
        let mut congestion = Congestion::new(config.congestion, limit, is_ipv6, config.hystart);
        congestion.set_start(config, mtu);
        Self {
            id,
            addr,
            state,
            verified: state != PathState::Unconfirmed,
            suspended: false,
            search,
            rtt: Rtt::new(config),
            congestion,
            flight: Flight::default(),
            error_count: 0,
            heartbeat: Heartbeat::default(),
            burst: Burst::new(config),
            pacer: Pacer::new(config.pacing),
            gives_way_to: None,
            delays: None,
            last_data_received: None,
            last_arrival: None,
            held_back: None,
            last_sack: None,
            returns: Returns::default(),
            ecn: PathEcn::default(),
            stats: PathCounters::default(),
            regime: None,
            supervision: OwnSupervision::default(),
        }
    }

    /// Largest IP packet in bytes.
    pub(crate) fn mtu(&self) -> u16 {
        self.search.mtu()
    }

    /// The path has got other addresses, behind a link that takes IP packets of `link` bytes.
    pub(crate) fn readdress(&mut self, addr: PathAddr, link: u16) {
        self.addr = addr;
        self.change_mtu(|search| search.readdress(&addr, link));
    }

    /// The peer sends from another port, or with or without encapsulation other than before. What UDP
    /// takes of a packet is room for SCTP without it (RFC 6951 section 5.6).
    pub(crate) fn follow(&mut self, addr: PathAddr) {
        let before = self.packet_size();
        // Our own port is for us to choose.
        if (addr.local.port() == 0) != (self.addr.local.port() == 0) {
            self.addr.local = addr.local;
        }
        self.addr.remote = addr.remote;
        if self.packet_size() != before {
            self.congestion.set_chunk_limit(self.packet_size() - CommonHeader::LEN);
        }
    }

    fn fresh_ecn(&self, agreed: EcnUse) -> PathEcn {
        PathEcn::new(match agreed {
            EcnUse::Off => false,
            EcnUse::WhereSeen => self.addr.remote.port() == 0,
            EcnUse::On => true,
        })
    }

    /// The search for its MTU.
    pub(crate) fn search(&self) -> &MtuSearch {
        &self.search
    }

    /// Lets the search go on; everything follows what comes of it.
    pub(crate) fn change_mtu<R>(&mut self, change: impl FnOnce(&mut MtuSearch) -> R) -> R {
        let before = self.packet_size();
        let result = change(&mut self.search);
        if self.packet_size() != before {
            self.congestion.set_chunk_limit(self.packet_size() - CommonHeader::LEN);
        }
        result
    }

    /// How long things take on it.
    pub(crate) fn timing(&self) -> Timing {
        Timing { round_trip: self.rtt.smoothed().unwrap_or_default(), rto: self.rtt.rto() }
    }

    /// Whether it may not take an SCTP packet of `len` bytes although it did.
    pub(crate) fn is_large(&self, len: usize) -> bool {
        self.search.is_large(len + headers(&self.addr))
    }

    /// A packet was lost that [`Self::is_large`].
    pub(crate) fn on_large_lost(&mut self) {
        self.search.on_large_lost();
    }

    /// A packet has arrived.
    pub(crate) fn on_passed(&mut self, large: bool) {
        self.search.on_passed(large);
    }

    /// Largest SCTP packet in bytes, a multiple of four.
    pub(crate) fn packet_size(&self) -> usize {
        packet_size(&self.addr, self.mtu())
    }

    /// Largest payload of a DATA chunk in bytes.
    pub(crate) fn fragment_size(&self) -> usize {
        self.packet_size() - CommonHeader::LEN - Data::HEADER_LEN
    }

    /// Whether nothing speaks against sending user data on it.
    pub(crate) fn is_active(&self) -> bool {
        self.state == PathState::Active
    }

    /// It takes no new data until then.
    pub(super) fn hold_back(&mut self, until: Instant) {
        self.held_back = Some(until);
    }

    /// Until when it takes no new data, if so.
    pub(crate) fn held_back(&self) -> Option<Instant> {
        self.held_back
    }

    /// Whether it takes no new data for a while.
    pub(crate) fn is_held_back(&self, now: Instant) -> bool {
        self.held_back.is_some_and(|until| now < until)
    }

    /// It takes new data again, if its time has come.
    pub(crate) fn end_hold(&mut self, now: Instant) {
        self.held_back = self.held_back.filter(|until| now < *until);
    }

    /// What it carries while its window is full, in bytes per second, once a round trip is known.
    pub(crate) fn window_rate(&self) -> Option<u64> {
        if let Some(bandwidth) = self.congestion.bandwidth() {
            return Some(bandwidth);
        }
        let srtt = self.rtt.smoothed()?.max(Duration::from_nanos(1)).as_nanos();
        let rate = (self.congestion.window() as u128 * 1_000_000_000) / srtt;
        Some(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// Whether another chunk may leave now without making a burst.
    pub(crate) fn may_follow(&self, now: Instant) -> bool {
        if self.is_paced() { self.pacer.allows(now) } else { self.burst.allows(now, self.flight()) }
    }

    /// A packet with `bytes` of DATA chunks has left.
    pub(super) fn on_packet(&mut self, now: Instant, bytes: usize) {
        self.burst.on_packet(now, bytes);
        if let Some(pace) = self.pace() {
            if self.flight() <= bytes {
                self.pacer.begin(now, self.congestion.initial_window(), pace);
            }
            self.pacer.on_packet(now, bytes, pace);
        }
    }

    /// When pacing lets packets leave that it holds back now.
    pub(crate) fn pacing_deadline(&self) -> Option<Instant> {
        self.pacer.deadline()
    }

    /// Time has passed for what pacing holds back.
    pub(crate) fn expire_pacing(&mut self, now: Instant) {
        self.pacer.expire(now);
    }

    fn is_paced(&self) -> bool {
        let by_window = self.pacer.is_on() && self.rtt.smoothed().is_some();
        by_window || self.congestion.pacing_rate().is_some()
    }

    fn pace(&self) -> Option<Pace> {
        if let Some(rate) = self.congestion.pacing_rate() {
            return Some(Pace::of_rate(rate, self.congestion.chunk_limit()));
        }
        let rtt = self.rtt.current().filter(|_| self.pacer.is_on())?;
        let (cwnd, is_starting) = (self.congestion.window(), self.congestion.is_starting());
        Some(Pace::of_window(cwnd, is_starting, rtt))
    }

    /// How long a packet takes to the peer. What a round trip takes beyond the least is time in the
    /// queue on the way there. Zero before the first measurement.
    pub(crate) fn forward_delay(&self) -> Duration {
        let least = self.rtt.least().unwrap_or_default();
        self.rtt.smoothed().unwrap_or_default().saturating_sub(least / 2)
    }
}

/// What an IP packet of `mtu` bytes leaves for SCTP. Never less than what the smallest MTU of IPv4
/// hosts (576) leaves, so that absurd values cannot stop the association.
pub(crate) fn packet_size(addr: &PathAddr, mtu: u16) -> usize {
    (usize::from(mtu.max(576)) - headers(addr)) & !3
}

/// Size of the IP packet around an SCTP packet of `len` bytes.
pub(crate) fn ip_len(addr: &PathAddr, len: usize) -> usize {
    headers(addr) + len
}

/// Bytes in front of an SCTP packet.
pub(super) fn headers(addr: &PathAddr) -> usize {
    let ip = if addr.remote.is_ipv6() { 40 } else { 20 };
    let udp = if addr.remote.port() == 0 { 0 } else { UDP_HEADER };
    ip + udp
}

/// All paths of an association.
#[derive(Debug)]
pub(crate) struct Paths {
    list: Vec<Path>,
    primary: PathId,
    next_id: u8,
    /// What was agreed on with the peer about ECN.
    ecn: EcnUse,
    pub(super) regulation: Regulation,
    /// The measurement of what paths share a bottleneck.
    pub(super) sharing: Schedule,
    /// How paths to come are supervised, if not as the configuration says.
    pub(crate) supervision: OwnSupervision,
    /// RTO.Initial, and RTO.Min and RTO.Max, if not as the configuration says.
    rto: Option<Box<(Duration, (Duration, Duration))>>,
}

impl Paths {
    /// No path yet. The first that is added becomes the primary.
    pub(crate) fn new() -> Self {
        let (list, ecn, regulation) = (Vec::new(), EcnUse::Off, Regulation::default());
        let (supervision, primary) = (OwnSupervision::default(), PathId(0));
        let sharing = Schedule::default();
        Self { list, primary, next_id: 0, ecn, regulation, sharing, supervision, rto: None }
    }

    /// No path yet; what the user has set for paths to come is as here.
    pub(crate) fn emptied(&self) -> Self {
        let (supervision, rto) = (self.supervision.clone(), self.rto.clone());
        Self { supervision, rto, ..Self::new() }
    }

    /// Paths to addresses of the peer to which `before` has paths are supervised as those are.
    pub(crate) fn supervise_like(&mut self, before: &Self) {
        for path in &mut self.list {
            let same = |it: &&Path| it.addr.remote.ip() == path.addr.remote.ip();
            if let Some(old) = before.iter().find(same) {
                path.supervision.clone_from(&old.supervision);
            }
        }
    }

    /// RTO.Initial, RTO.Min and RTO.Max of all paths, those to come too.
    pub(crate) fn set_rto(&mut self, initial: Duration, bounds: (Duration, Duration)) {
        self.rto = Some(Box::new((initial, bounds)));
        self.list.iter_mut().for_each(|path| path.rtt.set_bounds(initial, bounds));
    }

    /// Adds a path, or returns the one that has these addresses already. `None` if there are too
    /// many.
    pub(crate) fn add(
        &mut self,
        addr: PathAddr,
        mtu: u16,
        state: PathState,
        config: &Config,
    ) -> Option<PathId> {
        if let Some(id) = self.by_addr(&addr) {
            return Some(id);
        }
        if self.list.len() == MAX_PATHS {
            return None;
        }
        let id = self.free_id()?;
        if self.list.is_empty() {
            self.primary = id;
        }
        let at = self.list.partition_point(|path| path.id < id);
        let mut path = Path::new(id, addr, mtu, state, config);
        path.verified |= self.is_verified(addr.remote);
        path.ecn = path.fresh_ecn(self.ecn);
        path.supervision.clone_from(&self.supervision);
        if let Some((initial, bounds)) = self.rto.as_deref() {
            path.rtt.set_bounds(*initial, *bounds);
        }
        // Most associations have one path, and a list that grows by itself makes room for four.
        self.list.reserve_exact(1);
        self.list.insert(at, path);
        self.regulation.is_stale = true;
        self.sharing.is_on = config.shared_bottleneck == SharedBottleneck::Detect
            && config.heartbeats
            && !config.congestion.is_coupled();
        Some(id)
    }

    /// The peer has answered at `remote`.
    pub(crate) fn verify(&mut self, remote: SocketAddr) {
        let there = self.list.iter_mut().filter(|path| path.addr.remote == remote);
        there.for_each(|path| path.verified = true);
    }

    fn is_verified(&self, remote: SocketAddr) -> bool {
        self.list.iter().any(|path| path.verified && path.addr.remote == remote)
    }

    /// What was agreed on with the peer about ECN: all paths begin anew with it.
    pub(crate) fn set_ecn(&mut self, agreed: EcnUse) {
        self.ecn = agreed;
        self.list.iter_mut().for_each(|path| path.ecn = path.fresh_ecn(agreed));
    }

    /// The peer is with or without encapsulation on path `id`, other than before.
    pub(crate) fn restart_ecn(&mut self, id: PathId) {
        let agreed = self.ecn;
        if let Some(path) = self.get_mut(id) {
            path.ecn = path.fresh_ecn(agreed);
        }
    }

    /// Whether ECN was agreed on with the peer.
    pub(crate) fn uses_ecn(&self) -> bool {
        self.ecn != EcnUse::Off
    }

    /// A number that no path has. One that another path had once is given again only when all have been.
    fn free_id(&mut self) -> Option<PathId> {
        if self.next_id < u8::MAX {
            self.next_id += 1;
            return Some(PathId(self.next_id - 1));
        }
        (0..u8::MAX).map(PathId).find(|id| self.get(*id).is_none())
    }

    /// The path named `id`.
    pub(crate) fn get(&self, id: PathId) -> Option<&Path> {
        self.list.get(self.position(id)?)
    }

    /// The path named `id`.
    pub(crate) fn get_mut(&mut self, id: PathId) -> Option<&mut Path> {
        let position = self.position(id)?;
        self.list.get_mut(position)
    }

    /// The path with these addresses.
    pub(crate) fn by_addr(&self, addr: &PathAddr) -> Option<PathId> {
        self.list.iter().find(|path| path.addr == *addr).map(|path| path.id)
    }

    /// All paths in the order of their numbers.
    pub(crate) fn iter(&self) -> core::slice::Iter<'_, Path> {
        self.list.iter()
    }

    /// All paths in the order of their numbers.
    pub(crate) fn iter_mut(&mut self) -> core::slice::IterMut<'_, Path> {
        self.list.iter_mut()
    }

    /// Number of paths.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The primary path (RFC 9260 section 6.4).
    pub(crate) fn primary(&self) -> PathId {
        self.primary
    }

    /// Removes a path; if it was the primary one, `heir` is from now on.
    pub(crate) fn remove(&mut self, id: PathId, heir: PathId) {
        self.list.retain(|path| path.id != id);
        if self.primary == id {
            self.primary = heir;
        }
    }

    /// Makes `id` the primary path if it exists.
    pub(crate) fn set_primary(&mut self, id: PathId) {
        if self.position(id).is_some() {
            self.primary = id;
        }
    }

    /// Largest payload that travels as one DATA chunk on every path (AMDCS without header). A path
    /// that is not confirmed carries none, and what a search finds of it is known only then.
    pub(crate) fn fragment_size(&self) -> usize {
        let waits = |path: &Path| path.state == PathState::Unconfirmed && path.search.is_on();
        let carriers = self.list.iter().filter(|path| !waits(path)).map(Path::fragment_size);
        carriers.min().or_else(|| self.list.first().map(Path::fragment_size)).unwrap_or(0)
    }

    /// Looks at all paths that carry data, for congestion control that couples them.
    pub(crate) fn couple(&mut self, usable: PathSet) -> Group {
        if !self.list.first().is_some_and(|path| path.congestion.is_coupled()) {
            return Group::default();
        }
        for path in &mut self.list {
            path.congestion.take_stand(path.rtt.smoothed());
        }
        let carrying = self.list.iter().filter(|p| usable.contains(p.id) || p.flight() > 0);
        Group::of(carrying.map(|path| path.congestion.own()))
    }

    /// The list is sorted.
    fn position(&self, id: PathId) -> Option<usize> {
        match self.list.get(usize::from(id.0)) {
            Some(path) if path.id == id => Some(usize::from(id.0)),
            Some(_) | None => self.list.binary_search_by_key(&id, |path| path.id).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_PATHS, PathAddr, PathId, PathState, Paths};
    use crate::config::Config;
    use crate::path::PathMtu;
    use core::net::SocketAddr;

    fn addr(local: &str, remote: &str) -> PathAddr {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        PathAddr { local: parse(local), remote: parse(remote) }
    }

    #[test]
    fn packet_sizes_leave_room_for_the_lower_layers() {
        let config = Config { path_mtu: PathMtu::Interface, ..Config::default() };
        let mut paths = Paths::new();
        let v4 = addr("10.0.0.1:9899", "10.0.0.2:9899");
        let raw = addr("10.0.0.1:0", "10.0.0.2:0");
        let v6 = addr("[::1]:9899", "[::2]:9899");
        for (addr, mtu, size) in [(v4, 1500, 1472), (raw, 1502, 1480), (v6, 1500, 1452)] {
            let id = paths.add(addr, mtu, PathState::Active, &config).unwrap();
            let path = paths.get(id).unwrap();
            assert_eq!((path.packet_size(), path.fragment_size()), (size, size - 28));
        }
        assert_eq!(paths.fragment_size(), 1424);
        let path = paths.get_mut(PathId(0)).unwrap();
        path.readdress(path.addr, 1);
        assert_eq!(path.packet_size(), 548);
    }

    #[test]
    fn numbers_are_given_again_when_all_have_been() {
        let (mut paths, config) = (Paths::new(), Config::default());
        let add = |paths: &mut Paths, port: u16| {
            let remote = SocketAddr::from(([10, 0, 0, 2], port));
            paths.add(PathAddr { local: remote, remote }, 1500, PathState::Active, &config)
        };
        let kept = add(&mut paths, 1).unwrap();
        for port in 2..256 {
            let id = add(&mut paths, port).unwrap();
            assert_eq!(id, PathId(port as u8 - 1), "never again if possible");
            paths.remove(id, kept);
        }
        let ids: std::vec::Vec<_> = (300..303).map(|port| add(&mut paths, port).unwrap()).collect();
        assert_eq!(ids, [PathId(1), PathId(2), PathId(3)]);
        paths.remove(PathId(2), kept);
        assert_eq!(add(&mut paths, 400), Some(PathId(2)));
        let order: std::vec::Vec<_> = paths.iter().map(|path| path.id.0).collect();
        assert_eq!(order, [0, 1, 2, 3]);
        assert!((0..4).all(|id| paths.get(PathId(id)).is_some_and(|path| path.id.0 == id)));
    }

    #[test]
    fn paths_are_found_and_limited() {
        let (mut paths, config) = (Paths::new(), Config::default());
        for port in 1..=MAX_PATHS as u16 {
            let remote = SocketAddr::from(([10, 0, 0, 2], port));
            let addr = PathAddr { local: remote, remote };
            let id = paths.add(addr, 1500, PathState::Unconfirmed, &config);
            assert_eq!(id, Some(PathId(port as u8 - 1)));
            assert_eq!(paths.add(addr, 1500, PathState::Active, &config), id);
            assert_eq!(paths.by_addr(&addr), id);
        }
        let other = addr("10.0.0.9:1", "10.0.0.8:1");
        assert_eq!(paths.add(other, 1500, PathState::Active, &config), None);
        assert_eq!(paths.len(), MAX_PATHS);
        paths.set_primary(PathId(7));
        paths.set_primary(PathId(99));
        assert_eq!(paths.primary(), PathId(7));
    }
}
