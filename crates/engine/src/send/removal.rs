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
        path.t3 = None;
        if let Some(heir) = paths.get_mut(heir) {
            heir.cmt.lost.reported.extend(lost.reported.into_iter().chain(lost.timed_out));
            heir.cmt.cuc.forget();
            heir.booked += booked;
        }
        self.sack_path = self.sack_path.filter(|path| *path != id);
    }
}
