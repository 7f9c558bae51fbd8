//! Initiation Acknowledgement (INIT ACK, type 2).

use super::{Init, RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::numbers::{Tsn, VerificationTag};
use crate::parameter::Parameters;
use core::fmt;

/// Initiation Acknowledgement (RFC 9260 section 3.3.3).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Type = 2    |  Chunk Flags  |         Chunk Length          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                         Initiate Tag                          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |               Advertised Receiver Window Credit               |
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
pub struct InitAck<'a> {
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
    /// Parameters; the State Cookie is mandatory.
    pub parameters: Parameters<'a>,
}

impl<'a> InitAck<'a> {
    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let Init { tag, a_rwnd, outbound_streams, inbound_streams, initial_tsn, parameters } =
            Init::parse(raw)?;
        Ok(Self { tag, a_rwnd, outbound_streams, inbound_streams, initial_tsn, parameters })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::INIT_ACK, 0], |out| self.fields().emit_value(out))
    }

    pub(super) fn value_len(&self) -> usize {
        self.fields().value_len()
    }

    /// The chunk as the INIT that has the same fields.
    const fn fields(&self) -> Init<'a> {
        let Self { tag, a_rwnd, outbound_streams, inbound_streams, initial_tsn, parameters } =
            *self;
        Init { tag, a_rwnd, outbound_streams, inbound_streams, initial_tsn, parameters }
    }
}

impl fmt::Display for InitAck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("INIT ACK ")?;
        self.fields().fmt_fields(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::parameter::Parameter;
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk};
    use std::string::ToString;
    use std::vec::Vec;

    /// usrsctp's INIT ACK, its cookie of 328 bytes cut to 5.
    const CAPTURE: &[u8] = b"\x02\x00\x00\x21\x2d\xcc\x76\xb2\x00\x02\x00\x00\
        \x00\x0a\x08\x00\x65\x08\x92\x57\
        \x80\x00\x00\x04\x00\x07\x00\x09KAME-";

    fn init_ack() -> InitAck<'static> {
        InitAck {
            tag: VerificationTag(0x2DCC_76B2),
            a_rwnd: 131_072,
            outbound_streams: 10,
            inbound_streams: 2048,
            initial_tsn: Tsn(0x6508_9257),
            parameters: Parameters::from_bytes(&CAPTURE[20..]),
        }
    }

    #[test]
    fn reads_and_writes_the_capture() {
        assert_eq!(parse_chunk(CAPTURE), Ok(Chunk::InitAck(init_ack())));
        assert_round_trip(Chunk::InitAck(init_ack()), CAPTURE);
        assert_eq!(
            init_ack().to_string(),
            "INIT ACK tag=0x2dcc76b2 a_rwnd=131072 streams=10/2048 tsn=1695060567 \
             {ecn_capable, state_cookie=5 bytes}"
        );
        let parameters: Vec<_> = init_ack().parameters.iter().collect();
        assert_eq!(parameters, [Ok(Parameter::EcnCapable), Ok(Parameter::StateCookie(b"KAME-"))]);
    }

    #[test]
    fn a_chunk_shorter_than_its_fixed_fields_is_refused() {
        assert_minimum_length(CAPTURE, 20);
    }
}
