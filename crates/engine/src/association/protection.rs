//! DTLS chunks of an association (draft-ietf-tsvwg-sctp-dtls-chunk section 5.2): which packets leave as
//! records, and what is done with records that arrive.

use super::announcement::Announcement;
use super::authentication::{Authenticity, Security};
use super::context::Context;
use super::doubt::{self, Doubt, is_abort};
use super::handshake::Handshake;
use super::state::State;
use super::tcb::{Association, Peer};
use crate::delivery::Delivery;
use crate::event::{AssociationId, Event};
use crate::path::{Path, PathAddr, PathId, PathSet};
use crate::protection::{
    EpochKeys, FIRST_EPOCH, Incompatible, KEY_MANAGEMENT, KeyAgreement, KeyOffer, KeyRole, KeyUse,
    Keys, Numbers, OpenError, ProtectionError, Resumed, agree,
};
use crate::status::Counters;
use alloc::boxed::Box;
use manypath_wire::chunk::{Chunk, FragmentPlace, types};
use manypath_wire::packet::{CommonHeader, Packet};

/// Records that are left for the end of an association when its key is nearly used up.
const LAST_RECORDS: u64 = 4096;

/// Unanswered packets of a path, each the first of a silence, after which its records have checksums for good.
const MAX_CHECKSUM_DOUBTS: u32 = 3;

/// What an association needs to protect packets.
#[derive(Debug)]
pub(crate) struct Protection {
    /// What our INIT or INIT ACK says.
    own: KeyOffer,
    /// None until the peer has spoken, or if nothing could be agreed on.
    agreement: Option<KeyAgreement>,
    /// The user knows that key management can begin.
    announced: bool,
    /// The peer takes records without a checksum.
    peer_takes_zero: bool,
    /// The paths over which the last record came without.
    without_checksum: PathSet,
    pub(super) keys: Keys,
    /// User messages came before there was a key to receive with.
    exposed: bool,
    /// Packets without protection are dropped.
    required: bool,
    /// Its first keys follow from an earlier association.
    resumed: bool,
    /// Somebody has said that the peer has lost the association, and it has not answered since.
    doubt: Option<Doubt>,
}

impl Protection {
    /// Nothing is known of the peer.
    pub(super) fn new(own: KeyOffer) -> Box<Self> {
        let keys = Keys::default();
        let (announced, peer_takes_zero) = (false, false);
        let (exposed, required, resumed) = (false, false, false);
        let (agreement, doubt, without_checksum) = (None, None, PathSet::default());
        Box::new(Self {
            own,
            agreement,
            announced,
            peer_takes_zero,
            without_checksum,
            keys,
            exposed,
            required,
            resumed,
            doubt,
        })
    }

    /// What the peer has said does not hold any more.
    pub(super) fn revoke(&mut self) {
        self.agreement = None;
    }

    /// The keys, to be changed.
    pub(crate) fn keys_mut(&mut self) -> &mut Keys {
        &mut self.keys
    }

    /// Whether a packet without protection is processed. With a key for receiving the peer has no reason to
    /// send user messages but those of key management without it, so others are somebody else's.
    fn takes_plain(&mut self, packet: &Packet<'_>) -> bool {
        if self.required {
            return false;
        }
        let mut chunks = packet.chunks().map_while(Result::ok);
        let has_data = chunks.any(|chunk| is_user_data(&chunk));
        let is_taken = !has_data || !self.keys.are_receiving();
        self.exposed |= has_data && is_taken;
        is_taken
    }

    /// Protects all packets but the COOKIE ECHO, by the keys of the first epoch.
    pub(crate) fn resume(&mut self, keys: EpochKeys) -> Result<(), ProtectionError> {
        let agreed = self.agreement.as_ref().ok_or(ProtectionError::NotAgreed)?;
        let (sealing, opening) = match agreed.role {
            KeyRole::Client => (keys.client, keys.server),
            KeyRole::Server => (keys.server, keys.client),
        };
        self.keys.install_sealing(FIRST_EPOCH, sealing)?;
        self.keys.install_opening(FIRST_EPOCH, opening)?;
        self.resumed = true;
        self.require()
    }

    /// Our INIT says that we want to resume by this ticket, or take one.
    pub(crate) fn offer_ticket(&mut self, ticket: &[u8]) {
        self.own.ticket = Some(ticket.to_vec());
    }

    /// Drops what comes without protection from now on.
    pub(crate) fn require(&mut self) -> Result<(), ProtectionError> {
        if !self.keys.are_complete() {
            return Err(ProtectionError::NoKeys);
        }
        self.required = true;
        Ok(())
    }
}

/// Whether a chunk holds anything but a message of key management. Those are small: a part behind the first,
/// of which it cannot be told, is none.
fn is_user_data(chunk: &Chunk<'_>) -> bool {
    if let Chunk::Data(data) = chunk {
        data.ppid != KEY_MANAGEMENT
    } else if let Chunk::IData(data) = chunk {
        data.place != FragmentPlace::First(KEY_MANAGEMENT)
    } else {
        false
    }
}

/// A packet, as far as DTLS chunks are concerned.
enum Kind {
    Plain,
    Record,
    Bundled,
}

fn kind(packet: &Packet<'_>) -> Kind {
    let mut chunks = packet.chunks().map_while(Result::ok);
    match (chunks.next(), packet.chunks().nth(1)) {
        (Some(Chunk::Dtls(_)), None) => Kind::Record,
        (Some(Chunk::Dtls(_)), Some(_)) => Kind::Bundled,
        _ if chunks.any(|chunk| chunk.type_byte() == types::DTLS) => Kind::Bundled,
        _ => Kind::Plain,
    }
}

impl OpenError {
    /// Notes that a packet was dropped for this reason.
    fn count(self, counters: &mut Counters) {
        *match self {
            Self::Malformed => &mut counters.malformed_records,
            Self::UnknownEpoch => &mut counters.unknown_epochs,
            Self::Replayed => &mut counters.replayed_records,
            Self::NotAuthentic | Self::Exhausted => &mut counters.forged_records,
        } += 1;
    }
}

impl Security {
    /// What we say about key management.
    pub(crate) fn own_key_offer(&self) -> Option<&KeyOffer> {
        self.protection.as_ref().map(|protection| &protection.own)
    }

    /// What protects packets, to be changed, if they may have to be protected.
    pub(crate) fn protection_mut(&mut self) -> Option<&mut Protection> {
        self.protection.as_deref_mut()
    }

    /// Whether both ends have drawn the same tie breaker: "the association MUST be aborted" (draft section 5.1).
    pub(super) fn collides(&self, peer: &Announcement) -> bool {
        agree(self.own_key_offer(), peer.keys.as_ref()) == Err(Incompatible::TieBreakers)
    }

    /// What was agreed on about key management.
    pub(crate) fn key_agreement(&self) -> Option<&KeyAgreement> {
        self.protection.as_ref()?.agreement.as_ref()
    }

    /// Our INIT ACK said `own`: that of the cookie from which the association is made anew.
    pub(super) fn adopt_key_offer(&mut self, own: Option<KeyOffer>) {
        let announced = self.protection.as_ref().is_some_and(|before| before.announced);
        self.protection =
            own.map(|own| Box::new(Protection { announced, ..*Protection::new(own) }));
    }

    /// The peer's INIT or INIT ACK said `peer`.
    pub(super) fn agree_on_keys(
        &mut self,
        cx: &mut Context<'_>,
        id: AssociationId,
        peer: Option<&KeyOffer>,
    ) {
        let Some(protection) = &mut self.protection else { return };
        protection.agreement = agree(Some(&protection.own), peer).ok();
        protection.peer_takes_zero = peer.is_some_and(|peer| peer.zero_checksum);
        if protection.agreement.is_some() && !core::mem::replace(&mut protection.announced, true) {
            cx.emit(id, Event::KeysWanted);
        }
    }

    /// Whether packets come and leave protected: then addresses may change (draft section 3.2).
    pub(super) fn is_protected(&self) -> bool {
        self.protection.as_ref().is_some_and(|protection| protection.keys.are_complete())
    }

    /// Whether packets may have to be protected, and nothing was done for that yet.
    pub(super) fn awaits_keys(&self) -> bool {
        self.protection.as_ref().is_some_and(|it| !it.required && !it.keys.is_any())
    }

    /// Whether there is a key to open records with.
    pub(crate) fn opens_records(&self) -> bool {
        let agreed = self.protection.as_ref().filter(|it| it.agreement.is_some());
        agreed.is_some_and(|it| it.keys.are_receiving())
    }

    /// Whether a record of the peer's may come without a checksum: it has heard from us that it may, and there is a key.
    pub(crate) fn takes_zero_checksum(&self) -> bool {
        self.opens_records() && self.own_key_offer().is_some_and(|own| own.zero_checksum)
    }

    /// Whether a record of `len` bytes leaves without a checksum over `path`: data that follows other data, and without data
    /// where the last record came without. The first data after a pause has one: a host that does not know the association
    /// any more answers with an ABORT, but only to what has a right checksum.
    /// Nothing on the way looks into UDP for it; should something do so all the same, silence tells whoever sends data, and
    /// its checksums the other end ("MUST NOT result in a path failure for more than two retransmission timeouts", RFC
    /// 9653 section 3).
    pub(super) fn omits_checksum(&self, path: &Path, len: usize) -> bool {
        let Some(protection) = self.protection.as_ref().filter(|it| it.peer_takes_zero) else {
            return false;
        };
        let answered =
            path.health().errors() == 0 && path.heartbeat().silences() < MAX_CHECKSUM_DOUBTS;
        let is_expected = match path.in_flight() {
            0 => protection.without_checksum.contains(path.id()),
            bytes => bytes > len,
        };
        answered && is_expected && path.addr().remote.port() != 0
    }

    /// A record has come over `path`, with or without a checksum.
    pub(super) fn note_checksum(&mut self, path: PathId, has_checksum: bool) {
        let Some(protection) = &mut self.protection else { return };
        match has_checksum {
            true => protection.without_checksum.remove(path),
            false => protection.without_checksum.insert(path),
        }
    }

    /// Whether packets without protection are dropped.
    pub(crate) fn requires_protection(&self) -> bool {
        self.protection.as_ref().is_some_and(|protection| protection.required)
    }

    /// Whether DATA may leave in `state` behind a COOKIE ECHO that is not answered.
    pub(super) fn sends_early_data(&self, state: &State) -> bool {
        let State::CookieEchoed(echoed) = state else { return false };
        echoed.t1.sends() > 0 && self.is_resumed()
    }

    /// What protects the packets of an association that is established, if that was agreed on.
    pub(crate) fn agreed_protection(
        &mut self,
        state: &State,
    ) -> Result<&mut Protection, ProtectionError> {
        if state.is_setting_up() {
            return Err(ProtectionError::NotEstablished);
        }
        let agreed = self.protection.as_deref_mut().filter(|it| it.agreement.is_some());
        agreed.ok_or(ProtectionError::NotAgreed)
    }

    /// How it is or would be resumed, if both ends have agreed to that.
    pub(crate) fn resumption(&self, handshake: &Handshake, peer: Option<&Peer>) -> Option<Resumed> {
        let agreed = self.key_agreement()?;
        let peer = &peer?.announcement;
        let own = (handshake.local_tag, handshake.local_tsn);
        let numbers: Numbers = (peer.tag, peer.initial_tsn);
        let (offer, keys) = (self.own_key_offer()?, peer.keys.as_ref()?);
        Resumed::of(agreed, (offer, own), (keys, numbers))
    }

    /// Whether a COOKIE ECHO may come without protection. `is_repeated` tells whether it has the cookie that made the
    /// association. With keys a peer that restarts would have to know those
    /// for restarts, which are not supported: "all sent packets with COOKIE ECHO will be dropped" (draft
    /// section 5.4). If the COOKIE ACK was lost the peer sends the same cookie again, though it has no keys yet. The cookie
    /// of a resumed association never comes otherwise.
    pub(crate) fn takes_plain_cookie(&self, is_repeated: impl FnOnce() -> bool) -> bool {
        let protection = self.protection.as_ref();
        let protection = protection.filter(|it| it.required || it.keys.is_any());
        protection.is_none_or(|it| (!it.required || it.resumed) && is_repeated())
    }

    /// Whether the first keys follow from an earlier association.
    pub(crate) fn is_resumed(&self) -> bool {
        self.protection.as_ref().is_some_and(|protection| protection.resumed)
    }

    /// Whether the peer is asked if it still knows the association.
    pub(super) fn doubt(&self) -> Option<Doubt> {
        self.protection.as_ref()?.doubt
    }

    /// The peer was asked, for which there must be keys.
    pub(super) fn set_doubt(&mut self, doubt: Doubt) {
        self.protection.iter_mut().for_each(|protection| protection.doubt = Some(doubt));
    }

    /// Whether the key for sending is so much used that only the end of the association may use it.
    pub(super) fn is_key_used_up(&self) -> bool {
        let sealing = self.protection.as_ref().and_then(|protection| protection.keys.sealing());
        sealing.is_some_and(|key| key.left() <= LAST_RECORDS)
    }

    /// What keys were used for.
    pub(crate) fn key_use(&self) -> Option<KeyUse> {
        let protection = self.protection.as_ref().filter(|it| it.agreement.is_some())?;
        let Protection { exposed, required, resumed, .. } = **protection;
        Some(KeyUse {
            exposed,
            required,
            resumed,
            doubted: protection.doubt.is_some(),
            ..protection.keys.usage()
        })
    }
}

impl Association {
    /// A packet of `frame.0` bytes with our tag arrived over `addr`, delivered as `frame.1` says, which is no record
    /// that can be opened ([`Self::handle_record`]). `authenticity` tells whether its AUTH chunk has been checked
    /// already.
    pub(crate) fn handle_packet(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        packet: Packet<'_>,
        frame: (usize, Delivery),
        authenticity: Authenticity,
    ) {
        let Some(protection) =
            self.security.protection.as_mut().filter(|it| it.agreement.is_some())
        else {
            return self.process_packet(cx, (addr, packet, false), frame, authenticity);
        };
        match kind(&packet) {
            Kind::Plain if protection.takes_plain(&packet) => {
                self.process_packet(cx, (addr, packet, false), frame, authenticity);
            }
            Kind::Plain => self.handle_unprotected(cx, addr, packet),
            Kind::Bundled => cx.counters.bundled_records += 1,
            // Keys for restarts are not supported, and there are no others yet: see `handle_record`.
            Kind::Record => OpenError::UnknownEpoch.count(cx.counters),
        }
    }

    /// A packet came without protection that had to be protected.
    fn handle_unprotected(&mut self, cx: &mut Context<'_>, addr: PathAddr, packet: Packet<'_>) {
        let is_init_ack = matches!(packet.chunks().next(), Some(Ok(Chunk::InitAck(_))));
        if is_init_ack && self.handshake.copied {
            cx.counters.late_init_acks += 1;
            return;
        }
        let mut chunks = packet.chunks().map_while(Result::ok);
        let abort = chunks.find_map(|chunk| {
            let Chunk::Abort(abort) = chunk else { return None };
            Some(abort)
        });
        let abort = abort.filter(|_| is_abort(packet, false));
        if abort.is_some_and(|abort| self.ending().refuses_copy(cx, addr, &abort)) {
            return;
        }
        cx.counters.unprotected_packets += 1;
        // A peer that does not take the cookie has no keys. Nothing has shown yet that it had any.
        let refused = matches!(self.state, State::CookieEchoed(_));
        match abort {
            Some(abort) if refused => self.ending().aborted_by_peer(cx, &abort),
            Some(_) => doubt::begin(self, cx),
            None => {}
        }
    }

    /// A packet of a record alone arrived, for which there is a key. The record is opened where it is. The packet had
    /// this header, and a checksum or none.
    pub(crate) fn handle_record(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        (header, has_checksum): (CommonHeader, bool),
        record: &mut [u8],
        frame: (usize, Delivery),
    ) {
        let Some(protection) = &mut self.security.protection else { return };
        match protection.keys.open(record) {
            Ok(chunks) => {
                protection.doubt = None;
                cx.counters.zero_checksums += u64::from(!has_checksum);
                let packet = Packet::from_record(header, has_checksum, chunks);
                self.process_packet(cx, (addr, packet, true), frame, Authenticity::None);
            }
            Err(error) => error.count(cx.counters),
        }
    }
}
