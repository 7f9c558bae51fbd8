//! How much may leave at once. The draft lets a millisecond of data leave together, 64 KiB at most, and lets an
//! implementation consider the buffers of the path (section "Send Quantum"). At 1 Gbit/s that is a burst of 44
//! packets. A queue of 24 packets drops the rest of each, at any rate below that of the path, and round trips do not
//! show why.
//!
//! The sender knows which chunks left together, so the position of a loss tells its cause:
//!
//! ```text
//!   queue shorter than the burst:  o o o o o o o o o o o x x x x x   the first ones are kept, the last ones dropped
//!   loss at random:                o o o x o o o o o o o o o x o o   the first ones are as likely as the last ones
//! ```
//!
//! A loss among the last [`EDGE`] chunks of a burst counts for a short queue, one among the first [`EDGE`] counts
//! against it [`REFUTATION`] times. If losses do not depend on the position, the sum hardly ever
//! reaches [`PROOF`]. When it does (a CUSUM test; Page, "Continuous inspection schemes", Biometrika 41, 1954),
//! bursts become half as long, and the sum starts over with the bursts that leave afterwards. Every [`QUIET_ROUNDS`]
//! rounds without another cut they become longer by an eighth, so that the first burst that is too long again loses
//! little.
//!
//! Bursts below [`LONG_PACKETS`] are not judged: a short queue holds them, and each timer would send less. Nor are
//! losses after a round whose packets have waited for longer than the longest burst takes (1 ms, 64 KiB at most), even
//! where bursts are shorter by now: that queue is full because too much is sent, and drops the end of shorter bursts, too.
//! Nor are fragments below half a packet, of which two may have been lost with one packet.

use super::delivery::{Delivery, Position};

/// Bytes that leave at once at most.
pub(super) const MAX_BURST: u64 = 65_536;
/// A cut leaves at least so many packets. At 100 Mbit/s they take a millisecond.
const MIN_PACKETS: u64 = 8;
/// Packets of the shortest burst that is judged, so that a cut is never below [`MIN_PACKETS`].
const LONG_PACKETS: u64 = 2 * MIN_PACKETS;
/// How many chunks at either end of a burst count.
const EDGE: u64 = 2;
/// What one loss at the beginning of a burst outweighs.
const REFUTATION: u32 = 3;
/// The sum that shows a short queue: the last two chunks of eight bursts. Losses that are independent of each other
/// reach it once in 17,000 runs above zero (1.839 to the power of -16; 1.839 solves x / 2 + x^-3 / 2 = 1), those in
/// pairs once in 131.
const PROOF: u32 = 16;
/// Rounds after which bursts become longer again.
const QUIET_ROUNDS: u32 = 32;
/// Bursts grow by one part in so many.
const GROWTH_PART: u64 = 8;

/// The longest burst that may leave at once, and the evidence against it.
#[derive(Debug)]
pub(super) struct Bursts {
    /// In bytes.
    max_burst: u64,
    evidence: u32,
    /// Only bursts that begin after this transmission count.
    judged_after: u64,
    quiet_rounds: u32,
    /// The packets of the last round have waited for longer than the longest burst takes.
    queue_exceeds_burst: bool,
}

impl Default for Bursts {
    fn default() -> Self {
        Self {
            max_burst: MAX_BURST,
            evidence: 0,
            judged_after: 0,
            quiet_rounds: 0,
            queue_exceeds_burst: false,
        }
    }
}

impl Bursts {
    /// Bytes that may leave at once.
    pub(super) fn max_burst(&self) -> u64 {
        self.max_burst
    }

    /// Transmission `number`, a chunk of `bytes`, was lost.
    pub(super) fn on_lost(
        &mut self,
        (number, bytes): (u64, u64),
        packet: u64,
        delivery: &Delivery,
    ) {
        if let Some(position) = delivery.position(number)
            && self.judge(&position, bytes, packet)
        {
            self.judged_after = delivery.newest_run();
        }
    }

    /// A chunk of `bytes` was lost at `position` of a burst. Returns whether bursts are to be shorter from now on.
    fn judge(&mut self, position: &Position, bytes: u64, packet: u64) -> bool {
        let Position { first, before, after } = *position;
        let len = (before + 1 + after) * bytes;
        let is_long = 2 * bytes > packet && len >= LONG_PACKETS * packet;
        if self.queue_exceeds_burst || !is_long || first <= self.judged_after {
            return false;
        }
        if before < EDGE {
            self.evidence = self.evidence.saturating_sub(REFUTATION);
        } else if after < EDGE {
            self.evidence += 1;
        }
        let is_proven = self.evidence >= PROOF;
        if is_proven {
            // Lateness of the host may have added to the burst.
            let half = len.min(self.max_burst) / 2;
            self.max_burst = half.max(MIN_PACKETS * packet).min(MAX_BURST);
            (self.evidence, self.quiet_rounds) = (0, 0);
        }
        is_proven
    }

    /// A round is over. `queue_exceeds_burst`: on average, its packets have waited for longer than the longest burst
    /// takes.
    pub(super) fn on_round(&mut self, queue_exceeds_burst: bool) {
        self.queue_exceeds_burst = queue_exceeds_burst;
        self.quiet_rounds += 1;
        if self.quiet_rounds >= QUIET_ROUNDS {
            self.max_burst = (self.max_burst + self.max_burst / GROWTH_PART).min(MAX_BURST);
            self.quiet_rounds = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::delivery::Position;
    use super::{Bursts, MAX_BURST, MIN_PACKETS, PROOF, QUIET_ROUNDS};
    use alloc::vec::Vec;

    const P: u64 = 1200;

    /// Sends bursts of `len` packets and loses those whose position `is_lost`. Returns how often bursts were cut.
    fn send(bursts: &mut Bursts, len: u64, is_lost: &mut dyn FnMut(u64) -> bool) -> u32 {
        let mut cuts = 0;
        for first in (1..=200).map(|burst| burst * len) {
            for before in (0..len).filter(|position| is_lost(*position)) {
                let position = Position { first, before, after: len - 1 - before };
                cuts += u32::from(bursts.judge(&position, P, P));
            }
        }
        cuts
    }

    /// Numbers below 1000 in no order.
    fn random(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed;
        move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % 1000
        }
    }

    #[test]
    fn losses_at_the_end_of_bursts_tell_of_a_short_queue() {
        for kept in [6, 24, 42] {
            assert!(
                send(&mut Bursts::default(), 44, &mut |position| position >= kept) > 0,
                "{kept}"
            );
        }
        // The sender's link is twice as fast as the path's: every other packet is lost once the queue is full.
        let mut every_other = |position: u64| position > 30 && position.is_multiple_of(2);
        assert!(send(&mut Bursts::default(), 44, &mut every_other) > 0);
    }

    #[test]
    fn losses_at_any_position_do_not() {
        for (permille, seed) in [(5, 1), (30, 2), (100, 3), (200, 4)] {
            let mut draw = random(seed);
            let mut bursts = Bursts::default();
            assert_eq!(send(&mut bursts, 44, &mut |_| draw() < permille), 0, "{permille}");
            assert_eq!(bursts.max_burst(), MAX_BURST);
        }
    }

    #[test]
    fn losses_in_clusters_at_any_position_do_not() {
        for seed in 1..=8 {
            let (mut draw, mut left) = (random(seed), 0);
            let mut in_clusters = |_| {
                left = if left == 0 && draw() < 5 { 6 } else { u64::saturating_sub(left, 1) };
                left > 0
            };
            assert_eq!(send(&mut Bursts::default(), 44, &mut in_clusters), 0, "{seed}");
        }
    }

    #[test]
    fn a_short_queue_is_found_among_losses_at_random() {
        let mut draw = random(1);
        let mut burst = 0;
        let mut is_lost = |position| {
            burst += u64::from(position == 0);
            // One burst of three meets what is left of the one before.
            draw() < 17 || u64::is_multiple_of(burst, 3) && position >= 40
        };
        assert!(send(&mut Bursts::default(), 44, &mut is_lost) > 0);
    }

    #[test]
    fn fragments_that_share_a_lost_packet_tell_nothing() {
        let (mut draw, mut bursts) = (random(1), Bursts::default());
        for first in (1..=200).map(|burst| burst * 400) {
            for packet in (0..40).filter(|_| draw() < 100).collect::<Vec<u64>>() {
                for before in 10 * packet..10 * packet + 10 {
                    let position = Position { first, before, after: 399 - before };
                    assert!(!bursts.judge(&position, P / 10, P));
                }
            }
        }
        assert_eq!(bursts.max_burst(), MAX_BURST);
    }

    #[test]
    fn lost_bursts_and_short_ones_tell_nothing() {
        assert_eq!(send(&mut Bursts::default(), 44, &mut |_| true), 0, "an outage");
        assert_eq!(send(&mut Bursts::default(), 15, &mut |position| position > 10), 0);
    }

    #[test]
    fn a_cut_halves_bursts_down_to_eight_packets_and_quiet_rounds_lengthen_them() {
        let mut bursts = Bursts::default();
        let cut = |bursts: &mut Bursts, len: u64| {
            let last = Position { first: 1, before: len - 1, after: 0 };
            (0..PROOF).filter(|_| bursts.judge(&last, P, P)).count()
        };
        assert_eq!(cut(&mut bursts, 25), 1);
        assert_eq!(
            bursts.max_burst(),
            25 * P / 2,
            "half of what was lost, not of what might have left"
        );
        (1..QUIET_ROUNDS).for_each(|_| bursts.on_round(false));
        assert_eq!(bursts.max_burst(), 25 * P / 2);
        bursts.on_round(false);
        assert_eq!(bursts.max_burst(), 25 * P / 2 * 9 / 8);
        (0..100).for_each(|_| assert_eq!(cut(&mut bursts, 16), 1));
        assert_eq!(bursts.max_burst(), MIN_PACKETS * P);
        (0..100 * QUIET_ROUNDS).for_each(|_| bursts.on_round(false));
        assert_eq!(bursts.max_burst(), MAX_BURST);
    }

    #[test]
    fn what_had_left_before_a_cut_does_not_count() {
        let mut bursts = Bursts { judged_after: 100, ..Bursts::default() };
        let last = |first| Position { first, before: 43, after: 0 };
        assert!((0..PROOF).all(|_| !bursts.judge(&last(100), P, P)));
        assert!((0..PROOF).any(|_| bursts.judge(&last(101), P, P)));
    }

    #[test]
    fn a_full_queue_that_is_longer_than_a_burst_does_not_count() {
        let mut bursts = Bursts::default();
        bursts.on_round(true);
        assert_eq!(send(&mut bursts, 44, &mut |position| position >= 24), 0);
        bursts.on_round(false);
        assert!(send(&mut bursts, 44, &mut |position| position >= 24) > 0);
    }
}
