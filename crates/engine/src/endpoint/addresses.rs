//! Addresses of associations that are in use: ASCONF (RFC 5061).

use super::{AssociationId, Endpoint};
use crate::association::addresses::AddressError;
use crate::config::LocalAddress;
use crate::event::AddressChange;
use crate::path::PathAddr;
use crate::time::Instant;
use core::net::IpAddr;

/// A way to the peer of an association of which a third host tells that knows both ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathOffer {
    /// The association.
    pub association: AssociationId,
    /// One of the endpoint's addresses, and where packets from there may reach the peer.
    pub path: PathAddr,
}

impl PathOffer {
    /// Asks there at once, by a HEARTBEAT; data follows when the peer has answered. Each further call asks again. Both
    /// ends do so at about the same time where NATs let in only what was asked for. The limit of
    /// [`Config::amplification_limit`](crate::Config) holds for it. False where addresses cannot change (RFC 5061), or
    /// packets not go between these two, or there are too many.
    pub fn make(self, endpoint: &mut Endpoint, now: Instant) -> bool {
        endpoint.with(now, self.association, |it, cx| it.addressing().offer_path(cx, self.path))
    }
}

impl Endpoint {
    /// Makes a local address usable, and asks the peers of all associations that agreed on that to
    /// use it as well. [`crate::Event::LocalAddress`] tells what they say. Paths from the address that
    /// were suspended are used again at once. An association whose addresses have all gone moves to
    /// this one.
    pub fn announce_local_address(&mut self, now: Instant, address: LocalAddress) {
        let ip = address.addr.ip();
        self.add_local_address(address);
        for id in self.registry.ids() {
            self.announce_address_to(now, id, ip);
        }
    }

    /// The peer of the association has shown who it is: with `Config::announce` it is told our other addresses as soon as
    /// neither end takes packets without protection any more, and they are verified under protection. Nothing happens
    /// where they have been announced already, or where the peer takes no changes of addresses.
    pub fn reveal_addresses(&mut self, now: Instant, id: AssociationId) {
        self.with(now, id, |it, cx| {
            let is_protected = it.security.requires_protection();
            it.addressing().reveal(cx, is_protected);
        });
    }

    /// Whether the peer of an association is told none of our addresses but that of the handshake (`Config::announce`).
    pub fn withholds_addresses(&self, id: AssociationId) -> bool {
        self.registry.get(id).is_some_and(|association| association.handshake.is_withheld())
    }

    /// The same for one association and an address that the endpoint has.
    pub fn announce_address_to(&mut self, now: Instant, id: AssociationId, address: IpAddr) {
        let cut_off = self.with(now, id, |it, cx| {
            it.path_manager().resume_source(cx, address);
            it.paths.is_cut_off()
        });
        match cut_off {
            true => self.with(now, id, |it, cx| it.addressing().move_to(cx, address)),
            // Others go on as they are.
            false => drop(self.add_address(now, id, address)),
        }
        self.with(now, id, |it, cx| it.addressing().take_detour(cx));
    }

    /// A local address that was suspended can be used again. The peers are told nothing.
    pub fn resume_local_address(&mut self, now: Instant, address: IpAddr) {
        for id in self.registry.ids() {
            self.with(now, id, |it, cx| it.path_manager().resume_source(cx, address));
        }
    }

    /// A local address cannot be used for now, because its link is down. Nothing is sent from there until
    /// [`Self::announce_local_address`] makes it usable again, and what was in flight goes to the
    /// other paths at once. The peers are told nothing.
    pub fn suspend_local_address(&mut self, now: Instant, address: IpAddr) {
        self.locals.retain(|local| local.addr.ip() != address);
        for id in self.registry.ids() {
            self.with(now, id, |it, cx| it.path_manager().suspend_source(cx, address));
        }
    }

    /// A local address is not to be used any more. Associations that agreed on that tell their peers,
    /// unless it is their last one; the others only use it no more, as one that is suspended.
    pub fn remove_local_address(&mut self, now: Instant, address: IpAddr) {
        self.suspend_local_address(now, address);
        for id in self.registry.ids() {
            self.withdraw_address_from(now, id, address);
        }
    }

    /// The same for one association and an address that is suspended.
    pub fn withdraw_address_from(&mut self, now: Instant, id: AssociationId, address: IpAddr) {
        let _unchanged = self.remove_address(now, id, address).is_err();
        self.with(now, id, |it, cx| it.addressing().take_detour(cx));
    }

    /// The network has changed: paths that have failed or were never confirmed are probed now.
    pub fn probe_failed_paths(&mut self, now: Instant) {
        for id in self.registry.ids() {
            self.with(now, id, |it, cx| it.path_manager().probe_failed_paths(cx));
        }
    }

    /// The associations that cannot tell their peers of changed addresses.
    pub fn fixed_addresses(&self) -> usize {
        let all = self.registry.ids().into_iter().filter_map(|id| self.registry.get(id));
        all.filter(|it| it.addresses.is_none() && !it.state.is_setting_up()).count()
    }

    /// Requests that the peer takes `address`, one of the endpoint's, into the association (`sctp_bindx`
    /// with `SCTP_BINDX_ADD_ADDR`, RFC 6458 section 9.1). It is used when the peer has agreed and the
    /// path works.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn add_address(
        &mut self,
        now: Instant,
        id: AssociationId,
        address: IpAddr,
    ) -> Result<(), AddressError> {
        self.change_address(now, id, AddressChange::Added, address)
    }

    /// Requests that the peer takes `address` out of the association (`SCTP_BINDX_REM_ADDR`). Nothing
    /// is sent from there any more. What was added before goes into the same request: so the only
    /// address can be changed.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn remove_address(
        &mut self,
        now: Instant,
        id: AssociationId,
        address: IpAddr,
    ) -> Result<(), AddressError> {
        self.change_address(now, id, AddressChange::Removed, address)
    }

    /// Requests that the peer sends to `address` first (`SCTP_SET_PEER_PRIMARY_ADDR`, RFC 6458 section
    /// 8.3.1).
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn request_peer_primary(
        &mut self,
        now: Instant,
        id: AssociationId,
        address: IpAddr,
    ) -> Result<(), AddressError> {
        self.change_address(now, id, AddressChange::MadePrimary, address)
    }

    fn change_address(
        &mut self,
        now: Instant,
        id: AssociationId,
        change: AddressChange,
        address: IpAddr,
    ) -> Result<(), AddressError> {
        self.with(now, id, |it, cx| Some(it.addressing().change_address(cx, change, address)))
            .unwrap_or(Err(AddressError::NotEstablished))
    }
}
