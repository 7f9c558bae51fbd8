//! Private addresses that two hosts tell each other, in case both are in the same network: behind one NAT, which seldom
//! leads packets back that are meant for its own outside.
//!
//! They go over the association between the two, encrypted, to a peer whose key was known before, and so never to the relay
//! or to strangers. What a peer tells is only believed to be worth a few HEARTBEATs.

use crate::base::Base;
use manypath_engine::{AssociationId, is_private};
use std::net::SocketAddr;

/// Tells the peer where this host is, and returns where the peer says that it is.
pub(super) fn follow(base: &mut Base, id: AssociationId) -> Vec<SocketAddr> {
    let is_known = base.keys.standing_of(id).is_some_and(crate::keys::Standing::is_known);
    if !is_known || base.keys.holds(id) {
        return Vec::new();
    }
    let own = own(base);
    let allows_loopback = base.core.config.loopback_paths;
    let Some(association) = base.get_mut(&id) else { return Vec::new() };
    let is_told = association.mux.tell_candidates(own.iter().copied().collect());
    let theirs = association.mux.peer_candidates();
    if is_told {
        base.core.count("candidates_told");
        base.touch(id);
    }
    let is_worth_asking = |at: &SocketAddr| may_be_asked(*at, allows_loopback) && !own.contains(at);
    theirs.iter().filter(is_worth_asking).collect()
}

/// The private addresses of this host that are uplinks as others, and their ports.
fn own(base: &Base) -> Vec<SocketAddr> {
    let core = &base.core;
    let open = core.locals.open.iter().filter(|local| local.up);
    let addresses = open.map(|local| local.address.addr);
    let allows_loopback = core.config.loopback_paths;
    addresses
        .filter(|at| may_be_asked(*at, allows_loopback) && !core.scopes.is_isolated(at.ip()))
        .collect()
}

/// Whether the address means something in a network that this host may share. Those of one link need to be told with an
/// interface, which means nothing elsewhere.
fn may_be_asked(at: SocketAddr, allows_loopback: bool) -> bool {
    let ip = at.ip().to_canonical();
    let is_of_link = match ip {
        std::net::IpAddr::V4(v4) => v4.is_link_local(),
        std::net::IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let is_reachable = !is_of_link && (allows_loopback || !ip.is_loopback());
    at.port() != 0 && is_private(ip) && is_reachable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_asked_and_no_others() {
        let may = |text: &str| may_be_asked(text.parse().unwrap(), false);
        for near in ["192.168.1.2:9899", "10.0.0.1:7000", "100.64.0.1:9899", "[fd00::1]:9899"] {
            assert!(may(near), "{near}");
        }
        let public = ["203.0.113.1:9899", "[2001:db8::1]:9899", "8.8.8.8:53", "224.0.0.1:9899"];
        let local = ["127.0.0.1:9899", "[::1]:9899", "169.254.1.1:9899", "[fe80::1]:9899"];
        for other in public.into_iter().chain(local).chain(["10.0.0.1:0", "0.0.0.0:9899"]) {
            assert!(!may(other), "{other}");
        }
        assert!(may_be_asked("127.0.0.1:9899".parse().unwrap(), true));
    }
}
