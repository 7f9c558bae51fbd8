use manypath_engine::{Endpoint, PacketBatch};

/// Names a host of a world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostId(pub(super) usize);

#[derive(Debug)]
pub(super) struct Host {
    pub endpoint: Endpoint,
    pub batch: PacketBatch,
}

impl Host {
    /// Packets in one run: as many as one GSO datagram would carry.
    const RUN: usize = 32;

    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, batch: PacketBatch::new(Self::RUN) }
    }
}
