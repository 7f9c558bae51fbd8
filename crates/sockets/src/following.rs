//! The addresses of the host come and go, and associations follow them (`SCTP_AUTO_ASCONF`, RFC 6458 section 8.1.23).

use crate::address;
use crate::socket::Socket;
use crate::table::{Host, Sockets};
use manypath_engine::AssociationId;
use std::net::{IpAddr, SocketAddr};

impl Sockets {
    /// The host has an address more, which the endpoint knows of: an IPv6 link-local one with its scope. Sockets that
    /// are bound to all addresses have it from now on; their associations that follow ask their peers to take it, and
    /// all go on over it that had it before.
    pub fn on_address_added(&mut self, host: &mut Host<'_>, address: SocketAddr) {
        let link = address::link_of(address);
        let address = address.ip();
        if !self.locals.contains(&address) {
            self.locals.push(address);
        }
        if let Some(link) = link {
            self.links.insert(address, link);
        }
        host.endpoint.resume_local_address(host.now, address);
        for association in self.following(address) {
            host.endpoint.announce_address_to(host.now, association, address);
        }
        self.renew_listeners(host);
    }

    /// The host has lost an address. Nothing is sent from there any more, and the peers of associations that follow are
    /// told.
    pub fn on_address_removed(&mut self, host: &mut Host<'_>, address: IpAddr) {
        self.locals.retain(|known| *known != address);
        host.endpoint.suspend_local_address(host.now, address);
        for association in self.following(address) {
            host.endpoint.withdraw_address_from(host.now, association, address);
        }
        self.links.remove(&address);
        self.renew_listeners(host);
    }

    /// The associations that follow this address. Nobody else reaches one of loopback, and none that a peer is told of
    /// can be an IPv6 link-local one.
    fn following(&self, address: IpAddr) -> Vec<AssociationId> {
        let on_link = self.links.contains_key(&address);
        let follows = |socket: &&Socket| {
            let everywhere = socket.bound.as_ref().is_some_and(|bound| bound.addresses.is_empty());
            let settings = &socket.settings;
            let elsewhere = settings.follows_addresses && !address.is_loopback() && !on_link;
            elsewhere && everywhere && settings.family.takes(address)
        };
        let sockets = self.sockets.values().filter(follows);
        let all = sockets.flat_map(|socket| socket.associations.values());
        all.filter(|one| one.streams.is_some() && one.closed.is_none())
            .map(|one| one.engine)
            .collect()
    }
}
