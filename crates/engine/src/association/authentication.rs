//! AUTH chunks of an association (RFC 4895 sections 6.2 and 6.3): which packets to the peer have one,
//! and what becomes of chunks that come without.

use super::context::Context;
use super::control::ControlQueue;
use super::protection::Protection;
use super::receive::Arrival;
use crate::authentication::{Agreement, KeyError, Offer, Rejection, SharedKeys};
use crate::event::{AssociationId, Event, KeyChange};
use crate::path::Path;
use crate::protection::KeyOffer;
use crate::send::Sender;
use crate::status::Counters;
use alloc::boxed::Box;
use manypath_wire::cause::Cause;
use manypath_wire::chunk::{Auth, Chunk, types};
use manypath_wire::packet::{CommonHeader, Cover, PacketWriter};

/// What an association needs to authenticate chunks.
#[derive(Debug)]
pub(crate) struct Authentication {
    /// What our INIT or INIT ACK says.
    own: Offer,
    keys: SharedKeys,
    /// None until the peer has spoken, or if it cannot do it.
    agreement: Option<Agreement>,
    /// The shared key that the peer used last.
    peer_key: u16,
}

impl Authentication {
    /// Nothing is known of the peer.
    pub(super) fn new(own: Offer, keys: &SharedKeys) -> Box<Self> {
        let peer_key = keys.active();
        Box::new(Self { own, keys: keys.clone(), agreement: None, peer_key })
    }

    fn cover(&self) -> Option<Cover> {
        self.agreement.as_ref().map(|agreement| agreement.cover(&self.keys))
    }
}

/// What an AUTH chunk means for what follows it in its packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Authenticity {
    /// There was none yet.
    None,
    /// There will be one that has been found good already.
    Expected,
    /// It was good: all that follows is authentic.
    Good,
}

/// What is to be done with a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    /// It is processed.
    Process,
    /// It is left out.
    Skip,
    /// The rest of the packet is dropped with it.
    Stop,
}

impl Rejection {
    /// Notes that chunks were dropped for this reason.
    pub(crate) fn count(self, counters: &mut Counters) {
        *match self {
            Self::UnsupportedHmac(_) => &mut counters.unsupported_hmacs,
            Self::UnknownKey => &mut counters.unknown_keys,
            Self::WrongHmac => &mut counters.wrong_hmacs,
            Self::Missing => &mut counters.unauthenticated_chunks,
        } += 1;
    }
}

/// What protects the packets of an association.
#[derive(Debug)]
pub(crate) struct Security {
    /// Present if chunks may have to be authenticated.
    authentication: Option<Box<Authentication>>,
    /// Present if packets may have to be protected.
    pub(super) protection: Option<Box<Protection>>,
}

impl Security {
    /// Nothing is known of the peer. `auth` and `keys` are what is said about authentication and key management.
    pub(super) fn new(auth: Option<Offer>, keys: Option<KeyOffer>, shared: &SharedKeys) -> Self {
        let authentication = auth.map(|own| Authentication::new(own, shared));
        Self { authentication, protection: keys.map(Protection::new) }
    }

    /// What we say about authentication.
    pub(crate) fn own_offer(&self) -> Option<&Offer> {
        self.authentication.as_ref().map(|authentication| &authentication.own)
    }

    /// The chunk types that the peer has listed.
    pub(crate) fn listed_by_peer(&self) -> &[u8] {
        self.agreement().map_or(&[], Agreement::listed)
    }

    /// Whether chunks are authenticated with this peer.
    pub(crate) fn is_authenticating(&self) -> bool {
        self.agreement().is_some()
    }

    /// Whether a chunk of this type is taken only behind an AUTH chunk.
    pub(crate) fn demands(&self, type_byte: u8) -> bool {
        self.agreement().is_some_and(|agreement| agreement.demands(type_byte))
    }

    /// Our INIT ACK said `own`: that of the cookie from which the association is made anew.
    pub(super) fn adopt_offer(&mut self, cx: &Context<'_>, own: Option<Offer>) {
        self.authentication = match (self.authentication.take(), own) {
            (Some(before), Some(own)) => {
                Some(Box::new(Authentication { own, agreement: None, ..*before }))
            }
            (None, Some(own)) => Some(Authentication::new(own, cx.shared_keys)),
            (Some(_) | None, None) => None,
        };
    }

    /// The peer's INIT or INIT ACK said `peer`.
    pub(super) fn agree_on_authentication(&mut self, peer: Option<&Offer>) {
        if let Some(authentication) = &mut self.authentication {
            let own = &authentication.own;
            authentication.agreement = peer.and_then(|peer| Agreement::new(own, peer));
        }
    }

    /// Whether chunks may have to be authenticated.
    fn offers_authentication(&self) -> bool {
        self.authentication.is_some()
    }

    /// Bytes of the AUTH chunk that chunks of this type need in front of them in packets to the peer.
    pub(super) fn auth_len(&self, type_byte: u8) -> usize {
        let cover = self.authentication.as_ref().and_then(|it| it.cover());
        cover.filter(|cover| cover.types.contains(type_byte)).map_or(0, |cover| cover.auth_len())
    }

    /// The same to a peer that says `peer`, before that is agreed on.
    pub(super) fn auth_len_to(&self, peer: Option<&Offer>, type_byte: u8) -> usize {
        let offers = self.authentication.as_ref().zip(peer);
        let cover = offers.and_then(|(own, peer)| {
            Agreement::new(&own.own, peer).map(|agreement| agreement.cover(&own.keys))
        });
        cover.filter(|cover| cover.types.contains(type_byte)).map_or(0, |cover| cover.auth_len())
    }

    /// Data leaves room for the AUTH chunk that it needs in front of it.
    pub(super) fn leave_room(&self, sender: &mut Sender) {
        let data = if sender.queue().is_interleaving() { types::I_DATA } else { types::DATA };
        if self.offers_authentication() {
            sender.fragmentation_mut().leave_room(self.auth_len(data));
        }
    }

    /// Tells the user if authentication was wanted and is not possible.
    pub(super) fn announce_authentication(&self, cx: &mut Context<'_>, id: AssociationId) {
        if let Some(authentication) = &self.authentication
            && authentication.agreement.is_none()
            && self.key_agreement().is_none()
        {
            let key = authentication.keys.active();
            let change = KeyChange::NoAuthentication;
            cx.emit(id, Event::Authentication { change, key });
        }
    }

    /// A packet to the peer without chunks. What the peer wants to be authenticated goes behind an
    /// AUTH chunk.
    pub(super) fn begin_packet<'b>(
        &self,
        buffer: &'b mut [u8],
        header: CommonHeader,
    ) -> PacketWriter<'b> {
        if self.protection.as_ref().is_some_and(|it| it.keys.sealing().is_some()) {
            return PacketWriter::for_record(buffer, header);
        }
        let mut packet = PacketWriter::new(buffer, header);
        if let Some(cover) = self.authentication.as_ref().and_then(|it| it.cover()) {
            packet.cover(cover);
        }
        packet
    }

    /// The same for a COOKIE ECHO, which is never protected (draft section 5.4).
    pub(super) fn begin_cookie_echo<'b>(
        &self,
        buffer: &'b mut [u8],
        header: CommonHeader,
    ) -> PacketWriter<'b> {
        match self.is_resumed() {
            true => PacketWriter::new(buffer, header),
            false => self.begin_packet(buffer, header),
        }
    }

    /// The packet over `path` is complete: its HMAC is computed. Returns its length.
    pub(super) fn complete_packet(
        &mut self,
        path: Option<&Path>,
        mut packet: PacketWriter<'_>,
    ) -> usize {
        if let (Some(at), Some(authentication)) = (packet.auth_at(), &mut self.authentication)
            && let Authentication { keys, agreement: Some(agreement), .. } = &mut **authentication
            && let Some(code) = agreement.code(keys, packet.written_from(at))
        {
            packet.set_hmac(at, code.as_bytes());
        }
        let (len, is_record) = (packet.len(), packet.is_record());
        let omits = is_record && path.is_some_and(|path| self.omits_checksum(path, len));
        match &mut self.protection {
            Some(protection) if packet.is_record() => {
                packet.finish_record(omits, |record| protection.keys.seal(record))
            }
            Some(_) | None => packet.finish(),
        }
    }

    /// Bytes that the peer's answer to a chunk may need beyond that chunk's own size.
    pub(super) fn auth_len_of_answer(&self, type_byte: u8) -> usize {
        let longest = Auth::HEADER_LEN + Cover::MAX_HMAC_LEN;
        if self.demands(type_byte) { longest } else { 0 }
    }

    /// Checks `auth`, where `rest` is the packet from it on. None if nothing was agreed on.
    pub(crate) fn check_auth(
        &mut self,
        auth: &Auth<'_>,
        rest: &[u8],
    ) -> Option<Result<(), Rejection>> {
        let Authentication { keys, agreement, .. } = &mut **self.authentication.as_mut()?;
        Some(agreement.as_mut()?.check(keys, auth, rest))
    }

    fn note_key(&mut self, cx: &mut Context<'_>, id: AssociationId, key: u16) {
        let Some(authentication) = &mut self.authentication else { return };
        if core::mem::replace(&mut authentication.peer_key, key) != key {
            let change = KeyChange::New;
            cx.emit(id, Event::Authentication { change, key });
        }
    }

    /// Sets a shared key.
    pub(crate) fn set_shared_key(&mut self, number: u16, secret: &[u8]) -> Result<(), KeyError> {
        self.change_keys(number, |keys| {
            keys.set(number, secret);
            Ok(())
        })
    }

    /// Makes a shared key the one for what is sent from now on.
    pub(crate) fn activate_key(&mut self, number: u16) -> Result<(), KeyError> {
        self.change_keys(number, |keys| keys.activate(number))
    }

    /// A shared key is not used for sending again. Nothing that waits is bound to it: a packet gets
    /// its HMAC when it is sent.
    pub(crate) fn deactivate_key(
        &mut self,
        cx: &mut Context<'_>,
        id: AssociationId,
        number: u16,
    ) -> Result<(), KeyError> {
        self.change_keys(number, |keys| keys.deactivate(number))?;
        let change = KeyChange::Free;
        cx.emit(id, Event::Authentication { change, key: number });
        Ok(())
    }

    /// Forgets a shared key.
    pub(crate) fn delete_key(&mut self, number: u16) -> Result<(), KeyError> {
        self.change_keys(number, |keys| keys.delete(number))
    }

    fn change_keys(
        &mut self,
        number: u16,
        change: impl FnOnce(&mut SharedKeys) -> Result<(), KeyError>,
    ) -> Result<(), KeyError> {
        let authentication = self.authentication.as_mut().ok_or(KeyError::NoAuthentication)?;
        change(&mut authentication.keys)?;
        if let Some(agreement) = &mut authentication.agreement {
            agreement.forget(number);
        }
        Ok(())
    }

    fn agreement(&self) -> Option<&Agreement> {
        self.authentication.as_ref()?.agreement.as_ref()
    }

    /// Whether `chunk` may be processed, as far as authentication is concerned.
    pub(super) fn admit(
        &mut self,
        cx: &mut Context<'_>,
        (id, control): (AssociationId, &mut ControlQueue),
        arrival: &mut Arrival<'_>,
        chunk: &Chunk<'_>,
    ) -> Admission {
        let is_asconf = || matches!(chunk, Chunk::Asconf(_) | Chunk::AsconfAck(_));
        if self.key_agreement().is_some()
            && is_asconf()
            && !(arrival.protected && self.is_protected())
        {
            cx.counters.unauthenticated_chunks += 1;
            return Admission::Stop;
        }
        if !self.is_authenticating() {
            return Admission::Process;
        }
        if let Chunk::Auth(auth) = chunk {
            return self.handle_auth(cx, (id, control), arrival, auth);
        }
        if arrival.authenticity == Authenticity::Good || !self.demands(chunk.type_byte()) {
            return Admission::Process;
        }
        cx.counters.unauthenticated_chunks += 1;
        // "silently discard this chunk and the rest of the packet" (RFC 5061 section 5.2 rule D5).
        if is_asconf() { Admission::Stop } else { Admission::Skip }
    }

    /// AUTH (section 6.3). All that it covers is dropped if it is not good.
    fn handle_auth(
        &mut self,
        cx: &mut Context<'_>,
        (id, control): (AssociationId, &mut ControlQueue),
        arrival: &mut Arrival<'_>,
        auth: &Auth<'_>,
    ) -> Admission {
        let checked = match arrival.authenticity {
            Authenticity::None => self.check_auth(auth, arrival.rest),
            Authenticity::Expected => Some(Ok(())),
            Authenticity::Good => {
                cx.counters.repeated_auth += 1;
                return Admission::Stop;
            }
        };
        match checked {
            Some(Ok(())) => {
                arrival.authenticity = Authenticity::Good;
                self.note_key(cx, id, auth.key);
                Admission::Skip
            }
            Some(Err(rejection)) => {
                rejection.count(cx.counters);
                if let Rejection::UnsupportedHmac(hmac) = rejection {
                    control.report(cx, arrival.via, &Cause::UnsupportedHmac(hmac));
                }
                Admission::Stop
            }
            None => Admission::Stop,
        }
    }
}
