//! LIA, the Linked Increases Algorithm (RFC 6356): all paths together take what one flow would get
//! on the best of them. Only congestion avoidance is coupled.
//!
//! ```text
//!   alpha = W max(w / T^2) / (sum w / T)^2     growth of a window per round trip: w alpha MSS / W
//! ```
//!
//! Written for one step per acknowledged window, as RFC 9260 counts: at most one chunk, which is
//! what a flow on this path alone would get, and at least one byte.

use super::group::Standing;
use super::{Acked, Controller, Window};

/// Has no state beyond the window.
#[derive(Debug)]
pub(super) struct Lia;

impl Controller for Lia {
    fn avoid_congestion(&mut self, window: &mut Window, acked: &Acked, standing: &Standing<'_>) {
        if window.completes(acked) {
            window.cwnd += step(window.chunk_limit, standing);
        }
    }
}

fn step(chunk_limit: usize, standing: &Standing<'_>) -> usize {
    let rates = standing.total_rate().pow(2);
    if rates == 0 {
        return chunk_limit;
    }
    let bytes = standing.own.cwnd as u128 * chunk_limit as u128;
    let step = bytes.saturating_mul(standing.largest_rate_per_round_trip()).div_ceil(rates);
    usize::try_from(step).unwrap_or(chunk_limit).clamp(1, chunk_limit)
}
