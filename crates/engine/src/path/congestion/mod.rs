//! Congestion control of one path. What decides *that* data was acknowledged or lost lives in
//! `send` and `cmt`; a controller only turns these facts into a window.

mod hystart;
mod rfc9260;

pub(crate) use rfc9260::Rfc9260;

use crate::time::Duration;

/// Data of this path that one SACK acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Acked {
    /// Bytes newly acknowledged: chunk headers and padding included.
    pub bytes: usize,
    /// Whether the path's (pseudo-)cumulative acknowledgement moved (CUC, `cmt::cuc`).
    pub advanced: bool,
    /// Whether the window was used up when the acknowledged data was under way.
    pub window_used: bool,
    /// Whether the path is in fast recovery.
    pub recovering: bool,
    /// Whether nothing is in flight on the path any more.
    pub all_acked: bool,
    /// Largest transmission number newly acknowledged, if it is not ambiguous.
    pub newest: Option<u64>,
    /// Transmissions made so far.
    pub sent: u64,
    /// The round-trip time, if it was measured.
    pub rtt: Option<Duration>,
}

/// The window of a path and how it moves. All sizes in bytes of DATA chunks with header and
/// padding (RFC 9260 section 7.2).
pub(crate) trait Controller {
    /// The congestion window.
    fn window(&self) -> usize;
    /// The slow start threshold.
    fn ssthresh(&self) -> usize;
    /// Largest DATA chunk of the path (PMDCS), the unit of growth.
    fn chunk_limit(&self) -> usize;
    /// The path's packet size has changed.
    fn set_chunk_limit(&mut self, bytes: usize);
    /// A SACK acknowledged data.
    fn on_acked(&mut self, acked: Acked);
    /// A loss was found by missing reports: one event per window (section 7.2.3).
    fn on_loss(&mut self);
    /// T3-rtx expired.
    fn on_timeout(&mut self);
    /// Nothing was sent for `rtos` retransmission timeouts.
    fn on_idle(&mut self, rtos: u32);
}
