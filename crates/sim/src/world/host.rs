use manypath_engine::{Endpoint, Instant, PacketBatch};

/// Names a host of a world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostId(pub(super) usize);

#[derive(Debug)]
pub(super) struct Host {
    pub endpoint: Endpoint,
    pub batch: PacketBatch,
    /// What `poll_timeout` said when the endpoint last had nothing to send.
    pub deadline: Option<Instant>,
    /// Whether something has happened since the endpoint last had nothing to send.
    pub may_send: bool,
}

impl Host {
    /// Packets in one run: as many as one GSO datagram would carry.
    const RUN: usize = 32;

    pub(super) fn new(endpoint: Endpoint) -> Self {
        let batch = PacketBatch::new(Self::RUN);
        Self { endpoint, batch, deadline: None, may_send: true }
    }
}
