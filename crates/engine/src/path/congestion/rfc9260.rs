//! The congestion control of RFC 9260 section 7.2, run for every path by itself.

use super::Controller;

/// Has no state beyond the window.
#[derive(Debug)]
pub(super) struct Rfc9260;

impl Controller for Rfc9260 {}

#[cfg(test)]
mod tests {
    use super::super::testing::{P, acked, avoiding};
    use super::super::{Acked, Group};
    use crate::config::CongestionControl;

    #[test]
    fn avoidance_adds_one_chunk_per_window() {
        let mut control = avoiding(CongestionControl::Rfc9260, 10 * P);
        for _ in 0..9 {
            control.on_acked(&acked(P), &Group::default());
        }
        assert_eq!(control.window(), 10 * P);
        control.on_acked(&acked(P), &Group::default());
        assert_eq!((control.window(), control.window.partial_bytes_acked), (11 * P, 0));
    }

    #[test]
    fn an_unused_window_keeps_no_more_credit_than_one_window() {
        let mut control = avoiding(CongestionControl::Rfc9260, 10 * P);
        control.on_acked(&Acked { window_used: false, ..acked(50 * P) }, &Group::default());
        assert_eq!((control.window(), control.window.partial_bytes_acked), (10 * P, 10 * P));
        control.on_acked(&acked(P), &Group::default());
        assert_eq!((control.window(), control.window.partial_bytes_acked), (11 * P, P));
        control.on_acked(&Acked { in_flight: 0, ..acked(P) }, &Group::default());
        assert_eq!(control.window.partial_bytes_acked, 0);
    }

    #[test]
    fn loss_halves_and_timeout_leaves_one_chunk() {
        let mut control = avoiding(CongestionControl::Rfc9260, 20 * P);
        control.on_loss(&Group::default());
        assert_eq!((control.window(), control.ssthresh()), (10 * P, 10 * P));
        control.on_timeout(20 * P, &Group::default());
        assert_eq!((control.window(), control.ssthresh()), (P, 5 * P));
        control.on_loss(&Group::default());
        assert_eq!((control.window(), control.ssthresh()), (4 * P, 4 * P));
    }
}
