//! ECNE and CWR (types that RFC 9260 reserves; RFC 4960 appendix A, draft-stewart-tsvwg-sctpecn): from
//! packets with CE to the peer, and from what the peer says of them to the window.

use super::context::Context;
use super::path_manager::PathManager;
use super::receive::Arrival;
use super::tcb::Peer;
use crate::config::EcnUse;
use crate::ecn::Ecn;
use crate::path::{PathId, Paths};
use crate::recv::Receiver;
use crate::send::EchoOutcome;
use crate::time::Instant;
use manypath_wire::chunk::{Chunk, Cwr, Ecne};
use manypath_wire::packet::PacketWriter;

/// The path that has to tell that its window was reduced.
pub(super) fn cwr_path(paths: &Paths) -> Option<PathId> {
    let mut all = paths.iter().filter(|_| paths.uses_ecn());
    all.find(|path| path.ecn().cwr().is_some()).map(|path| path.id())
}

/// Both ends have said that they are capable of ECN, and the handshake is over: from now on packets
/// with new data are marked so. Those of the handshake are not, as a SYN is not.
pub(super) fn start(cx: &Context<'_>, paths: &mut Paths, peer: Option<&Peer>) {
    let Some(peer) = peer.map(|peer| &peer.announcement) else { return };
    let own_kind = peer.adaptation.is_some() && peer.adaptation == cx.config.adaptation;
    paths.set_ecn(match cx.config.ecn {
        _ if !peer.ecn => EcnUse::Off,
        EcnUse::WhereSeen if own_kind => EcnUse::On,
        wanted @ (EcnUse::Off | EcnUse::WhereSeen | EcnUse::On) => wanted,
    });
}

/// The packet that was worked through has brought new data: if it came with CE, the peer is to know.
pub(super) fn note(arrival: &Arrival<'_>, paths: &mut Paths, peer: Option<&mut Peer>) -> bool {
    let Some(tsn) = arrival.lowest_tsn.filter(|_| arrival.ecn == Ecn::Ce) else { return false };
    if let Some(path) = paths.get_mut(arrival.via) {
        path.stats_mut().ce_received += 1;
    }
    let Some(peer) = peer.filter(|_| paths.uses_ecn()) else { return false };
    peer.receiver.note_congestion(arrival.via, tsn)
}

/// What goes in front of a SACK: the sender must know of the marks while it still has the chunks.
pub(super) fn write_echoes(receiver: &mut Receiver, paths: &Paths, packet: &mut PacketWriter<'_>) {
    receiver.echoes.retain(|id| paths.get(id).is_some());
    for ecne in receiver.echoes.chunks() {
        // What finds no room goes with the next SACK.
        let _no_room = packet.push(&Chunk::Ecne(ecne)).is_err();
    }
}

impl PathManager<'_> {
    pub(super) fn handle_ecne(&mut self, cx: &mut Context<'_>, ecne: Ecne) {
        if !self.paths.uses_ecn() {
            return;
        }
        match self.sender.handle_ecne(cx.now, ecne.lowest_tsn, self.paths) {
            EchoOutcome::Answered => {}
            EchoOutcome::Unattributed | EchoOutcome::NeverSent => cx.counters.strange_ecnes += 1,
        }
        self.count_ecn_failures(cx);
    }

    /// Counts the paths on which ECN was given up.
    pub(super) fn count_ecn_failures(&mut self, cx: &mut Context<'_>) {
        if self.paths.uses_ecn() {
            let news =
                self.paths.iter_mut().filter_map(|path| path.ecn_mut().take_news().then_some(()));
            cx.counters.ecn_failures += news.count() as u64;
        }
    }

    /// The CWR of `id`, if there is one to be sent. Without room it remains due.
    pub(super) fn write_cwr(&mut self, now: Instant, id: PathId, packet: &mut PacketWriter<'_>) {
        let Some(path) = self.paths.get_mut(id) else { return };
        let Some((tsn, all_paths)) = path.ecn().cwr() else { return };
        if packet.push(&Chunk::Cwr(Cwr { lowest_tsn: tsn.wire(), all_paths })).is_ok() {
            path.ecn_mut().on_cwr_sent(now);
        }
    }
}
