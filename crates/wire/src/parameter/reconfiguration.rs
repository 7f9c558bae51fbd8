//! Parameters of RE-CONFIG (RFC 6525 section 4): requests and responses about streams.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Parameter Type = 13       | Parameter Length = 16 + 2 * N |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Re-configuration Request Sequence Number            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Re-configuration Response Sequence Number           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                Sender's Last Assigned TSN                     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Stream Number 1 (optional)   |    Stream Number 2 (optional) |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! /                            ......                             /
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Parameter Type = 14       |  Parameter Length = 8 + 2 * N |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |          Re-configuration Request Sequence Number             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Stream Number 1 (optional)   |    Stream Number 2 (optional) |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! /                            ......                             /
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Parameter Type = 15       |      Parameter Length = 8     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |         Re-configuration Request Sequence Number              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Parameter Type = 16       |      Parameter Length         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |         Re-configuration Response Sequence Number             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                            Result                             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                   Sender's Next TSN (optional)                |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                  Receiver's Next TSN (optional)               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Parameter Type = 17 or 18    |      Parameter Length = 12    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |          Re-configuration Request Sequence Number             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |      Number of new streams    |         Reserved              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::unrecognized::length_error;
use crate::bytes::{Output, Reader};
use crate::error::{NoRoom, ParseError};
use crate::list::List;
use crate::numbers::{StreamId, Tsn};
use crate::tlv::Tlv;
use core::fmt;

/// Numbers of streams.
pub type StreamIds<'a> = List<'a, StreamId>;

/// Outgoing SSN Reset Request (RFC 6525 section 4.1): the sender begins anew with the numbers of its
/// messages on these streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutgoingSsnReset<'a> {
    /// Re-configuration Request Sequence Number.
    pub request: u32,
    /// Re-configuration Response Sequence Number: the request that this one answers, or the last one
    /// that was received.
    pub response: u32,
    /// Sender's Last Assigned TSN.
    pub last_tsn: Tsn,
    /// The streams; none means all.
    pub streams: StreamIds<'a>,
}

/// Incoming SSN Reset Request (RFC 6525 section 4.2): the peer is asked for an outgoing one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IncomingSsnReset<'a> {
    /// Re-configuration Request Sequence Number.
    pub request: u32,
    /// The streams; none means all.
    pub streams: StreamIds<'a>,
}

/// Re-configuration Response (RFC 6525 section 4.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReConfigResponse {
    /// Re-configuration Response Sequence Number: the request that is answered.
    pub response: u32,
    /// Result.
    pub result: ReConfigResult,
    /// Sender's Next TSN and Receiver's Next TSN, in the answer to an SSN/TSN reset.
    pub next_tsns: Option<(Tsn, Tsn)>,
}

/// Add Outgoing or Incoming Streams Request (RFC 6525 sections 4.5 and 4.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddStreams {
    /// Re-configuration Request Sequence Number.
    pub request: u32,
    /// Number of new streams.
    pub count: u16,
}

/// What became of a request (RFC 6525 section 4.4, table 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReConfigResult(pub u32);

impl ReConfigResult {
    /// Success - Nothing to do.
    pub const NOTHING_TO_DO: Self = Self(0);
    /// Success - Performed.
    pub const PERFORMED: Self = Self(1);
    /// Denied.
    pub const DENIED: Self = Self(2);
    /// Error - Wrong SSN.
    pub const WRONG_SSN: Self = Self(3);
    /// Error - Request already in progress.
    pub const ALREADY_IN_PROGRESS: Self = Self(4);
    /// Error - Bad Sequence Number.
    pub const BAD_SEQUENCE_NUMBER: Self = Self(5);
    /// In progress.
    pub const IN_PROGRESS: Self = Self(6);
}

impl fmt::Display for ReConfigResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NOTHING_TO_DO => f.write_str("nothing to do"),
            Self::PERFORMED => f.write_str("performed"),
            Self::DENIED => f.write_str("denied"),
            Self::WRONG_SSN => f.write_str("wrong SSN"),
            Self::ALREADY_IN_PROGRESS => f.write_str("request already in progress"),
            Self::BAD_SEQUENCE_NUMBER => f.write_str("bad sequence number"),
            Self::IN_PROGRESS => f.write_str("in progress"),
            Self(other) => write!(f, "result {other}"),
        }
    }
}

pub(super) fn parse_outgoing(tlv: Tlv<'_>) -> Result<OutgoingSsnReset<'_>, ParseError> {
    let mut reader = Reader::new(tlv.value);
    let (Some(request), Some(response), Some(last_tsn)) =
        (reader.u32(), reader.u32(), reader.u32())
    else {
        return Err(length_error(&tlv));
    };
    let streams = parse_streams(&tlv, reader)?;
    Ok(OutgoingSsnReset { request, response, last_tsn: Tsn(last_tsn), streams })
}

pub(super) fn parse_incoming(tlv: Tlv<'_>) -> Result<IncomingSsnReset<'_>, ParseError> {
    let mut reader = Reader::new(tlv.value);
    let request = reader.u32().ok_or(length_error(&tlv))?;
    Ok(IncomingSsnReset { request, streams: parse_streams(&tlv, reader)? })
}

fn parse_streams<'a>(tlv: &Tlv<'a>, reader: Reader<'a>) -> Result<StreamIds<'a>, ParseError> {
    match reader.rest().as_chunks() {
        (streams, []) => Ok(List::from_wire(streams)),
        _ => Err(length_error(tlv)),
    }
}

pub(super) fn parse_response(tlv: Tlv<'_>) -> Result<ReConfigResponse, ParseError> {
    let mut reader = Reader::new(tlv.value);
    let (Some(response), Some(result)) = (reader.u32(), reader.u32()) else {
        return Err(length_error(&tlv));
    };
    let next_tsns = match (reader.u32(), reader.u32()) {
        (None, None) => None,
        (Some(own), Some(peers)) => Some((Tsn(own), Tsn(peers))),
        (Some(_), None) | (None, Some(_)) => return Err(length_error(&tlv)),
    };
    if !reader.rest().is_empty() {
        return Err(length_error(&tlv));
    }
    Ok(ReConfigResponse { response, result: ReConfigResult(result), next_tsns })
}

pub(super) fn parse_add(tlv: Tlv<'_>) -> Result<AddStreams, ParseError> {
    let mut reader = Reader::new(tlv.value);
    match (reader.u32(), reader.u16(), reader.u16(), reader.rest()) {
        (Some(request), Some(count), Some(_reserved), []) => Ok(AddStreams { request, count }),
        _ => Err(length_error(&tlv)),
    }
}

pub(super) fn emit_outgoing(
    out: &mut Output<'_>,
    reset: &OutgoingSsnReset<'_>,
) -> Result<(), NoRoom> {
    out.u32(reset.request)?;
    out.u32(reset.response)?;
    out.u32(reset.last_tsn.0)?;
    emit_streams(out, reset.streams)
}

pub(super) fn emit_incoming(
    out: &mut Output<'_>,
    reset: &IncomingSsnReset<'_>,
) -> Result<(), NoRoom> {
    out.u32(reset.request)?;
    emit_streams(out, reset.streams)
}

fn emit_streams(out: &mut Output<'_>, streams: StreamIds<'_>) -> Result<(), NoRoom> {
    streams.iter().try_for_each(|stream| out.u16(stream.0))
}

pub(super) fn emit_response(
    out: &mut Output<'_>,
    response: &ReConfigResponse,
) -> Result<(), NoRoom> {
    out.u32(response.response)?;
    out.u32(response.result.0)?;
    let Some((own, peers)) = response.next_tsns else { return Ok(()) };
    out.u32(own.0)?;
    out.u32(peers.0)
}

pub(super) fn emit_add(out: &mut Output<'_>, add: AddStreams) -> Result<(), NoRoom> {
    out.u32(add.request)?;
    out.u16(add.count)?;
    out.u16(0)
}

impl fmt::Display for OutgoingSsnReset<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request, response, last_tsn, streams } = self;
        write!(f, "outgoing_ssn_reset request={request} response={response} ")?;
        write!(f, "last_tsn={} ", last_tsn.0)?;
        fmt_streams(f, *streams)
    }
}

impl fmt::Display for IncomingSsnReset<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "incoming_ssn_reset request={} ", self.request)?;
        fmt_streams(f, self.streams)
    }
}

fn fmt_streams(f: &mut fmt::Formatter<'_>, streams: StreamIds<'_>) -> fmt::Result {
    f.write_str("streams=[")?;
    for (index, stream) in streams.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(f, "{comma}{}", stream.0)?;
    }
    f.write_str("]")
}

impl fmt::Display for ReConfigResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reconfig_response response={} {}", self.response, self.result)?;
        match self.next_tsns {
            Some((own, peers)) => write!(f, " next_tsns={},{}", own.0, peers.0),
            None => Ok(()),
        }
    }
}

impl fmt::Display for AddStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request={} count={}", self.request, self.count)
    }
}
