//! The addresses of the host come and go, and associations follow them (`SCTP_AUTO_ASCONF`, RFC 6458 section 8.1.23).

use crate::socket::Socket;
use crate::table::{Host, Sockets};
use manypath_engine::AssociationId;
use std::net::IpAddr;

impl Sockets {
    /// The host has an address more, which the endpoint knows of. Sockets that are bound to all addresses have it from now
    /// on; their associations that follow ask their peers to take it, and all go on over it that had it before.
    pub fn on_address_added(&mut self, host: &mut Host<'_>, address: IpAddr) {
        if !self.locals.contains(&address) {
            self.locals.push(address);
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
        self.renew_listeners(host);
    }

    /// The associations that follow this address. Nobody else reaches one of loopback.
    fn following(&self, address: IpAddr) -> Vec<AssociationId> {
        let follows = |socket: &&Socket| {
            let everywhere = socket.bound.as_ref().is_some_and(|bound| bound.addresses.is_empty());
            let settings = &socket.settings;
            let elsewhere = settings.follows_addresses && !address.is_loopback();
            elsewhere && everywhere && settings.family.takes(address)
        };
        let sockets = self.sockets.values().filter(follows);
        let all = sockets.flat_map(|socket| socket.associations.values());
        all.filter(|one| one.streams.is_some() && one.closed.is_none())
            .map(|one| one.engine)
            .collect()
    }
}
