//! SACK, NR-SACK and the Cumulative TSN Ack of SHUTDOWN through one view.

use crate::ranges::Range;
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

    /// All blocks of both kinds as ascending, disjoint ranges beyond `cum`. Blocks that end before
    /// they begin acknowledge nothing, nor do those at the cumulative TSN.
    pub(crate) fn ranges(&self, cum: Tsn64, into: &mut Vec<Range>) {
        collect(in_turn(self.gaps.iter(), self.nr_gaps.iter()), cum, into);
    }

    /// The non-renegable blocks, as [`Self::ranges`].
    pub(crate) fn nr_ranges(&self, cum: Tsn64, into: &mut Vec<Range>) {
        collect(self.nr_gaps.iter(), cum, into);
    }
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
    for GapBlock { start, end } in
        blocks.filter(|block| 0 < block.start && block.start <= block.end)
    {
        let range = Range { start: cum.plus(start.into()), end: cum.plus(end.into()) };
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
    use super::SackView;
    use crate::tsn::Tsn64;
    use alloc::vec::Vec;
    use manypath_wire::Tsn;
    use manypath_wire::chunk::{GapBlock, GapBlocks};

    fn ranges(gaps: &[(u16, u16)]) -> Vec<(u64, u64)> {
        let cum = Tsn64::initial(Tsn(0));
        let gaps: Vec<GapBlock> =
            gaps.iter().map(|(start, end)| GapBlock { start: *start, end: *end }).collect();
        let view = SackView { gaps: GapBlocks::from_slice(&gaps), ..SackView::of_shutdown(Tsn(0)) };
        let mut into = Vec::new();
        view.ranges(cum, &mut into);
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
}
