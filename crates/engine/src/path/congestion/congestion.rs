use super::backlog::{Advice, Backlog};
use super::group::{Group, LossInterval, Member, Standing};
use super::{Acked, CongestionControl, CongestionEvent, Controller, Window};
use crate::config::Config;
use crate::time::Duration;
use alloc::boxed::Box;

/// Congestion control of one path: its window and the algorithm that moves it.
#[derive(Debug)]
pub(crate) struct Congestion {
    pub(super) window: Window,
    name: CongestionControl,
    controller: Box<dyn Controller>,
    interval: LossInterval,
    /// The bound on the queue, if there is one.
    pub(super) backlog: Option<Backlog>,
    /// What the path was when its group was looked at last.
    own: Member,
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
        let (controller, interval) = (name.controller(), LossInterval::default());
        Self { window, name, controller, interval, backlog: None, own: Member::default() }
    }

    /// The path starts as `config` says, on packets of `mtu` bytes.
    pub(crate) fn set_start(&mut self, config: &Config, mtu: u16) {
        self.window.set_start(config.initial_window, mtu.into(), config.slow_start_limit);
        self.window.set_packets(config.initial_packets);
        self.backlog = (!config.queue_bound.is_zero()).then(|| Backlog::new(config.queue_bound));
    }

    /// The path sends its first data, as one of `paths` that do.
    pub(crate) fn begin(&mut self, paths: usize) {
        if self.name.divides_initial_window() {
            self.window.cwnd = (self.window.cwnd / paths.max(1)).max(self.window.chunk_limit);
        }
    }

    /// Whether the groups that the other calls take must be made.
    pub(crate) fn is_coupled(&self) -> bool {
        self.name.is_coupled()
    }

    /// Joins a group that is looked at now.
    pub(crate) fn take_stand(&mut self, srtt: Option<Duration>) -> Member {
        let (cwnd, ssthresh) = (self.window.cwnd, self.window.known_ssthresh());
        self.own = Member { cwnd, ssthresh, srtt, interval: self.interval.longest() };
        self.own
    }

    /// What [`Self::take_stand`] returned last.
    pub(crate) fn own(&self) -> Member {
        self.own
    }

    /// The congestion window.
    pub(crate) fn window(&self) -> usize {
        self.window.cwnd
    }

    /// The slow start threshold.
    pub(crate) fn ssthresh(&self) -> usize {
        self.window.ssthresh
    }

    /// Whether the path is in slow start.
    pub(crate) fn is_starting(&self) -> bool {
        self.window.is_starting()
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
    pub(crate) fn on_acked(&mut self, acked: &Acked, group: &Group) {
        self.interval.on_acked(acked.bytes);
        self.bound(acked);
        let standing = Standing { own: self.own, group };
        if acked.bytes > 0 && acked.advanced && !acked.recovering {
            if self.backlog.as_ref().is_some_and(Backlog::is_paused) {
                // Whether slow start is over is seen at the end of the round.
            } else if self.window.is_starting() {
                let share = self.controller.share(&standing);
                let before = self.window.cwnd;
                self.window.start_slowly(acked, share);
                if let Some(backlog) = &self.backlog {
                    self.window.cwnd = backlog.within(acked.now, before, self.window.cwnd);
                }
            } else {
                self.controller.avoid_congestion(&mut self.window, acked, &standing);
            }
        }
        if acked.all_acked {
            self.window.partial_bytes_acked = 0;
        }
    }

    /// What waits in the queue of the path is not to be more than it should.
    fn bound(&mut self, acked: &Acked) {
        let Some(backlog) = self.backlog.as_mut().filter(|_| acked.bytes > 0) else { return };
        match backlog.on_acked(acked, &self.window) {
            Advice::Keep => return,
            Advice::Cut(cwnd) => self.window.reset(cwnd, cwnd - 1),
            Advice::Restore(cwnd) => {
                self.window.reset(self.window.cwnd.max(cwnd), self.window.ssthresh);
            }
        }
        self.controller.on_reset(&self.window);
    }

    /// A loss was found by missing reports: one event per window (RFC 9260 section 7.2.3).
    pub(crate) fn on_loss(&mut self, event: &CongestionEvent, group: &Group) {
        let ssthresh = self.threshold_after(event, group);
        self.window.cut(ssthresh, ssthresh);
    }

    /// T3-rtx expired.
    pub(crate) fn on_timeout(&mut self, event: &CongestionEvent, group: &Group) {
        let ssthresh = self.threshold_after(event, group);
        self.controller.on_timeout();
        self.window.cut(ssthresh, self.window.chunk_limit);
    }

    fn threshold_after(&mut self, event: &CongestionEvent, group: &Group) -> usize {
        self.interval.on_loss();
        if let Some(backlog) = &mut self.backlog {
            backlog.on_loss();
        }
        self.controller.on_loss(&self.window, event, &Standing { own: self.own, group })
    }

    /// Nothing was sent for `rtos` retransmission timeouts.
    pub(crate) fn on_idle(&mut self, rtos: u32) {
        if self.window.decay(rtos) {
            self.controller.on_idle();
        }
    }
}
