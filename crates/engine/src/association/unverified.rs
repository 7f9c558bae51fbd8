//! Paths to addresses at which the peer has not answered yet: it lists or adds them, but they may be somebody
//! else's (RFC 5062). What goes there shares one [`Allowance`](crate::allowance::Allowance), which the packets of the
//! peer fill. What exceeds it is counted and not sent, as if the network had lost it, so that every timer
//! runs on; a HEARTBEAT follows as soon as something has come. An address that the peer removes and adds
//! again is probed as if it had stayed.

use super::asconf::AddressChanges;
use super::context::Context;
use super::path_manager::Addressing;
use super::tcb::Association;
use crate::allowance::Allowance;
use crate::path::heartbeat::Probed;
use crate::path::{Path, PathAddr, PathId, Paths};
use manypath_wire::packet::CommonHeader;

/// A HEARTBEAT with no more than the information that we need, and padding of what is before it.
pub(super) const LARGEST_SMALL_HEARTBEAT: usize = 52;
/// Most paths of which the probing is remembered: as many as an association may have.
const MAX_REMEMBERED: usize = 32;

/// What may go to addresses at which the peer has not answered yet.
#[derive(Debug, Default)]
pub(super) struct Unverified {
    allowance: Allowance,
    /// HEARTBEATs wait for more of it.
    withholds: bool,
}

/// A packet of `len` bytes with our tag has come over `addr`. HEARTBEATs that were withheld leave, as many as it
/// allows, unless none are sent in the association's state.
pub(crate) fn earn(association: &mut Association, cx: &Context<'_>, addr: &PathAddr, len: usize) {
    let paths = (&mut association.paths, association.state.sends_heartbeats());
    association.unverified.earn(cx, paths, addr, len);
}

impl Unverified {
    fn earn(
        &mut self,
        cx: &Context<'_>,
        (paths, sends_heartbeats): (&mut Paths, bool),
        addr: &PathAddr,
        len: usize,
    ) {
        self.allowance.earn(cx.config.amplification_limit, addr, len);
        if !core::mem::take(&mut self.withholds) || !sends_heartbeats {
            return;
        }
        let mut left = self.allowance;
        for path in paths.iter_mut() {
            let needed = CommonHeader::LEN + LARGEST_SMALL_HEARTBEAT;
            if left.affords(&path.addr(), needed) && path.heartbeat_mut().retry() {
                left.spend(&path.addr(), needed);
            }
            self.withholds |= path.heartbeat().is_withheld();
        }
    }

    /// Whether a packet of `len` bytes may leave over `path` now.
    pub(super) fn affords(&self, path: &Path, len: usize) -> bool {
        path.health().is_verified() || self.allowance.affords(&path.addr(), len)
    }

    /// A packet of `len` bytes leaves over `id`. False if it must not.
    pub(super) fn spend(
        &mut self,
        cx: &mut Context<'_>,
        paths: &mut Paths,
        id: PathId,
        len: usize,
    ) -> bool {
        let Some(path) = paths.get_mut(id) else { return false };
        let may_leave = path.health().is_verified() || self.allowance.spend(&path.addr(), len);
        if !may_leave {
            path.heartbeat_mut().withhold();
            self.withholds = true;
            cx.counters.unverified_drops += 1;
        }
        may_leave
    }
}

impl Addressing<'_> {
    /// The path `id` is new. It is probed now, or as it was probed before.
    pub(super) fn begin_probing(&mut self, id: PathId) {
        let Some(path) = self.paths.get_mut(id) else { return };
        let changes = self.addresses.as_mut().filter(|_| !path.health().is_verified());
        match changes.and_then(|changes| changes.forget_probing(path.addr())) {
            Some(before) => {
                path.probe_as(before);
                self.unverified.withholds |= path.heartbeat().is_withheld();
            }
            None => path.heartbeat_mut().probe_now(),
        }
    }

    /// The path `id` is about to be removed. If it was probed in vain that is kept, for the peer may add its
    /// address again.
    pub(super) fn remember_probing(&mut self, id: PathId) {
        let Some(probed) = self.paths.get(id).and_then(Path::probed_in_vain) else { return };
        let Some(changes) = &mut self.addresses else { return };
        changes.forget_probing(probed.addr);
        if changes.probed.len() == MAX_REMEMBERED {
            changes.probed.remove(0);
        }
        changes.probed.push(probed);
    }
}

impl AddressChanges {
    fn forget_probing(&mut self, addr: PathAddr) -> Option<Probed> {
        let position = self.probed.iter().position(|probed| probed.addr == addr)?;
        Some(self.probed.remove(position))
    }
}
