//! OLIA, the Opportunistic Linked Increases Algorithm (Khalili et al., "MPTCP is not
//! Pareto-optimal", CoNEXT 2012; draft-khalili-mptcp-congestion-control-05). Only congestion
//! avoidance is coupled.
//!
//! ```text
//!   growth of a window per round trip: ((w / T)^2 / (sum w / T)^2 + a) chunks
//! ```
//!
//! `a` moves window from the paths that have the largest ones to the best paths whose windows are
//! still small ("collected"); the best are those with the most bytes between losses, squared, per
//! round trip.

use super::group::Standing;
use super::{Acked, Controller, Window};

/// Has no state beyond the window.
#[derive(Debug)]
pub(super) struct Olia;

impl Controller for Olia {
    fn avoid_congestion(&mut self, window: &mut Window, acked: &Acked, standing: &Standing<'_>) {
        if window.completes(acked) {
            let step = step(window.chunk_limit, standing);
            window.cwnd = window.cwnd.saturating_add_signed(step).max(window.chunk_limit);
        }
    }
}

fn step(chunk_limit: usize, standing: &Standing<'_>) -> isize {
    let share = standing.rate_share();
    let growth = share.of(share.of(chunk_limit)) as isize;
    match standing.shift() {
        Some((sign, divisor)) => growth + sign as isize * (chunk_limit / divisor.max(1)) as isize,
        None => growth,
    }
}
