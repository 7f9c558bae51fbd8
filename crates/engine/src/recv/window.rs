//! The receive window: what is held against the configured buffer, and what is announced
//! (RFC 9260 section 6.2).

use super::buffer_size::BufferGrowth;
use crate::time::{Duration, Instant};

/// Every chunk that is held counts for at least so many bytes of the buffer: about what a message
/// costs that nobody reads.
const LEAST_CHARGE: usize = 64;
/// What it really takes to keep account of a chunk that waits for others, with its part of trees and
/// allocations: 184 to 233 bytes were counted, and 667 with I-DATA (`tests/memory.rs`).
const CHUNK_COST: usize = 256;
const I_DATA_COST: usize = 768;
/// So much may always be spent on that: with a small buffer a truthful peer would else find it full
/// long before its window is.
const FREE_COST: usize = 1 << 20;

/// Less than this, or than half of a tiny buffer, is announced as nothing: silly window syndrome
/// (RFC 1122 section 4.2.3.3). Two packets of 1500 bytes.
const SILLY: usize = 3000;

/// Where a new chunk stands among those that have arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// One with a higher TSN has arrived.
    pub(crate) fills_hole: bool,
    /// None with a lower TSN is missing.
    pub(crate) is_next: bool,
}

/// Accounting of the receive buffer.
#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    size: usize,
    bytes: usize,
    chunks: usize,
    /// Of a chunk, beside its user data.
    overhead: usize,
    announced: usize,
    /// Largest [`Self::cost`] while all associations together are short of memory.
    allowance: usize,
    /// The same for what fills holes.
    reserve: usize,
    growth: BufferGrowth,
}

impl ReceiveWindow {
    /// An empty buffer of `size` bytes.
    pub(crate) fn new(size: u32) -> Self {
        let size = size as usize;
        let (allowance, reserve) = (usize::MAX, usize::MAX);
        let (overhead, announced) = (CHUNK_COST, size);
        let growth = BufferGrowth::default();
        Self { size, bytes: 0, chunks: 0, overhead, announced, allowance, reserve, growth }
    }

    /// The same buffer, which may grow up to `most` bytes.
    pub(crate) fn growing(self, most: u32) -> Self {
        Self { growth: BufferGrowth::new(most), ..self }
    }

    /// Makes the buffer larger if that is called for; `round_trip` is asked only when it may be.
    pub(crate) fn fit(&mut self, now: Instant, round_trip: impl FnOnce() -> Duration) {
        if self.growth.is_due(self.size)
            && let Some(size) = self.growth.grown(now, round_trip(), self.size)
        {
            self.size = size;
        }
    }

    /// Chunks are those of I-DATA.
    pub(crate) fn interleave(&mut self) {
        self.overhead = I_DATA_COST;
    }

    /// A chunk of `bytes` is held now.
    pub(crate) fn hold(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.chunks += 1;
        self.growth.arrive(bytes);
    }

    /// The user took a message of `bytes` that came in `chunks`.
    pub(crate) fn release(&mut self, bytes: usize, chunks: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.chunks = self.chunks.saturating_sub(chunks);
    }

    /// Bytes and chunks held.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.bytes, self.chunks)
    }

    /// Bytes held: waiting for a gap to be filled, for other fragments or for the reader.
    pub(crate) fn held(&self) -> usize {
        self.bytes
    }

    /// Whether a chunk of `bytes` may be taken.
    ///
    /// A TSN beyond all others is taken while the window has room. One that fills a hole is worth
    /// more: the RFC would have the highest held TSN thrown away for it. That one has been
    /// acknowledged and its loss would cost a retransmission, so it is kept and the hole may be
    /// filled from a reserve of the size of the window itself. A peer that keeps to the window has
    /// never more than a window of holes, so the reserve is never short for it.
    ///
    /// A chunk may be larger than the whole buffer: it comes as a zero window probe (section 6.1 rule A), and the sender
    /// sends no smaller one instead. It is taken if it is the next, while nothing else is held, or a later chunk has
    /// arrived and what is held fits into the buffer: then no second one is taken before some of that has been read.
    pub(crate) fn accepts(&self, bytes: usize, place: Place) -> bool {
        let memory = if place.fills_hole { self.reserve } else { self.allowance };
        self.fits(bytes, place) && self.cost() + bytes + self.overhead <= memory
    }

    /// Whether it fits into the buffer, if there is memory.
    pub(crate) fn fits(&self, bytes: usize, place: Place) -> bool {
        let limit = if place.fills_hole { 2 * self.size } else { self.size };
        let is_waited_for = place.fills_hole && bytes > self.size && self.used() <= self.size;
        self.used_with(1, bytes) <= limit || (place.is_next && (self.chunks == 0 || is_waited_for))
    }

    /// All associations together may hold `left` bytes more; each may have `share` in any case, and
    /// another `share` to fill holes: else what is held beyond them could never be delivered.
    pub(crate) fn allow(&mut self, left: usize, share: usize) {
        let most = self.cost().saturating_add(left);
        self.allowance = most.max(share);
        self.reserve = most.max(share.saturating_mul(2));
    }

    /// Size of the buffer in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The window to announce.
    pub(crate) fn a_rwnd(&self) -> u32 {
        let size = self.usable();
        let memory = self.allowance.saturating_sub(self.cost());
        let free = self.size.saturating_sub(self.used()).min(memory);
        let window = if free < SILLY.min(size / 2) { 0 } else { free };
        u32::try_from(window).unwrap_or(u32::MAX)
    }

    /// `a_rwnd` was announced.
    pub(crate) fn on_announced(&mut self, a_rwnd: u32) {
        self.announced = a_rwnd as usize;
    }

    /// Whether the peer should be told that there is room again: the window grew by a quarter of
    /// the buffer since less than half of it was announced (section 6.2).
    pub(crate) fn wants_update(&self) -> bool {
        let (now, size) = (self.a_rwnd() as usize, self.usable());
        self.announced < size / 2 && now >= self.announced + size / 4
    }

    /// Whether nearly nothing more can be taken.
    pub(crate) fn is_short(&self) -> bool {
        (self.a_rwnd() as usize) < self.usable() / 8
    }

    /// Bytes of memory that it takes to hold what is held.
    pub(crate) fn cost(&self) -> usize {
        self.bytes + self.chunks * self.overhead
    }

    /// How much of the buffer is used. The buffer may be held once in user data and once, or in a
    /// megabyte, in what it costs to keep account of them: only what goes beyond that counts.
    fn used(&self) -> usize {
        self.used_with(0, 0)
    }

    /// The same with `chunks` more of `bytes` together. What is charged beyond their bytes only counts
    /// where there are many: a small one may use up the last bytes that were announced.
    fn used_with(&self, chunks: usize, bytes: usize) -> usize {
        let excess = self.cost().saturating_sub(self.size.max(FREE_COST));
        let least = (self.chunks + chunks) * LEAST_CHARGE;
        (self.bytes + bytes).max(least).max(excess + bytes)
    }

    fn usable(&self) -> usize {
        self.size.min(self.allowance)
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK_COST, Place, ReceiveWindow};
    use crate::time::{Duration, Instant};

    const BEYOND: Place = Place { fills_hole: false, is_next: false };
    const HOLE: Place = Place { fills_hole: true, is_next: false };

    /// Half of the present buffer arrives, and is read, `millis` after the half before.
    fn half(window: &mut ReceiveWindow, now: &mut Instant, millis: u64) {
        *now = *now + Duration::from_millis(millis);
        window.hold(window.size() / 2);
        window.release(window.size() / 2, 1);
        window.fit(*now, || Duration::from_millis(100));
    }

    #[test]
    fn the_buffer_doubles_when_half_of_it_arrives_within_a_round_trip() {
        let (mut window, mut now) = (ReceiveWindow::new(10_000).growing(50_000), Instant::ZERO);
        for (millis, size) in
            [(10, 10_000), (100, 20_000), (101, 20_000), (50, 40_000), (50, 50_000), (1, 50_000)]
        {
            half(&mut window, &mut now, millis);
            assert_eq!((window.size(), window.a_rwnd()), (size, size as u32));
        }
    }

    #[test]
    fn a_buffer_without_a_larger_bound_stays_as_it_is() {
        for most in [0, 10_000] {
            let mut window = ReceiveWindow::new(10_000).growing(most);
            let mut now = Instant::ZERO;
            (0..4).for_each(|_| half(&mut window, &mut now, 1));
            assert_eq!(window.size(), 10_000);
        }
    }

    #[test]
    fn announces_what_is_free_but_no_silly_window() {
        let mut window = ReceiveWindow::new(10_000);
        assert_eq!(window.a_rwnd(), 10_000);
        window.hold(7000);
        assert_eq!(window.a_rwnd(), 3000);
        window.hold(100);
        assert_eq!(window.a_rwnd(), 0);
        window.release(7000, 1);
        assert_eq!((window.a_rwnd(), window.held()), (9900, 100));
    }

    #[test]
    fn a_full_buffer_takes_only_what_fills_holes() {
        let mut window = ReceiveWindow::new(10_000);
        window.hold(9000);
        assert!(window.accepts(1000, BEYOND));
        assert!(!window.accepts(1001, BEYOND));
        assert!(window.accepts(1001, HOLE));
        window.hold(10_500);
        assert!(!window.accepts(1000, HOLE));
    }

    #[test]
    fn a_chunk_larger_than_the_buffer_is_taken_alone_and_in_sequence() {
        let mut window = ReceiveWindow::new(1500);
        let next = |fills_hole| Place { fills_hole, is_next: true };
        assert!(window.accepts(65_519, next(false)) && window.accepts(65_519, next(true)));
        assert!(!window.accepts(1501, BEYOND) && !window.accepts(3001, HOLE));
        window.allow(0, 12_000);
        assert!(!window.accepts(12_000, next(false)));
        window.allow(usize::MAX, 0);
        window.hold(12_288);
        assert_eq!((window.a_rwnd(), window.accepts(1, next(true))), (0, false));
        window.on_announced(0);
        window.release(12_288, 1);
        assert!(window.wants_update() && window.accepts(12_288, next(false)));
        window.hold(1);
        assert!(!window.accepts(1500, next(false)));
    }

    #[test]
    fn a_chunk_larger_than_the_buffer_is_taken_beside_a_buffer_of_others_if_a_later_one_has_come() {
        let mut window = ReceiveWindow::new(1500);
        let next = |fills_hole| Place { fills_hole, is_next: true };
        let unread = 600;
        window.hold(unread);
        assert!(!window.accepts(12_288, next(false)), "no later one has arrived");
        window.hold(400);
        assert!(!window.accepts(12_288, HOLE), "another one is missing before it");
        window.hold(500);
        assert!(window.accepts(12_288, next(true)), "beside what is unread, too");
        window.hold(12_288);
        assert!(!window.accepts(12_288, next(true)) && !window.accepts(1, next(true)));
        window.release(12_288, 1);
        assert!(window.accepts(12_288, next(true)));
        window.allow(0, 1000);
        assert!(!window.accepts(12_288, next(true)), "there is no memory");
    }

    #[test]
    fn tiny_chunks_are_charged_for_their_bookkeeping() {
        let mut window = ReceiveWindow::new(2_000_000);
        (0..15_000).for_each(|_| window.hold(1));
        assert_eq!(
            (window.a_rwnd(), window.held()),
            (2_000_000 - (15_000 * 257 - 2_000_000), 15_000)
        );
        (15_000..15_560).for_each(|_| window.hold(1));
        assert!(window.accepts(1, BEYOND) && !window.accepts(2000, BEYOND));
        assert_eq!(window.a_rwnd(), 0);
        window.interleave();
        assert!(!window.accepts(1, BEYOND));
        let mut small = ReceiveWindow::new(8000);
        (0..100).for_each(|_| small.hold(64));
        assert!(small.accepts(1000, BEYOND));
    }

    #[test]
    fn short_of_memory_a_share_may_be_held_and_another_to_fill_holes() {
        let mut window = ReceiveWindow::new(100_000);
        window.hold(30_000 - CHUNK_COST);
        window.allow(20_000, 40_000);
        let most = |bytes| bytes - CHUNK_COST;
        assert!(window.accepts(most(20_000), BEYOND) && !window.accepts(most(20_001), BEYOND));
        assert!(window.accepts(most(50_000), HOLE) && !window.accepts(most(50_001), HOLE));
        assert_eq!((window.a_rwnd(), window.fits(70_000, BEYOND)), (20_000, true));
        window.allow(0, 60_000);
        assert!(window.accepts(most(30_000), BEYOND) && !window.accepts(most(30_001), BEYOND));
        assert_eq!(window.a_rwnd(), 30_000);
        window.allow(usize::MAX, 1);
        assert_eq!(window.a_rwnd(), 70_000 + CHUNK_COST as u32);
    }

    #[test]
    fn the_window_can_be_used_to_its_last_byte() {
        let mut window = ReceiveWindow::new(20_000);
        (0..19).for_each(|_| window.hold(1000));
        window.hold(942);
        for last in [1, 20, 58] {
            assert!(window.accepts(last, BEYOND), "{last}");
        }
        assert!(!window.accepts(59, BEYOND));
        window.hold(20);
        window.hold(38);
        assert_eq!((window.held(), window.accepts(1, BEYOND)), (20_000, false));
    }

    #[test]
    fn updates_are_sent_when_a_small_window_has_grown_by_a_quarter() {
        let mut window = ReceiveWindow::new(40_000);
        window.hold(39_000);
        assert!(!window.wants_update());
        window.on_announced(window.a_rwnd());
        window.release(8000, 0);
        assert!(!window.wants_update());
        window.release(1000, 0);
        assert!(window.wants_update());
        window.on_announced(window.a_rwnd());
        assert!(!window.wants_update());
    }
}
