//! What happened to the flows: the notifications for the user of a mux.

use crate::id::FlowId;
use core::net::SocketAddr;

/// Why a flow was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The destination may not be reached through flows; plain TCP may well reach it.
    NotAllowed,
    /// Not now: the acceptor's limits are reached, or nobody listens yet; plain TCP may well work.
    Busy,
    /// The association has fewer streams than the flow needed. Decided here, never sent.
    NoStream,
    /// Connecting to the destination failed with this Linux error number.
    Errno(u16),
    /// The acceptor relays nothing for this peer.
    NotRelay,
    /// The acceptor relays, but not to this destination.
    DestinationClosed,
    /// The acceptor knows no address of the destination's name.
    NoSuchName,
    /// The acceptor is a relay by which the flow has come before, or one relay too many.
    Circle,
    /// The peer has moved as much as it may in this day or month.
    OverQuota,
    /// A reason of a later version of the protocol.
    Other(u8),
}

/// One notification. Those of one flow come in the order in which things happened.
///
/// `Closed` is the last event of a flow; after it the id names nothing. A flow that was reset or
/// refused *here* is gone at once and gives no more events at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowEvent {
    /// The peer asks for a flow. Answer with `accept` or `refuse`; its data may come before.
    Incoming {
        /// The new flow.
        flow: FlowId,
        /// The address that the peer's program connected to.
        destination: SocketAddr,
        /// The address of the peer's program.
        source: SocketAddr,
    },
    /// The same for a destination beyond this side: see [`FlowMux::beyond`](crate::FlowMux::beyond).
    IncomingBeyond(FlowId),
    /// The peer has accepted the flow.
    Opened {
        /// The flow.
        flow: FlowId,
        /// The local address of the peer's connection to the destination.
        local: SocketAddr,
    },
    /// The peer has refused the flow. `Closed` follows.
    Refused {
        /// The flow.
        flow: FlowId,
        /// Why.
        refusal: Refusal,
    },
    /// Data has come to a flow that had none. The next one comes only after `read` gave `None`.
    Readable(FlowId),
    /// The send buffer has drained to half of its bound or below. Always comes if `writable` was
    /// smaller than [`FlowMux::WRITE_FLOOR`](crate::FlowMux::WRITE_FLOOR) / 2 and the flow lives.
    Writable(FlowId),
    /// The peer sends no more, and everything was read.
    Finished(FlowId),
    /// The peer has reset the flow. What it sent before can be read until `Closed` is taken.
    Reset(FlowId),
    /// Both directions are done. Nothing of the flow is left.
    Closed(FlowId),
}

impl FlowEvent {
    /// The flow that the event is about.
    pub fn flow(&self) -> FlowId {
        match self {
            Self::Incoming { flow, .. }
            | Self::Opened { flow, .. }
            | Self::Refused { flow, .. }
            | Self::IncomingBeyond(flow)
            | Self::Readable(flow)
            | Self::Writable(flow)
            | Self::Finished(flow)
            | Self::Reset(flow)
            | Self::Closed(flow) => *flow,
        }
    }
}
