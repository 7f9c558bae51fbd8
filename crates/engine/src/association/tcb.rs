//! The transmission control block (RFC 9260 section 1.3: TCB).

use super::announcement::Announcement;
use super::asconf::AddressChanges;
use super::authentication::Security;
use super::context::Context;
use super::control::ControlQueue;
use super::cookie::TieTags;
use super::path_manager::Addressing;
use super::reconfiguration::Reconfiguration;
use super::state::State;
use super::statistics::Statistics;
use super::unverified::Unverified;
use crate::config::{Announce, Config};
use crate::event::{AddressChange, AssociationId, CloseReason, Event};
use crate::path::{Path, PathAddr, PathId, PathState, Paths, pairing, scope, scope::Scopes};
use crate::recv::Receiver;
use crate::send::Sender;
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use manypath_wire::packet::CommonHeader;
use manypath_wire::{Tsn, VerificationTag};

/// The SCTP ports of an association.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ports {
    /// Ours.
    pub local: u16,
    /// The peer's.
    pub peer: u16,
}

/// One association.
#[derive(Debug)]
pub(crate) struct Association {
    pub(super) id: AssociationId,
    pub(crate) ports: Ports,
    pub(crate) handshake: Handshake,
    pub(crate) state: State,
    /// Known from the INIT ACK or the cookie on.
    pub(crate) peer: Option<Peer>,
    /// Every address the peer may send from: listed ones and those of the handshake.
    pub(super) peer_addresses: Vec<IpAddr>,
    pub(crate) paths: Paths,
    pub(crate) sender: Sender,
    pub(super) control: ControlQueue,
    pub(super) reconfiguration: Reconfiguration,
    /// Present if addresses may come and go.
    pub(super) addresses: Option<Box<AddressChanges>>,
    pub(crate) security: Security,
    pub(crate) errors: Errors,
    /// The user asked for a shutdown before the handshake was complete.
    pub(super) shutdown_wanted: bool,
    /// The path over which the last SHUTDOWN came, until T2-shutdown expires.
    pub(super) shutdown_source: Option<PathId>,
    pub(crate) notices: Notices,
    /// The endpoint must look again at the tag and the addresses.
    pub(crate) keys_changed: bool,
    /// What holds instead of the endpoint's parameters.
    pub(crate) parameters: Option<Arc<Config>>,
    pub(super) statistics: Statistics,
    pub(super) unverified: Unverified,
}

/// What the last handshake has settled.
#[derive(Debug)]
pub(crate) struct Handshake {
    /// The addresses of the first path.
    pub path: PathAddr,
    pub local_tag: VerificationTag,
    /// The TSN of our first DATA chunk.
    pub local_tsn: Tsn,
    /// We have sent the INIT.
    pub initiated: bool,
    /// Made when the first cookie needs them (section 5.2.2).
    pub tie: Option<TieTags>,
    /// Whether the peer may know our address of this path alone.
    pub withheld: Withheld,
}

/// Whether a peer may know no address of ours but that of the handshake (`Config::announce`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Withheld {
    /// It may know them all.
    No,
    /// Until it has shown who it is.
    UntilRevealed,
    /// It has done so. They are announced when neither end takes packets without protection any more.
    UntilProtected,
}

impl Withheld {
    pub(super) fn by(config: &Config) -> Self {
        match config.announce {
            Announce::All => Self::No,
            Announce::Authenticated => Self::UntilRevealed,
        }
    }
}

/// Consecutive errors of an association (section 8.1).
#[derive(Debug, Default)]
pub(crate) struct Errors {
    count: u32,
    /// When the first of them was counted.
    since: Instant,
    /// Association.Max.Retrans, if not as the configuration says.
    pub limit: Option<u32>,
}

impl Errors {
    pub(super) fn add(&mut self, now: Instant) {
        self.count += 1;
        if self.count == 1 {
            self.since = now;
        }
    }

    /// The peer is alive.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// More errors in a row than this, and the peer is given up (Association.Max.Retrans, RFC 9260 section 16).
    pub(crate) fn most(&self, config: &Config) -> u32 {
        self.limit.unwrap_or(config.association_max_retransmits)
    }

    /// Whether there were too many. The peer may be silent for as long as `patience` if the user has said nothing else.
    pub(super) fn are_too_many(&self, now: Instant, config: &Config, patience: Duration) -> bool {
        let is_patient = self.limit.is_none() && now.since(self.since) < patience;
        self.count > self.most(config) && !is_patient
    }
}

/// What the user waits for.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Bytes of the message that found the send buffer full.
    pub(super) blocked: Option<usize>,
    /// The user is to be told when all has been delivered.
    pub(super) dry_wanted: bool,
    /// A Readable event waits to be polled.
    pub(crate) readable_announced: bool,
}

/// What is known of the peer once it has spoken.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its INIT or INIT ACK.
    pub announcement: Announcement,
    /// What comes from it.
    pub receiver: Receiver,
}

impl Association {
    /// The realm of our addresses; none outside of all realms.
    pub(crate) fn realm(&self, scopes: &Scopes) -> Option<u32> {
        match &self.addresses {
            Some(changes) => changes.realm,
            None => scope::realm_of(scopes, self.handshake.path.local.ip()),
        }
    }

    /// The peer's verification tag, once known.
    pub(crate) fn peer_tag(&self) -> Option<VerificationTag> {
        self.peer.as_ref().map(|peer| peer.announcement.tag)
    }

    /// What still waits to be read when the association is over.
    pub(crate) fn into_unread(self) -> Option<Receiver> {
        self.peer.map(|peer| peer.receiver).filter(Receiver::is_readable)
    }

    /// The common header of packets to the peer. Before its tag is known, that of an INIT.
    pub(super) fn header(&self) -> CommonHeader {
        CommonHeader {
            source_port: self.ports.local,
            destination_port: self.ports.peer,
            tag: self.peer_tag().unwrap_or(VerificationTag(0)),
        }
    }

    /// The path for packets that may take any: the primary while it is Active, else the one that
    /// has failed least. Where none is confirmed, the way that the peer's SHUTDOWN took: the peer
    /// answers no HEARTBEATs any more that could confirm one.
    pub(super) fn control_path(&self) -> PathId {
        let primary = self.paths.primary();
        let source = |path: &Path| Some(path.id()) == self.shutdown_source;
        let best = self.paths.iter().min_by_key(|path| {
            let reluctance = path.reluctance();
            let wanted = path.regime().rank().map_or((1, None), |rank| (0, Some(rank)));
            let state = (path.is_suspended(), reluctance.0);
            let unproven = !path.is_confirmed() && !source(path);
            (state, wanted, unproven, reluctance.1, path.id() != primary, path.id())
        });
        best.map_or(primary, |path| path.id())
    }

    /// The path for SHUTDOWN and SHUTDOWN ACK. The latter goes to where the SHUTDOWN came from (section
    /// 6.4); repeated because T2-shutdown has expired, it takes the best path.
    pub(super) fn shutdown_path(&self) -> PathId {
        let source = self.shutdown_source.filter(|id| self.paths.get(*id).is_some());
        source.unwrap_or_else(|| self.control_path())
    }

    /// Ends the association.
    pub(super) fn close(&mut self, cx: &mut Context<'_>, reason: CloseReason) {
        if !self.state.is_closed() {
            self.state = State::Closed;
            // Who aborts reads no more.
            self.end_partial_delivery(cx, reason != CloseReason::LocalAbort);
            self.announce_undelivered(cx);
            cx.emit(self.id, Event::Closed(reason));
        }
    }

    /// The path a packet came over, if it may be the peer's. A new pair of known addresses becomes a
    /// path. A new port becomes the port of its path, or a path of its own where addresses may change, and
    /// a packet without UDP ends the encapsulation there (RFC 6951 section 5.4): the packet has our
    /// tag, so that nobody else can bring that about.
    pub(super) fn arrival_path(&mut self, cx: &Context<'_>, addr: PathAddr) -> Option<PathId> {
        if let Some(id) = self.paths.by_addr(&addr) {
            return Some(id);
        }
        if !self.peer_addresses.contains(&addr.remote.ip()) || self.is_unproven(&addr) {
            return None;
        }
        if let Some(changes) = &self.addresses
            && !changes.own.contains(&addr.local.ip())
        {
            // Data may overtake the answer that makes the address ours (RFC 5061 section 5.3).
            let added = changes.is_changing(AddressChange::Added, addr.local.ip());
            return added.then(|| self.control_path());
        }
        let local = addr.local.ip();
        let withheld = self.is_withheld() && local != self.handshake.path.local.ip();
        let is_ours =
            || cx.config.allows(local) && cx.realm_of(local) == self.realm(cx.scopes) && !withheld;
        if self.addresses.is_none() && !is_ours() {
            return None;
        }
        if self.is_leaving(addr.local.ip()) {
            return Some(self.control_path());
        }
        let accepted = !self.handshake.initiated;
        let moved = self.paths.between(addr).first().copied();
        if let Some(other) = moved.and_then(|known| self.addressing().path_of_port(cx, addr, known))
        {
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
        self.addressing().add_unconfirmed(cx, addr)
    }

    /// Whether the peer may know no address of ours but that of the handshake.
    pub(crate) fn is_withheld(&self) -> bool {
        self.handshake.withheld != Withheld::No
    }

    /// Whether a packet over `addr` may come from another user of the peer's host: the peer was asked at a privileged
    /// port, which proves who answers, and the packet comes from another port.
    pub(super) fn is_unproven(&self, addr: &PathAddr) -> bool {
        let asked = self.handshake.path.remote;
        let proves = self.handshake.initiated && pairing::is_privileged(&asked);
        proves && addr.remote.port() != asked.port()
    }

    /// Whether the peer is being told that `local` is not ours any more. It still is one where packets
    /// arrive (RFC 5061 section 5.3 rule F4).
    pub(crate) fn is_leaving(&self, local: IpAddr) -> bool {
        let changes = self.addresses.as_ref();
        changes.is_some_and(|it| it.is_changing(AddressChange::Removed, local))
    }
}

impl Addressing<'_> {
    pub(super) fn add_unconfirmed(&mut self, cx: &Context<'_>, addr: PathAddr) -> Option<PathId> {
        let mtu = cx.mtu(&addr);
        let id = self.paths.add(addr, mtu, PathState::Unconfirmed, cx.config)?;
        if self.state.sends_heartbeats() {
            self.begin_probing(id);
        }
        Some(id)
    }
}
