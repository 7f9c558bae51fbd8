//! Who an end is: an Ed25519 key pair (RFC 8032).

use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// What stands before the 32 bytes of a key in its SubjectPublicKeyInfo (RFC 8410 section 4).
const SPKI_PREFIX: [u8; 12] = *b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
/// Bytes of a public key.
const KEY_LEN: usize = 32;

/// The public half of a key pair: what peers are known by. It prints as base64, like the keys of `wg(8)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; KEY_LEN]);

impl PublicKey {
    /// The key in a SubjectPublicKeyInfo (RFC 7250), if it is one of Ed25519.
    pub(crate) fn from_spki(der: &[u8]) -> Option<Self> {
        der.strip_prefix(&SPKI_PREFIX)?.try_into().ok().map(Self)
    }

    /// Its 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }
}

impl From<[u8; KEY_LEN]> for PublicKey {
    fn from(bytes: [u8; KEY_LEN]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for three in self.0.chunks(3) {
            let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for at in 0..=three.len() {
                write!(f, "{}", char::from(DIGITS[(bits >> (18 - 6 * at)) as usize % 64]))?;
            }
        }
        f.write_str("=")
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// A private key that is none of Ed25519 in PKCS #8, or that could not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadKey;

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an Ed25519 key in PKCS #8")
    }
}

impl std::error::Error for BadKey {}

/// A key pair.
#[derive(Clone)]
pub struct Identity {
    pub(crate) key: Arc<CertifiedKey>,
    public: PublicKey,
}

impl Identity {
    /// A new private key in PKCS #8 (RFC 5958), to be kept secret.
    ///
    /// # Errors
    /// [`BadKey`] if the system has no randomness.
    pub fn generate() -> Result<Zeroizing<Vec<u8>>, BadKey> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        document.map(|it| Zeroizing::new(it.as_ref().to_vec())).map_err(|_| BadKey)
    }

    /// The key pair of a private key in PKCS #8.
    ///
    /// # Errors
    /// [`BadKey`].
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, BadKey> {
        let private = PrivatePkcs8KeyDer::from(der);
        let signing = any_eddsa_type(&private).map_err(|_| BadKey)?;
        let spki = signing.public_key().ok_or(BadKey)?;
        let public = PublicKey::from_spki(&spki).ok_or(BadKey)?;
        let raw = CertificateDer::from(spki.to_vec());
        Ok(Self { key: Arc::new(CertifiedKey::new(vec![raw], signing)), public })
    }

    /// What peers know it by.
    pub const fn public_key(&self) -> PublicKey {
        self.public
    }
}

impl fmt::Debug for Identity {
    /// Does not print the private key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.public).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{BadKey, Identity, PublicKey};

    #[test]
    fn a_private_key_always_gives_the_same_identity() {
        let private = Identity::generate().unwrap();
        let identity = Identity::from_pkcs8(&private).unwrap();
        assert_eq!(Identity::from_pkcs8(&private).unwrap().public_key(), identity.public_key());
        let other = Identity::from_pkcs8(&Identity::generate().unwrap()).unwrap();
        assert_ne!(other.public_key(), identity.public_key());
        let public = identity.public_key();
        assert_eq!(format!("{identity:?}"), format!("Identity(PublicKey({public}))"));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let private = Identity::generate().unwrap();
        for len in 0..private.len() {
            assert_eq!(Identity::from_pkcs8(&private[..len]).err(), Some(BadKey));
        }
        assert_eq!(PublicKey::from_spki(&[0; 44]), None);
    }

    #[test]
    fn keys_print_as_base64() {
        let key = PublicKey(*b"manypath lets any TCP program us");
        assert_eq!(key.to_string(), "bWFueXBhdGggbGV0cyBhbnkgVENQIHByb2dyYW0gdXM=");
        assert_eq!(
            PublicKey([0xFF; 32]).to_string(),
            "//////////////////////////////////////////8="
        );
    }
}
