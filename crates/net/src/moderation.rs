//! Moderation of wake-ups, as network cards moderate interrupts: while bulk data comes, the loop sleeps between reads, so
//! that one turn handles several packets and hands them to a program by one write.
//!
//! ```text
//! pause = min(1 ms, min_rtt / 16), none below 0.25 ms
//! ```
//!
//! At 50 Mbit/s a full packet comes every 0.24 ms. Without pauses each wakes the loop and then the program, which costs many times
//! what handling it does. Arrivals bear the kernel's time stamps, so a pause does not look like a queue or a longer round trip to
//! the endpoint; acknowledgements leave later by the pause, which is small beside any round trip on which it is made.
//!
//! There is no pause where it would be noticed or gains nothing: when little data comes, or only small packets; in the first
//! [`SUSTAINED`] windows of a transfer, so that requests and answers that are over soon do not wait; over short round trips; and
//! at rates at which packets come in batches by themselves. A sender does not pause either: it gains little, because it paces
//! its packets in pieces of a millisecond anyway, and answers beside its bulk data came later (docs/performance.md).

use manypath_engine::{Duration, Instant};

/// How often the rate is judged.
const WINDOW: Duration = Duration::from_millis(10);
/// Bytes received in a window from which on pauses pay: about 20 Mbit/s, or two full packets in the longest pause.
const MIN_BYTES: u64 = 24 << 10;
/// The same up to which they do: 800 Mbit/s. What comes in a pause fits into the smallest receive buffer that Linux gives
/// to a UDP socket by default, 208 KiB with its overhead.
const MAX_BYTES: u64 = 1 << 20;
/// Windows in a row of such a rate before the first pause.
const SUSTAINED: u32 = 3;
/// After how many windows the round trips are looked at again.
const REFRESH: u32 = 10;
const MAX_PAUSE: Duration = Duration::from_millis(1);
const MIN_PAUSE: Duration = Duration::from_micros(250);
/// Pauses in the shortest round trip.
const PAUSES_PER_ROUND_TRIP: u32 = 16;

/// Whether, and how long, the loop sleeps before it reads again.
#[derive(Debug, Default)]
pub(crate) struct Moderation {
    begun: Instant,
    /// Bytes received before the window began.
    before: u64,
    /// Windows in a row of bulk data.
    busy: u32,
    pause: Option<Duration>,
}

impl Moderation {
    /// Judges the rate at the end of a window. `bytes` counts what was received from the beginning. `min_rtt` is the shortest
    /// round trip to any peer; it is asked for only while bulk data flows, every [`REFRESH`] windows.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        bytes: u64,
        min_rtt: impl FnOnce() -> Option<Duration>,
    ) {
        let elapsed = now.since(self.begun);
        if elapsed < WINDOW {
            return;
        }
        let moved = u128::from(bytes.saturating_sub(self.before));
        let in_window = moved * WINDOW.as_nanos() / elapsed.as_nanos();
        (self.begun, self.before) = (now, bytes);
        if !(u128::from(MIN_BYTES)..=u128::from(MAX_BYTES)).contains(&in_window) {
            return self.interrupt();
        }
        self.busy += 1;
        if self.busy == SUSTAINED {
            self.pause = min_rtt().and_then(pause_of);
        } else if self.busy == SUSTAINED + REFRESH - 1 {
            self.busy = SUSTAINED - 1;
        }
    }

    /// Something came that must not wait: there are no pauses until bulk data has flowed alone for some windows.
    pub(crate) fn interrupt(&mut self) {
        (self.busy, self.pause) = (0, None);
    }

    /// How long to sleep now if the next timer is due in `due`. One that is due at about the end of the pause moves it, so that
    /// there is one wake-up for both.
    pub(crate) fn pause(&self, due: Option<Duration>) -> Option<Duration> {
        let pause = self.pause?;
        let due = due.filter(|due| *due < pause * 3 / 2);
        Some(due.map_or(pause, |due| due.max(pause / 2)))
    }
}

fn pause_of(min_rtt: Duration) -> Option<Duration> {
    let pause = (min_rtt / PAUSES_PER_ROUND_TRIP).min(MAX_PAUSE);
    (pause >= MIN_PAUSE).then_some(pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A connection that moves so many bytes in each window, over `min_rtt`.
    struct Traffic {
        moderation: Moderation,
        now: Instant,
        bytes: u64,
        min_rtt: Duration,
    }

    impl Traffic {
        fn over(min_rtt: Duration) -> Self {
            let (moderation, now) = (Moderation::default(), Instant::ZERO + MS * 1_000);
            Self { moderation, now, bytes: 0, min_rtt }
        }

        fn windows(&mut self, count: u32, bytes: u64) -> Option<Duration> {
            for _ in 0..count {
                self.now = self.now + WINDOW;
                self.bytes += bytes;
                self.moderation.look(self.now, self.bytes, || Some(self.min_rtt));
            }
            self.moderation.pause(None)
        }
    }

    #[test]
    fn pauses_begin_when_bulk_data_has_flowed_for_some_windows_and_end_with_it() {
        let mut traffic = Traffic::over(MS * 20);
        assert_eq!(
            traffic.windows(SUSTAINED, 60_000),
            None,
            "the first window began with the clock"
        );
        assert_eq!(traffic.windows(1, 60_000), Some(MAX_PAUSE));
        assert_eq!(traffic.windows(100, 60_000), Some(MAX_PAUSE));
        assert_eq!(traffic.windows(1, 2_000), None);
        assert_eq!(traffic.windows(SUSTAINED - 1, 60_000), None);
        assert_eq!(traffic.windows(1, 60_000), Some(MAX_PAUSE));
    }

    #[test]
    fn neither_little_data_nor_batches_call_for_pauses() {
        for bytes in [0, 1_000, MIN_BYTES - 1, MAX_BYTES + 1, 12_500_000] {
            assert_eq!(Traffic::over(MS * 20).windows(50, bytes), None, "{bytes}");
        }
    }

    #[test]
    fn a_pause_is_small_beside_the_shortest_round_trip() {
        let cases = [(MS / 10, None), (MS * 4 - MS / 100, None), (MS * 8, Some(MS / 2))];
        for (min_rtt, pause) in cases {
            assert_eq!(Traffic::over(min_rtt).windows(50, 60_000), pause, "{min_rtt:?}");
        }
        assert_eq!(Traffic::over(MS * 300).windows(50, 60_000), Some(MAX_PAUSE));
    }

    #[test]
    fn a_peer_that_is_near_ends_pauses() {
        let mut traffic = Traffic::over(MS * 20);
        assert_eq!(traffic.windows(20, 60_000), Some(MAX_PAUSE));
        traffic.min_rtt = MS / 5;
        assert_eq!(traffic.windows(REFRESH, 60_000), None);
    }

    #[test]
    fn what_must_not_wait_ends_pauses() {
        let mut traffic = Traffic::over(MS * 20);
        traffic.windows(20, 60_000);
        traffic.moderation.interrupt();
        assert_eq!(traffic.windows(SUSTAINED - 1, 60_000), None);
        assert_eq!(traffic.windows(1, 60_000), Some(MAX_PAUSE));
    }

    #[test]
    fn a_timer_that_is_due_at_about_the_end_of_a_pause_ends_it() {
        let mut traffic = Traffic::over(MS * 8);
        traffic.windows(20, 60_000);
        let ends = |micros| traffic.moderation.pause(Some(Duration::from_micros(micros)));
        let ends = |micros| ends(micros).unwrap().as_micros();
        assert_eq!([0, 100, 400, 600, 749].map(ends), [250, 250, 400, 600, 749]);
        assert_eq!([750, 9_000].map(ends), [500, 500]);
    }
}
