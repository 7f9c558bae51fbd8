//! HyStart++ (RFC 9406): leaves slow start when round-trip times begin to grow, before a whole
//! window is lost in the bottleneck's queue.
//!
//! ```text
//!            min RTT of a round >= that of the round before + threshold
//!   slow start ----------------------------------------------------> conservative slow start
//!        ^                                                             |            |
//!        +--- min RTT of a round below that of the entry --------------+            |
//!                                                    CSS_ROUNDS rounds: ssthresh = cwnd
//! ```
//!
//! It only ever grows the window less than RFC 9260 section 7.2.1 allows.

use crate::time::Duration;

const MIN_THRESHOLD: Duration = Duration::from_millis(4);
const MAX_THRESHOLD: Duration = Duration::from_millis(16);
const THRESHOLD_DIVISOR: u32 = 8;
const SAMPLES: u32 = 8;
const CSS_GROWTH_DIVISOR: usize = 4;
const CSS_ROUNDS: u32 = 5;

/// The search for the end of slow start. The names are those of RFC 9406 section 4.2.
#[derive(Clone, Debug, Default)]
pub(super) struct HyStart {
    last_round_min: Option<Duration>,
    current_round_min: Option<Duration>,
    samples: u32,
    /// Transmission number that ends the round.
    window_end: u64,
    css: Option<Css>,
}

/// Conservative slow start.
#[derive(Clone, Debug)]
struct Css {
    baseline_min: Duration,
    rounds: u32,
}

/// What an acknowledgement means in slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Growth {
    /// Widen the window by what was acknowledged, divided by this.
    By(usize),
    /// Slow start is over.
    Over,
}

impl HyStart {
    /// An acknowledgement arrived: of transmissions up to number `newest`, while `sent` had been
    /// made, with the round-trip time `rtt` if it could be measured.
    pub(super) fn on_acked(
        &mut self,
        newest: Option<u64>,
        sent: u64,
        rtt: Option<Duration>,
    ) -> Growth {
        if let Some(rtt) = rtt {
            self.current_round_min = Some(self.current_round_min.map_or(rtt, |min| min.min(rtt)));
            self.samples += 1;
        }
        if self.samples >= SAMPLES {
            self.judge();
        }
        if newest.is_some_and(|newest| newest >= self.window_end) && self.end_round(sent) {
            return Growth::Over;
        }
        Growth::By(if self.css.is_some() { CSS_GROWTH_DIVISOR } else { 1 })
    }

    fn judge(&mut self) {
        let Some(current) = self.current_round_min else { return };
        match &self.css {
            Some(css) if current < css.baseline_min => self.css = None,
            Some(_) => {}
            None => {
                let Some(last) = self.last_round_min else { return };
                let threshold = (last / THRESHOLD_DIVISOR).clamp(MIN_THRESHOLD, MAX_THRESHOLD);
                if current >= last + threshold {
                    self.css = Some(Css { baseline_min: current, rounds: 0 });
                }
            }
        }
    }

    /// Returns whether slow start is over.
    fn end_round(&mut self, sent: u64) -> bool {
        self.window_end = sent;
        self.last_round_min = self.current_round_min.take();
        self.samples = 0;
        let Some(css) = &mut self.css else { return false };
        css.rounds += 1;
        css.rounds > CSS_ROUNDS
    }
}

#[cfg(test)]
mod tests {
    use super::{CSS_GROWTH_DIVISOR, CSS_ROUNDS, Growth, HyStart, SAMPLES};
    use crate::time::Duration;

    /// A round of transmissions that all take `millis`; returns what the last one says.
    fn round(hystart: &mut HyStart, millis: u64) -> Growth {
        let end = hystart.window_end;
        let rtt = Some(Duration::from_millis(millis));
        for _ in 0..SAMPLES {
            hystart.on_acked(None, end, rtt);
        }
        hystart.on_acked(Some(end), end + 100, rtt)
    }

    #[test]
    fn steady_round_trips_keep_slow_start() {
        let mut hystart = HyStart::default();
        for millis in [40, 40, 44, 40, 44] {
            assert_eq!(round(&mut hystart, millis), Growth::By(1));
        }
    }

    #[test]
    fn growing_round_trips_slow_it_down_and_end_it() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 40);
        assert_eq!(round(&mut hystart, 45), Growth::By(CSS_GROWTH_DIVISOR));
        for _ in 1..CSS_ROUNDS {
            assert_eq!(round(&mut hystart, 50), Growth::By(CSS_GROWTH_DIVISOR));
        }
        assert_eq!(round(&mut hystart, 50), Growth::Over);
    }

    #[test]
    fn a_false_alarm_is_taken_back() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 40);
        assert_eq!(round(&mut hystart, 60), Growth::By(CSS_GROWTH_DIVISOR));
        assert_eq!(round(&mut hystart, 41), Growth::By(1));
    }

    #[test]
    fn few_samples_say_nothing() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 40);
        for _ in 1..SAMPLES {
            hystart.on_acked(None, 0, Some(Duration::from_millis(90)));
        }
        assert!(hystart.css.is_none());
    }
}
