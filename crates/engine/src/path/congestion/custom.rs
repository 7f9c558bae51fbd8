//! Asks a congestion control that is not the engine's own.

use super::group::Standing;
use super::{Acked, Departure, Window};
use crate::config::{
    AckView, CongestionController, CongestionEvent, CongestionView, CongestionWindow,
};
use crate::time::{Duration, Instant};
use alloc::boxed::Box;

/// Such a control, and what is known of its path between acknowledgements.
#[derive(Debug)]
pub(super) struct Custom {
    control: Box<dyn CongestionController>,
    pacing_rate: Option<u64>,
    now: Instant,
    in_flight: usize,
    srtt: Option<Duration>,
    min_rtt: Option<Duration>,
}

impl Custom {
    pub(super) fn new(control: Box<dyn CongestionController>) -> Self {
        let (now, in_flight) = (Instant::ZERO, 0);
        Self { control, pacing_rate: None, now, in_flight, srtt: None, min_rtt: None }
    }

    pub(super) fn pacing_rate(&self) -> Option<u64> {
        self.pacing_rate
    }

    /// A chunk leaves.
    pub(super) fn on_sent(&mut self, sent: &Departure) {
        (self.now, self.in_flight) = (sent.now, sent.in_flight + sent.bytes);
    }

    /// A SACK was taken in. What it tells the control, if that is anything.
    pub(super) fn on_acked(&mut self, acked: &Acked) -> Option<CongestionEvent> {
        (self.now, self.in_flight) = (acked.now, acked.in_flight);
        (self.srtt, self.min_rtt) = (acked.srtt, acked.least_rtt);
        let Acked { bytes, rtt, newest, sent, advanced, window_used, recovering, .. } = *acked;
        let view = AckView { bytes, rtt, newest, sent, advanced, window_used, recovering };
        (bytes > 0 || acked.in_flight == 0).then_some(CongestionEvent::Acked(view))
    }

    /// Asks what is to follow from `event`. Returns whether there was an answer.
    pub(super) fn ask(
        &mut self,
        event: CongestionEvent,
        window: &mut Window,
        standing: &Standing<'_>,
    ) -> bool {
        let view = CongestionView {
            now: self.now,
            window: CongestionWindow {
                cwnd: window.cwnd,
                ssthresh: window.ssthresh,
                pacing_rate: self.pacing_rate,
            },
            initial_window: window.initial,
            chunk_limit: window.chunk_limit,
            in_flight: self.in_flight,
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            all: standing.sums(),
        };
        let Some(chosen) = self.control.on_event(event, &view) else { return false };
        let least = window.chunk_limit;
        window.reset(within(chosen.cwnd, least), within(chosen.ssthresh, least));
        // Slower than a chunk per second would be no pace, but a stop.
        self.pacing_rate = chosen.pacing_rate.map(|rate| rate.max(least as u64));
        true
    }
}

/// At least a chunk, and no more than a window can show.
fn within(bytes: usize, least: usize) -> usize {
    bytes.clamp(least, u32::MAX as usize)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{P, acked};
    use super::super::{Acked, Congestion, Departure, Group};
    use crate::config::{
        Config, CongestionControl, CongestionController, CongestionControllers, CongestionEvent,
        CongestionView, CongestionWindow,
    };
    use crate::time::Instant;
    use alloc::boxed::Box;
    use alloc::sync::Arc;

    /// Adds what was acknowledged, wants nothing after a loss, and fails at a timeout.
    #[derive(Debug)]
    struct Simple;

    impl CongestionController for Simple {
        fn on_event(
            &mut self,
            event: CongestionEvent,
            view: &CongestionView,
        ) -> Option<CongestionWindow> {
            let window = view.window;
            match event {
                CongestionEvent::Acked(ack) => {
                    Some(CongestionWindow { cwnd: window.cwnd + ack.bytes, ..window })
                }
                CongestionEvent::Lost | CongestionEvent::Idle(_) => {
                    Some(CongestionWindow { cwnd: 0, ssthresh: 0, pacing_rate: Some(0) })
                }
                CongestionEvent::Marked => {
                    Some(CongestionWindow { cwnd: usize::MAX, ssthresh: view.all.cwnd, ..window })
                }
                CongestionEvent::TimedOut => None,
            }
        }
    }

    impl CongestionControllers for Simple {
        fn name(&self) -> &str {
            "simple"
        }

        fn begin(&self) -> Option<Box<dyn CongestionController>> {
            Some(Box::new(Self))
        }
    }

    fn control(congestion: CongestionControl) -> Congestion {
        let mut config = Config { congestion, ..Config::default() };
        config.experiment.congestion_controller = Some(Arc::new(Simple));
        let mut control = Congestion::new(congestion, P, false, false);
        control.set_start(&config, 1500);
        control.set_custom(&config);
        control
    }

    #[test]
    fn what_it_says_holds_within_bounds() {
        let mut control = control(CongestionControl::Rfc9260);
        let before = control.window();
        control.on_acked(&Acked { recovering: true, ..acked(P) }, &Group::default());
        control.on_acked(&acked(0), &Group::default());
        assert_eq!((control.window(), control.pace()), (before + P, None));
        control.on_loss(&Group::default());
        assert_eq!((control.window(), control.ssthresh()), (P, P), "a chunk at least");
        assert_eq!(control.pace(), Some((P as u64, usize::MAX)), "a chunk per second at least");
        control.on_marked(Instant::ZERO, P, &Group::default());
        assert_eq!(control.window(), u32::MAX as usize);
    }

    #[test]
    fn one_that_fails_is_replaced_by_the_control_that_the_configuration_names() {
        for name in [CongestionControl::Rfc9260, CongestionControl::Bbr] {
            let mut control = control(name);
            assert_eq!(control.name(), None);
            control.on_sent(&Departure { now: Instant::ZERO, number: 1, bytes: P, in_flight: 0 });
            control.on_acked(&acked(16 * P), &Group::default());
            control.on_timeout(4 * P, &Group::default());
            assert_eq!(control.name(), Some(name));
            assert!(control.window() <= 4 * P, "{name:?} has taken the timeout in");
            let window = control.window();
            control.on_loss(&Group::default());
            assert!(control.window() >= window.min(4 * P), "and is asked from now on");
        }
    }
}
