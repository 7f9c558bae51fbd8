//! The congestion control of RFC 2960, which later RFCs have replaced: as RFC 9260 section 7.2, but a
//! loss may leave a window of two packets. Only for comparison with what was published about it; RFC
//! 4960 raised the floor to four packets because two hardly ever bring enough missing reports.

use super::group::Standing;
use super::{Controller, Window};

/// Has no state beyond the window.
#[derive(Debug)]
pub(super) struct Rfc2960;

impl Controller for Rfc2960 {
    /// RFC 2960 section 7.2.3.
    fn on_loss(&mut self, window: &Window, _standing: &Standing<'_>) -> usize {
        (window.cwnd / 2).max(2 * window.chunk_limit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Group;
    use super::super::testing::{P, acked, avoiding};
    use crate::config::CongestionControl;

    #[test]
    fn a_loss_may_leave_two_packets() {
        let mut control = avoiding(CongestionControl::Rfc2960, 10 * P);
        for left in [5 * P, 5 * P / 2, 2 * P, 2 * P] {
            control.on_loss(&Group::default());
            assert_eq!((control.window(), control.ssthresh()), (left, left));
        }
        for _ in 0..2 {
            control.on_acked(&acked(P), &Group::default());
        }
        assert_eq!(control.window(), 3 * P);
    }
}
