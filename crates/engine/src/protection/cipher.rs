//! What the record layer wants of a cipher suite.

use alloc::boxed::Box;
use core::fmt;

/// Bytes of nonce and initialization vector in all cipher suites of TLS 1.3.
pub const NONCE_LEN: usize = 12;
/// Bytes of the authentication tag.
pub const TAG_LEN: usize = 16;
/// Bytes of ciphertext from which the mask of a sequence number is made (RFC 9147 section 4.2.3).
pub const SAMPLE_LEN: usize = 16;

/// The keys of one direction in one epoch: an AEAD and the encryption of sequence numbers.
pub trait RecordCipher: Send + Sync {
    /// Encrypts `content` in place and returns the tag. None if it is too long for the cipher.
    fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        additional: &[u8],
        content: &mut [u8],
    ) -> Option<[u8; TAG_LEN]>;

    /// Decrypts `content` in place, which ends with its tag. False if it is not authentic; the bytes
    /// are then of no use.
    fn open(&self, nonce: [u8; NONCE_LEN], additional: &[u8], content: &mut [u8]) -> bool;

    /// The mask of a sequence number (RFC 9147 section 4.2.3).
    fn mask(&self, sample: &[u8; SAMPLE_LEN]) -> [u8; 2];

    /// How much one key may be used for.
    fn limits(&self) -> Limits;
}

/// How much one key may be used for (RFC 9147 section 4.5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most records that are sealed with it.
    pub sealed: u64,
    /// Most records that fail to authenticate.
    pub failures: u64,
}

/// Key material of one direction in one epoch.
pub struct RecordKey {
    cipher: Box<dyn RecordCipher>,
    iv: [u8; NONCE_LEN],
}

impl RecordKey {
    /// A cipher with its keys, and the initialization vector that goes with them.
    pub fn new(cipher: impl RecordCipher + 'static, iv: [u8; NONCE_LEN]) -> Self {
        Self { cipher: Box::new(cipher), iv }
    }

    pub(super) fn cipher(&self) -> &dyn RecordCipher {
        &*self.cipher
    }

    /// The nonce of a record (RFC 8446 section 5.3). The epoch is no part of it (RFC 9147 section 4).
    pub(super) fn nonce(&self, sequence: u64) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        let low = nonce.iter_mut().skip(NONCE_LEN - size_of::<u64>());
        low.zip(sequence.to_be_bytes()).for_each(|(byte, by)| *byte ^= by);
        nonce
    }

    /// Encrypts or decrypts the sequence number in the header of `record`.
    pub(super) fn mask_header(&self, record: &mut [u8]) -> Option<()> {
        let (header, content) = record.split_first_chunk_mut::<{ super::RECORD_HEADER_LEN }>()?;
        let mask = self.cipher.mask(content.first_chunk()?);
        header[1..].iter_mut().zip(mask).for_each(|(byte, by)| *byte ^= by);
        Some(())
    }
}

impl fmt::Debug for RecordKey {
    /// Does not print keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordKey").finish_non_exhaustive()
    }
}
