//! The search for the MTU of each path (RFC 8899): probes, their answers and what routers report.

use super::context::Context;
use super::packets::Packets;
use super::path_manager::PathManager;
use crate::config::PathMtu;
use crate::path::{Path, PathAddr, PathId, Timing, heartbeat, packet_size};
use crate::time::Instant;
use crate::transmit::{PacketBatch, Transmit};
use core::net::IpAddr;
use manypath_wire::chunk::{Chunk, Heartbeat, Pad, types};
use manypath_wire::packet::PacketWriter;

/// Length of the information in a probe. Public test scripts tell the size of a probe by that of its
/// padding, and count on this much beside it.
const PROBE_INFO: usize = 40;

impl Packets<'_> {
    /// The next HEARTBEAT that measures a path, while HEARTBEATs are sent.
    pub(super) fn transmit_probe(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut PacketBatch,
    ) -> Option<Transmit> {
        self.transmit_measurement(cx, batch).or_else(|| self.transmit_mtu_probe(cx, batch))
    }

    /// The next probe that is due, alone in its packet: its loss must lose nothing else.
    fn transmit_mtu_probe(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut PacketBatch,
    ) -> Option<Transmit> {
        // What a metered path takes need not be known before it carries something.
        let is_spared =
            |path: &Path| path.regime().is_metered() && path.flight().last_data().is_none();
        let waits = |path: &&Path| {
            path.search().wants_probe() && path.health().is_active() && !is_spared(path)
        };
        let id = self.paths.iter().filter(waits).find(|path| self.paths.is_open(path.id()))?.id();
        let path = self.paths.get_mut(id)?;
        let (nonce, timing, to) =
            (cx.rng.next_u64(), Timing::of(path.rtt()), (id, path.addr().remote));
        let ip = path.change_mtu(|search| search.on_send(cx.now, nonce, timing));
        cx.counters.mtu_probes += 1;
        let size = packet_size(&path.addr(), ip);
        let mut info = [0; PROBE_INFO];
        let known = heartbeat::info(nonce, cx.now, to);
        info[..known.len()].copy_from_slice(&known);
        let mut packet = self.begin(batch.slot(size));
        packet.push(&Chunk::Heartbeat(Heartbeat { info: &info })).ok()?;
        write_padding(&mut packet);
        let len = self.complete(id, packet);
        self.one(id, len, batch)
    }
}

impl PathManager<'_> {
    /// Something was lost or acknowledged: are there paths on which only small packets pass?
    pub(super) fn look_for_black_holes(&mut self, cx: &mut Context<'_>) {
        for path in self.paths.iter_mut().filter(|path| path.search().is_on()) {
            let timing = Timing::of(path.rtt());
            let found = path.change_mtu(|search| search.judge(cx.now, timing));
            cx.counters.mtu_black_holes += u64::from(found);
        }
    }

    /// A HEARTBEAT was answered, of full size or small.
    pub(super) fn note_heartbeat(&mut self, cx: &mut Context<'_>, id: PathId, full_sized: bool) {
        if let Some(path) = self.paths.get_mut(id) {
            path.change_mtu(|search| search.on_passed(full_sized));
        }
        self.look_for_black_holes(cx);
    }

    /// A HEARTBEAT ACK arrived. Whether it answers a probe: then the path takes packets of its size.
    /// The association and the path work, too.
    pub(super) fn handle_mtu_answer(&mut self, cx: &Context<'_>, info: &[u8]) -> bool {
        let id = heartbeat::path_of(info);
        let Some(path) = id.and_then(|id| self.paths.get_mut(id)) else { return false };
        let to = (path.id(), path.addr().remote);
        let answer = path.change_mtu(|search| {
            search.on_answer(cx.now, |probe| {
                info.starts_with(&heartbeat::info(probe.nonce, probe.at, to))
            })
        });
        let Some(probe) = answer else { return false };
        path.change_mtu(|search| search.on_passed(search.is_large(probe.size.into())));
        if path.health().is_active() {
            path.health_mut().clear_errors();
        }
        true
    }

    /// A router has dropped the packet that begins with `quote`, because it takes no more than `mtu`
    /// bytes on the way `addr`.
    pub(crate) fn handle_too_big(&mut self, cx: &mut Context<'_>, addr: PathAddr, mtu: u16) {
        let id = self.paths.by_addr(&addr);
        let Some(path) = id.and_then(|id| self.paths.get_mut(id)) else { return };
        let timing = Timing::of(path.rtt());
        let used = path.change_mtu(|search| search.on_too_big(cx.now, mtu, timing));
        cx.counters.ignored_too_big_reports += u64::from(!used);
    }

    /// The user begins or ends the search on the paths to `remote`, or on all.
    pub(crate) fn set_path_mtu(
        &mut self,
        cx: &Context<'_>,
        remote: Option<IpAddr>,
        source: PathMtu,
        fixed: Option<u16>,
    ) {
        let wanted =
            |path: &&mut Path| remote.is_none_or(|remote| path.addr().remote.ip() == remote);
        for path in self.paths.iter_mut().filter(wanted) {
            let (addr, works) = (path.addr(), path.health().is_active());
            path.change_mtu(|search| match source {
                PathMtu::Interface => search.end(fixed),
                PathMtu::Search => search.begin(&addr, cx.config, works),
            });
        }
    }

    /// The timers of searches that have expired.
    pub(super) fn handle_mtu_timeouts(&mut self, cx: &mut Context<'_>) {
        if !self.state.sends_heartbeats() {
            return;
        }
        for id in self.paths.ids(|path| deadline(path).is_some_and(|at| at <= cx.now)) {
            let Some(path) = self.paths.get_mut(id) else { continue };
            if !path.search().is_worth_raising(path.flight().last_data()) {
                path.change_mtu(|search| search.postpone(cx.now));
                continue;
            }
            let lost = path.change_mtu(|search| search.handle_timeout(cx.now));
            cx.counters.mtu_probes_lost += u64::from(lost);
        }
    }
}

/// When the search of `path` has something to do, while HEARTBEATs are sent.
pub(super) fn deadline(path: &Path) -> Option<Instant> {
    path.search().deadline().filter(|_| path.health().is_active())
}

/// Fills what is left of `packet` with a PAD chunk.
pub(super) fn write_padding(packet: &mut PacketWriter<'_>) {
    let room = packet.room_for(types::PAD);
    if room >= Pad::HEADER_LEN {
        let data = alloc::vec![0; room - Pad::HEADER_LEN];
        // It is as large as the room.
        let _no_room = packet.push(&Chunk::Pad(Pad { data: &data })).is_err();
    }
}
