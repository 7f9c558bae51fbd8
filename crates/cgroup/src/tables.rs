//! What the kernel's programs go by, and what they count: their maps, by meaning.

use crate::kernel::{Map, Programs};
use crate::layout::{self, Actor, Address, MAX_RULES, REASONS, RouteKind, WayKey};
use crate::report::Reasons;
use crate::routes::Route;
use manypath_gate::Told;
use manypath_rules::{Chain, Policy, Protocol, Rule, Table};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// The programs' maps.
#[derive(Debug)]
pub(crate) struct Tables {
    settings: Map,
    rules: Map,
    options: Map,
    routes: Map,
    plain: Map,
    denied: Map,
    exempt: Map,
    clients: Map,
    errors: Map,
    arrivals: Map,
    counts: Map,
    networks: Map,
    flows: Map,
    datagram_rules: Map,
    plain_datagrams: Map,
    datagram_counts: Map,
    ways: Map,
    /// What `settings` says.
    said: Settings,
    /// What `routes` says, as far as it was put there.
    known: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Settings {
    namespace: u64,
    gates: [u32; 2],
    rules: u32,
    carried: bool,
    datagram_rules: u32,
    sinks: [u32; 2],
    options: u32,
    inner: bool,
}

impl Tables {
    /// Of programs that are loaded; nothing is carried yet. `inner`: another manypath sees to all networks but this.
    ///
    /// # Errors
    /// When the kernel does not take them.
    pub(crate) fn new(programs: &mut Programs, namespace: u64, inner: bool) -> io::Result<Self> {
        let mut map = |name| programs.take_map(name);
        let said = Settings { namespace, inner, ..Settings::default() };
        let tables = Self {
            settings: map("settings")?,
            rules: map("rules")?,
            options: map("options")?,
            routes: map("routes")?,
            plain: map("plain")?,
            denied: map("denied")?,
            exempt: map("exempt")?,
            clients: map("clients")?,
            errors: map("errors")?,
            arrivals: map("arrivals")?,
            counts: map("counts")?,
            networks: map("networks")?,
            flows: map("flows")?,
            datagram_rules: map("datagram_rules")?,
            plain_datagrams: map("plain_datagrams")?,
            datagram_counts: map("datagram_counts")?,
            ways: map("ways")?,
            said,
            known: BTreeMap::new(),
        };
        tables.say()?;
        Ok(tables)
    }

    fn say(&self) -> io::Result<()> {
        let Settings { namespace, gates, rules, carried, datagram_rules, sinks, options, inner } =
            self.said;
        let rules = [rules, u32::from(carried), datagram_rules];
        let words =
            gates.into_iter().chain(rules).chain(sinks).chain([options, u32::from(inner), 0]);
        let value = [&namespace.to_ne_bytes()[..], &layout::bytes(words)].concat();
        self.settings.put(&0_u32.to_ne_bytes(), &value)
    }

    /// Sends sockets of a family to a gate; to none when `gate` is absent.
    ///
    /// # Errors
    /// None that is known of a map of this kind.
    pub(crate) fn set_gate(&mut self, v6: bool, gate: Option<u16>) -> io::Result<()> {
        let port = gate.map_or(0, u32::from);
        let [v4_port, v6_port] = &mut self.said.gates;
        let place = if v6 { v6_port } else { v4_port };
        if std::mem::replace(place, port) == port {
            return Ok(());
        }
        self.say()
    }

    /// Goes by other rules from now on. Those that do not fit are left to the stack, which knows them all:
    /// then it relays what it must not carry.
    ///
    /// # Errors
    /// None that is known of a map of this kind.
    pub(crate) fn set_rules(&mut self, table: &Table) -> io::Result<()> {
        let default = table.default_policy(Chain::Remote);
        let list = table.list(Chain::Remote, default.opposite()).map(|(_, rule)| rule);
        let rules: Vec<Vec<u8>> =
            list.filter(|rule| rule.protocol == Protocol::Tcp).map(rule).collect();
        let all = rules.len() <= MAX_RULES;
        // Rules that enable and do not fit must not keep anything from the stack.
        self.set_datagram_rules(table)?;
        self.set_options(table)?;
        self.said.carried = default == Policy::Enable || !all;
        self.said.rules =
            if all || default == Policy::Enable { rules.len().min(MAX_RULES) as u32 } else { 0 };
        for (number, rule) in (0_u32..).zip(rules.iter().take(MAX_RULES)) {
            self.rules.put(&number.to_ne_bytes(), rule)?;
        }
        self.say()?;
        self.forget_plain();
        Ok(())
    }

    /// Leaves everything to another manypath that was not begun before; what is carried goes on.
    ///
    /// # Errors
    /// None that is known of a map of this kind.
    pub(crate) fn take_no_more(&mut self) -> io::Result<()> {
        let Settings { namespace, gates, sinks, inner, .. } = self.said;
        self.said = Settings { namespace, gates, sinks, inner, ..Settings::default() };
        self.say()
    }

    /// The rules that enable connects, up to the last one that forbids plain TCP. The kernel knows the first 64;
    /// the stack enforces the rest on the connections that reach it.
    fn set_options(&mut self, table: &Table) -> io::Result<()> {
        let list = table.list(Chain::Remote, Policy::Enable).map(|(_, rule)| rule);
        let list: Vec<&Rule> = list.filter(|rule| rule.protocol == Protocol::Tcp).collect();
        let is_only = |rule: &&Rule| rule.options.may_need_sctp();
        let count = list.iter().rposition(is_only).map_or(0, |last| last + 1).min(MAX_RULES);
        for (number, one) in (0_u32..).zip(list.iter().take(count)) {
            let option = [rule(one), layout::bytes([u32::from(is_only(one))])].concat();
            self.options.put(&number.to_ne_bytes(), &option)?;
        }
        self.said.options = count as u32;
        Ok(())
    }

    /// The stack has the last word, so that a few rules too many can be one for all.
    fn set_datagram_rules(&mut self, table: &Table) -> io::Result<()> {
        let list = table.list(Chain::Remote, Policy::Enable).map(|(_, rule)| rule);
        let mut rules: Vec<Vec<u8>> =
            list.filter(|rule| rule.protocol == Protocol::Udp).map(rule).collect();
        if rules.len() > MAX_RULES {
            rules = vec![words([0; 4], [0; 4], [0, 65535])];
        }
        for (number, rule) in (0_u32..).zip(&rules) {
            self.datagram_rules.put(&number.to_ne_bytes(), rule)?;
        }
        self.said.datagram_rules = rules.len() as u32;
        forget(&self.plain_datagrams);
        Ok(())
    }

    /// Whether any datagrams are to be carried.
    pub(crate) const fn carries_datagrams(&self) -> bool {
        self.said.datagram_rules > 0
    }

    /// Where connected sockets that ask for errors are connected to, IPv4 and IPv6; 0: nowhere.
    ///
    /// # Errors
    /// None that is known of a map of this kind.
    pub(crate) fn set_sinks(&mut self, ports: [u16; 2]) -> io::Result<()> {
        self.said.sinks = ports.map(u32::from);
        self.say()
    }

    /// Leaves the datagrams of a socket to a peer alone from now on.
    pub(crate) fn leave_flow(&self, cookie: u64, peer: SocketAddr) {
        const LEFT: u32 = 1;
        // The map makes room for new entries by itself.
        let _ = self.flows.put(&layout::flow(cookie, peer), &LEFT.to_ne_bytes());
    }

    /// Decides anew about the datagrams of a socket to a peer.
    pub(crate) fn forget_flow(&self, cookie: u64, peer: SocketAddr) {
        // It may have given way to others.
        let _ = self.flows.remove(&layout::flow(cookie, peer));
    }

    /// Forgets what was decided of datagrams.
    pub(crate) fn forget_flows(&self) {
        forget(&self.flows);
    }

    /// Leaves datagrams of other sockets to a service alone for a while.
    pub(crate) fn add_plain_datagrams(&self, service: SocketAddr, during: Duration) {
        put_until(&self.plain_datagrams, service, during);
    }

    /// What became of the flows of datagrams that began: how many were taken, and how many were not, by reason;
    /// and how many datagrams were lost because we were too slow (`events-lost`).
    pub(crate) fn datagram_counts(&self) -> Reasons {
        counts(&self.datagram_counts)
    }

    /// Goes by other routes from now on.
    ///
    /// # Errors
    /// `ENOSPC` when there are more than the map can hold; those that did not fit are left to the kernel.
    pub(crate) fn set_routes(&mut self, routes: &[Route]) -> io::Result<()> {
        let wanted: BTreeMap<Vec<u8>, Vec<u8>> = routes.iter().map(route).collect();
        let gone: BTreeSet<_> =
            self.known.keys().filter(|key| !wanted.contains_key(*key)).cloned().collect();
        for key in gone {
            // It may have been refused before.
            let _ = self.routes.remove(&key);
            self.known.remove(&key);
        }
        let mut result = Ok(());
        for (key, value) in wanted {
            if self.known.get(&key) != Some(&value) {
                result = result.and(self.routes.put(&key, &value));
                self.known.insert(key, value);
            }
        }
        result
    }

    /// Leaves sockets of a network to another manypath, and counts them no longer.
    ///
    /// # Errors
    /// When there is no memory.
    pub(crate) fn add_network(&self, namespace: u64) -> io::Result<()> {
        self.networks.put(&namespace.to_ne_bytes(), &1_u32.to_ne_bytes())
    }

    /// Nobody serves it any more.
    pub(crate) fn remove_network(&self, namespace: u64) {
        let _ = self.networks.remove(&namespace.to_ne_bytes());
    }

    /// Leaves connects to a service alone for a while.
    pub(crate) fn add_plain(&self, service: SocketAddr, during: Duration) {
        put_until(&self.plain, service, during);
    }

    /// Leaves connects of somebody to a destination alone for a while, as the host's egress policy forbids them.
    /// A port of zero at loopback means the gate, and so all connects.
    pub(crate) fn add_denied(&self, actor: Actor, to: SocketAddr, during: Duration) {
        // The map makes room for new entries by itself.
        let _ = self.denied.put(&layout::denial(actor, to), &until(during).to_ne_bytes());
    }

    /// Leaves a socket of ours alone that belongs to a program's cgroup.
    ///
    /// # Errors
    /// When there is no memory.
    pub(crate) fn exempt(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.exempt.put(&socket.as_raw_fd().to_ne_bytes(), &1_u32.to_ne_bytes())
    }

    /// Leaves nothing alone any more that was plain TCP before.
    pub(crate) fn forget_plain(&self) {
        forget(&self.plain);
    }

    /// Lets the next connection from `from` to a listening program stand for `client`.
    ///
    /// # Errors
    /// When there is no memory.
    pub(crate) fn add_client(
        &self,
        from: SocketAddr,
        to: SocketAddr,
        client: SocketAddr,
    ) -> io::Result<()> {
        self.clients.put(&layout::end(from, to), &layout::service(client))
    }

    /// That connection is over, or has not come about.
    pub(crate) fn remove_client(&self, from: SocketAddr, to: SocketAddr) {
        let _ = self.clients.remove(&layout::end(from, to));
    }

    /// Connections that the programs' listening sockets at a port were given by others than the stack.
    pub(crate) fn arrivals(&self, port: u16) -> u64 {
        let value = self.arrivals.get(&u32::from(port).to_ne_bytes()).ok();
        value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_ne_bytes)
    }

    /// Lets `SO_ERROR` of a socket that fails tell the true error, once.
    pub(crate) fn set_error(&self, cookie: u64, errno: i32) {
        let _ = self.errors.put(&cookie.to_ne_bytes(), &errno.to_ne_bytes());
    }

    /// Lets the program of a connection be told of its way from now on, as it is now.
    pub(crate) fn set_way(&self, key: WayKey, told: &Told) {
        let _ = self.ways.put(&key.bytes(), &layout::way(told));
    }

    /// The kernel's own answers hold again.
    pub(crate) fn remove_way(&self, key: WayKey) {
        let _ = self.ways.remove(&key.bytes());
    }

    /// What became of connects: how many were taken to the gate, and how many were not, by reason.
    pub(crate) fn counts(&self) -> Reasons {
        counts(&self.counts)
    }
}

fn counts(map: &Map) -> Reasons {
    let count = |(number, name): (u32, &'static str)| {
        let value = map.get(&number.to_ne_bytes()).ok()?;
        Some((name.into(), u64::from_ne_bytes(value.try_into().ok()?)))
    };
    (0_u32..).zip(REASONS).filter_map(count).filter(|(_, count)| *count > 0).collect()
}

fn forget(map: &Map) {
    for key in map.keys() {
        // Somebody else may have been faster.
        let _ = map.remove(&key);
    }
}

/// Says something of a service that holds for a while.
fn put_until(map: &Map, service: SocketAddr, during: Duration) {
    // The map makes room for new entries by itself.
    let _ = map.put(&layout::service(service), &until(during).to_ne_bytes());
}

/// The kernel's time when something that holds for a while is over.
fn until(during: Duration) -> u64 {
    now() + u64::try_from(during.as_nanos()).unwrap_or(u64::MAX / 2)
}

/// `struct rule`.
fn rule(rule: &Rule) -> Vec<u8> {
    let ports = rule.ports.map_or([0, 65535], |ports| [ports.first(), ports.last()]);
    match rule.network {
        None => words([0; 4], [0; 4], ports),
        Some(network) => {
            let mask = mask(network.address(), network.prefix());
            words(layout::address(network.address()), mask, ports)
        }
    }
}

fn words(address: Address, mask: Address, ports: [u16; 2]) -> Vec<u8> {
    let masked = std::array::from_fn::<_, 4, _>(|i| address[i] & mask[i]);
    layout::bytes(masked.into_iter().chain(mask).chain(ports.map(u32::from)))
}

/// The bits of an address that a prefix of this length fixes, IPv4 in its mapped form.
fn mask(address: IpAddr, prefix: u8) -> Address {
    let bits = u32::from(prefix) + if address.is_ipv4() { 96 } else { 0 };
    let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
    layout::address(IpAddr::V6(mask.into()))
}

fn route(route: &Route) -> (Vec<u8>, Vec<u8>) {
    let length = u32::from(route.length) + if route.to.is_ipv4() { 96 } else { 0 };
    let key = layout::bytes([length].into_iter().chain(layout::address(route.to)));
    let source = route.source.map_or([0; 4], layout::address);
    let kind = match route.kind {
        RouteKind::Forward => 0,
        RouteKind::Own => 1,
        RouteKind::Reject => 2,
    };
    (key, layout::bytes(source.into_iter().chain([kind])))
}

/// The kernel's monotonic clock, as its programs read it, in nanoseconds.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_covers_the_coat_of_ipv4_addresses() {
        let all = u32::MAX;
        let mask = |address: &str, prefix| mask(address.parse().unwrap(), prefix);
        assert_eq!(mask("10.0.0.0", 8), [all, all, all, u32::from_be(0xff00_0000)]);
        assert_eq!(mask("10.0.0.0", 32), [all; 4]);
        assert_eq!(mask("::", 0), [0; 4]);
        assert_eq!(mask("2001:db8::", 32), [all, 0, 0, 0]);
    }
}
