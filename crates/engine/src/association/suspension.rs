//! Local addresses whose link is down, or that have gone without the peer knowing it yet.
//!
//! Nothing is sent from there, what was in flight goes to the other paths at once, and no error is
//! counted: that our own link is down says nothing about the peer.

use super::context::Context;
use super::path_manager::{Addressing, PathManager};
use crate::path::{PathId, PathState};
use core::net::IpAddr;

impl Addressing<'_> {
    /// The peer probes the path `via`: if it does not work for us, it may do so again.
    pub(super) fn on_probed(&mut self, cx: &Context<'_>, via: PathId) {
        if self.addresses.is_none() || !self.state.sends_heartbeats() {
            return;
        }
        if let Some(path) = self.paths.get_mut(via).filter(|path| path.health().has_failed()) {
            path.heartbeat_mut().probe_again(cx.now);
        }
    }
}

impl PathManager<'_> {
    /// Our address `local` cannot be used for now.
    pub(crate) fn suspend_source(&mut self, cx: &mut Context<'_>, local: IpAddr) {
        let ids = self.paths.ids(|it| it.addr().local.ip() == local && !it.health().is_suspended());
        for id in &ids {
            if self.paths.get(*id).is_some_and(|path| path.health().is_confirmed()) {
                self.set_path_state(cx, *id, PathState::Inactive);
            }
        }
        for id in ids {
            if let Some(path) = self.paths.get_mut(id) {
                path.suspend();
            }
            self.sender.path_lost(id, self.paths);
        }
    }

    /// Our address `local` can be used again: its paths are used at once, and probed.
    pub(crate) fn resume_source(&mut self, cx: &mut Context<'_>, local: IpAddr) {
        for id in self.paths.ids(|it| it.addr().local.ip() == local && it.health().is_suspended()) {
            let Some(path) = self.paths.get_mut(id) else { continue };
            path.resume(cx.now, cx.config);
            if path.health().is_confirmed() {
                self.set_path_state(cx, id, PathState::Active);
            }
            self.probe(id);
        }
    }

    /// This host itself was away for a while: what was in flight is lost, errors say nothing about the peer, and every
    /// path is asked.
    pub(crate) fn resume(&mut self, cx: &Context<'_>) {
        let heartbeats = self.state.sends_heartbeats();
        for path in self.paths.iter_mut().filter(|path| !path.health().is_suspended()) {
            path.resume(cx.now, cx.config);
            if heartbeats {
                path.heartbeat_mut().probe_now();
            }
        }
    }

    /// Something may have mended the paths that do not work.
    pub(crate) fn probe_failed_paths(&mut self, cx: &Context<'_>) {
        if !self.state.sends_heartbeats() {
            return;
        }
        for path in self.paths.iter_mut().filter(|path| path.health().has_failed()) {
            path.heartbeat_mut().probe_again(cx.now);
        }
    }
}
