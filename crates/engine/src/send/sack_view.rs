//! SACK, NR-SACK and the Cumulative TSN Ack of SHUTDOWN through one view.

use crate::ranges::{Range, RangeSet};
use crate::tsn::Tsn64;
use alloc::vec::Vec;
use manypath_wire::Tsn;
use manypath_wire::chunk::{GapBlock, GapBlocks, NrSack, Sack, Tsns};

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SackView<'a> {
    /// Chunk flags.
    pub(crate) flags: u8,
    /// Cumulative TSN Ack.
    pub(crate) cum_tsn: Tsn,
    /// The receive window, if it was announced.
    pub(crate) a_rwnd: Option<u32>,
    /// Gap Ack Blocks.
    pub(crate) gaps: GapBlocks<'a>,
    /// Gap Ack Blocks of what the peer will never renege on.
    pub(crate) nr_gaps: GapBlocks<'a>,
    /// TSNs that arrived more than once.
    pub(crate) duplicates: Tsns<'a>,
}

impl<'a> SackView<'a> {
    /// The view of a SACK.
    pub(crate) fn of_sack(sack: &Sack<'a>) -> Self {
        let Sack { flags, cum_tsn, a_rwnd, gaps, duplicates } = *sack;
        let nr_gaps = GapBlocks::EMPTY;
        Self { flags, cum_tsn, a_rwnd: Some(a_rwnd), gaps, nr_gaps, duplicates }
    }

    /// The view of an NR-SACK.
    pub(crate) fn of_nr_sack(sack: &NrSack<'a>) -> Self {
        let NrSack { flags, cum_tsn, a_rwnd, gaps, nr_gaps, duplicates } = *sack;
        Self { flags, cum_tsn, a_rwnd: Some(a_rwnd), gaps, nr_gaps, duplicates }
    }

    /// The view of a SHUTDOWN, which says nothing but the cumulative TSN.
    pub(crate) fn of_shutdown(cum_tsn: Tsn) -> Self {
        let (gaps, nr_gaps) = (GapBlocks::EMPTY, GapBlocks::EMPTY);
        Self { flags: 0, cum_tsn, a_rwnd: None, gaps, nr_gaps, duplicates: Tsns::EMPTY }
    }

    /// Whether nothing can have been left out for lack of room: stacks that report few blocks report
    /// 16 of them.
    pub(crate) fn is_complete(&self) -> bool {
        const FEW: usize = 16;
        self.a_rwnd.is_some() && self.gaps.iter().chain(self.nr_gaps.iter()).nth(FEW - 1).is_none()
    }

    /// All blocks of both kinds as ascending, disjoint ranges beyond `cum`, without those at the beginning that are
    /// what is `known` beyond it, one by one; the number of these. Blocks that end before they begin
    /// acknowledge nothing, nor do those at the cumulative TSN.
    ///
    /// Most of what a SACK lists was in the one before it: with many gaps only what has changed is worth the
    /// work.
    pub(crate) fn ranges(&self, cum: Tsn64, known: &RangeSet, into: &mut Vec<Range>) -> usize {
        match (self.gaps.is_empty(), self.nr_gaps.is_empty()) {
            (_, true) => collect_news(self.gaps, cum, known, into),
            (true, false) => collect_news(self.nr_gaps, cum, known, into),
            (false, false) => {
                collect(in_turn(self.gaps.iter(), self.nr_gaps.iter()), cum, into);
                0
            }
        }
    }

    /// The non-renegable blocks, as [`Self::ranges`].
    pub(crate) fn nr_ranges(&self, cum: Tsn64, known: &RangeSet, into: &mut Vec<Range>) -> usize {
        collect_news(self.nr_gaps, cum, known, into)
    }
}

/// The blocks but for those at the beginning that are `known`; their number.
fn collect_news(
    blocks: GapBlocks<'_>,
    cum: Tsn64,
    known: &RangeSet,
    into: &mut Vec<Range>,
) -> usize {
    if blocks.is_empty() {
        into.clear();
        return 0;
    }
    let first = known.index_beyond(cum);
    let mut rest = known.iter_from(first);
    let is_known = |block| rest.next().is_some_and(|known| known == range(cum, block));
    let count = blocks.count_while(is_known);
    collect(blocks.iter().skip(count), cum, into);
    let last = count.checked_sub(1).and_then(|last| known.get(first + last));
    let follows = |last: Range| into.first().is_none_or(|first| first.start > last.end.next());
    if last.is_none_or(follows) {
        return count;
    }
    // Blocks that are in no order, or overlap.
    collect(blocks.iter(), cum, into);
    0
}

fn range(cum: Tsn64, GapBlock { start, end }: GapBlock) -> Range {
    Range { start: cum.plus(start.into()), end: cum.plus(end.into()) }
}

/// Blocks of both lists in ascending order, if both are ascending.
fn in_turn(
    gaps: impl Iterator<Item = GapBlock>,
    nr_gaps: impl Iterator<Item = GapBlock>,
) -> impl Iterator<Item = GapBlock> {
    let (mut gaps, mut nr_gaps) = (gaps.peekable(), nr_gaps.peekable());
    core::iter::from_fn(move || match (gaps.peek(), nr_gaps.peek()) {
        (Some(gap), Some(nr_gap)) if nr_gap.start < gap.start => nr_gaps.next(),
        (Some(_), _) => gaps.next(),
        (None, _) => nr_gaps.next(),
    })
}

fn collect(blocks: impl Iterator<Item = GapBlock>, cum: Tsn64, into: &mut Vec<Range>) {
    into.clear();
    let mut ascending = true;
    for block in blocks.filter(|block| 0 < block.start && block.start <= block.end) {
        let range = range(cum, block);
        match into.last_mut() {
            Some(last) if last.start > range.start => ascending = false,
            Some(last) if last.end.next() >= range.start => {
                last.end = last.end.max(range.end);
                continue;
            }
            Some(_) | None => {}
        }
        into.push(range);
    }
    if !ascending {
        merge(into);
    }
}

fn merge(ranges: &mut Vec<Range>) {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, kept| {
        let touches = next.start <= kept.end.next();
        if touches {
            kept.end = kept.end.max(next.end);
        }
        touches
    });
}

#[cfg(test)]
mod tests {
    use super::{GapBlock, SackView};
    use crate::ranges::{Range, RangeSet};
    use crate::tsn::Tsn64;
    use alloc::vec::Vec;
    use manypath_wire::Tsn;
    use manypath_wire::chunk::GapBlocks;
    use proptest::prelude::*;

    fn ranges(gaps: &[(u16, u16)]) -> Vec<(u64, u64)> {
        let cum = Tsn64::initial(Tsn(0));
        let gaps: Vec<GapBlock> =
            gaps.iter().map(|(start, end)| GapBlock { start: *start, end: *end }).collect();
        let view = SackView { gaps: GapBlocks::from_slice(&gaps), ..SackView::of_shutdown(Tsn(0)) };
        let mut into = Vec::new();
        view.ranges(cum, &RangeSet::default(), &mut into);
        into.iter().map(|range| (range.start.since(cum), range.end.since(cum))).collect()
    }

    #[test]
    fn blocks_become_ascending_disjoint_ranges() {
        assert_eq!(ranges(&[(2, 5), (10, 10)]), [(2, 5), (10, 10)]);
        assert_eq!(ranges(&[(9, 9), (2, 3), (3, 7)]), [(2, 7), (9, 9)]);
        assert_eq!(ranges(&[(4, 5), (6, 6)]), [(4, 6)]);
        assert_eq!(ranges(&[(4, 9), (5, 6), (12, 12), (8, 10)]), [(4, 10), (12, 12)]);
        assert_eq!(ranges(&[]), []);
    }

    #[test]
    fn senseless_blocks_say_nothing() {
        assert_eq!(ranges(&[(0, 3), (4, 3), (6, 6)]), [(6, 6)]);
    }

    proptest! {
        /// Leaving out what is known changes nothing, in whatever order blocks are.
        #[test]
        fn known_ranges_and_the_others_together_are_all(
            known in prop::collection::vec((1..90u16, 0..4u16), 0..12),
            more in prop::collection::vec((0..120u16, 0..120u16), 0..4),
            kept in 0..12usize,
        ) {
            let cum = Tsn64::initial(Tsn(0));
            let mut set = RangeSet::default();
            for (start, len) in known {
                let start = cum.plus(start.into());
                set.insert(Range { start, end: start.plus(len.into()) });
            }
            let offset = |tsn: Tsn64| tsn.since(cum) as u16;
            let block = |range: Range| GapBlock { start: offset(range.start), end: offset(range.end) };
            let mut gaps: Vec<_> = set.iter().take(kept).map(block).collect();
            gaps.extend(more.into_iter().map(|(start, end)| GapBlock { start, end }));
            let shutdown = SackView::of_shutdown(Tsn(0));
            for nr in [false, true] {
                let list = GapBlocks::from_slice(&gaps);
                let view = match nr {
                    true => SackView { nr_gaps: list, ..shutdown },
                    false => SackView { gaps: list, ..shutdown },
                };
                let (mut news, mut all) = (Vec::new(), Vec::new());
                let count = view.ranges(cum, &set, &mut news);
                prop_assert_eq!(view.ranges(cum, &RangeSet::default(), &mut all), 0);
                let whole: Vec<_> = set.iter().take(count).chain(news).collect();
                prop_assert_eq!(whole, all);
            }
        }
    }
}
