//! Who an end is: an Ed25519 key pair (RFC 8032).

use base64ct::{Base64, Encoding};
use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use zeroize::Zeroizing;

/// What stands before the 32 bytes of a key in its SubjectPublicKeyInfo (RFC 8410 section 4).
const SPKI_PREFIX: [u8; 12] = *b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
/// What stands before the 32 bytes of a private key in PKCS #8 (RFC 8410 section 7).
const PKCS8_PREFIX: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
/// What stands before the 32 bytes of a public key in the encoding of SSH (RFC 8709 section 4).
pub const SSH_PREFIX: [u8; 19] = *b"\0\0\0\x0bssh-ed25519\0\0\0\x20";
/// Bytes of a key, public or private.
const KEY_LEN: usize = 32;
/// Domain separation of keys that are derived from secrets.
const SECRET_LABEL: &[u8] = b"manypath pre-shared secret 1";
const TICKETS_LABEL: &[u8] = b"manypath ticket file 1";

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
        let mut text = [0; 44];
        f.write_str(Base64::encode(&self.0, &mut text).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for PublicKey {
    type Err = BadPublicKey;

    /// Reads what [`Display`](fmt::Display) prints, and the base64 of a public key of SSH, which is the same key
    /// behind [`SSH_PREFIX`].
    fn from_str(text: &str) -> Result<Self, BadPublicKey> {
        let mut room = [0; SSH_PREFIX.len() + KEY_LEN];
        let bytes = Base64::decode(text, &mut room).map_err(|_| BadPublicKey)?;
        let key = bytes.strip_prefix(&SSH_PREFIX).unwrap_or(bytes);
        key.try_into().map(Self).map_err(|_| BadPublicKey)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// A text that is no public key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadPublicKey;

impl fmt::Display for BadPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a public key: write the 44 characters that `manypath key show` prints")
    }
}

impl std::error::Error for BadPublicKey {}

/// A private key that could not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadKey;

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "no Ed25519 key: the system has no randomness, or the secret has less than 256 bits",
        )
    }
}

impl std::error::Error for BadKey {}

/// A key pair.
#[derive(Clone)]
pub struct Identity {
    pub(crate) key: Arc<CertifiedKey>,
    public: PublicKey,
    /// What its tickets are sealed with in a file.
    tickets: Arc<Zeroizing<[u8; KEY_LEN]>>,
}

impl Identity {
    /// A new private key (RFC 8032 section 5.1.5), to be kept secret.
    ///
    /// # Errors
    /// [`BadKey`] if the system has no randomness.
    pub fn generate() -> Result<Zeroizing<[u8; KEY_LEN]>, BadKey> {
        let mut private = Zeroizing::new([0; KEY_LEN]);
        SystemRandom::new().fill(private.as_mut()).map_err(|_| BadKey)?;
        Ok(private)
    }

    /// The key pair of a private key.
    ///
    /// # Errors
    /// [`BadKey`] if the library refuses it.
    pub fn from_private(private: &[u8; KEY_LEN]) -> Result<Self, BadKey> {
        let der = Zeroizing::new([PKCS8_PREFIX.as_slice(), private].concat());
        let signing = any_eddsa_type(&PrivatePkcs8KeyDer::from(der.as_slice()));
        let signing = signing.map_err(|_| BadKey)?;
        let spki = signing.public_key().ok_or(BadKey)?;
        let public = PublicKey::from_spki(&spki).ok_or(BadKey)?;
        let raw = CertificateDer::from(spki.to_vec());
        let key = Arc::new(CertifiedKey::new(vec![raw], signing));
        let tickets = Arc::new(derive(private, (TICKETS_LABEL, b"key"))?);
        Ok(Self { key, public, tickets })
    }

    /// The key pair of all who have a secret: HKDF with SHA-256 (RFC 5869) makes the private key.
    ///
    /// # Errors
    /// [`BadKey`] if the secret has less than 256 bits.
    pub fn from_secret(secret: &[u8]) -> Result<Self, BadKey> {
        if secret.len() < KEY_LEN {
            return Err(BadKey);
        }
        Self::from_private(&*derive(secret, (SECRET_LABEL, b"identity"))?)
    }

    /// What seals tickets that are kept in a file, so that who has the file alone can do nothing with it.
    pub(crate) fn ticket_cipher(&self) -> Option<LessSafeKey> {
        UnboundKey::new(&AES_256_GCM, self.tickets.as_slice()).ok().map(LessSafeKey::new)
    }

    /// What peers know it by.
    pub const fn public_key(&self) -> PublicKey {
        self.public
    }
}

/// HKDF with SHA-256 (RFC 5869).
fn derive(secret: &[u8], (salt, info): (&[u8], &[u8])) -> Result<Zeroizing<[u8; KEY_LEN]>, BadKey> {
    let secret = Salt::new(HKDF_SHA256, salt).extract(secret);
    let mut derived = Zeroizing::new([0; KEY_LEN]);
    let info = [info];
    let expanded = secret.expand(&info, HKDF_SHA256);
    expanded.and_then(|key| key.fill(derived.as_mut())).map_err(|_| BadKey)?;
    Ok(derived)
}

impl fmt::Debug for Identity {
    /// Does not print the private key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.public).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{BadKey, BadPublicKey, Identity, PublicKey};

    fn identity(private: [u8; 32]) -> Identity {
        Identity::from_private(&private).unwrap()
    }

    #[test]
    fn a_private_key_always_gives_the_same_identity() {
        let private = Identity::generate().unwrap();
        let public = identity(*private).public_key();
        assert_eq!(identity(*private).public_key(), public);
        assert_ne!(identity(*Identity::generate().unwrap()).public_key(), public);
        assert_eq!(format!("{:?}", identity(*private)), format!("Identity(PublicKey({public}))"));
    }

    /// RFC 8032 section 7.1, test 1.
    #[test]
    fn public_keys_are_those_of_the_rfc() {
        let private = "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=".parse::<PublicKey>();
        let public = identity(*private.unwrap().as_bytes()).public_key();
        assert_eq!(public.to_string(), "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=");
    }

    #[test]
    fn who_has_the_secret_has_the_identity() {
        let of = |secret: &[u8]| Identity::from_secret(secret).map(|it| it.public_key());
        // By HKDF and Ed25519 of Python: versions that differ would not know each other.
        let expected = "X4m6zL7VOP1lBnDXD2AidRDwZdOPyZSqqI4OhbIzhKQ=".parse().unwrap();
        assert_eq!(of(&[7; 32]), Ok(expected));
        assert_ne!(of(&[7; 32]), of(&[7; 33]));
        assert_ne!(of(&[7; 32]), Ok(identity([7; 32]).public_key()));
        assert_eq!(of(&[7; 31]), Err(BadKey));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        assert_eq!(PublicKey::from_spki(&[0; 44]), None);
        let key = PublicKey([0xFF; 32]).to_string();
        for text in ["", "=", &key[1..], &key[..43], &format!("{key}A"), &format!("{key}{key}")] {
            assert_eq!(text.parse::<PublicKey>(), Err(BadPublicKey), "{text}");
        }
        // The last character has bits that belong to no byte.
        assert_eq!(key.replace("8=", "9=").parse::<PublicKey>(), Err(BadPublicKey));
    }

    #[test]
    fn keys_print_as_base64_and_are_read_as_ssh_writes_them_too() {
        let key = PublicKey(*b"manypath lets any TCP program us");
        assert_eq!(key.to_string(), "bWFueXBhdGggbGV0cyBhbnkgVENQIHByb2dyYW0gdXM=");
        assert_eq!(key.to_string().parse(), Ok(key));
        let ssh = "AAAAC3NzaC1lZDI1NTE5AAAAIG1hbnlwYXRoIGxldHMgYW55IFRDUCBwcm9ncmFtIHVz";
        assert_eq!(ssh.parse(), Ok(key));
    }
}
