//! CUBIC (RFC 9438): after a loss the window returns quickly to where the loss was, lingers there,
//! and then looks for more, as a cubic function of the time since the loss, not of the round trips.
//!
//! ```text
//!   W_cubic(t) = C (t - K)^3 + W_max,   K = cbrt((W_max - cwnd_epoch) / C)
//! ```
//!
//! A flow of Reno in the same place would have the window W_est; if that is more, it is taken.
//! Windows are bytes here, so C is counted in chunks of the path per cubic second. Times are
//! microseconds, and the cube root is an integer one: the same on every machine.

use super::group::Standing;
use super::{Acked, Controller, Window};
use crate::time::{Duration, Instant};

/// C = 0.4.
const C: (i128, i128) = (4, 10);
/// What is left of the window after a loss: 0.7.
const BETA: (usize, usize) = (7, 10);
/// (1 + beta) / 2.
const FAST_CONVERGENCE: (usize, usize) = (17, 20);
/// 3 (1 - beta) / (1 + beta).
const ALPHA: (u64, u64) = (9, 17);
/// W_est is kept in fractions of a byte.
const FRACTIONS: u64 = 1 << 10;
/// Chunks that a cut leaves at least: 4, as RFC 9260 section 7.2.3 has it, where RFC 9438 has 2.
const LEAST: usize = 4;
/// Cubic microseconds in a cubic second.
const CUBIC_SECOND: i128 = 1_000_000_000_000_000_000;
/// Times beyond this, more than an hour, are not told apart: their cubes stay within an i128.
const LONGEST: i64 = 1 << 32;

/// The state of RFC 9438 section 4.1.2.
#[derive(Debug, Default)]
pub(super) struct Cubic {
    /// W_max: the window at the last loss, less if the window shrinks from loss to loss.
    w_max: usize,
    /// The window at the last loss.
    cwnd_prior: usize,
    /// Since the first growth after the last loss.
    epoch: Option<Epoch>,
}

#[derive(Debug)]
struct Epoch {
    start: Instant,
    /// When the window grew last.
    last: Instant,
    w_max: usize,
    /// K in microseconds.
    k: i64,
    /// In 1 / [`FRACTIONS`] bytes.
    w_est: u64,
    /// What was too little for a whole byte, in bytes times window.
    rest: usize,
}

impl Controller for Cubic {
    fn avoid_congestion(&mut self, window: &mut Window, acked: &Acked, _standing: &Standing<'_>) {
        let epoch = self.epoch.get_or_insert_with(|| Epoch::new(acked.now, window, self.w_max));
        if acked.window_used {
            epoch.estimate(window, acked.bytes, self.cwnd_prior);
            epoch.widen(window, acked);
            epoch.last = acked.now;
        } else {
            epoch.pause(acked.now);
        }
    }

    /// Sections 4.6 and 4.7. The window is cut, not what of it was in use, which section 4.6 allows if the window
    /// grows only while it is used up, and which is what TCP does (Linux).
    fn on_loss(&mut self, window: &Window, _standing: &Standing<'_>) -> usize {
        self.w_max = if window.cwnd < self.w_max {
            window.cwnd * FAST_CONVERGENCE.0 / FAST_CONVERGENCE.1
        } else {
            window.cwnd
        };
        self.cwnd_prior = window.cwnd;
        self.epoch = None;
        (window.cwnd * BETA.0 / BETA.1).max(LEAST * window.chunk_limit)
    }

    /// Section 4.8: "K is set to 0, and W_max is set to the congestion window size at the beginning of the
    /// current congestion avoidance stage".
    fn on_timeout(&mut self) {
        self.w_max = 0;
    }

    fn on_idle(&mut self) {
        self.epoch = None;
    }

    /// The search goes on from there.
    fn on_reset(&mut self, window: &Window) {
        (self.w_max, self.epoch) = (window.cwnd, None);
    }
}

impl Epoch {
    fn new(now: Instant, window: &Window, w_max: usize) -> Self {
        let cwnd = window.cwnd;
        let w_max = w_max.max(cwnd);
        // cbrt((w_max - cwnd) / (C chunk_limit) s^3)
        let distance = (w_max - cwnd) as u128 * CUBIC_SECOND as u128 * C.1 as u128;
        let k = cube_root(distance / (C.0 as u128 * window.chunk_limit.max(1) as u128));
        let w_est = cwnd as u64 * FRACTIONS;
        Self { start: now, last: now, w_max, k: (k as i64).min(LONGEST), w_est, rest: 0 }
    }

    /// The time in which the window was not used up does not count (section 4.2).
    fn pause(&mut self, now: Instant) {
        self.start = self.start + now.since(self.last);
        self.last = now;
    }

    /// W_est, section 4.3.
    fn estimate(&mut self, window: &Window, bytes: usize, cwnd_prior: usize) {
        let caught_up = self.w_est >= cwnd_prior as u64 * FRACTIONS;
        let (up, down) = if caught_up { (1, 1) } else { ALPHA };
        let chunks = bytes as u64 * window.chunk_limit as u64 * FRACTIONS;
        self.w_est += chunks * up / down / (window.cwnd as u64).max(1);
    }

    fn widen(&mut self, window: &mut Window, acked: &Acked) {
        let age = acked.now.since(self.start);
        let w_est = (self.w_est / FRACTIONS) as usize;
        if self.w_cubic(age, window.chunk_limit) < w_est {
            window.cwnd = window.cwnd.max(w_est);
            return;
        }
        let srtt = acked.srtt.unwrap_or_default();
        let next = self.w_cubic(age.saturating_add(srtt), window.chunk_limit);
        let target = next.clamp(window.cwnd, window.cwnd * 3 / 2);
        self.rest += (target - window.cwnd) * acked.bytes;
        let step = self.rest / window.cwnd.max(1);
        self.rest -= step * window.cwnd;
        window.cwnd += step;
    }

    fn w_cubic(&self, age: Duration, chunk_limit: usize) -> usize {
        let age = i64::try_from(age.as_micros()).unwrap_or(LONGEST).min(LONGEST);
        let distance = i128::from(age - self.k);
        let cube = distance * distance * distance;
        let bytes = cube * chunk_limit as i128 * C.0 / C.1 / CUBIC_SECOND;
        usize::try_from(self.w_max as i128 + bytes).unwrap_or(0)
    }
}

/// The largest integer whose cube is not above `cube`.
fn cube_root(cube: u128) -> u64 {
    let mut root = 0_u128;
    for bit in (0..42).rev() {
        let next = root | 1 << bit;
        if next * next * next <= cube {
            root = next;
        }
    }
    root as u64
}

#[cfg(test)]
mod tests {
    use super::super::testing::{P, acked, avoiding};
    use super::super::{Acked, Congestion, Group};
    use super::cube_root;
    use crate::config::CongestionControl;
    use crate::time::{Duration, Instant};

    const RTT_MS: u64 = 100;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// A path that has lost data at a window of `cwnd`.
    fn after_loss(cwnd: usize) -> Congestion {
        let mut control = avoiding(CongestionControl::Cubic, cwnd);
        control.on_loss(&Group::default());
        // Growth begins above the threshold.
        control.window.cwnd += 1;
        control
    }

    #[test]
    fn after_a_timeout_the_window_does_not_return_to_where_it_was() {
        let mut control = avoiding(CongestionControl::Cubic, 200 * P);
        control.on_timeout(200 * P, &Group::default());
        assert_eq!((control.window(), control.ssthresh()), (P, 140 * P));
        // Slow start is over.
        control.window.cwnd = control.ssthresh() + 1;
        run(&mut control, 0..2000, true);
        let chunks = control.window() / P;
        assert!((141..160).contains(&chunks), "{chunks}");
    }

    /// Acknowledges all that the window allows, once per round trip, until `millis`.
    fn run(control: &mut Congestion, millis: std::ops::Range<u64>, window_used: bool) {
        for now in millis.step_by(RTT_MS as usize) {
            for _ in 0..control.window() / P {
                control
                    .on_acked(&Acked { now: at(now), window_used, ..acked(P) }, &Group::default());
            }
        }
    }

    #[test]
    fn cube_roots() {
        for (cube, root) in [(0, 0), (1, 1), (7, 1), (8, 2), (26, 2), (27, 3)] {
            assert_eq!(cube_root(cube), root);
        }
        assert_eq!(cube_root(1_000_000_000_000_000_000), 1_000_000);
        assert_eq!(cube_root(u128::MAX), (1 << 42) - 1);
    }

    #[test]
    fn a_loss_leaves_seven_tenths_of_the_window() {
        let mut control = avoiding(CongestionControl::Cubic, 100 * P);
        control.on_loss(&Group::default());
        assert_eq!((control.window(), control.ssthresh()), (70 * P, 70 * P));
        control.on_loss(&Group::default());
        assert_eq!(control.window(), 49 * P, "also of what was not in use");
        control.on_timeout(P, &Group::default());
        assert_eq!((control.window(), control.ssthresh()), (P, 49 * P * 7 / 10));
        control.on_loss(&Group::default());
        assert_eq!(control.ssthresh(), 4 * P);
    }

    #[test]
    fn the_window_is_back_after_k_and_then_looks_for_more() {
        // K = cbrt(1000 chunks * 0.3 / 0.4) = 9.09 s
        let mut control = after_loss(1000 * P);
        run(&mut control, 0..4_500, true);
        let half = control.window() as f64 / P as f64;
        // C (4.5 - 9.09)^3 + 1000 = 961
        assert!((half - 961.0).abs() < 3.0, "{half}");
        run(&mut control, 4_500..9_100, true);
        let top = control.window() as f64 / P as f64;
        assert!((top - 1000.0).abs() < 1.0, "{top}");
        run(&mut control, 9_100..14_100, true);
        let beyond = control.window() as f64 / P as f64;
        // C (14.1 - 9.09)^3 + 1000 = 1050
        assert!((beyond - 1050.0).abs() < 4.0, "{beyond}");
    }

    #[test]
    fn small_windows_grow_as_reno_would() {
        // Above 10 chunks Reno takes 3 / 0.53 = 6 round trips for 3 chunks, the cubic function 1.9 s.
        let mut control = after_loss(10 * P);
        run(&mut control, 0..600, true);
        assert!(control.window() >= 10 * P - P / 2, "{}", control.window());
        // Then one chunk per round trip.
        let before = control.window();
        run(&mut control, 600..1_100, true);
        let grown = control.window() - before;
        assert!((4 * P..=6 * P).contains(&grown), "{grown}");
    }

    #[test]
    fn a_window_that_shrinks_from_loss_to_loss_leaves_room_for_others() {
        let mut control = after_loss(1000 * P);
        run(&mut control, 0..2_000, true);
        let second = control.window();
        assert!(second < 1000 * P);
        control.on_loss(&Group::default());
        control.window.cwnd += 1;
        // The plateau is at 0.85 of the second loss: K = cbrt((0.85 - 0.7) * 900 / 0.4) = 7 s.
        run(&mut control, 2_000..9_000, true);
        let plateau = second * 17 / 20;
        assert!(control.window().abs_diff(plateau) < 3 * P, "{} {plateau}", control.window());
    }

    #[test]
    fn time_without_use_of_the_window_does_not_count() {
        let mut control = after_loss(1000 * P);
        run(&mut control, 0..1_000, true);
        let before = control.window();
        run(&mut control, 1_000..60_000, false);
        assert_eq!(control.window(), before);
        run(&mut control, 60_000..60_100, true);
        assert!(control.window() < before + 30 * P, "{before} {}", control.window());
    }

    #[test]
    fn absurd_times_and_windows_do_no_harm() {
        let mut control = after_loss(u32::MAX as usize);
        control.on_acked(&acked(P), &Group::default());
        let late = Instant::from_nanos(u64::MAX);
        let srtt = Some(Duration::MAX);
        control.on_acked(&Acked { now: late, srtt, ..acked(P) }, &Group::default());
        assert!(control.window() >= u32::MAX as usize * 7 / 10);
    }
}
