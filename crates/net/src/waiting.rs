//! Runs of packets, and those that wait until the kernel takes more.

use manypath_engine::Ecn;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Largest UDP payload over IPv4, and thus the most that one call can send.
pub(crate) const MAX_DATAGRAM: usize = 65_535 - 20 - 8;
/// Used buffers that are kept for the next time the kernel takes no more.
const SPARE_BUFFERS: usize = 4;

/// A run of packets for one destination, back to back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packets<'a> {
    pub(crate) remote: SocketAddr,
    /// Size of every packet but the last, which may be shorter.
    pub(crate) segment_size: usize,
    pub(crate) bytes: &'a [u8],
    /// Whether IP may fragment them.
    pub(crate) may_fragment: bool,
    /// Their ECN bits.
    pub(crate) ecn: Ecn,
}

/// Runs that the kernel has not taken yet, in their order.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) runs: VecDeque<HeldRun>,
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
pub(crate) struct HeldRun {
    remote: SocketAddr,
    segment_size: usize,
    pub(crate) bytes: Vec<u8>,
    may_fragment: bool,
    ecn: Ecn,
    /// Bytes at the front that were sent before the kernel took no more.
    pub(crate) sent: usize,
}

impl<'a> Packets<'a> {
    /// Number of packets.
    pub(crate) fn count(&self) -> u64 {
        self.bytes.len().div_ceil(self.segment_size.max(1)) as u64
    }

    pub(crate) fn from(self, start: usize) -> Self {
        Self { bytes: &self.bytes[start..], ..self }
    }

    /// The next packets after `done` bytes, up to `segments` and as many as one call can send.
    pub(crate) fn piece(self, done: usize, segments: usize) -> Self {
        let rest = &self.bytes[done..];
        let packets = (MAX_DATAGRAM / self.segment_size.max(1)).clamp(1, segments.max(1));
        let length = rest.len().min(packets.saturating_mul(self.segment_size.max(1)));
        Self { bytes: &rest[..length], ..self }
    }
}

impl Waiting {
    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.runs.iter().map(|run| run.bytes.len() - run.sent).sum()
    }

    pub(crate) fn hold(&mut self, packets: Packets<'_>, sent: usize) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(packets.bytes);
        let Packets { remote, segment_size, may_fragment, ecn, .. } = packets;
        self.runs.push_back(HeldRun { remote, segment_size, bytes, may_fragment, ecn, sent });
    }

    pub(crate) fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}

impl HeldRun {
    pub(crate) fn rest(&self) -> Packets<'_> {
        let Self { remote, segment_size, ref bytes, may_fragment, ecn, sent } = *self;
        Packets { remote, segment_size, bytes: &bytes[sent..], may_fragment, ecn }
    }
}
