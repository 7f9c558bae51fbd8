//! Snapshots of datagram flows for people and tools.

use super::{DatagramFlow, Flow};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

/// One flow of datagrams as it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DatagramFlowStatus {
    /// Its name.
    pub flow: DatagramFlow,
    /// Whether the side that did not open it has accepted it.
    pub accepted: bool,
    /// Where the opener's program sends to.
    pub destination: SocketAddr,
    /// The address of the opener's program.
    pub source: SocketAddr,
    /// How long a datagram that is sent here is worth something.
    pub lifetime: Duration,
    /// Whether datagrams that are sent here go over every path.
    pub redundant: bool,
    /// Datagrams handed to the association.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Datagrams given up because their time was over, sent before or not.
    pub expired: u64,
    /// Datagrams dropped because too many newer ones waited.
    pub dropped: u64,
    /// Datagrams that wait for the association.
    pub queued: usize,
    /// Datagrams received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
}

impl Flow {
    pub(super) fn status(&self, flow: DatagramFlow) -> DatagramFlowStatus {
        DatagramFlowStatus {
            flow,
            accepted: self.accepted,
            destination: self.destination,
            source: self.source,
            lifetime: self.lifetime,
            redundant: self.redundant,
            sent: self.sent,
            sent_bytes: self.sent_bytes,
            expired: self.expired,
            dropped: self.queue.dropped,
            queued: self.queue.len(),
            received: self.received,
            received_bytes: self.received_bytes,
        }
    }
}

crate::status::counters! {
    /// Counts of what happened to datagrams.
    DatagramCounters {
        /// Flows opened here.
        opened,
        /// Flows opened by the peer.
        incoming,
        /// Flows of the peer that were accepted.
        accepted,
        /// Flows of the peer that were refused.
        refused,
        /// Flows ended or refused by the peer.
        closed_by_peer,
        /// Datagrams handed to the association.
        sent,
        /// Datagrams given up because their time was over.
        expired,
        /// Datagrams dropped because too many newer ones waited.
        dropped_for_newer,
        /// Datagrams dropped because their flow was ended here or by the peer.
        dropped_at_end,
        /// Datagrams received.
        received,
        /// Datagrams that came before their flow was opened.
        early,
        /// Datagrams dropped because their flow was over, or opened too late.
        late,
        /// Messages about datagrams from a peer with which none were agreed.
        ignored,
    }
}
