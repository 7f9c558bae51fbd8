//! What became of a chunk and of its transmissions.

use super::Sent;
use crate::path::{PathId, Rtt};
use crate::time::Instant;
use crate::tsn::Tsn64;

/// Where a chunk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChunkState {
    /// On its way, as far as we know.
    InFlight,
    /// To be sent again.
    Lost,
    /// The peer has it, but may still throw it away (RFC 9260 section 6.2.1).
    Acked,
    /// The peer has it for good (NR-SACK). Only its TSN is still of interest.
    Released,
    /// The sender has given it up (RFC 3758 section 3.4). Only its TSN is still of interest.
    Abandoned,
}

impl ChunkState {
    /// Whether its user data is not held any more.
    pub(crate) fn is_empty(self) -> bool {
        matches!(self, Self::Released | Self::Abandoned)
    }

    /// Whether it may have to be sent again.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::InFlight | Self::Lost)
    }
}

/// The history of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkRecord {
    /// Where it is.
    pub(crate) state: ChunkState,
    /// The path of its last transmission.
    pub(crate) path: PathId,
    /// The path of the transmission before that.
    pub(crate) from: PathId,
    /// Number of its last transmission on that path.
    pub(crate) number: u64,
    /// When it was sent last.
    pub(crate) last_sent: Instant,
    /// How often it was sent.
    pub(crate) transmissions: u32,
    /// Whether it was sent on more than one path.
    pub(crate) moved: bool,
    /// Whether it was sent again because it held others up, or was to be because a slow path carried it at the end.
    pub(crate) rescheduled: bool,
    /// Whether it was ever repeated because of T3-rtx.
    pub(crate) timed_out: bool,
    /// Whether the peer had it once and has thrown it away.
    pub(crate) reneged: bool,
    /// Whether its packet was larger than every path should take.
    pub(crate) large: bool,
    /// Whether its last transmission left in an ECN-capable packet.
    pub(crate) capable: bool,
    /// Whether it has had its time to arrive, but lies beyond what SACKs have room to report: it is not
    /// under way any more, and not known to be lost.
    pub(super) hidden: bool,
    /// Missing reports since its last transmission (section 7.2.4).
    pub(crate) missing: u8,
    /// The path over which the SACK came that acknowledged it.
    pub(crate) acked_via: PathId,
}

/// A chunk as its path sees it.
#[derive(Debug)]
pub(crate) struct Tracked<'a> {
    pub(crate) record: &'a mut ChunkRecord,
    /// Bytes of user data: the unit of the receive window.
    pub(crate) data: usize,
    /// Bytes in a packet, header and padding included: the unit of the congestion window.
    pub(crate) wire: usize,
}

/// The table of all chunks that were sent and are not cumulatively acknowledged.
pub(crate) trait Records {
    /// What became of chunk `tsn`, if it is there.
    fn record(&mut self, tsn: Tsn64) -> Option<&mut ChunkRecord>;

    /// Chunk `tsn` with its sizes.
    fn tracked(&mut self, tsn: Tsn64) -> Option<Tracked<'_>>;
}

impl ChunkRecord {
    /// A chunk that is about to be sent for the first time.
    pub(crate) fn new(path: PathId, now: Instant) -> Self {
        Self {
            state: ChunkState::Lost,
            path,
            from: path,
            number: 0,
            last_sent: now,
            transmissions: 0,
            moved: false,
            rescheduled: false,
            timed_out: false,
            reneged: false,
            large: false,
            capable: false,
            hidden: false,
            missing: 0,
            acked_via: path,
        }
    }

    /// Whether an acknowledgement comes too early to be for the last transmission, on a path with this round trip.
    pub(crate) fn is_too_early(&self, now: Instant, rtt: &Rtt) -> bool {
        self.transmissions > 1 && now.since(self.last_sent) < rtt.least().unwrap_or_default()
    }

    /// Whether a transmission on path `id` is still under way.
    pub(crate) fn is_live(&self, id: PathId, sent: Sent) -> bool {
        self.state == ChunkState::InFlight && self.path == id && self.number == sent.number
    }
}
