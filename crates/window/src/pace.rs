//! How much the reader takes in one round trip.

use crate::round_trip::SHORTEST;
use core::time::Duration;

/// What the reader took in this round trip and in the one before.
///
/// ```text
///  consumed   |..x...x..x|.xx..x.x..|x.xx.x
///             ^ measured  ^ `last`   ^ `now`, counts as soon as it is the larger one
/// ```
///
/// A round trip ends at the first consumption after its time, and what was consumed then is in it, however
/// much later that is. So a reader that wakes up once a second to take a megabyte is seen to take a
/// megabyte at a time; scaled down to the round trip its window would choke it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pace {
    begun: Option<Duration>,
    now: u64,
    last: u64,
    rising: bool,
    /// Size of the window when this round trip began.
    base: u64,
}

impl Pace {
    pub(crate) fn new(size: u64) -> Self {
        Self { begun: None, now: 0, last: 0, rising: true, base: size }
    }

    /// The reader took `bytes`. True if a round trip is over with that.
    pub(crate) fn take(
        &mut self,
        now: Duration,
        bytes: u64,
        round_trip: Option<Duration>,
        size: u64,
    ) -> bool {
        let begun = *self.begun.get_or_insert(now);
        self.now = self.now.saturating_add(bytes);
        let over = |time: Duration| now.saturating_sub(begun) >= time.max(SHORTEST);
        let over = round_trip.is_some_and(over);
        if over {
            self.rising = self.now > self.last.saturating_add(self.last / 4);
            (self.begun, self.last, self.now, self.base) = (Some(now), self.now, 0, size);
        }
        over
    }

    /// Begins to measure anew, because what was measured so far was not a round trip.
    pub(crate) fn restart(&mut self, size: u64) {
        *self = Self::new(size);
    }

    /// The window has become smaller: what it may double from has, too.
    pub(crate) fn begin_at_most_with(&mut self, size: u64) {
        self.base = self.base.min(size);
    }

    /// What the reader takes in a round trip.
    pub(crate) fn delivered(&self) -> u64 {
        self.last.max(self.now)
    }

    /// The size that suits it: `gain` percent of the delivered, twice that while that rises: a round trip that has just begun is measured by
    /// the one before, half as fast, and what is granted now arrives when the rate has risen further.
    pub(crate) fn target(&self, gain: u32) -> u64 {
        let gain = u64::from(gain).saturating_mul(if self.rising { 2 } else { 1 });
        self.delivered().saturating_mul(gain) / 100
    }

    /// The largest size within this round trip.
    pub(crate) fn ceiling(&self) -> u64 {
        self.base.saturating_mul(2)
    }
}
