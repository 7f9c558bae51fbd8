//! Sets of TSNs as ranges: what a receiver holds beyond a gap, what a sender knows to be held.

use crate::tsn::Tsn64;
use alloc::collections::VecDeque;

/// TSNs from `start` to `end`, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    /// First TSN.
    pub(crate) start: Tsn64,
    /// Last TSN.
    pub(crate) end: Tsn64,
}

impl Range {
    /// The TSNs of the range.
    pub(crate) fn iter(self) -> impl Iterator<Item = Tsn64> {
        let count = self.end.next().since(self.start);
        (0..count).map(move |offset| self.start.plus(offset))
    }
}

/// Disjoint ranges in ascending order, never adjacent.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    ranges: VecDeque<Range>,
}

impl RangeSet {
    /// Whether `tsn` is in the set.
    pub(crate) fn contains(&self, tsn: Tsn64) -> bool {
        let at = self.ranges.partition_point(|range| range.end < tsn);
        self.ranges.get(at).is_some_and(|range| range.start <= tsn)
    }

    /// Gives memory back that is not needed now.
    pub(crate) fn release_memory(&mut self) {
        self.ranges.shrink_to_fit();
    }

    /// Adds all TSNs of `new`.
    pub(crate) fn insert(&mut self, new: Range) {
        // Ranges in from..to overlap or touch the new one.
        let from = self.ranges.partition_point(|range| range.end.next() < new.start);
        let mut to = from;
        let mut merged = new;
        while let Some(range) = self.ranges.get(to).filter(|r| r.start <= new.end.next()) {
            merged.start = merged.start.min(range.start);
            merged.end = merged.end.max(range.end);
            to += 1;
        }
        if from == to {
            self.ranges.insert(from, merged);
        } else {
            self.ranges[from] = merged;
            self.ranges.drain(from + 1..to);
        }
    }

    /// Removes all TSNs of `gone`.
    pub(crate) fn remove(&mut self, gone: Range) {
        let from = self.ranges.partition_point(|range| range.end < gone.start);
        while let Some(range) = self.ranges.get(from).copied().filter(|r| r.start <= gone.end) {
            self.ranges.remove(from);
            if range.end > gone.end {
                self.ranges.insert(from, Range { start: gone.end.next(), ..range });
            }
            if range.start < gone.start {
                self.ranges.insert(from, Range { end: gone.start.before(), ..range });
                return self.remove(gone);
            }
        }
    }

    /// Removes everything up to and including `tsn`.
    pub(crate) fn remove_up_to(&mut self, tsn: Tsn64) {
        while let Some(first) = self.ranges.front_mut().filter(|range| range.start <= tsn) {
            if first.end > tsn {
                first.start = tsn.next();
                return;
            }
            self.ranges.pop_front();
        }
    }

    /// Takes the first range away if it begins with `tsn`.
    pub(crate) fn take_first_from(&mut self, tsn: Tsn64) -> Option<Range> {
        self.ranges.front().filter(|range| range.start == tsn)?;
        self.ranges.pop_front()
    }

    /// The ranges in ascending order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Range> {
        self.ranges.iter().copied()
    }

    /// The lowest ranges of those that begin at `last` or before, at most `limit`.
    pub(crate) fn iter_until(
        &self,
        last: Tsn64,
        limit: usize,
    ) -> impl ExactSizeIterator<Item = Range> + '_ {
        let mut count = limit.min(self.ranges.len());
        let is_within = |range: &Range| range.start <= last;
        if !self.ranges.range(..count).next_back().is_none_or(is_within) {
            count = self.ranges.partition_point(is_within);
        }
        self.ranges.range(..count).copied()
    }

    /// The ranges from the one with this index on.
    pub(crate) fn iter_from(&self, index: usize) -> impl DoubleEndedIterator<Item = Range> {
        self.ranges.range(index.min(self.ranges.len())..).copied()
    }

    /// The range with this index.
    pub(crate) fn get(&self, index: usize) -> Option<Range> {
        self.ranges.get(index).copied()
    }

    /// The index of the first range that ends beyond `tsn`.
    pub(crate) fn index_beyond(&self, tsn: Tsn64) -> usize {
        self.ranges.partition_point(|range| range.end <= tsn)
    }

    /// The highest TSN of the set.
    pub(crate) fn highest(&self) -> Option<Tsn64> {
        self.ranges.back().map(|range| range.end)
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// Calls `found` for each maximal range that is in `these` and not in `those`. Both are disjoint
/// and ascending.
pub(crate) fn difference(
    these: impl Iterator<Item = Range>,
    those: impl Iterator<Item = Range>,
    mut found: impl FnMut(Range),
) {
    let mut those = those.peekable();
    for mut this in these {
        if those.next_if_eq(&this).is_some() {
            continue;
        }
        loop {
            while those.next_if(|that| that.end < this.start).is_some() {}
            let Some(that) = those.peek().filter(|that| that.start <= this.end) else {
                found(this);
                break;
            };
            if that.start > this.start {
                found(Range { end: that.start.before(), ..this });
            }
            if that.end >= this.end {
                break;
            }
            this.start = that.end.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Range, RangeSet, difference};
    use crate::tsn::Tsn64;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use manypath_wire::Tsn;
    use proptest::prelude::*;

    fn tsn(number: u64) -> Tsn64 {
        Tsn64::initial(Tsn(0)).plus(number)
    }

    fn range((start, len): (u64, u64)) -> Range {
        Range { start: tsn(start), end: tsn(start + len) }
    }

    fn set_of(ranges: impl Iterator<Item = Range>) -> BTreeSet<Tsn64> {
        ranges.flat_map(Range::iter).collect()
    }

    fn check_form(set: &RangeSet) {
        let ranges: Vec<_> = set.iter().collect();
        assert!(ranges.iter().all(|range| range.start <= range.end));
        assert!(ranges.windows(2).all(|pair| pair[0].end.next() < pair[1].start));
    }

    proptest! {
        #[test]
        fn behaves_like_a_set(
            ops in prop::collection::vec((0..4u8, 0..60u64, 0..12u64), 1..60)
        ) {
            let (mut set, mut model) = (RangeSet::default(), BTreeSet::new());
            for (op, start, len) in ops {
                let range = range((start, len));
                match op {
                    0 | 1 => {
                        set.insert(range);
                        model.extend(range.iter());
                    }
                    2 => {
                        set.remove(range);
                        model.retain(|tsn| *tsn < range.start || *tsn > range.end);
                    }
                    _ => {
                        set.remove_up_to(range.start);
                        model.retain(|tsn| *tsn > range.start);
                    }
                }
                check_form(&set);
                prop_assert_eq!(set_of(set.iter()), model.clone());
                prop_assert_eq!(set.highest(), model.last().copied());
                for index in 0..5 {
                    prop_assert!(set.iter_from(index).eq(set.iter().skip(index)));
                    prop_assert_eq!(set.get(index), set.iter().nth(index));
                }
                for number in 0..80 {
                    let beyond = set.iter().position(|range| range.end > tsn(number));
                    prop_assert_eq!(Some(set.index_beyond(tsn(number))), beyond.or(Some(set.iter().count())));
                    prop_assert_eq!(set.contains(tsn(number)), model.contains(&tsn(number)));
                }
            }
        }

        #[test]
        fn the_difference_is_that_of_sets(
            a in prop::collection::vec((0..80u64, 0..8u64), 0..20),
            b in prop::collection::vec((0..80u64, 0..8u64), 0..20),
        ) {
            let (mut these, mut those) = (RangeSet::default(), RangeSet::default());
            a.into_iter().for_each(|pair| these.insert(range(pair)));
            b.into_iter().for_each(|pair| those.insert(range(pair)));
            let mut found = Vec::new();
            difference(these.iter(), those.iter(), |range| found.push(range));
            let expected = &set_of(these.iter()) - &set_of(those.iter());
            prop_assert_eq!(set_of(found.into_iter()), expected);
        }
    }
}
