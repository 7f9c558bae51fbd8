//! A path leaves the association (RFC 5061 section 5.3): what it carried goes to another.

use super::Sender;
use crate::path::{PathId, Paths};

impl Sender {
    /// Path `id` is about to be removed. What is in flight on it is sent again; that and what was
    /// acknowledged but not cumulatively counts as sent on `heir` from now on.
    pub(crate) fn hand_over(&mut self, id: PathId, heir: PathId, paths: &mut Paths) {
        self.give_up_flight(id, paths);
        self.drop_copies(id, paths);
        self.copies.forget(id);
        for chunk in self.outstanding.iter_mut() {
            if chunk.path == id {
                chunk.path = heir;
                chunk.moved = true;
            }
            if chunk.from == id {
                chunk.from = heir;
            }
        }
        let Some(path) = paths.get_mut(id) else { return };
        let lost = core::mem::take(&mut path.cmt.lost);
        let booked = core::mem::take(&mut path.booked);
        self.hand_over_t3(id, heir, paths);
        if let Some(heir) = paths.get_mut(heir) {
            heir.cmt.lost.reported.extend(lost.reported.into_iter().chain(lost.timed_out));
            heir.cmt.cuc.forget();
            heir.booked += booked;
        }
        self.sack_path = self.sack_path.filter(|path| *path != id);
    }

    /// T3-rtx of `id` stops. If it was to repeat a FORWARD-TSN (RFC 3758 section 3.5 rule C5), or to find
    /// that the peer has thrown away what it had acknowledged, `heir` goes on with that.
    pub(super) fn hand_over_t3(&self, id: PathId, heir: PathId, paths: &mut Paths) {
        let t3 = paths.get_mut(id).and_then(|path| path.t3.take());
        let only_it = self.in_flight == 0 && self.lost == 0 && !self.outstanding.is_empty();
        if let Some(heir) = paths.get_mut(heir).filter(|_| only_it && id != heir) {
            heir.t3 = heir.t3.or(t3);
        }
    }
}
