//! Building an association (RFC 9260 section 5.1) from either side.

use super::announcement::{
    Announcement, Identity, MAX_REFUSAL, Received, Refusal, is_interleaving, is_partially_reliable,
};
use super::authentication::Security;
use super::context::Context;
use super::control::{ControlQueue, cause_bytes};
use super::cookie::Cookie;
use super::families::Families;
use super::reconfiguration::{self, Reconfiguration};
use super::state::{CookieEchoed, CookieWait, Retry, State};
use super::statistics::Statistics;
use super::tcb::{Association, Errors, Handshake, Notices, Peer, Ports, Withheld};
use super::unverified::{LARGEST_SMALL_HEARTBEAT, Unverified};
use crate::authentication::Offer;
use crate::config::NrSack;
use crate::event::{AssociationId, CloseReason, Event};
use crate::path::{Path, PathAddr, PathId, PathState, Paths, ip_len, pairing};
use crate::protection::{Incompatible, KeyOffer, agree};
use crate::recv::Receiver;
use crate::send::Sender;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use core::net::IpAddr;
use manypath_wire::cause::{Cause, CauseWriter, Causes};
use manypath_wire::chunk::{Abort, Chunk, Dtls, InitAck, types};
use manypath_wire::packet::{CommonHeader, Packet};
use manypath_wire::parameter::Parameter;
use manypath_wire::{Tsn, VerificationTag};

/// The path of the handshake is always the first.
const HANDSHAKE: PathId = PathId(0);
/// Type, flags and length of a chunk.
const CHUNK_HEADER: usize = 4;

impl Association {
    /// An association that sends INITs over `candidates` in turn. There is at least one.
    pub(crate) fn connect(
        cx: &mut Context<'_>,
        id: AssociationId,
        ports: Ports,
        local_tag: VerificationTag,
        candidates: Vec<PathAddr>,
    ) -> Option<Self> {
        let first = *candidates.first()?;
        let local_tsn = Tsn(cx.rng.next_u32());
        let mut paths = Paths::new();
        paths.add(first, cx.mtu(&first), PathState::Active, cx.config)?;
        let state = State::CookieWait(CookieWait {
            t1: Retry::new(),
            candidates,
            current: 0,
            unreachable: Vec::new(),
        });
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
            shutdown_source: None,
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
        association.learn_paths(cx, cookie.path, &cookie.peer.addresses, cookie.listed);
        association.learn_peer(cx, cookie.peer, cookie.listed);
        association.sample_cookie(cx, created, addr);
        association.establish(cx);
        association.acknowledge_cookie(cx, addr);
        association
    }

    /// The INIT of this association.
    pub(super) fn announcement(&self, cx: &Context<'_>) -> Announcement {
        Announcement::own(cx.config, self.identity(), cx.announced(&self.handshake.path))
    }

    /// What of our INIT was drawn at random.
    pub(super) fn identity(&self) -> Identity {
        Identity {
            tag: self.handshake.local_tag,
            initial_tsn: self.handshake.local_tsn,
            auth: self.security.own_offer().cloned(),
            keys: self.security.own_key_offer().cloned(),
        }
    }

    /// Families for the INIT's Supported Address Types.
    pub(super) fn families(&self, cx: &Context<'_>) -> Families {
        let own = self.handshake.path.local.ip();
        let locals = cx.own_locals(self.realm(cx.scopes));
        let usable = |v4| {
            let mut all = locals.iter().map(|local| local.addr.ip());
            own.is_ipv4() == v4 || all.any(|ip| ip.is_ipv4() == v4 && pairing::same_scope(ip, own))
        };
        Families { ipv4: usable(true), ipv6: usable(false) }
    }

    /// The INIT was sent once, and is due again. The limit of repetitions and the back-off are those of the timer.
    pub(crate) fn repeat_init(&mut self) -> bool {
        let State::CookieWait(waiting) = &mut self.state else { return false };
        let once = waiting.t1.sends() == 1;
        if once {
            waiting.t1.send_again();
        }
        once
    }

    /// An INIT ACK arrived over `addr`.
    pub(super) fn handle_init_ack(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        ack: &InitAck<'_>,
    ) {
        let State::CookieWait(waiting) = &self.state else {
            cx.counters.unexpected_chunks += 1;
            return;
        };
        let round_trip = waiting.t1.round_trip(cx.now);
        let longest = waiting.t1.longest_round_trip(cx.now);
        if ack.tag.0 == 0 {
            return self.refuse_zero_tag(cx, addr);
        }
        match Received::from_init_ack(cx.config, ack, &addr) {
            Ok(received) if self.collides(&received.announcement) => {
                let refusal = Refusal::NoProtection(Incompatible::TieBreakers);
                let tag = received.announcement.tag;
                self.refuse_init_ack(cx, addr, tag, (refusal, CloseReason::NoProtection));
            }
            Ok(received) if self.is_adaptation_good(cx, &received.announcement) => {
                self.echo_cookie(cx, addr, received, (round_trip, longest));
            }
            Ok(_) => {
                let reason = CloseReason::NoAdaptation;
                self.refuse_init_ack(cx, addr, ack.tag, (Refusal::NotAccepting, reason));
            }
            Err(refusal @ Refusal::NoAuthentication) => {
                let reason = CloseReason::NoAuthentication;
                self.refuse_init_ack(cx, addr, ack.tag, (refusal, reason));
            }
            Err(refusal @ Refusal::NoProtection(_)) => {
                let reason = CloseReason::NoProtection;
                self.refuse_init_ack(cx, addr, ack.tag, (refusal, reason));
            }
            Err(refusal) => {
                cx.counters.protocol_violations += 1;
                let reason = CloseReason::ProtocolViolation(refusal.text());
                self.refuse_init_ack(cx, addr, ack.tag, (refusal, reason));
            }
        }
    }

    /// The path of our INIT, if `packet`, from an address that is not known, answers it: a host with
    /// several addresses may answer from another than the one that was asked, as usrsctp does over IP.
    /// It must list that one (section 5.1.2 rule D).
    pub(super) fn path_of_answer(&self, addr: &PathAddr, packet: Packet<'_>) -> Option<PathId> {
        let State::CookieWait(_) = &self.state else { return None };
        if self.is_unproven(addr) {
            return None;
        }
        let Some(Ok(Chunk::InitAck(ack))) = packet.chunks().next() else { return None };
        let asked = self.handshake.path.remote.ip();
        let is_asked = |parameter: Parameter<'_>| {
            matches!(parameter, Parameter::Ipv4Address(v4) if asked == IpAddr::from(v4))
                || matches!(parameter, Parameter::Ipv6Address(v6) if asked == IpAddr::from(v6))
        };
        ack.parameters.iter().filter_map(Result::ok).any(is_asked).then_some(HANDSHAKE)
    }

    /// Whether both ends have drawn the same tie breaker: "the association MUST be aborted" (draft section 5.1).
    fn collides(&self, peer: &Announcement) -> bool {
        agree(self.security.own_key_offer(), peer.keys.as_ref()) == Err(Incompatible::TieBreakers)
    }

    fn is_adaptation_good(&self, cx: &Context<'_>, peer: &Announcement) -> bool {
        !cx.config.require_adaptation || peer.adaptation == cx.config.adaptation
    }

    fn echo_cookie(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        mut received: Received<'_>,
        (round_trip, longest): (Option<Duration>, Duration),
    ) {
        let cookie = received.cookie.unwrap_or_default();
        let room = self.paths.iter().next().map_or(0, |path| largest_value(path.packet_size()));
        let auth =
            self.security.auth_len_to(received.announcement.auth.as_ref(), types::COOKIE_ECHO);
        if cookie.len() + auth > room {
            let reason = CloseReason::ProtocolViolation("cookie too large for one packet");
            let refusal = (Refusal::OutOfResource, reason);
            return self.refuse_init_ack(cx, addr, received.announcement.tag, refusal);
        }
        received.report_unoffered(cx.config);
        let report = joined(&received.unrecognized);
        let (t1, cookie) = (Retry::new(), cookie.to_vec());
        // The handshake's own path carries the original.
        let next_copy = (cx.config.cookie_race && cx.config.multipath).then_some(1);
        let echoed = CookieEchoed { t1, cookie, report, next_copy };
        // The list of paths begins anew where an earlier INIT than the last one, over other addresses, is answered.
        let answered = self.paths.by_addr(&addr).and_then(|id| self.paths.get(id));
        let counted = answered.map(|path| *path.stats());
        self.learn_paths(cx, addr, &received.announcement.addresses, None);
        if let Some((path, counted)) = self.paths.get_mut(HANDSHAKE).zip(counted) {
            *path.stats_mut() = counted;
        }
        self.learn_peer(cx, received.announcement, None);
        self.paths.sample(cx.now, HANDSHAKE, round_trip);
        // An INIT may be repeated sooner than the path answers. Data must not be.
        if let Some(path) = self.paths.get_mut(HANDSHAKE) {
            path.rtt_mut().allow_for(longest);
        }
        self.state = State::CookieEchoed(echoed);
    }

    /// A COOKIE ACK arrived over `via`: it answers what was sent there.
    pub(super) fn handle_cookie_ack(&mut self, cx: &mut Context<'_>, via: PathId) {
        let State::CookieEchoed(echoed) = &self.state else {
            // Each copy is answered.
            let awaited = self.handshake.initiated && cx.config.cookie_race;
            cx.counters.unexpected_chunks += u64::from(!awaited);
            return;
        };
        let sent = echoed.t1.sends().saturating_sub(1);
        let path = if echoed.next_copy.is_some() { via } else { self.echo_path(sent) };
        let round_trip = echoed.t1.round_trip(cx.now);
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
        self.leave_room_for_auth();
        self.addresses = None;
        let candidates = alloc::vec![self.handshake.path];
        let unreachable = Vec::new();
        self.state = State::CookieWait(CookieWait { t1, candidates, current: 0, unreachable });
    }

    /// The handshake is complete.
    pub(super) fn establish(&mut self, cx: &mut Context<'_>) {
        self.state = State::Established;
        self.errors.clear();
        self.start_ecn(cx);
        self.emit_connected(cx);
        self.announce_dry(cx);
        self.security.announce_authentication(cx, self.id);
        self.path_manager().start_heartbeats(cx);
        self.reveal_if_protected(cx);
        if self.shutdown_wanted {
            self.state = State::ShutdownPending;
        }
    }

    /// The time from INIT ACK to COOKIE ECHO is a round trip, which the cookie has kept. It comes out
    /// too long if the COOKIE ECHO is a repetition, but still below RTO.Initial it tells more.
    ///
    /// Where it has come over another path, `via`, half of it was not the handshake's path. A copy that came sooner than
    /// the original came over a faster path, so that the round trip is at least as long and at most twice that.
    pub(super) fn sample_cookie(&mut self, cx: &Context<'_>, created: Instant, via: PathAddr) {
        let time = cx.now.since(created);
        if time >= cx.config.rto_initial {
            return;
        }
        if via == self.handshake.path {
            self.paths.sample(cx.now, HANDSHAKE, Some(time));
        } else if let Some(path) = self.paths.get_mut(HANDSHAKE) {
            path.rtt_mut().suppose(time);
        }
    }

    /// The COOKIE ECHO comes over `via` after a copy of it. It is a sample as above if it is the original.
    pub(super) fn sample_original(&mut self, cx: &Context<'_>, created: Instant, via: PathAddr) {
        let is_measured = |path: &Path| path.rtt().least().is_some();
        if via == self.handshake.path && !self.paths.get(HANDSHAKE).is_some_and(is_measured) {
            self.sample_cookie(cx, created, via);
        }
    }

    /// A COOKIE ACK goes back to where the COOKIE ECHO came from.
    pub(super) fn acknowledge_cookie(&mut self, cx: &Context<'_>, addr: PathAddr) {
        let via = self.arrival_path(cx, addr).unwrap_or(self.paths.primary());
        self.control.push_cookie_ack(via);
    }

    /// Takes over what the peer said about itself. `told` is how many of our addresses it was told, if not all.
    pub(super) fn learn_peer(
        &mut self,
        cx: &mut Context<'_>,
        announcement: Announcement,
        told: Option<u8>,
    ) {
        self.end_partial_delivery(cx, true);
        let inbound = announcement.outbound_streams.min(cx.config.max_inbound_streams());
        let outbound = announcement.inbound_streams.min(cx.config.streams);
        let dropped = self.sender.set_peer(announcement.a_rwnd, outbound);
        cx.counters.messages_without_stream += dropped as u64;
        let nr_sack = cx.config.nr_sack.agreed(&announcement.extensions);
        let mut receiver = Receiver::new(cx.config, announcement.initial_tsn, inbound, nr_sack);
        if is_interleaving(cx.config, &announcement) {
            receiver.interleave();
            self.sender.interleave();
        }
        self.security.agree_on_keys(cx, self.id, announcement.keys.as_ref());
        let protected = self.security.key_agreement().is_some();
        let auth = announcement.auth.as_ref().filter(|_| !protected);
        self.security.agree_on_authentication(auth);
        self.leave_room_for_auth();
        if protected {
            self.sender.leave_room(Dtls::OVERHEAD);
        }
        self.sender.set_non_renegable(nr_sack != NrSack::Off);
        if is_partially_reliable(cx.config, &announcement) {
            receiver.expect_forward_tsn();
            self.sender.allow_abandoning();
        }
        let agreed = reconfiguration::is_agreed(cx.config, &announcement.extensions);
        self.reconfiguration =
            Reconfiguration::new(agreed, self.handshake.local_tsn, announcement.initial_tsn);
        self.agree_on_address_changes(cx, &announcement, told);
        self.peer = Some(Peer { announcement, receiver });
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
        self.keys_changed = true;
        self.handshake.path = handshake;
        self.peer_addresses = alloc::vec![handshake.remote.ip()];
        for address in listed {
            if !self.peer_addresses.contains(address) {
                self.peer_addresses.push(*address);
            }
        }
        let fits = self.paths.iter().next().is_some_and(|path| path.addr() == handshake);
        if !fits {
            self.paths = self.paths.emptied();
        }
        let locals = self.told_locals(cx, told);
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
    }

    /// The path of the COOKIE ECHO after `sent` earlier ones: repetitions take the paths in turn, as
    /// far as the cookie fits, on an unconfirmed path together with a HEARTBEAT (section 5.4).
    pub(super) fn echo_path(&self, sent: u32) -> PathId {
        let State::CookieEchoed(echoed) = &self.state else { return HANDSHAKE };
        let turn = sent as usize % self.paths.len().max(1);
        self.takes_cookie(turn, echoed.cookie.len(), false).unwrap_or(HANDSHAKE)
    }

    /// The path at a place in the list, if a COOKIE ECHO with so long a cookie may leave there. Of what may be sent to
    /// unverified addresses a copy leaves enough for two HEARTBEATs to each.
    pub(super) fn takes_cookie(&self, place: usize, cookie: usize, copy: bool) -> Option<PathId> {
        let path = self.paths.iter().nth(place)?;
        let auth = self.security.auth_len(types::COOKIE_ECHO);
        let heartbeat =
            LARGEST_SMALL_HEARTBEAT + self.security.auth_len(types::HEARTBEAT).max(auth);
        let beside = if path.is_confirmed() { auth } else { heartbeat };
        let value = cookie.next_multiple_of(4) + beside;
        let packet = CommonHeader::LEN + CHUNK_HEADER + value;
        let unverified = self.paths.iter().filter(|path| copy && !path.is_verified()).count();
        let probe = ip_len(&path.addr(), CommonHeader::LEN + LARGEST_SMALL_HEARTBEAT);
        let kept = 2 * unverified * probe;
        let affords = self.affords(path.id(), packet + kept);
        let fits = value <= largest_value(path.packet_size()) && affords;
        fits.then_some(path.id())
    }

    fn leave_room_for_auth(&mut self) {
        let data = if self.sender.is_interleaving() { types::I_DATA } else { types::DATA };
        if self.security.offers_authentication() {
            self.sender.leave_room(self.security.auth_len(data));
        }
    }

    fn emit_connected(&self, cx: &mut Context<'_>) {
        let Some(peer) = &self.peer else { return };
        let announcement = &peer.announcement;
        let event = Event::Connected {
            initiated: self.handshake.initiated,
            adaptation: announcement.adaptation,
            outbound_streams: announcement.inbound_streams.min(cx.config.streams),
            inbound_streams: announcement.outbound_streams.min(cx.config.max_inbound_streams()),
        };
        cx.emit(self.id, event);
    }

    /// "it MUST destroy the TCB and SHOULD send an ABORT chunk with the T bit set" (section 3.3.3).
    fn refuse_zero_tag(&mut self, cx: &mut Context<'_>, addr: PathAddr) {
        let header = CommonHeader { tag: self.handshake.local_tag, ..self.header() };
        let causes = cause_bytes(&Cause::InvalidMandatoryParameter);
        let abort = Abort { tag_reflected: true, causes: Causes::from_bytes(&causes) };
        cx.reply(addr, header, &Chunk::Abort(abort));
        cx.counters.protocol_violations += 1;
        self.close(cx, CloseReason::ProtocolViolation("INIT ACK with a zero tag"));
    }

    fn refuse_init_ack(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        tag: VerificationTag,
        (refusal, reason): (Refusal<'_>, CloseReason),
    ) {
        let header = CommonHeader { tag, ..self.header() };
        reply_refusal(cx, addr, header, refusal);
        self.close(cx, reason);
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

/// The longest value of a chunk that is alone in a packet of `size` bytes.
fn largest_value(size: usize) -> usize {
    size.saturating_sub(CommonHeader::LEN + CHUNK_HEADER)
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
