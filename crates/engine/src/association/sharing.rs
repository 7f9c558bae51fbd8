//! HEARTBEATs that measure whether paths share a bottleneck: see [`crate::path::sharing`]. They say
//! nothing about whether a path works: a narrow link may let them pass, and nothing else.

use super::context::Context;
use super::packets::Packets;
use crate::transmit::{PacketBatch, Transmit};
use manypath_wire::chunk::{Chunk, Heartbeat};

impl Packets<'_> {
    /// The next one that is due, alone in its packet.
    pub(super) fn transmit_measurement(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut PacketBatch,
    ) -> Option<Transmit> {
        let (id, info) = self.paths.next_measurement(cx.now, cx.config, cx.rng)?;
        let size = self.paths.get(id)?.packet_size();
        let mut packet = self.begin(batch.slot(size));
        packet.push(&Chunk::Heartbeat(Heartbeat { info: &info })).ok()?;
        let len = self.complete(id, packet);
        self.one(id, len, batch)
    }
}
