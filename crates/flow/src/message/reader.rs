//! Takes big-endian fields from the front of a message.

use crate::error::FlowError;

/// The rest of a message that is being read.
pub(super) struct Reader<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads `bytes`, the whole of a message of type `kind` (which the errors name).
    pub(super) fn new(kind: u8, bytes: &'a [u8]) -> Self {
        Self { kind, rest: bytes }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FlowError> {
        let (field, rest) = self.rest.split_first_chunk().ok_or(FlowError::Truncated(self.kind))?;
        self.rest = rest;
        Ok(*field)
    }

    /// The next byte, which stays.
    pub(super) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], FlowError> {
        let (field, rest) =
            self.rest.split_at_checked(count).ok_or(FlowError::Truncated(self.kind))?;
        self.rest = rest;
        Ok(field)
    }

    pub(super) fn u8(&mut self) -> Result<u8, FlowError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, FlowError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, FlowError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, FlowError> {
        self.array().map(u64::from_be_bytes)
    }
}
