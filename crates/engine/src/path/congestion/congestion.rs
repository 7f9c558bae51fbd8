use super::backlog::{Advice, Backlog};
use super::bbr::Bbr;
use super::custom::Custom;
use super::deference::Deference;
use super::group::{Group, LossInterval, Member, Standing};
use super::{Acked, Algorithm, Departure, Window};
use crate::config::{Config, CongestionControl, CongestionEvent};
use crate::time::{Duration, Instant};
use alloc::boxed::Box;

/// Congestion control of one path: its window and the algorithm that moves it.
#[derive(Debug)]
pub(crate) struct Congestion {
    pub(super) window: Window,
    name: CongestionControl,
    algorithm: Algorithm,
    /// Decides in place of the algorithm, until it fails.
    custom: Option<Box<Custom>>,
    interval: LossInterval,
    /// The bound on the queue, if there is one.
    pub(super) backlog: Option<Box<Backlog>>,
    /// Present while the path gives way to another one.
    deference: Option<Box<Deference>>,
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
        let (algorithm, interval) = (name.algorithm(), LossInterval::default());
        let (custom, backlog, deference, own) = (None, None, None, Member::default());
        Self { window, name, algorithm, custom, interval, backlog, deference, own }
    }

    /// A control that is not the engine's own decides, if `config` has one.
    pub(crate) fn set_custom(&mut self, config: &Config) {
        let controllers = config.experiment.congestion_controller.as_ref();
        let control = controllers.and_then(|controllers| controllers.begin());
        self.custom = control.map(|control| Box::new(Custom::new(control)));
    }

    /// Asks that control what is to follow from `event`. Returns whether it has said so: if it has failed, the
    /// algorithm goes on from here.
    fn ask(&mut self, event: CongestionEvent, group: &Group) -> bool {
        let Some(custom) = &mut self.custom else { return false };
        let standing = Standing { own: self.own, group };
        if custom.ask(event, &mut self.window, &standing) {
            return true;
        }
        self.custom = None;
        if let (Algorithm::Window(controller), false) =
            (&mut self.algorithm, self.window.cwnd < self.window.ssthresh)
        {
            controller.on_reset(&self.window);
        }
        false
    }

    /// The model of the path and the window, if a model is what decides.
    fn model(&mut self) -> Option<(&mut Bbr, &mut Window)> {
        match &mut self.algorithm {
            Algorithm::Model(bbr) if self.custom.is_none() => Some((bbr, &mut self.window)),
            Algorithm::Model(_) | Algorithm::Window(_) => None,
        }
    }

    /// The path starts as `config` says, on packets of `mtu` bytes.
    pub(crate) fn set_start(&mut self, config: &Config, mtu: u16) {
        self.window.set_start(
            config.experiment.initial_window,
            mtu.into(),
            config.experiment.slow_start_limit,
        );
        self.window.set_packets(config.initial_packets);
        match &mut self.algorithm {
            Algorithm::Window(_) => {
                let bounded = !config.queue_bound.is_zero();
                self.backlog = bounded.then(|| Box::new(Backlog::new(config.queue_bound)));
            }
            Algorithm::Model(bbr) => bbr.set_queue_bound(config.queue_bound),
        }
    }

    /// The algorithm is that of `config` from now on; the path takes packets of `mtu` bytes. The window and its
    /// bound by another path stay as they are, and slow start goes on or is over as before. A model of the path is
    /// made anew.
    pub(crate) fn follow(&mut self, config: &Config, (mtu, is_ipv6): (u16, bool)) {
        if self.name == config.congestion {
            return;
        }
        let (was_doubling, cwnd) = (self.is_doubling(), self.window.cwnd);
        let mut new = Self::new(config.congestion, self.chunk_limit(), is_ipv6, config.hystart);
        new.set_start(config, mtu);
        new.window.reset(cwnd, if was_doubling { self.ssthresh() } else { cwnd - 1 });
        (new.interval, new.own) = (core::mem::take(&mut self.interval), self.own);
        (new.deference, new.custom) = (self.deference.take(), self.custom.take());
        if let (Algorithm::Window(controller), false) = (&mut new.algorithm, was_doubling) {
            controller.on_reset(&new.window);
        }
        *self = new;
    }

    /// The path sends its first data, as one of `paths` that do.
    pub(crate) fn begin(&mut self, paths: usize) {
        if self.custom.is_none() && self.name.divides_initial_window() {
            self.window.cwnd = (self.window.cwnd / paths.max(1)).max(self.window.chunk_limit);
        }
    }

    /// Its algorithm; none if it is not one of the engine's.
    pub(crate) fn name(&self) -> Option<CongestionControl> {
        self.custom.is_none().then_some(self.name)
    }

    /// Whether the groups that the other calls take must be made.
    pub(crate) fn is_coupled(&self) -> bool {
        self.custom.is_some() || self.name.is_coupled()
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

    /// What the path may send at first (RFC 9260 section 7.2.1).
    pub(crate) fn initial_window(&self) -> usize {
        self.window.initial
    }

    /// The congestion window.
    pub(crate) fn window(&self) -> usize {
        let cwnd = self.window.cwnd;
        self.deference.as_ref().map_or(cwnd, |deference| cwnd.min(deference.most()))
    }

    /// The path gives way to another one from now on while more than `bound` waits in the queue; `None`: not any more.
    pub(crate) fn give_way(&mut self, bound: Option<Duration>) {
        if bound.is_some() != self.deference.is_some() {
            let cwnd = self.window.cwnd;
            self.deference = bound.map(|bound| Box::new(Deference::new(cwnd, bound)));
        }
    }

    /// Another path has begun to give way to this one: it does not take the part of that one before others
    /// had time to take theirs.
    pub(crate) fn hold(&mut self, until: Instant) {
        if let Some((bbr, _)) = self.model() {
            bbr.hold(until);
        }
    }

    fn defer(&mut self, acked: &Acked) -> Acked {
        let Some(deference) = &mut self.deference else { return *acked };
        let Window { cwnd, chunk_limit, .. } = self.window;
        deference.on_acked(acked, (cwnd, chunk_limit));
        let is_bounded = deference.most() < cwnd;
        if let (true, Some((bbr, _))) = (is_bounded, self.model()) {
            bbr.on_bounded(acked.in_flight);
        }
        Acked { window_used: acked.window_used && !is_bounded, ..*acked }
    }

    /// The slow start threshold.
    pub(crate) fn ssthresh(&self) -> usize {
        self.window.ssthresh
    }

    /// Whether the path is in slow start.
    pub(crate) fn is_starting(&self) -> bool {
        self.window.is_starting()
    }

    /// Whether what the path carries is likely to double with each round trip.
    pub(crate) fn is_doubling(&self) -> bool {
        match &self.algorithm {
            Algorithm::Model(bbr) if self.custom.is_none() => bbr.is_starting(),
            Algorithm::Model(_) | Algorithm::Window(_) => self.window.cwnd < self.window.ssthresh,
        }
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
        let acked = &self.defer(acked);
        if let Some(custom) = &mut self.custom {
            let event = custom.on_acked(acked);
            if event.is_none_or(|event| self.ask(event, group)) {
                return;
            }
        }
        match &mut self.algorithm {
            Algorithm::Window(_) => self.widen(acked, group),
            Algorithm::Model(bbr) => bbr.on_acked(acked, &mut self.window),
        }
    }

    fn widen(&mut self, acked: &Acked, group: &Group) {
        self.bound(acked);
        let Algorithm::Window(controller) = &mut self.algorithm else { return };
        let standing = Standing { own: self.own, group };
        if acked.bytes > 0 && acked.advanced && !acked.recovering {
            if self.backlog.as_deref().is_some_and(Backlog::is_paused) {
                // Whether slow start is over is seen at the end of the round.
            } else if self.window.is_starting() {
                let share = controller.share(&standing);
                let before = self.window.cwnd;
                self.window.start_slowly(acked, share);
                if let Some(backlog) = &self.backlog {
                    self.window.cwnd = backlog.within(acked.now, before, self.window.cwnd);
                }
            } else {
                controller.avoid_congestion(&mut self.window, acked, &standing);
            }
        }
        if acked.in_flight == 0 {
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
        if let Algorithm::Window(controller) = &mut self.algorithm {
            controller.on_reset(&self.window);
        }
    }

    /// Losses were found by missing reports: one event per window (RFC 9260 section 7.2.3).
    pub(crate) fn on_loss(&mut self, group: &Group) {
        self.interval.on_loss();
        if self.ask(CongestionEvent::Lost, group) {
            return;
        }
        match &mut self.algorithm {
            Algorithm::Window(_) => {
                let ssthresh = self.threshold_after(group);
                self.window.cut(ssthresh, ssthresh);
            }
            Algorithm::Model(bbr) => bbr.on_recovery(&self.window),
        }
    }

    /// The peer has got a packet with CE while `used` bytes of the window were in use: one event per window
    /// (RFC 3168 section 6.1.2).
    pub(crate) fn on_marked(&mut self, now: Instant, used: usize, group: &Group) {
        if self.ask(CongestionEvent::Marked, group) {
            return self.interval.on_loss();
        }
        match &mut self.algorithm {
            Algorithm::Window(_) => self.on_loss(group),
            Algorithm::Model(bbr) => bbr.on_marked(now, used as u64, &self.window),
        }
    }

    /// T3-rtx expired while `used` bytes of the window were in use.
    pub(crate) fn on_timeout(&mut self, used: usize, group: &Group) {
        self.interval.on_loss();
        if self.ask(CongestionEvent::TimedOut, group) {
            return;
        }
        let ssthresh = self.threshold_after(group);
        match &mut self.algorithm {
            Algorithm::Window(controller) => {
                controller.on_timeout();
                self.window.cut(ssthresh, self.window.chunk_limit);
            }
            Algorithm::Model(bbr) => bbr.on_timeout(used, &mut self.window),
        }
    }

    fn threshold_after(&mut self, group: &Group) -> usize {
        if let Some(backlog) = &mut self.backlog {
            backlog.on_loss();
        }
        let standing = Standing { own: self.own, group };
        match &mut self.algorithm {
            Algorithm::Window(controller) => controller.on_loss(&self.window, &standing),
            Algorithm::Model(_) => self.window.ssthresh,
        }
    }

    /// Nothing was sent for `rtos` retransmission timeouts. A model of the path outlasts that.
    pub(crate) fn on_idle(&mut self, rtos: u32) {
        if self.ask(CongestionEvent::Idle(rtos), &Group::default()) {
            return;
        }
        let Algorithm::Window(controller) = &mut self.algorithm else { return };
        if self.window.decay(rtos) {
            controller.on_idle();
        }
    }

    /// Nothing is in flight: gives memory back.
    pub(crate) fn release_memory(&mut self) {
        if let Some((bbr, _)) = self.model() {
            bbr.release_memory();
        }
    }

    /// A chunk leaves.
    pub(crate) fn on_sent(&mut self, sent: &Departure) {
        if let Some(custom) = &mut self.custom {
            custom.on_sent(sent);
        } else if let Algorithm::Model(bbr) = &mut self.algorithm {
            bbr.on_sent(sent, &mut self.window);
        }
    }

    /// The path could send, but there is nothing to send on it.
    pub(crate) fn on_starved(&mut self, now: Instant) {
        if let Some((bbr, _)) = self.model() {
            bbr.on_starved(now);
        }
    }

    /// Whether [`Self::on_starved`] would tell something new.
    pub(crate) fn may_starve(&self) -> bool {
        self.custom.is_none()
            && matches!(&self.algorithm, Algorithm::Model(bbr) if !bbr.is_starved())
    }

    /// A chunk of `bytes` was acknowledged: transmission `number` of the path, or it is not known
    /// which one. [`Self::on_acked`] follows when the SACK was taken in.
    pub(crate) fn on_chunk_acked(&mut self, now: Instant, number: Option<u64>, bytes: usize) {
        if let Some((bbr, _)) = self.model() {
            bbr.on_chunk_acked(now, number, bytes);
        }
    }

    /// Transmission `number` of the path, a chunk of `bytes`, was found lost by what arrived after it.
    pub(crate) fn on_chunk_lost(&mut self, now: Instant, number: u64, bytes: usize) {
        if let Some((bbr, window)) = self.model() {
            bbr.on_chunk_lost(now, number, bytes, window);
        }
    }

    /// A chunk that was found lost was not.
    pub(crate) fn on_spurious(&mut self) {
        if let Some((bbr, window)) = self.model() {
            bbr.on_spurious(window);
        }
    }

    /// Bytes per second at which data is to leave whatever [`Config::pacing`] says, if the algorithm has
    /// such a rate, and how many of them may leave at once.
    pub(crate) fn pace(&self) -> Option<(u64, usize)> {
        match (&self.custom, &self.algorithm) {
            (Some(custom), _) => custom.pacing_rate().map(|rate| (rate, usize::MAX)),
            (None, Algorithm::Model(bbr)) => bbr.pace(),
            (None, Algorithm::Window(_)) => None,
        }
    }

    /// Bytes per second that the path delivers, if the algorithm measures that.
    pub(crate) fn bandwidth(&self) -> Option<u64> {
        match &self.algorithm {
            Algorithm::Model(bbr) if self.custom.is_none() => bbr.bandwidth(),
            Algorithm::Model(_) | Algorithm::Window(_) => None,
        }
    }
}
