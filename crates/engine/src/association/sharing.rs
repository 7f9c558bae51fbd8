//! HEARTBEATs that measure whether paths share a bottleneck: see [`crate::path::sharing`]. They say
//! nothing about whether a path works: a narrow link may let them pass, and nothing else.

use super::context::Context;
use super::packets::Packets;
use super::path_manager::PathManager;
use crate::path::{Path, heartbeat};
use crate::transmit::{PacketBatch, Transmit};
use manypath_wire::chunk::{Chunk, Heartbeat};

impl Packets<'_> {
    /// The next one that is due, alone in its packet.
    pub(super) fn transmit_measurement(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut PacketBatch,
    ) -> Option<Transmit> {
        self.paths.measurement_deadline()?;
        self.paths.measure(cx.now, cx.config, cx.rng);
        let is_due = |path: &&Path| path.is_measurement_due();
        let id = self.paths.iter().filter(is_due).find(|path| self.paths.is_open(path.id()))?.id();
        let path = self.paths.get_mut(id)?;
        let (nonce, at) = path.begin_measurement()?;
        let (size, info) =
            (path.packet_size(), heartbeat::info(nonce, at, (id, path.addr().remote)));
        let mut packet = self.begin(batch.slot(size));
        packet.push(&Chunk::Heartbeat(Heartbeat { info: &info })).ok()?;
        let len = self.complete(id, packet);
        self.one(id, len, batch)
    }
}

impl PathManager<'_> {
    /// A HEARTBEAT ACK arrived. Whether it answers one of these.
    pub(super) fn handle_measurement(&mut self, cx: &Context<'_>, info: &[u8]) -> bool {
        let id = heartbeat::path_of(info);
        let Some(path) = id.and_then(|id| self.paths.get_mut(id)) else { return false };
        path.end_measurement(cx.now, info)
    }
}
