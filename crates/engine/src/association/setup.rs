//! Building an association (RFC 9260 section 5.1) from either side.

use super::addresses::agreed_changes;
use super::announcement::{
    Announcement, MAX_REFUSAL, Received, Refusal, is_interleaving, is_partially_reliable,
};
use super::authentication::Security;
use super::context::Context;
use super::control::ControlQueue;
use super::cookie::Cookie;
use super::cookie_paths::{HANDSHAKE, largest_value};
use super::ecn;
use super::handshake::{Handshake, Withheld};
use super::reconfiguration::{self, Reconfiguration};
use super::state::{CookieEchoed, CookieWait, Retry, State};
use super::statistics::Statistics;
use super::tcb::{Association, Errors, Peer, Ports};
use super::unverified::Unverified;
use super::user::{Notices, end_partial_delivery};
use crate::authentication::Offer;
use crate::config::NrSack;
use crate::event::{AssociationId, CloseReason};
use crate::path::{PathAddr, PathId, PathState, Paths};
use crate::protection::{Incompatible, KeyOffer};
use crate::recv::Receiver;
use crate::send::Sender;
use alloc::vec::Vec;
use manypath_wire::cause::{CauseWriter, Causes};
use manypath_wire::chunk::{Abort, Chunk, Dtls, InitAck, types};
use manypath_wire::packet::CommonHeader;
use manypath_wire::{Tsn, VerificationTag};

impl Association {
    /// An association that sends INITs over `candidates` in turn, of which there is at least one: over the first
    /// `together` at once.
    pub(crate) fn connect(
        cx: &mut Context<'_>,
        id: AssociationId,
        ports: Ports,
        local_tag: VerificationTag,
        (candidates, together): (Vec<PathAddr>, usize),
    ) -> Option<Self> {
        let first = *candidates.first()?;
        let local_tsn = Tsn(cx.rng.next_u32());
        let mut paths = Paths::new();
        paths.add(first, cx.mtu(&first), PathState::Active, cx.config)?;
        let state = State::CookieWait(CookieWait::new(candidates, together, Retry::new()));
        let sender = Sender::new(cx.config, local_tsn, 0, cx.config.streams);
        let own = (Offer::own(cx.config, cx.rng), KeyOffer::of_init(cx.config, cx.rng));
        let mut association = Self::new(cx, id, ports, (local_tag, local_tsn), first, sender, own);
        association.handshake.initiated = true;
        let peer_addresses = alloc::vec![first.remote.ip()];
        Some(Self { state, peer_addresses, paths, ..association })
    }

    /// An established association without paths that has not learnt about its peer. `own` is what it offers about
    /// authentication and key management.
    pub(super) fn new(
        cx: &Context<'_>,
        id: AssociationId,
        ports: Ports,
        (local_tag, local_tsn): (VerificationTag, Tsn),
        path: PathAddr,
        sender: Sender,
        (auth, keys): (Option<Offer>, Option<KeyOffer>),
    ) -> Self {
        Self {
            id,
            ports,
            handshake: Handshake {
                path,
                local_tag,
                local_tsn,
                initiated: false,
                copied: false,
                tie: None,
                withheld: Withheld::by(cx.config),
            },
            state: State::Established,
            peer: None,
            peer_addresses: Vec::new(),
            paths: Paths::new(),
            sender,
            control: ControlQueue::default(),
            reconfiguration: Reconfiguration::default(),
            addresses: None,
            security: Security::new(auth, keys, cx.shared_keys),
            errors: Errors::default(),
            shutdown_wanted: false,
            notices: Notices::default(),
            keys_changed: true,
            parameters: None,
            statistics: Statistics::default(),
            unverified: Unverified::default(),
        }
    }

    /// The association that a valid cookie describes (section 5.1.5 step 5).
    /// The COOKIE ECHO came over `addr`, where its answer goes.
    pub(crate) fn accept(
        cx: &mut Context<'_>,
        id: AssociationId,
        cookie: Cookie,
        addr: PathAddr,
    ) -> Self {
        let ports = Ports { local: cookie.local_port, peer: cookie.peer_port };
        let outbound = cookie.peer.inbound_streams.min(cx.config.streams);
        let auth = cookie.auth.or_else(|| Offer::own(cx.config, cx.rng));
        let own = (auth, cookie.keys);
        let sender = Sender::new(cx.config, cookie.local_tsn, cookie.peer.a_rwnd, outbound);
        let own_identity = (cookie.local_tag, cookie.local_tsn);
        let mut association = Self::new(cx, id, ports, own_identity, cookie.path, sender, own);
        let created = cookie.created;
        association.addressing().learn_paths(
            cx,
            cookie.path,
            &cookie.peer.addresses,
            cookie.listed,
        );
        association.learn_peer(cx, cookie.peer, cookie.listed);
        association.handshake.sample_cookie(cx, &mut association.paths, created, addr);
        association.establish(cx);
        association.addressing().acknowledge_cookie(cx, addr);
        association
    }

    /// An INIT ACK arrived over `addr`.
    pub(super) fn handle_init_ack(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        ack: &InitAck<'_>,
    ) {
        let State::CookieWait(waiting) = &self.state else {
            let is_late = self.handshake.copied;
            cx.counters.late_init_acks += u64::from(is_late);
            cx.counters.unexpected_chunks += u64::from(!is_late);
            return;
        };
        let t1 = waiting.t1.clone();
        if ack.tag.0 == 0 {
            return self.ending().refuse_zero_tag(cx, addr);
        }
        match Received::from_init_ack(cx.config, ack, &addr) {
            Ok(received) if self.security.collides(&received.announcement) => {
                let refusal = Refusal::NoProtection(Incompatible::TieBreakers);
                let tag = received.announcement.tag;
                self.ending().refuse_init_ack(cx, addr, tag, (refusal, CloseReason::NoProtection));
            }
            Ok(received) if is_adaptation_good(cx, &received.announcement) => {
                self.echo_cookie(cx, addr, received, &t1);
            }
            Ok(_) => {
                let reason = CloseReason::NoAdaptation;
                self.ending().refuse_init_ack(cx, addr, ack.tag, (Refusal::NotAccepting, reason));
            }
            Err(refusal @ Refusal::NoAuthentication) => {
                let reason = CloseReason::NoAuthentication;
                self.ending().refuse_init_ack(cx, addr, ack.tag, (refusal, reason));
            }
            Err(refusal @ Refusal::NoProtection(_)) => {
                let reason = CloseReason::NoProtection;
                self.ending().refuse_init_ack(cx, addr, ack.tag, (refusal, reason));
            }
            Err(refusal) => {
                cx.counters.protocol_violations += 1;
                let reason = CloseReason::ProtocolViolation(refusal.text());
                self.ending().refuse_init_ack(cx, addr, ack.tag, (refusal, reason));
            }
        }
    }

    fn echo_cookie(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        mut received: Received<'_>,
        init: &Retry,
    ) {
        let cookie = received.cookie.unwrap_or_default();
        let answered = self.paths.by_addr(&addr).and_then(|id| self.paths.get(id));
        let room = answered.or_else(|| self.paths.iter().next());
        let room = room.map_or(0, |path| largest_value(path.packet_size()));
        let auth =
            self.security.auth_len_to(received.announcement.auth.as_ref(), types::COOKIE_ECHO);
        if cookie.len() + auth > room {
            let reason = CloseReason::ProtocolViolation("cookie too large for one packet");
            let refusal = (Refusal::OutOfResource, reason);
            return self.ending().refuse_init_ack(cx, addr, received.announcement.tag, refusal);
        }
        received.report_unoffered(cx.config);
        let report = joined(&received.unrecognized);
        let (t1, cookie) = (Retry::new(), cookie.to_vec());
        // The handshake's own path carries the original.
        let next_copy = (cx.config.handshake_race && cx.config.multipath).then_some(1);
        let echoed = CookieEchoed { t1, cookie, report, next_copy };
        // The list of paths begins anew where INITs have left over several. What has passed on those that stay counts.
        let counted: Vec<_> = self.paths.iter().map(|path| (path.addr(), *path.stats())).collect();
        self.addressing().learn_paths(cx, addr, &received.announcement.addresses, None);
        for (addr, counted) in counted {
            let path = self.paths.by_addr(&addr).and_then(|id| self.paths.get_mut(id));
            path.into_iter().for_each(|path| *path.stats_mut() = counted);
        }
        self.learn_peer(cx, received.announcement, None);
        if let Some(path) = self.paths.get_mut(HANDSHAKE) {
            init.note_answer(cx.now, path.rtt_mut());
        }
        self.state = State::CookieEchoed(echoed);
    }

    /// A COOKIE ACK arrived over `via`: it answers what was sent there.
    pub(super) fn handle_cookie_ack(&mut self, cx: &mut Context<'_>, via: PathId) {
        let State::CookieEchoed(echoed) = &self.state else {
            // Each copy is answered.
            let awaited = self.handshake.initiated && cx.config.handshake_race;
            cx.counters.unexpected_chunks += u64::from(!awaited);
            return;
        };
        let (sent, cookie) = (echoed.t1.sends().saturating_sub(1), echoed.cookie.len());
        let (copied, round_trip) = (echoed.next_copy.is_some(), echoed.t1.round_trip(cx.now));
        let path = if copied { via } else { self.packets().echo_path(sent, cookie) };
        self.paths.sample(cx.now, path, round_trip);
        self.establish(cx);
    }

    /// The peer did not accept our cookie because it came too late: begin anew with another INIT
    /// (section 5.2.6 alternative 1). The attempts made so far still count. DATA that came with the
    /// cookie was discarded with it.
    pub(super) fn handle_stale_cookie(&mut self) {
        let State::CookieEchoed(echoed) = &self.state else { return };
        let mut t1 = echoed.t1.clone();
        t1.send_again();
        for id in self.paths.ids(|path| path.in_flight() > 0) {
            self.sender.handle_t3(id, &mut self.paths);
        }
        // What the peer said belongs to the cookie that it has just refused.
        self.peer = None;
        self.keys_changed = true;
        self.security.protection.iter_mut().for_each(|protection| protection.revoke());
        self.security.agree_on_authentication(None);
        self.security.leave_room(&mut self.sender);
        self.addresses = None;
        // Data may be in flight on the paths: they are no longer those of copies of the INIT alone.
        self.handshake.copied = false;
        let candidates = alloc::vec![self.handshake.path];
        self.state = State::CookieWait(CookieWait::new(candidates, 1, t1));
    }

    /// The handshake is complete.
    pub(super) fn establish(&mut self, cx: &mut Context<'_>) {
        self.state = State::Established;
        self.errors.clear();
        ecn::start(cx, &mut self.paths, self.peer.as_ref());
        let initiated = self.handshake.initiated;
        let mut upper_layer = self.upper_layer();
        upper_layer.announce_connected(cx, initiated);
        upper_layer.announce_dry(cx);
        self.security.announce_authentication(cx, self.id);
        self.path_manager().start_heartbeats(cx);
        let is_protected = self.security.requires_protection();
        self.addressing().reveal_if_protected(cx, is_protected);
        if self.shutdown_wanted {
            self.state = State::ShutdownPending;
        }
    }

    /// Takes over what the peer said about itself. `told` is how many of our addresses it was told, if not all.
    pub(super) fn learn_peer(
        &mut self,
        cx: &mut Context<'_>,
        announcement: Announcement,
        told: Option<u8>,
    ) {
        end_partial_delivery(cx, self.id, &mut self.peer, true);
        let inbound = announcement.outbound_streams.min(cx.config.max_inbound_streams());
        let outbound = announcement.inbound_streams.min(cx.config.streams);
        let nr_sack = cx.config.nr_sack.agreed(&announcement.extensions);
        let non_renegable = nr_sack != NrSack::Off;
        let dropped = self.sender.set_peer(announcement.a_rwnd, outbound, non_renegable);
        cx.counters.messages_without_stream += dropped as u64;
        let mut receiver = Receiver::new(cx.config, announcement.initial_tsn, inbound, nr_sack);
        if is_interleaving(cx.config, &announcement) {
            receiver.interleave();
            self.sender.interleave();
        }
        self.security.agree_on_keys(cx, self.id, announcement.keys.as_ref());
        let protected = self.security.key_agreement().is_some();
        let auth = announcement.auth.as_ref().filter(|_| !protected);
        self.security.agree_on_authentication(auth);
        self.security.leave_room(&mut self.sender);
        if protected {
            self.sender.fragmentation_mut().leave_room(Dtls::OVERHEAD);
        }
        if is_partially_reliable(cx.config, &announcement) {
            receiver.expect_forward_tsn();
            self.sender.allow_abandoning();
        }
        let agreed = reconfiguration::is_agreed(cx.config, &announcement.extensions);
        self.reconfiguration =
            Reconfiguration::new(agreed, self.handshake.local_tsn, announcement.initial_tsn);
        let is_authentic = self.security.is_authenticating() || protected;
        self.addresses = agreed_changes(cx, &self.handshake, &announcement, (is_authentic, told));
        self.peer = Some(Peer { announcement, receiver });
    }
}

/// Answers an INIT or INIT ACK by an ABORT that says why.
pub(crate) fn reply_refusal(
    cx: &mut Context<'_>,
    addr: PathAddr,
    header: CommonHeader,
    refusal: Refusal<'_>,
) {
    let mut buffer = [0; MAX_REFUSAL];
    let mut causes = CauseWriter::new(&mut buffer);
    // Every refusal fits into the buffer.
    let _no_room = refusal.write(&mut causes).is_err();
    let used = causes.finish();
    let abort = Abort { tag_reflected: false, causes: Causes::from_bytes(&buffer[..used]) };
    cx.reply(addr, header, &Chunk::Abort(abort));
}

/// Parameters one after the other, each padded to 4 bytes.
fn joined(parameters: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for parameter in parameters {
        bytes.extend_from_slice(parameter);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

fn is_adaptation_good(cx: &Context<'_>, peer: &Announcement) -> bool {
    !cx.config.require_adaptation || peer.adaptation == cx.config.adaptation
}
