//! Paths that come and go with the addresses of either end (RFC 5061 section 5.3).

use super::announcement::{Announcement, may_change_addresses};
use super::asconf::{AddressChanges, Request};
use super::context::Context;
use super::handshake::{Handshake, Withheld};
use super::path_manager::{Addressing, PathManager};
use super::state::State;
use crate::event::{AddressChange, Event};
use crate::path::scope::{self, Scopes};
use crate::path::{Path, PathAddr, PathId, PathState, pairing};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// Why a change of addresses was not requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressError {
    /// There is no such association, or it is not established.
    NotEstablished,
    /// It was not agreed on with the peer (`Config::address_reconfiguration`), or the peer does not
    /// understand such requests.
    NotSupported,
    /// It is not one of our addresses, or not one of the association's.
    UnknownAddress,
    /// The association has this address already.
    AlreadyThere,
    /// The association would have no address left.
    LastAddress,
    /// Too many changes wait.
    TooMany,
    /// The peer has not shown who it is (`Config::announce`).
    Withheld,
}

impl core::fmt::Display for AddressError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NotEstablished => "no established association",
            Self::NotSupported => "the peer does not support changes of addresses",
            Self::UnknownAddress => "no such address",
            Self::AlreadyThere => "the association has the address already",
            Self::LastAddress => "the last address cannot be removed",
            Self::TooMany => "too many changes of addresses wait",
            Self::Withheld => "the peer has not shown who it is, and is told no addresses",
        })
    }
}

impl core::error::Error for AddressError {}

/// What both ends agree on about addresses that come and go, where the peer's INIT or INIT ACK said `peer`. Without
/// authentication none changes (section 6). `told` is how many of our addresses the peer was told, if not all.
pub(super) fn agreed_changes(
    cx: &Context<'_>,
    handshake: &Handshake,
    peer: &Announcement,
    (is_authentic, told): (bool, Option<u8>),
) -> Option<Box<AddressChanges>> {
    let agreed = may_change_addresses(cx.config, peer) && is_authentic;
    let mut own = pairing::announced(&handshake.path, &handshake.told_locals(cx, told));
    if own.is_empty() {
        own.push(handshake.path.local.ip());
    }
    let untold = |address: &IpAddr| !cx.may_tell(*address, &handshake.path);
    let untold: Vec<_> = own.iter().copied().filter(untold).collect();
    // One alone is not listed.
    let told = own.len() > untold.len() + 1;
    let (ours, peers) = (handshake.local_tsn, peer.initial_tsn);
    let mut changes = AddressChanges::new(own, told, ours, peers);
    let known = handshake.path.local.ip();
    changes.realm = cx.realm_of(known);
    changes.untold = untold.into_iter().map(|address| (address, address == known)).collect();
    changes.translated = pairing::is_translated(&handshake.path, &peer.addresses);
    agreed.then(|| Box::new(changes))
}

/// The realm of our addresses; none outside of all realms.
pub(crate) fn realm(
    changes: Option<&AddressChanges>,
    handshake: &Handshake,
    scopes: &Scopes,
) -> Option<u32> {
    match changes {
        Some(changes) => changes.realm,
        None => scope::realm_of(scopes, handshake.path.local.ip()),
    }
}

/// Whether the peer is being told that `local` is not ours any more. It still is one where packets
/// arrive (RFC 5061 section 5.3 rule F4).
pub(crate) fn is_leaving(changes: Option<&AddressChanges>, local: IpAddr) -> bool {
    changes.is_some_and(|it| it.is_changing(AddressChange::Removed, local))
}

impl Addressing<'_> {
    /// The realm of our addresses; none outside of all realms.
    pub(super) fn realm(&self, cx: &Context<'_>) -> Option<u32> {
        realm(self.addresses.as_deref(), self.handshake, cx.scopes)
    }

    /// The path a packet came over, if it may be the peer's. A new pair of known addresses becomes a
    /// path. A new port becomes the port of its path, or a path of its own where addresses may change, and
    /// a packet without UDP ends the encapsulation there (RFC 6951 section 5.4): the packet has our
    /// tag, so that nobody else can bring that about.
    pub(crate) fn arrival_path(&mut self, cx: &Context<'_>, addr: PathAddr) -> Option<PathId> {
        if let Some(id) = self.paths.by_addr(&addr) {
            return Some(id);
        }
        if !self.peer_addresses.contains(&addr.remote.ip()) || self.handshake.is_unproven(&addr) {
            return None;
        }
        if let Some(changes) = &self.addresses
            && !changes.own.contains(&addr.local.ip())
        {
            // Data may overtake the answer that makes the address ours (RFC 5061 section 5.3).
            let added = changes.is_changing(AddressChange::Added, addr.local.ip());
            return added.then(|| self.paths.control_path());
        }
        let local = addr.local.ip();
        let withheld = self.handshake.is_withheld() && local != self.handshake.path.local.ip();
        let is_ours =
            || cx.config.allows(local) && cx.realm_of(local) == self.realm(cx) && !withheld;
        if self.addresses.is_none() && !is_ours() {
            return None;
        }
        if is_leaving(self.addresses.as_deref(), addr.local.ip()) {
            return Some(self.paths.control_path());
        }
        let accepted = !self.handshake.initiated;
        let moved = self.paths.between(addr).first().copied();
        if let Some(other) = moved.and_then(|known| self.path_of_port(cx, addr, known)) {
            return Some(other);
        }
        if let Some(path) = moved.and_then(|id| self.paths.get_mut(id)) {
            let was_native = path.addr().remote.port() == 0;
            path.follow(addr, accepted);
            let id = path.id();
            if was_native != (addr.remote.port() == 0) {
                self.paths.restart_ecn(id);
            }
            return Some(id);
        }
        self.add_unconfirmed(cx, addr)
    }

    pub(super) fn add_unconfirmed(&mut self, cx: &Context<'_>, addr: PathAddr) -> Option<PathId> {
        let mtu = cx.mtu(&addr);
        let id = self.paths.add(addr, mtu, PathState::Unconfirmed, cx.config)?;
        if self.state.sends_heartbeats() {
            self.begin_probing(id);
        }
        Some(id)
    }

    /// A COOKIE ACK goes back to where the COOKIE ECHO came from.
    pub(super) fn acknowledge_cookie(&mut self, cx: &Context<'_>, addr: PathAddr) {
        let via = self.arrival_path(cx, addr).unwrap_or(self.paths.primary());
        self.control.push_cookie_ack(via);
    }

    /// Makes the paths: `handshake` first, then the other pairs, which are to be verified. `told` is how many of our
    /// addresses the peer was told, if not all.
    pub(super) fn learn_paths(
        &mut self,
        cx: &Context<'_>,
        handshake: PathAddr,
        listed: &[IpAddr],
        told: Option<u8>,
    ) {
        *self.keys_changed = true;
        self.handshake.path = handshake;
        *self.peer_addresses = alloc::vec![handshake.remote.ip()];
        for address in listed {
            if !self.peer_addresses.contains(address) {
                self.peer_addresses.push(*address);
            }
        }
        let fits = self.paths.iter().next().is_some_and(|path| path.addr() == handshake);
        // Paths that copies of the INIT have taken have carried nothing else: which of them stay is said by the pairs alone.
        let asked = self.handshake.copied && matches!(self.state, State::CookieWait(_));
        let anew = !fits || (asked && self.paths.len() > 1);
        let before = anew.then(|| {
            let emptied = self.paths.emptied();
            core::mem::replace(self.paths, emptied)
        });
        let locals = self.handshake.told_locals(cx, told);
        let mut pairs = pairing::pairs(handshake, &locals, listed);
        if pairing::is_translated(&handshake, listed) {
            // An address behind its NAT may look like one of our own network.
            pairs.extend(pairing::pairs(handshake, &locals, &[]));
        }
        for pair in pairs {
            if self.paths.by_addr(&pair).is_none() {
                let confirmed = pair == handshake;
                let state = if confirmed { PathState::Active } else { PathState::Unconfirmed };
                // The limit of the path list is the limit of the association.
                let _too_many = self.paths.add(pair, cx.mtu(&pair), state, cx.config).is_none();
            }
        }
        if let Some(before) = before {
            self.paths.supervise_like(&before);
        }
    }

    /// Our addresses that `requests` remove are no source of packets any more (rule F4). If only those
    /// are left that they add, returns paths from there.
    pub(super) fn leave_sources(&mut self, cx: &Context<'_>, requests: &[Request]) -> Vec<PathId> {
        let removed = |address: IpAddr| {
            requests.iter().any(|request| request.removes() && request.address == address)
        };
        let leaves = |path: &crate::path::Path| removed(path.addr().local.ip());
        let leaving = self.paths.ids(leaves);
        let mut pending = Vec::new();
        let useless = |path: &crate::path::Path| leaves(path) || path.health().is_suspended();
        if self.paths.iter().all(useless) {
            let added = requests.iter().filter(|it| it.change == AddressChange::Added);
            let added: Vec<_> = added.map(|request| request.address).collect();
            pending = self.add_sources(cx, &added);
        }
        self.remove_paths(&leaving);
        pending
    }

    /// Makes paths from `added` addresses of ours to all that the peer has, near ones first, for the
    /// ASCONF that adds them: one of them will get it there.
    pub(super) fn add_sources(&mut self, cx: &Context<'_>, added: &[IpAddr]) -> Vec<PathId> {
        let Some(anchor) = self.paths.get(self.paths.control_path()).map(|path| path.addr()) else {
            return Vec::new();
        };
        let mut pairs = Vec::new();
        for local in cx.locals.iter().filter(|local| added.contains(&local.addr.ip())) {
            for remote in pairing::by_nearness(local, self.peer_addresses) {
                let remote = SocketAddr::new(remote, anchor.remote.port());
                let pair = PathAddr { local: local.addr, remote };
                pairs.push(pairing::like_handshake(pair, &self.handshake.path));
            }
        }
        let add = |pair| self.paths.add(pair, cx.mtu(&pair), PathState::Unconfirmed, cx.config);
        pairs.into_iter().filter_map(add).collect()
    }

    /// The peer has shown who it is, and may know all of our addresses. `is_protected` tells whether packets without
    /// protection are dropped.
    pub(crate) fn reveal(&mut self, cx: &mut Context<'_>, is_protected: bool) {
        if self.handshake.is_withheld() {
            self.handshake.withheld = Withheld::UntilProtected;
            self.reveal_if_protected(cx, is_protected);
        }
    }

    /// Announces what was withheld until packets without protection are dropped: before that an answer of the peer, or what it
    /// sends to such an address, could be one. A client that resumes drops them before the peer has proved anything, which
    /// its COOKIE ACK does.
    pub(crate) fn reveal_if_protected(&mut self, cx: &mut Context<'_>, is_protected: bool) {
        let waits = self.handshake.withheld == Withheld::UntilProtected;
        if !waits || !is_protected || self.state.is_setting_up() {
            return;
        }
        self.handshake.withheld = Withheld::No;
        for local in cx.own_locals(self.realm(cx)).iter() {
            let change = AddressChange::Added;
            // It is there already, or the peer takes no changes: others go on as they are.
            let _unchanged = self.change_address(cx, change, local.addr.ip()).is_err();
        }
    }

    /// Makes paths of all pairs that have none yet. They are to be verified (rule F14).
    pub(super) fn refresh_paths(&mut self, cx: &Context<'_>) {
        let Some(changes) = &self.addresses else { return };
        let Some(anchor) = self.paths.iter().next().map(|path| path.addr()) else { return };
        let mut locals = cx.locals.to_vec();
        locals.retain(|local| changes.own.contains(&local.addr.ip()));
        let mut pairs = pairing::pairs(anchor, &locals, self.peer_addresses);
        if changes.translated {
            pairs.extend(pairing::pairs(anchor, &locals, &self.paths.confirmed_addresses()));
        }
        pairs.retain(|pair| changes.own.contains(&pair.local.ip()));
        for pair in pairs {
            // The limit of the path list is the limit of the association.
            let _too_many = self.add_path(cx, pair).is_none();
        }
    }

    /// Removes the paths from addresses that are not ours, after all.
    pub(super) fn drop_foreign_sources(&mut self) {
        let Some(changes) = &self.addresses else { return };
        let leaving = self.paths.ids(|path| !changes.own.contains(&path.addr().local.ip()));
        self.remove_paths(&leaving);
    }

    /// Makes a path of `pair`, unless there is one between the same addresses.
    pub(super) fn add_path(&mut self, cx: &Context<'_>, pair: PathAddr) -> Option<PathId> {
        let ips = |addr: &PathAddr| (addr.local.ip(), addr.remote.ip());
        if let Some(path) = self.paths.iter().find(|path| ips(&path.addr()) == ips(&pair)) {
            return Some(path.id());
        }
        let id = self.paths.add(pair, cx.mtu(&pair), PathState::Unconfirmed, cx.config)?;
        if self.state.sends_heartbeats() {
            self.begin_probing(id);
        }
        Some(id)
    }

    /// Somebody who knows both ends says that `addr` may lead to the peer: it is probed now, also if it was before, and
    /// carries data once the peer has answered there. Whether there is such a path.
    pub(crate) fn offer_path(&mut self, cx: &mut Context<'_>, addr: PathAddr) -> bool {
        let (local, remote) = (addr.local.ip(), addr.remote.ip());
        let is_known = self.peer_addresses.contains(&remote);
        let Some(changes) = self.addresses.as_mut().filter(|_| self.state.sends_heartbeats())
        else {
            return false;
        };
        // A HEARTBEAT from an address that is withheld would tell that it is of this host.
        let is_local = cx.locals.iter().any(|own| own.addr == addr.local);
        if !is_local || self.handshake.withheld != Withheld::No || !pairing::may_pair(local, remote)
        {
            return false;
        }
        if !changes.own.contains(&local) {
            changes.own.push(local);
            // The peer hears of it in the same way, not from here.
            changes.untold.push((local, true));
        }
        if !is_known {
            if self.peer_addresses.len() >= pairing::MAX_ADDRESSES
                && !self.forget_silent_address(cx)
            {
                return false;
            }
            self.peer_addresses.push(remote);
            *self.keys_changed = true;
        }
        let between = self.paths.between(addr);
        if between.iter().any(|id| self.paths.is_active(*id)) {
            return true;
        }
        let known = self.paths.by_addr(&addr);
        if let Some(path) = known.and_then(|id| self.paths.get_mut(id)) {
            path.heartbeat_mut().probe_again(cx.now);
            return true;
        }
        between.len() < super::translation::MAX_PORTS && self.add_unconfirmed(cx, addr).is_some()
    }

    /// Makes room for an address of the peer: one at which it does not answer goes. False if there is none.
    fn forget_silent_address(&mut self, cx: &mut Context<'_>) -> bool {
        let is_silent = |path: &Path| {
            matches!(path.health().state(), PathState::Unconfirmed | PathState::Inactive)
        };
        let silent = self.peer_addresses.iter().copied().find(|address| {
            self.paths.iter().filter(|path| path.addr().remote.ip() == *address).all(is_silent)
        });
        silent.is_some_and(|address| {
            self.remove_peer_address(cx, address);
            true
        })
    }

    /// The answer to an ASCONF that was sent on `pending` paths alone came over `addr`: nobody but the
    /// peer could make it, so that one works. The others were only made for the ASCONF.
    pub(super) fn confirm_pending(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        pending: &[PathId],
    ) {
        let via = self.paths.by_addr(&addr).filter(|id| pending.contains(id));
        if let Some(via) = via {
            self.path_confirmed(cx, via);
            let others: Vec<_> = pending.iter().copied().filter(|id| *id != via).collect();
            return self.remove_paths(&others);
        }
        for id in pending {
            if let Some(path) = self.paths.get_mut(*id) {
                path.heartbeat_mut().probe_now();
            }
        }
    }

    /// The peer does not have `address` any more (rule F13).
    pub(super) fn remove_peer_address(&mut self, cx: &mut Context<'_>, address: IpAddr) {
        self.peer_addresses.retain(|other| *other != address);
        let leaving = self.paths.ids(|path| path.addr().remote.ip() == address);
        self.remove_paths(&leaving);
        *self.keys_changed = true;
        let change = AddressChange::Removed;
        cx.emit(self.id, Event::PeerAddress { address, change });
    }

    /// Removes paths, of which at least one must stay. What they carried goes to the best of the
    /// others.
    pub(super) fn remove_paths(&mut self, leaving: &[PathId]) {
        let staying = self.paths.iter().filter(|path| !leaving.contains(&path.id()));
        let best = staying.min_by_key(|path| (path.health().reluctance(), path.id()));
        let Some(heir) = best.map(|path| path.id()) else { return };
        for id in leaving {
            self.remember_probing(*id);
            self.sender.hand_over(*id, heir, self.paths);
            self.control.redirect(*id, heir);
            self.paths.remove(*id, heir);
        }
        if let Some(path) = self.paths.iter().next()
            && self.paths.by_addr(&self.handshake.path).is_none()
        {
            self.handshake.path = path.addr();
        }
    }

    /// The peer prefers `address`. Whether that is one of its own.
    pub(super) fn prefer(&mut self, cx: &mut Context<'_>, address: IpAddr) -> bool {
        let Some(changes) = &mut self.addresses else { return false };
        let known = self.peer_addresses.contains(&address);
        if known {
            changes.wanted_primary = Some(address);
            self.apply_preference(cx);
        }
        known
    }

    /// The user wants `remote` to be used first. Whether it is a confirmed address of the peer.
    pub(crate) fn set_primary(&mut self, remote: IpAddr) -> bool {
        let Some(id) = self.paths.best_to(remote) else { return false };
        self.paths.set_primary(id);
        if let Some(changes) = &mut self.addresses {
            changes.wanted_primary = None;
        }
        true
    }

    /// Makes the preferred address primary as soon as it is confirmed.
    pub(super) fn apply_preference(&mut self, cx: &mut Context<'_>) {
        let wanted = self.addresses.as_ref().and_then(|changes| changes.wanted_primary);
        let Some(address) = wanted else { return };
        let Some(id) = self.paths.best_to(address) else { return };
        self.paths.set_primary(id);
        if let Some(changes) = &mut self.addresses {
            changes.wanted_primary = None;
        }
        let change = AddressChange::MadePrimary;
        cx.emit(self.id, Event::PeerAddress { address, change });
    }
}

impl PathManager<'_> {
    /// The user wants a HEARTBEAT on a path to `remote`, or on the primary path. Whether there is one.
    pub(crate) fn request_heartbeat(&mut self, remote: Option<IpAddr>) -> bool {
        if !self.state.sends_heartbeats() {
            return false;
        }
        let id = remote.map_or(Some(self.paths.primary()), |remote| self.paths.best_to(remote));
        let Some(path) = id.and_then(|id| self.paths.get_mut(id)) else { return false };
        path.heartbeat_mut().probe_now();
        true
    }
}
