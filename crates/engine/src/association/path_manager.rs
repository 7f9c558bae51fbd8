//! Path management (RFC 9260 section 8): the parts of an association that it works on.

use super::state::State;
use super::tcb::Association;
use crate::event::AssociationId;
use crate::path::{Path, PathId, Paths};
use crate::send::Sender;

/// What supervises paths, without what the peer and the user say.
pub(crate) struct PathManager<'a> {
    pub(super) id: AssociationId,
    pub(super) state: &'a State,
    pub(super) sender: &'a mut Sender,
    pub(super) paths: &'a mut Paths,
    pub(super) keys_changed: &'a mut bool,
}

impl Association {
    pub(crate) fn path_manager(&mut self) -> PathManager<'_> {
        PathManager {
            id: self.id,
            state: &self.state,
            sender: &mut self.sender,
            paths: &mut self.paths,
            keys_changed: &mut self.keys_changed,
        }
    }
}

impl PathManager<'_> {
    /// A path, unless no HEARTBEATs are sent in this state.
    pub(super) fn probed(&mut self, id: PathId) -> Option<&mut Path> {
        self.paths.get_mut(id).filter(|_| self.state.sends_heartbeats())
    }
}
