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
