//! Which service of this host a peer means. Behind a NAT the host is known by addresses that it does not have.
//!
//! A peer names the address that its program has connected to. One that this host has is taken as it is. Any other
//! may be what a NAT in front of this host makes of one of its addresses: then the service is meant at the address
//! that the peer's association uses here. Nothing else is ever dialled, so that whoever names the address of a
//! stranger reaches no more than by naming ours, and the rules are asked about ours.

use super::Services;
use crate::allow::{self, Denied};
use crate::base::{Base, proven};
use crate::log;
use manypath_engine::AssociationId;
use manypath_flow::FlowId;
use manypath_rules::{Policy, Protocol, Query};
use std::net::{IpAddr, SocketAddr};
use tracing::debug;

impl Services {
    /// The service of this host that a peer means by `named`: of several addresses that its association uses that
    /// one where the service is open and somebody listens, else the one of the primary path. `named` itself if it
    /// is an address of this host.
    ///
    /// # Errors
    /// When the peer may not name it; `Unconfirmed` also when it may be at an address that is not confirmed yet.
    pub(crate) fn resolve_local_service(
        &mut self,
        base: &mut Base,
        id: AssociationId,
        protocol: Protocol,
        named: SocketAddr,
    ) -> Result<SocketAddr, Denied> {
        let named = allow::canonical(named);
        if !is_outside(named.ip()) || base.core.locals.is_own(named.ip()) {
            return check_named(base, id, protocol, named).map(|()| named);
        }
        let mut locals = base.core.local_addresses(id);
        let by_key = base.core.scopes.own_key() == Some(named.ip());
        locals.retain(|local| by_key || local.is_ipv4() == named.is_ipv4());
        let all = locals.len();
        let services = locals.into_iter().map(|local| SocketAddr::new(local, named.port()));
        let services: Vec<_> =
            services.filter(|one| check_named(base, id, protocol, *one).is_ok()).collect();
        let client = proven::client_of(base, id);
        let query = |service| Query::local(protocol, service, Some(&client));
        let served =
            services.iter().find(|service| self.is_served(base, query(**service))).copied();
        let is_settled = base.core.now >= super::waiting::settles_at(base, id);
        if served.is_none() && services.len() < all && !is_settled {
            return Err(Denied::Unconfirmed);
        }
        let Some(meant) = served.or(services.first().copied()) else {
            return Err(Denied::ForeignAddress);
        };
        base.core.count("destinations_translated");
        debug!(target: log::CONNECTION, "association {}: {named} is {meant} here", id.0);
        Ok(meant)
    }

    /// Whether peers may reach the service, and somebody listens there.
    fn is_served(&mut self, base: &Base, query: Query<'_>) -> bool {
        let service = query.address;
        let open = base.core.rules.service(query).0 == Policy::Enable;
        match query.protocol {
            Protocol::Tcp => {
                // One that listens in a cgroup may not have been announced yet.
                let led = || {
                    self.listeners.concern(service) || !base.core.control.redirectors().is_empty()
                };
                let open = open
                    || led() && base.core.rules.listener(service, query.client).0 == Policy::Enable;
                let now = base.core.now;
                let mut found = || self.listeners.table.matching_listeners(now, service);
                open && found().is_some_and(|found| !found.is_empty())
            }
            Protocol::Udp => open && self.udp_receivers.has_receiver(base.core.now, service),
        }
    }
}

/// Whether the peer has named another address for `service`.
pub(crate) fn is_translated(
    base: &Base,
    id: AssociationId,
    flow: FlowId,
    service: SocketAddr,
) -> bool {
    let flow = base.get(&id).and_then(|one| one.mux.status(flow));
    // A gateway has one service, whatever is named.
    base.core.services().is_empty()
        && flow.is_some_and(|flow| allow::canonical(flow.destination) != service)
}

/// Whether the peer may name an address of this host for a service.
fn check_named(
    base: &Base,
    id: AssociationId,
    protocol: Protocol,
    service: SocketAddr,
) -> Result<(), Denied> {
    let loopback = base.core.config.loopback_paths;
    allow::check_address(service.ip(), &base.core.local_addresses(id), loopback)?;
    let client = proven::client_of(base, id);
    let query = Query::local(protocol, service, Some(&client));
    let reachable = base.core.reachable_locals(id, query);
    if reachable.contains(&service.ip()) { Ok(()) } else { Err(Denied::Unconfirmed) }
}

/// Whether an address can be one by which hosts elsewhere are known.
fn is_outside(addr: IpAddr) -> bool {
    !(addr.is_loopback() || addr.is_unspecified() || addr.is_multicast())
}
