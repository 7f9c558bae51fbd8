//! The cipher suites of TLS 1.3 (RFC 8446 appendix B.4) for the engine's record layer, by ring.
#![no_std]
#![forbid(unsafe_code)]

use manypath_engine::protection::{
    Limits, NONCE_LEN, RecordCipher, RecordKey, SAMPLE_LEN, TAG_LEN,
};
use ring::aead::quic::{self, HeaderProtectionKey};
use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};

/// A cipher suite, by its AEAD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CipherSuite {
    /// `TLS_AES_128_GCM_SHA256`.
    Aes128Gcm,
    /// `TLS_AES_256_GCM_SHA384`.
    Aes256Gcm,
    /// `TLS_CHACHA20_POLY1305_SHA256`.
    ChaCha20Poly1305,
}

/// Key material of another length than the cipher suite has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongLength;

impl CipherSuite {
    /// All of them, the fastest with AES instructions first.
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// Its number in the registry of TLS.
    pub const fn id(self) -> u16 {
        match self {
            Self::Aes128Gcm => 0x1301,
            Self::Aes256Gcm => 0x1302,
            Self::ChaCha20Poly1305 => 0x1303,
        }
    }

    /// Its name there.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "TLS_AES_128_GCM_SHA256",
            Self::Aes256Gcm => "TLS_AES_256_GCM_SHA384",
            Self::ChaCha20Poly1305 => "TLS_CHACHA20_POLY1305_SHA256",
        }
    }

    /// The one with this number in the registry of TLS.
    pub fn from_id(id: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.id() == id)
    }

    /// Bytes of the record key, and of the sequence number key.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// Key material of one direction in one epoch: what RFC 8446 section 7.3 and RFC 9147 section 4.2.3
    /// derive as `key`, `iv` and `sn`.
    ///
    /// # Errors
    /// [`WrongLength`] unless both keys have [`Self::key_len`] bytes.
    pub fn key(
        self,
        key: &[u8],
        iv: [u8; NONCE_LEN],
        sequence_number_key: &[u8],
    ) -> Result<RecordKey, WrongLength> {
        let (record, number) = self.algorithms();
        let key = UnboundKey::new(record, key).map_err(|_| WrongLength)?;
        let mask =
            HeaderProtectionKey::new(number, sequence_number_key).map_err(|_| WrongLength)?;
        let limits = self.limits();
        Ok(RecordKey::new(Keys { key: LessSafeKey::new(key), mask, limits }, iv))
    }

    fn algorithms(self) -> (&'static aead::Algorithm, &'static quic::Algorithm) {
        match self {
            Self::Aes128Gcm => (&aead::AES_128_GCM, &quic::AES_128),
            Self::Aes256Gcm => (&aead::AES_256_GCM, &quic::AES_256),
            Self::ChaCha20Poly1305 => (&aead::CHACHA20_POLY1305, &quic::CHACHA20),
        }
    }

    /// RFC 8446 section 5.5: 2^24.5 records of full size with AES-GCM; RFC 9147 section 4.5.3: 2^36 failures with
    /// either.
    const fn limits(self) -> Limits {
        let sealed = match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 23_726_566,
            Self::ChaCha20Poly1305 => u64::MAX,
        };
        Limits { sealed, failures: 1 << 36 }
    }
}

struct Keys {
    key: LessSafeKey,
    mask: HeaderProtectionKey,
    limits: Limits,
}

impl RecordCipher for Keys {
    fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        additional: &[u8],
        content: &mut [u8],
    ) -> Option<[u8; TAG_LEN]> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(additional), content);
        tag.ok()?.as_ref().try_into().ok()
    }

    fn open(&self, nonce: [u8; NONCE_LEN], additional: &[u8], content: &mut [u8]) -> bool {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key.open_in_place(nonce, Aad::from(additional), content).is_ok()
    }

    fn mask(&self, sample: &[u8; SAMPLE_LEN]) -> [u8; 2] {
        // Samples have one length with all algorithms.
        let mask = self.mask.new_mask(sample).unwrap_or_default();
        [mask[0], mask[1]]
    }

    fn limits(&self) -> Limits {
        self.limits
    }
}
