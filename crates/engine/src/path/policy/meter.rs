//! A path's allowance: a token bucket of bytes.
//!
//! ```text
//! credit grows by `rate` bytes per second, up to a tenth of a second's worth
//! data may leave while there is credit for a packet; every packet of the path takes its bytes
//! ```

use crate::time::{Duration, Instant};

/// Credit that a packet needs before it leaves.
const PACKET: i64 = 1500;
/// Least size of the bucket: packets leave in runs.
const LEAST: i64 = 4 * PACKET;
/// The bucket holds the allowance of this part of a second.
const PARTS: u64 = 10;

/// The allowance of one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Meter {
    /// Bytes per second.
    rate: u64,
    credit: i64,
    /// Until when credit was given.
    given: Option<Instant>,
}

impl Meter {
    /// A full bucket.
    pub(crate) fn new(rate: u64) -> Self {
        Self { rate, credit: size(rate), given: None }
    }

    /// The allowance in bytes per second.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// Gives what has come together until `now`.
    pub(crate) fn refill(&mut self, now: Instant) {
        let given = *self.given.get_or_insert(now);
        let earned = now.since(given).as_nanos().saturating_mul(self.rate.into()) / 1_000_000_000;
        // What is less than a byte is given later.
        if earned > 0 {
            let earned = i64::try_from(earned).unwrap_or(i64::MAX);
            self.credit = self.credit.saturating_add(earned).min(size(self.rate));
            self.given = Some(now);
        }
    }

    /// `bytes` have left. What was spent while nothing else was usable is owed for no longer than a second.
    pub(crate) fn spend(&mut self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let floor = -i64::try_from(self.rate).unwrap_or(i64::MAX);
        self.credit = self.credit.saturating_sub(bytes).max(floor.min(-PACKET));
    }

    /// Whether a packet may leave after `bytes` that have not been accounted for yet.
    pub(crate) fn allows(&self, bytes: usize) -> bool {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.rate > 0 && self.credit.saturating_sub(bytes) >= PACKET
    }

    /// When the next packet may leave, if none may now and one ever will.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.rate == 0 || self.allows(0) {
            return None;
        }
        let lacking = u128::try_from(PACKET - self.credit).unwrap_or(0);
        let nanos = (lacking * 1_000_000_000).div_ceil(self.rate.into());
        Some(self.given? + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

fn size(rate: u64) -> i64 {
    i64::try_from(rate / PARTS).unwrap_or(i64::MAX).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::Meter;
    use crate::time::{Duration, Instant};

    #[test]
    fn no_more_than_the_allowance_leaves() {
        let mut meter = Meter::new(100_000);
        let (mut now, mut sent) = (Instant::ZERO, 0);
        let end = now + Duration::from_secs(100);
        while now < end {
            meter.refill(now);
            while meter.allows(0) {
                meter.spend(1400);
                sent += 1400;
            }
            now = meter.deadline().unwrap();
        }
        assert!((10_000_000..10_020_000).contains(&sent), "{sent}");
    }

    #[test]
    fn without_an_allowance_nothing_ever_leaves() {
        let mut meter = Meter::new(0);
        meter.refill(Instant::ZERO);
        assert!(!meter.allows(0) && meter.deadline().is_none());
    }

    #[test]
    fn what_was_spent_in_need_is_owed_for_a_second() {
        let mut meter = Meter::new(1_000_000);
        meter.refill(Instant::ZERO);
        meter.spend(50_000_000);
        let due = meter.deadline().unwrap();
        assert!(due.since(Instant::ZERO) < Duration::from_millis(1010), "{due:?}");
        meter.refill(due);
        assert!(meter.allows(0));
    }
}
