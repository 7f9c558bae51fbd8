//! What `poll_transmit` hands out: runs of equal-sized packets for one path.

use crate::allowance::Allowance;
use crate::ecn::Ecn;
use crate::path::PathAddr;
use crate::reply_limit::ReplyLimit;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use manypath_wire::chunk::Chunk;
use manypath_wire::packet::{CommonHeader, PacketWriter};

/// Memory for one run of packets, owned by the caller and reused between calls.
#[derive(Debug, Default)]
pub struct PacketBatch {
    memory: Vec<u8>,
    used: usize,
    max_packets: usize,
}

impl PacketBatch {
    /// Room for up to `max_packets` packets per run.
    pub fn new(max_packets: usize) -> Self {
        Self { memory: Vec::new(), used: 0, max_packets }
    }

    /// The packets of the run, back to back. Every packet but the last has the run's segment size.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[..self.used]
    }

    /// The largest number of packets in one run.
    pub fn max_packets(&self) -> usize {
        self.max_packets
    }

    /// Forgets the last run. The memory is kept.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    /// Memory for the next packet of at most `size` bytes; [`Self::commit`] makes it part of the
    /// run. Its bytes are those of older packets: the writer overwrites what it hands out.
    pub(crate) fn slot(&mut self, size: usize) -> &mut [u8] {
        let end = self.used + size;
        if self.memory.len() < end {
            self.memory.resize(end, 0);
        }
        &mut self.memory[self.used..end]
    }

    /// The first `len` bytes of the last slot are a packet.
    pub(crate) fn commit(&mut self, len: usize) {
        self.used += len;
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
    /// Whether IP may fragment them: a chunk that was made for a larger MTU cannot be cut anew (RFC
    /// 9260 section 6.9). All others are to be sent with the DF bit, and dropped if they are too large.
    pub may_fragment: bool,
    /// The ECN bits of all of them (RFC 3168 section 5).
    pub ecn: Ecn,
}

/// Most answers that wait to be sent: what strangers can make us queue is bounded.
const MAX_REPLIES: usize = 512;
/// Largest answer: fits the smallest MTU of IPv6 with UDP encapsulation.
pub(crate) const REPLY_SIZE: usize = 1280 - 40 - 8;

/// Packets of one chunk that belong to no association, or to one that is already gone.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    waiting: VecDeque<(PathAddr, Vec<u8>)>,
    /// For answers to the packet under work, whose source nobody may have verified.
    pub(crate) allowance: Allowance,
    /// For all of them.
    pub(crate) limit: ReplyLimit,
}

/// A packet of one chunk, unless that is too large.
pub(crate) fn packet_of(header: CommonHeader, chunk: &Chunk<'_>) -> Option<Vec<u8>> {
    let mut bytes = alloc::vec![0; REPLY_SIZE];
    let mut packet = PacketWriter::new(&mut bytes, header);
    packet.push(chunk).ok()?;
    let len = packet.finish();
    bytes.truncate(len);
    Some(bytes)
}

impl Replies {
    /// No packets yet. `seed` is the endpoint's.
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self { limit: ReplyLimit::new(seed), ..Self::default() }
    }

    /// Queues a finished packet. False if there are too many already.
    pub(crate) fn push_packet(&mut self, path: PathAddr, packet: Vec<u8>) -> bool {
        let fits = self.waiting.len() < MAX_REPLIES;
        if fits {
            self.waiting.push_back((path, packet));
        }
        fits
    }

    /// The next packet as a run of one.
    pub(crate) fn poll(&mut self, batch: &mut PacketBatch) -> Option<Transmit> {
        let (path, bytes) = self.waiting.pop_front()?;
        batch.clear();
        batch.slot(bytes.len()).copy_from_slice(&bytes);
        batch.commit(bytes.len());
        let (segment_size, ecn) = (bytes.len(), Ecn::NotEct);
        Some(Transmit { path, segment_size, packets: 1, may_fragment: false, ecn })
    }
}
