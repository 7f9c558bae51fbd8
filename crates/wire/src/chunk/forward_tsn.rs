//! Forward Cumulative TSN (FORWARD-TSN, type 192).

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::list::{List, item};
use crate::numbers::{Ssn, StreamId, Tsn};
use core::fmt;

/// Forward Cumulative TSN (RFC 3758 section 3.2): TSNs that the sender gives up are to be taken for
/// received. It goes with DATA only, as I-FORWARD-TSN goes with I-DATA only.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Type = 192  |  Flags = 0x00 |        Length = Variable      |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                      New Cumulative TSN                       |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |         Stream-1              |       Stream Sequence-1       |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// /                              ...                              /
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |         Stream-N              |       Stream Sequence-N       |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForwardTsn<'a> {
    /// New Cumulative TSN: all TSNs up to this one are received or given up.
    pub cum_tsn: Tsn,
    /// The last ordered message that is given up, per stream.
    pub skipped: SkippedStreams<'a>,
}

/// Ordered messages of a stream up to this one will not come any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SkippedStream {
    /// The stream.
    pub stream: StreamId,
    /// The largest number that is skipped.
    pub ssn: Ssn,
}

/// Skipped streams in the order of the chunk.
pub type SkippedStreams<'a> = List<'a, SkippedStream>;

item!(SkippedStream, [u8; 4], Self::from_be_bytes, Self::to_be_bytes);

impl SkippedStream {
    pub(crate) fn from_be_bytes([s0, s1, n0, n1]: [u8; 4]) -> Self {
        Self {
            stream: StreamId(u16::from_be_bytes([s0, s1])),
            ssn: Ssn(u16::from_be_bytes([n0, n1])),
        }
    }

    pub(crate) fn to_be_bytes(self) -> [u8; 4] {
        let [s0, s1] = self.stream.0.to_be_bytes();
        let [n0, n1] = self.ssn.0.to_be_bytes();
        [s0, s1, n0, n1]
    }
}

impl<'a> ForwardTsn<'a> {
    /// Bytes of a chunk that skips nothing, its header included.
    pub const HEADER_LEN: usize = 8;
    /// Bytes of one skipped stream.
    pub const ITEM_LEN: usize = 4;

    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let mut reader = raw.reader();
        let cum_tsn = reader.u32().ok_or(raw.length_error())?;
        let (items, rest) = reader.rest().as_chunks();
        if !rest.is_empty() {
            return Err(raw.length_error());
        }
        Ok(Self { cum_tsn: Tsn(cum_tsn), skipped: List::from_wire(items) })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::FORWARD_TSN, 0], |out| {
            out.u32(self.cum_tsn.0)?;
            self.skipped.iter().try_for_each(|item| out.bytes(&item.to_be_bytes()))
        })
    }

    pub(super) const fn value_len(&self) -> usize {
        size_of::<Tsn>() + Self::ITEM_LEN * self.skipped.len()
    }
}

impl fmt::Display for ForwardTsn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FORWARD-TSN cum_tsn={} skipped=[", self.cum_tsn.0)?;
        for (index, SkippedStream { stream, ssn }) in self.skipped.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}:{}", stream.0, ssn.0)?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::testing::{assert_round_trip, parse_chunk, with_length};
    use std::string::ToString;
    use std::vec::Vec;

    const BYTES: &[u8] = b"\xc0\x00\x00\x10\x65\x08\x92\x56\
        \x00\x03\x00\x07\
        \x00\x04\xff\xff";
    const SKIPPED: [SkippedStream; 2] = [
        SkippedStream { stream: StreamId(3), ssn: Ssn(7) },
        SkippedStream { stream: StreamId(4), ssn: Ssn(65_535) },
    ];

    fn chunk() -> ForwardTsn<'static> {
        ForwardTsn { cum_tsn: Tsn(0x6508_9256), skipped: List::from_slice(&SKIPPED) }
    }

    #[test]
    fn reads_and_writes_the_layout() {
        assert_eq!(parse_chunk(BYTES), Ok(Chunk::ForwardTsn(chunk())));
        assert_round_trip(Chunk::ForwardTsn(chunk()), BYTES);
        assert_eq!(chunk().to_string(), "FORWARD-TSN cum_tsn=1695060566 skipped=[3:7,4:65535]");
        let nothing = ForwardTsn { cum_tsn: Tsn(1), skipped: SkippedStreams::EMPTY };
        assert_round_trip(Chunk::ForwardTsn(nothing), b"\xc0\x00\x00\x08\x00\x00\x00\x01");
    }

    #[test]
    fn flags_are_ignored() {
        let mut bytes = Vec::from(BYTES);
        bytes[1] = 0xFF;
        assert_eq!(parse_chunk(&bytes), Ok(Chunk::ForwardTsn(chunk())));
    }

    #[test]
    fn half_an_entry_is_refused() {
        for length in 4..=16 {
            let good = length == 8 || length == 12 || length == 16;
            assert_eq!(parse_chunk(&with_length(BYTES, length)).is_ok(), good, "{length}");
        }
    }
}
