//! The only door to the protocol: one endpoint, all its associations.

use crate::config::{Config, LocalAddress};
use crate::event::{EndpointEvent, Message};
use crate::path::PathAddr;
use crate::status::{AssociationStatus, Counters};
use crate::time::Instant;
use crate::transmit::{PacketBatch, Transmit};
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use manypath_wire::{Ppid, StreamId};

/// Names an association of one endpoint. Never used again after the association is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AssociationId(pub u64);

/// A message to be sent.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Stream to send on.
    pub stream: StreamId,
    /// Payload protocol identifier, carried unchanged to the peer.
    pub ppid: Ppid,
    /// Deliver without regard to the order of the stream.
    pub unordered: bool,
    /// The bytes; at least one (RFC 9260 section 6.2: DATA must carry user data).
    pub payload: Bytes,
}

/// Why a message was not accepted. Nothing was queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// The association does not exist (any more).
    UnknownAssociation,
    /// The association is shutting down.
    ShuttingDown,
    /// The stream is not one of the association's outbound streams.
    InvalidStream,
    /// A message carries at least one byte.
    Empty,
    /// The send buffer is full; `Event::Writable` will tell when there is room.
    BufferFull,
}

/// Why a connect was not started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectError {
    /// No local address of the remote's family.
    NoLocalAddress,
    /// `Config::max_associations` are in use.
    TooMany,
}

/// An SCTP endpoint (RFC 9260), sans-IO.
///
/// Calls are of three kinds. `handle_*` bring in what the outside knows: packets, the clock, ICMP.
/// Commands (`connect`, `send`, `shutdown`, ...) change state and never transmit. `poll_*` hand out
/// what has come of it. After one mutation the driver drains all outputs: `poll_transmit` until
/// `None`, `poll_event` until `None`, and then sleeps until `poll_timeout`.
#[derive(Debug)]
pub struct Endpoint {
    _private: (),
}

#[allow(unused_variables, clippy::todo, clippy::needless_pass_by_ref_mut, reason = "skeleton")]
impl Endpoint {
    /// An endpoint without associations. `seed` feeds tags, initial TSNs and the cookie key: random
    /// in production, fixed in a simulation.
    pub fn new(config: Config, seed: [u8; 32]) -> Self {
        todo!()
    }

    /// Makes a local address usable for associations to come.
    pub fn add_local_address(&mut self, address: LocalAddress) {
        todo!()
    }

    /// Starts an association with the peer at `remote` (UDP address) and its SCTP port `port`.
    pub fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        port: u16,
    ) -> Result<AssociationId, ConnectError> {
        todo!()
    }

    /// A packet (without IP and UDP headers) has arrived.
    pub fn handle_packet(&mut self, now: Instant, path: PathAddr, bytes: &[u8]) {
        todo!()
    }

    /// The network reported that `path` cannot be reached (ICMP or a failed send).
    pub fn handle_unreachable(&mut self, now: Instant, path: PathAddr) {
        todo!()
    }

    /// The time given by `poll_timeout` has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        todo!()
    }

    /// Fills `batch` with the next run of packets.
    pub fn poll_transmit(&mut self, now: Instant, batch: &mut PacketBatch) -> Option<Transmit> {
        todo!()
    }

    /// The next notification.
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        todo!()
    }

    /// When `handle_timeout` must be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        todo!()
    }

    /// Queues a message. Data may be queued before the association is established.
    pub fn send(
        &mut self,
        now: Instant,
        id: AssociationId,
        message: Outgoing,
    ) -> Result<(), SendError> {
        todo!()
    }

    /// Takes the next complete message.
    pub fn read(&mut self, id: AssociationId) -> Option<Message> {
        todo!()
    }

    /// Bytes that `send` would accept now.
    pub fn send_space(&self, id: AssociationId) -> usize {
        todo!()
    }

    /// Bytes that were accepted and not sent yet; 0 for an association that does not exist.
    pub fn unsent(&self, id: AssociationId) -> usize {
        todo!()
    }

    /// Largest payload that travels as one unfragmented DATA chunk on every path, in bytes.
    pub fn fragment_size(&self, id: AssociationId) -> usize {
        todo!()
    }

    /// Graceful shutdown: everything queued is delivered first (RFC 9260 section 9.2).
    pub fn shutdown(&mut self, now: Instant, id: AssociationId) {
        todo!()
    }

    /// Ends the association at once with an ABORT carrying `reason` (RFC 9260 section 9.1).
    pub fn abort(&mut self, now: Instant, id: AssociationId, reason: &[u8]) {
        todo!()
    }

    /// The associations that exist now.
    pub fn associations(&self) -> Vec<AssociationId> {
        todo!()
    }

    /// A snapshot of one association for people and tools.
    pub fn status(&self, now: Instant, id: AssociationId) -> Option<AssociationStatus> {
        todo!()
    }

    /// What was dropped, refused and answered by the endpoint as a whole.
    pub fn counters(&self) -> &Counters {
        todo!()
    }
}
