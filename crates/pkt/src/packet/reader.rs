//! Reads what the stack has sent. It is not trusted to be well-formed.

/// Chunks, parameters or causes, one after the other: the bytes of each without padding.
pub(crate) struct Tlvs<'a>(pub &'a [u8]);

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<&'a [u8], String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let length =
            self.0.get(2..4).map(|bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])));
        let item = length.filter(|length| *length >= 4).and_then(|length| self.0.get(..length));
        let Some(item) = item else {
            self.0 = &[];
            return Some(Err("the packet ends in the middle of a chunk or parameter".into()));
        };
        self.0 = self.0.get(item.len().next_multiple_of(4)..).unwrap_or_default();
        Some(Ok(item))
    }
}

/// Fields, one after the other.
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next `len` bytes.
    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or("is too short")?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The next number of `width` bytes.
    pub(super) fn number(&mut self, width: usize) -> Result<u32, String> {
        Ok(self.bytes(width)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
