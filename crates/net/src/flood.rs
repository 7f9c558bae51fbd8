//! Floods of packets that concern nobody here: the loop sleeps between reads, so that one turn reads many of them.
//!
//! The kernel wakes the loop for each packet that it has already gone to sleep for. A turn of the loop costs many times
//! what dropping the packet does; under a flood, associations would wait for the processor because of that.

use manypath_engine::{Counters, Duration, Instant};

/// How often the rate is judged.
const WINDOW: Duration = Duration::from_millis(10);
/// Packets dropped in a window from which on there is a flood: 5,000 per second.
const PACKETS_PER_WINDOW: u64 = 50;
/// How long the loop sleeps before it reads again: short beside the round trip of a link on which a flood hurts.
const PAUSE: Duration = Duration::from_micros(250);

/// Whether packets that concern nobody here come so fast that waiting for more of them pays.
#[derive(Debug, Default)]
pub(crate) struct Flood {
    begun: Instant,
    /// Packets dropped before the window began.
    before: u64,
    is_on: bool,
}

impl Flood {
    /// Judges the rate at the end of a window. `dropped` counts from the beginning of the endpoint, what was handed to
    /// another loop included.
    pub(crate) fn look(&mut self, now: Instant, dropped: u64) {
        let elapsed = now.since(self.begun);
        if elapsed < WINDOW {
            return;
        }
        let allowed = u128::from(PACKETS_PER_WINDOW) * elapsed.as_nanos() / WINDOW.as_nanos();
        self.is_on = u128::from(dropped.saturating_sub(self.before)) >= allowed;
        (self.begun, self.before) = (now, dropped);
    }

    pub(crate) fn pause(&self) -> Option<Duration> {
        self.is_on.then_some(PAUSE)
    }
}

/// Packets that concerned no association: dropped, or not answered because too many strangers are.
pub(crate) const fn dropped(counters: &Counters) -> u64 {
    counters.bad_checksum
        + counters.malformed_packets
        + counters.malformed_chunks
        + counters.bad_tag
        + counters.bad_cookie
        + counters.out_of_the_blue
        + counters.rate_limited_replies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_on_while_the_rate_lasts() {
        let ms = |time| Instant::ZERO + Duration::from_millis(time);
        let mut flood = Flood::default();
        flood.look(ms(1_000), 4_000);
        assert_eq!(flood.pause(), None, "4,000 per second since the beginning");
        flood.look(ms(1_005), 9_000);
        assert_eq!(flood.pause(), None, "a window is not over");
        flood.look(ms(1_010), 9_000);
        assert_eq!(flood.pause(), Some(PAUSE));
        flood.look(ms(1_020), 9_050);
        assert_eq!(flood.pause(), Some(PAUSE));
        flood.look(ms(1_030), 9_099);
        assert_eq!(flood.pause(), None);
    }
}
