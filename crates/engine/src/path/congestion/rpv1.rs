//! CMT/RPv1, resource pooling (Dreibholz, Becke, Pulinthanath, Rathgeb: "Applying TCP-Friendly
//! Congestion Control to Concurrent Multipath Transfer", AINA 2010): all paths together grow like
//! one flow, each in the proportion of its slow start threshold, and a loss takes half of the
//! *sum* of the windows from the path that had it.
//!
//! The authors' threshold is at least one chunk. Here it is also at least the path's share of four,
//! so that one path alone behaves as RFC 9260 says.

use super::group::{Share, Standing};
use super::{Controller, Window};

/// Has no state beyond the window.
#[derive(Debug)]
pub(super) struct RpV1;

impl Controller for RpV1 {
    fn share(&self, standing: &Standing<'_>) -> Share {
        standing.ssthresh_share()
    }

    fn on_loss(&mut self, window: &Window, standing: &Standing<'_>) -> usize {
        let share = standing.ssthresh_share().of(4 * window.chunk_limit);
        let left = window.cwnd.saturating_sub(standing.total_cwnd() / 2);
        left.max(share).max(window.chunk_limit)
    }
}
