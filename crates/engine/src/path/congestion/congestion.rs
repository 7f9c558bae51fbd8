use super::{Acked, CongestionControl, CongestionEvent, Controller, Window};
use alloc::boxed::Box;

/// Congestion control of one path: its window and the algorithm that moves it.
#[derive(Debug)]
pub(crate) struct Congestion {
    pub(super) window: Window,
    controller: Box<dyn Controller>,
}

impl Congestion {
    /// A path whose largest DATA chunk has `chunk_limit` bytes. `hystart`: end the first slow start
    /// by HyStart++.
    pub(crate) fn new(
        name: CongestionControl,
        chunk_limit: usize,
        is_ipv6: bool,
        hystart: bool,
    ) -> Self {
        let window = Window::new(chunk_limit, is_ipv6, hystart);
        Self { window, controller: name.controller() }
    }

    /// The congestion window.
    pub(crate) fn window(&self) -> usize {
        self.window.cwnd
    }

    /// The slow start threshold.
    pub(crate) fn ssthresh(&self) -> usize {
        self.window.ssthresh
    }

    /// Largest DATA chunk of the path (PMDCS), the unit of growth.
    pub(crate) fn chunk_limit(&self) -> usize {
        self.window.chunk_limit
    }

    /// The path's packet size has changed.
    pub(crate) fn set_chunk_limit(&mut self, bytes: usize) {
        self.window.set_chunk_limit(bytes);
    }

    /// A SACK acknowledged data.
    pub(crate) fn on_acked(&mut self, acked: &Acked) {
        if acked.bytes > 0 && acked.advanced && !acked.recovering {
            if self.window.is_starting() {
                self.window.start_slowly(acked);
            } else {
                self.controller.avoid_congestion(&mut self.window, acked);
            }
        }
        if acked.all_acked {
            self.window.partial_bytes_acked = 0;
        }
    }

    /// A loss was found by missing reports: one event per window (RFC 9260 section 7.2.3).
    pub(crate) fn on_loss(&mut self, event: &CongestionEvent) {
        let ssthresh = self.controller.on_loss(&self.window, event);
        self.window.cut(ssthresh, ssthresh);
    }

    /// T3-rtx expired.
    pub(crate) fn on_timeout(&mut self, event: &CongestionEvent) {
        let ssthresh = self.controller.on_loss(&self.window, event);
        self.window.cut(ssthresh, self.window.chunk_limit);
    }

    /// Nothing was sent for `rtos` retransmission timeouts.
    pub(crate) fn on_idle(&mut self, rtos: u32) {
        if self.window.decay(rtos) {
            self.controller.on_idle();
        }
    }
}
