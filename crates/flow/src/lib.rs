//! TCP-like byte flows over the streams of one association.
//!
//! ```text
//! open, accept, refuse, write, finish, reset     user -> mux
//! handle_message(message)                        association -> mux   (Endpoint::read)
//! poll_message(fragment_size)                    mux -> association   (Endpoint::send)
//! poll_event(), read, consumed                   mux <-> user
//! ```
//!
//! A flow stands for one TCP connection: two ordered byte directions, each with its own end, opened
//! towards an address and accepted or refused by the other side. One [`FlowMux`] carries all flows
//! of an association; a [`DirectFlow`] is the only one of an association in the direct form, which
//! programs without manypath understand; [`Flows`] is either. There is no clock and no I/O in it; the byte layouts and the rules of the
//! protocol are in `docs/flow-protocol.md`.
//!
//! [`Datagrams`] are what an association carries besides: messages without order that are given up when
//! their time is over.
//!
//! Flow control is per flow: the receiver grants credit as its reader *consumes*, so a reader that
//! stalls stops its own flow and no other.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod byte_queue;
mod config;
mod datagrams;
mod direct;
mod error;
mod event;
mod feed;
mod flow;
mod form;
mod id;
mod lanes;
pub mod message;
mod mux;
mod share;
mod status;
mod table;

pub use config::FlowConfig;
pub use datagrams::{
    DATAGRAM_STREAMS, DatagramCounters, DatagramError, DatagramEvent, DatagramFlow,
    DatagramFlowStatus, Datagrams, MAX_DATAGRAM, REDUNDANT_STREAMS,
};
pub use direct::{DirectEnd, DirectFlow, DirectPeer, Framing};
pub use error::{FlowError, OpenError, WriteError};
pub use event::{FlowEvent, Refusal};
pub use feed::{Fed, feed, unsent_limit};
pub use form::Flows;
pub use id::FlowId;
pub use message::{Beyond, Destination, HostName, Passed, RelayAnswer, SeenAt};
pub use mux::FlowMux;
pub use share::Share;
pub use status::{FlowCounters, FlowState, FlowStatus};

use manypath_engine::Ppid;

/// Adaptation layer indication (RFC 5061 section 4.2.6) of this protocol: "mP" and the major
/// version. An association on which both sides announced the same value carries flows.
pub const ADAPTATION: u32 = 0x6d50_0001;

/// Adaptation layer indication of the direct form: "mD" and the major version. With a peer that
/// announces it too, each direction of the connection has an end of its own.
pub const DIRECT_ADAPTATION: u32 = 0x6d44_0001;

/// SCTP port of an endpoint that accepts flows, inside the UDP encapsulation.
pub const SCTP_PORT: u16 = 29899;

/// Payload protocol identifier of control messages.
pub const PPID_CONTROL: Ppid = Ppid(0x6d50_0100);

/// Payload protocol identifier of bytes sent by the side that opened the flow.
pub const PPID_DATA_OF_OPENER: Ppid = Ppid(0x6d50_0101);

/// Payload protocol identifier of bytes sent by the side that accepted the flow.
pub const PPID_DATA_OF_ACCEPTOR: Ppid = Ppid(0x6d50_0102);

/// Payload protocol identifier of bytes in the direct form: none, as programs without manypath have.
pub const PPID_DIRECT: Ppid = Ppid(0);

/// Payload protocol identifier of the message that ends a direction in the direct form.
pub const PPID_END: Ppid = Ppid(0x6d50_0103);

/// Payload protocol identifier of datagrams sent by the side that opened their flow.
pub const PPID_DATAGRAM_OF_OPENER: Ppid = Ppid(0x6d50_0104);

/// Payload protocol identifier of datagrams sent by the side that accepted their flow.
pub const PPID_DATAGRAM_OF_ACCEPTOR: Ppid = Ppid(0x6d50_0105);

/// Bytes that an opener may send before it has heard from the acceptor, fixed by the protocol.
///
/// More than a young association can send in its first round trip, and small enough that a peer
/// which opens every stream at once does not take all memory.
pub const INITIAL_CREDIT: u32 = 64 << 10;
