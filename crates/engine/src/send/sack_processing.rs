//! Working a SACK in (RFC 9260 sections 6.2.1, 6.3.2, 7.2; the rules per path in `path::flight`).

use super::outstanding::SentChunk;
use super::{SackView, Sender};
use crate::path::congestion::Group;
use crate::path::flight::dac::Reports;
use crate::path::{ChunkState, Extent, Path, PathId, PathSet, Paths, SackSummary};
use crate::ranges::{Range, RangeSet, difference};
use crate::time::Instant;
use crate::tsn::Tsn64;
use alloc::vec::Vec;

/// What a SACK has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SackOutcome {
    /// It was older than one seen before and was ignored.
    pub(crate) stale: bool,
    /// Something was newly acknowledged.
    pub(crate) newly_acked: bool,
    /// Paths that have proved to work: their error counters are to be cleared.
    pub(crate) acked_paths: PathSet,
    /// Paths that are silent while others are not: they are to be suspected.
    pub(crate) silent_paths: PathSet,
}

/// What the peer has reported, and scratch for the SACK under work.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// TSNs beyond the cumulative one that the peer has reported.
    pub(super) acked: RangeSet,
    /// Those among them that the peer has for good (NR-SACK).
    pub(super) released: RangeSet,
    /// The last SACK may have left out what is beyond, for lack of room.
    pub(super) horizon: Option<Tsn64>,
    /// The blocks of the SACK, the non-renegable ones, and what they newly tell.
    blocks: Vec<Range>,
    nr_blocks: Vec<Range>,
    /// How many blocks are not among these, being what `acked` and `released` begin with.
    known: (usize, usize),
    fresh: Vec<Range>,
}

impl Reported {
    pub(super) fn release_memory(&mut self) {
        self.acked.release_memory();
        self.released.release_memory();
        for scratch in [&mut self.blocks, &mut self.nr_blocks, &mut self.fresh] {
            *scratch = Vec::new();
        }
    }

    /// Reads what the blocks tell that was not known; returns the highest TSN that they report.
    fn read(&mut self, cum: Tsn64, sack: &SackView<'_>) -> Tsn64 {
        let known = sack.ranges(cum, &self.acked, &mut self.blocks);
        self.known = (known, sack.nr_ranges(cum, &self.released, &mut self.nr_blocks));
        let last_known = known.checked_sub(1);
        let last_known =
            last_known.and_then(|last| self.acked.get(self.acked.index_beyond(cum) + last));
        self.blocks.last().copied().or(last_known).map_or(cum, |block| block.end)
    }
}

impl Sender {
    /// Works in a SACK that arrived over `via`.
    ///
    /// # Errors
    /// The peer acknowledges what was never sent, or its blocks make no sense.
    pub(crate) fn handle_sack(
        &mut self,
        now: Instant,
        sack: &SackView<'_>,
        via: PathId,
        paths: &mut Paths,
    ) -> Result<SackOutcome, &'static str> {
        let cum = Tsn64::near(sack.cum_tsn, self.outstanding.cum());
        self.take_spurious(sack.duplicates, paths);
        if cum < self.outstanding.cum() || self.outstanding.is_from_before_jump(cum) {
            // One that comes over a slow path may be old, but what has arrived twice it alone knows.
            if self.copies.is_on() && sack.duplicates.iter().next().is_some() {
                let cum = SackView::of_shutdown(self.outstanding.cum().wire());
                let duplicates = SackView { duplicates: sack.duplicates, ..cum };
                return self.handle_sack(now, &duplicates, via, paths);
            }
            return Ok(SackOutcome { stale: true, ..SackOutcome::default() });
        }
        let highest = self.reported.read(cum, sack);
        if highest >= self.outstanding.next_tsn() {
            return Err("acknowledgement of a TSN that was never sent");
        }
        self.reported.horizon = (!sack.is_complete()).then_some(highest);
        self.sack_path = Some(via);
        if let Some(path) = paths.get_mut(via) {
            path.on_sack_received(now);
        }
        for path in paths.iter_mut() {
            let id = path.id();
            path.flight_mut().begin_sack(|sent| self.outstanding.is_live(id, sent));
        }
        self.take_cumulative(now, cum, via, paths);
        let believed = self.take_revoked(now, highest, via, paths);
        if sack.is_complete() {
            self.take_revoked_beyond(now, highest, via, paths);
        }
        self.take_gaps(now, via, paths);
        self.take_duplicates(now, sack.duplicates, via, paths);
        self.take_non_renegable(paths);
        let mut outcome = SackOutcome::default();
        let group = paths.couple(self.usable(paths));
        let summary = self.summary(now, highest, sack, via, paths, &group);
        for path in paths.iter_mut() {
            self.end_sack(&summary, path, &mut outcome);
        }
        if self.abandonment.take_passed() {
            // Nothing that was sent is acknowledged by it, but the peer has answered.
            outcome.newly_acked = true;
            if let Some(path) = self.forward.proven_path() {
                outcome.acked_paths.insert(path);
            }
        }
        self.prune_copies(paths);
        self.forward.advance(now, true, &self.outstanding);
        self.outstanding.guard(now, paths);
        if let Some(a_rwnd) = sack.a_rwnd.filter(|_| believed) {
            let needed = self.fragment_size(paths);
            self.outstanding.on_window(now, a_rwnd, needed, paths);
        }
        outcome.silent_paths = self.silent_paths(now, paths);
        self.buffer.fit(paths);
        Ok(outcome)
    }

    /// The Cumulative TSN Ack of a SHUTDOWN: a SACK that says nothing else.
    ///
    /// # Errors
    /// As [`Self::handle_sack`].
    pub(crate) fn handle_shutdown_tsn(
        &mut self,
        now: Instant,
        cum_tsn: manypath_wire::Tsn,
        via: PathId,
        paths: &mut Paths,
    ) -> Result<SackOutcome, &'static str> {
        self.handle_sack(now, &SackView::of_shutdown(cum_tsn), via, paths)
    }

    fn take_cumulative(&mut self, now: Instant, cum: Tsn64, via: PathId, paths: &mut Paths) {
        while self.outstanding.cum() < cum {
            let tsn = self.outstanding.cum().next();
            if let Some(path) = self.on_acked(now, tsn, via, paths) {
                path.flight_mut().on_passed_by();
            }
            let Some(chunk) = self.outstanding.pop() else { break };
            self.abandonment.on_gone(tsn, &chunk);
            if chunk.record.state != ChunkState::Released {
                self.release(&chunk, paths);
            }
        }
        self.reported.acked.remove_up_to(cum);
        self.reported.released.remove_up_to(cum);
    }

    /// The chunk is acknowledged for good.
    fn release(&mut self, chunk: &SentChunk, paths: &mut Paths) {
        self.buffer.give_back(chunk.data_len());
        self.queue.on_acked(&chunk.fragment);
        if let Some(path) = paths.get_mut(chunk.record.path) {
            path.flight_mut().release(chunk.data_len());
        }
    }

    /// What the peer will not renege on need not be kept.
    fn take_non_renegable(&mut self, paths: &mut Paths) {
        let mut fresh = core::mem::take(&mut self.reported.fresh);
        fresh.clear();
        let blocks = self.reported.nr_blocks.iter().copied();
        difference(blocks, self.reported.released.iter_from(self.reported.known.1), |range| {
            fresh.push(range)
        });
        for range in &fresh {
            for tsn in range.iter() {
                if let Some(chunk) = self.outstanding.release(tsn) {
                    self.release(&chunk, paths);
                }
            }
            self.reported.released.insert(*range);
        }
        self.reported.fresh = fresh;
    }

    fn take_gaps(&mut self, now: Instant, via: PathId, paths: &mut Paths) {
        let mut fresh = core::mem::take(&mut self.reported.fresh);
        fresh.clear();
        let blocks = self.reported.blocks.iter().copied();
        difference(blocks, self.reported.acked.iter_from(self.reported.known.0), |range| {
            fresh.push(range)
        });
        for range in &fresh {
            for tsn in range.iter() {
                self.on_acked(now, tsn, via, paths);
            }
            self.reported.acked.insert(*range);
        }
        self.reported.fresh = fresh;
    }

    /// Chunks that were reported before and are not any more: either the peer threw them away, or
    /// the SACK is an older one that was overtaken on another path. It is believed only if it came
    /// over the path of the SACK that had acknowledged the chunk, or if that path has failed.
    /// Returns whether the SACK may be taken for the latest.
    fn take_revoked(
        &mut self,
        now: Instant,
        highest: Tsn64,
        via: PathId,
        paths: &mut Paths,
    ) -> bool {
        let mut revoked = core::mem::take(&mut self.reported.fresh);
        revoked.clear();
        let acked = self.reported.acked.iter_from(self.reported.known.0);
        let reported = acked.take_while(|range| range.start <= highest);
        let reported = reported.map(|range| Range { end: range.end.min(highest), ..range });
        difference(reported, self.reported.blocks.iter().copied(), |range| revoked.push(range));
        let mut believed = true;
        for tsn in revoked.iter().flat_map(|range| range.iter()) {
            believed &= self.revoke(now, tsn, via, paths);
        }
        self.reported.fresh = revoked;
        believed
    }

    /// The same for chunks beyond all that a SACK reports, which has left out nothing for lack of
    /// room. Here an overtaken SACK cannot be told from one that revokes, so only one over the path
    /// of the acknowledgement counts.
    fn take_revoked_beyond(
        &mut self,
        now: Instant,
        highest: Tsn64,
        via: PathId,
        paths: &mut Paths,
    ) {
        let beyond = self.reported.acked.iter_from(self.reported.acked.index_beyond(highest));
        let first = |range: &Range| range.start.max(highest.next());
        let mut revoked = core::mem::take(&mut self.reported.fresh);
        revoked.clear();
        revoked.extend(beyond.map(|range| Range { start: first(&range), ..range }));
        for tsn in revoked.iter().flat_map(|range| range.iter()) {
            if self.outstanding.get(tsn).is_some_and(|chunk| chunk.record.acked_via == via) {
                self.revoke(now, tsn, via, paths);
            }
        }
        self.reported.fresh = revoked;
    }

    /// Section 6.2.1 rule D iii. Returns false if it is not believed.
    fn revoke(&mut self, now: Instant, tsn: Tsn64, via: PathId, paths: &mut Paths) -> bool {
        let Some(chunk) = self.outstanding.get_mut(tsn) else { return true };
        let witness = chunk.record.acked_via;
        if witness != via && paths.get(witness).is_some_and(Path::is_active) {
            return false;
        }
        if chunk.record.state.is_empty() {
            // The peer should go on reporting it, but that it does not do so proves nothing.
            return true;
        }
        let Some(path) = paths.get_mut(chunk.record.path) else { return false };
        let data = chunk.data_len();
        path.on_reneged(now, tsn, chunk.tracked());
        self.outstanding.on_reneged(data);
        self.reported.acked.remove(Range { start: tsn, end: tsn });
        true
    }

    /// Chunk `tsn` is reported. Returns the path of its last transmission if that is news.
    fn on_acked<'p>(
        &mut self,
        now: Instant,
        tsn: Tsn64,
        via: PathId,
        paths: &'p mut Paths,
    ) -> Option<&'p mut Path> {
        if self.copies.is_on() {
            self.attribute(now, tsn, via, paths);
        }
        let chunk = self.outstanding.get_mut(tsn)?;
        let record = &chunk.record;
        let is_repeated = record.state == ChunkState::InFlight && record.transmissions > 1;
        if is_repeated
            && paths.get(record.path)?.is_too_early(now, record)
            && let Some(from) = paths.get_mut(record.from)
        {
            let repetition = self.repetitions.take(tsn);
            from.on_spurious(tsn, repetition.is_some_and(|it| it.reported));
            from.on_late_delivery(now, repetition.filter(|_| from.id() == via).map(|it| it.sent));
        }
        let path = paths.get_mut(chunk.record.path)?;
        let (was, data) = (chunk.record.state, chunk.data_len());
        match was {
            ChunkState::Released | ChunkState::Abandoned | ChunkState::Acked => return None,
            ChunkState::InFlight => path.flight_mut().land(&mut chunk.tracked()),
            ChunkState::Lost => path.on_lost_acked(tsn),
        }
        chunk.record.state = ChunkState::Acked;
        chunk.record.acked_via = via;
        chunk.record.missing = 0;
        path.on_acked(now, tsn, chunk.tracked());
        self.outstanding.on_done(was, data);
        Some(path)
    }

    /// Draws the conclusions for one path.
    fn end_sack(&mut self, summary: &SackSummary<'_>, path: &mut Path, outcome: &mut SackOutcome) {
        let id = path.id();
        let conclusion = path.conclude(summary, |sent| self.outstanding.is_live(id, sent));
        outcome.newly_acked |= conclusion.newly_acked;
        if conclusion.works {
            outcome.acked_paths.insert(id);
        }
        self.look_for_losses(summary, path);
        path.end_sack(summary.now, self.rules.experiment.smart_t3);
        self.note_sounds(summary, path);
    }

    fn summary<'g>(
        &mut self,
        now: Instant,
        highest: Tsn64,
        sack: &SackView<'_>,
        via: PathId,
        paths: &Paths,
        group: &'g Group,
    ) -> SackSummary<'g> {
        let cum = self.outstanding.cum();
        self.recovery.on_cumulative(cum);
        let recovering = self.recovery.is_active();
        let acking = paths.iter().filter(|path| path.flight().newly_acked().is_some()).count();
        let mut newly_acked =
            paths.iter().map(|path| path.flight().newly_acked()).fold(None, Extent::union);
        if recovering && paths.iter().any(|path| path.flight().was_passed()) {
            // Section 7.2.4: in fast recovery such a SACK strikes all that it reports missing.
            newly_acked = Extent::with(newly_acked, highest.next());
        }
        let dac = self.rules.experiment.delayed_ack_cmt;
        let reports = if dac { Reports::new(sack.flags, acking) } else { Reports::ONE };
        // With copies the earliest chunk of a path is no longer one that only this path can deliver.
        let cwnd_update = (!self.copies.is_on()).then_some(self.rules.experiment.cwnd_update);
        SackSummary { now, via, cum, highest, newly_acked, reports, recovering, cwnd_update, group }
    }
}
