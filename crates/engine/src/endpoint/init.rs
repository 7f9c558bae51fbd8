//! INIT (RFC 9260 sections 5.1 B and 5.2): answered from the packet alone. What an association
//! would need is put into the cookie.

use super::api::context;
use super::demux::{answer_header, ports_of};
use super::protection::resumes;
use super::{AssociationId, Endpoint};
use crate::allowance::Allowance;
use crate::association::Context;
use crate::association::announcement::{Announcement, Identity, Received, Refusal};
use crate::association::cookie::{Cookie, TieTags};
use crate::association::restart::InitAnswer;
use crate::association::setup::reply_refusal;
use crate::authentication::Offer;
use crate::config::Config;
use crate::path::PathAddr;
use crate::protection::{Incompatible, KeyOffer, agree};
use crate::time::{Duration, Instant};
use alloc::sync::Arc;
use alloc::vec::Vec;
use manypath_wire::chunk::{Chunk, Init};
use manypath_wire::packet::CommonHeader;
use manypath_wire::{Tsn, VerificationTag};

/// Room for the parameters of an INIT ACK.
const PARAMETERS: usize = 1232;
/// The common header and that of an INIT ACK.
const INIT_ACK_HEADERS: usize = CommonHeader::LEN + 20;

impl Endpoint {
    pub(super) fn handle_init(
        &mut self,
        now: Instant,
        addr: PathAddr,
        header: CommonHeader,
        init: &Init<'_>,
    ) {
        // Section 3.3.2: silently discarded.
        if init.tag == VerificationTag(0) {
            self.counters.refused_inits += 1;
            return;
        }
        // Before anything that costs time.
        if !context!(self, now).may_answer(&addr) {
            return;
        }
        let at_port = self.parameters_at(addr.local.ip(), header.destination_port);
        let config = at_port.as_deref().unwrap_or(&self.config);
        let received = match Received::from_init(config, init, &addr) {
            Ok(received) => received,
            Err(refusal) => return self.refuse_init(now, addr, header, init.tag, refusal),
        };
        if let Some(id) = self.known_peer(addr, header, &received) {
            let answer =
                self.with(now, id, |association, cx| association.answer_init(cx, addr, &received));
            let own = self.parameters_of(id);
            return self.answer_known(now, header, &received, answer, own);
        }
        match self.refusal(addr, header) {
            Some(refusal) => self.refuse_init(now, addr, header, init.tag, refusal),
            None => {
                self.acknowledge(now, addr, header, &received, (None, TieTags::NONE), at_port);
            }
        }
    }

    /// Why no association is made with the sender of an INIT or COOKIE ECHO.
    pub(super) fn refusal(
        &mut self,
        addr: PathAddr,
        header: CommonHeader,
    ) -> Option<Refusal<'static>> {
        let at_port = self.parameters_at(addr.local.ip(), header.destination_port);
        let known = at_port.is_some() || header.destination_port == self.config.port;
        if !known || !at_port.as_deref().unwrap_or(&self.config).accept {
            return Some(Refusal::NotAccepting);
        }
        let limit = self.config.max_associations_per_address;
        let crowded = self.registry.index.count_at(addr.remote.ip()) >= limit;
        self.counters.address_limit_refusals += u64::from(crowded);
        let full = self.registry.len() >= self.config.max_associations;
        (full || crowded).then_some(Refusal::OutOfResource)
    }

    pub(super) fn refuse_init(
        &mut self,
        now: Instant,
        addr: PathAddr,
        header: CommonHeader,
        tag: VerificationTag,
        refusal: Refusal<'_>,
    ) {
        self.counters.refused_inits += 1;
        if !self.config.respond_to_ootb && !self.config.accept {
            return;
        }
        let mut cx = context!(self, now);
        reply_refusal(&mut cx, addr, answer_header(header, tag), refusal);
    }

    /// The association that any of the INIT's addresses belongs to (section 5.1.2 D).
    fn known_peer(
        &self,
        addr: PathAddr,
        header: CommonHeader,
        init: &Received<'_>,
    ) -> Option<AssociationId> {
        let source = core::iter::once(addr.remote.ip());
        let mut named = source.chain(init.announcement.addresses.iter().copied());
        named.find_map(|address| self.by_address(address, header))
    }

    fn answer_known(
        &mut self,
        now: Instant,
        header: CommonHeader,
        init: &Received<'_>,
        answer: InitAnswer,
        parameters: Option<Arc<Config>>,
    ) {
        match answer {
            InitAnswer::Ack { identity, tie, path } => {
                let identity = identity.map(|identity| *identity);
                self.acknowledge(now, path, header, init, (identity, tie), parameters);
            }
            InitAnswer::Done => {}
        }
    }

    /// Sends an INIT ACK with a cookie, of no more than three times the bytes of the INIT: its source may be
    /// somebody else's. Where that is too little for all, the cookie is short, the peer is told only what
    /// it can use, and fewer addresses are listed. So much fits behind any INIT: without parameters and
    /// over IP alone the packets have 52 and 152 bytes, and each parameter allows more than it costs.
    fn acknowledge(
        &mut self,
        now: Instant,
        path: PathAddr,
        header: CommonHeader,
        init: &Received<'_>,
        (identity, tie): (Option<Identity>, TieTags),
        parameters: Option<Arc<Config>>,
    ) {
        // Two INITs that cross, and a peer that has restarted, get fresh keys.
        let is_first = identity.is_none() && tie == TieTags::NONE;
        let mut own = identity.unwrap_or_else(|| self.fresh_identity(parameters.as_deref()));
        let agreed = agree(own.keys.as_ref(), init.announcement.keys.as_ref());
        if agreed == Err(Incompatible::TieBreakers) {
            let refusal = Refusal::NoProtection(Incompatible::TieBreakers);
            return self.refuse_init(now, path, header, init.announcement.tag, refusal);
        }
        let ticket = init.announcement.keys.as_ref().and_then(|keys| keys.ticket.as_deref());
        let may_resume = agreed.as_ref().ok().zip(ticket).filter(|_| is_first);
        let resumes = may_resume.is_some_and(|(agreed, it)| resumes(self, now, agreed, it));
        own.keys.iter_mut().for_each(|keys| keys.ticket = resumes.then(Vec::new));
        let protects = agreed.is_ok();
        own.keys.take_if(|_| !protects);
        // An end that leaves no checksums out gains nothing from hearing that it may.
        let omits = init.announcement.keys.as_ref().is_some_and(|keys| keys.zero_checksum);
        own.keys.iter_mut().for_each(|keys| keys.zero_checksum &= omits);
        own.auth.take_if(|_| protects);
        let mut cx = context!(self, now, parameters);
        let mut cookie = make_cookie(&cx, path, header, init, &own, tie);
        let mut sealed = cx.keys.seal(now, &cookie, cx.rng);
        let mut own = Announcement::own(cx.config, own, cx.announced(&path));
        // Section 3.3.3: "MUST NOT be greater than the MIS value sent in the INIT chunk".
        own.outbound_streams = own.outbound_streams.min(init.announcement.inbound_streams);
        own.ecn &= init.announcement.ecn;
        if protects {
            own.leave_auth_out();
        } else if init.announcement.auth.is_none() {
            own.leave_authentication_out();
        }
        let mut parameters = [0; PARAMETERS];
        let limit = cx.config.amplification_limit;
        let room = |allowance: Allowance| {
            allowance.room(&path).saturating_sub(INIT_ACK_HEADERS).min(PARAMETERS)
        };
        // RFC 4820 section 4: the size of the cookie "MUST NOT depend on the existence of the PAD parameter".
        let unpadded = room(cx.replies.allowance.without(limit, init.padding));
        let full = own.to_init_ack(&sealed, &init.unrecognized, &mut parameters[..unpadded]);
        let is_small_enough = full.is_ok();
        let parameters = &mut parameters[..room(cx.replies.allowance)];
        if !is_small_enough {
            own.keep_common(&init.announcement);
            cookie.shorten();
            sealed = cx.keys.seal(now, &cookie, cx.rng);
            own.list_fewer(parameters, &sealed, &init.unrecognized);
            cookie.listed = u8::try_from(own.addresses.len()).ok();
            sealed = cx.keys.seal(now, &cookie, cx.rng);
        }
        let header = answer_header(header, init.announcement.tag);
        match own.to_init_ack(&sealed, &init.unrecognized, parameters) {
            Ok(ack) => cx.reply(path, header, &Chunk::InitAck(ack)),
            Err(_no_room) => cx.counters.unverified_drops += 1,
        }
    }

    fn fresh_identity(&mut self, parameters: Option<&Config>) -> Identity {
        let (tag, initial_tsn) = (self.fresh_tag(), Tsn(self.rng.next_u32()));
        let config = parameters.unwrap_or(&self.config);
        let auth = Offer::own(config, &mut self.rng);
        Identity { tag, initial_tsn, auth, keys: KeyOffer::of_init_ack(config, &mut self.rng) }
    }

    /// A tag that no association has, nor had of late: its cookie would be refused.
    pub(super) fn fresh_tag(&mut self) -> VerificationTag {
        loop {
            let tag = self.tags.nearest(self.rng.nonzero_u32()).map(VerificationTag);
            let is_free = |tag: &VerificationTag| {
                self.registry.index.by_tag(*tag).is_none() && !self.registry.ended.contains(*tag)
            };
            if let Some(tag) = tag.filter(is_free) {
                return tag;
            }
        }
    }
}

fn make_cookie(
    cx: &Context<'_>,
    path: PathAddr,
    header: CommonHeader,
    init: &Received<'_>,
    own: &Identity,
    tie: TieTags,
) -> Cookie {
    let ports = ports_of(header);
    // A Cookie Preservative may at most double the life, which bounds the time for replays.
    let life = cx.config.cookie_life + init.preservative.min(cx.config.cookie_life);
    let mut peer = init.announcement.clone();
    peer.keys.take_if(|_| own.keys.is_none());
    let resumes = own.keys.as_ref().is_some_and(|keys| keys.ticket.is_some());
    // That it wants one is enough.
    let useless = peer.keys.iter_mut().filter_map(|keys| keys.ticket.as_mut()).filter(|_| !resumes);
    useless.for_each(Vec::clear);
    peer.auth.take_if(|_| own.keys.is_some());
    Cookie {
        created: cx.now,
        life: Duration::from_millis(u64::try_from(life.as_millis()).unwrap_or(u64::MAX)),
        local_port: ports.local,
        peer_port: ports.peer,
        local_tag: own.tag,
        local_tsn: own.initial_tsn,
        auth: own.auth.clone(),
        keys: own.keys.clone(),
        tie,
        peer,
        path,
        listed: None,
        encrypted: cx.config.handshake_race,
    }
}

#[cfg(test)]
mod tests {
    use super::Endpoint;
    use crate::config::Config;

    #[test]
    fn the_tag_of_an_ended_association_is_not_drawn_again() {
        let endpoint = || Endpoint::new(Config::default(), [7; 32]);
        let drawn = endpoint().fresh_tag();
        let mut second = endpoint();
        second.registry.ended.add(drawn);
        assert_ne!(second.fresh_tag(), drawn);
    }

    #[test]
    fn endpoints_that_share_tags_choose_none_of_each_others() {
        for index in 0..3 {
            let mut endpoint = Endpoint::new(Config::default(), [7; 32]);
            endpoint.share_tags(index, 3);
            assert!((0..1000).all(|_| endpoint.fresh_tag().0 % 3 == index));
            assert_eq!([0; 2].map(|_| endpoint.next_id().0 % 3), [u64::from(index); 2]);
        }
    }
}
