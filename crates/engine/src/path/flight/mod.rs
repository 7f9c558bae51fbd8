//! What is under way on a path, and what is known about its loss and silence. With several paths
//! (concurrent multipath transfer) reordering between them must not look like loss: everything here
//! counts per path. One algorithm per file.
//!
//! * `order` - the order of what was sent on the path.
//! * `fast_retransmit` - which chunks a SACK reports missing: with split fast retransmit only if
//!   something sent later *on their path* has arrived.
//! * `dac` - delayed acknowledgements in spite of gaps, and what they count for.
//! * `cuc` - cwnd update for CMT: a window grows with its own path's pseudo-cumulative
//!   acknowledgement, whatever the association's cumulative TSN does.
//! * `rack` - losses by time of transmission, in place of missing reports, with `tail_probe` - a
//!   packet into a silence in which nothing else would show them.
//! * `recovery` - fast recovery per path.
//! * `lost` - chunks that wait for their retransmission.
//! * `silence` - suspecting a path that is silent while others are not.
//!
//! What is done to a path is in one file per occasion: `departure`, `acknowledgement`, `loss`, and
//! `copies` of redundant transmission. The sender keeps the table of the chunks (`record`).

mod acknowledgement;
mod copies;
mod cuc;
pub(crate) mod dac;
mod departure;
mod fast_retransmit;
mod loss;
mod loss_rate;
mod lost;
mod order;
mod rack;
mod record;
mod recovery;
mod silence;
mod tail_probe;
#[cfg(test)]
mod testing;

pub(crate) use acknowledgement::SackSummary;
pub(crate) use fast_retransmit::Extent;
pub(crate) use loss::{Detection, Found};
pub(crate) use lost::{Loss, Lost};
pub(crate) use order::Sent;
pub(crate) use record::{ChunkRecord, ChunkState, Records, Tracked};
pub(crate) use recovery::FastRecovery;

use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;
use alloc::boxed::Box;
use copies::Copies;
use cuc::Cuc;
use fast_retransmit::Reach;
use loss_rate::LossRate;
use order::SentOrder;
use rack::Rack;
use silence::Silence;
use tail_probe::TailProbe;

/// What is under way on one path, and what is known about it.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// Bytes in flight: DATA chunks with header and padding, neither acknowledged nor marked for
    /// retransmission.
    pub(super) bytes: usize,
    /// Bytes of chunks that are not under way any more, but beyond what SACKs have room to report.
    hidden: usize,
    /// User data whose last transmission was on the path and which is not acknowledged for good
    /// (the measure `queued` of buffer splitting).
    booked: usize,
    /// When T3-rtx expires, if it runs.
    t3: Option<Instant>,
    /// When DATA was sent last.
    pub(super) last_data: Option<Instant>,
    /// When the congestion window was full last.
    window_filled: Option<Instant>,
    /// When it had in flight last what its window or its share of the buffers allows.
    pub(super) share_filled: Option<Instant>,
    /// Number of DATA chunks ever sent on the path: the next transmission number.
    transmissions: u64,
    /// First transmissions in flight, in the order in which they were sent (also TSN order).
    originals: SentOrder,
    /// Retransmissions in flight, in the order in which they were sent.
    retransmissions: SentOrder,
    /// Highest TSN whose first transmission went over this path.
    highest_tsn: Option<Tsn64>,
    /// Pseudo-cumulative acknowledgements.
    cuc: Cuc,
    /// Fast recovery.
    recovery: FastRecovery,
    /// What has arrived, by time of transmission.
    rack: Rack,
    /// The probe of a silent tail.
    tail_probe: TailProbe,
    /// Transmissions made when the window was cut last.
    cut_at: u64,
    /// Chunks sent last on this path that are to be sent again.
    pub(super) lost: Lost,
    /// How much is lost.
    pub(super) loss_rate: LossRate,
    /// The next retransmission may leave in one packet without regard to cwnd (RFC 9260 7.2.4).
    fast_packet: bool,
    /// The last packet with DATA repeated what other paths had lost.
    helped: bool,
    /// After a timeout only one packet may be in flight until something is acknowledged (7.2.1).
    one_packet: bool,
    /// Whether the path is heard of.
    silence: Silence,
    /// Second transmissions, if there ever were any.
    copies: Option<Box<Copies>>,
    /// What the SACK under work tells about the path.
    news: PathAckSummary,
}

/// What one SACK tells about one path.
#[derive(Clone, Copy, Debug, Default)]
struct PathAckSummary {
    /// Bytes acknowledged for the first time.
    acked: usize,
    /// Transmission numbers newly acknowledged, ambiguous ones left out.
    numbers: Option<Extent<u64>>,
    /// How many of them.
    count: u8,
    /// When the earliest and the latest of them left.
    sent: Option<Extent<Instant>>,
    /// TSNs newly acknowledged.
    tsns: Option<Extent<Tsn64>>,
    /// Those of chunks that T3-rtx has never repeated.
    sure_tsns: Option<Extent<Tsn64>>,
    /// The cumulative TSN passed a chunk that was not yet acknowledged.
    cum_advanced: bool,
    /// The earliest chunk of the path was acknowledged.
    earliest_acked: bool,
    /// A chunk that was sent on no other path was acknowledged: the path works.
    proves_path: bool,
    /// Smallest round-trip time of a chunk that was sent once.
    rtt: Option<Duration>,
    /// Flight before the SACK.
    flight_before: usize,
}
