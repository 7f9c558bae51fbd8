//! The congestion control of RFC 9260 section 7.2, run for every path by itself.

use super::hystart::{Growth, HyStart};
use super::{Acked, Controller};

/// L of section 7.2.1: by how many PMDCS one SACK may widen the window in slow start. A receiver
/// that gets its packets in batches acknowledges them in batches; with L = 1 that would slow the
/// start down. Bursts are bounded elsewhere, by Max.Burst.
const SLOW_START_LIMIT: usize = 4;

/// State of the controller.
#[derive(Clone, Debug)]
pub(crate) struct Rfc9260 {
    cwnd: usize,
    ssthresh: usize,
    partial_bytes_acked: usize,
    chunk_limit: usize,
    /// Until the first loss, if wanted.
    hystart: Option<HyStart>,
}

impl Rfc9260 {
    /// The initial window of section 7.2.1 for a path whose largest DATA chunk has `chunk_limit`
    /// bytes. `hystart`: end the first slow start by HyStart++.
    pub(crate) fn new(chunk_limit: usize, is_ipv6: bool, hystart: bool) -> Self {
        let bound = if is_ipv6 { 4344 } else { 4404 };
        Self {
            cwnd: (4 * chunk_limit).min(bound.max(2 * chunk_limit)),
            // "Arbitrarily high"; what a u32 can show.
            ssthresh: u32::MAX as usize,
            partial_bytes_acked: 0,
            chunk_limit,
            hystart: hystart.then(HyStart::default),
        }
    }

    /// Section 7.2.1.
    fn start_slowly(&mut self, acked: Acked) {
        let growth = match &mut self.hystart {
            Some(hystart) => hystart.on_acked(acked.newest, acked.sent, acked.rtt),
            None => Growth::By(1),
        };
        match growth {
            Growth::By(divisor) if acked.window_used => {
                let step = acked.bytes.min(SLOW_START_LIMIT * self.chunk_limit);
                self.cwnd += step / divisor;
            }
            Growth::By(_) => {}
            Growth::Over => {
                self.ssthresh = self.cwnd;
                self.hystart = None;
            }
        }
    }

    fn halved(&self) -> usize {
        (self.cwnd / 2).max(4 * self.chunk_limit)
    }

    /// Section 7.2.2.
    fn avoid_congestion(&mut self, acked: Acked) {
        self.partial_bytes_acked += acked.bytes;
        if self.partial_bytes_acked < self.cwnd {
            return;
        }
        if acked.window_used {
            self.partial_bytes_acked -= self.cwnd;
            self.cwnd += self.chunk_limit;
        } else {
            self.partial_bytes_acked = self.cwnd;
        }
    }
}

impl Controller for Rfc9260 {
    fn window(&self) -> usize {
        self.cwnd
    }

    fn ssthresh(&self) -> usize {
        self.ssthresh
    }

    fn chunk_limit(&self) -> usize {
        self.chunk_limit
    }

    fn set_chunk_limit(&mut self, bytes: usize) {
        self.chunk_limit = bytes;
        self.cwnd = self.cwnd.max(bytes);
    }

    fn on_acked(&mut self, acked: Acked) {
        if acked.bytes > 0 && acked.advanced && !acked.recovering {
            if self.cwnd > self.ssthresh {
                self.avoid_congestion(acked);
            } else {
                self.start_slowly(acked);
            }
        }
        if acked.all_acked {
            self.partial_bytes_acked = 0;
        }
    }

    fn on_loss(&mut self) {
        self.ssthresh = self.halved();
        self.cwnd = self.ssthresh;
        self.partial_bytes_acked = 0;
        self.hystart = None;
    }

    fn on_timeout(&mut self) {
        self.ssthresh = self.halved();
        self.cwnd = self.chunk_limit;
        self.partial_bytes_acked = 0;
        self.hystart = None;
    }

    fn on_idle(&mut self, rtos: u32) {
        if rtos == 0 || self.cwnd <= 4 * self.chunk_limit {
            return;
        }
        self.ssthresh = self.cwnd;
        self.cwnd = self.cwnd.checked_shr(rtos).unwrap_or(0).max(4 * self.chunk_limit);
        self.partial_bytes_acked = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Acked, Controller};
    use super::Rfc9260;

    const P: usize = 1444;

    fn acked(bytes: usize) -> Acked {
        Acked {
            bytes,
            advanced: true,
            window_used: true,
            recovering: false,
            all_acked: false,
            newest: None,
            sent: 0,
            rtt: None,
        }
    }

    fn avoiding(cwnd: usize) -> Rfc9260 {
        Rfc9260 { cwnd, ssthresh: cwnd - 1, partial_bytes_acked: 0, chunk_limit: P, hystart: None }
    }

    #[test]
    fn initial_window() {
        assert_eq!(Rfc9260::new(1444, false, true).window(), 4404);
        assert_eq!(Rfc9260::new(1444, true, true).window(), 4344);
        assert_eq!(Rfc9260::new(1000, false, true).window(), 4000);
        assert_eq!(Rfc9260::new(9000, false, true).window(), 18_000);
    }

    #[test]
    fn slow_start_grows_by_what_was_acked_up_to_its_limit() {
        let mut control = Rfc9260::new(P, false, false);
        control.on_acked(acked(2 * P));
        assert_eq!(control.window(), 4404 + 2 * P);
        control.on_acked(acked(100 * P));
        assert_eq!(control.window(), 4404 + 6 * P);
    }

    #[test]
    fn no_growth_without_full_window_progress_or_during_recovery() {
        let mut control = Rfc9260::new(P, false, false);
        control.on_acked(Acked { window_used: false, ..acked(P) });
        control.on_acked(Acked { advanced: false, ..acked(P) });
        control.on_acked(Acked { recovering: true, ..acked(P) });
        control.on_acked(acked(0));
        assert_eq!(control.window(), 4404);
    }

    #[test]
    fn avoidance_adds_one_chunk_per_window() {
        let mut control = avoiding(10 * P);
        for _ in 0..9 {
            control.on_acked(acked(P));
        }
        assert_eq!(control.window(), 10 * P);
        control.on_acked(acked(P));
        assert_eq!(control.window(), 11 * P);
        assert_eq!(control.partial_bytes_acked, 0);
    }

    #[test]
    fn an_unused_window_keeps_no_more_credit_than_one_window() {
        let mut control = avoiding(10 * P);
        control.on_acked(Acked { window_used: false, ..acked(50 * P) });
        assert_eq!((control.window(), control.partial_bytes_acked), (10 * P, 10 * P));
        control.on_acked(acked(P));
        assert_eq!((control.window(), control.partial_bytes_acked), (11 * P, P));
        control.on_acked(Acked { all_acked: true, ..acked(P) });
        assert_eq!(control.partial_bytes_acked, 0);
    }

    #[test]
    fn loss_halves_and_timeout_leaves_one_chunk() {
        let mut control = avoiding(20 * P);
        control.on_loss();
        assert_eq!((control.window(), control.ssthresh()), (10 * P, 10 * P));
        control.on_timeout();
        assert_eq!((control.window(), control.ssthresh()), (P, 5 * P));
        control.on_loss();
        assert_eq!((control.window(), control.ssthresh()), (4 * P, 4 * P));
    }

    #[test]
    fn idleness_halves_once_per_rto_down_to_four_chunks() {
        let mut control = avoiding(64 * P);
        control.on_idle(0);
        assert_eq!(control.window(), 64 * P);
        control.on_idle(2);
        assert_eq!((control.window(), control.ssthresh()), (16 * P, 64 * P));
        control.on_idle(100);
        assert_eq!((control.window(), control.ssthresh()), (4 * P, 16 * P));
    }
}
