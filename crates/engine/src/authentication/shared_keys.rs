//! Endpoint pair shared keys (RFC 4895 section 6.1, RFC 6458 sections 8.1.18 and 8.3.3 to 8.3.5).

use alloc::vec::Vec;
use zeroize::Zeroizing;

/// The key that always exists at first: it is empty.
const NULL_KEY: u16 = 0;

/// Why nothing was done with a shared key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyError {
    /// There is no such association, or it does not authenticate anything.
    NoAuthentication,
    /// There is no key with this number.
    UnknownKey,
    /// The key is the active one.
    Active,
    /// The key was not deactivated before, or is to become active although it was.
    WrongOrder,
}

impl core::fmt::Display for KeyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NoAuthentication => "no association with authentication",
            Self::UnknownKey => "no shared key with this number",
            Self::Active => "the shared key is the active one",
            Self::WrongOrder => "a shared key is deactivated, then deleted",
        })
    }
}

impl core::error::Error for KeyError {}

/// One key.
#[derive(Clone)]
struct SharedKey {
    number: u16,
    secret: Zeroizing<Vec<u8>>,
    /// It is used for what arrives only.
    deactivated: bool,
}

/// The keys of an endpoint for associations to come, or of an association.
#[derive(Clone)]
pub(crate) struct SharedKeys {
    keys: Vec<SharedKey>,
    active: u16,
}

impl core::fmt::Debug for SharedKeys {
    /// Does not print the secrets.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let numbers: Vec<_> = self.keys.iter().map(|key| key.number).collect();
        f.debug_struct("SharedKeys")
            .field("numbers", &numbers)
            .field("active", &self.active)
            .finish_non_exhaustive()
    }
}

impl Default for SharedKeys {
    /// The empty key is active.
    fn default() -> Self {
        let secret = Zeroizing::new(Vec::new());
        let null = SharedKey { number: NULL_KEY, secret, deactivated: false };
        Self { keys: alloc::vec![null], active: NULL_KEY }
    }
}

impl SharedKeys {
    /// The number of the key for what is sent.
    pub(crate) fn active(&self) -> u16 {
        self.active
    }

    /// The key with this number.
    pub(crate) fn secret(&self, number: u16) -> Option<&[u8]> {
        let key = self.keys.iter().find(|key| key.number == number)?;
        Some(&key.secret)
    }

    /// Sets a key (`SCTP_AUTH_KEY`). It takes the place of one with the same number.
    pub(crate) fn set(&mut self, number: u16, secret: &[u8]) {
        self.keys.retain(|key| key.number != number);
        let secret = Zeroizing::new(secret.to_vec());
        self.keys.push(SharedKey { number, secret, deactivated: false });
    }

    /// Makes a key the one for what is sent (`SCTP_AUTH_ACTIVE_KEY`).
    pub(crate) fn activate(&mut self, number: u16) -> Result<(), KeyError> {
        if self.find(number)?.deactivated {
            return Err(KeyError::WrongOrder);
        }
        self.active = number;
        Ok(())
    }

    /// The key is not used for sending again (`SCTP_AUTH_DEACTIVATE_KEY`).
    pub(crate) fn deactivate(&mut self, number: u16) -> Result<(), KeyError> {
        let active = self.active;
        let key = self.find(number)?;
        if number == active {
            return Err(KeyError::Active);
        }
        key.deactivated = true;
        Ok(())
    }

    /// Forgets a key that was deactivated (`SCTP_AUTH_DELETE_KEY`).
    pub(crate) fn delete(&mut self, number: u16) -> Result<(), KeyError> {
        let active = self.active;
        let deactivated = self.find(number)?.deactivated;
        if number == active {
            return Err(KeyError::Active);
        }
        if !deactivated {
            return Err(KeyError::WrongOrder);
        }
        self.keys.retain(|key| key.number != number);
        Ok(())
    }

    fn find(&mut self, number: u16) -> Result<&mut SharedKey, KeyError> {
        self.keys.iter_mut().find(|key| key.number == number).ok_or(KeyError::UnknownKey)
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyError, SharedKeys};

    #[test]
    fn the_empty_key_zero_is_there_and_active_at_first() {
        let keys = SharedKeys::default();
        assert_eq!((keys.active(), keys.secret(0), keys.secret(1)), (0, Some(&[][..]), None));
    }

    #[test]
    fn a_key_is_deactivated_before_it_is_deleted_and_never_while_it_is_active() {
        let mut keys = SharedKeys::default();
        keys.set(1, b"secret");
        assert_eq!(keys.activate(2), Err(KeyError::UnknownKey));
        assert_eq!(keys.activate(1), Ok(()));
        assert_eq!(keys.deactivate(1), Err(KeyError::Active));
        assert_eq!(keys.delete(1), Err(KeyError::Active));
        assert_eq!(keys.delete(0), Err(KeyError::WrongOrder));
        assert_eq!(keys.deactivate(0), Ok(()));
        assert_eq!(keys.activate(0), Err(KeyError::WrongOrder));
        assert_eq!(keys.secret(0), Some(&[][..]), "for what is under way");
        assert_eq!(keys.delete(0), Ok(()));
        assert_eq!((keys.secret(0), keys.active()), (None, 1));
        assert_eq!(keys.delete(0), Err(KeyError::UnknownKey));
    }

    #[test]
    fn a_key_takes_the_place_of_the_one_with_its_number() {
        let mut keys = SharedKeys::default();
        keys.set(0, b"no longer empty");
        assert_eq!(keys.secret(0), Some(&b"no longer empty"[..]));
        let text = std::format!("{keys:?}");
        assert!(!text.contains("empty") && text.contains("numbers: [0]"), "{text}");
    }
}
