//! Selective Acknowledgement (SACK, type 3).

use super::{GapBlock, GapBlocks, RawChunk, Tsns, types};
use crate::bytes::{Output, Reader};
use crate::error::{NoRoom, ParseError};
use crate::list::{Item, List};
use crate::numbers::Tsn;
use core::fmt;

/// Bytes of the fixed fields, without the chunk header.
const FIXED_LEN: usize = 12;

/// Selective Acknowledgement (RFC 9260 section 3.3.4).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Type = 3    |  Chunk Flags  |         Chunk Length          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                      Cumulative TSN Ack                       |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |          Advertised Receiver Window Credit (a_rwnd)           |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// | Number of Gap Ack Blocks = N  |  Number of Duplicate TSNs = M |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |    Gap Ack Block #1 Start     |     Gap Ack Block #1 End      |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// /                                                               /
/// \                              ...                              \
/// /                                                               /
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |    Gap Ack Block #N Start     |     Gap Ack Block #N End      |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                        Duplicate TSN 1                        |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// /                                                               /
/// \                              ...                              \
/// /                                                               /
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                        Duplicate TSN M                        |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sack<'a> {
    /// Zero in RFC 9260. With delayed acknowledgements for CMT, bits 7 and 6 count the packets
    /// with DATA that are acknowledged by this chunk, up to three.
    pub flags: u8,
    /// Cumulative TSN Ack: all TSNs up to this one have been received.
    pub cum_tsn: Tsn,
    /// Advertised receiver window credit in bytes.
    pub a_rwnd: u32,
    /// What has been received beyond the first gap.
    pub gaps: GapBlocks<'a>,
    /// TSNs received again since the last SACK.
    pub duplicates: Tsns<'a>,
}

impl<'a> Sack<'a> {
    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let mut reader = raw.reader();
        let (Some(cum_tsn), Some(a_rwnd), Some(gaps), Some(duplicates)) =
            (reader.u32(), reader.u32(), reader.u16(), reader.u16())
        else {
            return Err(raw.length_error());
        };
        let (Some(gaps), Some(duplicates)) =
            (take_list(&mut reader, gaps), take_list(&mut reader, duplicates))
        else {
            return Err(counts_error(&raw));
        };
        Ok(Self { flags: raw.flags(), cum_tsn: Tsn(cum_tsn), a_rwnd, gaps, duplicates })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::SACK, self.flags], |out| {
            out.u32(self.cum_tsn.0)?;
            out.u32(self.a_rwnd)?;
            out.u16(count(self.gaps)?)?;
            out.u16(count(self.duplicates)?)?;
            put_list(out, self.gaps)?;
            put_list(out, self.duplicates)
        })
    }

    pub(super) const fn value_len(&self) -> usize {
        FIXED_LEN + ITEM_LEN * (self.gaps.len() + self.duplicates.len())
    }
}

impl fmt::Display for Sack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SACK cum_tsn={} a_rwnd={} gaps=", self.cum_tsn.0, self.a_rwnd)?;
        fmt_blocks(f, self.gaps)?;
        write!(f, " duplicates={}", self.duplicates.len())
    }
}

/// Bytes of a Gap Ack Block and of a TSN.
pub(super) const ITEM_LEN: usize = 4;

/// The next `count` items.
pub(super) fn take_list<'a, T: Item<Wire = [u8; ITEM_LEN]>>(
    reader: &mut Reader<'a>,
    count: u16,
) -> Option<List<'a, T>> {
    let bytes = reader.bytes(usize::from(count) * ITEM_LEN)?;
    Some(List::from_wire(bytes.as_chunks().0))
}

/// The number of items as a field of the chunk.
pub(super) fn count<T: Item>(list: List<'_, T>) -> Result<u16, NoRoom> {
    u16::try_from(list.len()).map_err(|_| NoRoom)
}

pub(super) fn put_list<T: Item>(out: &mut Output<'_>, list: List<'_, T>) -> Result<(), NoRoom> {
    list.iter().try_for_each(|item| out.bytes(item.to_wire().as_ref()))
}

pub(super) const fn counts_error(raw: &RawChunk<'_>) -> ParseError {
    ParseError::AckCounts { type_byte: raw.type_byte(), length: raw.length() }
}

/// `[2-3,5-5]`
pub(super) fn fmt_blocks(f: &mut fmt::Formatter<'_>, blocks: List<'_, GapBlock>) -> fmt::Result {
    for (index, block) in blocks.iter().enumerate() {
        write!(f, "{}{block}", if index == 0 { "[" } else { "," })?;
    }
    f.write_str(if blocks.is_empty() { "[]" } else { "]" })
}
