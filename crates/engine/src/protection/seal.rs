//! Records that are sent.

use super::{
    APPLICATION_DATA, MAX_RECORDS, MAX_SEQUENCE, RECORD_HEADER_LEN, RecordKey, TAG_LEN, first_byte,
};

/// The key may protect no more records: it takes the keys of another epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exhausted;

/// Key material for sending in one epoch, and the next sequence number.
#[derive(Debug)]
pub struct SealingKey {
    epoch: u64,
    next: u64,
    key: RecordKey,
}

impl SealingKey {
    /// A key that nothing was sealed with: "the first DTLS record for each epoch will use sequence
    /// number 0" (draft section 3.1).
    pub fn new(epoch: u64, key: RecordKey) -> Self {
        Self { epoch, next: 0, key }
    }

    /// Its epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Records sealed with it.
    pub fn sealed(&self) -> u64 {
        self.next
    }

    /// Records that it may still seal.
    pub fn left(&self) -> u64 {
        self.key.cipher().limits().sealed.min(MAX_SEQUENCE).saturating_sub(self.next)
    }

    /// Whether so much was sent with it that it should be replaced.
    pub(super) fn is_aged(&self) -> bool {
        self.next >= MAX_RECORDS.min(self.left())
    }

    /// Makes a record of `record` in place: room for the header, the chunks, room for content type and
    /// tag.
    ///
    /// # Errors
    /// [`Exhausted`] at the limit of the cipher suite. A record without room for its parts is none
    /// either.
    pub fn seal(&mut self, record: &mut [u8]) -> Result<(), Exhausted> {
        if self.left() == 0 {
            return Err(Exhausted);
        }
        let sequence = self.next;
        self.next += 1;
        self.seal_as(sequence, record).ok_or(Exhausted)
    }

    fn seal_as(&self, sequence: u64, record: &mut [u8]) -> Option<()> {
        let (header, rest) = record.split_first_chunk_mut::<RECORD_HEADER_LEN>()?;
        let (content, tag) = rest.split_last_chunk_mut::<TAG_LEN>()?;
        let [.., high, low] = sequence.to_be_bytes();
        *header = [first_byte(self.epoch), high, low];
        *content.last_mut()? = APPLICATION_DATA;
        *tag = self.key.cipher().seal(self.key.nonce(sequence), header, content)?;
        self.key.mask_header(record)
    }
}
