//! What `poll_transmit` hands out: runs of equal-sized packets for one path.

use crate::path::PathAddr;
use alloc::vec::Vec;

/// Memory for one run of packets, owned by the caller and reused between calls.
#[derive(Debug, Default)]
pub struct PacketBatch {
    pub(crate) bytes: Vec<u8>,
    max_packets: usize,
}

impl PacketBatch {
    /// Room for up to `max_packets` packets per run.
    pub fn new(max_packets: usize) -> Self {
        Self { bytes: Vec::new(), max_packets }
    }

    /// The packets of the run, back to back. Every packet but the last has the run's segment size.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The largest number of packets in one run.
    pub fn max_packets(&self) -> usize {
        self.max_packets
    }
}

/// A run of packets to be sent on one path, in order. Its bytes are in the [`PacketBatch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Where from and where to.
    pub path: PathAddr,
    /// Size in bytes of every packet but the last, which may be shorter.
    pub segment_size: usize,
    /// Number of packets.
    pub packets: usize,
}
