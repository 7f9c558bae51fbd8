//! OPEN, ACCEPT and REFUSE: how a flow begins, or does not.

use super::address;
use super::reader::Reader;
use crate::INITIAL_CREDIT;
use crate::error::FlowError;
use crate::event::Refusal;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Opens a flow (type 1, ordered, from the opener).
///
/// ```text
/// | header (8) | Window (4) | Destination (8 or 20) | Source (8 or 20) |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open {
    /// Bytes that the acceptor may send before it is granted more; at least `INITIAL_CREDIT`.
    pub window: u32,
    /// The address that the opener's program connected to.
    pub destination: SocketAddr,
    /// The address of the opener's program.
    pub source: SocketAddr,
}

impl Open {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, FlowError> {
        let window = reader.u32()?;
        if window < INITIAL_CREDIT {
            return Err(FlowError::BadWindow(window));
        }
        let destination = address::parse(reader)?;
        let source = address::parse(reader)?;
        Ok(Self { window, destination, source })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.window.to_be_bytes());
        address::encode(self.destination, out);
        address::encode(self.source, out);
    }
}

/// The flow is connected (type 2, ordered, from the acceptor).
///
/// ```text
/// | header (8) | Window (4) | Local address (8 or 20) |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accept {
    /// Bytes granted to the opener since the beginning, in place of `INITIAL_CREDIT`.
    pub window: u32,
    /// The acceptor's own address of its connection to the destination.
    pub local: SocketAddr,
}

impl Accept {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, FlowError> {
        Ok(Self { window: reader.u32()?, local: address::parse(reader)? })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.window.to_be_bytes());
        address::encode(self.local, out);
    }
}

/// REFUSE (type 3, ordered, from the acceptor).
///
/// ```text
/// | header (8) | Reason (1) | Reserved (1) | Linux errno (2) |
/// ```
impl Refusal {
    const NOT_ALLOWED: u8 = 1;
    const BUSY: u8 = 2;
    const ERRNO: u8 = 3;
    const NOT_RELAY: u8 = 4;
    const DESTINATION_CLOSED: u8 = 5;
    const NO_SUCH_NAME: u8 = 6;
    const CIRCLE: u8 = 7;
    const OVER_QUOTA: u8 = 8;
    /// Local only; sent as a reason it means what any unknown one means.
    const NO_STREAM: u8 = 0;

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, FlowError> {
        let reason = reader.u8()?;
        let _reserved = reader.u8()?;
        let errno = reader.u16()?;
        Ok(match reason {
            Self::NOT_ALLOWED => Self::NotAllowed,
            Self::BUSY => Self::Busy,
            Self::ERRNO => Self::Errno(errno),
            Self::NOT_RELAY => Self::NotRelay,
            Self::DESTINATION_CLOSED => Self::DestinationClosed,
            Self::NO_SUCH_NAME => Self::NoSuchName,
            Self::CIRCLE => Self::Circle,
            Self::OVER_QUOTA => Self::OverQuota,
            _ => Self::Other(reason),
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (reason, errno) = match self {
            Self::NotAllowed => (Self::NOT_ALLOWED, 0),
            Self::Busy => (Self::BUSY, 0),
            Self::Errno(errno) => (Self::ERRNO, *errno),
            Self::NotRelay => (Self::NOT_RELAY, 0),
            Self::DestinationClosed => (Self::DESTINATION_CLOSED, 0),
            Self::NoSuchName => (Self::NO_SUCH_NAME, 0),
            Self::Circle => (Self::CIRCLE, 0),
            Self::OverQuota => (Self::OVER_QUOTA, 0),
            Self::NoStream => (Self::NO_STREAM, 0),
            Self::Other(reason) => (*reason, 0),
        };
        out.extend_from_slice(&[reason, 0]);
        out.extend_from_slice(&errno.to_be_bytes());
    }
}
