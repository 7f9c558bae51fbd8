//! Path management (RFC 9260 section 8): the parts of an association that it works on.

use super::asconf::AddressChanges;
use super::control::ControlQueue;
use super::handshake::Handshake;
use super::state::State;
use super::tcb::Association;
use super::unverified::Unverified;
use crate::event::AssociationId;
use crate::path::{Path, PathId, Paths};
use crate::send::Sender;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

/// What supervises paths, without what the peer and the user say.
pub(crate) struct PathManager<'a> {
    pub(super) id: AssociationId,
    pub(super) state: &'a State,
    pub(super) sender: &'a mut Sender,
    pub(super) paths: &'a mut Paths,
    pub(super) keys_changed: &'a mut bool,
}

/// The same with what concerns addresses that come and go.
pub(crate) struct Addressing<'a> {
    pub(super) id: AssociationId,
    pub(super) state: &'a State,
    pub(super) sender: &'a mut Sender,
    pub(super) paths: &'a mut Paths,
    pub(super) keys_changed: &'a mut bool,
    pub(super) addresses: &'a mut Option<Box<AddressChanges>>,
    pub(super) handshake: &'a mut Handshake,
    pub(super) peer_addresses: &'a mut Vec<IpAddr>,
    pub(super) control: &'a mut ControlQueue,
    pub(super) unverified: &'a mut Unverified,
}

impl Association {
    pub(crate) fn addressing(&mut self) -> Addressing<'_> {
        Addressing {
            id: self.id,
            state: &self.state,
            sender: &mut self.sender,
            paths: &mut self.paths,
            keys_changed: &mut self.keys_changed,
            addresses: &mut self.addresses,
            handshake: &mut self.handshake,
            peer_addresses: &mut self.peer_addresses,
            control: &mut self.control,
            unverified: &mut self.unverified,
        }
    }

    pub(crate) fn path_manager(&mut self) -> PathManager<'_> {
        let Addressing { id, state, sender, paths, keys_changed, .. } = self.addressing();
        PathManager { id, state, sender, paths, keys_changed }
    }
}

impl Addressing<'_> {
    pub(super) fn path_manager(&mut self) -> PathManager<'_> {
        let Self { id, state, sender, paths, keys_changed, .. } = self;
        PathManager { id: *id, state, sender, paths, keys_changed }
    }
}

impl PathManager<'_> {
    /// A path, unless no HEARTBEATs are sent in this state.
    pub(super) fn probed(&mut self, id: PathId) -> Option<&mut Path> {
        self.paths.get_mut(id).filter(|_| self.state.sends_heartbeats())
    }
}
