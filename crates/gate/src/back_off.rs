//! How often something that keeps failing is begun again.

use std::time::{Duration, Instant};

/// The pause after the first beginning; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Spaces out the replacements of a stack: the first is free, later ones wait longer and longer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BackOff {
    last: Option<Instant>,
    pause: Duration,
}

impl BackOff {
    /// When the next beginning is due, if it has to wait.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.last.map(|last| last + self.pause)
    }

    /// Whether there may be another beginning at `now`; if so it counts. What has worked for longer than the
    /// longest pause starts afresh.
    pub(crate) fn permit(&mut self, now: Instant) -> bool {
        if self.next().is_some_and(|next| now < next) {
            return false;
        }
        let afresh = self.last.is_none_or(|last| now >= last + MAX_PAUSE + self.pause);
        self.pause = if afresh { FIRST_PAUSE } else { MAX_PAUSE.min(self.pause * 2) };
        self.last = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_further_and_further_apart() {
        let (begun, mut back_off) = (Instant::now(), BackOff::default());
        let seconds =
            (0..400).filter(|second| back_off.permit(begun + Duration::from_secs(*second)));
        assert_eq!(
            seconds.collect::<Vec<u64>>(),
            [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363]
        );
        assert_eq!(back_off.next(), Some(begun + Duration::from_secs(423)));
    }

    #[test]
    fn what_has_worked_for_long_begins_again_at_once() {
        let (begun, mut back_off) = (Instant::now(), BackOff::default());
        let second = Duration::from_secs(1);
        assert!(back_off.permit(begun) && back_off.permit(begun + second));
        assert!(back_off.permit(begun + 70 * second));
        assert_eq!(back_off.next(), Some(begun + 71 * second));
    }
}
