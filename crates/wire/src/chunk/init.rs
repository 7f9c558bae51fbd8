//! Initiation (INIT, type 1), and the fields that it shares with INIT ACK.

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::numbers::{Tsn, VerificationTag};
use crate::parameter::Parameters;
use core::fmt;

/// Bytes of the fixed fields, without the chunk header.
const FIXED_LEN: usize = 16;

/// Initiation (RFC 9260 section 3.3.2).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Type = 1    |  Chunk Flags  |      Chunk Length             |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                         Initiate Tag                          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |          Advertised Receiver Window Credit (a_rwnd)           |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |  Number of Outbound Streams   |   Number of Inbound Streams   |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                          Initial TSN                          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// \                                                               \
/// /              Optional/Variable-Length Parameters              /
/// \                                                               \
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Init<'a> {
    /// Initiate Tag: the verification tag of every packet to the sender of this chunk.
    pub tag: VerificationTag,
    /// Advertised receiver window credit in bytes.
    pub a_rwnd: u32,
    /// Number of streams that the sender wishes to send on.
    pub outbound_streams: u16,
    /// Largest number of streams that the receiver may send on.
    pub inbound_streams: u16,
    /// TSN of the sender's first DATA chunk.
    pub initial_tsn: Tsn,
    /// Optional and variable-length parameters.
    pub parameters: Parameters<'a>,
}

impl<'a> Init<'a> {
    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let mut reader = raw.reader();
        let (Some(tag), Some(a_rwnd), Some(outbound_streams), Some(inbound_streams), Some(tsn)) =
            (reader.u32(), reader.u32(), reader.u16(), reader.u16(), reader.u32())
        else {
            return Err(raw.length_error());
        };
        Ok(Self {
            tag: VerificationTag(tag),
            a_rwnd,
            outbound_streams,
            inbound_streams,
            initial_tsn: Tsn(tsn),
            parameters: Parameters::from_bytes(reader.rest()),
        })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::INIT, 0], |out| self.emit_value(out))
    }

    /// The fields without the chunk header: INIT ACK has the same.
    pub(super) fn emit_value(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.u32(self.tag.0)?;
        out.u32(self.a_rwnd)?;
        out.u16(self.outbound_streams)?;
        out.u16(self.inbound_streams)?;
        out.u32(self.initial_tsn.0)?;
        out.bytes(self.parameters.unpadded())
    }

    pub(super) fn value_len(&self) -> usize {
        FIXED_LEN + self.parameters.encoded_len()
    }

    /// The fields without the chunk's name.
    pub(super) fn fmt_fields(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tag={:#010x} a_rwnd={}", self.tag.0, self.a_rwnd)?;
        write!(f, " streams={}/{}", self.outbound_streams, self.inbound_streams)?;
        write!(f, " tsn={} {}", self.initial_tsn.0, self.parameters)
    }
}

impl fmt::Display for Init<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("INIT ")?;
        self.fmt_fields(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::parameter::{Parameter, ParameterWriter};
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk, with_length};
    use std::string::ToString;

    /// The beginning of usrsctp's INIT: adaptation indication and ECN.
    const CAPTURE: &[u8] = b"\x01\x00\x00\x20\x5b\x3a\xc9\x3e\x00\x02\x00\x00\
        \x00\x0a\x08\x00\xd5\x4a\x7b\xa0\
        \xc0\x06\x00\x08\x00\x00\x6d\x70\x80\x00\x00\x04";

    fn init(parameters: Parameters<'_>) -> Init<'_> {
        Init {
            tag: VerificationTag(0x5B3A_C93E),
            a_rwnd: 131_072,
            outbound_streams: 10,
            inbound_streams: 2048,
            initial_tsn: Tsn(0xD54A_7BA0),
            parameters,
        }
    }

    #[test]
    fn reads_and_writes_the_capture() {
        let expected = init(Parameters::from_bytes(&CAPTURE[20..]));
        assert_eq!(parse_chunk(&with_length(CAPTURE, 32)), Ok(Chunk::Init(expected)));
        assert_round_trip(Chunk::Init(expected), CAPTURE);
        assert_eq!(
            expected.to_string(),
            "INIT tag=0x5b3ac93e a_rwnd=131072 streams=10/2048 tsn=3578428320 \
             {adaptation=0x00006d70, ecn_capable}"
        );
    }

    #[test]
    fn the_length_does_not_count_the_last_padding() {
        let mut buffer = [0xFF; 64];
        let mut writer = ParameterWriter::new(&mut buffer);
        writer.push(&Parameter::SupportedExtensions(&[0x10])).unwrap();
        let len = writer.finish();
        assert_eq!(len, 8);
        let init = init(Parameters::from_bytes(&buffer[..len]));
        let mut expected = with_length(&CAPTURE[..20], 25);
        expected.extend(b"\x80\x08\x00\x05\x10");
        assert_round_trip(Chunk::Init(init), &expected);
    }

    #[test]
    fn a_length_that_counts_the_last_padding_reads_the_same() {
        let mut bytes = with_length(&CAPTURE[..20], 25);
        bytes.extend(b"\x80\x08\x00\x05\x10\x00\x00\x00");
        let padded = with_length(&bytes, 28);
        assert_eq!(parse_chunk(&padded), parse_chunk(&bytes));
    }

    #[test]
    fn malformed_parameters_do_not_hide_the_chunk() {
        let bytes = with_length(CAPTURE, 30);
        let Ok(Chunk::Init(parsed)) = parse_chunk(&bytes) else { panic!("not an INIT") };
        let mut parameters = parsed.parameters.iter();
        assert_eq!(parameters.next(), Some(Ok(Parameter::AdaptationIndication(0x6d70))));
        assert_eq!(parameters.next(), Some(Err(ParseError::ParameterHeader)));
        assert_eq!(parameters.next(), None);
        assert_round_trip(Chunk::Init(parsed), &bytes[..30]);
    }

    #[test]
    fn a_chunk_shorter_than_its_fixed_fields_is_refused() {
        assert_minimum_length(CAPTURE, 20);
    }
}
