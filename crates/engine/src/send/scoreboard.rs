//! The scoreboard (RFC 6675 section 3): which TSNs beyond the cumulative one the peer has reported, and what one SACK
//! changes of that. It knows no chunks, and of paths only over which of them the last SACK came; `distribution` gives
//! both what it tells.

use super::SackView;
use crate::path::PathId;
use crate::ranges::{Range, RangeSet, difference};
use crate::tsn::Tsn64;
use alloc::vec::Vec;

/// What the peer has reported, and scratch for the SACK under work.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    /// TSNs beyond the cumulative one that the peer has reported.
    acked: RangeSet,
    /// Those among them that the peer has for good (NR-SACK).
    released: RangeSet,
    /// The last SACK may have left out what is beyond, for lack of room.
    horizon: Option<Tsn64>,
    /// The path over which the last SACK came.
    path: Option<PathId>,
    /// The blocks of the SACK, the non-renegable ones, and what they newly tell.
    blocks: Vec<Range>,
    nr_blocks: Vec<Range>,
    /// How many blocks are not among these, being what `acked` and `released` begin with.
    known: (usize, usize),
    fresh: Vec<Range>,
}

impl Scoreboard {
    /// Gives back the memory that is not needed while nothing is under way.
    pub(super) fn release_memory(&mut self) {
        self.acked.release_memory();
        self.released.release_memory();
        for scratch in [&mut self.blocks, &mut self.nr_blocks, &mut self.fresh] {
            *scratch = Vec::new();
        }
    }

    /// The last SACK may have left out what is beyond, for lack of room.
    pub(super) fn horizon(&self) -> Option<Tsn64> {
        self.horizon
    }

    /// The path over which the last SACK came.
    pub(super) fn path(&self) -> Option<PathId> {
        self.path
    }

    /// Path `id` is removed.
    pub(super) fn forget_path(&mut self, id: PathId) {
        self.path = self.path.filter(|path| *path != id);
    }

    /// Reads what the blocks tell that was not known; returns the highest TSN that they report.
    pub(super) fn read(&mut self, cum: Tsn64, sack: &SackView<'_>) -> Tsn64 {
        let known = sack.ranges(cum, &self.acked, &mut self.blocks);
        self.known = (known, sack.nr_ranges(cum, &self.released, &mut self.nr_blocks));
        let last_known = known.checked_sub(1);
        let last_known =
            last_known.and_then(|last| self.acked.get(self.acked.index_beyond(cum) + last));
        self.blocks.last().copied().or(last_known).map_or(cum, |block| block.end)
    }

    /// What was read makes sense. It came over `via`, and may have left out what is beyond `horizon`.
    pub(super) fn accept(&mut self, via: PathId, horizon: Option<Tsn64>) {
        (self.path, self.horizon) = (Some(via), horizon);
    }

    /// The cumulative TSN is `cum`.
    pub(super) fn on_cumulative(&mut self, cum: Tsn64) {
        self.acked.remove_up_to(cum);
        self.released.remove_up_to(cum);
    }

    /// Whether anything beyond the cumulative TSN is reported, or was before.
    pub(super) fn has_gaps(&self) -> bool {
        !(self.acked.is_empty() && self.blocks.is_empty() && self.nr_blocks.is_empty())
    }

    /// What the SACK reports that was not reported before. The memory is to be handed back to [`Self::recycle`].
    pub(super) fn newly_acked(&mut self) -> Vec<Range> {
        let mut fresh = self.scratch();
        let known = self.acked.iter_from(self.known.0);
        difference(self.blocks.iter().copied(), known, |range| fresh.push(range));
        fresh
    }

    /// The same for what the peer has for good.
    pub(super) fn newly_released(&mut self) -> Vec<Range> {
        let mut fresh = self.scratch();
        let known = self.released.iter_from(self.known.1);
        difference(self.nr_blocks.iter().copied(), known, |range| fresh.push(range));
        fresh
    }

    /// What was reported up to `highest` and is not any more.
    pub(super) fn revoked(&mut self, highest: Tsn64) -> Vec<Range> {
        let mut revoked = self.scratch();
        let acked = self.acked.iter_from(self.known.0);
        let reported = acked.take_while(|range| range.start <= highest);
        let reported = reported.map(|range| Range { end: range.end.min(highest), ..range });
        difference(reported, self.blocks.iter().copied(), |range| revoked.push(range));
        revoked
    }

    /// What was reported beyond `highest`.
    pub(super) fn reported_beyond(&mut self, highest: Tsn64) -> Vec<Range> {
        let mut beyond = self.scratch();
        let ranges = self.acked.iter_from(self.acked.index_beyond(highest));
        let first = |range: &Range| range.start.max(highest.next());
        beyond.extend(ranges.map(|range| Range { start: first(&range), ..range }));
        beyond
    }

    fn scratch(&mut self) -> Vec<Range> {
        let mut scratch = core::mem::take(&mut self.fresh);
        scratch.clear();
        scratch
    }

    /// Takes scratch memory back.
    pub(super) fn recycle(&mut self, scratch: Vec<Range>) {
        self.fresh = scratch;
    }

    /// `range` is reported from now on.
    pub(super) fn on_acked(&mut self, range: Range) {
        self.acked.insert(range);
    }

    /// The peer has `range` for good from now on.
    pub(super) fn on_released(&mut self, range: Range) {
        self.released.insert(range);
    }

    /// Chunk `tsn` is not reported any more.
    pub(super) fn on_revoked(&mut self, tsn: Tsn64) {
        self.acked.remove(Range { start: tsn, end: tsn });
    }

    /// Of what is reported only what the peer has for good is believed from now on. Returns what was.
    pub(super) fn forget_gap_acks(&mut self) -> RangeSet {
        core::mem::replace(&mut self.acked, self.released.clone())
    }

    #[cfg(test)]
    pub(super) fn acked(&self) -> &RangeSet {
        &self.acked
    }

    #[cfg(test)]
    pub(super) fn released(&self) -> &RangeSet {
        &self.released
    }
}
