//! What an association has proved: at which addresses its peer is, and at which of ours the peer reaches us.
//!
//! A path is confirmed by the state cookie of the handshake or by a HEARTBEAT's nonce (RFC 9260 section 5.4). What a
//! peer lists in its INIT or says in an OPEN proves nothing.

use super::Base;
use crate::config::FIRST_FREE_PORT;
use crate::core::Core;
use crate::privileged::Acceptor;
use manypath_engine::{AssociationId, PathState, PathStatus};
use manypath_keys::PublicKey;
use manypath_rules::{Client, Query};
use manypath_trust::is_key_address;
use std::net::{IpAddr, SocketAddr};

impl Core {
    /// The peer's address on the primary path.
    pub(crate) fn peer_ip(&self, id: AssociationId) -> Option<IpAddr> {
        self.paths_of(id).iter().find(|path| path.primary).map(remote)
    }

    /// Our addresses that the association uses, confirmed or not, that of the primary path first.
    pub(crate) fn local_addresses(&self, id: AssociationId) -> Vec<IpAddr> {
        hosts_own(self, locals_of(self.paths_of(id), |_| true))
    }

    /// Our addresses that a peer may name for a service. One at which it has never reached us may be that of a VPN, of
    /// containers or of a LAN to which the peer has no way: it is left out unless a rule names it.
    pub(crate) fn reachable_locals(&self, id: AssociationId, query: Query<'_>) -> Vec<IpAddr> {
        let (named, service) = (self.rules.names_address(query), query.address);
        hosts_own(
            self,
            locals_of(self.paths_of(id), |path| {
                path.state != PathState::Unconfirmed || named && local(path) == service.ip()
            }),
        )
    }

    /// The client of a service, by an address of the service's family where the peer is now: the one that `source`
    /// says, else the far end of the path to the service's address, else that of another path. Only the port is
    /// what the peer's side says. `None` where the peer is at no address of that family.
    pub(crate) fn verified_client(
        &self,
        id: AssociationId,
        service: SocketAddr,
        source: SocketAddr,
    ) -> Option<SocketAddr> {
        self.client_among(id, service, source, |path| {
            let addr = remote(path);
            addr.is_ipv4() == service.is_ipv4() || is_key_address(addr)
        })
    }

    /// The same for a service that the peer has not chosen, whatever family that is of.
    pub(crate) fn verified_peer(
        &self,
        id: AssociationId,
        service: SocketAddr,
        source: SocketAddr,
    ) -> Option<SocketAddr> {
        self.client_among(id, service, source, |_| true)
    }

    /// A path that is potentially failed does not count, because the peer may have left its address: who decides
    /// which paths answer would choose for how long an address is taken for its own.
    fn client_among(
        &self,
        id: AssociationId,
        service: SocketAddr,
        source: SocketAddr,
        fits: impl Fn(&PathStatus) -> bool,
    ) -> Option<SocketAddr> {
        let mut paths = self.paths_of(id);
        paths.retain(|path| path.state == PathState::Active && fits(path));
        let said = paths.iter().find(|path| remote(path) == source.ip().to_canonical());
        let here = paths.iter().find(|path| local(path) == service.ip());
        let primary = paths.iter().find(|path| path.primary);
        let path = said.or(here).or(primary).or(paths.first())?;
        Some(SocketAddr::new(remote(path), source.port()))
    }

    /// The addresses at which connections to the peer may be handed to it: those where it has proved to be, unless
    /// they have failed since, when they may be somebody else's by now. A potentially failed path still counts: it
    /// is active or has failed within seconds, and a new association would have to wait as well.
    pub(crate) fn living_addresses(&self, id: AssociationId) -> Vec<IpAddr> {
        self.paths_of(id).iter().filter(|path| is_living(path)).map(remote).collect()
    }
}

impl Base {
    /// Who was asked for an association.
    pub(crate) fn acceptor_of(&self, id: AssociationId) -> Acceptor {
        self.get(&id).map_or(Acceptor::Anyone, |association| association.acceptor)
    }

    /// The addresses at which connections to the peer may be handed to it, and as which acceptor.
    pub(crate) fn living_acceptors(&self, id: AssociationId) -> Vec<(IpAddr, Acceptor)> {
        let asked = self.acceptor_of(id);
        let living = self.core.paths_of(id).into_iter().filter(is_living);
        living.map(|path| acceptor_at(path.addr.remote, asked)).collect()
    }
}

/// As whom a peer answers at an address. One that was asked at a privileged port may answer elsewhere from another
/// port, which every user of that host may have.
fn acceptor_at(remote: SocketAddr, asked: Acceptor) -> (IpAddr, Acceptor) {
    let keeps = remote.port() < FIRST_FREE_PORT || matches!(asked, Acceptor::At(_));
    let acceptor = if keeps { asked } else { Acceptor::Anyone };
    (remote.ip().to_canonical(), acceptor)
}

/// One peer, whatever associations it has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum PeerId {
    /// By its key.
    Key(PublicKey),
    /// One that has none, by the address of the primary path.
    Address(Option<IpAddr>),
}

impl PeerId {
    /// Whose association it is.
    pub(crate) fn of(base: &Base, id: AssociationId) -> Self {
        let address = || Self::Address(base.core.peer_ip(id));
        base.keys.peer_of(id).map_or_else(address, Self::Key)
    }
}

/// What the peer of an association has proved about itself; nothing if no rule wants to know.
pub(crate) fn client_of(base: &Base, id: AssociationId) -> Client {
    if !base.core.rules.names_clients() {
        return Client::default();
    }
    let paths = base.core.paths_of(id).into_iter();
    let active = paths.filter(|path| path.state == PathState::Active);
    let addresses = active.map(|path| remote(&path)).collect();
    let (key, name) = (base.keys.fingerprint_of(id), base.keys.name_of(id));
    Client { addresses, key, name: name.map(str::to_owned) }
}

pub(crate) fn is_living(path: &PathStatus) -> bool {
    is_alive(path.state)
}

pub(crate) const fn is_alive(state: PathState) -> bool {
    matches!(state, PathState::Active | PathState::PotentiallyFailed)
}

/// The address that stands for the key of the peer, if the association began by that.
pub(crate) fn key_of_peer(core: &Core, id: AssociationId) -> Option<IpAddr> {
    core.paths_of(id).iter().map(remote).find(|addr| is_key_address(*addr))
}

/// Whoever reaches this host by its key may name any address of its uplinks.
fn hosts_own(core: &Core, mut addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let Some(key) = core.scopes.own_key().filter(|key| addresses.contains(key)) else {
        return addresses;
    };
    addresses.retain(|addr| *addr != key);
    let own = core.locals.open.iter().map(|local| local.address.addr.ip().to_canonical());
    for own in own.filter(|own| !core.scopes.is_isolated(*own)) {
        if !addresses.contains(&own) {
            addresses.push(own);
        }
    }
    addresses
}

fn locals_of(mut paths: Vec<PathStatus>, counts: impl Fn(&PathStatus) -> bool) -> Vec<IpAddr> {
    paths.retain(counts);
    paths.sort_by_key(|path| !path.primary);
    let mut addresses: Vec<IpAddr> = Vec::new();
    for addr in paths.iter().map(local) {
        if !addresses.contains(&addr) {
            addresses.push(addr);
        }
    }
    addresses
}

fn local(path: &PathStatus) -> IpAddr {
    path.addr.local.ip().to_canonical()
}

fn remote(path: &PathStatus) -> IpAddr {
    path.addr.remote.ip().to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_at_which_the_peer_has_another_port_proves_nothing() {
        let at = |remote: &str, asked| acceptor_at(remote.parse().unwrap(), asked).1;
        assert_eq!(at("192.0.2.1:899", Acceptor::Privileged), Acceptor::Privileged);
        assert_eq!(at("192.0.2.2:9899", Acceptor::Privileged), Acceptor::Anyone);
        assert_eq!(at("192.0.2.1:899", Acceptor::Anyone), Acceptor::Anyone);
    }
}
