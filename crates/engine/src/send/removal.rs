//! A path leaves the association (RFC 5061 section 5.3): what it carried goes to another.

use super::Sender;
use super::outstanding::Outstanding;
use crate::path::{PathId, Paths};

impl Sender {
    /// Path `id` is about to be removed. What is in flight on it is sent again; that and what was
    /// acknowledged but not cumulatively counts as sent on `heir` from now on.
    pub(crate) fn hand_over(&mut self, id: PathId, heir: PathId, paths: &mut Paths) {
        self.outstanding.give_up_flight(id, paths);
        self.copies.drop_on(id, paths);
        for chunk in self.outstanding.iter_mut() {
            if chunk.record.path == id {
                chunk.record.path = heir;
                chunk.record.moved = true;
            }
            if chunk.record.from == id {
                chunk.record.from = heir;
            }
        }
        let Some(path) = paths.get_mut(id) else { return };
        let (lost, booked) = path.flight_mut().take_estate();
        self.outstanding.hand_over_t3(id, heir, paths);
        if let Some(heir) = paths.get_mut(heir) {
            heir.flight_mut().inherit(lost, booked);
        }
        self.scoreboard.forget_path(id);
    }
}

impl Outstanding {
    /// T3-rtx of `id` stops. If it was to repeat a FORWARD-TSN (RFC 3758 section 3.5 rule C5), or to find
    /// that the peer has thrown away what it had acknowledged, `heir` goes on with that.
    pub(super) fn hand_over_t3(&self, id: PathId, heir: PathId, paths: &mut Paths) {
        let t3 = paths.get_mut(id).and_then(|path| path.flight_mut().stop_t3());
        let only_it = self.is_quiet() && !self.is_empty();
        if let Some(heir) = paths.get_mut(heir).filter(|_| only_it && id != heir) {
            heir.flight_mut().adopt_t3(t3);
        }
    }
}
