//! Which service of this host a peer means. Behind a NAT the host is known by addresses that it does not have.
//!
//! A peer names the address that its program has connected to. One that this host has is taken as it is. Any other
//! may be what a NAT in front of this host makes of one of its addresses: then the service is meant at the address
//! that the peer's association uses here. Nothing else is ever dialled, so that whoever names the address of a
//! stranger reaches no more than by naming ours, and the rules are asked about ours.

use crate::allow;
use crate::datagrams;
use crate::listeners::kernel_table;
use crate::log;
use crate::stack::Stack;
use manypath_engine::AssociationId;
use manypath_flow::FlowId;
use manypath_rules::{Policy, Protocol};
use std::net::{IpAddr, SocketAddr};
use tracing::debug;

impl Stack {
    /// The service of this host that a peer means by `named`: of several addresses that its association uses that
    /// one where the service is open and somebody listens, else the one of the primary path. `named` itself if it
    /// is an address of this host, or can be no translated one.
    pub(crate) fn service_meant(
        &mut self,
        id: AssociationId,
        protocol: Protocol,
        named: SocketAddr,
    ) -> SocketAddr {
        let named = allow::canonical(named);
        if !is_outside(named.ip()) || self.locals.is_own(named.ip()) {
            return named;
        }
        let services = self.addresses_used(id, named.is_ipv4());
        let services: Vec<_> =
            services.into_iter().map(|addr| SocketAddr::new(addr, named.port())).collect();
        let served = services.iter().find(|service| self.is_served(protocol, **service));
        let Some(meant) = served.or(services.first()).copied() else { return named };
        self.counters.count("destinations_translated");
        debug!(target: log::CONNECTION, "association {}: {named} is {meant} here", id.0);
        meant
    }

    /// Whether the peer has named another address for `service`.
    pub(crate) fn is_translated(
        &self,
        id: AssociationId,
        flow: FlowId,
        service: SocketAddr,
    ) -> bool {
        let flow = self.associations.get(&id).and_then(|one| one.mux.status(flow));
        // A gateway has one service, whatever is named.
        !self.has_service()
            && flow.is_some_and(|flow| allow::canonical(flow.destination) != service)
    }

    /// Our addresses of one family that an association uses, that of the primary path first. The others may not be
    /// verified yet when the first flow comes.
    fn addresses_used(&self, id: AssociationId, v4: bool) -> Vec<IpAddr> {
        let status = self.driver.endpoint().status(self.now, id);
        let mut paths = status.map(|status| status.paths).unwrap_or_default();
        paths.retain(|path| path.addr.local.is_ipv4() == v4);
        paths.sort_by_key(|path| !path.primary);
        let mut addresses = Vec::new();
        for path in paths {
            let addr = path.addr.local.ip();
            if !addresses.contains(&addr) {
                addresses.push(addr);
            }
        }
        addresses
    }

    /// Whether peers may reach the service, and somebody listens there.
    fn is_served(&self, protocol: Protocol, service: SocketAddr) -> bool {
        let open = self.rules.service(protocol, service).0 == Policy::Enable;
        match protocol {
            Protocol::Tcp => {
                // One that listens in a cgroup may not have been announced yet.
                let led =
                    || self.listeners.concern(service) || !self.control.redirectors().is_empty();
                let open = open || led() && self.rules.listener(service).0 == Policy::Enable;
                open && kernel_table::takers(service).is_ok_and(|takers| !takers.is_empty())
            }
            Protocol::Udp => open && datagrams::has_taker(service),
        }
    }
}

/// Whether an address can be one by which hosts elsewhere are known.
fn is_outside(addr: IpAddr) -> bool {
    !(addr.is_loopback() || addr.is_unspecified() || addr.is_multicast())
}
