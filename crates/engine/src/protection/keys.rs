//! The keys of an association: one for sending, those of several epochs for receiving.

use super::{FIRST_EPOCH, OpenError, OpeningKey, RecordKey, SealingKey};
use alloc::vec::Vec;
use core::fmt;

/// Most epochs that are received at a time: as many as two bits tell apart.
const MAX_EPOCHS: usize = 4;

/// Why a key was not installed or removed, or protection not required.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtectionError {
    /// There is no such association, or it is not established.
    NotEstablished,
    /// Nothing was agreed on with the peer (`Config::key_management`).
    NotAgreed,
    /// The first epoch is 3, and each later one the next.
    WrongEpoch,
    /// There is no key of this epoch.
    UnknownEpoch,
    /// A key of one direction is missing.
    NoKeys,
}

impl fmt::Display for ProtectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotEstablished => "no established association",
            Self::NotAgreed => "DTLS chunks are not agreed on with the peer",
            Self::WrongEpoch => "not the next epoch",
            Self::UnknownEpoch => "no key of this epoch",
            Self::NoKeys => "no keys for both directions",
        })
    }
}

impl core::error::Error for ProtectionError {}

/// What the keys of an association were used for (draft sections 7.9 to 7.11).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyUse {
    /// The key for sending: its epoch, the records sealed with it, and how many more it may seal.
    pub sealing: Option<(u64, u64, u64)>,
    /// The keys for receiving, the oldest first.
    pub opening: Vec<EpochUse>,
    /// Whether user messages came before there was a key for receiving: they may be anybody's.
    pub exposed: bool,
    /// Whether packets without protection are dropped.
    pub required: bool,
    /// Whether the first keys follow from an earlier association.
    pub resumed: bool,
    /// Whether somebody has said without protection that the peer has lost the association, and nothing has come from
    /// it under the keys since ([`Event::PeerDoubted`](crate::Event::PeerDoubted)).
    pub doubted: bool,
}

/// What a key for receiving was used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochUse {
    /// Its epoch.
    pub epoch: u64,
    /// Records opened with it.
    pub opened: u64,
    /// Records that were not authentic.
    pub failures: u64,
}

/// All keys.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    sealing: Option<SealingKey>,
    opening: Vec<OpeningKey>,
    /// The last epoch that was ever received.
    last_opening: Option<u64>,
    /// The user knows that keys should be replaced.
    rekey_announced: bool,
}

impl Keys {
    /// What is sent from now on is sealed with `key`.
    pub(crate) fn install_sealing(
        &mut self,
        epoch: u64,
        key: RecordKey,
    ) -> Result<(), ProtectionError> {
        check_epoch(epoch, self.sealing.as_ref().map(SealingKey::epoch))?;
        self.sealing = Some(SealingKey::new(epoch, key));
        self.rekey_announced = false;
        Ok(())
    }

    /// What comes in `epoch` is opened with `key`. The oldest of four epochs goes.
    pub(crate) fn install_opening(
        &mut self,
        epoch: u64,
        key: RecordKey,
    ) -> Result<(), ProtectionError> {
        check_epoch(epoch, self.last_opening)?;
        self.last_opening = Some(epoch);
        self.opening.retain(|key| key.epoch() + MAX_EPOCHS as u64 > epoch);
        self.opening.push(OpeningKey::new(epoch, key));
        Ok(())
    }

    /// Nothing is taken in `epoch` any more.
    pub(crate) fn retire_opening(&mut self, epoch: u64) -> Result<(), ProtectionError> {
        let before = self.opening.len();
        self.opening.retain(|key| key.epoch() != epoch);
        if self.opening.len() < before { Ok(()) } else { Err(ProtectionError::UnknownEpoch) }
    }

    /// The key for what is sent.
    pub(crate) fn sealing(&self) -> Option<&SealingKey> {
        self.sealing.as_ref()
    }

    /// Makes a record in place. Whether it is complete.
    pub(crate) fn seal(&mut self, record: &mut [u8]) -> bool {
        self.sealing.as_mut().is_some_and(|key| key.seal(record).is_ok())
    }

    /// Opens a record in place, with the key of its epoch.
    pub(crate) fn open<'r>(&mut self, record: &'r mut [u8]) -> Result<&'r [u8], OpenError> {
        let key = self.opening.iter_mut().find(|key| key.matches(record));
        key.ok_or(OpenError::UnknownEpoch)?.open(record)
    }

    /// Whether keys should be replaced: true once for each key for sending.
    pub(crate) fn take_rekey(&mut self) -> bool {
        let aged = |key: &SealingKey| {
            key.is_aged() || self.opening.last().is_some_and(OpeningKey::is_aged)
        };
        let due = !self.rekey_announced && self.sealing.as_ref().is_some_and(aged);
        self.rekey_announced |= due;
        due
    }

    /// Whether anything is received protected.
    pub(crate) fn are_receiving(&self) -> bool {
        !self.opening.is_empty()
    }

    /// Whether there is any key.
    pub(crate) fn is_any(&self) -> bool {
        self.sealing.is_some() || self.last_opening.is_some()
    }

    /// Whether packets are protected in both directions.
    pub(crate) fn are_complete(&self) -> bool {
        self.sealing.is_some() && !self.opening.is_empty()
    }

    /// What they were used for.
    pub(crate) fn usage(&self) -> KeyUse {
        let sealing = self.sealing.as_ref().map(|key| (key.epoch(), key.sealed(), key.left()));
        let of = |key: &OpeningKey| EpochUse {
            epoch: key.epoch(),
            opened: key.opened(),
            failures: key.failures(),
        };
        KeyUse { sealing, opening: self.opening.iter().map(of).collect(), ..KeyUse::default() }
    }
}

/// "The first DTLS key context established for any SCTP association MUST use epoch 3. Each subsequent
/// DTLS key context will use the next consecutive epoch value."
fn check_epoch(epoch: u64, before: Option<u64>) -> Result<(), ProtectionError> {
    let next = before.map_or(Some(FIRST_EPOCH), |before| before.checked_add(1));
    if next == Some(epoch) { Ok(()) } else { Err(ProtectionError::WrongEpoch) }
}
