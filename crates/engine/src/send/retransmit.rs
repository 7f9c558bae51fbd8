//! Sending again what is lost: with T3-rtx (RFC 9260 section 6.3.3), with a path that is given up, and
//! because the peer has thrown it away.

use super::Sender;
use crate::path::{ChunkState, Loss, PathId, Paths};
use crate::tsn::Tsn64;

impl Sender {
    /// T3-rtx of `id` has expired. Returns true if that is no sign of a failing path: a zero-window
    /// probe that the peer goes on answering, so no error is to be counted.
    pub(crate) fn handle_t3(&mut self, id: PathId, paths: &mut Paths) -> bool {
        let Some(path) = paths.get_mut(id) else { return true };
        path.flight_mut().stop_t3();
        let awaits_forward = self.repeat_forward();
        if !path.flight().awaits_acknowledgement() {
            if awaits_forward {
                path.rtt_mut().back_off();
                return false;
            }
            self.treat_gap_acks_as_reneged(paths);
            return true;
        }
        if let Some(probe) = self.answered_probe(id) {
            self.lose(probe, paths, Loss::Reported);
            return true;
        }
        self.window.on_timeout();
        let group = paths.couple(self.usable(paths));
        let unknown = self.drop_copies(id, paths);
        if let Some(path) = paths.get_mut(id) {
            path.on_timeout(&group);
        }
        self.recovery.leave();
        self.give_up_flight(id, paths);
        unknown
    }

    /// Path `id` is not used any more: what is in flight on it goes to the others, if there are
    /// any, without waiting for T3-rtx.
    pub(crate) fn path_lost(&mut self, id: PathId, paths: &mut Paths) {
        let usable = self.usable(paths);
        if usable.contains(id) {
            return;
        }
        self.give_up_flight(id, paths);
        self.drop_copies(id, paths);
        self.hand_over_t3(id, usable.iter().next().unwrap_or(id), paths);
    }

    /// The probe of a closed window, if it is what is in flight on `id` and SACKs have answered it.
    fn answered_probe(&self, id: PathId) -> Option<Tsn64> {
        let probe = self.window.probe().filter(|_| self.window.is_answered())?;
        let chunk = self.outstanding.get(probe)?;
        let alone = chunk.record.path == id && self.in_flight == chunk.data_len();
        (alone && chunk.record.state == ChunkState::InFlight).then_some(probe)
    }

    /// All that is in flight on `id` is to be sent again.
    pub(super) fn give_up_flight(&mut self, id: PathId, paths: &mut Paths) {
        let Some(path) = paths.get_mut(id) else { return };
        for sent in path.flight_mut().take_sent() {
            if self.outstanding.is_live(id, sent) {
                self.lose(sent.tsn, paths, Loss::TimedOut);
            }
        }
    }

    /// Everything seems to be acknowledged but the cumulative TSN does not move: the peer has
    /// thrown away what it had acknowledged, and the SACK that said so was lost. Its gap reports
    /// are not believed any more.
    fn treat_gap_acks_as_reneged(&mut self, paths: &mut Paths) {
        let first = self.outstanding.cum().next();
        let first = self.outstanding.get(first);
        let reneged = first.is_some_and(|chunk| chunk.record.state == ChunkState::Acked);
        if !reneged || self.in_flight > 0 || self.lost > 0 {
            return;
        }
        let acked = core::mem::replace(&mut self.reported.acked, self.reported.released.clone());
        for tsn in acked.iter().flat_map(crate::ranges::Range::iter) {
            self.lose(tsn, paths, Loss::TimedOut);
        }
    }

    /// Chunk `tsn`, in flight or acknowledged in vain, is to be sent again.
    pub(super) fn lose(&mut self, tsn: Tsn64, paths: &mut Paths, loss: Loss) {
        let held = self.outstanding.get_mut(tsn);
        let Some(chunk) = held.filter(|chunk| !chunk.record.state.is_empty()) else { return };
        let Some(path) = paths.get_mut(chunk.record.path) else { return };
        let (was, data) = (chunk.record.state, chunk.data_len());
        path.on_lost(tsn, &mut chunk.tracked(), loss);
        match was {
            ChunkState::InFlight => self.on_lost(data),
            ChunkState::Acked => self.lost += data,
            ChunkState::Lost | ChunkState::Released | ChunkState::Abandoned => {}
        }
    }

    /// `data` bytes in flight are to be sent again.
    pub(super) fn on_lost(&mut self, data: usize) {
        self.in_flight = self.in_flight.saturating_sub(data);
        self.lost += data;
        self.window.on_lost(data);
    }
}
