//! Paths behind a NAT, where the peer does not know our addresses, or not the port of the moment.
//!
//! * The peer of a host behind a NAT hears it from an address that nobody has told it. A request to
//!   add the source of its own packet, whatever that is, tells it (the wildcard of RFC 5061 section
//!   4.2.1); it is authentic, and the path is verified before it carries data.
//! * A NAT that forgets a mapping lets the host appear at another port (RFC 6951 section 5.4). That is
//!   a path to be verified as well: the old one is left when the new one has proved to work.
//! * A peer behind a NAT lists addresses that mean something there alone. They are verified as any others, for it may
//!   be a neighbour; where nobody answers they are not used any more. The peer can still introduce itself from there.
//! * An address that means nothing to the peer is not told it at all, and introduces itself in the same way at once.
//! * A host that only receives sends nothing by which a forgotten mapping would come back. So it
//!   probes a path on which data has ceased to arrive.

use super::addresses::AddressError;
use super::asconf::{AddressChanges, Request};
use super::context::Context;
use super::path_manager::{Addressing, PathManager};
use crate::event::AddressChange;
use crate::path::pairing::MAX_ADDRESSES;
use crate::path::{Path, PathAddr, PathId, PathState};
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use core::net::IpAddr;

/// How long after the last data a path is probed: before the peer, told by the NAT that nobody
/// listens, gives up.
pub(super) const QUIET: Duration = Duration::from_millis(500);
/// Most paths between the same two addresses.
pub(super) const MAX_PORTS: usize = 4;

impl Addressing<'_> {
    /// A HEARTBEAT on the path `id` was not answered. If none ever was, the peer may not know where they
    /// come from. An address at which it has never been heard may be somebody else's: nothing goes there.
    pub(super) fn introduce(&mut self, id: PathId) {
        let unknown =
            |path: &&Path| path.health().is_unheard() && path.health().errors().is_power_of_two();
        let Some(path) = self.paths.get(id).filter(unknown) else { return };
        let remote = path.addr().remote.ip();
        if !self.paths.active().any(|other| other.addr().remote.ip() == remote) {
            return;
        }
        let local = path.addr().local.ip();
        if let Some(changes) = &mut self.addresses {
            changes.request_source(local, id);
        }
    }

    /// Changes an address that the peer is not told. One that comes introduces itself; the paths of one that goes
    /// fail at the peer.
    pub(super) fn change_untold(
        &mut self,
        cx: &Context<'_>,
        request: Request,
    ) -> Result<(), AddressError> {
        let Some(changes) = &mut self.addresses else { return Err(AddressError::NotSupported) };
        let Request { change, address, .. } = request;
        match change {
            AddressChange::MadePrimary => return Err(AddressError::UnknownAddress),
            AddressChange::Removed => changes.forget_untold(address),
            AddressChange::Added => {
                changes.own.push(address);
                changes.untold.push((address, false));
                self.refresh_paths(cx);
            }
        }
        self.drop_foreign_sources();
        Ok(())
    }

    /// The next address that the peer is not told introduces itself, over its first path to where the peer is.
    pub(super) fn introduce_untold(&mut self) {
        let Some(changes) = &self.addresses else { return };
        let all = changes.untold.iter().all(|(_, introduced)| *introduced);
        if all || changes.is_busy() || !self.state.sends_data() {
            return;
        }
        let reached = |remote| self.paths.active().any(|path| path.addr().remote.ip() == remote);
        let next = self.paths.iter().find(|path| {
            let new = changes.untold.contains(&(path.addr().local.ip(), false));
            new && path.health().is_unheard() && reached(path.addr().remote.ip())
        });
        let Some((local, id)) = next.map(|path| (path.addr().local.ip(), path.id())) else {
            return;
        };
        if let Some(changes) = &mut self.addresses {
            changes.untold.iter_mut().filter(|own| own.0 == local).for_each(|own| own.1 = true);
            changes.request_source(local, id);
        }
    }

    /// The path `id` was probed in vain. If that is over (more errors than Path.Max.Retrans), and nobody has ever
    /// answered at its address, an address of a peer behind a NAT is taken for one that means nothing here.
    pub(super) fn drop_unreached(&mut self, cx: &Context<'_>, id: PathId) {
        let Some(address) = self.paths.get(id).map(|path| path.addr().remote.ip()) else { return };
        let hopeless = |path: &Path| {
            let limit = path.health().supervision(cx.config).max_retransmits;
            path.health().is_unheard() && path.health().errors() > limit
        };
        let to = || self.paths.iter().filter(|path| path.addr().remote.ip() == address);
        let is_last = self.peer_addresses.iter().all(|other| *other == address);
        if is_last || !to().all(hopeless) {
            return;
        }
        let leaving = self.paths.ids(|path| path.addr().remote.ip() == address);
        let Some(changes) = self.addresses.as_mut().filter(|changes| changes.translated) else {
            return;
        };
        if changes.unreached.len() < MAX_ADDRESSES {
            changes.unreached.push(address);
        }
        self.peer_addresses.retain(|other| *other != address);
        self.remove_paths(&leaving);
        self.refresh_paths(cx);
    }

    /// A packet with our tag came from the address of the path `known`, but from another port. It stays
    /// that path's only while it is not verified; otherwise it is another one.
    pub(super) fn path_of_port(
        &mut self,
        cx: &Context<'_>,
        addr: PathAddr,
        known: PathId,
    ) -> Option<PathId> {
        let same = self.paths.between(addr).len();
        let is_new = self.paths.get(known).is_some_and(|path| path.health().is_confirmed());
        let udp = addr.remote.port() != 0;
        match self.addresses.is_some() && is_new && udp && same < MAX_PORTS {
            true => self.add_unconfirmed(cx, addr),
            false => None,
        }
    }

    /// The path `id` has proved to work. Those between the same addresses, from ports of before, have to
    /// do so again, and those that have failed are over.
    pub(super) fn leave_other_ports(&mut self, cx: &mut Context<'_>, id: PathId) {
        let Some(addr) = self.paths.get(id).map(|path| path.addr()) else { return };
        let others = self.paths.between(addr).into_iter().filter(|other| *other != id);
        let (failed, doubtful): (Vec<_>, Vec<_>) = others.partition(|other| {
            self.paths.get(*other).is_some_and(|path| path.health().state() == PathState::Inactive)
        });
        for other in doubtful {
            if self.paths.is_active(other) {
                self.path_manager().set_path_state(cx, other, PathState::PotentiallyFailed);
            }
        }
        if !failed.is_empty() {
            self.remove_paths(&failed);
        }
    }

    /// The path `id` has failed: if another one leads to the same address, it is over.
    pub(super) fn drop_forgotten_port(&mut self, id: PathId) {
        let Some(path) = self.paths.get(id).filter(|it| it.health().state() == PathState::Inactive)
        else {
            return;
        };
        if self.paths.between(path.addr()).iter().any(|id| self.paths.is_active(*id)) {
            self.remove_paths(&[id]);
        }
    }

    /// Data came over `via`.
    pub(super) fn note_arrival(&mut self, now: Instant, via: PathId) {
        if self.addresses.is_some()
            && self.state.sends_heartbeats()
            && let Some(path) = self.paths.get_mut(via)
        {
            path.arrivals_mut().watch(now);
        }
    }
}

impl PathManager<'_> {
    /// Probes the paths over which no more data comes. Where our own is in flight, T3-rtx will tell.
    pub(super) fn probe_quiet_paths(&mut self, now: Instant) {
        let heartbeats = self.state.sends_heartbeats();
        for path in self.paths.iter_mut() {
            let is_quiet = path.arrivals().watched().is_some_and(|last| last + QUIET <= now);
            if is_quiet {
                path.arrivals_mut().end_watch();
            }
            if is_quiet && heartbeats && !path.health().is_suspended() && path.in_flight() == 0 {
                path.heartbeat_mut().probe_again(now);
            }
        }
    }
}

impl AddressChanges {
    /// An address of which the peer was not told is not ours any more.
    pub(super) fn forget_untold(&mut self, address: IpAddr) {
        self.own.retain(|own| *own != address);
        self.untold.retain(|(own, _)| *own != address);
    }

    /// Whether the peer is never told an address of ours.
    pub(super) fn is_untold(&self, address: IpAddr) -> bool {
        self.untold.iter().any(|(own, _)| *own == address)
    }
}
