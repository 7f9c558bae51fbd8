//! COOKIE ECHO (RFC 9260 sections 5.1.5 and 5.2.4): the only way for a peer to make us keep state.

use super::api::context;
use super::authentication::AuthAndRest;
use super::demux::{answer_header, ports_of};
use super::protection::claim;
use super::{AssociationId, Endpoint};
use crate::association::Association;
use crate::association::announcement::Refusal;
use crate::association::control::cause_bytes;
use crate::association::cookie::Cookie;
use crate::association::doubt;
use crate::association::restart::{give_way, gives_way, is_duplicate};
use crate::association::setup::reply_refusal;
use crate::association::unverified;
use crate::authentication::Rejection;
use crate::delivery::Delivery;
use crate::path::PathAddr;
use crate::protection::EpochKeys;
use crate::time::{Duration, Instant};
use manypath_wire::cause::{Cause, Causes};
use manypath_wire::chunk::{Chunk, Error};
use manypath_wire::packet::{CommonHeader, Packet};

impl Endpoint {
    /// A packet arrived whose first chunk is a COOKIE ECHO, or an AUTH chunk with one behind it.
    pub(super) fn handle_cookie_echo(
        &mut self,
        now: Instant,
        addr: PathAddr,
        packet: Packet<'_>,
        (sealed, auth): (&[u8], Option<AuthAndRest<'_>>),
        delivery: Delivery,
    ) {
        let header = packet.header();
        let cookie = self.keys.open(now, sealed, &mut self.rng);
        let Some(cookie) = cookie.filter(|cookie| belongs(cookie, header)) else {
            self.counters.bad_cookie += u64::from(!self.strays.leave());
            return;
        };
        self.take_cookie(now, addr, packet, cookie, auth, delivery);
    }

    /// It is a cookie of ours. Not inlined: floods of forged ones do not pay for what follows.
    #[inline(never)]
    fn take_cookie(
        &mut self,
        now: Instant,
        addr: PathAddr,
        packet: Packet<'_>,
        cookie: Cookie,
        auth: Option<AuthAndRest<'_>>,
        delivery: Delivery,
    ) {
        let header = packet.header();
        let known = self.association_of(addr, &cookie, header);
        let refuses = |id: &AssociationId| {
            let known = self.registry.get(*id);
            known.is_some_and(|it| !it.security.takes_plain_cookie(|| is_duplicate(it, &cookie)))
        };
        if let Some(id) = known.filter(refuses) {
            self.counters.unprotected_packets += 1;
            return self
                .with(now, id, |association, cx| doubt::on_cookie(association, cx, &cookie));
        }
        let authenticity = match self.authenticate_cookie(known, &cookie, auth) {
            Ok(authenticity) => authenticity,
            Err(rejection) => {
                return self.reject_cookie(
                    now,
                    addr,
                    answer_header(header, cookie.peer.tag),
                    rejection,
                );
            }
        };
        let association = known.and_then(|id| self.registry.get(id));
        if let Some(overdue) = staleness(now, &cookie, association) {
            return answer_stale(self, now, addr, header, &cookie, overdue);
        }
        if let Some(id) = known.filter(|_| association.is_some_and(|it| gives_way(it, &cookie))) {
            return let_give_way(self, now, addr, header, id, cookie);
        }
        let id = match known {
            Some(id) => {
                let go_on = self.with(now, id, |association, cx| {
                    association.handle_cookie_echo(cx, addr, cookie)
                });
                go_on.then_some(id)
            }
            None => self.accept(now, addr, header, cookie),
        };
        let Some(id) = id else { return };
        let len = CommonHeader::LEN + packet.chunks().rest().len();
        let known = self.registry.get(id);
        let resumed = known.is_some_and(|association| association.security.is_resumed());
        self.with(now, id, |association, cx| match resumed {
            // All else in the packet is anybody's, and its source may be, too.
            true if association.addressing().arrival_path(cx, addr).is_none() => {}
            true => unverified::earn(association, cx, &addr, len),
            false => association.handle_packet(cx, addr, packet, (len, delivery), authenticity),
        });
    }

    /// The packet is dropped because it is not authentic.
    fn reject_cookie(
        &mut self,
        now: Instant,
        addr: PathAddr,
        header: CommonHeader,
        rejection: Option<Rejection>,
    ) {
        match rejection {
            Some(rejection) => rejection.count(&mut self.counters),
            None => self.counters.unknown_chunks += 1,
        }
        if let Some(Rejection::UnsupportedHmac(id)) = rejection {
            self.reply_error(now, addr, header, &Cause::UnsupportedHmac(id));
        }
    }

    fn reply_error(
        &mut self,
        now: Instant,
        addr: PathAddr,
        header: CommonHeader,
        cause: &Cause<'_>,
    ) {
        let causes = cause_bytes(cause);
        let error = Error { causes: Causes::from_bytes(&causes) };
        let mut cx = context!(self, now);
        cx.reply(addr, header, &Chunk::Error(error));
    }

    fn association_of(
        &self,
        addr: PathAddr,
        cookie: &Cookie,
        header: CommonHeader,
    ) -> Option<AssociationId> {
        let source = self.by_address(addr.remote.ip(), header);
        let origin = || self.by_address(cookie.path.remote.ip(), header);
        source.or_else(origin).or_else(|| self.registry.index.by_tag(cookie.local_tag))
    }

    /// Makes the association, if there is room for it and the cookie is not used up.
    fn accept(
        &mut self,
        now: Instant,
        addr: PathAddr,
        header: CommonHeader,
        cookie: Cookie,
    ) -> Option<AssociationId> {
        // Whoever has got the cookie may send it from elsewhere: where the INIT came from counts.
        let begun = cookie.path;
        let is_over = self.registry.ended.contains(cookie.local_tag);
        let refusal = if is_over { None } else { self.refusal(begun, header) };
        if let Some(refusal) = refusal {
            self.refuse_init(now, addr, header, cookie.peer.tag, refusal);
            return None;
        }
        let keys = use_cookie(self, now, addr, header, &cookie).ok()?;
        let id = self.next_id();
        let parameters = self.parameters_at(begun.local.ip(), header.destination_port);
        let mut cx = context!(self, now, parameters);
        let mut association = Association::accept(&mut cx, id, cookie, addr);
        association.parameters = parameters;
        if let Some((keys, protection)) = keys.zip(association.security.protection_mut()) {
            // The first keys that there are.
            let _refused = protection.resume(keys).is_err();
        }
        self.registry.insert(id, association);
        self.settle(id);
        Some(id)
    }
}

/// Uses up a cookie, and returns keys if it resumes an association. If it is of no use its sender is told (RFC 9260
/// section 5.1): it holds the association for established.
fn use_cookie(
    endpoint: &mut Endpoint,
    now: Instant,
    addr: PathAddr,
    header: CommonHeader,
    cookie: &Cookie,
) -> Result<Option<EpochKeys>, ()> {
    let is_over = endpoint.registry.ended.contains(cookie.local_tag);
    endpoint.counters.used_cookie += u64::from(is_over);
    let keys = if is_over { Err(()) } else { claim(endpoint, now, cookie).transpose() };
    if keys.is_err() {
        let header = answer_header(header, cookie.peer.tag);
        reply_refusal(&mut context!(endpoint, now), addr, header, Refusal::NotAccepting);
    }
    keys
}

/// The handshake of association `id` gives way to that of a cookie which resumes one.
fn let_give_way(
    endpoint: &mut Endpoint,
    now: Instant,
    addr: PathAddr,
    header: CommonHeader,
    id: AssociationId,
    cookie: Cookie,
) {
    let Ok(Some(keys)) = use_cookie(endpoint, now, addr, header, &cookie) else { return };
    // The INIT ACK was that of the port where the INIT came, not that of who connects.
    let parameters = endpoint.parameters_at(cookie.path.local.ip(), cookie.local_port);
    endpoint.registry.followers.remove(&id);
    if let Some(association) = endpoint.registry.get_mut(id) {
        association.parameters = parameters;
    }
    endpoint.with(now, id, |association, cx| give_way(association, cx, (cookie, keys), addr));
}

fn answer_stale(
    endpoint: &mut Endpoint,
    now: Instant,
    addr: PathAddr,
    header: CommonHeader,
    cookie: &Cookie,
    overdue: Duration,
) {
    endpoint.counters.stale_cookie += 1;
    let staleness_us = u32::try_from(overdue.as_micros()).unwrap_or(u32::MAX);
    let header = answer_header(header, cookie.peer.tag);
    endpoint.reply_error(now, addr, header, &Cause::StaleCookie { staleness_us });
}

/// Whether ports and tag of the packet are those of the cookie (section 5.1.5 step 3).
fn belongs(cookie: &Cookie, header: CommonHeader) -> bool {
    let ports = ports_of(header);
    cookie.local_port == ports.local
        && cookie.peer_port == ports.peer
        && cookie.local_tag == header.tag
}

/// How long ago the cookie expired, unless it is valid. With both tags of the existing
/// association it is valid at any age (section 5.2.4 step 3).
fn staleness(now: Instant, cookie: &Cookie, known: Option<&Association>) -> Option<Duration> {
    let is_current = |association: &Association| {
        association.handshake.local_tag == cookie.local_tag
            && association.peer_tag() == Some(cookie.peer.tag)
    };
    let age = now.since(cookie.created);
    (age > cookie.life && !known.is_some_and(is_current)).then(|| age - cookie.life)
}
