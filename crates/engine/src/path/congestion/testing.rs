//! Facts for the tests of the algorithms.

use super::{Acked, Congestion};
use crate::config::CongestionControl;
use crate::time::{Duration, Instant};

/// The largest DATA chunk.
pub(super) const P: usize = 1444;

/// `bytes` acknowledged of a window in full use, at time zero.
pub(super) fn acked(bytes: usize) -> Acked {
    Acked {
        now: Instant::ZERO,
        bytes,
        advanced: true,
        window_used: true,
        recovering: false,
        in_flight: P,
        newest: None,
        sent: 0,
        rtt: None,
        srtt: Some(Duration::from_millis(100)),
        least_rtt: None,
    }
}

/// A path in congestion avoidance.
pub(super) fn avoiding(name: CongestionControl, cwnd: usize) -> Congestion {
    let mut control = Congestion::new(name, P, false, false);
    control.window.cut(cwnd - 1, cwnd);
    control
}
