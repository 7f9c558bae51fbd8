//! Control messages: bytes to typed messages and back. The layouts are in `docs/flow-protocol.md`.
//!
//! Every control message begins with the same eight bytes:
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Type      |   Flags     |O|           Reserved            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          Generation                           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! A message may be longer than the layout known here: what follows is of a later version and is
//! ignored. A type of 128 or more that is not known may be ignored too; one below may not.

mod address;
mod credit;
mod datagram;
mod end;
mod probe;
mod reader;
mod relay;
mod setup;

pub use credit::{Credit, Return, Want};
pub use datagram::{DatagramBody, DatagramOpen, SeenAt};
pub use end::Finish;
pub use probe::{Probe, Report};
pub use relay::{Beyond, Destination, HostName, Passed, RelayAnswer, RelayBody, RelayOpen};
pub use setup::{Accept, Open};

use crate::error::FlowError;
use crate::event::Refusal;
use alloc::vec::Vec;
use bytes::Bytes;
use reader::Reader;

/// Flag O: the sender of the message is the opener of the flow.
const FROM_OPENER: u8 = 0x01;

/// Types from here on may be ignored by a receiver that does not know them.
const FIRST_IGNORABLE: u8 = 0x80;

/// A control message: which flow of its stream it is about, and what it says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Control {
    /// Whether the sender of the message opened the flow; otherwise its receiver did.
    pub from_opener: bool,
    /// How many flows that opener has opened on the stream, this one included; the number of a flow of
    /// datagrams.
    pub generation: u32,
    /// What it says.
    pub body: Body,
}

/// What a control message says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// Opens a flow.
    Open(Open),
    /// The flow is connected to its destination.
    Accept(Accept),
    /// The flow will not be; the acceptor's end of it.
    Refuse(Refusal),
    /// The sender's orderly end.
    Finish(Finish),
    /// The sender's end at once; it reads no more either.
    Reset,
    /// Grants credit.
    Credit(Credit),
    /// Asks for a larger window.
    Want(Want),
    /// Gives unused credit back.
    Return(Return),
    /// Asks for a report.
    Probe(Probe),
    /// Answers a probe, behind the data sent before.
    Report(Report),
    /// Is about a flow of datagrams.
    Datagram(DatagramBody),
    /// Is about destinations beyond the acceptor.
    Relay(RelayBody),
}

/// What the bytes of a control message turned out to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parsed {
    /// A message.
    Control(Control),
    /// A message of this type, unknown here, that may be ignored.
    Ignorable(u8),
}

impl Body {
    /// The type field.
    pub fn kind(&self) -> u8 {
        match self {
            Self::Open(_) => 1,
            Self::Accept(_) => 2,
            Self::Refuse(_) => 3,
            Self::Finish(_) => 4,
            Self::Reset => 5,
            Self::Credit(_) => 6,
            Self::Want(_) => 7,
            Self::Return(_) => 8,
            Self::Probe(_) => Probe::KIND,
            Self::Report(_) => Report::KIND,
            Self::Datagram(datagram) => datagram.kind(),
            Self::Relay(relay) => relay.kind(),
        }
    }

    /// Whether the message must keep its place among the others of its stream.
    pub fn is_ordered(&self) -> bool {
        match self {
            Self::Open(_) | Self::Accept(_) | Self::Refuse(_) | Self::Finish(_) | Self::Reset => {
                true
            }
            Self::Credit(_)
            | Self::Want(_)
            | Self::Return(_)
            | Self::Probe(_)
            | Self::Report(_) => false,
            Self::Datagram(datagram) => datagram.is_ordered(),
            Self::Relay(relay) => relay.is_ordered(),
        }
    }

    fn parse(kind: u8, reader: &mut Reader<'_>) -> Result<Option<Self>, FlowError> {
        Ok(Some(match kind {
            1 => Self::Open(Open::parse(reader)?),
            2 => Self::Accept(Accept::parse(reader)?),
            3 => Self::Refuse(Refusal::parse(reader)?),
            4 => Self::Finish(Finish::parse(reader)?),
            5 => Self::Reset,
            6 => Self::Credit(Credit::parse(reader)?),
            7 => Self::Want(Want::parse(reader)?),
            8 => Self::Return(Return::parse(reader)?),
            Probe::KIND => Self::Probe(Probe::parse(reader)?),
            Report::KIND => Self::Report(Report::parse(reader)?),
            other if other >= FIRST_IGNORABLE => {
                return match DatagramBody::parse(other, reader)? {
                    Some(datagram) => Ok(Some(Self::Datagram(datagram))),
                    None => Ok(RelayBody::parse(other, reader)?.map(Self::Relay)),
                };
            }
            unknown => return Err(FlowError::UnknownMessage(unknown)),
        }))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Open(open) => open.encode(out),
            Self::Accept(accept) => accept.encode(out),
            Self::Refuse(refusal) => refusal.encode(out),
            Self::Finish(finish) => finish.encode(out),
            Self::Reset => {}
            Self::Credit(credit) => credit.encode(out),
            Self::Want(want) => want.encode(out),
            Self::Return(back) => back.encode(out),
            Self::Probe(probe) => probe.encode(out),
            Self::Report(report) => report.encode(out),
            Self::Datagram(datagram) => datagram.encode(out),
            Self::Relay(relay) => relay.encode(out),
        }
    }
}

impl Control {
    /// Reads a message. Never panics, and allocates nothing but what opens a flow beyond the acceptor, and a
    /// few addresses.
    pub fn parse(bytes: &[u8]) -> Result<Parsed, FlowError> {
        let kind = bytes.first().copied().unwrap_or(0);
        let mut reader = Reader::new(kind, bytes);
        let _ = reader.u8()?;
        let flags = reader.u8()?;
        let _reserved = reader.u16()?;
        let generation = reader.u32()?;
        let from_opener = flags & FROM_OPENER != 0;
        Ok(match Body::parse(kind, &mut reader)? {
            Some(body) => Parsed::Control(Self { from_opener, generation, body }),
            None => Parsed::Ignorable(kind),
        })
    }

    /// Writes the message.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(64);
        let flags = if self.from_opener { FROM_OPENER } else { 0 };
        out.extend_from_slice(&[self.body.kind(), flags, 0, 0]);
        out.extend_from_slice(&self.generation.to_be_bytes());
        self.body.encode(&mut out);
        out.into()
    }
}

#[cfg(test)]
mod tests;
