//! Round trips of a path, one for each slot, and their correlation with those of another path.

use super::slot_of;
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Slots that are looked at: 12.8 s.
const SLOTS: usize = 128;
/// Slots in which both paths must have been measured.
const MIN_PAIRS: usize = 32;
/// A change counts at most so many times the median one: a single stall of this host, which all paths
/// show, is no queue.
const MAX_CHANGE: i64 = 6;
/// Longer round trips, in microseconds, are not told apart: sums of their squares stay within an i128.
const MAX_RTT: u32 = 10_000_000;

/// One slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    number: u64,
    /// In microseconds; zero until it is known.
    rtt: u32,
}

/// The round trips of a path in the last slots.
#[derive(Debug)]
pub(crate) struct Delays {
    slots: [Slot; SLOTS],
    /// What shows that an answer is one.
    nonce: u64,
    /// When the HEARTBEAT of this slot was due, until it has left.
    due: Option<Instant>,
}

impl Delays {
    /// Nobody knows `nonce`.
    pub(crate) fn new(nonce: u64) -> Box<Self> {
        Box::new(Self { slots: [Slot::default(); SLOTS], nonce, due: None })
    }

    /// A HEARTBEAT is to leave at `at`. No other one has left in its slot.
    pub(crate) fn ask(&mut self, at: Instant) {
        let number = slot_of(at);
        self.slots[number as usize % SLOTS] = Slot { number, rtt: 0 };
        self.due = Some(at);
    }

    /// Whether a HEARTBEAT waits to be sent.
    pub(crate) fn is_due(&self) -> bool {
        self.due.is_some()
    }

    /// It leaves: the nonce and the instant that are to come back.
    pub(crate) fn on_sent(&mut self) -> Option<(u64, Instant)> {
        self.due.take().map(|at| (self.nonce, at))
    }

    /// The number that each answer brings back.
    pub(crate) fn nonce(&self) -> u64 {
        self.nonce
    }

    /// The HEARTBEAT that left at `at` was answered.
    pub(crate) fn on_answer(&mut self, at: Instant, rtt: Duration) {
        let number = slot_of(at);
        let slot = &mut self.slots[number as usize % SLOTS];
        if slot.number == number {
            slot.rtt = u32::try_from(rtt.as_micros()).unwrap_or(MAX_RTT).clamp(1, MAX_RTT);
        }
    }

    fn rtt(&self, number: u64) -> Option<i64> {
        let slot = self.slots[number as usize % SLOTS];
        (slot.number == number && slot.rtt > 0).then_some(i64::from(slot.rtt))
    }

    /// The change from the slot before.
    fn change(&self, number: u64) -> Option<i64> {
        Some(self.rtt(number)? - self.rtt(number.checked_sub(1)?)?)
    }

    /// How the changes of both paths up to `now` agree.
    pub(crate) fn agreement(&self, other: &Self, now: Instant) -> Agreement {
        let last = slot_of(now);
        let numbers = last.saturating_sub(SLOTS as u64 - 2)..=last;
        let changes = |number| Some((self.change(number)?, other.change(number)?));
        let pairs: Vec<(i64, i64)> = numbers.filter_map(changes).collect();
        if pairs.len() < MIN_PAIRS {
            return Agreement::default();
        }
        let most = MAX_CHANGE * median(pairs.iter().map(|(own, _)| own.abs()));
        let most_other = MAX_CHANGE * median(pairs.iter().map(|(_, other)| other.abs()));
        let clip = |&(own, other): &(i64, i64)| {
            (own.clamp(-most, most), other.clamp(-most_other, most_other))
        };
        let mut agreement = Agreement { pairs: pairs.len(), ..Agreement::default() };
        pairs.iter().map(clip).for_each(|(own, other)| agreement.add(own.into(), other.into()));
        agreement
    }
}

/// The median of some numbers.
fn median(changes: impl Iterator<Item = i64>) -> i64 {
    let mut changes: Vec<i64> = changes.collect();
    let middle = changes.len() / 2;
    *changes.select_nth_unstable(middle).1
}

/// Sums from which a correlation follows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Agreement {
    pairs: usize,
    products: i128,
    squares: (i128, i128),
}

impl Agreement {
    fn add(&mut self, a: i128, b: i128) {
        self.products += a * b;
        self.squares.0 += a * a;
        self.squares.1 += b * b;
    }

    /// Whether enough was measured to tell.
    pub(crate) fn is_known(&self) -> bool {
        self.pairs >= MIN_PAIRS
    }

    /// Whether the coefficient of correlation is at least `percent`.
    pub(crate) fn reaches(&self, percent: i128) -> bool {
        let needed = self.squares.0.saturating_mul(self.squares.1) / 10_000;
        let found = self.products.saturating_mul(self.products);
        self.is_known() && self.products > 0 && found >= needed.saturating_mul(percent * percent)
    }
}

#[cfg(test)]
mod tests {
    use super::super::SLOT;
    use super::Delays;
    use crate::rng::Rng;
    use crate::time::{Duration, Instant};
    use alloc::boxed::Box;

    fn at(slot: u64) -> Instant {
        Instant::ZERO + SLOT * (1000 + slot as u32)
    }

    /// Two paths with noise of their own, of up to 2 ms, and a queue of up to `queue` microseconds in common.
    fn paths(queue: u64, slots: u64) -> (Box<Delays>, Box<Delays>) {
        let mut rng = Rng::new([7; 32]);
        let (mut a, mut b) = (Delays::new(1), Delays::new(2));
        for slot in 0..slots {
            let common = if queue == 0 { 0 } else { rng.below(queue) };
            for (path, base) in [(&mut a, 10_000), (&mut b, 60_000)] {
                path.ask(at(slot));
                let rtt = Duration::from_micros(base + common + rng.below(2000));
                path.on_answer(at(slot), rtt);
            }
        }
        (a, b)
    }

    #[test]
    fn a_common_queue_shows_and_own_noise_does_not() {
        let (a, b) = paths(10_000, 128);
        let agreement = a.agreement(&b, at(127));
        assert!(agreement.reaches(90) && agreement.reaches(50));
        let (a, b) = paths(0, 128);
        assert!(a.agreement(&b, at(127)).is_known());
        assert!(!a.agreement(&b, at(127)).reaches(25));
    }

    #[test]
    fn a_few_stalls_of_the_host_are_no_queue() {
        let (mut a, mut b) = paths(0, 128);
        for slot in [10, 50, 90] {
            for path in [&mut a, &mut b] {
                path.ask(at(slot));
                path.on_answer(at(slot), Duration::from_millis(300));
            }
        }
        assert!(!a.agreement(&b, at(127)).reaches(50));
    }

    #[test]
    fn little_or_old_measurement_tells_nothing() {
        let (a, b) = paths(10_000, 30);
        assert!(!a.agreement(&b, at(29)).is_known());
        let (a, b) = paths(10_000, 128);
        assert!(!a.agreement(&b, at(240)).is_known());
        let mut late = Delays::new(1);
        late.on_answer(at(3), Duration::from_millis(1));
        assert_eq!(late.rtt(1003), None, "nothing was asked in that slot");
    }
}
