//! Forward Cumulative TSN supporting Interleaving (I-FORWARD-TSN, type 194).

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::list::{List, item};
use crate::numbers::{Mid, StreamId, Tsn};
use core::fmt;

/// Forward Cumulative TSN supporting Interleaving (RFC 8260 section 2.3.1): TSNs that the sender
/// gives up are to be taken for received. It goes with I-DATA only, as FORWARD-TSN (RFC 3758) goes
/// with DATA only.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Type = 194  | Flags = 0x00  |      Length = Variable        |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                       New Cumulative TSN                      |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |       Stream Identifier       |          Reserved           |U|
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                       Message Identifier                      |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// /              (stream, U and message identifier) ...           /
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IForwardTsn<'a> {
    /// New Cumulative TSN: all TSNs up to this one are received or given up.
    pub cum_tsn: Tsn,
    /// The last message that is given up, per stream and kind.
    pub skipped: SkippedMessages<'a>,
}

/// Messages of a stream up to this one will not come any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SkippedMessage {
    /// The stream.
    pub stream: StreamId,
    /// U: whether `mid` counts the unordered messages.
    pub unordered: bool,
    /// The largest number that is skipped.
    pub mid: Mid,
}

/// Skipped messages in the order of the chunk.
pub type SkippedMessages<'a> = List<'a, SkippedMessage>;

item!(SkippedMessage, [u8; 8], Self::from_be_bytes, Self::to_be_bytes);

impl SkippedMessage {
    pub(crate) fn from_be_bytes([s0, s1, _, bits, m0, m1, m2, m3]: [u8; 8]) -> Self {
        Self {
            stream: StreamId(u16::from_be_bytes([s0, s1])),
            unordered: bits & 1 != 0,
            mid: Mid(u32::from_be_bytes([m0, m1, m2, m3])),
        }
    }

    pub(crate) fn to_be_bytes(self) -> [u8; 8] {
        let [s0, s1] = self.stream.0.to_be_bytes();
        let [m0, m1, m2, m3] = self.mid.0.to_be_bytes();
        [s0, s1, 0, u8::from(self.unordered), m0, m1, m2, m3]
    }
}

impl<'a> IForwardTsn<'a> {
    /// Bytes of one skipped message.
    const ITEM_LEN: usize = 8;

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
        out.block([types::I_FORWARD_TSN, 0], |out| {
            out.u32(self.cum_tsn.0)?;
            self.skipped.iter().try_for_each(|item| out.bytes(&item.to_be_bytes()))
        })
    }

    pub(super) const fn value_len(&self) -> usize {
        size_of::<Tsn>() + Self::ITEM_LEN * self.skipped.len()
    }
}

impl fmt::Display for IForwardTsn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "I-FORWARD-TSN cum_tsn={} skipped=[", self.cum_tsn.0)?;
        for (index, SkippedMessage { stream, unordered, mid }) in self.skipped.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}{}{}", stream.0, if unordered { "u" } else { ":" }, mid.0)?;
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

    const BYTES: &[u8] = b"\xc2\x00\x00\x18\x65\x08\x92\x56\
        \x00\x03\x00\x00\x00\x00\x00\x07\
        \x00\x04\x00\x01\x00\x01\x00\x00";
    const SKIPPED: [SkippedMessage; 2] = [
        SkippedMessage { stream: StreamId(3), unordered: false, mid: Mid(7) },
        SkippedMessage { stream: StreamId(4), unordered: true, mid: Mid(65_536) },
    ];

    fn chunk() -> IForwardTsn<'static> {
        IForwardTsn { cum_tsn: Tsn(0x6508_9256), skipped: List::from_slice(&SKIPPED) }
    }

    #[test]
    fn reads_and_writes_the_layout() {
        assert_eq!(parse_chunk(BYTES), Ok(Chunk::IForwardTsn(chunk())));
        assert_round_trip(Chunk::IForwardTsn(chunk()), BYTES);
        let text = "I-FORWARD-TSN cum_tsn=1695060566 skipped=[3:7,4u65536]";
        assert_eq!(chunk().to_string(), text);
    }

    #[test]
    fn reserved_bits_are_ignored() {
        let mut bytes = Vec::from(BYTES);
        bytes[1] = 0xFF;
        bytes[10] = 0xFF;
        bytes[11] = 0xFE;
        assert_eq!(parse_chunk(&bytes), Ok(Chunk::IForwardTsn(chunk())));
    }

    #[test]
    fn half_an_entry_is_refused() {
        for length in 4..=24 {
            let good = length == 8 || length == 16 || length == 24;
            assert_eq!(parse_chunk(&with_length(BYTES, length)).is_ok(), good, "{length}");
        }
    }
}
