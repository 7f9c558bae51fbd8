//! Network byte order, read and written without a way to panic.

use crate::error::NoRoom;

/// Size to which chunks, parameters and causes are padded (RFC 9260 sections 3.2 and 3.2.1).
const ALIGNMENT: usize = 4;

/// `len` and the padding that follows it.
pub(crate) const fn padded(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT)
}

/// Takes fields from the front of a byte slice; `None` when it has run out.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(head)
    }

    /// Everything that has not been taken.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*head)
    }
}

/// Appends fields to a caller's buffer.
#[derive(Debug)]
pub(crate) struct Output<'b> {
    buffer: &'b mut [u8],
    len: usize,
}

impl<'b> Output<'b> {
    pub(crate) const fn new(buffer: &'b mut [u8]) -> Self {
        Self { buffer, len: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn capacity(&self) -> usize {
        self.buffer.len()
    }

    pub(crate) fn written(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }

    pub(crate) fn written_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(..self.len).unwrap_or_default()
    }

    pub(crate) fn u16(&mut self, value: u16) -> Result<(), NoRoom> {
        self.bytes(&value.to_be_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> Result<(), NoRoom> {
        self.bytes(&value.to_be_bytes())
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        let end = self.len + bytes.len();
        self.buffer.get_mut(self.len..end).ok_or(NoRoom)?.copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    /// Replaces what was written at `at`.
    pub(crate) fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.buffer.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// Writes a chunk, parameter or cause: two bytes of type, a Length that counts from the type
    /// to the end of what `value` writes, and zero bytes up to the next boundary. All or nothing.
    pub(crate) fn block(
        &mut self,
        head: [u8; 2],
        value: impl FnOnce(&mut Self) -> Result<(), NoRoom>,
    ) -> Result<(), NoRoom> {
        self.whole(|out| {
            let start = out.len;
            out.bytes(&head)?;
            out.u16(0)?;
            value(out)?;
            let length = u16::try_from(out.len - start).map_err(|_| NoRoom)?;
            out.overwrite(start + 2, &length.to_be_bytes());
            out.pad(start)
        })
    }

    /// Takes back what `write` has written if it runs out of room.
    pub(crate) fn whole(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), NoRoom>,
    ) -> Result<(), NoRoom> {
        let start = self.len;
        let result = write(self);
        if result.is_err() {
            self.len = start;
        }
        result
    }

    /// Zero bytes until the block that began at `start` is a multiple of four bytes long.
    fn pad(&mut self, start: usize) -> Result<(), NoRoom> {
        let len = self.len - start;
        let zeros = [0; ALIGNMENT];
        self.bytes(zeros.get(..padded(len) - len).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_takes_fields_until_it_has_run_out() {
        let mut reader = Reader::new(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(reader.u16(), Some(0x0102));
        assert_eq!(reader.u32(), Some(0x0304_0506));
        assert_eq!(reader.u32(), None);
        assert_eq!(reader.bytes(4), None);
        assert_eq!(reader.rest(), [7, 8, 9]);
        assert_eq!(reader.bytes(2), Some(&[7, 8][..]));
        assert_eq!(reader.u16(), None);
        assert_eq!(reader.rest(), [9]);
    }

    #[test]
    fn a_block_is_padded_with_zeros_and_its_length_is_not() {
        let mut buffer = [0xFF; 12];
        let mut out = Output::new(&mut buffer);
        assert_eq!(out.block([1, 2], |out| out.bytes(b"abcde")), Ok(()));
        assert_eq!(out.written(), b"\x01\x02\x00\x09abcde\x00\x00\x00");
    }

    #[test]
    fn a_block_is_written_whole_or_not_at_all() {
        // The header, the value and the padding are each one byte too many in turn.
        for (capacity, value) in [(7, &b""[..]), (11, b"abcd"), (11, b"abc"), (10, b"abc")] {
            let mut buffer = [0xFF; 16];
            let mut out = Output::new(&mut buffer[..capacity]);
            assert_eq!(out.bytes(b"1234"), Ok(()));
            let fits = 4 + padded(4 + value.len()) <= capacity;
            assert_eq!(out.block([1, 2], |out| out.bytes(value)).is_ok(), fits);
            assert_eq!(out.len(), if fits { capacity } else { 4 });
        }
    }

    #[test]
    fn a_block_has_a_length_of_16_bits() {
        let mut buffer = std::vec![0; 70_000];
        let value = std::vec![0; 65_532];
        let mut out = Output::new(&mut buffer);
        assert_eq!(out.block([0, 0], |out| out.bytes(&value)), Err(NoRoom));
        assert_eq!(out.len(), 0);
        assert_eq!(out.block([0, 0], |out| out.bytes(&value[1..])), Ok(()));
        assert_eq!(out.len(), 65_536);
    }
}
