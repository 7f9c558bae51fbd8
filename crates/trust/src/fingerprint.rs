//! What people compare.

use base64ct::{Base64Unpadded, Encoding};
use bip39::{Language, Mnemonic};
use manypath_keys::{PublicKey, SSH_PREFIX};
use ring::digest::{Context, SHA256};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Bytes that the words stand for: 128 bits, with a checksum of 4 bits in the last word.
const WORDS_LEN: usize = 16;
/// What addresses of keys begin with: those of hash identifiers (RFC 7343 section 2), with an algorithm that is ours.
const ADDRESS_PREFIX: [u8; 4] = [0x20, 0x01, 0x00, 0x2f];

/// SHA-256 of a public key in the encoding of SSH. It prints as `ssh-keygen -l` prints that of the same key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fingerprint([u8; 32]);

/// Whether `addr` stands for a host by its key: see [`Fingerprint::address`].
#[must_use]
pub fn is_key_address(addr: IpAddr) -> bool {
    matches!(addr, IpAddr::V6(v6) if v6.octets().starts_with(&ADDRESS_PREFIX))
}

/// A text that is no fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadFingerprint;

impl Fingerprint {
    /// Its first eight bytes: enough to tell a few hosts apart that do not deceive.
    pub fn mark(&self) -> [u8; 8] {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        [a, b, c, d, e, f, g, h]
    }

    /// The IPv6 address that stands for the host with the key, wherever that is. It is no address of any network
    /// (RFC 7343 section 1): 32 fixed bits, and the first 96 of the fingerprint.
    #[must_use]
    pub fn address(&self) -> Ipv6Addr {
        let mut octets = [0; 16];
        octets[..4].copy_from_slice(&ADDRESS_PREFIX);
        octets[4..].copy_from_slice(&self.0[..12]);
        octets.into()
    }

    /// That of a key.
    #[must_use]
    pub fn of(key: &PublicKey) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(&SSH_PREFIX);
        context.update(key.as_bytes());
        let mut digest = [0; 32];
        digest.copy_from_slice(context.finish().as_ref());
        Self(digest)
    }

    /// Its first 128 bits as twelve English words (BIP 39), to be read out.
    #[must_use]
    pub fn words(&self) -> String {
        // 16 bytes are a length that there are words for.
        let words = Mnemonic::from_entropy(&self.0[..WORDS_LEN]);
        words.map_or_else(|_| String::new(), |words| words.to_string())
    }

    /// Whether a person has written down this fingerprint, as `SHA256:` with its base64 or as twelve words in any case,
    /// between blanks or hyphens.
    ///
    /// # Errors
    /// [`BadFingerprint`] if the text is neither; also if a word is wrong, which its checksum mostly shows.
    pub fn matches(&self, text: &str) -> Result<bool, BadFingerprint> {
        if let Some(base64) = text.trim().strip_prefix("SHA256:") {
            let mut room = [0; 32];
            let bytes = Base64Unpadded::decode(base64, &mut room).map_err(|_| BadFingerprint)?;
            return if bytes.len() == 32 { Ok(bytes == self.0) } else { Err(BadFingerprint) };
        }
        let words = text.to_lowercase().replace('-', " ");
        let words = Mnemonic::parse_in_normalized(Language::English, &words);
        let (bytes, len) = words.map_err(|_| BadFingerprint)?.to_entropy_array();
        if len == WORDS_LEN { Ok(bytes[..len] == self.0[..len]) } else { Err(BadFingerprint) }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHA256:{}", Base64Unpadded::encode_string(&self.0))
    }
}

impl fmt::Display for BadFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a fingerprint: write SHA256:... or the twelve words that `manypath key show` prints")
    }
}

impl std::error::Error for BadFingerprint {}
