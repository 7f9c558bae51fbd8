//! Packets to the peer: what they begin with, what protects and counts them, and where they go. What is in them
//! is the matter of whoever asks for one.

use super::authentication::Security;
use super::context::Context;
use super::ending::Ending;
use super::statistics::Statistics;
use super::tcb::Association;
use super::unverified::Unverified;
use crate::ecn::Ecn;
use crate::path::{PathAddr, PathId, Paths};
use crate::send::Sender;
use crate::transmit::{PacketBatch, REPLY_SIZE, Transmit};
use manypath_wire::chunk::Chunk;
use manypath_wire::packet::{CommonHeader, PacketWriter};

/// One finished packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Built {
    pub(super) len: usize,
    pub(super) only_data: bool,
    pub(super) ecn: Ecn,
}

/// What a packet to the peer needs, whatever is in it.
pub(super) struct Packets<'a> {
    pub(super) header: CommonHeader,
    /// The addresses of the handshake.
    pub(super) first: PathAddr,
    pub(super) paths: &'a mut Paths,
    pub(super) security: &'a mut Security,
    pub(super) statistics: &'a mut Statistics,
    pub(super) unverified: &'a mut Unverified,
}

impl Association {
    pub(super) fn packets(&mut self) -> Packets<'_> {
        self.ending().packets
    }

    /// What packets of data need.
    pub(super) fn sending(&mut self) -> (&mut Sender, Packets<'_>) {
        let Ending { sender, packets, .. } = self.ending();
        (sender, packets)
    }
}

impl Packets<'_> {
    /// A packet to the peer without chunks.
    pub(super) fn begin<'b>(&self, buffer: &'b mut [u8]) -> PacketWriter<'b> {
        self.security.begin_packet(buffer, self.header)
    }

    /// The packet over path `id`, if that is one, is complete. Returns its length.
    pub(super) fn complete(
        &mut self,
        id: impl Into<Option<PathId>>,
        packet: PacketWriter<'_>,
    ) -> usize {
        self.statistics.on_packet_sent(&packet);
        let path = id.into().and_then(|id| self.paths.get(id));
        self.security.complete_packet(path, packet)
    }

    /// A packet of `len` bytes leaves over `id`. False if it must not.
    pub(super) fn spend(&mut self, cx: &mut Context<'_>, id: PathId, len: usize) -> bool {
        self.unverified.spend(cx, self.paths, id, len)
    }

    /// A run of one packet.
    pub(super) fn one(
        &mut self,
        id: PathId,
        len: usize,
        batch: &mut PacketBatch,
    ) -> Option<Transmit> {
        batch.commit(len);
        let built = Built { len, only_data: false, ecn: Ecn::NotEct };
        Some(self.run(id, batch, built, 1))
    }

    /// The run in `batch`, of which `first` is the first packet, leaves over `id`.
    pub(super) fn run(
        &mut self,
        id: PathId,
        batch: &PacketBatch,
        first: Built,
        packets: usize,
    ) -> Transmit {
        let mut addr = self.first;
        if let Some(path) = self.paths.get_mut(id) {
            path.on_packets_sent(packets, batch.bytes().len());
            addr = path.addr();
        }
        let Built { len: segment_size, ecn, .. } = first;
        Transmit { path: addr, segment_size, packets, may_fragment: false, ecn }
    }

    /// Sends a packet of one chunk to the peer even though the association may be gone by then.
    pub(super) fn reply(&mut self, cx: &mut Context<'_>, path: PathId, chunk: &Chunk<'_>) {
        let Some(addr) = self.paths.get(path).map(|path| path.addr()) else { return };
        let mut bytes = alloc::vec![0; REPLY_SIZE];
        let mut packet = self.begin(&mut bytes);
        // At most a cause of some hundred bytes: it fits.
        let _no_room = packet.push(chunk).is_err();
        let len = self.complete(path, packet);
        bytes.truncate(len);
        if len > 0 && self.spend(cx, path, len) {
            cx.reply_packet(addr, bytes);
        }
    }
}
