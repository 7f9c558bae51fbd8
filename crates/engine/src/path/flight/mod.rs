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
//! * `loss_recovery` - the name of what finds losses: the above, or `rack` - by time of transmission -
//!   with `tail_probe` - a packet into a silence in which nothing else would show them.
//! * `recovery` - fast recovery per path.
//! * `lost` - chunks that wait for their retransmission.
//! * `silence` - suspecting a path that is silent while others are not.

mod cuc;
pub(crate) mod dac;
mod fast_retransmit;
mod loss_rate;
mod loss_recovery;
mod lost;
mod order;
mod rack;
mod recovery;
mod silence;
mod tail_probe;

pub(crate) use cuc::Cuc;
pub use cuc::CwndUpdate;
pub use fast_retransmit::SplitFastRetransmit;
pub(crate) use fast_retransmit::{Extent, Reach};
pub(crate) use loss_rate::LossRate;
pub use loss_recovery::LossRecovery;
pub(crate) use lost::Lost;
pub(crate) use order::{Sent, SentOrder};
pub(crate) use rack::{Arrival, Rack, Verdict};
pub(crate) use recovery::FastRecovery;
pub use recovery::FastRecoveryScope;
pub use silence::PathSuspicion;
pub(crate) use silence::Silence;
pub(crate) use tail_probe::TailProbe;

use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;

/// What is under way on one path.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// Number of DATA chunks ever sent on the path: the next transmission number.
    pub(crate) transmissions: u64,
    /// First transmissions in flight, in the order in which they were sent (also TSN order).
    pub(crate) first: SentOrder,
    /// Retransmissions in flight, in the order in which they were sent.
    pub(crate) again: SentOrder,
    /// Highest TSN whose first transmission went over this path.
    pub(crate) highest_tsn: Option<Tsn64>,
    /// Pseudo-cumulative acknowledgements.
    pub(crate) cuc: Cuc,
    /// Fast recovery.
    pub(crate) recovery: FastRecovery,
    /// What has arrived, by time of transmission.
    pub(crate) rack: Rack,
    /// The probe of a silent tail.
    pub(crate) tail_probe: TailProbe,
    /// Transmissions made when the window was cut last.
    pub(crate) cut_at: u64,
    /// Chunks sent last on this path that are to be sent again.
    pub(crate) lost: Lost,
    /// How much is lost.
    pub(crate) loss_rate: LossRate,
    /// The next retransmission may leave in one packet without regard to cwnd (RFC 9260 7.2.4).
    pub(crate) fast_packet: bool,
    /// The last packet with DATA repeated what other paths had lost.
    pub(crate) helped: bool,
    /// After a timeout only one packet may be in flight until something is acknowledged (7.2.1).
    pub(crate) one_packet: bool,
    /// Whether the path is heard of.
    pub(crate) silence: Silence,
    /// What the SACK under work tells about the path.
    pub(crate) news: News,
}

/// What one SACK tells about one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct News {
    /// Bytes acknowledged for the first time.
    pub(crate) acked: usize,
    /// Transmission numbers newly acknowledged, ambiguous ones left out.
    pub(crate) numbers: Option<Extent<u64>>,
    /// How many of them.
    pub(crate) count: u8,
    /// When the earliest and the latest of them left.
    pub(crate) sent: Option<Extent<Instant>>,
    /// TSNs newly acknowledged.
    pub(crate) tsns: Option<Extent<Tsn64>>,
    /// Those of chunks that T3-rtx has never repeated.
    pub(crate) sure_tsns: Option<Extent<Tsn64>>,
    /// The cumulative TSN passed a chunk that was not yet acknowledged.
    pub(crate) cum_advanced: bool,
    /// The earliest chunk of the path was acknowledged.
    pub(crate) earliest_acked: bool,
    /// A chunk that was sent on no other path was acknowledged: the path works.
    pub(crate) proves_path: bool,
    /// Smallest round-trip time of a chunk that was sent once.
    pub(crate) rtt: Option<Duration>,
    /// Flight before the SACK.
    pub(crate) flight_before: usize,
}

impl Flight {
    /// Nothing is under way: gives memory back.
    pub(crate) fn release_memory(&mut self) {
        self.first.release_memory();
        self.again.release_memory();
    }

    /// The highest TSN outstanding on the path, where all up to `cum` is acknowledged: the exit point of
    /// a recovery that begins now. A path that only repeats what others have lost has sent none of its
    /// own, or none that is still outstanding.
    pub(crate) fn recovery_exit(&self, cum: Tsn64) -> Option<Tsn64> {
        let own = self.highest_tsn.filter(|tsn| *tsn > cum);
        own.or_else(|| self.again.highest())
    }

    /// Gives a transmission its number and remembers it.
    pub(crate) fn on_sent(&mut self, tsn: Tsn64, is_first: bool) -> u64 {
        self.transmissions += 1;
        let sent = Sent { number: self.transmissions, tsn };
        if is_first {
            self.first.push(sent);
            self.highest_tsn = self.highest_tsn.max(Some(tsn));
        } else {
            self.again.push(sent);
        }
        sent.number
    }
}
