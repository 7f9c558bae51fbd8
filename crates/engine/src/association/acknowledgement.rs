//! Where SACKs go back, and with what (RFC 9260 section 6.2).

use super::context::Context;
use super::ecn;
use super::statistics::Statistics;
use crate::config::SackPath;
use crate::path::{PathId, Paths};
use crate::recv::Receiver;
use crate::time::{Duration, Instant};
use manypath_wire::chunk::types;
use manypath_wire::packet::{CommonHeader, PacketWriter};

/// What IP, UDP and SCTP put before a SACK.
const HEADERS_OF_SACK: usize = 20 + 8 + CommonHeader::LEN;
/// Room for a SACK without blocks and the header of a DATA chunk.
const SACK_AND_DATA_HEADERS: usize = 16 + 16;

/// Where a SACK that is due goes: back over the path of the DATA, unless that has failed or was
/// never confirmed (section 6.4).
pub(super) fn path(cx: &Context<'_>, receiver: &Receiver, paths: &Paths) -> Option<PathId> {
    let acks = receiver.acks();
    let due = acks.due(cx.now)?;
    let among = || paths.active().filter(|path| acks.sources().contains(path.id()));
    let chosen = match cx.config.experiment.sack_path {
        SackPath::Standard => None,
        // What the peer repeats tells that the last SACKs were lost, maybe on the fastest path.
        SackPath::SmallestSrtt if acks.must_return() => None,
        SackPath::SmallestSrtt => among().min_by_key(|path| {
            (path.arrivals().sack_debt(), path.rtt().smoothed().unwrap_or(Duration::MAX))
        }),
        SackPath::RoundRobin => among().min_by_key(|path| path.arrivals().last_sack()),
    };
    let due = chosen.map_or(due, |path| path.id());
    Some(if paths.is_active(due) { due } else { paths.control_path() })
}

/// Whether a SACK that may still wait goes along over `id` because there is room for it beside all that is
/// to be sent, `unsent` bytes (section 6.1).
pub(super) fn rides_along(
    receiver: &Receiver,
    paths: &Paths,
    (id, unsent): (PathId, usize),
    packet: &PacketWriter<'_>,
) -> bool {
    let room = packet.room_for(types::SACK).min(packet.room_for(types::DATA));
    let fits = unsent > 0 && unsent + SACK_AND_DATA_HEADERS <= room;
    receiver.acks().is_pending() && paths.is_active(id) && fits
}

/// A SACK with what goes in front of it.
pub(super) fn write(
    now: Instant,
    id: PathId,
    receiver: &mut Receiver,
    (paths, statistics): (&mut Paths, &mut Statistics),
    packet: &mut PacketWriter<'_>,
) {
    ecn::write_echoes(receiver, paths, packet);
    let before = packet.len();
    let written = receiver.write_sack(packet);
    if written {
        statistics.on_sack_sent();
    }
    if let Some(path) = paths.get_mut(id).filter(|_| written) {
        path.arrivals_mut().on_sack_sent(now, packet.len() - before + HEADERS_OF_SACK);
    }
}
