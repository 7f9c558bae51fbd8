//! Giving what a SACK tells to the chunks and their paths (RFC 9260 section 6.2.1): each chunk is acknowledged,
//! released or revoked once, on the path of its last transmission. It borrows what that takes; the conclusions for each
//! path are drawn afterwards (`sack_processing`).

use super::abandonment::Abandonment;
use super::buffer::SendBuffer;
use super::copies::Copies;
use super::outstanding::{Outstanding, SentChunk};
use super::queue::SendQueue;
use super::scoreboard::Scoreboard;
use super::spurious::Repetitions;
use super::{SackView, Sender};
use crate::path::{ChunkState, Path, PathId, Paths};
use crate::time::Instant;
use crate::tsn::Tsn64;

/// One SACK, which arrived over `via`.
pub(super) struct Distribution<'a> {
    now: Instant,
    via: PathId,
    scoreboard: &'a mut Scoreboard,
    outstanding: &'a mut Outstanding,
    queue: &'a mut SendQueue,
    buffer: &'a mut SendBuffer,
    abandonment: &'a mut Abandonment,
    repetitions: &'a mut Repetitions,
    copies: &'a mut Copies,
    paths: &'a mut Paths,
}

impl Sender {
    pub(super) fn distribution<'a>(
        &'a mut self,
        now: Instant,
        via: PathId,
        paths: &'a mut Paths,
    ) -> Distribution<'a> {
        Distribution {
            now,
            via,
            scoreboard: &mut self.scoreboard,
            outstanding: &mut self.outstanding,
            queue: &mut self.queue,
            buffer: &mut self.buffer,
            abandonment: &mut self.abandonment,
            repetitions: &mut self.repetitions,
            copies: &mut self.copies,
            paths,
        }
    }
}

impl Distribution<'_> {
    /// Works in what the scoreboard has read of `sack`, with blocks up to `highest`. Returns whether the SACK may be
    /// taken for the latest.
    #[inline]
    pub(super) fn run(&mut self, cum: Tsn64, highest: Tsn64, sack: &SackView<'_>) -> bool {
        for path in self.paths.iter_mut() {
            let id = path.id();
            path.flight_mut().begin_sack(|sent| self.outstanding.is_live(id, sent));
        }
        self.take_cumulative(cum);
        let has_gaps = self.scoreboard.has_gaps();
        let believed = !has_gaps || self.take_revoked(highest);
        if has_gaps && sack.is_complete() {
            self.take_revoked_beyond(highest);
        }
        if has_gaps {
            self.take_gaps();
        }
        let cum = self.outstanding.cum();
        self.copies.on_duplicates(self.now, sack.duplicates, cum, self.via, self.paths);
        if has_gaps {
            self.take_non_renegable();
        }
        believed
    }

    fn take_cumulative(&mut self, cum: Tsn64) {
        while self.outstanding.cum() < cum {
            let tsn = self.outstanding.cum().next();
            if let Some(path) = self.on_acked(tsn) {
                path.flight_mut().on_passed_by();
            }
            let Some(chunk) = self.outstanding.pop() else { break };
            self.abandonment.on_gone(tsn, &chunk);
            if chunk.record.state != ChunkState::Released {
                self.release(&chunk);
            }
        }
        self.scoreboard.on_cumulative(cum);
    }

    /// The chunk is acknowledged for good.
    fn release(&mut self, chunk: &SentChunk) {
        self.buffer.give_back(chunk.data_len());
        self.queue.on_acked(&chunk.fragment);
        if let Some(path) = self.paths.get_mut(chunk.record.path) {
            path.flight_mut().release(chunk.data_len());
        }
    }

    /// What the peer will not renege on need not be kept.
    fn take_non_renegable(&mut self) {
        let fresh = self.scoreboard.newly_released();
        for range in &fresh {
            for tsn in range.iter() {
                if let Some(chunk) = self.outstanding.release(tsn) {
                    self.release(&chunk);
                }
            }
            self.scoreboard.on_released(*range);
        }
        self.scoreboard.recycle(fresh);
    }

    fn take_gaps(&mut self) {
        let fresh = self.scoreboard.newly_acked();
        for range in &fresh {
            for tsn in range.iter() {
                self.on_acked(tsn);
            }
            self.scoreboard.on_acked(*range);
        }
        self.scoreboard.recycle(fresh);
    }

    /// Chunks that were reported before and are not any more: either the peer threw them away, or
    /// the SACK is an older one that was overtaken on another path. It is believed only if it came
    /// over the path of the SACK that had acknowledged the chunk, or if that path has failed.
    /// Returns whether the SACK may be taken for the latest.
    fn take_revoked(&mut self, highest: Tsn64) -> bool {
        let revoked = self.scoreboard.revoked(highest);
        let mut believed = true;
        for tsn in revoked.iter().flat_map(|range| range.iter()) {
            believed &= self.revoke(tsn);
        }
        self.scoreboard.recycle(revoked);
        believed
    }

    /// The same for chunks beyond all that a SACK reports, which has left out nothing for lack of
    /// room. Here an overtaken SACK cannot be told from one that revokes, so only one over the path
    /// of the acknowledgement counts.
    fn take_revoked_beyond(&mut self, highest: Tsn64) {
        let revoked = self.scoreboard.reported_beyond(highest);
        for tsn in revoked.iter().flat_map(|range| range.iter()) {
            if self.outstanding.get(tsn).is_some_and(|chunk| chunk.record.acked_via == self.via) {
                self.revoke(tsn);
            }
        }
        self.scoreboard.recycle(revoked);
    }

    /// Section 6.2.1 rule D iii. Returns false if it is not believed.
    fn revoke(&mut self, tsn: Tsn64) -> bool {
        let Some(chunk) = self.outstanding.get_mut(tsn) else { return true };
        let witness = chunk.record.acked_via;
        if witness != self.via && self.paths.is_active(witness) {
            return false;
        }
        if chunk.record.state.is_empty() {
            // The peer should go on reporting it, but that it does not do so proves nothing.
            return true;
        }
        let Some(path) = self.paths.get_mut(chunk.record.path) else { return false };
        let data = chunk.data_len();
        path.subflow_mut().on_reneged(self.now, tsn, chunk.tracked());
        self.outstanding.on_reneged(data);
        self.scoreboard.on_revoked(tsn);
        true
    }

    /// Chunk `tsn` is reported. Returns the path of its last transmission if that is news.
    fn on_acked(&mut self, tsn: Tsn64) -> Option<&mut Path> {
        let (now, via) = (self.now, self.via);
        if self.copies.is_on() {
            Copies::attribute(now, tsn, via, self.outstanding, self.paths);
        }
        let chunk = self.outstanding.get_mut(tsn)?;
        let record = &chunk.record;
        let is_repeated = record.state == ChunkState::InFlight && record.transmissions > 1;
        if is_repeated
            && record.is_too_early(now, self.paths.get(record.path)?.rtt())
            && let Some(from) = self.paths.get_mut(record.from)
        {
            let repetition = self.repetitions.take(tsn);
            let sent = repetition.filter(|_| from.id() == via).map(|it| it.sent);
            from.subflow_mut().on_spurious(tsn, repetition.is_some_and(|it| it.reported));
            from.subflow_mut().on_late_delivery(now, sent);
        }
        let path = self.paths.get_mut(chunk.record.path)?;
        let (was, data) = (chunk.record.state, chunk.data_len());
        if !was.is_open() {
            return None;
        }
        chunk.record.acked_via = via;
        path.on_acked(now, tsn, chunk.tracked());
        self.outstanding.on_done(was, data);
        Some(path)
    }
}
