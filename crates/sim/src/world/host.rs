use manypath_engine::{Endpoint, PacketBatch};

/// Names a host of a world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostId(pub(super) usize);

#[derive(Debug)]
pub(super) struct Host {
    pub endpoint: Endpoint,
    pub batch: PacketBatch,
    /// Whether something has happened since the endpoint last had nothing to send.
    pub may_send: bool,
}

impl Host {
    /// Packets in one run: as many as one GSO datagram would carry.
    const RUN: usize = 32;

    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, batch: PacketBatch::new(Self::RUN), may_send: true }
    }
}
