//! The sequence numbers that have come in one epoch (RFC 9147 sections 4.2.2 and 4.5.1).

use alloc::boxed::Box;

/// How many sequence numbers back it can be told whether one has come: all that 16 bits tell apart.
/// Packets on a slow path may be overtaken by as many on fast ones.
const WIDTH: u64 = 1 << 15;
const WORD: u64 = u64::BITS as u64;
const WORDS: usize = (WIDTH / WORD) as usize;

/// A sliding window; its bits stand at the sequence number modulo [`WIDTH`].
#[derive(Debug)]
pub(super) struct ReplayWindow {
    /// One more than the highest that has come.
    next: u64,
    seen: Box<[u64; WORDS]>,
}

impl ReplayWindow {
    pub(super) fn new() -> Self {
        Self { next: 0, seen: Box::new([0; WORDS]) }
    }

    /// The sequence number with these low bits that is closest to the next one expected.
    pub(super) fn reconstruct(&self, low: u16) -> u64 {
        let ahead = low.wrapping_sub(self.next as u16);
        let behind = u64::from(ahead.wrapping_neg());
        if u64::from(ahead) < WIDTH || behind > self.next {
            self.next + u64::from(ahead)
        } else {
            self.next - behind
        }
    }

    /// Whether this one has not come yet, as far as that can be told.
    pub(super) fn is_new(&self, sequence: u64) -> bool {
        let (word, bit) = place(sequence);
        let recent = sequence + WIDTH >= self.next;
        sequence >= self.next || recent && self.seen[word] & bit == 0
    }

    /// This one has come.
    pub(super) fn note(&mut self, sequence: u64) {
        if sequence >= self.next + WIDTH {
            self.seen.fill(0);
        } else {
            for passed in self.next..sequence {
                let (word, bit) = place(passed);
                self.seen[word] &= !bit;
            }
        }
        let (word, bit) = place(sequence);
        self.seen[word] |= bit;
        self.next = self.next.max(sequence + 1);
    }
}

const fn place(sequence: u64) -> (usize, u64) {
    let at = sequence % WIDTH;
    ((at / WORD) as usize, 1 << (at % WORD))
}

#[cfg(test)]
mod tests {
    use super::{ReplayWindow, WIDTH};
    use std::collections::BTreeSet;

    fn window(next: u64) -> ReplayWindow {
        ReplayWindow { next, ..ReplayWindow::new() }
    }

    #[test]
    fn the_closest_sequence_number_is_meant() {
        for next in [0, 1, 40_000, 65_535, 65_536, 200_000, 1 << 40] {
            let window = window(next);
            let first = next.saturating_sub(WIDTH);
            for sequence in (first..next + WIDTH).step_by(997) {
                assert_eq!(window.reconstruct(sequence as u16), sequence, "next {next}");
            }
        }
    }

    #[test]
    fn at_the_beginning_nothing_lies_behind() {
        assert_eq!(window(0).reconstruct(65_535), 65_535);
        assert_eq!(window(3).reconstruct(40_000), 40_000);
    }

    #[test]
    fn each_is_new_once_in_any_order_within_the_window() {
        let (mut window, mut seen, mut state) = (ReplayWindow::new(), BTreeSet::new(), 1_u64);
        let mut high = 0_u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let sequence = (high + 40).saturating_sub(state >> 33 & 0xFFF);
            assert_eq!(window.is_new(sequence), !seen.contains(&sequence), "{sequence}");
            window.note(sequence);
            seen.insert(sequence);
            high = high.max(sequence);
        }
    }

    #[test]
    fn what_is_too_old_is_never_new_and_a_leap_leaves_no_bits_behind() {
        let mut window = ReplayWindow::new();
        window.note(0);
        window.note(WIDTH);
        assert!(!window.is_new(0) && window.is_new(1) && !window.is_new(WIDTH));
        window.note(10 * WIDTH);
        assert!(!window.is_new(9 * WIDTH) && window.is_new(9 * WIDTH + 1));
        window.note(10 * WIDTH + WIDTH - 1);
        assert!((10 * WIDTH + 1..10 * WIDTH + WIDTH - 1).all(|it| window.is_new(it)));
    }
}
