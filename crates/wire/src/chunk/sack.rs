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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::packet::PacketWriter;
    use crate::testing::{HEADER, assert_minimum_length, assert_round_trip, parse_chunk};
    use std::string::ToString;
    use std::vec;
    use std::vec::Vec;

    /// The example of RFC 9260 section 3.3.4, and 19 received three times.
    const CAPTURE: &[u8] = b"\x03\x00\x00\x20\x00\x00\x00\x0c\x00\x00\x12\x34\
        \x00\x02\x00\x02\x00\x02\x00\x03\x00\x05\x00\x05\
        \x00\x00\x00\x13\x00\x00\x00\x13";
    const GAPS: [GapBlock; 2] = [GapBlock { start: 2, end: 3 }, GapBlock { start: 5, end: 5 }];
    const DUPLICATES: [Tsn; 2] = [Tsn(19), Tsn(19)];

    fn sack() -> Sack<'static> {
        Sack {
            flags: 0,
            cum_tsn: Tsn(12),
            a_rwnd: 4660,
            gaps: GapBlocks::from_slice(&GAPS),
            duplicates: Tsns::from_slice(&DUPLICATES),
        }
    }

    #[test]
    fn reads_and_writes_the_example() {
        assert_eq!(parse_chunk(CAPTURE), Ok(Chunk::Sack(sack())));
        assert_round_trip(Chunk::Sack(sack()), CAPTURE);
        assert_eq!(sack().to_string(), "SACK cum_tsn=12 a_rwnd=4660 gaps=[2-3,5-5] duplicates=2");
    }

    #[test]
    fn flags_are_kept() {
        let mut bytes = Vec::from(CAPTURE);
        bytes[1] = 0xC0;
        assert_round_trip(Chunk::Sack(Sack { flags: 0xC0, ..sack() }), &bytes);
    }

    #[test]
    fn counts_beyond_the_length_are_refused() {
        for (gaps, duplicates) in [(3, 2), (2, 3), (0xFFFF, 0xFFFF)] {
            let mut bytes = Vec::from(CAPTURE);
            bytes[12..14].copy_from_slice(&u16::to_be_bytes(gaps));
            bytes[14..16].copy_from_slice(&u16::to_be_bytes(duplicates));
            let error = ParseError::AckCounts { type_byte: 3, length: 32 };
            assert_eq!(parse_chunk(&bytes), Err(error));
        }
    }

    #[test]
    fn bytes_beyond_the_counts_are_ignored() {
        let mut bytes = Vec::from(CAPTURE);
        bytes[15] = 1;
        let once = Sack { duplicates: Tsns::from_slice(&DUPLICATES[..1]), ..sack() };
        assert_eq!(parse_chunk(&bytes), Ok(Chunk::Sack(once)));
    }

    #[test]
    fn a_chunk_shorter_than_its_fixed_fields_is_refused() {
        let empty = b"\x03\x00\x00\x10\x00\x00\x00\x0c\x00\x00\x12\x34\x00\x00\x00\x00";
        assert_minimum_length(empty, 16);
    }

    #[test]
    fn more_than_the_length_can_tell_is_not_written() {
        let blocks = vec![GapBlock::default(); 16_380];
        let most = Sack { gaps: GapBlocks::from_slice(&blocks[..16_377]), ..sack() };
        let more = Sack { gaps: GapBlocks::from_slice(&blocks), ..sack() };
        let mut buffer = vec![0; 70_000];
        let mut writer = PacketWriter::new(&mut buffer, HEADER);
        assert_eq!(writer.push(&Chunk::Sack(more)), Err(NoRoom));
        assert!(writer.is_empty());
        assert_eq!(Chunk::Sack(most).encoded_len(), 65_532);
        assert_eq!(writer.push(&Chunk::Sack(most)), Ok(()));
    }
}
