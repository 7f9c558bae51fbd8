//! The set of all paths of an association.

use super::congestion::Group;
use super::regulation::Regulation;
use super::sharing::Schedule;
use super::{OwnSupervision, Path, PathAddr, PathEcn, PathId, PathSet, PathState, Supervision};
use crate::config::{Config, EcnUse, SharedBottleneck};
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use manypath_wire::chunk::Data;
use manypath_wire::packet::CommonHeader;

/// Most paths that an association keeps.
const MAX_PATHS: usize = 32;
/// All paths of an association.
#[derive(Debug)]
pub(crate) struct Paths {
    list: Vec<Path>,
    primary: PathId,
    /// The first number that no path has had.
    next_id: u8,
    /// Numbers of paths that have gone, in that order.
    gone_ids: Vec<PathId>,
    /// What was agreed on with the peer about ECN.
    ecn: EcnUse,
    pub(super) regulation: Regulation,
    /// The measurement of what paths share a bottleneck.
    pub(super) sharing: Schedule,
    /// How paths to come are supervised, if not as the configuration says.
    pub(crate) own_supervision: OwnSupervision,
    /// RTO.Initial, and RTO.Min and RTO.Max, if not as the configuration says.
    rto: Option<Box<(Duration, (Duration, Duration))>>,
    /// The path over which the last SHUTDOWN came, until T2-shutdown expires.
    pub(super) shutdown_source: Option<PathId>,
    /// Those whose sockets take no more packets for now.
    blocked: PathSet,
}

impl Paths {
    /// No path yet. The first that is added becomes the primary.
    pub(crate) fn new() -> Self {
        Self {
            list: Vec::new(),
            primary: PathId(0),
            next_id: 0,
            gone_ids: Vec::new(),
            ecn: EcnUse::Off,
            regulation: Regulation::default(),
            sharing: Schedule::default(),
            own_supervision: OwnSupervision::default(),
            rto: None,
            shutdown_source: None,
            blocked: PathSet::default(),
        }
    }

    /// No path yet; what the user has set for paths to come is as here.
    pub(crate) fn emptied(&self) -> Self {
        let (own_supervision, rto) = (self.own_supervision.clone(), self.rto.clone());
        Self { own_supervision, rto, regulation: self.regulation.for_new_paths(), ..Self::new() }
    }

    /// Paths to addresses of the peer to which `before` has paths are supervised as those are.
    pub(crate) fn supervise_like(&mut self, before: &Self) {
        for path in &mut self.list {
            let same = |it: &&Path| it.addr.remote.ip() == path.addr.remote.ip();
            if let Some(old) = before.iter().find(same) {
                path.health.supervise_like(&old.health);
            }
        }
    }

    /// The sockets at `locals`, and no others, take no more packets for now.
    pub(crate) fn set_blocked(&mut self, locals: &[SocketAddr]) {
        self.blocked = PathSet::default();
        if !locals.is_empty() {
            let blocked = self.list.iter().filter(|path| locals.contains(&path.addr.local));
            blocked.for_each(|path| self.blocked.insert(path.id()));
        }
    }

    /// Whether the socket of any path takes no packets.
    pub(crate) fn has_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Whether the socket of path `id` takes packets.
    pub(crate) fn is_open(&self, id: PathId) -> bool {
        !self.blocked.contains(id)
    }

    /// RTO.Initial, RTO.Min and RTO.Max of all paths, those to come too.
    pub(crate) fn set_rto(&mut self, initial: Duration, bounds: (Duration, Duration)) {
        self.rto = Some(Box::new((initial, bounds)));
        self.list.iter_mut().for_each(|path| path.rtt_mut().set_bounds(initial, bounds));
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
        let at = self.list.partition_point(|path| path.id() < id);
        let mut path = Path::new(id, addr, mtu, state, config);
        if self.is_verified(addr.remote) {
            path.health.verify();
        }
        path.subflow.ecn = PathEcn::of(self.ecn, &addr);
        path.health.supervise_as(&self.own_supervision);
        if let Some((initial, bounds)) = self.rto.as_deref() {
            path.rtt_mut().set_bounds(*initial, *bounds);
        }
        // Most associations have one path, and a list that grows by itself makes room for four.
        self.list.reserve_exact(1);
        self.list.insert(at, path);
        self.regulation.is_stale = true;
        self.sharing.is_on = looks_for_bottlenecks(config);
        Some(id)
    }

    /// Congestion control and pacing are those of `config` from now on. What is known of the paths stays.
    pub(crate) fn follow(&mut self, config: &Config) {
        self.sharing.is_on = looks_for_bottlenecks(config);
        for path in &mut self.list {
            let about = (path.search.mtu(), path.addr.remote.is_ipv6());
            path.subflow.congestion.follow(config, about);
            path.subflow.pacer.set(config.pacing);
            if !self.sharing.is_on {
                // Nothing would release it any more.
                path.gives_way_to = None;
                path.subflow.congestion.give_way(None);
            }
        }
    }

    /// The peer has answered at `remote`.
    pub(crate) fn verify(&mut self, remote: SocketAddr) {
        let there = self.list.iter_mut().filter(|path| path.addr.remote == remote);
        there.for_each(|path| path.health.verify());
    }

    fn is_verified(&self, remote: SocketAddr) -> bool {
        self.list.iter().any(|path| path.health.is_verified() && path.addr.remote == remote)
    }

    /// What was agreed on with the peer about ECN: all paths begin anew with it.
    pub(crate) fn set_ecn(&mut self, agreed: EcnUse) {
        self.ecn = agreed;
        self.list.iter_mut().for_each(|path| path.subflow.ecn = PathEcn::of(agreed, &path.addr));
    }

    /// The peer is with or without encapsulation on path `id`, other than before.
    pub(crate) fn restart_ecn(&mut self, id: PathId) {
        let agreed = self.ecn;
        if let Some(path) = self.get_mut(id) {
            path.subflow.ecn = PathEcn::of(agreed, &path.addr);
        }
    }

    /// Whether ECN was agreed on with the peer.
    pub(crate) fn uses_ecn(&self) -> bool {
        self.ecn != EcnUse::Off
    }

    /// A number that no path has: one that none had before, or that of the path that went first.
    fn free_id(&mut self) -> Option<PathId> {
        if self.next_id < PathSet::IDS {
            self.next_id += 1;
            return Some(PathId(self.next_id - 1));
        }
        (!self.gone_ids.is_empty()).then(|| self.gone_ids.remove(0))
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

    /// Whether there is a path named `id`, and nothing speaks against sending user data on it.
    pub(crate) fn is_active(&self, id: PathId) -> bool {
        self.get(id).is_some_and(|path| path.health.is_active())
    }

    /// The path with these addresses.
    pub(crate) fn by_addr(&self, addr: &PathAddr) -> Option<PathId> {
        self.list.iter().find(|path| path.addr == *addr).map(|path| path.id())
    }

    /// All paths in the order of their numbers.
    pub(crate) fn iter(&self) -> core::slice::Iter<'_, Path> {
        self.list.iter()
    }

    /// All paths in the order of their numbers.
    pub(crate) fn iter_mut(&mut self) -> core::slice::IterMut<'_, Path> {
        self.list.iter_mut()
    }

    /// Those on which nothing speaks against sending user data.
    pub(crate) fn active(&self) -> impl Iterator<Item = &Path> {
        self.list.iter().filter(|path| path.health.is_active())
    }

    /// Those of `set`, in the order of their numbers.
    pub(crate) fn among(&self, set: PathSet) -> impl Iterator<Item = &Path> {
        self.list.iter().filter(move |path| set.contains(path.id()))
    }

    /// The paths for which `which` holds, in the order of their numbers.
    pub(crate) fn ids(&self, which: impl Fn(&Path) -> bool) -> Vec<PathId> {
        self.list.iter().filter(|path| which(path)).map(|path| path.id()).collect()
    }

    /// The paths between the addresses of `addr`, whatever their ports.
    pub(crate) fn between(&self, addr: PathAddr) -> Vec<PathId> {
        let ips = |addr: &PathAddr| (addr.local.ip(), addr.remote.ip());
        self.ids(|path| ips(&path.addr) == ips(&addr))
    }

    /// The confirmed path to `remote` that is used before others.
    pub(crate) fn best_to(&self, remote: IpAddr) -> Option<PathId> {
        let to = self.list.iter().filter(|path| path.addr.remote.ip() == remote);
        let confirmed = to.filter(|path| path.health().is_confirmed());
        let best = confirmed.min_by_key(|path| (path.health().reluctance(), path.id()));
        best.map(|path| path.id())
    }

    /// Addresses at which the peer is known to be. If it has changed all of them and none is confirmed
    /// yet, those that it says.
    pub(crate) fn confirmed_addresses(&self) -> Vec<IpAddr> {
        let any = self.list.iter().any(|path| path.health().is_confirmed());
        let confirmed = self.list.iter().filter(|path| !any || path.health().is_confirmed());
        let mut addresses: Vec<_> = confirmed.map(|path| path.addr.remote.ip()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// Whether no path is left that packets could leave by.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.list.iter().all(|path| path.health().is_suspended())
    }

    /// Takes a round-trip time of path `id` measured by a control chunk.
    pub(crate) fn sample(&mut self, now: Instant, id: PathId, round_trip: Option<Duration>) {
        if let (Some(path), Some(round_trip)) = (self.get_mut(id), round_trip) {
            path.rtt_mut().on_sample(now, round_trip);
        }
    }

    /// How the paths to `remote`, or those to come, are supervised.
    pub(crate) fn supervision(&self, config: &Config, to: Option<IpAddr>) -> Option<Supervision> {
        let Some(remote) = to else { return Some(self.own_supervision.get(config)) };
        let path = self.list.iter().find(|path| path.addr.remote.ip() == remote)?;
        Some(path.health.supervision(config))
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
        if let Some(at) = self.position(id) {
            self.list.remove(at);
            self.gone_ids.push(id);
        }
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
        let waits = |path: &Path| !path.health.is_confirmed() && path.search.is_on();
        let size = |path: &Path| path.packet_size() - CommonHeader::LEN - Data::HEADER_LEN;
        let carriers = self.list.iter().filter(|path| !waits(path)).map(size);
        carriers.min().or_else(|| self.list.first().map(size)).unwrap_or(0)
    }

    /// Looks at all paths that carry data, for congestion control that couples them.
    pub(crate) fn couple(&mut self, usable: PathSet) -> Group {
        if !self.list.first().is_some_and(|path| path.congestion().is_coupled()) {
            return Group::default();
        }
        for path in &mut self.list {
            let srtt = path.rtt().smoothed();
            path.subflow.congestion.take_stand(srtt);
        }
        let carrying = self.list.iter().filter(|p| usable.contains(p.id()) || p.in_flight() > 0);
        Group::of(carrying.map(|path| path.congestion().own()))
    }

    /// The list is sorted.
    fn position(&self, id: PathId) -> Option<usize> {
        match self.list.get(usize::from(id.0)) {
            Some(path) if path.id() == id => Some(usize::from(id.0)),
            Some(_) | None => self.list.binary_search_by_key(&id, |path| path.id()).ok(),
        }
    }
}

/// Whether it is measured which paths share a bottleneck. Algorithms that couple the paths need not know.
fn looks_for_bottlenecks(config: &Config) -> bool {
    config.shared_bottleneck == SharedBottleneck::Detect
        && config.heartbeats
        && !config.congestion.is_coupled()
}

#[cfg(test)]
mod tests {
    use super::{MAX_PATHS, PathAddr, PathId, PathState, Paths};
    use crate::config::{Config, CongestionControl, PathMtu};
    use crate::time::Duration;
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
            assert_eq!(path.packet_size(), size);
        }
        assert_eq!(paths.fragment_size(), 1424);
        let path = paths.get_mut(PathId(0)).unwrap();
        path.readdress(path.addr, 1);
        assert_eq!(path.packet_size(), 548);
    }

    #[test]
    fn a_number_is_given_again_after_at_least_32_others() {
        let (mut paths, config) = (Paths::new(), Config::default());
        let add = |paths: &mut Paths, port: u16| {
            let remote = SocketAddr::from(([10, 0, 0, 2], port));
            paths.add(PathAddr { local: remote, remote }, 1500, PathState::Active, &config)
        };
        let kept = add(&mut paths, 1).unwrap();
        for port in 2..=64 {
            let id = add(&mut paths, port).unwrap();
            assert_eq!(id, PathId(port as u8 - 1), "never again if possible");
            paths.remove(id, kept);
        }
        // The number of the path that has just gone comes last.
        let heir = add(&mut paths, 65).unwrap();
        assert_eq!(heir, PathId(1));
        paths.remove(kept, heir);
        paths.remove(kept, heir);
        let full: std::vec::Vec<_> = (66..97).map(|port| add(&mut paths, port).unwrap()).collect();
        assert_eq!((full[0], full[30], paths.len()), (PathId(2), PathId(32), MAX_PATHS));
        // With as many paths as there can be, 32 others come in between.
        paths.remove(PathId(2), heir);
        for port in 100..132 {
            let id = add(&mut paths, port).unwrap();
            assert!(id != PathId(2), "{port}");
            paths.remove(id, heir);
        }
        assert_eq!(add(&mut paths, 200), Some(PathId(2)));
        let order: std::vec::Vec<_> = paths.iter().map(|path| path.id().0).collect();
        assert!(order.is_sorted() && order.len() == MAX_PATHS, "{order:?}");
        assert!(
            order.iter().all(|id| paths.get(PathId(*id)).is_some_and(|path| path.id().0 == *id))
        );
    }

    #[test]
    fn no_path_gives_way_any_more_where_nobody_looks_for_bottlenecks() {
        let (mut paths, config) = (Paths::new(), Config::default());
        for remote in ["10.0.0.2:9899", "10.0.1.2:9899"] {
            paths.add(addr("10.0.0.1:9899", remote), 1500, PathState::Active, &config).unwrap();
        }
        let path = paths.get_mut(PathId(1)).unwrap();
        path.gives_way_to = Some(PathId(0));
        path.subflow.congestion.give_way(Some(Duration::from_millis(10)));
        let with = |congestion| Config { congestion, ..Config::default() };
        paths.follow(&with(CongestionControl::Cubic));
        assert_eq!(paths.get(PathId(1)).unwrap().gives_way_to(), Some(PathId(0)));
        assert!(paths.measurement_deadline().is_some());
        // It couples the paths.
        paths.follow(&with(CongestionControl::Lia));
        assert_eq!(paths.get(PathId(1)).unwrap().gives_way_to(), None);
        assert_eq!(paths.measurement_deadline(), None);
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
