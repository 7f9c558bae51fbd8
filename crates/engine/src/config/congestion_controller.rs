//! Congestion controls that are not the engine's own: what they are shown, and what they decide.

use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use core::fmt;

/// What has happened on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionEvent {
    /// A SACK has acknowledged data of the path, or has left it with nothing in flight.
    Acked(AckView),
    /// Data was found lost, once per window (RFC 9260 section 7.2.3).
    Lost,
    /// The peer has got packets with CE, once per window (RFC 3168 section 6.1.2).
    Marked,
    /// T3-rtx has expired.
    TimedOut,
    /// Nothing was sent for so many retransmission timeouts (RFC 9260 section 7.2.1).
    Idle(u32),
}

/// Data that one SACK has acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckView {
    /// Bytes newly acknowledged: chunk headers and padding included.
    pub bytes: usize,
    /// The round-trip time, if it was measured.
    pub rtt: Option<Duration>,
    /// The largest number among the path's transmissions that was newly acknowledged, if it is not ambiguous.
    pub newest: Option<u64>,
    /// Transmissions of the path so far.
    pub sent: u64,
    /// Whether the path's (pseudo-)cumulative acknowledgement moved (CUC).
    pub advanced: bool,
    /// Whether the window was used up when that data was under way.
    pub window_used: bool,
    /// Whether the path is in fast recovery.
    pub recovering: bool,
}

/// What a congestion control decides. All are bytes; of DATA chunks with header and padding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionWindow {
    /// The congestion window: at least one chunk.
    pub cwnd: usize,
    /// The slow start threshold; [`u32::MAX`] before something has set it. Pacing, schedulers and status look at it.
    pub ssthresh: usize,
    /// Bytes per second at which data leaves, whatever [`Config::pacing`](super::Config::pacing) says.
    pub pacing_rate: Option<u64>,
}

/// All paths of the association that carry data, together; of a path without others, that one. As controls that couple
/// paths see them (RFC 6356): w is a congestion window, T a smoothed round-trip time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathSums {
    /// The sum of all w in bytes.
    pub cwnd: usize,
    /// The sum of all slow start thresholds in bytes; before the first loss w counts.
    pub ssthresh: usize,
    /// The sum of all w / T in bytes per second.
    pub rate: u64,
    /// The largest w / T^2 in bytes per second squared.
    pub max_rate_per_rtt: u64,
}

/// What a congestion control decides by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionView {
    /// When the path has sent data or was acknowledged some last.
    pub now: Instant,
    /// What was decided last.
    pub window: CongestionWindow,
    /// What the path may send at first, in bytes (RFC 9260 section 7.2.1).
    pub initial_window: usize,
    /// The largest chunk in bytes (PMDCS).
    pub chunk_limit: usize,
    /// Bytes in flight.
    pub in_flight: usize,
    /// The smoothed round-trip time, once measured.
    pub srtt: Option<Duration>,
    /// The shortest round-trip time, once measured.
    pub min_rtt: Option<Duration>,
    /// This path and the others; after a pause ([`CongestionEvent::Idle`]) this path alone.
    pub all: PathSums,
}

/// The congestion control of one path. The same views must lead to the same answers: the engine is deterministic.
pub trait CongestionController: fmt::Debug + Send + Sync {
    /// What is to hold from now on. `None`: it has failed and is not asked again; the control that
    /// [`Config::congestion`](super::Config::congestion) names goes on with the window as it is.
    fn on_event(
        &mut self,
        event: CongestionEvent,
        view: &CongestionView,
    ) -> Option<CongestionWindow>;
}

/// What makes a congestion control for each path.
pub trait CongestionControllers: fmt::Debug + Send + Sync {
    /// Tells different congestion controls apart, in results too.
    fn name(&self) -> &str;

    /// The congestion control of a path that is new; `None` if it cannot be made.
    fn begin(&self) -> Option<Box<dyn CongestionController>>;
}

impl PartialEq for dyn CongestionControllers {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn CongestionControllers {}
