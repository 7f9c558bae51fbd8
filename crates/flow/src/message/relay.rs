//! Flows to destinations beyond the acceptor: whether it relays them, and how one begins.
//!
//! An acceptor that does not know these messages ignores them. What opens such a flow is sent only after the acceptor
//! has said that it relays, so nobody ever takes its destination for one of the acceptor's own addresses.

use super::address;
use super::datagram::SeenAt;
use super::reader::Reader;
use crate::INITIAL_CREDIT;
use crate::error::FlowError;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{Ipv4Addr, SocketAddr};

/// Longest name of a host (RFC 1035 section 2.3.4, as text).
const MAX_NAME: usize = 253;

/// What a control message about relaying says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RelayBody {
    /// Asks whether the receiver relays for the sender (type 134, unordered).
    Ask,
    /// Whether the sender relays for the receiver (type 135, unordered).
    Answer(RelayAnswer),
    /// Opens a flow to a destination beyond the acceptor (type 136, ordered, from the opener).
    Open(Box<RelayOpen>),
    /// Asks the receiver to lead flows of datagrams for the sender's key to the sender (type 138, unordered).
    Register,
    /// It does (type 139, unordered).
    Registered,
    /// Addresses of the sender in networks that the receiver may be in, too (type 141, unordered).
    Candidates(SeenAt),
}

/// Whether a side relays flows of the other one.
///
/// ```text
/// | header (8) | Answer (1) | Reserved (3) |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RelayAnswer {
    /// It does, to destinations that it allows.
    Relays,
    /// It relays for nobody.
    #[default]
    NotRelay,
    /// It relays, but not for this peer.
    NotAllowed,
}

/// What a flow to a destination beyond the acceptor is to be.
///
/// ```text
/// | header (8) | Window (4) | Source (8 or 20) | Destination | Passed |
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelayOpen {
    /// Bytes that the acceptor may send before it is granted more; at least `INITIAL_CREDIT`.
    pub window: u32,
    /// The address of the opener's program.
    pub source: SocketAddr,
    /// What the acceptor is to connect to.
    pub beyond: Beyond,
}

/// A destination beyond the acceptor, and the relays by which the flow has come already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beyond {
    /// Where it leads.
    pub destination: Destination,
    /// The relays that have passed it on.
    pub passed: Passed,
}

/// The relays that have passed a flow on, so that none does so twice: the first eight bytes of the SHA-256 of the key of
/// each.
///
/// ```text
/// | Count (1) | Reserved (3) | Count times: Relay (8) |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Passed {
    relays: [[u8; 8]; Self::MAX],
    count: usize,
}

impl Passed {
    /// Most relays in a row.
    pub const MAX: usize = 4;

    /// The same and `relay`; none if it has been there, or if there are too many.
    pub fn by(mut self, relay: [u8; 8]) -> Option<Self> {
        let is_new = !self.relays.iter().take(self.count).any(|one| *one == relay);
        *self.relays.get_mut(self.count).filter(|_| is_new)? = relay;
        self.count += 1;
        Some(self)
    }

    /// Beyond [`Self::MAX`] it makes no difference which they are.
    fn parse(reader: &mut Reader<'_>) -> Result<Self, FlowError> {
        let mut passed = Self::default();
        let (count, _reserved) = (reader.u8()?, reader.array::<3>()?);
        passed.count = usize::from(count).min(Self::MAX);
        for relay in passed.relays.iter_mut().take(passed.count) {
            *relay = reader.array()?;
        }
        Ok(passed)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.count as u8, 0, 0, 0]);
        self.relays.iter().take(self.count).for_each(|relay| out.extend_from_slice(relay));
    }
}

impl From<Destination> for Beyond {
    fn from(destination: Destination) -> Self {
        Self { destination, passed: Passed::default() }
    }
}

impl From<SocketAddr> for Beyond {
    fn from(address: SocketAddr) -> Self {
        Destination::from(address).into()
    }
}

impl Beyond {
    fn parse(reader: &mut Reader<'_>) -> Result<Self, FlowError> {
        Ok(Self { destination: Destination::parse(reader)?, passed: Passed::parse(reader)? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.destination.encode(out);
        self.passed.encode(out);
    }

    /// The address that stands for the destination in status reports: none for a name.
    pub(crate) fn named(&self) -> SocketAddr {
        match &self.destination {
            Destination::Address(address) => *address,
            Destination::Name(_, port) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port)),
        }
    }
}

/// A destination beyond the acceptor: an address, or a name that the acceptor resolves.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Destination {
    /// An address.
    Address(SocketAddr),
    /// A host by name.
    Name(HostName, u16),
}

/// The name of a host: 1 to 253 printable ASCII characters without blanks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostName(Box<str>);

impl HostName {
    /// The name, unless it cannot be one.
    pub fn new(name: &str) -> Option<Self> {
        let fits = (1..=MAX_NAME).contains(&name.len());
        let printable = name.bytes().all(|byte| byte.is_ascii_graphic());
        (fits && printable).then(|| Self(name.into()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Destination {
    /// Its port.
    pub fn port(&self) -> u16 {
        match self {
            Self::Address(address) => address.port(),
            Self::Name(_, port) => *port,
        }
    }
}

impl From<SocketAddr> for Destination {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{}:{port}", name.as_str()),
        }
    }
}

impl RelayBody {
    const ASK: u8 = 134;
    const ANSWER: u8 = 135;
    pub(crate) const OPEN: u8 = 136;
    const REGISTER: u8 = 138;
    const REGISTERED: u8 = 139;
    const CANDIDATES: u8 = 141;

    pub(crate) const fn kind(&self) -> u8 {
        match self {
            Self::Ask => Self::ASK,
            Self::Answer(_) => Self::ANSWER,
            Self::Open(_) => Self::OPEN,
            Self::Register => Self::REGISTER,
            Self::Registered => Self::REGISTERED,
            Self::Candidates(_) => Self::CANDIDATES,
        }
    }

    pub(crate) const fn is_ordered(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// `None` for types that are not about relaying.
    pub(super) fn parse(kind: u8, reader: &mut Reader<'_>) -> Result<Option<Self>, FlowError> {
        Ok(Some(match kind {
            Self::ASK => Self::Ask,
            Self::ANSWER => Self::Answer(RelayAnswer::parse(reader)?),
            Self::OPEN => Self::Open(Box::new(RelayOpen::parse(reader)?)),
            Self::REGISTER => Self::Register,
            Self::REGISTERED => Self::Registered,
            Self::CANDIDATES => Self::Candidates(SeenAt::parse(reader)?),
            _ => return Ok(None),
        }))
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ask | Self::Register | Self::Registered => {}
            Self::Answer(answer) => out.extend_from_slice(&[*answer as u8, 0, 0, 0]),
            Self::Open(open) => open.encode(out),
            Self::Candidates(addresses) => addresses.encode(out),
        }
    }
}

impl RelayAnswer {
    /// An answer of a later version is no promise to relay.
    fn parse(reader: &mut Reader<'_>) -> Result<Self, FlowError> {
        let answer = reader.u8()?;
        let _reserved = reader.array::<3>()?;
        let known = [Self::Relays, Self::NotRelay, Self::NotAllowed];
        Ok(known.get(usize::from(answer)).copied().unwrap_or_default())
    }
}

impl RelayOpen {
    fn parse(reader: &mut Reader<'_>) -> Result<Self, FlowError> {
        let window = reader.u32()?;
        if window < INITIAL_CREDIT {
            return Err(FlowError::BadWindow(window));
        }
        let (source, beyond) = (address::parse(reader)?, Beyond::parse(reader)?);
        Ok(Self { window, source, beyond })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.window.to_be_bytes());
        address::encode(self.source, out);
        self.beyond.encode(out);
    }
}

/// ```text
/// | Family 4, 6 (1) | Reserved (1) | Port (2) | address (4 or 16) |
/// | Family 1 (1)    | Length (1)   | Port (2) | name (Length)     |
/// ```
impl Destination {
    const NAME: u8 = 1;

    fn parse(reader: &mut Reader<'_>) -> Result<Self, FlowError> {
        if reader.peek() != Some(Self::NAME) {
            return address::parse(reader).map(Self::Address);
        }
        let (_family, length, port) = (reader.u8()?, reader.u8()?, reader.u16()?);
        let name = String::from_utf8(reader.bytes(length.into())?.to_vec());
        let name = name.ok().and_then(|name| HostName::new(&name));
        name.map(|name| Self::Name(name, port)).ok_or(FlowError::BadName)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Address(address) => address::encode(*address, out),
            Self::Name(name, port) => {
                // A name has at most 253 bytes.
                out.extend_from_slice(&[Self::NAME, name.0.len() as u8]);
                out.extend_from_slice(&port.to_be_bytes());
                out.extend_from_slice(name.0.as_bytes());
            }
        }
    }
}
