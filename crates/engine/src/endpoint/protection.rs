//! Keys for DTLS chunks (draft-ietf-tsvwg-sctp-dtls-chunk section 7). They come from a key management
//! outside of the engine, whose messages are user messages.

use super::{AssociationId, Endpoint};
use crate::association::Protection;
use crate::protection::{KeyAgreement, KeyUse, ProtectionError, RecordKey};
use crate::time::Instant;

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
        self.change_protection(now, id, Protection::require)
    }

    /// What the keys of an association were used for; none if packets cannot be protected. Keys must be
    /// replaced before they are used up: nothing is sent then.
    pub fn key_use(&self, id: AssociationId) -> Option<KeyUse> {
        self.registry.get(id)?.security.key_use()
    }

    fn change_protection(
        &mut self,
        now: Instant,
        id: AssociationId,
        change: impl FnOnce(&mut Protection) -> Result<(), ProtectionError>,
    ) -> Result<(), ProtectionError> {
        self.with(now, id, |association, _| Some(association.agreed_protection().and_then(change)))
            .unwrap_or(Err(ProtectionError::NotEstablished))
    }
}
