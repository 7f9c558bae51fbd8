//! Sending again what is lost: with T3-rtx (RFC 9260 section 6.3.3), with a path that is given up, and
//! because the peer has thrown it away.

use super::Sender;
use super::outstanding::Outstanding;
use super::scoreboard::Scoreboard;
use crate::path::{ChunkState, Loss, PathId, Paths};

impl Sender {
    /// T3-rtx of `id` has expired. Returns true if that is no sign of a failing path: a zero-window
    /// probe that the peer goes on answering, so no error is to be counted.
    pub(crate) fn handle_t3(&mut self, id: PathId, paths: &mut Paths) -> bool {
        let Some(path) = paths.get_mut(id) else { return true };
        path.flight_mut().stop_t3();
        let awaits_forward = self.forward.on_timeout(&self.outstanding);
        if !path.flight().awaits_acknowledgement() {
            if awaits_forward {
                path.rtt_mut().back_off();
                return false;
            }
            treat_gap_acks_as_reneged(&mut self.scoreboard, &mut self.outstanding, paths);
            return true;
        }
        if let Some(probe) = self.outstanding.answered_probe(id) {
            self.outstanding.lose(probe, paths, Loss::Reported);
            return true;
        }
        self.outstanding.window_mut().on_timeout();
        let group = self.choice.couple(paths);
        let unknown = self.copies.drop_on(id, paths);
        if let Some(path) = paths.get_mut(id) {
            path.subflow_mut().on_timeout(&group);
        }
        self.detection.on_timeout();
        self.outstanding.give_up_flight(id, paths);
        unknown
    }

    /// Path `id` is not used any more: what is in flight on it goes to the others, if there are
    /// any, without waiting for T3-rtx.
    pub(crate) fn path_lost(&mut self, id: PathId, paths: &mut Paths) {
        let usable = self.choice.usable(paths);
        if usable.contains(id) {
            return;
        }
        self.outstanding.give_up_flight(id, paths);
        self.copies.drop_on(id, paths);
        self.outstanding.hand_over_t3(id, usable.iter().next().unwrap_or(id), paths);
    }
}

/// Everything seems to be acknowledged but the cumulative TSN does not move: the peer has
/// thrown away what it had acknowledged, and the SACK that said so was lost. Its gap reports
/// are not believed any more.
fn treat_gap_acks_as_reneged(
    scoreboard: &mut Scoreboard,
    outstanding: &mut Outstanding,
    paths: &mut Paths,
) {
    let first = outstanding.cum().next();
    let first = outstanding.get(first);
    let reneged = first.is_some_and(|chunk| chunk.record.state == ChunkState::Acked);
    if !reneged || !outstanding.is_quiet() {
        return;
    }
    let acked = scoreboard.forget_gap_acks();
    for tsn in acked.iter().flat_map(crate::ranges::Range::iter) {
        outstanding.lose(tsn, paths, Loss::TimedOut);
    }
}
