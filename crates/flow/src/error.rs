//! What can go wrong: by the caller's doing, and by the peer's.

use core::fmt;

/// Why a flow was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// Every stream carries a flow of ours.
    NoStream,
    /// `FlowConfig::max_flows` flows of ours exist.
    TooManyFlows,
    /// The receive budget has no room for one more window.
    NoMemory,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoStream => "every stream of the association is in use",
            Self::TooManyFlows => "too many flows in this association",
            Self::NoMemory => "the receive memory of this association is used up",
        })
    }
}

impl core::error::Error for OpenError {}

/// Why bytes were not taken. None of them was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteError {
    /// The flow does not exist (any more).
    UnknownFlow,
    /// The flow came from the peer and has not been accepted yet.
    NotAccepted,
    /// `finish` was called before.
    Finished,
    /// The peer has reset or refused the flow.
    Reset,
    /// More bytes than `FlowMux::writable` says.
    Full,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownFlow => "the flow does not exist",
            Self::NotAccepted => "the flow has not been accepted",
            Self::Finished => "the flow's sending direction is finished",
            Self::Reset => "the peer has reset the flow",
            Self::Full => "the flow's send buffer is full",
        })
    }
}

impl core::error::Error for WriteError {}

/// How the peer broke the protocol. The association cannot be used any more: abort it, with the
/// text of the error as the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowError {
    /// A message ended before its last field; the type of the message (0 if it was empty).
    Truncated(u8),
    /// A message that is no data and fills the receive buffer of the association.
    TooLarge,
    /// A message type that must be understood and is not.
    UnknownMessage(u8),
    /// A payload protocol identifier that is not of this protocol.
    UnknownPpid(u32),
    /// An address of a family that is neither IPv4 nor IPv6.
    BadAddressFamily(u8),
    /// A window below [`INITIAL_CREDIT`](crate::INITIAL_CREDIT) in OPEN.
    BadWindow(u32),
    /// A name of a host that cannot be one.
    BadName,
    /// Data or a message that must keep its place in the stream came unordered.
    Unordered,
    /// A stream that does not carry flows.
    InvalidStream(u16),
    /// OPEN on a stream whose flow has not ended.
    StreamBusy(u16),
    /// A generation that is not the stream's next one (OPEN) or current one (others).
    WrongGeneration(u16),
    /// Data or a message for a stream without a flow.
    NoFlow(u16),
    /// A message that only the other side of a flow may send, or not in this state.
    Unexpected(u8),
    /// Data or FINISH of an acceptor before its ACCEPT.
    NotAccepted(u16),
    /// More data than was granted.
    CreditExceeded(u16),
    /// Data or a second FINISH after the peer's end of the flow.
    AfterEnd(u16),
    /// FINISH whose byte count is not the number of bytes received.
    WrongLength(u16),
    /// RETURN of credit that was used or never granted.
    BadReturn(u16),
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated(kind) => write!(f, "flow message of type {kind} is too short"),
            Self::TooLarge => f.write_str("flow message that is too large to be held"),
            Self::UnknownMessage(kind) => write!(f, "unknown flow message type {kind}"),
            Self::UnknownPpid(ppid) => write!(f, "unknown payload protocol {ppid:#010x}"),
            Self::BadAddressFamily(family) => write!(f, "unknown address family {family}"),
            Self::BadWindow(window) => write!(f, "OPEN grants only {window} bytes"),
            Self::BadName => f.write_str("malformed host name"),
            Self::Unordered => f.write_str("flow message that must be ordered came unordered"),
            Self::InvalidStream(s) => write!(f, "stream {s} does not carry flows"),
            Self::StreamBusy(s) => write!(f, "OPEN on stream {s}, whose flow has not ended"),
            Self::WrongGeneration(s) => write!(f, "wrong flow generation on stream {s}"),
            Self::NoFlow(s) => write!(f, "message for stream {s}, which has no flow"),
            Self::Unexpected(kind) => write!(f, "unexpected flow message of type {kind}"),
            Self::NotAccepted(s) => write!(f, "data before ACCEPT on stream {s}"),
            Self::CreditExceeded(s) => write!(f, "more data than granted on stream {s}"),
            Self::AfterEnd(s) => write!(f, "data after the end of the flow on stream {s}"),
            Self::WrongLength(s) => write!(f, "FINISH with a wrong byte count on stream {s}"),
            Self::BadReturn(s) => write!(f, "RETURN of credit not held on stream {s}"),
        }
    }
}

impl core::error::Error for FlowError {}
