//! Lists of error causes, read and written.

use super::Cause;
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::tlv::{TlvError, Tlvs};
use core::fmt;

/// The error causes of a chunk, borrowed. Equal when their bytes are.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |          Cause Code           |         Cause Length          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// /                  Cause-Specific Information                   /
/// \                                                               \
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Causes<'a> {
    bytes: &'a [u8],
}

impl<'a> Causes<'a> {
    /// No causes.
    pub const EMPTY: Self = Self { bytes: &[] };

    /// Causes as they stand in a chunk, or as [`CauseWriter`] wrote them.
    pub const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The causes in order. After an error in a cause's header nothing more comes, for nobody knows
    /// where the next one begins; after an error in its value the next one does.
    pub const fn iter(&self) -> CauseIter<'a> {
        CauseIter { tlvs: Tlvs::new(self.bytes) }
    }

    /// The bytes, with or without the padding of the last cause.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Size in bytes without the padding of the last cause, which no chunk's Length counts.
    pub fn encoded_len(&self) -> usize {
        Tlvs::unpadded_len(self.bytes)
    }

    pub(crate) fn unpadded(&self) -> &'a [u8] {
        self.bytes.get(..self.encoded_len()).unwrap_or(self.bytes)
    }
}

impl<'a> IntoIterator for Causes<'a> {
    type Item = Result<Cause<'a>, ParseError>;
    type IntoIter = CauseIter<'a>;

    fn into_iter(self) -> CauseIter<'a> {
        self.iter()
    }
}

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, cause) in self.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            match cause {
                Ok(cause) => cause.fmt(f)?,
                Err(error) => write!(f, "malformed: {error}")?,
            }
        }
        f.write_str("}")
    }
}

/// Iterator over [`Causes`].
#[derive(Clone, Debug)]
pub struct CauseIter<'a> {
    tlvs: Tlvs<'a>,
}

impl<'a> Iterator for CauseIter<'a> {
    type Item = Result<Cause<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.tlvs.next().map(|tlv| Cause::parse(tlv.map_err(header_error)?))
    }
}

const fn header_error(error: TlvError) -> ParseError {
    match error {
        TlvError::Header => ParseError::CauseHeader,
        TlvError::Length { kind, length } => ParseError::CauseLength { code: kind, length },
        TlvError::Truncated { kind, length } => ParseError::CauseTruncated { code: kind, length },
    }
}

/// Appends error causes to a caller's buffer, for [`Causes::from_bytes`].
#[derive(Debug)]
pub struct CauseWriter<'b> {
    out: Output<'b>,
}

impl<'b> CauseWriter<'b> {
    /// Nothing written yet.
    pub const fn new(buffer: &'b mut [u8]) -> Self {
        Self { out: Output::new(buffer) }
    }

    /// Appends a cause and its padding, or nothing.
    ///
    /// # Errors
    /// [`NoRoom`] if the rest of the buffer or the cause's 16-bit Length is too small for it.
    pub fn push(&mut self, cause: &Cause<'_>) -> Result<(), NoRoom> {
        cause.emit(&mut self.out)
    }

    /// Bytes written, the padding of the last cause included.
    pub const fn finish(self) -> usize {
        self.out.len()
    }
}
