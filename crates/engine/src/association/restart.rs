//! INIT and COOKIE ECHO when an association exists already: collision, restart, duplicates
//! (RFC 9260 section 5.2).

use super::announcement::{Identity, Received, address_parameter};
use super::context::Context;
use super::control::cause_bytes;
use super::cookie::{Cookie, TieTags};
use super::ecn;
use super::state::State;
use super::tcb::Association;
use super::user::announce_undelivered;
use crate::authentication::Offer;
use crate::event::Event;
use crate::path::PathAddr;
use crate::protection::EpochKeys;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use manypath_wire::VerificationTag;
use manypath_wire::cause::{Cause, Causes};
use manypath_wire::chunk::{Abort, Chunk, Error};
use manypath_wire::packet::CommonHeader;
use manypath_wire::parameter::ParameterWriter;

/// What an INIT for an existing association is answered with.
#[derive(Debug, Default)]
pub(crate) enum InitAnswer {
    /// An INIT ACK over `path` with this identity of ours, and these tie-tags in its cookie.
    Ack {
        /// Our tag, initial TSN and so on; None for fresh ones.
        identity: Option<Box<Identity>>,
        /// Tie-tags for the cookie.
        tie: TieTags,
        /// Where it goes.
        path: PathAddr,
    },
    /// Nothing more: the association has seen to it.
    #[default]
    Done,
}

/// The rows of table 12 (section 5.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CookieAction {
    /// A: the peer has restarted.
    Restart,
    /// B: both sides set up at the same time.
    Collision,
    /// C, and every case that the table does not show.
    Discard,
    /// D: the tags are those of the association.
    Duplicate,
}

/// Decides what a valid cookie means for an association with the tags `local` and `peer` and the
/// tie-tags `tie` (table 12).
pub(crate) fn judge(
    cookie: &Cookie,
    local: VerificationTag,
    peer: Option<VerificationTag>,
    tie: Option<TieTags>,
) -> CookieAction {
    let local_matches = cookie.local_tag == local;
    let peer_matches = peer == Some(cookie.peer.tag);
    let ties_match = cookie.tie != TieTags::NONE && tie == Some(cookie.tie);
    match (local_matches, peer_matches) {
        (true, true) => CookieAction::Duplicate,
        (true, false) => CookieAction::Collision,
        (false, false) if ties_match && peer.is_some() => CookieAction::Restart,
        (false, true | false) => CookieAction::Discard,
    }
}

/// What a valid cookie means for `association`.
pub(super) fn action(association: &Association, cookie: &Cookie) -> CookieAction {
    let (local, tie) = (association.handshake.local_tag, association.handshake.tie);
    judge(cookie, local, association.peer_tag(), tie)
}

impl Association {
    /// An INIT arrived over `addr` that names an address of this association (sections 5.2.1, 5.2.2
    /// and 9.2).
    pub(crate) fn answer_init(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        init: &Received<'_>,
    ) -> InitAnswer {
        if self.handshake.is_unproven(&addr) {
            cx.counters.unknown_addresses += 1;
            return InitAnswer::Done;
        }
        let own = Some(Box::new(self.handshake.identity(&self.security)));
        match self.state {
            State::CookieWait(_) => {
                // The answer must go to an address that the user named (section 5.2.1 rule 1).
                let named = self.peer_addresses.contains(&addr.remote.ip());
                let path = if named { addr } else { self.handshake.path };
                InitAnswer::Ack { identity: own, tie: TieTags::NONE, path }
            }
            State::ShutdownAckSent(_) => {
                let _repeated = self.state.repeat_shutdown_ack();
                InitAnswer::Done
            }
            State::CookieEchoed(_)
            | State::Established
            | State::ShutdownPending
            | State::ShutdownSent(_)
            | State::ShutdownReceived => {
                let added = added_addresses(&self.peer_addresses, addr, init);
                // A late copy of this association's INIT is no restart, which would have a new tag. An ABORT would end the
                // association at its sender, whose copy came by a proxy with another address.
                if !added.is_empty() && self.peer_tag() == Some(init.announcement.tag) {
                    cx.counters.unexpected_chunks += 1;
                    return InitAnswer::Done;
                }
                if !added.is_empty() {
                    let header = CommonHeader { tag: init.announcement.tag, ..self.header() };
                    refuse_new_addresses(cx, addr, header, &added);
                    return InitAnswer::Done;
                }
                let tie = *self.handshake.tie.get_or_insert_with(|| TieTags::random(cx.rng));
                let echoed = matches!(self.state, State::CookieEchoed(_));
                InitAnswer::Ack { identity: own.filter(|_| echoed), tie, path: addr }
            }
            State::Closed => InitAnswer::Done,
        }
    }

    /// A COOKIE ECHO with a valid cookie arrived over `addr` in a packet for this association.
    /// Whether the rest of the packet is to be processed.
    pub(crate) fn handle_cookie_echo(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        cookie: Cookie,
    ) -> bool {
        if self.handshake.is_unproven(&addr) || self.handshake.is_unproven(&cookie.path) {
            cx.counters.unknown_addresses += 1;
            return false;
        }
        match action(self, &cookie) {
            CookieAction::Restart if self.state.repeat_shutdown_ack() => {
                let header = CommonHeader { tag: cookie.peer.tag, ..self.header() };
                refuse_while_shutting_down(cx, addr, header);
                return false;
            }
            CookieAction::Restart => self.restart(cx, cookie, addr),
            CookieAction::Collision => self.collide(cx, cookie),
            CookieAction::Discard => {
                cx.counters.unexpected_chunks += 1;
                return false;
            }
            CookieAction::Duplicate => {
                self.handshake.sample_original(cx, &mut self.paths, cookie.created, addr);
                if matches!(self.state, State::CookieEchoed(_)) {
                    self.establish(cx);
                }
            }
        }
        self.addressing().acknowledge_cookie(cx, addr);
        true
    }

    /// Action A: everything begins anew, except that the user keeps the association and what it has
    /// set for it.
    fn restart(&mut self, cx: &mut Context<'_>, cookie: Cookie, via: PathAddr) {
        begin_anew(self, cx, cookie, via);
        ecn::start(cx, &mut self.paths, self.peer.as_ref());
        cx.emit(self.id, Event::Restarted);
        self.upper_layer().announce_writable(cx);
        self.security.announce_authentication(cx, self.id);
        self.path_manager().start_heartbeats(cx);
    }

    /// Action B: the peer's tag is that of the cookie. While the handshake lasts so is all else that the
    /// peer says; later only the tag is taken over, because data has been exchanged.
    fn collide(&mut self, cx: &mut Context<'_>, cookie: Cookie) {
        self.keys_changed = true;
        if !self.state.is_setting_up() {
            if let Some(peer) = &mut self.peer {
                peer.announcement.tag = cookie.peer.tag;
            }
            return;
        }
        // From COOKIE-ECHOED on DATA may be in flight: its paths must stay.
        let echoed = matches!(self.state, State::CookieEchoed(_));
        let handshake = if echoed { self.handshake.path } else { cookie.path };
        let source = cookie.path.remote.ip();
        let mut listed = cookie.peer.addresses.clone();
        if !listed.contains(&source) {
            listed.push(source);
        }
        // Our INIT has told them all.
        self.addressing().learn_paths(cx, handshake, &listed, None);
        // A short cookie leaves out an offer that the peer has none for.
        let own = cookie.auth.or_else(|| self.security.own_offer().cloned());
        self.security.adopt_offer(cx, own);
        let own = cookie.keys.or_else(|| self.security.own_key_offer().cloned());
        self.security.adopt_key_offer(own);
        self.learn_peer(cx, cookie.peer, None);
        self.establish(cx);
    }
}

/// The rebooted peer learns with its new tag why it gets no association yet.
fn refuse_while_shutting_down(cx: &mut Context<'_>, addr: PathAddr, header: CommonHeader) {
    let causes = cause_bytes(&Cause::CookieReceivedWhileShuttingDown);
    let error = Error { causes: Causes::from_bytes(&causes) };
    cx.reply(addr, header, &Chunk::Error(error));
}

/// The INIT of an association that exists may name no further addresses (section 5.2.2).
fn refuse_new_addresses(
    cx: &mut Context<'_>,
    addr: PathAddr,
    header: CommonHeader,
    added: &[IpAddr],
) {
    let mut list = [0; 512];
    let mut parameters = ParameterWriter::new(&mut list);
    for address in added {
        // At most 17 addresses of 20 bytes: they fit.
        let _no_room = parameters.push(&address_parameter(*address)).is_err();
    }
    let listed = parameters.finish();
    let causes = cause_bytes(&Cause::RestartWithNewAddresses(&list[..listed]));
    let abort = Abort { tag_reflected: false, causes: Causes::from_bytes(&causes) };
    cx.counters.refused_inits += 1;
    cx.reply(addr, header, &Chunk::Abort(abort));
}

/// The addresses that an INIT from `addr` names beside those that are `known`.
fn added_addresses(known: &[IpAddr], addr: PathAddr, init: &Received<'_>) -> Vec<IpAddr> {
    let source = core::iter::once(addr.remote.ip());
    let named = source.chain(init.announcement.addresses.iter().copied());
    named.filter(|address| !known.contains(address)).collect()
}

/// Whether a valid cookie is that of `association`.
pub(crate) fn is_duplicate(association: &Association, cookie: &Cookie) -> bool {
    action(association, cookie) == CookieAction::Duplicate
}

/// Whether our own handshake gives way to that of this cookie, which resumes an association. Its INIT came from an
/// address that we have asked, and was answered before we began. With the cookie its sender has decided: it has keys,
/// sends protected data already, and takes no cookie of ours any more. Without giving way both ends would drop what the
/// other one sends until their timers give up.
pub(crate) fn gives_way(association: &Association, cookie: &Cookie) -> bool {
    let is_asked = association.peer_addresses.contains(&cookie.path.remote.ip());
    association.state.is_setting_up()
        && association.security.awaits_keys()
        && is_asked
        && !association.handshake.is_unproven(&cookie.path)
        && action(association, cookie) == CookieAction::Discard
        && cookie.resumes()
}

/// Our own handshake gives way to that of this cookie, whose COOKIE ECHO came over `via`.
pub(crate) fn give_way(
    association: &mut Association,
    cx: &mut Context<'_>,
    (cookie, keys): (Cookie, EpochKeys),
    via: PathAddr,
) {
    let shutdown_wanted = association.shutdown_wanted;
    begin_anew(association, cx, cookie, via);
    association.shutdown_wanted = shutdown_wanted;
    if let Some(protection) = association.security.protection_mut() {
        // The first keys that there are.
        let _refused = protection.resume(keys).is_err();
    }
    association.establish(cx);
    association.addressing().acknowledge_cookie(cx, via);
}

/// Puts the association that the cookie describes in the place of this one.
fn begin_anew(association: &mut Association, cx: &mut Context<'_>, cookie: Cookie, via: PathAddr) {
    let outbound = cookie.peer.inbound_streams.min(cx.config.streams);
    let identity = (cookie.local_tag, cookie.local_tsn);
    announce_undelivered(cx, association.id, &association.sender);
    let sender = &association.sender;
    let sender = sender.restarted(cx.config, identity.1, cookie.peer.a_rwnd, outbound);
    let (id, ports, none) = (association.id, association.ports, (None, None));
    let fresh = Association::new(cx, id, ports, identity, cookie.path, sender, none);
    let before = core::mem::replace(association, fresh);
    // What the user has set, what was counted, and what is still to be told.
    association.handshake.initiated = before.handshake.initiated;
    association.errors.limit = before.errors.limit;
    association.paths = before.paths.emptied();
    (association.peer, association.security) = (before.peer, before.security);
    (association.notices, association.parameters) = (before.notices, before.parameters);
    (association.statistics, association.unverified) = (before.statistics, before.unverified);
    let told = cookie.listed;
    association.addressing().learn_paths(cx, cookie.path, &cookie.peer.addresses, told);
    association.paths.supervise_like(&before.paths);
    let own = cookie.auth.or_else(|| Offer::own(cx.config, cx.rng));
    association.security.adopt_offer(cx, own);
    // Key management begins anew, too.
    association.security.protection = None;
    association.security.adopt_key_offer(cookie.keys);
    association.learn_peer(cx, cookie.peer, told);
    association.handshake.sample_cookie(cx, &mut association.paths, cookie.created, via);
}
