//! Working a SACK in (RFC 9260 sections 6.2.1, 6.3.2, 7.2; the rules per path in `path::flight`).

use super::losses::Found;
use super::outstanding::{ChunkState, SentChunk};
use super::retransmit::{Loss, earliest_live};
use super::spurious::{Repetition, on_spurious};
use super::{SackView, Sender};
use crate::path::congestion::{Acked, Group};
use crate::path::flight::dac::Reports;
use crate::path::{
    Arrival, Cuc, Extent, FastRecoveryScope, News, Path, PathId, PathSet, Paths, Sent,
};
use crate::ranges::{Range, difference};
use crate::time::Instant;
use crate::tsn::Tsn64;

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
    /// Send buffer has become free.
    pub(crate) buffer_freed: bool,
}

/// What a SACK says about all paths, while conclusions are drawn for each.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) now: Instant,
    /// The highest TSN that it reports.
    pub(super) highest: Tsn64,
    /// TSNs newly acknowledged on all paths (RFC 9260's HTNA).
    pub(super) newly_acked: Option<Extent<Tsn64>>,
    /// How many missing reports it counts for.
    pub(super) reports: Reports,
    /// Whether the association was in fast recovery when it came.
    recovering: bool,
    group: &'a Group,
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
        let highest = self.read_blocks(cum, sack);
        if highest >= self.outstanding.next_tsn() {
            return Err("acknowledgement of a TSN that was never sent");
        }
        self.horizon = (!sack.is_complete()).then_some(highest);
        let buffered = self.buffered;
        self.sack_path = Some(via);
        if let Some(path) = paths.get_mut(via) {
            path.stats.spurious_probes += u64::from(path.cmt.silence.on_sack(now));
        }
        self.begin(paths);
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
        let facts = self.facts(now, highest, sack, (paths, &group));
        for path in paths.iter_mut() {
            self.settle(&facts, path, &mut outcome);
        }
        if core::mem::take(&mut self.abandonment.passed) {
            // Nothing that was sent is acknowledged by it, but the peer has answered.
            outcome.newly_acked = true;
            if let Some(path) = self.abandonment.forward.proven_path() {
                outcome.acked_paths.insert(path);
            }
        }
        self.prune_copies();
        self.advance_forward(now, true);
        self.guard(now, paths);
        if let Some(a_rwnd) = sack.a_rwnd.filter(|_| believed) {
            self.update_window(now, a_rwnd, paths);
        }
        outcome.silent_paths = self.silent_paths(now, paths);
        outcome.buffer_freed = self.buffered < buffered;
        self.fit_buffer(paths);
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

    /// Reads what the blocks tell that was not known; returns the highest TSN that they report.
    fn read_blocks(&mut self, cum: Tsn64, sack: &SackView<'_>) -> Tsn64 {
        let known = sack.ranges(cum, &self.acked, &mut self.blocks);
        self.known = (known, sack.nr_ranges(cum, &self.released, &mut self.nr_blocks));
        let last_known = known.checked_sub(1);
        let last_known =
            last_known.and_then(|last| self.acked.get(self.acked.index_beyond(cum) + last));
        self.blocks.last().copied().or(last_known).map_or(cum, |block| block.end)
    }

    fn begin(&self, paths: &mut Paths) {
        for path in paths.iter_mut() {
            path.cmt.news = News { flight_before: path.flight, ..News::default() };
            path.cmt.cuc.begin();
            self.look_for_earliest(path);
        }
    }

    /// Finds the chunks whose acknowledgement will be a pseudo-cumulative one.
    fn look_for_earliest(&self, path: &mut Path) {
        let (first, again) = path.cmt.cuc.wants();
        if first {
            let found = earliest_live(&self.outstanding, path.id, &mut path.cmt.first);
            path.cmt.cuc.found_first(found);
        }
        if again {
            let found = earliest_live(&self.outstanding, path.id, &mut path.cmt.again);
            path.cmt.cuc.found_again(found);
        }
    }

    fn take_cumulative(&mut self, now: Instant, cum: Tsn64, via: PathId, paths: &mut Paths) {
        while self.outstanding.cum() < cum {
            let tsn = self.outstanding.cum().next();
            if let Some(path) = self.on_acked(now, tsn, via, paths) {
                path.cmt.news.cum_advanced = true;
            }
            let Some(chunk) = self.outstanding.pop() else { break };
            self.abandonment.on_gone(tsn, &chunk.fragment);
            self.abandonment.passed |= chunk.state == ChunkState::Abandoned;
            if chunk.state != ChunkState::Released {
                self.release(&chunk, paths);
            }
        }
        self.acked.remove_up_to(cum);
        self.released.remove_up_to(cum);
    }

    /// The chunk is acknowledged for good.
    fn release(&mut self, chunk: &SentChunk, paths: &mut Paths) {
        self.buffered = self.buffered.saturating_sub(chunk.data_len());
        self.queue.on_acked(&chunk.fragment);
        if let Some(path) = paths.get_mut(chunk.path) {
            path.booked = path.booked.saturating_sub(chunk.data_len());
        }
    }

    /// What the peer will not renege on need not be kept.
    fn take_non_renegable(&mut self, paths: &mut Paths) {
        let mut fresh = core::mem::take(&mut self.fresh);
        fresh.clear();
        let blocks = self.nr_blocks.iter().copied();
        difference(blocks, self.released.iter_from(self.known.1), |range| fresh.push(range));
        for range in &fresh {
            for tsn in range.iter() {
                if let Some(chunk) = self.outstanding.release(tsn) {
                    self.release(&chunk, paths);
                }
            }
            self.released.insert(*range);
        }
        self.fresh = fresh;
    }

    fn take_gaps(&mut self, now: Instant, via: PathId, paths: &mut Paths) {
        let mut fresh = core::mem::take(&mut self.fresh);
        fresh.clear();
        let blocks = self.blocks.iter().copied();
        difference(blocks, self.acked.iter_from(self.known.0), |range| fresh.push(range));
        for range in &fresh {
            for tsn in range.iter() {
                self.on_acked(now, tsn, via, paths);
            }
            self.acked.insert(*range);
        }
        self.fresh = fresh;
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
        let mut revoked = core::mem::take(&mut self.fresh);
        revoked.clear();
        let acked = self.acked.iter_from(self.known.0);
        let reported = acked.take_while(|range| range.start <= highest);
        let reported = reported.map(|range| Range { end: range.end.min(highest), ..range });
        difference(reported, self.blocks.iter().copied(), |range| revoked.push(range));
        let mut believed = true;
        for tsn in revoked.iter().flat_map(|range| range.iter()) {
            believed &= self.revoke(now, tsn, via, paths);
        }
        self.fresh = revoked;
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
        let beyond = self.acked.iter_from(self.acked.index_beyond(highest));
        let first = |range: &Range| range.start.max(highest.next());
        let mut revoked = core::mem::take(&mut self.fresh);
        revoked.clear();
        revoked.extend(beyond.map(|range| Range { start: first(&range), ..range }));
        for tsn in revoked.iter().flat_map(|range| range.iter()) {
            if self.outstanding.get(tsn).is_some_and(|chunk| chunk.acked_via == via) {
                self.revoke(now, tsn, via, paths);
            }
        }
        self.fresh = revoked;
    }

    /// Section 6.2.1 rule D iii. Returns false if it is not believed.
    fn revoke(&mut self, now: Instant, tsn: Tsn64, via: PathId, paths: &mut Paths) -> bool {
        let Some(chunk) = self.outstanding.get_mut(tsn) else { return true };
        let witness = chunk.acked_via;
        if witness != via && paths.get(witness).is_some_and(Path::is_active) {
            return false;
        }
        if chunk.state.is_empty() {
            // The peer should go on reporting it, but that it does not do so proves nothing.
            return true;
        }
        let Some(path) = paths.get_mut(chunk.path) else { return false };
        chunk.state = ChunkState::InFlight;
        chunk.reneged = true;
        chunk.missing = 1;
        self.in_flight += chunk.data_len();
        path.flight += chunk.wire_len();
        let sent = Sent { number: chunk.number, tsn };
        let is_first = chunk.transmissions == 1;
        let order = if is_first { &mut path.cmt.first } else { &mut path.cmt.again };
        order.restore(sent);
        if path.t3.is_none() {
            path.restart_t3(now);
        }
        self.acked.remove(Range { start: tsn, end: tsn });
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
        let (from, to) = (chunk.from, paths.get(chunk.path)?);
        let in_vain = chunk.state == ChunkState::InFlight && is_for_earlier(now, chunk, to);
        if let Some(from) = paths.get_mut(from).filter(|_| in_vain) {
            let repetition = self.repetitions.take(tsn);
            on_spurious(tsn, from, repetition);
            from.cmt.silence.refute();
            if let Some(Repetition { sent, .. }) = repetition.filter(|_| from.id == via) {
                from.cmt.silence.on_late_acknowledgement(now, sent, &from.rtt);
            }
        }
        let path = paths.get_mut(chunk.path)?;
        let data = chunk.data_len();
        match core::mem::replace(&mut chunk.state, ChunkState::Acked) {
            ChunkState::Released => {
                chunk.state = ChunkState::Released;
                return None;
            }
            ChunkState::Abandoned => {
                chunk.state = ChunkState::Abandoned;
                return None;
            }
            ChunkState::Acked => return None,
            ChunkState::InFlight => {
                chunk.land(path);
                self.in_flight = self.in_flight.saturating_sub(data);
            }
            ChunkState::Lost => {
                if path.cmt.lost.reported.contains(&tsn) {
                    path.congestion.on_spurious();
                }
                path.cmt.lost.remove(tsn);
                self.lost = self.lost.saturating_sub(data);
            }
        }
        chunk.acked_via = via;
        chunk.missing = 0;
        note(now, tsn, chunk, path);
        Some(path)
    }

    /// Draws the conclusions for one path.
    fn settle(&mut self, facts: &Facts<'_>, path: &mut Path, outcome: &mut SackOutcome) {
        let Facts { now, group, .. } = *facts;
        self.look_for_earliest(path);
        self.leave_recovery(path);
        let news = path.cmt.news;
        path.stats.bytes_acked += news.acked as u64;
        if news.acked > 0 || news.tsns.is_some() {
            outcome.newly_acked = true;
            path.cmt.one_packet = false;
            path.cmt.tail_probe.on_heard(now);
        }
        if news.proves_path && !self.is_old_news(path) {
            outcome.acked_paths.insert(path.id);
        }
        if let Some(rtt) = news.rtt.filter(|_| !self.is_delivered_before(path)) {
            path.rtt.on_data_sample(now, rtt);
        }
        let recovering = facts.recovering || path.cmt.recovery.is_active();
        // With copies the earliest chunk of a path is no longer one that only this path can deliver.
        let advanced = self.copies.is_on() || self.rules.cwnd_update.advances(&news, &path.cmt.cuc);
        let window = path.congestion.window();
        grow(facts, path, (advanced, recovering));
        let opened = path.congestion.window().saturating_sub(window);
        let (chunk_limit, smoothed) = (path.congestion.chunk_limit(), path.rtt.smoothed());
        path.burst.on_sack(now, (path.flight, news.acked + opened), chunk_limit, smoothed);
        let found = self.look_for_losses(facts, path);
        self.respond(now, (found, facts.recovering), path, group);
        if path.flight + path.hidden == 0 {
            path.t3 = None;
        } else if news.cum_advanced || (news.earliest_acked && self.rules.smart_t3) {
            // Rule R3; a chunk of the path that was blocked by another path's loss counts as well
            // (smart T3), or every path would time out behind the blocked cumulative TSN.
            path.restart_t3(now);
        }
        self.note_sounds(now, path);
    }

    fn leave_recovery(&self, path: &mut Path) {
        let was_recovering = path.cmt.recovery.is_active();
        path.cmt.recovery.on_sack(self.outstanding.cum(), &path.cmt.cuc);
        if was_recovering && !path.cmt.recovery.is_active() {
            path.cmt.rack.on_recovered();
        }
    }

    /// Looks for chunks and copies that the SACK shows to be lost.
    fn look_for_losses(&mut self, facts: &Facts<'_>, path: &mut Path) -> Found {
        let news = path.cmt.news;
        let mut found = match news.numbers {
            Some(numbers) if self.is_racking() => {
                self.find_losses(facts.now, Some((numbers, news.count)), path)
            }
            Some(_) | None if self.is_racking() => Found::default(),
            Some(_) | None => Found { any: self.strike(facts, path), ..Found::default() },
        };
        found.any |= self.lose_copies(facts.now, path);
        found.any |= path.cmt.tail_probe.has_repaired(path.cmt.rack.newest());
        found
    }

    /// Chunks of `path` were found lost, with the association in fast recovery before or not. Returns
    /// whether its window is to be cut for it.
    pub(super) fn enter_recovery(&mut self, recovering: bool, path: &mut Path) -> bool {
        match self.rules.fast_recovery {
            FastRecoveryScope::Path => {
                let exit = path.cmt.recovery_exit(self.outstanding.cum());
                path.cmt.recovery.enter(exit)
            }
            FastRecoveryScope::Association => {
                self.recovery.enter(Some(self.outstanding.next_tsn().before()));
                !recovering
            }
            FastRecoveryScope::None => true,
        }
    }

    fn facts<'g>(
        &mut self,
        now: Instant,
        highest: Tsn64,
        sack: &SackView<'_>,
        (paths, group): (&Paths, &'g Group),
    ) -> Facts<'g> {
        self.recovery.on_sack(self.outstanding.cum(), &Cuc::default());
        let recovering = self.recovery.is_active();
        let acking = paths.iter().filter(|path| path.cmt.news.tsns.is_some()).count();
        let all = paths.iter().map(|path| path.cmt.news.tsns);
        let mut newly_acked = all.fold(None, Extent::union);
        if recovering && paths.iter().any(|path| path.cmt.news.cum_advanced) {
            // Section 7.2.4: in fast recovery such a SACK strikes all that it reports missing.
            newly_acked = Extent::with(newly_acked, highest.next());
        }
        let dac = self.rules.delayed_ack_cmt;
        Facts {
            now,
            highest,
            newly_acked,
            reports: if dac { Reports::new(sack.flags, acking) } else { Reports::ONE },
            recovering,
            group,
        }
    }

    /// A timer must run while anything is outstanding: see `Sender::distrust`.
    fn guard(&self, now: Instant, paths: &mut Paths) {
        if self.in_flight > 0 || self.lost > 0 {
            return;
        }
        let first = self.outstanding.get(self.outstanding.cum().next());
        if let Some(path) = first.and_then(|chunk| paths.get_mut(chunk.path)) {
            path.restart_t3(now);
        }
    }

    fn update_window(&mut self, now: Instant, a_rwnd: u32, paths: &mut Paths) {
        let rwnd = (a_rwnd as usize).saturating_sub(self.in_flight);
        let outstanding = &self.outstanding;
        let is_acked = |tsn| outstanding.get(tsn).is_none_or(|chunk| !chunk.state.is_open());
        let needed = self.fragment_size(paths);
        let Some(probe) = self.window.on_sack(now, rwnd, needed, is_acked) else { return };
        let sent = self.outstanding.get(probe);
        if sent.is_some_and(|chunk| chunk.state == ChunkState::InFlight) {
            self.lose(probe, paths, Loss::Reported);
        }
    }
}

/// Enters a newly acknowledged chunk into the news of the path of its last transmission.
fn note(now: Instant, tsn: Tsn64, chunk: &SentChunk, path: &mut Path) {
    let age = now.since(chunk.last_sent);
    // An acknowledgement that comes a second time says nothing about the round trip.
    let once = chunk.transmissions == 1 && !chunk.reneged;
    let earlier = is_for_earlier(now, chunk, path);
    let sure = once || (path.rtt.least().is_some() && !earlier);
    // Then the path that it was sent on before has delivered it.
    let elsewhere = earlier && chunk.from != path.id;
    path.cmt.loss_rate.on_acked();
    // What was acknowledged before has widened the window then: a receiver that takes reports back and
    // gives them again must not widen it each time.
    if !chunk.reneged {
        if !elsewhere {
            path.congestion.on_chunk_acked(now, sure.then_some(chunk.number), chunk.wire_len());
        }
        path.cmt.news.acked += chunk.wire_len();
    }
    if sure {
        path.on_passed(chunk.large);
        match chunk.capable {
            true => path.ecn.on_capable_passed(),
            false => path.ecn.on_plain_passed(),
        }
    }
    let news = &mut path.cmt.news;
    news.earliest_acked |= path.cmt.cuc.on_acked(tsn);
    news.proves_path |= !chunk.moved;
    if once {
        news.rtt = Some(news.rtt.map_or(age, |rtt| rtt.min(age)));
    }
    // Of a chunk that was sent more than once it is not known which transmission has arrived. Too
    // early an acknowledgement cannot be for the last one, which then says nothing about others.
    if sure {
        news.numbers = Extent::with(news.numbers, chunk.number);
        news.count = news.count.saturating_add(1);
        news.sent = Extent::with(news.sent, chunk.last_sent);
        let (number, sent) = (chunk.number, chunk.last_sent);
        path.cmt.rack.on_arrival(now, Arrival { number, tsn, sent, once });
    }
    let news = &mut path.cmt.news;
    news.tsns = Extent::with(news.tsns, tsn);
    if !chunk.timed_out {
        news.sure_tsns = Extent::with(news.sure_tsns, tsn);
    }
}

/// Whether an acknowledgement comes too early to be for the last transmission of a chunk on `path`.
fn is_for_earlier(now: Instant, chunk: &SentChunk, path: &Path) -> bool {
    let least = path.rtt.least().unwrap_or_default();
    chunk.transmissions > 1 && now.since(chunk.last_sent) < least
}

/// Widens the window of a path (section 7.2.1, 7.2.2; CUC).
fn grow(facts: &Facts<'_>, path: &mut Path, (advanced, recovering): (bool, bool)) {
    let Facts { now, group, .. } = *facts;
    let news = path.cmt.news;
    let window_used = used_window(now, path) >= path.congestion.window();
    let acked = Acked {
        now,
        bytes: news.acked,
        advanced,
        window_used,
        recovering,
        in_flight: path.flight,
        newest: news.numbers.map(|numbers| numbers.most),
        sent: path.cmt.transmissions,
        rtt: news.rtt,
        srtt: path.rtt.smoothed(),
        least_rtt: path.rtt.least(),
    };
    path.congestion.on_acked(&acked, group);
}

/// How much of the window was in use when what is acknowledged now was under way. The window counts
/// as full also if it was so within the last round trip: what is acknowledged now left when it was,
/// even if another SACK of the same batch came first.
pub(super) fn used_window(now: Instant, path: &Path) -> usize {
    let round_trip = path.rtt.smoothed().unwrap_or_default();
    let full = path.window_filled.is_some_and(|filled| now.since(filled) <= round_trip);
    let before = path.cmt.news.flight_before;
    if full { before.max(path.congestion.window()) } else { before }
}
