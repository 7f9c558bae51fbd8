//! How a flow of datagrams begins and ends, and what its destination says.
//!
//! In these messages the field Generation of the header is the number of the flow.

use super::address;
use super::reader::Reader;
use crate::error::FlowError;
use crate::event::Refusal;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// What a control message about a flow of datagrams says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DatagramBody {
    /// Opens the flow (type 130, ordered, from the opener).
    Open(DatagramOpen),
    /// The destination can be sent to (type 131, ordered, from the acceptor).
    Accept,
    /// The flow is over (type 132, ordered, from either side); why, if the acceptor does not want it.
    Close(Option<Refusal>),
    /// The destination's host has answered with an error (type 133, unordered, from the acceptor): a
    /// Linux error number.
    Unreachable(u16),
    /// Opens the flow to a destination beyond the acceptor (type 137, ordered, from the opener).
    OpenBeyond(DatagramOpen),
    /// Where the relay that joins two flows sees the far end of the other one (type 140, unordered, from either side).
    SeenAt(SeenAt),
}

/// Most addresses at which a host is seen.
const MAX_SEEN: usize = 8;

/// The addresses and UDP ports at which a relay sees a host, as NATs make them, or at which it sees itself.
///
/// ```text
/// | header (8) | Count (1) | Reserved (3) | Count times: address (8 or 20) |
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SeenAt(Vec<SocketAddr>);

impl SeenAt {
    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = SocketAddr> {
        self.0.iter().copied()
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, FlowError> {
        let count = reader.u8()?;
        let _reserved = reader.array::<3>()?;
        let count = usize::from(count).min(MAX_SEEN);
        (0..count).map(|_| address::parse(reader)).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.iter().count() as u8, 0, 0, 0]);
        self.iter().for_each(|address| address::encode(address, out));
    }
}

impl FromIterator<SocketAddr> for SeenAt {
    /// The first of them, as many as there is room for.
    fn from_iter<I: IntoIterator<Item = SocketAddr>>(addresses: I) -> Self {
        Self(addresses.into_iter().take(MAX_SEEN).collect())
    }
}

/// What a flow of datagrams is to be.
///
/// ```text
/// | header (8) | Lifetime (4) | Destination (8 or 20) | Source (8 or 20) |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatagramOpen {
    /// Milliseconds for which a datagram is worth something.
    pub lifetime_ms: u32,
    /// Where the opener's program sends to.
    pub destination: SocketAddr,
    /// The address of the opener's program.
    pub source: SocketAddr,
}

impl DatagramBody {
    const OPEN: u8 = 130;
    const ACCEPT: u8 = 131;
    const CLOSE: u8 = 132;
    const UNREACHABLE: u8 = 133;
    const OPEN_BEYOND: u8 = 137;
    const SEEN_AT: u8 = 140;

    pub(crate) const fn kind(&self) -> u8 {
        match self {
            Self::Open(_) => Self::OPEN,
            Self::Accept => Self::ACCEPT,
            Self::Close(_) => Self::CLOSE,
            Self::Unreachable(_) => Self::UNREACHABLE,
            Self::OpenBeyond(_) => Self::OPEN_BEYOND,
            Self::SeenAt(_) => Self::SEEN_AT,
        }
    }

    pub(crate) const fn is_ordered(&self) -> bool {
        match self {
            Self::Open(_) | Self::OpenBeyond(_) | Self::Accept | Self::Close(_) => true,
            Self::Unreachable(_) | Self::SeenAt(_) => false,
        }
    }

    /// `None` for types that are not about datagrams.
    pub(super) fn parse(kind: u8, reader: &mut Reader<'_>) -> Result<Option<Self>, FlowError> {
        Ok(Some(match kind {
            Self::OPEN => Self::Open(DatagramOpen::parse(reader)?),
            Self::ACCEPT => Self::Accept,
            Self::CLOSE => Self::Close(parse_end(reader)?),
            Self::UNREACHABLE => Self::Unreachable(reader.u16()?),
            Self::OPEN_BEYOND => Self::OpenBeyond(DatagramOpen::parse(reader)?),
            Self::SEEN_AT => Self::SeenAt(SeenAt::parse(reader)?),
            _ => return Ok(None),
        }))
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Open(open) | Self::OpenBeyond(open) => open.encode(out),
            Self::Accept => {}
            Self::Close(None) => out.extend_from_slice(&[0; 4]),
            Self::Close(Some(refusal)) => refusal.encode(out),
            Self::Unreachable(errno) => out.extend_from_slice(&errno.to_be_bytes()),
            Self::SeenAt(seen) => seen.encode(out),
        }
    }
}

/// The layout is that of REFUSE; reason 0 stands for the end of a flow that nobody needs any more.
fn parse_end(reader: &mut Reader<'_>) -> Result<Option<Refusal>, FlowError> {
    let refusal = Refusal::parse(reader)?;
    Ok((refusal != Refusal::Other(0)).then_some(refusal))
}

impl DatagramOpen {
    fn parse(reader: &mut Reader<'_>) -> Result<Self, FlowError> {
        let lifetime_ms = reader.u32()?;
        let destination = address::parse(reader)?;
        let source = address::parse(reader)?;
        Ok(Self { lifetime_ms, destination, source })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.lifetime_ms.to_be_bytes());
        address::encode(self.destination, out);
        address::encode(self.source, out);
    }
}
