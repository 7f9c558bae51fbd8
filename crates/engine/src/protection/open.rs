//! Records that arrive.

use super::replay::ReplayWindow;
use super::{
    APPLICATION_DATA, MAX_RECORDS, RECORD_HEADER_LEN, RECORD_TRAILER_LEN, RecordKey, TAG_LEN,
    first_byte,
};

/// Why a record was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// It is too short, has another form than the draft's, or holds something else than chunks.
    Malformed,
    /// There is no key for its epoch.
    UnknownEpoch,
    /// It has come before, or is so old that this cannot be told.
    Replayed,
    /// The tag is wrong.
    NotAuthentic,
    /// So many records had a wrong tag that the key is not used any more.
    Exhausted,
}

/// Key material for receiving in one epoch, with its replay window.
#[derive(Debug)]
pub struct OpeningKey {
    epoch: u64,
    key: RecordKey,
    window: ReplayWindow,
    opened: u64,
    failures: u64,
}

impl OpeningKey {
    /// A key that nothing was opened with.
    pub fn new(epoch: u64, key: RecordKey) -> Self {
        Self { epoch, key, window: ReplayWindow::new(), opened: 0, failures: 0 }
    }

    /// Its epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Records opened with it.
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// Records that were not authentic.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Whether so much was received with it that it should be replaced.
    pub(super) fn is_aged(&self) -> bool {
        let limits = self.key.cipher().limits();
        self.opened >= MAX_RECORDS.min(limits.sealed / 2) || self.failures >= limits.failures / 2
    }

    /// Whether a record may have been sealed in its epoch.
    pub fn matches(&self, record: &[u8]) -> bool {
        record.first() == Some(&first_byte(self.epoch))
    }

    /// Opens a record in place and returns the chunks in it.
    ///
    /// # Errors
    /// [`OpenError`]; the record is of no use then.
    pub fn open<'r>(&mut self, record: &'r mut [u8]) -> Result<&'r [u8], OpenError> {
        if !self.matches(record) || record.len() < RECORD_HEADER_LEN + RECORD_TRAILER_LEN {
            return Err(OpenError::Malformed);
        }
        if self.failures >= self.key.cipher().limits().failures {
            return Err(OpenError::Exhausted);
        }
        self.key.mask_header(record).ok_or(OpenError::Malformed)?;
        let Some((header, sealed)) = record.split_first_chunk_mut::<RECORD_HEADER_LEN>() else {
            return Err(OpenError::Malformed);
        };
        let sequence = self.window.reconstruct(u16::from_be_bytes([header[1], header[2]]));
        if !self.window.is_new(sequence) {
            return Err(OpenError::Replayed);
        }
        if !self.key.cipher().open(self.key.nonce(sequence), header, sealed) {
            self.failures += 1;
            return Err(OpenError::NotAuthentic);
        }
        self.window.note(sequence);
        self.opened += 1;
        chunks(sealed).ok_or(OpenError::Malformed)
    }
}

/// The chunks in a decrypted record: what stands before its content type and the zeros behind that.
fn chunks(opened: &[u8]) -> Option<&[u8]> {
    let (inner, _tag) = opened.split_last_chunk::<TAG_LEN>()?;
    let at = inner.iter().rposition(|byte| *byte != 0)?;
    let (chunks, rest) = inner.split_at(at);
    (rest.first() == Some(&APPLICATION_DATA)).then_some(chunks)
}
