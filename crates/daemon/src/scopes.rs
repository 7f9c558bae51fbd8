//! For which peers the local addresses are there.
//!
//! A tunnel, a bridge of containers and a VRF are networks apart: an association that the kernel routes into one of
//! them uses its addresses alone, and no other association announces or uses them. So nothing that is routed into a VPN
//! leaves beside it in the clear. Private addresses are uplinks as others, and peers at public addresses are not told
//! them. Who names an address, by `--local` or by a path policy, takes it out of these rules.

use crate::config::Locals;
use crate::locals::is_usable;
use manypath_control::status::FallbackReason;
use manypath_engine::{Config, Scope, is_private};
use manypath_net::{ApartInterface, Interface, interfaces_apart};
use manypath_rules::paths::{PathEntry, Role};
use manypath_trust::is_key_address;
use std::io;
use std::net::IpAddr;

/// The realm of the addresses that stand for keys. Networks apart are counted from 0.
const KEY_REALM: u32 = u32::MAX;

/// For which peers a local address is there, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalScope {
    /// The address.
    pub addr: IpAddr,
    /// The interface that has it.
    pub interface: String,
    /// For which peers it is there.
    pub scope: Scope,
    /// Why, for people.
    pub reason: String,
}

impl LocalScope {
    /// The name of the scope: `open`, `private` or `isolated`.
    pub const fn name(&self) -> &'static str {
        match self.scope {
            Scope::Open => "open",
            Scope::Private => "private",
            Scope::Isolated(_) => "isolated",
        }
    }

    /// Whether only associations of its realm use it.
    pub const fn is_isolated(&self) -> bool {
        matches!(self.scope, Scope::Isolated(_))
    }

    /// The command that makes an isolated address an uplink as others.
    pub fn cure(&self) -> Option<String> {
        self.is_isolated().then(|| format!("manypath path add dev {} normal", self.interface))
    }
}

/// The scopes of all addresses of this host.
#[derive(Debug, Default)]
pub struct LocalScopes {
    all: Vec<LocalScope>,
    apart: Vec<ApartInterface>,
    /// The address that stands for the key of this host, once associations use it.
    pub(crate) own_key: Option<IpAddr>,
    /// Names of networks apart that have been seen: their places are their realms.
    networks: Vec<String>,
    /// It was said that the kernel does not tell the kinds of interfaces.
    pub(crate) warned: bool,
}

impl LocalScopes {
    /// Finds out the scopes of the addresses of `interfaces`, of which those are named that `locals` lists or that
    /// `entries` say something about.
    ///
    /// # Errors
    /// Where the system does not tell the kinds of interfaces: none is taken for a network apart.
    pub fn look(
        &mut self,
        interfaces: &[Interface],
        locals: &Locals,
        entries: &[PathEntry],
    ) -> io::Result<()> {
        let apart = match locals {
            Locals::Auto | Locals::Except(_) => interfaces_apart(),
            Locals::List(_) | Locals::Named(_) => Ok(Vec::new()),
        };
        let (apart, result) = match apart {
            Ok(apart) => (apart, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        self.apart = apart;
        let usable = interfaces.iter().filter(|one| is_usable(one));
        let all = usable.map(|one| self.scope_of(one, is_named(one, locals, entries)));
        self.all = all.collect();
        result
    }

    /// All of them.
    pub fn all(&self) -> &[LocalScope] {
        &self.all
    }

    fn scope_of(&mut self, one: &Interface, named: bool) -> LocalScope {
        let apart = self.apart.iter().find(|it| it.index == one.index).cloned();
        let (scope, reason) = match apart {
            _ if named => (Scope::Open, "named by the user".to_owned()),
            Some(it) => {
                let reason = format!("{}: only for what is routed into it", it.why);
                (Scope::Isolated(self.realm_named(&it.network)), reason)
            }
            None if is_private(one.addr) => (Scope::Private, "not told to public peers".to_owned()),
            None => (Scope::Open, "public address".to_owned()),
        };
        LocalScope { addr: one.addr, interface: one.name.clone(), scope, reason }
    }

    fn realm_named(&mut self, network: &str) -> u32 {
        let known = self.networks.iter().position(|name| name == network);
        let place = known.unwrap_or_else(|| {
            self.networks.push(network.to_owned());
            self.networks.len() - 1
        });
        u32::try_from(place).unwrap_or(u32::MAX)
    }

    /// The address that stands for the key of this host, once associations use it.
    pub(crate) const fn own_key(&self) -> Option<IpAddr> {
        self.own_key
    }

    /// Whether associations of any realm but its own leave `addr` alone.
    pub(crate) fn is_isolated(&self, addr: IpAddr) -> bool {
        self.of(addr).is_some_and(LocalScope::is_isolated)
    }

    fn of(&self, addr: IpAddr) -> Option<&LocalScope> {
        self.all.iter().find(|local| local.addr == addr)
    }

    /// The network apart into which the kernel routes packets to `remote`, for a program that has bound the address
    /// `source` if there is one; none if it routes them elsewhere.
    pub fn realm_towards(&mut self, remote: IpAddr, source: Option<IpAddr>) -> Option<u32> {
        if is_key_address(remote) {
            return Some(KEY_REALM);
        }
        if self.apart.is_empty() {
            return None;
        }
        let source = source.filter(|source| !source.is_unspecified());
        if let Some(realm) = source.and_then(|source| self.of(source)).and_then(realm) {
            return Some(realm);
        }
        let from = |source| manypath_net::route_to(remote, source, None);
        let route = from(source).or_else(|_| from(None)).ok()?;
        let network = self.apart.iter().find(|it| it.index == route.interface)?.network.clone();
        let realm = self.realm_named(&network);
        // Its interface has been named.
        let open = route.source.and_then(|source| self.of(source));
        let is_open = open.is_some_and(|local| !local.is_isolated());
        (!is_open).then_some(realm)
    }

    /// The addresses that associations of a realm use.
    pub fn addresses_in(&self, wanted: Option<u32>) -> Vec<IpAddr> {
        let all = self.all.iter().filter(|local| realm(local) == wanted).map(|local| local.addr);
        all.chain(self.own_key.filter(|_| wanted == Some(KEY_REALM))).collect()
    }

    /// What the engine is told of them.
    pub(crate) fn for_engine(&self) -> Vec<(IpAddr, Scope)> {
        let scopes = self.all.iter().map(|local| (local.addr, local.scope));
        let own_key = self.own_key.map(|addr| (addr, Scope::Isolated(KEY_REALM)));
        scopes.chain(own_key).collect()
    }

    /// The parameters `own` for an association of a realm.
    pub(crate) fn within(&self, realm: Option<u32>, own: Config) -> Result<Config, FallbackReason> {
        let local_addresses = match realm {
            None => Vec::new(),
            // All would be used if none were named.
            Some(_) => Some(self.addresses_in(realm))
                .filter(|addrs| !addrs.is_empty())
                .ok_or(FallbackReason::NoLocalAddress)?,
        };
        Ok(Config { local_addresses, ..own })
    }
}

fn realm(local: &LocalScope) -> Option<u32> {
    match local.scope {
        Scope::Isolated(realm) => Some(realm),
        Scope::Open | Scope::Private => None,
    }
}

/// Whether the user has named an address: in the list of addresses to use, or by a policy for all peers that leaves its
/// paths enabled.
fn is_named(one: &Interface, locals: &Locals, entries: &[PathEntry]) -> bool {
    let names = |entry: &PathEntry| {
        let selector = &entry.selector;
        let says = selector.local.is_some() || selector.device.is_some();
        says && selector.peer.is_none()
            && entry.wish.role != Role::Disabled
            && selector.fits_local(one.addr, &one.name)
    };
    match locals {
        Locals::Auto | Locals::Except(_) => entries.iter().any(names),
        Locals::List(addrs) => addrs.contains(&one.addr),
        Locals::Named(list) => list.iter().any(|name| name.fits(one)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manypath_net::Apart;
    use manypath_rules::paths::PathsDocument;

    fn interface(name: &str, index: u32, addr: &str) -> Interface {
        let (addr, prefix_len, mtu) = (addr.parse().unwrap(), 24, 1500);
        Interface { name: name.into(), index, addr, prefix_len, mtu, up: true, loopback: false }
    }

    fn scopes(policies: &str) -> Vec<(&'static str, String)> {
        let apart =
            |index, network: &str, why| ApartInterface { index, network: network.into(), why };
        let mut scopes = LocalScopes {
            apart: vec![
                apart(3, "wg0", Apart::Tunnel),
                apart(4, "docker0", Apart::Bridge),
                apart(5, "mgmt", Apart::Vrf),
            ],
            ..LocalScopes::default()
        };
        let entries = PathsDocument::parse(policies).entries().unwrap();
        let host = [
            interface("eth0", 2, "203.0.113.5"),
            interface("eth1", 6, "192.168.1.5"),
            interface("wg0", 3, "10.8.0.2"),
            interface("docker0", 4, "172.17.0.1"),
            interface("eth2", 5, "10.9.0.1"),
        ];
        let scope = |one: &Interface| {
            let local = scopes.scope_of(one, is_named(one, &Locals::Auto, &entries));
            (local.name(), local.interface)
        };
        host.iter().map(scope).collect()
    }

    fn names(all: &[(&'static str, String)]) -> Vec<&'static str> {
        all.iter().map(|(scope, _)| *scope).collect()
    }

    #[test]
    fn tunnels_bridges_and_vrfs_are_isolated_and_private_addresses_private() {
        let isolated = "isolated";
        assert_eq!(names(&scopes("")), ["open", "private", isolated, isolated, isolated]);
    }

    #[test]
    fn a_policy_for_all_peers_names_an_interface_unless_it_disables_it() {
        assert_eq!(names(&scopes("dev wg0 normal\n"))[2], "open");
        assert_eq!(names(&scopes("10.8.0.2 backup\n"))[2], "open");
        assert_eq!(names(&scopes("dev wg0 disable\n"))[2], "isolated");
        assert_eq!(names(&scopes("dev wg0 peer 192.0.2.1 cost 3\n"))[2], "isolated");
        assert_eq!(names(&scopes("peer 192.0.2.1 cost 3\n"))[2], "isolated");
    }
}
