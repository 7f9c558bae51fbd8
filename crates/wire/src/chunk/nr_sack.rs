//! Selective Acknowledgement with non-renegable blocks (NR-SACK, type 16).

use super::sack::{ITEM_LEN, count, counts_error, fmt_blocks, put_list, take_list};
use super::{GapBlocks, RawChunk, Tsns, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::numbers::Tsn;
use core::fmt;

/// Bytes of the fixed fields, without the chunk header.
const FIXED_LEN: usize = 16;

/// Selective Acknowledgement with non-renegable blocks (draft-tuexen-tsvwg-sctp-multipath
/// section 3.2). To be sent only to a peer that lists the type in its Supported Extensions
/// parameter: others drop the rest of the packet without a word.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |  Type = 0x10  |  Chunk Flags  |         Chunk Length          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                      Cumulative TSN Ack                       |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |          Advertised Receiver Window Credit (a_rwnd)           |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |Number of R Gap Ack Blocks = N |Number of NR Gap Ack Blocks = M|
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// | Number of Duplicate TSNs = X  |           Reserved            |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// /   N R Gap Ack Blocks: Start (16 bits), End (16 bits) each     /
/// /   M NR Gap Ack Blocks: Start (16 bits), End (16 bits) each    /
/// /   X Duplicate TSNs: 32 bits each                              /
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NrSack<'a> {
    /// As in [`Sack`](super::Sack).
    pub flags: u8,
    /// Cumulative TSN Ack: all TSNs up to this one have been received.
    pub cum_tsn: Tsn,
    /// Advertised receiver window credit in bytes.
    pub a_rwnd: u32,
    /// Received beyond the first gap, and still allowed to be discarded by the receiver.
    pub gaps: GapBlocks<'a>,
    /// Received beyond the first gap, and never to be discarded.
    pub nr_gaps: GapBlocks<'a>,
    /// TSNs received again since the last acknowledgement.
    pub duplicates: Tsns<'a>,
}

impl<'a> NrSack<'a> {
    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let mut reader = raw.reader();
        let (Some(cum_tsn), Some(a_rwnd)) = (reader.u32(), reader.u32()) else {
            return Err(raw.length_error());
        };
        let (Some(gaps), Some(nr_gaps), Some(duplicates), Some(_reserved)) =
            (reader.u16(), reader.u16(), reader.u16(), reader.u16())
        else {
            return Err(raw.length_error());
        };
        let (Some(gaps), Some(nr_gaps), Some(duplicates)) = (
            take_list(&mut reader, gaps),
            take_list(&mut reader, nr_gaps),
            take_list(&mut reader, duplicates),
        ) else {
            return Err(counts_error(&raw));
        };
        Ok(Self { flags: raw.flags(), cum_tsn: Tsn(cum_tsn), a_rwnd, gaps, nr_gaps, duplicates })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::NR_SACK, self.flags], |out| {
            out.u32(self.cum_tsn.0)?;
            out.u32(self.a_rwnd)?;
            out.u16(count(self.gaps)?)?;
            out.u16(count(self.nr_gaps)?)?;
            out.u16(count(self.duplicates)?)?;
            out.u16(0)?;
            put_list(out, self.gaps)?;
            put_list(out, self.nr_gaps)?;
            put_list(out, self.duplicates)
        })
    }

    pub(super) const fn value_len(&self) -> usize {
        let items = self.gaps.len() + self.nr_gaps.len() + self.duplicates.len();
        FIXED_LEN + ITEM_LEN * items
    }
}

impl fmt::Display for NrSack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NR-SACK cum_tsn={} a_rwnd={} gaps=", self.cum_tsn.0, self.a_rwnd)?;
        fmt_blocks(f, self.gaps)?;
        f.write_str(" nr_gaps=")?;
        fmt_blocks(f, self.nr_gaps)?;
        write!(f, " duplicates={}", self.duplicates.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Chunk, GapBlock};
    use super::*;
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk};
    use std::string::ToString;
    use std::vec::Vec;

    const R: [GapBlock; 2] = [GapBlock { start: 8, end: 8 }, GapBlock { start: 11, end: 12 }];
    const NR: [GapBlock; 3] = [
        GapBlock { start: 2, end: 5 },
        GapBlock { start: 10, end: 10 },
        GapBlock { start: 13, end: 13 },
    ];

    /// TSNs 2, 3, 5-8, 11 and 13-16 have come; 5-8, 13 and 16 are delivered.
    const CAPTURE: &[u8] = b"\x10\x00\x00\x28\x00\x00\x00\x03\x00\x00\x0f\xa0\
        \x00\x02\x00\x03\x00\x00\x00\x00\
        \x00\x08\x00\x08\x00\x0b\x00\x0c\
        \x00\x02\x00\x05\x00\x0a\x00\x0a\x00\x0d\x00\x0d";

    fn mixed() -> NrSack<'static> {
        NrSack {
            flags: 0,
            cum_tsn: Tsn(3),
            a_rwnd: 4000,
            gaps: GapBlocks::from_slice(&R),
            nr_gaps: GapBlocks::from_slice(&NR),
            duplicates: Tsns::EMPTY,
        }
    }

    #[test]
    fn reads_and_writes_the_capture() {
        assert_eq!(parse_chunk(CAPTURE), Ok(Chunk::NrSack(mixed())));
        assert_round_trip(Chunk::NrSack(mixed()), CAPTURE);
        assert_eq!(
            mixed().to_string(),
            "NR-SACK cum_tsn=3 a_rwnd=4000 gaps=[8-8,11-12] nr_gaps=[2-5,10-10,13-13] duplicates=0"
        );
    }

    /// All blocks of one kind: a receiver that never reneges, and one that delivered nothing.
    #[test]
    fn either_kind_of_block_may_be_absent() {
        const ALL: [GapBlock; 3] = [
            GapBlock { start: 2, end: 5 },
            GapBlock { start: 8, end: 8 },
            GapBlock { start: 10, end: 13 },
        ];
        let (none, all) = (GapBlocks::EMPTY, GapBlocks::from_slice(&ALL));
        for (gaps, nr_gaps, counts) in [(none, all, [0, 0, 0, 3]), (all, none, [0, 3, 0, 0])] {
            let mut expected = Vec::from(&CAPTURE[..12]);
            expected[3] = 32;
            expected.extend(counts);
            expected.extend(b"\x00\x00\x00\x00");
            expected.extend(b"\x00\x02\x00\x05\x00\x08\x00\x08\x00\x0a\x00\x0d");
            assert_round_trip(Chunk::NrSack(NrSack { gaps, nr_gaps, ..mixed() }), &expected);
        }
    }

    /// Offsets 2 to 7 are safe, and one TSN came twice.
    #[test]
    fn duplicates_follow_the_blocks() {
        let capture = b"\x10\x40\x00\x1c\x57\x79\xf7\x7a\x00\x02\x00\x00\
            \x00\x00\x00\x01\x00\x01\x00\x00\x00\x02\x00\x07\x57\x79\xf7\x7b";
        let nr_sack = NrSack {
            flags: 0x40,
            cum_tsn: Tsn(0x5779_F77A),
            a_rwnd: 131_072,
            gaps: GapBlocks::EMPTY,
            nr_gaps: GapBlocks::from_slice(&[GapBlock { start: 2, end: 7 }]),
            duplicates: Tsns::from_slice(&[Tsn(0x5779_F77B)]),
        };
        assert_eq!(parse_chunk(capture), Ok(Chunk::NrSack(nr_sack)));
        assert_round_trip(Chunk::NrSack(nr_sack), capture);
    }

    #[test]
    fn counts_beyond_the_length_are_refused() {
        for at in [13, 15, 17] {
            let mut bytes = Vec::from(CAPTURE);
            bytes[at] += 1;
            let error = ParseError::AckCounts { type_byte: 16, length: 40 };
            assert_eq!(parse_chunk(&bytes), Err(error));
        }
    }

    #[test]
    fn a_chunk_shorter_than_its_fixed_fields_is_refused() {
        let mut bytes = [0; 20];
        bytes[0] = 16;
        assert_minimum_length(&bytes, 20);
    }
}
