//! Keys for DTLS chunks (draft-ietf-tsvwg-sctp-dtls-chunk section 7). They come from a key management
//! outside of the engine, whose messages are user messages.

use super::{AssociationId, Endpoint};
use crate::association::Protection;
use crate::association::cookie::Cookie;
use crate::protection::{
    Declined, EpochKeys, KeyAgreement, KeyRole, KeyUse, ProtectionError, RecordKey, Resumed,
    Resumption, agree,
};
use crate::time::Instant;
use alloc::sync::Arc;

impl Endpoint {
    /// What both ends have agreed on about key management in the handshake; none if packets of the
    /// association cannot be protected ("Get Agreed DTLS Key Management Method and Role").
    pub fn key_agreement(&self, id: AssociationId) -> Option<&KeyAgreement> {
        self.registry.get(id)?.security.key_agreement()
    }

    /// Seals all packets from now on with `key`: the first one is of epoch 3, each later one of the
    /// next epoch ("Establish Send Key Material"). The peer should have the key before.
    ///
    /// # Errors
    /// [`ProtectionError`].
    pub fn install_sending_key(
        &mut self,
        now: Instant,
        id: AssociationId,
        epoch: u64,
        key: RecordKey,
    ) -> Result<(), ProtectionError> {
        self.change_protection(now, id, |it| it.keys_mut().install_sealing(epoch, key))
    }

    /// Opens packets of `epoch` with `key`, beside those of earlier epochs; the oldest of four goes
    /// ("Establish Receive Key Material").
    ///
    /// # Errors
    /// [`ProtectionError`].
    pub fn install_receiving_key(
        &mut self,
        now: Instant,
        id: AssociationId,
        epoch: u64,
        key: RecordKey,
    ) -> Result<(), ProtectionError> {
        self.change_protection(now, id, |it| it.keys_mut().install_opening(epoch, key))
    }

    /// Takes no packets of `epoch` any more ("Destroy Receive Key Material").
    ///
    /// # Errors
    /// [`ProtectionError`].
    pub fn retire_receiving_key(
        &mut self,
        now: Instant,
        id: AssociationId,
        epoch: u64,
    ) -> Result<(), ProtectionError> {
        self.change_protection(now, id, |it| it.keys_mut().retire_opening(epoch))
    }

    /// Drops packets without protection from now on ("Require Protected SCTP Packets"). It cannot be
    /// taken back.
    ///
    /// # Errors
    /// [`ProtectionError`].
    pub fn require_protection(
        &mut self,
        now: Instant,
        id: AssociationId,
    ) -> Result<(), ProtectionError> {
        self.change_protection(now, id, Protection::require)?;
        self.with(now, id, |it, cx| {
            it.path_manager().probe_under_protection();
            let is_protected = it.security.requires_protection();
            it.addressing().reveal_if_protected(cx, is_protected);
        });
        Ok(())
    }

    /// What the keys of an association were used for; none if packets cannot be protected. Keys must be
    /// replaced before they are used up: nothing is sent then.
    pub fn key_use(&self, id: AssociationId) -> Option<KeyUse> {
        self.registry.get(id)?.security.key_use()
    }

    /// Associations of peers resume from now on if they have tickets that `tickets` takes, and INITs that come while
    /// the cookies that did so in their life can be remembered.
    pub fn set_resumption(&mut self, tickets: Arc<dyn Resumption>) {
        self.resumptions.tickets = Some(tickets);
    }

    /// Says in the INIT of an association that it may resume by `ticket`, of at most 255 bytes, or, if that is empty, that
    /// a ticket is wanted. Before anything is transmitted; without `Config::key_management` nothing is said.
    pub fn offer_ticket(&mut self, now: Instant, id: AssociationId, ticket: &[u8]) {
        self.with(now, id, |association, _| {
            let waits = association.state.is_setting_up();
            let protection = association.security.protection_mut().filter(|_| waits);
            protection.into_iter().for_each(|protection| protection.offer_ticket(ticket));
        });
    }

    /// Whether the peer of an association has said that it wants a ticket.
    pub fn takes_ticket(&self, id: AssociationId) -> bool {
        let peer = self.registry.get(id).and_then(|association| association.peer.as_ref());
        let keys = peer.and_then(|peer| peer.announcement.keys.as_ref());
        keys.is_some_and(|keys| keys.ticket.is_some())
    }

    /// How an association resumes, if both ends have said that it does. The client installs its keys then
    /// ([`Self::install_resumption_keys`]); the server has done so.
    pub fn resumption(&self, id: AssociationId) -> Option<Resumed> {
        let association = self.registry.get(id)?;
        association.security.resumption(&association.handshake, association.peer.as_ref())
    }

    /// Protects all that the client sends in an association that resumes, except for the COOKIE ECHO, and requires
    /// protection of all that comes. Messages then leave behind the COOKIE ECHO.
    ///
    /// # Errors
    /// [`ProtectionError::NotAgreed`] if the association does not resume.
    pub fn install_resumption_keys(
        &mut self,
        now: Instant,
        id: AssociationId,
        keys: EpochKeys,
    ) -> Result<(), ProtectionError> {
        self.with(now, id, |it, _| {
            let resumption = it.security.resumption(&it.handshake, it.peer.as_ref());
            let resumes = it.handshake.initiated && resumption.is_some();
            let protection = it.security.protection_mut().filter(|_| resumes);
            Some(protection.ok_or(ProtectionError::NotAgreed).and_then(|it| it.resume(keys)))
        })
        .unwrap_or(Err(ProtectionError::NotEstablished))
    }

    fn change_protection(
        &mut self,
        now: Instant,
        id: AssociationId,
        change: impl FnOnce(&mut Protection) -> Result<(), ProtectionError>,
    ) -> Result<(), ProtectionError> {
        self.with(now, id, |it, _| Some(it.security.agreed_protection(&it.state).and_then(change)))
            .unwrap_or(Err(ProtectionError::NotEstablished))
    }
}

/// Whether an INIT that `agreed` follows from resumes an association: its ticket is good, and its cookie can be
/// remembered.
pub(super) fn resumes(
    endpoint: &mut Endpoint,
    now: Instant,
    agreed: &KeyAgreement,
    ticket: &[u8],
) -> bool {
    let Some(tickets) = &endpoint.resumptions.tickets else { return false };
    if ticket.is_empty() || agreed.role != KeyRole::Server {
        return false;
    }
    if let Err(declined) = tickets.check(now, ticket) {
        count(endpoint, declined);
        return false;
    }
    let has_room = endpoint.resumptions.has_room(now);
    endpoint.counters.crowded_resumptions += u64::from(!has_room);
    has_room
}

/// Uses up a cookie that resumes an association. None if it does not, and otherwise keys unless it is used up already.
pub(super) fn claim(
    endpoint: &mut Endpoint,
    now: Instant,
    cookie: &Cookie,
) -> Option<Result<EpochKeys, ()>> {
    let (own, peer) = cookie.keys.as_ref().zip(cookie.peer.keys.as_ref())?;
    let agreed = agree(Some(own), Some(peer)).ok()?;
    let numbers = (cookie.local_tag, cookie.local_tsn);
    let peers = (cookie.peer.tag, cookie.peer.initial_tsn);
    let resumed = Resumed::of(&agreed, (own, numbers), (peer, peers))?;
    let until = cookie.created + cookie.life;
    if endpoint.resumptions.is_used(until, cookie.local_tag) {
        endpoint.counters.used_cookie += 1;
        return Some(Err(()));
    }
    if !endpoint.resumptions.has_room(now) {
        endpoint.counters.crowded_resumptions += 1;
        return Some(Err(()));
    }
    let Some(tickets) = endpoint.resumptions.tickets.clone() else { return Some(Err(())) };
    let keys = tickets.keys(now, &resumed.ticket, &resumed.context);
    match keys {
        Ok(_) => {
            endpoint.resumptions.note_use(until, cookie.local_tag);
            endpoint.counters.resumptions += 1;
        }
        Err(declined) => count(endpoint, declined),
    }
    Some(keys.map_err(|_| ()))
}

fn count(endpoint: &mut Endpoint, declined: Declined) {
    *match declined {
        Declined::Unknown => &mut endpoint.counters.unknown_tickets,
        Declined::Expired => &mut endpoint.counters.expired_tickets,
    } += 1;
}
