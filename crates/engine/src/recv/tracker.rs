//! Which TSNs have arrived: the cumulative TSN, what is held beyond gaps, and duplicates
//! (RFC 9260 sections 6.2 and 6.7).

use crate::ranges::{Range, RangeSet, difference};
use crate::tsn::{MAX_AHEAD, Tsn64};
use alloc::vec::Vec;
use manypath_wire::Tsn;
use manypath_wire::chunk::GapBlock;

/// Most duplicates that are listed in one SACK. More are counted, not listed.
const MAX_DUPLICATES: usize = 32;

/// What is known about a TSN that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// It arrived for the first time.
    New,
    /// It arrived before.
    Duplicate,
}

/// The TSNs received in one direction of an association.
#[derive(Debug)]
pub(crate) struct Tracker {
    cum: Tsn64,
    beyond: RangeSet,
    duplicates: Vec<Tsn>,
    /// Whether the TSNs have ever begun anew elsewhere.
    jumped: bool,
}

impl Tracker {
    /// Nothing has arrived; the first TSN will be `initial`.
    pub(crate) fn new(initial: Tsn) -> Self {
        let cum = Tsn64::initial(initial).before();
        Self { cum, beyond: RangeSet::default(), duplicates: Vec::new(), jumped: false }
    }

    /// Gives memory back that is not needed now.
    pub(crate) fn release_memory(&mut self) {
        self.beyond.release_memory();
        self.duplicates.shrink_to_fit();
    }

    /// The TSN that a number from the wire stands for.
    pub(crate) fn unwrap(&self, tsn: Tsn) -> Tsn64 {
        Tsn64::near(tsn, self.cum)
    }

    /// Whether `tsn` has arrived.
    pub(crate) fn has(&self, tsn: Tsn64) -> bool {
        tsn <= self.cum || self.beyond.contains(tsn)
    }

    /// `tsn` arrived. A duplicate is remembered for the next SACK.
    pub(crate) fn observe(&mut self, tsn: Tsn64) -> Seen {
        if self.has(tsn) {
            if self.duplicates.len() < MAX_DUPLICATES {
                self.duplicates.push(tsn.wire());
            }
            return Seen::Duplicate;
        }
        if tsn == self.cum.next() {
            self.cum = tsn;
            if let Some(range) = self.beyond.take_first_from(tsn.next()) {
                self.cum = range.end;
            }
        } else {
            self.beyond.insert(Range { start: tsn, end: tsn });
        }
        Seen::New
    }

    /// All TSNs up to `tsn` are to be taken for received (RFC 3758 section 3.6).
    pub(crate) fn forward(&mut self, tsn: Tsn64) {
        if tsn <= self.cum {
            return;
        }
        self.beyond.remove_up_to(tsn);
        self.cum = tsn;
        if let Some(range) = self.beyond.take_first_from(tsn.next()) {
            self.cum = range.end;
        }
    }

    /// All TSNs before `next`, which lies ahead, are to be taken for received.
    pub(crate) fn jump_to(&mut self, next: Tsn) {
        self.forward(self.cum.jump(next).before());
        self.jumped = true;
    }

    /// Whether `tsn` is one from before a jump. A jump of half of the number space makes what lies
    /// behind it look as if it lay far ahead.
    pub(crate) fn is_from_before_jump(&self, tsn: Tsn64) -> bool {
        self.jumped && tsn.since(self.cum) > MAX_AHEAD
    }

    /// The cumulative TSN: it and all before it have arrived.
    pub(crate) fn cum(&self) -> Tsn64 {
        self.cum
    }

    /// The highest TSN that has arrived.
    pub(crate) fn highest(&self) -> Tsn64 {
        self.beyond.highest().unwrap_or(self.cum)
    }

    /// Whether a TSN is missing below the highest.
    pub(crate) fn has_gap(&self) -> bool {
        !self.beyond.is_empty()
    }

    /// The lowest Gap Ack Blocks, at most `limit`. Their offsets have 16 bits: what lies further
    /// from the cumulative TSN cannot be reported yet.
    pub(crate) fn gap_blocks(&self, limit: usize, into: &mut Vec<GapBlock>) {
        into.clear();
        let reach = self.cum.plus(u16::MAX.into());
        let offset = |tsn: Tsn64| u16::try_from(tsn.since(self.cum)).unwrap_or(u16::MAX);
        let block = |range: Range| GapBlock { start: offset(range.start), end: offset(range.end) };
        into.extend(self.beyond.iter_until(reach, limit).map(block));
    }

    /// As [`Self::gap_blocks`], but what is in `safe` goes into blocks of its own. The limit is for
    /// both kinds together.
    pub(crate) fn split_blocks(
        &self,
        safe: &RangeSet,
        limit: usize,
        (gaps, safe_gaps): (&mut Vec<GapBlock>, &mut Vec<GapBlock>),
    ) {
        gaps.clear();
        safe_gaps.clear();
        difference(self.beyond.iter(), safe.iter(), |range| gaps.extend(self.block(range)));
        safe_gaps.extend(safe.iter().map_while(|range| self.block(range)));
        while gaps.len() + safe_gaps.len() > limit {
            let start = |blocks: &[GapBlock]| blocks.last().map(|block| block.start);
            let highest = if start(gaps) > start(safe_gaps) { &mut *gaps } else { &mut *safe_gaps };
            highest.pop();
        }
    }

    fn block(&self, range: Range) -> Option<GapBlock> {
        let start = u16::try_from(range.start.since(self.cum)).ok()?;
        let end = u16::try_from(range.end.since(self.cum)).unwrap_or(u16::MAX);
        Some(GapBlock { start, end })
    }

    /// Whether the cumulative TSN alone does not say all: there are gaps or duplicates.
    pub(crate) fn has_more_to_tell(&self) -> bool {
        !self.beyond.is_empty() || !self.duplicates.is_empty()
    }

    /// Duplicates since the last call, at most `limit` of them; the rest is forgotten.
    pub(crate) fn take_duplicates(&mut self, limit: usize, into: &mut Vec<Tsn>) {
        into.clear();
        into.extend(self.duplicates.drain(..).take(limit));
    }
}

#[cfg(test)]
mod tests {
    use super::{GapBlock, MAX_DUPLICATES, Seen, Tracker};
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use manypath_wire::Tsn;
    use proptest::prelude::*;

    fn blocks(tracker: &Tracker, limit: usize) -> Vec<(u16, u16)> {
        let mut blocks = Vec::<GapBlock>::new();
        tracker.gap_blocks(limit, &mut blocks);
        blocks.into_iter().map(|block| (block.start, block.end)).collect()
    }

    #[test]
    fn gaps_are_reported_lowest_first() {
        let mut tracker = Tracker::new(Tsn(u32::MAX - 1));
        for offset in [0, 2, 3, 7, 5] {
            let tsn = tracker.unwrap(Tsn((u32::MAX - 1).wrapping_add(offset)));
            assert_eq!(tracker.observe(tsn), Seen::New);
        }
        assert_eq!(tracker.cum().wire(), Tsn(u32::MAX - 1));
        assert_eq!(blocks(&tracker, 9), [(2, 3), (5, 5), (7, 7)]);
        assert_eq!(blocks(&tracker, 2), [(2, 3), (5, 5)]);
        let hole = tracker.unwrap(Tsn(u32::MAX));
        tracker.observe(hole);
        assert_eq!(tracker.cum().wire(), Tsn(1));
        assert_eq!(blocks(&tracker, 9), [(2, 2), (4, 4)]);
    }

    #[test]
    fn offsets_beyond_sixteen_bits_are_not_reported() {
        let mut tracker = Tracker::new(Tsn(0));
        let first = tracker.unwrap(Tsn(0));
        for offset in [65_533, 65_534, 65_535, 65_536, 70_000] {
            tracker.observe(first.plus(offset));
        }
        assert_eq!(blocks(&tracker, 9), [(65_534, u16::MAX)]);
    }

    #[test]
    fn duplicates_are_listed_once_per_reception() {
        let mut tracker = Tracker::new(Tsn(0));
        let first = tracker.unwrap(Tsn(0));
        let mut listed = Vec::new();
        for _ in 0..3 {
            tracker.observe(first);
        }
        tracker.take_duplicates(9, &mut listed);
        assert_eq!(listed, [Tsn(0), Tsn(0)]);
        tracker.take_duplicates(9, &mut listed);
        assert!(listed.is_empty());
        for _ in 0..2 * MAX_DUPLICATES {
            tracker.observe(first);
        }
        tracker.take_duplicates(usize::MAX, &mut listed);
        assert_eq!(listed.len(), MAX_DUPLICATES);
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(initial: u32, arrivals in prop::collection::vec(0..200u64, 0..300)) {
            let mut tracker = Tracker::new(Tsn(initial));
            let first = tracker.unwrap(Tsn(initial));
            let mut model = BTreeSet::new();
            for offset in arrivals {
                let tsn = tracker.unwrap(first.plus(offset).wire());
                prop_assert_eq!(tsn, first.plus(offset));
                let new = model.insert(offset);
                prop_assert_eq!(tracker.observe(tsn) == Seen::New, new);
                let cum = (0..).find(|offset| !model.contains(offset)).unwrap();
                prop_assert_eq!(tracker.cum().next(), first.plus(cum));
                prop_assert_eq!(tracker.highest(), first.plus(*model.last().unwrap()));
                let reported: Vec<u64> = blocks(&tracker, usize::MAX)
                    .into_iter()
                    .flat_map(|(start, end)| start..=end)
                    .map(|offset| cum + u64::from(offset) - 1)
                    .collect();
                let beyond: Vec<u64> = model.range(cum..).copied().collect();
                prop_assert_eq!(reported, beyond);
            }
        }
    }
}
