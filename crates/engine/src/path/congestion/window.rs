//! The window of a path, and what every algorithm does with it alike: slow start, the count of
//! acknowledged bytes, the cut and the decay (RFC 9260 section 7.2).

use super::Acked;
use super::group::Share;
use super::hystart::{Growth, HyStart};
use crate::config::InitialWindow;

/// "Arbitrarily high"; what a u32 can show.
const NO_THRESHOLD: usize = u32::MAX as usize;

/// Sizes in bytes of DATA chunks with header and padding.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(super) cwnd: usize,
    /// The initial window.
    pub(super) initial: usize,
    pub(super) ssthresh: usize,
    pub(super) partial_bytes_acked: usize,
    /// Largest DATA chunk of the path (PMDCS), the unit of growth.
    pub(super) chunk_limit: usize,
    /// L of section 7.2.1: by how many PMDCS one SACK may widen the window in slow start.
    slow_start_limit: usize,
    /// Until the first loss, if wanted.
    hystart: Option<HyStart>,
}

impl Window {
    /// The initial window of section 7.2.1.
    pub(super) fn new(chunk_limit: usize, is_ipv6: bool, hystart: bool) -> Self {
        let bound = if is_ipv6 { 4344 } else { 4404 };
        let initial = (4 * chunk_limit).min(bound.max(2 * chunk_limit));
        Self {
            cwnd: initial,
            initial,
            ssthresh: NO_THRESHOLD,
            partial_bytes_acked: 0,
            chunk_limit,
            slow_start_limit: 4,
            hystart: hystart.then(HyStart::default),
        }
    }

    /// The path starts otherwise, on packets of `mtu` bytes.
    pub(super) fn set_start(&mut self, initial: InitialWindow, mtu: usize, limit: u32) {
        if initial == InitialWindow::Rfc4960 {
            self.cwnd = (4 * mtu).min(4380.max(2 * mtu));
        }
        self.slow_start_limit = limit.max(1) as usize;
    }

    /// The path starts with so many packets of full size.
    pub(super) fn set_packets(&mut self, packets: Option<u32>) {
        let wanted = packets.map(|packets| packets as usize * self.chunk_limit);
        self.cwnd = wanted.unwrap_or(self.cwnd);
        self.initial = self.cwnd;
    }

    pub(super) fn set_chunk_limit(&mut self, bytes: usize) {
        // "An update to the PLPMTU (or MPS) MUST NOT increase the congestion window measured in
        // bytes": a window of less than a chunk lets one leave all the same.
        self.chunk_limit = bytes;
    }

    pub(super) fn is_starting(&self) -> bool {
        self.cwnd <= self.ssthresh
    }

    /// Slow start, section 7.2.1, of which the path takes `share`.
    pub(super) fn start_slowly(&mut self, acked: &Acked, share: Share) {
        let growth = match &mut self.hystart {
            Some(hystart) => hystart.on_acked(acked.newest, acked.sent, acked.rtt),
            None => Growth::By(1),
        };
        match growth {
            Growth::By(divisor) if acked.window_used => {
                let step = acked.bytes.min(self.slow_start_limit * self.chunk_limit);
                self.cwnd += share.of(step / divisor);
            }
            Growth::By(_) => {}
            Growth::Over => {
                self.ssthresh = self.cwnd;
                self.hystart = None;
            }
        }
    }

    /// Counts acknowledged bytes in congestion avoidance (section 7.2.2). Returns whether that was
    /// one window in full use: the time to widen it.
    pub(super) fn completes(&mut self, acked: &Acked) -> bool {
        self.partial_bytes_acked += acked.bytes;
        if self.partial_bytes_acked < self.cwnd {
            return false;
        }
        if acked.window_used {
            self.partial_bytes_acked -= self.cwnd;
        } else {
            self.partial_bytes_acked = self.cwnd;
        }
        acked.window_used
    }

    /// The slow start threshold, as far as it says something about the path.
    pub(super) fn known_ssthresh(&self) -> usize {
        if self.ssthresh == NO_THRESHOLD { self.cwnd } else { self.ssthresh }
    }

    /// What section 7.2.3 leaves of the window.
    pub(super) fn halved(&self) -> usize {
        (self.cwnd / 2).max(4 * self.chunk_limit)
    }

    /// After a loss: `ssthresh` is the new slow start threshold, `cwnd` the new window.
    pub(super) fn cut(&mut self, ssthresh: usize, cwnd: usize) {
        self.ssthresh = ssthresh;
        self.cwnd = cwnd;
        self.partial_bytes_acked = 0;
        self.hystart = None;
    }

    /// The window becomes another one, but for no loss.
    pub(super) fn reset(&mut self, cwnd: usize, ssthresh: usize) {
        (self.cwnd, self.ssthresh) = (cwnd, ssthresh);
        self.partial_bytes_acked = 0;
    }

    /// Nothing was sent for `rtos` retransmission timeouts (section 7.2.1). Returns whether that
    /// has changed something.
    pub(super) fn decay(&mut self, rtos: u32) -> bool {
        if rtos == 0 || self.cwnd <= 4 * self.chunk_limit {
            return false;
        }
        self.ssthresh = self.cwnd;
        self.cwnd = self.cwnd.checked_shr(rtos).unwrap_or(0).max(4 * self.chunk_limit);
        self.partial_bytes_acked = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{P, acked, avoiding};
    use super::super::{Acked, Congestion, Group};
    use crate::config::CongestionControl;

    fn new(chunk_limit: usize, is_ipv6: bool, hystart: bool) -> Congestion {
        Congestion::new(CongestionControl::Rfc9260, chunk_limit, is_ipv6, hystart)
    }

    #[test]
    fn initial_window() {
        assert_eq!(new(1444, false, true).window(), 4404);
        assert_eq!(new(1444, true, true).window(), 4344);
        assert_eq!(new(1000, false, true).window(), 4000);
        assert_eq!(new(9000, false, true).window(), 18_000);
        assert!(new(1444, false, true).ssthresh() >= u32::MAX as usize);
    }

    #[test]
    fn slow_start_grows_by_what_was_acked_up_to_its_limit() {
        let mut control = new(P, false, false);
        control.on_acked(&acked(2 * P), &Group::default());
        assert_eq!(control.window(), 4404 + 2 * P);
        control.on_acked(&acked(100 * P), &Group::default());
        assert_eq!(control.window(), 4404 + 6 * P);
    }

    #[test]
    fn no_growth_without_full_window_progress_or_during_recovery() {
        let mut control = new(P, false, false);
        control.on_acked(&Acked { window_used: false, ..acked(P) }, &Group::default());
        control.on_acked(&Acked { advanced: false, ..acked(P) }, &Group::default());
        control.on_acked(&Acked { recovering: true, ..acked(P) }, &Group::default());
        control.on_acked(&acked(0), &Group::default());
        assert_eq!(control.window(), 4404);
    }

    #[test]
    fn idleness_halves_once_per_rto_down_to_four_chunks() {
        let mut control = avoiding(CongestionControl::Rfc9260, 64 * P);
        control.on_idle(0);
        assert_eq!(control.window(), 64 * P);
        control.on_idle(2);
        assert_eq!((control.window(), control.ssthresh()), (16 * P, 64 * P));
        control.on_idle(100);
        assert_eq!((control.window(), control.ssthresh()), (4 * P, 16 * P));
    }
}
