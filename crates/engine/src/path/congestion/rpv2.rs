//! CMT/RPv2, resource pooling with regard to bandwidths (Dreibholz, Becke, Adhari, Rathgeb: "On the
//! Impact of Congestion Control for Concurrent Multipath Transfer on the Transport Layer", ConTEL
//! 2011): as RPv1, but in the proportion of b = w / T, and a loss takes half of the summed bandwidth
//! from the path that had it.
//!
//! The floor of the threshold is as in `rpv1`. The authors' option of pausing a path whose window
//! would have to become negative is left out.

use super::group::{Share, Standing};
use super::{Controller, Window};

/// Has no state beyond the window.
#[derive(Debug)]
pub(super) struct RpV2;

impl Controller for RpV2 {
    fn share(&self, standing: &Standing<'_>) -> Share {
        standing.rate_share()
    }

    fn on_loss(&mut self, window: &Window, standing: &Standing<'_>) -> usize {
        let share = standing.rate_share();
        let left = window.cwnd.saturating_sub(cut(window.cwnd, standing));
        left.max(share.of(4 * window.chunk_limit)).max(window.chunk_limit)
    }
}

/// w max(1/2, (B/2) / b), where B is the sum of all b.
fn cut(cwnd: usize, standing: &Standing<'_>) -> usize {
    let own = standing.own.rate().max(1);
    let cut = (cwnd as u128 * standing.total_rate()) / (2 * own);
    usize::try_from(cut).unwrap_or(cwnd).max(cwnd.div_ceil(2))
}
